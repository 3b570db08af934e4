//go:build linux || darwin

package torture

import (
	"os"
	"syscall"
)

// errNoHandles is the error of a process that is out of file handles.
var errNoHandles error = syscall.EMFILE

// limitFiles lets this process open left more files, and returns a function that lifts the limit.
func limitFiles(left int) (restore func(), err error) {
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		return nil, err
	}
	f, err := os.Open(os.DevNull) // gets the first free number
	if err != nil {
		return nil, err
	}
	now := old
	now.Cur = uint64(f.Fd()) + uint64(left)
	if err := f.Close(); err != nil {
		return nil, err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &now); err != nil {
		return nil, err
	}
	return func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old) }, nil
}

// killMyself ends this process as kill -9 does.
func killMyself() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
