package share

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A leader may be stopped by a signal or a debugger. A process that waits for it takes its place:
// see engine.Depose. When it goes on it finds the fence, and follows.

const (
	// lookEvery is the time after which a reader looks again whether a process leads, or has led.
	lookEvery = 2 * time.Millisecond
	// lookAgain is the time after which a process looks whether another one has taken the lead.
	lookAgain = 5 * time.Millisecond
	// patience is how long a process waits for an answer before it looks whether the leader is
	// stopped, and takes its place then.
	patience = 150 * time.Millisecond
	// idleTime is the time between two looks of a follower that waits for nothing. A process that
	// only reads may wait for it to take the place of a leader that is stopped.
	idleTime = time.Second
	// idleLooks is how many further looks it takes, over as long as patience, before it does so.
	idleLooks = 8
)

// epoch is where ticks begin: before the process, so that 0 ticks are long ago.
var epoch = time.Now().Add(-time.Hour)

// ticks returns a time of this process in nanoseconds, by the monotonic clock. If the time of day
// is put back by an hour, a process that goes by it does not look for a new leader for an hour.
func ticks(t time.Time) int64 { return int64(t.Sub(epoch)) }

// watch looks from time to time whether the leader of a link is stopped, and takes its place then,
// until the returned function is called.
func (m *Member) watch(l *link) (end func()) {
	return background(func(ended <-chan struct{}) {
		for after(patience, ended) && !m.depose(l) {
		}
	})
}

// watchIdle is watch for a link in use, also while no call waits for an answer. The leader must
// stay stopped for as long as a call would wait: a debugger that attaches, or a limit of processor
// time, stops it for less. Each time that the leader is stopped, it tries to take the place once,
// because an attempt copies meta.bolt; calls try again.
func (m *Member) watchIdle(l *link) (end func()) {
	return background(func(ended <-chan struct{}) {
		for tried := false; after(idleTime, ended); {
			switch {
			case l.pid == 0 || !stopped(l.pid):
				tried = false
			case !tried && l.staysStopped(ended):
				if tried = true; m.depose(l) {
					return
				}
			}
		}
	})
}

// staysStopped reports whether the leader of a link is stopped at each of idleLooks.
func (l *link) staysStopped(ended <-chan struct{}) bool {
	for range idleLooks {
		if !after(patience/idleLooks, ended) || !stopped(l.pid) {
			return false
		}
	}
	return true
}

// background runs do until end is called, which closes ended and waits.
func background(do func(ended <-chan struct{})) (end func()) {
	var group vfs.Group
	ended := make(chan struct{})
	group.Go(engine.SocketName, func() error {
		do(ended)
		return nil
	})
	return func() {
		close(ended)
		_ = group.Wait() // it reports no error
	}
}

// after waits, and reports whether ended is still open.
func after(d time.Duration, ended <-chan struct{}) bool {
	select {
	case <-ended:
		return false
	case <-time.After(d):
		return true
	}
}

// depose takes the lead from the process at the other end of a link if it is stopped, and reports
// whether it has ended the link.
func (m *Member) depose(l *link) bool {
	if l.pid == 0 || !stopped(l.pid) {
		return false
	}
	if m.opts.ReadOnly { // it changes no file, so it waits for another process to do so
		if now, err := m.token(); err == nil && now != l.token {
			l.socket.cut()
			return true
		}
		return m.giveUp(l)
	}
	m.deposing.Lock()
	defer m.deposing.Unlock()
	first := l.failed.IsZero()
	if !first && time.Since(l.failed) < brokenPause {
		return m.giveUp(l)
	}
	switch err := engine.Depose(m.path, l.token); {
	case err == nil:
		m.opts.Logger.Info("the leader is stopped, another process takes its place", "process", l.pid)
	case !errors.Is(err, engine.ErrLocked): // another process does the same
		if first {
			m.opts.Logger.Error("cannot take the place of the leader, which is stopped", "process", l.pid, "error", err)
		}
		l.failed = time.Now()
		l.mu.Lock()
		l.cause = err
		l.mu.Unlock()
		return m.giveUp(l)
	}
	l.socket.cut()
	return true
}

// giveUp ends a link to a leader that is stopped if it has been waited for long enough while it was
// joined, and reports that.
func (m *Member) giveUp(l *link) bool {
	if m.link.Load() == l || time.Since(l.since) < openTime {
		return false
	}
	err := l.stopped()
	l.mu.Lock()
	l.given = err
	l.mu.Unlock()
	l.socket.cut()
	return true
}

// stopped returns the error of a leader that is stopped.
func (l *link) stopped() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := fmt.Errorf("%w: process %d leads and does not answer", ErrStopped, l.pid)
	if l.cause != nil {
		err = fmt.Errorf("%w; this one cannot take its place: %w", err, l.cause)
	}
	return err
}

// look runs at the start of every call and finds changes of the leader that no message reports. A
// reader joins the present leader. If a leader has come and gone, the reader opens the files again,
// because no leader changes the ones that it has open. A leader or follower finds out whether
// another process has replaced a stopped leader.
func (m *Member) look(ctx context.Context) error {
	role := m.engine.Role()
	if role == engine.Reader {
		return m.lookForLeader(ctx)
	}
	now, last := ticks(time.Now()), m.looked.Load()
	switch role {
	case engine.Leader:
		if now-last < int64(lookAgain) {
			return nil
		}
		if m.engine.CheckLead() != nil { // and it has called deposed
			return m.rejoin(ctx)
		}
		m.looked.Store(now)
		return nil
	case engine.Follower:
		if l := m.link.Load(); l != nil {
			m.glance(l, now)
		} else if m.engine.Fenced() {
			return m.rejoin(ctx)
		}
	}
	if now-last < int64(lookAgain) || !m.looked.CompareAndSwap(last, now) {
		return nil
	}
	if l := m.link.Load(); l != nil && m.engine.Moved() {
		l.socket.cut()
	}
	return nil
}

// lookForLeader is look of a process that reads alone. A call has what others had written lookEvery
// before it, so it waits for another call that looks already, and for a process that begins to
// lead. Once that is in vain, calls go on with what there is, and look again.
func (m *Member) lookForLeader(ctx context.Context) error {
	recent := func(now int64) bool { return now-m.looked.Load() < int64(lookEvery) }
	now := ticks(time.Now())
	if recent(now) {
		return nil
	}
	end, err := m.beginLook(ctx)
	if err != nil {
		return err
	}
	defer end()
	if recent(now) { // another call has looked since this one began
		return nil
	}
	if err = m.awaitLeader(ctx); err == nil || ctx.Err() != nil || m.ctx.Err() != nil {
		return err
	}
	looked := time.Now()
	switch noLeader := errors.Is(err, errNoLeader); {
	case !noLeader:
		m.opts.Logger.Error("cannot see what others have written", "error", err)
		looked = looked.Add(restTime)
	case m.awaited.silent: // to look took a moment, and a connection of a process that is busy
		looked = looked.Add(restTime)
	}
	m.looked.Store(ticks(looked))
	return nil
}

// rejoin waits until this process follows the leader that has fenced the directory which it has
// open. Others have written since, however long ago that was. If nobody can be followed for
// openTime, calls go on with what this process has, and for as long none waits again. It fails if
// the call ends first.
func (m *Member) rejoin(call context.Context) error {
	if ticks(time.Now()) < m.alone.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(call, openTime)
	defer cancel()
	if _, err := m.present(ctx, nil); err != nil { // calls that write meet it again
		if call.Err() != nil {
			return call.Err()
		}
		m.alone.Store(ticks(time.Now().Add(openTime)))
	}
	return nil
}

// deposed is called when the engine finds that it has lost the lead.
func (m *Member) deposed() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lost = true
	m.stepDown()
}

// stepDown makes a leader that has lost the lead a follower, unless it is closed. mu is held.
func (m *Member) stepDown() {
	s := m.leader
	if !m.lost || s == nil || s.engine == nil || m.ctx.Err() != nil {
		return
	}
	m.leader, m.lost = nil, false
	m.group.Go(engine.SocketName, func() error {
		if err := errors.Join(s.depose(), m.engine.StepDown()); err != nil {
			m.opts.Logger.Warn("met errors while it stepped down", "error", err)
		}
		m.clear()
		m.run(nil)
		return nil
	})
}

// clear removes what leaders that were stopped have left.
func (m *Member) clear() {
	if !m.opts.Shared {
		return
	}
	if err := engine.ClearFenced(m.path); err != nil {
		m.opts.Logger.Warn("cannot remove the files of a process that led before", "error", err)
	}
}
