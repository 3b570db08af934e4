//go:build linux || darwin

package engine

import (
	"errors"
	"io/fs"
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
