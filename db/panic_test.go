package db

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// hangTime is how long a call may take that must not hang: no test waits for
// so long unless it fails.
const hangTime = time.Minute

// finishes runs fn and fails the test if it hangs.
func finishes(t testing.TB, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	select {
	case <-done:
	case <-time.After(hangTime):
		buf := make([]byte, 1<<20)
		t.Fatalf("%s hangs:\n%s", what, buf[:runtime.Stack(buf, true)])
	}
}

// trapped is a context that does something the n-th time it is asked.
type trapped struct {
	context.Context
	left int
	trap func()
}

func (c *trapped) Err() error {
	if c.left--; c.left == 0 {
		c.trap()
	}
	return nil
}

// The leader of a commit group panics, or its goroutine ends, in code of a caller,
// before anything is written. That write fails; the followers and all later writes
// succeed.
func TestLeaderPanics(t *testing.T) {
	traps := map[string]func(){
		"panic": func() { panic("a panic on the way") },
		"exit":  runtime.Goexit,
	}
	for name, trap := range traps {
		for left := 1; left <= 4; left++ {
			vdb := open(t, t.TempDir(), nil)
			c := collection(t, vdb, "c", Schema{})
			upsert(t, c, Document{ID: "a", Metadata: Metadata{"a": 1}})
			others := make(chan error, 8)
			sprung := false
			ctx := &trapped{Context: t.Context(), left: left, trap: func() {
				sprung = true
				if left > 1 { // this one leads: others wait behind it
					for i := range cap(others) {
						go func() {
							_, err := c.Upsert(t.Context(), Document{ID: fmt.Sprint("other ", i)})
							others <- err
						}()
					}
					untilWaiting(vdb, cap(others))
				} else {
					for range cap(others) {
						others <- nil
					}
				}
				trap()
			}}
			var err error
			finishes(t, "the delete", func() {
				defer func() {
					if r := recover(); r != nil && left > 1 {
						t.Errorf("%s %d: the panic of the leader came through: %v", name, left, r)
					}
				}()
				_, err = c.DeleteWhere(ctx, filter.Eq("a", int64(1)))
			})
			if !sprung {
				if err != nil {
					t.Error(err)
				}
				continue
			}
			if left > 1 && name == "panic" && (err == nil || !strings.Contains(err.Error(), "a panic on the way") || errors.Is(err, ErrUnknown)) {
				t.Errorf("%s %d: the delete returned %v", name, left, err)
			}
			finishes(t, "a write after a panic", func() {
				for range cap(others) {
					if err := <-others; err != nil {
						t.Errorf("%s %d: a write behind it: %v", name, left, err)
					}
				}
				upsert(t, c, Document{ID: "b"})
			})
			if d, err := c.Get(t.Context(), "a", Everything); err != nil || d == nil {
				t.Errorf("%s %d: what was not deleted: %v, %v", name, left, d, err)
			}
		}
	}
}

// A panic inside the engine, at any file operation, while several goroutines write,
// flush and compact: every call returns, none panics, and acknowledged writes are
// there after opening again. From then on writes work, or are refused with
// ErrUnknown; they never wait.
func TestPanicAtEveryStep(t *testing.T) {
	kinds := []vfs.Kind{vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpPreallocate, vfs.OpRename, vfs.OpRemove, vfs.OpSyncDir, vfs.OpMap, vfs.OpOpen}
	for _, kind := range kinds {
		for _, dir := range []string{"wal/", "seg/", "tmp/", "."} {
			for _, background := range []bool{false, true} {
				what := fmt.Sprintf("%v in %s, background %v", kind, dir, background)
				var armed atomic.Bool
				var struck atomic.Int32
				hook := func(op vfs.Op) error {
					if op.Kind == kind && strings.HasPrefix(op.Name, dir) && armed.CompareAndSwap(true, false) {
						struck.Add(1)
						panic("struck: " + what)
					}
					return nil
				}
				root := t.TempDir()
				opts := &Options{HeadSize: 4 << 10, tests: testOptions{codedBytes: 1, hook: hook}}
				vdb, err := Open(root, opts)
				if err != nil {
					t.Fatal(err)
				}
				c := collection(t, vdb, "c", Schema{Dim: 4, Text: &TextIndex{}})
				var mu sync.Mutex
				acked := map[string]bool{}
				put := func(id string) error {
					_, err := c.Upsert(t.Context(), Document{ID: id, Vector: []float32{1, 2, 3, 4}, Text: "some text"})
					if err == nil {
						mu.Lock()
						acked[id] = true
						mu.Unlock()
					}
					return err
				}
				for i := range 10 {
					if err := put(fmt.Sprint("before ", i)); err != nil {
						t.Fatal(err)
					}
				}
				armed.Store(true)
				finishes(t, what, func() {
					var wait sync.WaitGroup
					for w := range 3 {
						wait.Go(func() {
							for i := range 25 {
								if err := put(fmt.Sprint(w, " ", i)); err != nil && struck.Load() == 0 {
									t.Errorf("%s: write: %v", what, err)
								}
							}
						})
					}
					wait.Wait()
					if !background {
						for _, do := range []func(context.Context) error{vdb.Flush, vdb.Compact, vdb.Flush} {
							if err := do(t.Context()); err != nil && struck.Load() == 0 {
								t.Errorf("%s: %v", what, err)
							}
						}
					}
					if err := put("last"); err != nil && (!errors.Is(err, ErrUnknown) || must(vdb.Stats()).Failed == "") {
						t.Errorf("%s: a write at the end: %v, failed %q", what, err, must(vdb.Stats()).Failed)
					}
					armed.Store(false)
					if err := vdb.Close(); err != nil && struck.Load() == 0 {
						t.Errorf("%s: close: %v", what, err)
					}
				})
				again := open(t, root, nil)
				c = existing(t, again, "c")
				for id := range acked {
					if _, err := c.Get(t.Context(), id, Everything); err != nil {
						t.Errorf("%s: %q was acknowledged: %v", what, id, err)
					}
				}
				if report, err := again.Check(t.Context(), CheckBytes); err != nil || !report.OK() {
					t.Errorf("%s: check: %+v, %v", what, report, err)
				}
				if err := again.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// Work in the background that fails, or panics, is on record until it succeeds.
func TestBackgroundErrorIsOnRecord(t *testing.T) {
	vdb := open(t, t.TempDir(), nil)
	vdb.engine.Maintain("work", func() error { panic("oh no") })
	vdb.engine.Maintain("other work", func() error {
		return &CorruptError{File: "seg/00000001.vec", Offset: 7, Err: errors.New("bits")}
	})
	want := "other work: corrupt file seg/00000001.vec at offset 7: bits\nwork: panic: oh no"
	if got := must(vdb.Stats()).BackgroundError; got != want {
		t.Errorf("trouble %q, want %q", got, want)
	}
	vdb.engine.Maintain("work", func() error { return context.Canceled })
	if got := must(vdb.Stats()).BackgroundError; got != want {
		t.Errorf("trouble %q, want %q", got, want)
	}
	vdb.engine.Maintain("other work", func() error { return nil })
	vdb.engine.Maintain("work", func() error { return nil })
	if got := must(vdb.Stats()).BackgroundError; got != "" {
		t.Errorf("trouble %q that is over", got)
	}
}
