package share

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// join connects to the leader and reads the state that it sends. It waits for a leader that
// recovers the database until ctx ends, for each of its messages as long as wait unless that is 0.
func (m *Member) join(ctx context.Context, wait time.Duration) (*link, error) {
	before, err := m.token()
	if err != nil {
		return nil, err
	}
	conn, err := dial(m.path)
	if err != nil {
		return nil, err
	}
	socket, err := newSocket(conn)
	if err != nil {
		return nil, err
	}
	l := newLink(socket)
	l.token = before
	// If sending fails, the leader has ended. It may have said so before, which is still to be
	// read.
	l.sender.Go(engine.SocketName, func() error { return l.out.send() })
	defer context.AfterFunc(ctx, socket.cut)()
	defer context.AfterFunc(m.ctx, socket.cut)()
	if wait > 0 {
		l.wait = wait
		defer func() { l.wait, l.source.deadline = 0, time.Time{} }()
	}
	if l.pid, err = checkPeer(socket); err == nil {
		defer m.watch(l)()
		err = l.greet(Hello{Version: Version, Process: m.process(engine.Follower), ReadOnly: m.opts.ReadOnly,
			Writer: m.writer, SyncWithin: m.opts.SyncWithin()})
	}
	if err == nil {
		// A leader takes the lock before it listens, and stops listening before it gives the lock
		// up. So if the token is the same before and after, it is the one of the process that
		// answered.
		var now string
		if now, err = m.token(); err == nil && now != before {
			err = errNoLeader
		}
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// joinAdopted joins the leader and adopts its state.
func (m *Member) joinAdopted(ctx context.Context, wait time.Duration) (*link, error) {
	if err := m.engine.WentBack(); err != nil { // a leader would keep a root for each attempt
		return nil, err
	}
	l, err := m.join(ctx, wait)
	if err != nil {
		return nil, err
	}
	if err = m.engine.Reopen(); err == nil {
		err = m.adoptFirst(l)
	}
	if err != nil {
		return nil, &welcomedError{errors.Join(err, l.close())}
	}
	return l, nil
}

// token returns the token of the process that holds the lock. A directory without one, such as a
// published folder, has no leader.
func (m *Member) token() (string, error) {
	f, err := vfs.Open(m.path, nil)
	if err != nil {
		return "", err
	}
	defer f.Close()
	token, err := f.LockToken(engine.LockName)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", errNoLeader, err)
	}
	return token, err
}

// holder returns the LockMark of the process that holds the lock, and whether it says that it
// shares the database.
func (m *Member) holder() (mark string, shares bool) {
	f, err := vfs.Open(m.path, nil)
	if err != nil {
		return "", false
	}
	defer f.Close()
	token, err := f.LockToken(engine.LockName)
	if err == nil {
		mark, _ = f.LockMark(engine.LockName)
	}
	return mark, token != ""
}

// adoptFirst adopts the state of Welcome, or a newer one that follows it.
func (m *Member) adoptFirst(l *link) error {
	defer m.watch(l)()
	root := l.root(l.welcome.Root, l.welcome.Applied)
	for {
		err := m.engine.Adopt(root, l.records)
		if !outdated(err) {
			l.records = nil
			return err
		}
		// The leader has a newer root and has sent it.
		l.send(Release{Tx: root.Tx})
		l.source.deadline = time.Now().Add(helloTime)
		for sent := false; !sent; {
			msg, err := l.receive()
			if err != nil {
				return err
			}
			switch msg := msg.(type) {
			case Records:
				l.keep(msg)
			case Root:
				root, sent = l.root(msg.Tx, msg.Applied), true
			case Derived, Frozen:
			default:
				return fmt.Errorf("%T instead of Root", msg)
			}
		}
		l.source.deadline = time.Time{}
	}
}

// run follows leaders until the member is closed or leads. Without a link it looks for a leader
// first.
func (m *Member) run(l *link) {
	for {
		if l == nil {
			if l = m.elect(); l == nil {
				return
			}
			m.mu.Lock()
			m.change(l)
			closed := m.ctx.Err() != nil
			m.mu.Unlock()
			if closed { // Close did not see l
				_ = l.close()
				return
			}
		}
		unwatch := func() {}
		if !m.opts.ReadOnly {
			unwatch = m.watchIdle(l)
		}
		err := m.read(l)
		unwatch()
		l.turn <- struct{}{} // for good: nobody reads any more
		m.mu.Lock()
		m.change(nil)
		m.mu.Unlock()
		_ = l.close() // it has ended already
		if m.ctx.Err() != nil {
			return
		}
		what := "the connection to the leader has ended"
		if l.bye { // nobody reads any more
			what = "the leader has ended"
		}
		m.opts.Logger.Info(what, "process", l.welcome.Process.PID, "reason", err)
		l = nil
	}
}

// elect makes this process the leader, or joins the next one. nil says that this process leads,
// that it only reads and nobody leads, or that it is closed.
func (m *Member) elect() *link {
	failed := false
	for pause := minPause; m.ctx.Err() == nil; {
		var err error
		if !m.opts.ReadOnly {
			if err = m.removed(m.engine.TryLead()); err == nil {
				m.leads()
				return nil
			}
		} else if err = m.removed(m.engine.Reload()); err == nil {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.stuck = nil
			m.wake() // the link stays: seek may have joined a leader since
			return nil
		}
		l, joined := m.joinAdopted(m.ctx, 0) // a leader that has a full disk, say, leaves the lead to others
		if joined == nil {
			return l
		}
		joined = m.removed(joined)
		cause := engine.Translate(err)
		if errors.Is(err, engine.ErrLocked) {
			cause, err = notShared(err, joined), joined
		}
		if errors.Is(err, errNoLeader) || errors.Is(err, errNotLeader) || isLost(err) {
			pause = min(2*pause, maxPause)
		} else if m.ctx.Err() == nil {
			m.opts.Logger.Error("cannot follow the leader, nor lead", "error", err)
			pause = brokenPause
			if failed || errors.Is(err, ErrStopped) { // the first time, another process may still do better
				m.mu.Lock()
				m.stuck = fmt.Errorf("cannot follow the process that leads, nor lead: %w", cause)
				m.wake()
				m.mu.Unlock()
			}
			failed = true
		}
		select {
		case <-m.ctx.Done():
		case <-m.retry:
		case <-time.After(pause):
		}
	}
	return nil
}

// failed logs that a message of the leader could not be applied. The process joins again, from the
// files.
func (m *Member) failed(err error) error {
	if !errors.Is(err, engine.ErrClosed) {
		m.opts.Logger.Error("cannot apply a message of the leader, joining again", "error", err)
	}
	return err
}

// decide answers a Grant.
func (m *Member) decide(l *link, g Grant) {
	answer := Decided{Request: g.Request, Err: true}
	l.mu.Lock()
	p := l.pending[g.Request]
	l.mu.Unlock()
	if p != nil && p.decide != nil {
		var ops []engine.Op
		l.deciding.Store(ticks(time.Now()))
		defer l.deciding.Store(0)
		defer l.beats()()
		var decision vfs.Group // p.decide may end its goroutine, and this one reads from the leader
		decision.Go(engine.SocketName, func() (err error) {
			ops, err = p.decide()
			return err
		})
		err := decision.Wait()
		l.mu.Lock()
		dropped := l.pending[g.Request] != p // and the caller was told that nothing is written
		p.decided = err
		p.sent = err == nil && len(ops) > 0
		l.mu.Unlock()
		if err == nil && !dropped {
			answer = Decided{Request: g.Request, Ops: ops}
		}
	}
	if frame, err := Append(nil, answer); err == nil {
		l.out.add(frame)
		return
	} else if p != nil {
		l.mu.Lock()
		p.decided, p.sent = err, false
		l.mu.Unlock()
	}
	l.send(Decided{Request: g.Request, Err: true})
}

// lateTime is how long a question waits for a decision.
const lateTime = 5 * time.Second

// errDeciding is the error of a question that cannot be answered while a decision runs. The
// decision may have asked it.
var errDeciding = fmt.Errorf("it has waited for a delete to find its documents, for %v: "+
	"the function of a delete may read, but ask nothing of other processes: %w", lateTime, context.DeadlineExceeded)

// errUnanswered is the error of a write that the leader may or may not have applied.
var errUnanswered = fmt.Errorf("%w: the leading process has not answered", engine.ErrUnknown)

// request sends a message and waits for the result. again is true if the leader has not begun the
// request: it can be repeated. After errUnanswered the next leader can tell its outcome.
func (m *Member) request(ctx context.Context, l *link, id uint64, msg Message, p *pending) (again bool, err error) {
	frame, err := Append(nil, msg)
	if err != nil {
		return false, err
	}
	p.id, p.done = id, make(chan struct{})
	l.mu.Lock()
	if l.lost || l.bye {
		l.mu.Unlock()
		return true, nil
	}
	l.pending[id] = p
	l.mu.Unlock()
	if added, err := l.out.addWithRoom(ctx, frame); !added {
		if err == nil {
			l.socket.cut() // writing may have ended before reading
		}
		l.drop(id)
		return err == nil, err
	}
	if err := m.await(ctx, l, p); err != nil {
		dropped, sent := l.drop(id)
		if dropped {
			l.send(Cancel{Request: id})
		}
		switch {
		case sent:
			return false, fmt.Errorf("%w: %w", errUnanswered, err)
		case dropped:
			return false, err
		}
		// Otherwise the result has come at the same time.
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !p.lost && errors.Is(p.result.Err, errNotLeader):
		return true, nil
	case !p.lost && errors.Is(p.result.Err, engine.ErrUnknown) && errors.Is(p.result.Err, engine.ErrLocked):
		return false, errUnanswered // it was fenced: the next one may have the write
	case !p.lost && p.decided != nil:
		return false, p.decided
	case !p.lost:
		return false, p.result.Err
	case l.bye || !p.sent:
		return true, nil
	}
	return false, errUnanswered
}

// ask sends a request to the leader, to the next one if it was not begun or has not been applied,
// and waits for the result. It keeps its number. done is false if this process leads or nobody
// does.
func (m *Member) ask(ctx context.Context, decide func() ([]engine.Op, error), message func(id uint64) Message) (
	result Result, done bool, err error) {
	id := m.requests.Add(1)
	for refused := (*link)(nil); ; {
		l, err := m.present(ctx, refused)
		if l == nil {
			return Result{}, err != nil, err
		}
		seen := m.engine.Seen()
		msg := message(id)
		_, writes := msg.(WriteOps)
		_, asks := msg.(Call)
		p := &pending{decide: decide, sent: writes, asks: asks}
		again, err := m.request(ctx, l, id, msg, p)
		if err == errUnanswered {
			if p.result, err = m.outcome(ctx, m.requestID(id), seen); err == nil {
				again = p.result.LSN == 0
			}
		}
		if !again {
			return p.result, true, err
		}
		refused = l
	}
}

// requestID returns the id of a write of this process.
func (m *Member) requestID(number uint64) engine.RequestID {
	return engine.RequestID{Writer: m.writer, Number: number}
}

// outcome finds out the effect of a write that was sent, after batch seen, to a leader which has
// not answered, or that this process made as the leader. LSN is 0 if it was not applied and never
// will be.
func (m *Member) outcome(ctx context.Context, write engine.RequestID, seen uint64) (result Result, err error) {
	if result.LSN, result.Deleted, seen = m.engine.Received(write, seen); result.LSN > 0 {
		return result, nil
	}
	for {
		var done bool
		result, done, err = m.ask(ctx, nil, func(question uint64) Message {
			return Outcome{Request: question, Of: write.Number, Seen: seen}
		})
		if done {
			break
		}
		result.LSN, result.Deleted, err = m.engine.Outcome(write, seen)
		if !errors.Is(err, engine.ErrLocked) { // otherwise this process has just lost the lead
			break
		}
	}
	if err != nil && !errors.Is(err, engine.ErrUnknown) {
		err = fmt.Errorf("%w: %w", errUnanswered, err)
	}
	return result, err
}

// Forward implements engine.Upstream.
func (m *Member) Forward(ctx context.Context, ops []engine.Op, size int,
	decide func() ([]engine.Op, error)) (deleted int, done bool, err error) {
	result, done, err := m.ask(ctx, decide, func(id uint64) Message {
		if decide != nil {
			return Exclusive{Request: id}
		}
		return WriteOps{Request: id, Ops: ops, Size: size}
	})
	return result.Deleted, done, err
}

// OwnID implements engine.Upstream.
func (m *Member) OwnID() (id engine.RequestID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leader != nil && m.leader.followed() {
		id = m.requestID(m.requests.Add(1))
	}
	return id
}

// Outcome implements engine.Upstream.
func (m *Member) Outcome(ctx context.Context, id engine.RequestID, seen uint64) (deleted int, applied bool, err error) {
	result, err := m.outcome(ctx, id, seen)
	return result.Deleted, result.LSN > 0, err
}

// Left implements engine.Upstream.
func (m *Member) Left(root engine.Root) {
	// The caller holds the lock of the engine, so this must not block: it only queues a frame.
	// Roots of different connections may have the same number. So the release goes only to the one
	// that the root came over: if that has ended, the leader keeps the root, see lost.go.
	if l := m.link.Load(); l != nil && l.number == root.Link {
		if frame, err := Append(nil, Release{Tx: root.Tx}); err == nil {
			l.out.addSoon(frame)
		}
	}
}

// present returns the connection to the leader; nil if this process leads or nobody does. While no
// other leader than the one that has refused a request is there, it waits. It fails once this
// process has tried in vain to lead and to follow.
func (m *Member) present(ctx context.Context, refused *link) (*link, error) {
	for tried := false; ; tried = true {
		m.mu.Lock()
		l, changed, alone, stuck := m.link.Load(), m.changed, m.engine.Role() != engine.Follower, m.stuck
		if stuck != nil && !tried { // it may do better by now
			m.stuck = nil
			select {
			case m.retry <- struct{}{}:
			default:
			}
		}
		m.mu.Unlock()
		switch {
		case l != nil && l != refused:
			return l, nil
		case alone:
			return nil, nil
		case stuck != nil && tried:
			return nil, stuck
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-m.ctx.Done():
			return nil, engine.ErrClosed
		}
	}
}

// Broken implements engine.Upstream.
func (m *Member) Broken(err error) {
	if l := m.link.Load(); l != nil {
		_ = m.failed(err)
		l.socket.cut()
	}
}

// Call has the leader run a call that only it can run. done is false if this process leads.
func (m *Member) Call(ctx context.Context, kind uint8) (result Result, done bool, err error) {
	message := func(id uint64) Message { return Call{Request: id, Kind: kind} }
	if kind != CallCompact {
		return m.ask(ctx, nil, message)
	}
	compacting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)() // as in a leader, Close does not wait for the end
	result, done, err = m.ask(compacting, nil, message)
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		err = engine.ErrClosed
	}
	return result, done, err
}

// Processes lists the processes at work on the database, the leader first.
func (m *Member) Processes(ctx context.Context) ([]Process, error) {
	result, done, err := m.Call(ctx, CallProcesses)
	if done {
		return result.Processes, err
	}
	m.mu.Lock()
	s := m.leader
	m.mu.Unlock()
	if s == nil {
		return []Process{m.process(m.engine.Role())}, nil
	}
	return s.processes(), nil
}

// Barrier waits until everything that any process had acknowledged before the call is visible here.
// Calls that wait at the same time ask the leader once.
func (m *Member) Barrier(ctx context.Context) error {
	return m.barriers.do(ctx, func() error { return m.barrier(ctx) })
}

func (m *Member) barrier(ctx context.Context) error {
	if err := m.renew(ctx); err != nil {
		return err
	}
	for {
		_, done, err := m.Call(ctx, CallBarrier)
		if !done && m.engine.Role() == engine.Leader {
			if err = m.engine.CheckLead(); errors.Is(err, engine.ErrLocked) {
				continue // another process leads now
			}
		}
		return errors.Join(err, m.engine.CatchUp())
	}
}

// CheckLog implements fsck.Member. The process that leads reads the log: it alone can pause the
// writers.
func (m *Member) CheckLog(ctx context.Context) (damage, err error) {
	for again := false; ; again = true {
		if err := m.renew(ctx); err != nil {
			return nil, err
		}
		result, done, asked := m.Call(ctx, CallCheckLog)
		if done && (asked == nil || result.Err != nil) {
			return result.Err, nil
		}
		if ctx.Err() != nil || asked == errDeciding {
			return nil, cmp.Or(ctx.Err(), asked)
		}
		damage, err = m.engine.CheckLog(ctx) // nobody else can
		switch locked := errors.Is(err, engine.ErrLocked); {
		case locked && asked != nil:
			return nil, asked
		case locked && again && m.engine.Role() == engine.Reader:
			// The log is of a later state, which this process does not have: it needs no log.
			return nil, nil
		case !locked:
			return damage, err
		}
	}
}

// Flush implements replica.Flush.
func (m *Member) Flush(ctx context.Context) (lsn uint64, led bool, err error) {
	if m.opts.ReadOnly && !m.opts.Shared {
		return 0, false, nil
	}
	for {
		if err := m.Barrier(ctx); err != nil {
			return 0, false, err
		}
		lsn = m.engine.Seen()
		_, done, err := m.Call(ctx, CallFlush)
		switch {
		case done:
			return lsn, true, err
		case m.opts.ReadOnly:
			return 0, false, nil
		}
		err = m.engine.Flush()
		if !errors.Is(err, engine.ErrLocked) || m.engine.CheckLead() == nil { // otherwise another process leads now
			return 0, true, err
		}
	}
}
