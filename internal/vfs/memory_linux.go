package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// nameless makes a file in memory.
func nameless(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate("vecbolt", unix.MFD_CLOEXEC)
	if err != nil {
		return unlinked() // where a sandbox forbids the call
	}
	return os.NewFile(uintptr(fd), name), nil
}
