package share

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// Supported reports whether processes can share databases on this system.
const Supported = true

// peerUser returns the user of the process at the other end.
func peerUser(conn *net.UnixConn) (uid int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	cerr := raw.Control(func(fd uintptr) {
		cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if cerr != nil || err != nil {
		return 0, errors.Join(cerr, err)
	}
	return int(cred.Uid), nil
}
