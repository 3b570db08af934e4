//go:build linux || darwin

package engine

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestNewPlaceIsKept makes directories for an exchange while other processes remove those that
// nobody has locked: a directory that is locked stays.
func TestNewPlaceIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var clearing sync.WaitGroup
	for range 2 {
		clearing.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = ClearFenced(path) // the other one may have removed it already
				}
			}
		})
	}
	for made := 0; made < 150; made++ {
		next, dir, lock, err := newPlace(path)
		if errors.Is(err, fs.ErrExist) { // the others have not removed them yet
			made--
			continue
		}
		if err != nil {
			t.Error(err)
			break
		}
		if err := errors.Join(LayOut(dir), lock.Close(), dir.Close()); err != nil {
			t.Errorf("%s: %v", next, err)
			break
		}
	}
	close(stop)
	clearing.Wait()
}

// TestNewPlaceIsMadeAgain: a directory for an exchange that another process removes before it is
// locked is made again.
func TestNewPlaceIsMadeAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	stop, removed := make(chan struct{}), make(chan struct{})
	defer close(stop)
	go func() {
		for os.Remove(fencedPath(path, 0)) != nil { // only an empty one, which is not locked yet
			select {
			case <-stop:
				return
			default:
			}
		}
		close(removed)
	}()
	for {
		next, dir, lock, err := newPlace(path)
		if err != nil {
			t.Fatal(err)
		}
		gone := filepath.Join(t.TempDir(), "gone") // so that next is never there without a lock
		if err := errors.Join(os.Rename(next, gone), lock.Close(), dir.Close()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-removed:
			return
		default:
		}
	}
}

// TestLockWhereTheDatabaseIs: a process gets the lock in the directory that the database had before
// an exchange, where the former leader has given it up, and takes the one where it is now.
func TestLockWhereTheDatabaseIs(t *testing.T) {
	if !CanShare {
		t.Skip("processes do not share here")
	}
	dir := filepath.Join(t.TempDir(), "db")
	o := Options{HeadSize: 64 << 20, Workers: 1, Shared: true,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		OnLead: func(*Engine) bool { return true }}
	leader, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	follower, err := NewFollower(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	token, err := follower.FS.LockToken(LockName)
	if err == nil {
		err = Depose(dir, token)
	}
	if err := errors.Join(err, leader.Close()); err != nil {
		t.Fatal(err)
	}
	lock, err := follower.takeLock()
	if err != nil {
		t.Fatal(err)
	}
	if moved, err := follower.FS.Moved(); moved || err != nil {
		t.Errorf("locked where the database is not: %v, %v", moved, err)
	}
	if !follower.Fenced() {
		t.Error("what it has read before counts as what the next leader has written")
	}
	if err := errors.Join(lock.Close(), follower.Close()); err != nil {
		t.Error(err)
	}
}
