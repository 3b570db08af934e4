package share

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// peerOf returns the process at the other end of a socket, and its user.
func peerOf(socket int) (pid, uid int, err error) {
	cred, err := unix.GetsockoptUcred(socket, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, 0, err
	}
	return int(cred.Pid), int(cred.Uid), nil
}

// stopped reports whether a process is stopped, by a signal or a debugger: see proc_pid_stat(5).
func stopped(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, found := bytes.Cut(b[bytes.LastIndexByte(b, ')')+1:], []byte(" ")) // a name may hold anything
	return found && len(rest) > 0 && (rest[0] == 'T' || rest[0] == 't')
}
