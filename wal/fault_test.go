package wal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// TestEveryOperationFails repeats a workload with its n-th file operation failing in several ways.
// It checks that no acknowledged record is lost, that the error is reported, and that a file is
// never written or synced after a failed write or sync.
func TestEveryOperationFails(t *testing.T) {
	faults := []error{syscall.EIO, syscall.ENOSPC, &vfs.Short{N: 700, Err: syscall.EIO}}
	runs := 0
	for _, fault := range faults {
		for _, sticky := range []bool{false, true} {
			for n := 0; ; n++ {
				runs++
				if !runFaulty(t, n, fault, sticky) {
					break
				}
			}
		}
	}
	t.Logf("%d runs", runs)
}

// runFaulty reports whether the fault was reached.
func runFaulty(t *testing.T, n int, fault error, sticky bool) bool {
	ops, hit := 0, false
	failed := map[string]bool{}
	dir := memDir(t)
	label := fmt.Sprintf("operation %d, %v, sticky %v", n, fault, sticky)
	o := options(t, dir, func(op vfs.Op) error {
		change := op.Kind == vfs.OpWrite || op.Kind == vfs.OpSync
		if change && failed[op.Name] {
			t.Errorf("%s: %v of %s after a failure", label, op.Kind, op.Name)
		}
		switch op.Kind { // a failure moves with its file
		case vfs.OpRename:
			failed[op.To] = failed[op.Name]
			delete(failed, op.Name)
		case vfs.OpRemove:
			delete(failed, op.Name)
		}
		ops++
		if ops-1 == n || sticky && ops > n {
			hit = true
			if change {
				failed[op.Name] = true
			}
			return fault
		}
		return nil
	})
	o.FileSize = 16 << 10

	var acked, tried uint64
	workload(t, label, o, fault, &acked, &tried)

	clean := options(t, dir, nil)
	got, _, err := replay(t, clean, max(acked, 4)-4) // workload releases all but the last 4
	if err != nil {
		t.Fatalf("%s: %v", label, err)
	}
	last := max(acked, 4) - 4 + uint64(len(got))
	if last < acked || last > tried {
		t.Fatalf("%s: the log ends with record %d, acknowledged %d, tried %d", label, last, acked, tried)
	}
	l := create(t, clean, last+1, acked)
	add(t, l, last+1, 10)
	ok(t, l.Sync())
	ok(t, l.Close())
	return hit
}

// workload appends until the first permanent failure.
func workload(t *testing.T, label string, o Options, fault error, acked, tried *uint64) {
	for range 2 {
		tail, err := Replay(o, max(*acked, 4)-4, func(uint64, []byte) error { return nil })
		if err != nil {
			var c *fileformat.CorruptError
			if errors.As(err, &c) || !errors.Is(err, fault) && !errors.Is(err, io.EOF) {
				t.Errorf("%s: replay: %v", label, err)
			}
			return
		}
		l, err := Create(o, tail.Last+1, *acked)
		if err != nil {
			return
		}
		var poison error
		for i := range 12 {
			rs := group(*acked+1, 100*i, 900)
			*tried = *acked + 2
			_, err := l.Append(rs)
			if err != nil && poison == nil {
				if !errors.Is(err, fault) || !strings.Contains(err.Error(), "wal") {
					t.Errorf("%s: %v", label, err)
				}
				var again error
				if _, again = l.Append(rs); again == nil {
					err = nil // a new file could not be made, and now it could
				} else if again == err {
					poison = err
				}
			}
			if err == nil {
				if err = l.Sync(); err == nil {
					*acked += 2
				} else {
					poison = err
				}
			}
			if poison != nil {
				break
			}
			if i%4 == 3 && err == nil {
				if err := l.Rotate(); err != nil {
					poison = err
				}
			}
			_ = l.Release(max(*acked, 4) - 4)
		}
		if poison != nil {
			_, err := l.Append(group(1, 1))
			for _, err := range []error{err, l.Sync(), l.Rotate(), l.Close()} {
				if err != poison {
					t.Errorf("%s: %v, poisoned by %v", label, err, poison)
				}
			}
			return
		}
		if err := l.Close(); err != nil {
			return
		}
	}
}

// TestReadError: an unreadable disk is neither a torn tail nor corruption.
func TestReadError(t *testing.T) {
	b := build(t)
	for n := range 20 {
		reads := 0
		o := options(t, b.dir, func(op vfs.Op) error {
			if op.Kind == vfs.OpRead || op.Kind == vfs.OpOpen || op.Kind == vfs.OpStat || op.Kind == vfs.OpReadDir {
				if reads++; reads-1 == n {
					return syscall.EIO
				}
			}
			return nil
		})
		got, _, err := replay(t, o, 0)
		var c *fileformat.CorruptError
		if reads <= n {
			if err != nil || len(got) != len(builtSizes) {
				t.Errorf("%v %v", got, err)
			}
			return
		}
		if !errors.Is(err, syscall.EIO) || errors.As(err, &c) || !strings.Contains(err.Error(), "wal") {
			t.Errorf("read %d: %v", n, err)
		}
	}
}

// TestShrinks: a file becomes shorter while it is read.
func TestShrinks(t *testing.T) {
	b := build(t)
	stats := 0
	o := options(t, b.dir, func(op vfs.Op) error {
		if op.Kind == vfs.OpOpen {
			if stats++; stats == 3 { // after both headers
				return os.Truncate(b.path, 5000)
			}
		}
		return nil
	})
	if _, _, err := replay(t, o, 0); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}
