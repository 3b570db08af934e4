//go:build linux || darwin

package share

import (
	"errors"
	"net"
)

// Supported reports whether processes can share databases on this system.
const Supported = true

// peer returns the process at the other end and its user. The process is 0 if it is not visible to
// this one.
func peer(conn *net.UnixConn) (pid, uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	failed := raw.Control(func(fd uintptr) { pid, uid, err = peerOf(int(fd)) })
	return pid, uid, errors.Join(failed, err)
}
