package share

import (
	"context"
	"fmt"
	"time"
)

// A follower that calls its leader again and again reads the answers itself, in the goroutine that
// waits for them: that wakes one thread of the process, where a goroutine which reads for all
// would wake two or three. A goroutine in the background reads when no call does.

const (
	// briefTime is how long a call waits for its result in the system call.
	briefTime = 10 * time.Millisecond
	// watchTime is how long the background leaves reading to calls before it looks whether there
	// still are any.
	watchTime = 10 * time.Millisecond
	// glanceTime is the time after which a call of the database looks whether something has
	// arrived, while nobody reads.
	glanceTime = time.Millisecond
)

// read takes messages of the leader, as far as calls do not, until the connection ends.
func (m *Member) read(l *link) error {
	for {
		select {
		case l.turn <- struct{}{}:
		case <-l.ended:
			return l.err
		}
		l.source.parks = true
		err := m.listen(l)
		if err != nil {
			l.end(err)
		}
		<-l.turn
		if err == nil {
			m.watchCalls(l)
		}
	}
}

// listen handles messages until one of them was a result, and no other request leaves reading to
// the background. The caller has the turn.
func (m *Member) listen(l *link) error {
	for {
		msg, err := l.next()
		if err == nil {
			err = m.handle(l, msg)
		}
		if err != nil {
			return err
		}
		if _, answer := msg.(Result); answer && !l.waited() {
			return nil
		}
	}
}

// watchCalls waits until calls do not read any more, or one wants the background to.
func (m *Member) watchCalls(l *link) {
	timer := time.NewTimer(watchTime)
	defer timer.Stop()
	for before := l.uses.Load(); ; timer.Reset(watchTime) {
		select {
		case <-l.attention:
			return
		case <-l.ended:
			return
		case <-m.ctx.Done():
			return
		case <-timer.C:
		}
		now := l.uses.Load()
		if now == before {
			return
		}
		before = now
	}
}

// next returns the next message. The caller has the turn.
func (l *link) next() (Message, error) {
	select {
	case <-l.ended:
		return nil, l.err
	default:
	}
	if msg := l.held; msg != nil {
		l.held = nil
		return msg, nil
	}
	return l.in.next()
}

// handle obeys a message of the leader.
func (m *Member) handle(l *link, msg Message) error {
	switch msg := msg.(type) {
	case Records:
		if err := m.engine.Receive(msg.records()); err != nil && !m.refuses(err) {
			return m.failed(err)
		}
	case Frozen:
		if err := m.engine.Freeze(msg.LSN); err != nil && !m.refuses(err) {
			return m.failed(err)
		}
	case Root:
		err := m.engine.AdoptNext(l.root(msg.Tx, msg.Applied))
		switch {
		case outdated(err) || m.refuses(err): // a newer one is on its way, or none is needed
			l.send(Release{Tx: msg.Tx})
		case err != nil:
			return m.failed(err)
		}
	case Derived:
		m.engine.Retry()
	case Grant:
		m.decide(l, msg)
	case Result:
		l.finish(msg)
	case Bye:
		l.mu.Lock()
		l.bye = true
		l.mu.Unlock()
	default:
		return fmt.Errorf("unexpected %T", msg)
	}
	return nil
}

// pass handles the next message in passing: it leaves those that take long to the background. more
// is false if nothing more can be handled now.
func (m *Member) pass(l *link) (more bool) {
	msg, err := l.next()
	switch msg.(type) {
	case Root, Grant:
		l.held = msg
		l.attend()
		return false
	}
	if err == nil {
		err = m.handle(l, msg)
	}
	if err != nil && err != errNothing {
		l.end(err)
	}
	return err == nil
}

// glance handles what has arrived, if nobody reads and nobody did lately. now is in ticks.
func (m *Member) glance(l *link, now int64) {
	last := l.glanced.Load()
	if now-last < int64(glanceTime) || !l.glanced.CompareAndSwap(last, now) {
		return
	}
	select {
	case l.turn <- struct{}{}:
	default:
		return
	}
	defer func() { <-l.turn }()
	l.source.parks, l.source.brief = false, 0
	for m.pass(l) {
	}
}

// await waits for the result of a request, or returns the error of ctx.
func (m *Member) await(ctx context.Context, l *link, p *pending) error {
	turn := l.turn
	if l.single {
		turn = l.park(p)
	}
	select { // without a timer, which most results need not
	case turn <- struct{}{}:
		if m.readFor(l, p) {
			return nil
		}
		turn = l.park(p)
	default:
	}
	look := time.NewTimer(patience)
	defer look.Stop()
	var since time.Time // when the leader was found stopped
	for {
		select {
		case <-p.done:
			return nil
		case turn <- struct{}{}:
			if m.readFor(l, p) {
				return nil
			}
			turn = l.park(p)
		case <-look.C:
			switch m.depose(l); { // if the leader is stopped
			case p.asks && l.late():
				return errDeciding
			case !p.asks || !stopped(l.pid):
				since = time.Time{}
			case since.IsZero():
				since = time.Now()
			case time.Since(since) > openTime:
				return l.stopped()
			}
			look.Reset(patience)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// readFor reads until a request has its result, which it reports, or nothing arrives for briefTime.
// The caller has the turn, which readFor gives back.
func (m *Member) readFor(l *link, p *pending) (answered bool) {
	defer func() {
		l.glanced.Store(ticks(time.Now()))
		<-l.turn
	}()
	now := time.Now()
	l.uses.Add(1)
	l.pause.yield(now)
	l.source.parks, l.source.brief = false, briefTime
	for {
		select {
		case <-p.done:
			answered = true
		default:
		}
		if answered && !l.in.ready() || !m.pass(l) {
			return answered
		}
	}
}

// park leaves reading for a request to the background. It returns nil, for the turn.
func (l *link) park(p *pending) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending[p.id] == p { // otherwise it has its result
		p.parks = true
		l.parked++
		l.attend()
	}
	return nil
}

// waited reports whether a request leaves reading to the background.
func (l *link) waited() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.parked > 0
}

// attend has the background read.
func (l *link) attend() {
	select {
	case l.attention <- struct{}{}:
	default: // it has been asked to
	}
}

// end notes that reading has failed. The caller has the turn.
func (l *link) end(err error) {
	select {
	case <-l.ended:
	default:
		l.err = err
		close(l.ended)
	}
}
