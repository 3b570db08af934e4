//go:build unix

package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// unlinked makes a temporary file and removes its name.
func unlinked() (*os.File, error) {
	f, err := os.CreateTemp("", "vecbolt-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// duplicate returns a further handle of a file.
func duplicate(f *os.File, name string) (own *os.File, err error) {
	err = control(f, func(fd int) error {
		copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			own = os.NewFile(uintptr(copied), name)
		}
		return err
	})
	return own, err
}
