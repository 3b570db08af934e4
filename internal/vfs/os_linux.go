package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// datasync skips the times of the inode, which need not survive; a changed size is synced.
func datasync(f *os.File) error {
	if err := control(f, unix.Fdatasync); err != nil {
		return &fs.PathError{Op: OpSync.String(), Path: f.Name(), Err: err}
	}
	return nil
}

func dropCache(f *os.File) {
	_ = control(f, func(fd int) error { return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) })
}

// startWriting has the system write what the file has in the cache, without waiting. It is a hint:
// errors come with the next sync.
func startWriting(f *os.File) {
	_ = control(f, func(fd int) error { return unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WRITE) })
}

func preallocate(f *os.File, n int64) (bool, error) {
	err := control(f, func(fd int) error { return unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, n) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return false, nil
	}
	return err == nil, err
}
