package share

import (
	"errors"
	"slices"
	"time"

	"github.com/vecbolt/vecbolt/internal/engine"
)

// A process may read on at the roots of a connection that has ended: it may have been cut off, or
// be stopped, and its snapshots last until it closes them. So the roots stay pinned until it has
// said that it reads none any more, or has ended, or nobody has meta.bolt open, or a copy has taken
// the place of meta.bolt: then the readers have the file before, which nobody changes.

// lost is a process whose connection has ended, with the roots that it may still read.
type lost struct {
	pid    int // see checkPeer
	writer [16]byte
	roots  []uint64
}

// The leader looks whether the roots of lost processes may go whenever it gets another root, and
// after pauses that double.
const (
	firstLook = 10 * time.Millisecond
	lastLook  = time.Minute
)

// leave forgets a follower.
func (s *leader) leave(f *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.followers, f)
	if s.writers[f.writer] == f {
		delete(s.writers, f.writer)
	}
	if len(f.roots) > 0 {
		s.lost = append(s.lost, &lost{f.pid, f.writer, f.roots})
	}
	f.roots, f.later = nil, nil
	if f.leaves {
		s.letGoOf(func(l *lost) bool { return l.writer == f.writer })
	}
	s.lookForLost()
}

// letGoOf ends the use of roots by some lost processes. mu is held.
func (s *leader) letGoOf(which func(*lost) bool) {
	s.lost = slices.DeleteFunc(s.lost, func(l *lost) bool {
		gone := which(l)
		if gone {
			for _, tx := range l.roots {
				s.letGo(tx)
			}
		}
		return gone
	})
}

// lookForLost has findLost look now. mu is held.
func (s *leader) lookForLost() {
	if len(s.lost) == 0 {
		return
	}
	select {
	case s.looks <- struct{}{}:
	default:
	}
}

// findLost lets go of the roots of lost processes, until the leader ends. Before serve there are
// none: a recovery may take longer than lastLook.
func (s *leader) findLost() error {
	select {
	case <-s.ready:
	case <-s.ctx.Done():
		return nil
	}
	timer := time.NewTimer(lastLook)
	defer timer.Stop()
	for pause := firstLook; ; {
		select {
		case <-s.ctx.Done():
			return nil
		case <-s.looks:
			pause = firstLook
		case <-timer.C:
			pause = min(2*pause, lastLook)
		}
		some := true
		s.engine.Maintain("copy of "+engine.MetaName, func() (err error) {
			if some, err = s.settle(); err != nil {
				pause = lastLook // no room for the copy, say
			}
			return err
		})
		if timer.Stop(); some {
			timer.Reset(pause)
		}
	}
}

// settle lets go of the roots that no lost process can read, and reports whether there are others.
func (s *leader) settle() (some bool, err error) {
	s.mu.Lock()
	s.letGoOf(func(l *lost) bool { return l.pid != 0 && gone(l.pid) })
	before := slices.Clone(s.lost)
	s.mu.Unlock()
	if len(before) == 0 {
		return false, nil
	}
	left, err := s.engine.LeaveMeta()
	if errors.Is(err, engine.ErrLocked) || errors.Is(err, engine.ErrClosed) { // its pins end as well
		return true, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if left {
		s.letGoOf(func(l *lost) bool { return slices.Contains(before, l) })
	}
	return len(s.lost) > 0, err
}
