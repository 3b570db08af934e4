//go:build linux || darwin

package share

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A socket is a connection that the runtime does not watch: it wakes a thread for everything that
// happens on a connection which it watches, whoever waits for it and how.
type socket struct {
	file *os.File // its descriptor does not block
	raw  syscall.RawConn
	fd   int // of file
}

// newSocket takes over a connection.
func newSocket(conn *net.UnixConn) (*socket, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	copied, err := duplicate(raw)
	if err := errors.Join(err, conn.Close()); err != nil {
		return nil, err
	}
	// The runtime watches the descriptor of a file if it does not block when the file is made.
	err = unix.SetNonblock(copied, false)
	s := &socket{file: os.NewFile(uintptr(copied), ""), fd: copied}
	err = errors.Join(err, unix.SetNonblock(copied, true))
	if err == nil {
		s.raw, err = s.file.SyscallConn()
	}
	if err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	return s, nil
}

// duplicate returns another descriptor of the same connection.
func duplicate(raw syscall.RawConn) (copied int, err error) {
	failed := raw.Control(func(fd uintptr) { copied, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	return copied, errors.Join(failed, err)
}

// Close ends the connection. Whoever uses it must have ended.
func (s *socket) Close() error {
	s.cut()
	return s.file.Close()
}

// cut ends the connection and every wait for it.
func (s *socket) cut() { s.shutdown(unix.SHUT_RDWR) }

// stopReading lets nothing more arrive, which ends every wait for it.
func (s *socket) stopReading() { s.shutdown(unix.SHUT_RD) }

func (s *socket) shutdown(how int) {
	_ = s.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), how) }) // it has ended otherwise
}

// read reads bytes that have arrived, and waits for some for at most brief.
func (s *socket) read(b []byte, brief time.Duration) (n int, err error) {
	failed := s.raw.Read(func(fd uintptr) bool {
		if brief > 0 && !poll(fd, unix.POLLIN, brief) {
			err = errNothing
			return true
		}
		for {
			if n, err = unix.Read(int(fd), b); err != unix.EINTR {
				return true
			}
		}
	})
	switch {
	case failed != nil:
		return 0, failed
	case err == unix.EAGAIN:
		return 0, errNothing
	case err != nil && err != errNothing:
		return 0, &net.OpError{Op: "read", Net: "unix", Err: os.NewSyscallError("read", err)}
	case err == nil && n == 0:
		return 0, io.EOF
	}
	return n, err
}

// poll waits in the system call until a descriptor can be used, or for some time.
func poll(fd uintptr, events int16, wait time.Duration) (ready bool) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
	for {
		n, err := unix.Poll(fds, int(wait/time.Millisecond))
		if err != unix.EINTR {
			return n > 0 || err != nil
		}
	}
}

// park waits until something has arrived or the deadline has passed, without a thread. A zero
// deadline never passes.
func (s *socket) park(deadline time.Time) error {
	return s.watched(func(f *os.File, raw syscall.RawConn) error {
		if err := f.SetReadDeadline(deadline); err != nil {
			return err
		}
		return raw.Read(func(fd uintptr) bool { return poll(fd, unix.POLLIN, 0) })
	})
}

// parkWrite waits until something can be sent, without a thread.
func (s *socket) parkWrite() error {
	return s.watched(func(_ *os.File, raw syscall.RawConn) error {
		return raw.Write(func(fd uintptr) bool { return poll(fd, unix.POLLOUT, 0) })
	})
}

// watched runs fn with a copy of the connection that the runtime watches.
func (s *socket) watched(fn func(*os.File, syscall.RawConn) error) error {
	copied, err := duplicate(s.raw)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(copied), "")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	return fn(f, raw)
}

// peer returns the process at the other end and its user. The process is 0 if it is not visible to
// this one.
func (s *socket) peer() (pid, uid int, err error) {
	failed := s.raw.Control(func(fd uintptr) { pid, uid, err = peerOf(int(fd)) })
	return pid, uid, errors.Join(failed, err)
}

// gone reports whether a process has ended, and its parent knows.
func gone(pid int) bool { return unix.Kill(pid, 0) == unix.ESRCH }

// writeSome writes frames as far as the socket takes them at once, and returns the rest.
func (s *socket) writeSome(frames [][]byte) (rest [][]byte, err error) {
	for len(frames) > 0 {
		n := 0
		failed := s.raw.Write(func(fd uintptr) bool {
			for {
				if n, err = unix.Writev(int(fd), frames[:min(len(frames), maxIovecs)]); err != unix.EINTR {
					return true
				}
			}
		})
		switch {
		case err == unix.EAGAIN:
			return frames, nil
		case failed != nil || err != nil:
			return nil, errors.Join(failed, err)
		}
		for len(frames) > 0 && n >= len(frames[0]) {
			n -= len(frames[0])
			frames = frames[1:]
		}
		if n > 0 {
			frames[0] = frames[0][n:]
		}
	}
	return nil, nil
}

// maxIovecs is the number of buffers that one call of writev(2) takes on all systems.
const maxIovecs = 1024

// A pollSet waits for several sockets at once.
type pollSet struct {
	fds           []unix.PollFd // of the last wait; the first one is of woken
	woken, waking *os.File
	wakes         syscall.RawConn // of woken
}

func newPollSet() (*pollSet, error) {
	woken, waking, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &pollSet{woken: woken, waking: waking}
	if p.wakes, err = woken.SyscallConn(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// wait waits until something has arrived for a follower, until wake, or for some time.
func (p *pollSet) wait(followers []*session, wait time.Duration) (ready bool) {
	p.fds = p.fds[:0]
	_ = p.wakes.Control(func(fd uintptr) { // it is open
		p.fds = append(p.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	})
	for _, f := range followers {
		fd := int32(f.socket.fd)
		if f.full() {
			fd = -1 // which poll(2) leaves out
		}
		p.fds = append(p.fds, unix.PollFd{Fd: fd, Events: unix.POLLIN})
	}
	n, err := unix.Poll(p.fds, int(wait/time.Millisecond))
	if n > 0 && p.fds[0].Revents != 0 {
		var b [64]byte
		_ = p.wakes.Read(func(fd uintptr) bool {
			_, _ = unix.Read(int(fd), b[:])
			return true
		})
	}
	return n > 0 && err == nil
}

// ready reports whether something has arrived for follower i of the last wait, or it has ended.
func (p *pollSet) ready(i int) bool { return p.fds[i+1].Revents != 0 }

// wake ends a wait.
func (p *pollSet) wake() { _, _ = p.waking.Write([]byte{0}) } // it fails only if it is woken anyway

func (p *pollSet) close() error { return errors.Join(p.woken.Close(), p.waking.Close()) }
