package share

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/vecbolt/vecbolt/internal/engine"
)

// maxPath is the longest path of a Unix socket that every system takes.
const maxPath = 100

// address returns the path of the socket of a database. A long path is shortened through the open
// directory, where the system can do that; done closes it.
func address(dir string) (path string, done func(), err error) {
	path = filepath.Join(dir, engine.SocketName)
	if len(path) <= maxPath {
		return path, func() {}, nil
	}
	if runtime.GOOS != "linux" {
		return "", nil, fmt.Errorf("the path of %s is longer than %d bytes", engine.SocketName, maxPath)
	}
	d, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), engine.SocketName), func() { d.Close() }, nil
}

// listen makes the socket of a database. The lock of the database is held, so a socket that is
// there is of a process that has ended.
func listen(dir string) (*net.UnixListener, error) {
	path, done, err := address(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // the path may be one of a closed descriptor
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// dial connects to the leader. errNoLeader says that nothing listens.
func dial(dir string) (*net.UnixConn, error) {
	path, done, err := address(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EAGAIN) {
		return nil, fmt.Errorf("%w: %w", errNoLeader, err)
	}
	return conn, err
}

var errNoLeader = errors.New("no process listens")

// checkPeer returns the process at the other end, or 0 if this process could not take its place: it
// is not visible here, or is root's. It refuses a process of another user.
func checkPeer(s *socket) (pid int, err error) {
	pid, uid, err := s.peer()
	if err != nil {
		return 0, err
	}
	switch own := os.Geteuid(); uid {
	case own:
		return pid, nil
	case 0:
		return 0, nil
	default:
		return 0, fmt.Errorf("process of user %d, not %d", uid, own)
	}
}
