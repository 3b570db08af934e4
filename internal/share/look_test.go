package share_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/share"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A waitingContext runs a function whenever somebody is about to wait for its end.
type waitingContext struct {
	context.Context
	waits func()
}

func (c waitingContext) Done() <-chan struct{} {
	c.waits()
	return c.Context.Done()
}

// onMessage runs a function for a message of the log.
type onMessage struct {
	slog.Handler
	part string
	run  func()
}

func (o onMessage) Enabled(context.Context, slog.Level) bool { return true }

func (o onMessage) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, o.part) {
		o.run()
	}
	return nil
}

// readsAlone returns a process that only reads, and has 1 document, beside a database that has 2.
func readsAlone(t *testing.T, log slog.Handler) (dir string, reader *db.DB, docs *db.Collection) {
	t.Helper()
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	dir = filepath.Join(t.TempDir(), "db")
	put := func(id string) {
		t.Helper()
		vdb, err := db.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := vdb.OpenCollection(t.Context(), "notes", db.Schema{})
		if err == nil {
			_, err = c.Insert(t.Context(), db.Document{ID: id})
		}
		if err = errors.Join(err, vdb.Close()); err != nil {
			t.Fatal(err)
		}
	}
	put("a")
	reader, err := db.Open(dir, &db.Options{ReadOnly: true, Logger: slog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
	})
	if docs, err = reader.Collection("notes"); err != nil {
		t.Fatal(err)
	}
	put("b")
	return dir, reader, docs
}

// recovers has a process begin to lead, which has read the files, and goes on when the returned
// function is called.
func recovers(t *testing.T, dir string) (goOn func()) {
	t.Helper()
	begun, paused, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	log := onMessage{slog.DiscardHandler, "opened", func() {
		close(begun)
		<-paused
	}}
	go func() {
		vdb, err := db.Open(dir, &db.Options{Logger: slog.New(log)})
		if err == nil {
			t.Cleanup(func() {
				if err := vdb.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		ended <- err
	}()
	<-begun
	return func() {
		close(paused)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// takesLock has a process take the lock of a database, and end when the returned function is
// called.
func takesLock(t *testing.T, dir string) (end func()) {
	t.Helper()
	files, err := vfs.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := files.Lock(engine.LockName, true)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := errors.Join(lock.Close(), files.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestReadersWaitForLeaders: while another process begins to lead, a reader has an old state. Its
// calls wait for that process, which may have no socket yet, or still recover the database.
func TestReadersWaitForLeaders(t *testing.T) {
	defer share.SetLookTime(share.SetLookTime(time.Millisecond))
	for _, tt := range []struct {
		name string
		lead func(t *testing.T, dir string) (goOn func()) // until goOn it can be neither joined nor left alone
	}{
		{"the lock is taken", takesLock},
		{"the files are read", recovers},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, _, docs := readsAlone(t, slog.DiscardHandler)
			goOn := sync.OnceFunc(tt.lead(t, dir))
			defer goOn()
			count := func(tries int, then func()) {
				n, err := docs.Count(waitingContext{t.Context(), func() {
					if tries--; tries == 0 {
						then()
					}
				}}, nil)
				if n != 2 || err != nil {
					t.Errorf("%d documents, %v", n, err)
				}
			}
			var second sync.WaitGroup
			count(10, func() { second.Go(func() { count(1, goOn) }) })
			second.Wait()
		})
	}
}

// TestReadersWaitInVain: calls that have waited in vain for a process that begins to lead are
// answered from what there is, which is logged once, and calls that end do not wait. They find the
// next leader.
func TestReadersWaitInVain(t *testing.T) {
	defer share.SetOpenTime(share.SetOpenTime(0))
	logged := 0
	dir, reader, docs := readsAlone(t, onMessage{slog.DiscardHandler, "cannot see what others have written", func() {
		logged++
		share.SetOpenTime(time.Hour) // nobody waits again
	}})
	end := takesLock(t, dir)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if n, err := docs.Count(ended, nil); !errors.Is(err, context.Canceled) {
		t.Error(n, err)
	}
	for range 100 {
		if n, err := docs.Count(t.Context(), nil); n != 1 || err != nil || logged != 1 {
			t.Fatal(n, err, logged)
		}
		if err := reader.Barrier(t.Context()); !errors.Is(err, db.ErrLocked) {
			t.Fatal(err)
		}
	}
	end()
	vdb, err := db.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := vdb.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // far less than an hour
	defer cancel()
	for n := 1; n != 2; {
		if n, err = docs.Count(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := reader.Barrier(ctx); err != nil || logged != 1 {
		t.Error(err, logged)
	}
}

// TestReadersLookAgain: calls that have waited in vain for a process that begins to lead look for
// it again, but after a time of rest only if it listens and does not answer.
func TestReadersLookAgain(t *testing.T) {
	defer share.SetOpenTime(share.SetOpenTime(0))
	defer share.SetLookTime(share.SetLookTime(time.Millisecond))
	for _, tt := range []struct {
		name  string
		lead  func(t *testing.T, dir string) (goOn func())
		rest  time.Duration
		again bool
	}{
		{"does not listen", takesLock, time.Hour, true},
		{"does not answer", recovers, time.Hour, false},
		{"does not answer, after the rest", recovers, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			defer share.SetRestTime(share.SetRestTime(tt.rest))
			dir, _, docs := readsAlone(t, slog.DiscardHandler)
			goOn := tt.lead(t, dir)
			defer goOn()
			looks := func() bool {
				waits := 0
				n, err := docs.Count(waitingContext{t.Context(), func() { waits++ }}, nil)
				if n != 1 || err != nil {
					t.Fatal(n, err)
				}
				return waits > 0
			}
			if !looks() {
				t.Error("the first call does not look")
			}
			if tt.again {
				for !looks() {
				}
				return
			}
			for range 200_000 { // which take longer than looks are apart without a rest
				if looks() {
					t.Fatal("a call looks during the rest")
				}
			}
		})
	}
}

// TestReadersOfShortCalls: the time that calls wait for a process that begins to lead counts across
// calls which end before. It is short for a process that does not share the database.
func TestReadersOfShortCalls(t *testing.T) {
	for _, tt := range []struct {
		name string
		lock func(files *vfs.FS) (*vfs.Lock, error)
		most time.Duration
	}{
		{"begins to lead", func(files *vfs.FS) (*vfs.Lock, error) { return files.Lock(engine.LockName, true) },
			50 * time.Millisecond},
		{"exclusive", func(files *vfs.FS) (*vfs.Lock, error) { return files.LockAlone(engine.LockName) }, time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			defer share.SetOpenTime(share.SetOpenTime(tt.most))
			dir, _, docs := readsAlone(t, slog.DiscardHandler)
			files, err := vfs.Open(dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			lock, err := tt.lock(files)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := errors.Join(lock.Close(), files.Close()); err != nil {
					t.Error(err)
				}
			}()
			count := func() (int, error) { // ends while it waits
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				waits := 0
				return docs.Count(waitingContext{ctx, func() {
					if waits++; waits == 5 {
						cancel()
					}
				}}, nil)
			}
			n, err := count()
			for tries := 0; errors.Is(err, context.Canceled) && tries < 10_000; tries++ {
				n, err = count()
			}
			if n != 1 || err != nil {
				t.Error(n, err)
			}
		})
	}
}

// TestReadersHoldUpNobody: while a call waits for the answer of a process that recovers the
// database, others end with their contexts, or do not wait.
func TestReadersHoldUpNobody(t *testing.T) {
	defer share.SetLookTime(share.SetLookTime(time.Hour))
	dir, reader, docs := readsAlone(t, slog.DiscardHandler)
	goOn := sync.OnceFunc(recovers(t, dir))
	defer goOn()
	joins := make(chan struct{})
	var waits sync.WaitGroup
	waits.Go(func() {
		tries := 0
		n, err := docs.Count(waitingContext{t.Context(), func() {
			if tries++; tries == 2 { // the first time it waited for others
				close(joins)
			}
		}}, nil)
		if n != 2 || err != nil {
			t.Errorf("%d documents, %v", n, err)
		}
	})
	<-joins
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"Barrier": func() error { return reader.Barrier(ended) },
		"Count": func() error {
			_, err := docs.Count(ended, nil)
			return err
		},
	} {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all, err := reader.Processes(t.Context()); len(all) != 1 || err != nil {
		t.Error(all, err)
	}
	goOn()
	waits.Wait()
}
