//go:build !linux && !darwin

package share

import (
	"errors"
	"net"
)

// Supported reports whether processes can share databases on this system.
const Supported = false

func peerUser(*net.UnixConn) (uid int, err error) { return 0, errors.ErrUnsupported }
