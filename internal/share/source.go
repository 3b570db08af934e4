package share

import (
	"errors"
	"runtime"
	"time"
)

// errNothing is the error of a source that has nothing to read now.
var errNothing = errors.New("nothing has arrived")

// A source is the incoming side of a socket, with several ways to wait. Its reader changes how
// before it reads.
type source struct {
	socket *socket
	// parks says that Read waits without a thread, until the deadline if there is one. Otherwise it
	// waits in the system call, for at most brief, and returns errNothing at the end. A goroutine
	// that waits in a system call keeps its processor: no other thread of the process has to wake
	// when something arrives. So it is cheap where the answer comes soon, and only there.
	parks    bool
	deadline time.Time
	brief    time.Duration
}

// Read reads bytes that have arrived.
func (s *source) Read(b []byte) (int, error) {
	if !s.parks {
		return s.socket.read(b, s.brief)
	}
	for {
		n, err := s.socket.read(b, 0)
		if err != errNothing {
			return n, err
		}
		if err := s.socket.park(s.deadline); err != nil {
			return 0, err
		}
	}
}

// A pause keeps a goroutine that waits in system calls from being taken for one that computes
// without end: every 10 ms without a call of the scheduler, the runtime takes the processor from
// it, again at each system call, and wakes threads for that.
type pause struct{ last time.Time }

// yieldTime is the time after which yield calls the scheduler.
const yieldTime = 8 * time.Millisecond

func (p *pause) yield(now time.Time) {
	if now.Sub(p.last) > yieldTime {
		p.last = now
		runtime.Gosched()
	}
}
