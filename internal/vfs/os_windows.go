package vfs

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// nonBlock is unused here: named pipes do not lie in directories.
const nonBlock = 0

// errNotDir reports a file in place of a directory. Package syscall has one value for ENOTDIR and
// for a path that is not there on this system, so ENOTDIR would count as fs.ErrNotExist.
const errNotDir = windows.ERROR_DIRECTORY

func datasync(f *os.File) error { return f.Sync() }

func dropCache(*os.File) {}

func startWriting(*os.File) {}

func preallocate(*os.File, int64) (bool, error) { return false, nil }

func links(*os.File) uint64 { return 1 }

// syncDir does nothing: NTFS journals its directories, and they cannot be flushed by callers.
func syncDir(*os.Root, string) (tried bool, err error) { return false, nil }

func mmap(f *os.File, n int) ([]byte, error) {
	size := uint64(n)
	h, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, windows.PAGE_READONLY,
		uint32(size>>32), uint32(size), nil)
	if err != nil {
		return nil, err
	}
	defer windows.CloseHandle(h) // the view keeps the mapping alive
	addr, err := windows.MapViewOfFile(h, windows.FILE_MAP_READ, 0, 0, uintptr(n))
	if err != nil {
		return nil, err
	}
	// addr is memory outside Go's heap, so reading it as a pointer is safe; vet knows only the
	// direct conversion.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n), nil
}

func munmap(b []byte) error {
	return windows.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

func madvise([]byte, Pattern) {}

func funlock(*os.File) error { return errors.ErrUnsupported }

// flock locks one byte far behind the content: locks of Windows are mandatory, and the process id
// must stay readable.
func flock(f *os.File, exclusive bool) (held bool, err error) {
	flags := uint32(windows.LOCKFILE_FAIL_IMMEDIATELY)
	if exclusive {
		flags |= windows.LOCKFILE_EXCLUSIVE_LOCK
	}
	at := windows.Overlapped{OffsetHigh: 1 << 30}
	err = windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return true, nil
	}
	return false, err
}
