package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync"
)

// Lock is a held lock. The system releases it when the process ends, however it ends.
type Lock struct {
	mu sync.Mutex
	f  *os.File // nil: nothing to hold
}

// Lock takes the lock of the named file without waiting: exclusive for a writer, shared for
// readers. When another handle, in this process or another, holds it in the way, the error wraps
// ErrLocked and names the process id of a writer, if the file tells. An exclusive lock creates the
// file and writes the process id into it, for people to read; a shared lock needs read permission
// only, and an absent file then counts as locked: there is no writer.
func (f *FS) Lock(name string, exclusive bool) (*Lock, error) {
	if err := f.before(Op{Kind: OpLock, Name: name}); err != nil {
		return nil, err
	}
	flag := os.O_RDONLY
	if exclusive {
		flag = os.O_RDWR | os.O_CREATE
	}
	file, err := f.root.open(name, flag, 0o600)
	if err != nil {
		if !exclusive && errors.Is(err, fs.ErrNotExist) {
			return &Lock{}, nil
		}
		return nil, err
	}
	held, err := flock(file, exclusive)
	if err == nil && held {
		err = heldBy(file, exclusive)
	}
	if err != nil {
		file.Close()
		return nil, &fs.PathError{Op: OpLock.String(), Path: name, Err: err}
	}
	if exclusive {
		// Informational, so a full disk must not keep the writer out.
		if file.Truncate(0) == nil {
			_, _ = file.WriteAt(strconv.AppendInt(nil, int64(os.Getpid()), 10), 0)
		}
	}
	return &Lock{f: file}, nil
}

// heldBy returns an error with the holder of a file's lock. Readers do not write their process id,
// so the file may still name an earlier writer.
func heldBy(file *os.File, exclusive bool) error {
	if exclusive {
		if held, err := flock(file, false); err == nil && !held { // held until the file is closed, immediately after
			return fmt.Errorf("%w by readers", ErrLocked)
		}
	}
	switch pid := holder(file); {
	case pid == os.Getpid():
		return fmt.Errorf("%w by process %d, this one", ErrLocked, pid)
	case pid > 0:
		return fmt.Errorf("%w by process %d", ErrLocked, pid)
	}
	return ErrLocked
}

// holder returns the process id in a lock file, or 0.
func holder(f *os.File) int {
	var b [20]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && err != io.EOF {
		return 0
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(b[:n])))
	if err != nil {
		return 0
	}
	return pid
}

// Close releases the lock. The file stays: removing it would let two holders in. Closing twice is
// fine.
func (l *Lock) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}
