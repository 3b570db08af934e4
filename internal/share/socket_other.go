//go:build !linux && !darwin

package share

import (
	"errors"
	"net"
	"time"
)

// A socket is a connection; processes share no database here.
type socket struct{}

func newSocket(conn *net.UnixConn) (*socket, error) {
	return nil, errors.Join(errors.ErrUnsupported, conn.Close())
}

func (s *socket) Close() error                            { return errors.ErrUnsupported }
func (s *socket) cut()                                    {}
func (s *socket) stopReading()                            {}
func (s *socket) read([]byte, time.Duration) (int, error) { return 0, errors.ErrUnsupported }
func (s *socket) park(time.Time) error                    { return errors.ErrUnsupported }
func (s *socket) parkWrite() error                        { return errors.ErrUnsupported }
func (s *socket) peer() (pid, uid int, err error)         { return 0, 0, errors.ErrUnsupported }
func (s *socket) writeSome(frames [][]byte) ([][]byte, error) {
	return frames, errors.ErrUnsupported
}

func stopped(int) bool { return false }

func gone(int) bool { return false }

// A pollSet waits for several sockets at once.
type pollSet struct{}

func newPollSet() (*pollSet, error)                    { return nil, errors.ErrUnsupported }
func (p *pollSet) wait([]*session, time.Duration) bool { return false }
func (p *pollSet) ready(int) bool                      { return false }
func (p *pollSet) wake()                               {}
func (p *pollSet) close() error                        { return nil }
