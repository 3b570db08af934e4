//go:build unix

package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// nonBlock is for opening a possible named pipe. Regular files ignore it.
const nonBlock = unix.O_NONBLOCK

// errNotDir reports a file in place of a directory.
const errNotDir = unix.ENOTDIR

// control runs a system call on the descriptor of f, which cannot be closed during the call.
func control(f *os.File, call func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	cerr := conn.Control(func(fd uintptr) {
		for {
			if err = call(int(fd)); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	if cerr != nil {
		return cerr
	}
	return err
}

// links returns the number of names of f, 1 if it is unknown.
func links(f *os.File) (n uint64) {
	var st unix.Stat_t
	if err := control(f, func(fd int) error { return unix.Fstat(fd, &st) }); err != nil {
		return 1
	}
	return uint64(st.Nlink)
}

// syncDir syncs a directory; tried is false if the sync was not attempted.
func syncDir(root *os.Root, name string) (tried bool, err error) {
	d, err := openDir(root, name)
	if err != nil {
		return false, err
	}
	defer d.Close()
	return true, d.Sync()
}

func mmap(f *os.File, n int) (b []byte, err error) {
	err = control(f, func(fd int) (err error) {
		b, err = unix.Mmap(fd, 0, n, unix.PROT_READ, unix.MAP_SHARED)
		return err
	})
	return b, err
}

func munmap(b []byte) error { return unix.Munmap(b) }

func madvise(b []byte, p Pattern) {
	advice := [...]int{unix.MADV_NORMAL, unix.MADV_RANDOM, unix.MADV_SEQUENTIAL, unix.MADV_WILLNEED, unix.MADV_DONTNEED}
	if int(p) < len(advice) {
		_ = unix.Madvise(b, advice[p])
	}
}

func funlock(f *os.File) error {
	return control(f, func(fd int) error { return unix.Flock(fd, unix.LOCK_UN) })
}

// flock takes the lock of f; held reports that another handle has it.
func flock(f *os.File, exclusive bool) (held bool, err error) {
	how := unix.LOCK_SH
	if exclusive {
		how = unix.LOCK_EX
	}
	err = control(f, func(fd int) error { return unix.Flock(fd, how|unix.LOCK_NB) })
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}
