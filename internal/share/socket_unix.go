//go:build linux || darwin

package share

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

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

// writeSome writes frames as far as the socket takes them at once. It returns the rest, which is
// all of them after an error.
func writeSome(conn *net.UnixConn, frames [][]byte) (rest [][]byte) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return frames
	}
	n := 0
	err = raw.Write(func(fd uintptr) bool {
		n, err = unix.Writev(int(fd), frames[:min(len(frames), maxIovecs)])
		return true
	})
	for n > 0 && len(frames) > 0 {
		if n < len(frames[0]) {
			frames[0], n = frames[0][n:], 0
			break
		}
		n -= len(frames[0])
		frames = frames[1:]
	}
	return frames
}

// maxIovecs is the number of buffers that one call of writev(2) takes on all systems.
const maxIovecs = 1024
