package vfs

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

var pageSize = uintptr(os.Getpagesize())

// ReadAhead has the system read mapped memory from its file, exactly these pages, without waiting:
// many reads are then under way at once. Where the memory is there already it costs a system call,
// about 0.4 us. It is a hint, which only Linux takes.
func ReadAhead(b []byte) {
	if len(b) > 0 {
		start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
		in := start % pageSize
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, start-in, in+uintptr(len(b)), unix.MADV_WILLNEED)
	}
}

// Resident reports whether the system has the first page of mapped memory at hand, so that no
// reader waits for the disk. It returns true where that cannot be found out.
func Resident(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	var in [1]byte
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	_, _, err := unix.Syscall(unix.SYS_MINCORE, start-start%pageSize, 1, uintptr(unsafe.Pointer(&in[0])))
	return err != 0 || in[0]&1 != 0
}

// DiskReads returns how much this thread has had read from disk, in units of 512 bytes, by faults
// of mapped memory and otherwise; 0 on other systems than Linux.
func DiskReads() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return u.Inblock
}
