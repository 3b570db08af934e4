package share

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A link is the connection to a leader.
type link struct {
	conn   *net.UnixConn
	in     *bufio.Reader
	out    *queue
	sender vfs.Group

	welcome Welcome
	token   string          // of the leader
	records []engine.Record // after the last root that was adopted

	mu      sync.Mutex
	lost    bool
	bye     bool // the leader has said that it closes
	pending map[uint64]*pending
}

// A pending request waits for its result.
type pending struct {
	decide  func() ([]engine.Op, error) // of an Exclusive
	decided error                       // of decide
	sent    bool                        // ops that the leader may apply have been sent
	done    chan struct{}
	result  Result
	lost    bool // the connection ended first
}

// join connects to the leader and reads the state that it sends. It waits for a leader that
// recovers the database, for some time unless wait is 0.
func (m *Member) join(wait time.Duration) (*link, error) {
	before, err := m.token()
	if err != nil {
		return nil, err
	}
	conn, err := dial(m.dir)
	if err != nil {
		return nil, err
	}
	l := &link{conn: conn, in: bufio.NewReaderSize(conn, readBytes), out: newQueue(), pending: map[uint64]*pending{}}
	// If sending fails, the leader has ended. It may have said so before, which is still to be
	// read.
	l.sender.Go(engine.SocketName, func() error { return l.out.send(conn) })
	defer context.AfterFunc(m.ctx, func() { conn.Close() })()
	if wait > 0 {
		_ = conn.SetReadDeadline(time.Now().Add(wait))
		defer conn.SetReadDeadline(time.Time{})
	}
	err = l.greet(m.process(engine.Follower), m.opts.ReadOnly)
	if err == nil {
		// A leader takes the lock before it listens, and stops listening before it gives the lock
		// up. So if the token is the same before and after, it is the one of the process that
		// answered.
		if l.token, err = m.token(); err == nil && l.token != before {
			err = errNoLeader
		}
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// token returns the token of the process that holds the lock.
func (m *Member) token() (string, error) {
	f, err := vfs.Open(m.dir, nil)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return f.LockToken(engine.LockName)
}

// root completes a root that the leader has sent.
func (l *link) root(tx, applied uint64) engine.Root {
	return engine.Root{DB: l.welcome.DB, Leader: l.token, Tx: tx, Applied: applied}
}

// greet exchanges Hello and Welcome, and reads the records of the present state.
func (l *link) greet(self Process, readOnly bool) error {
	if err := checkPeer(l.conn); err != nil {
		return err
	}
	if !l.send(Hello{Version: Version, Process: self, ReadOnly: readOnly}) {
		return errNoLeader
	}
	m, err := Read(l.in)
	if err != nil {
		if m == nil && isLost(err) {
			return fmt.Errorf("%w: %w", errNoLeader, err)
		}
		return err
	}
	switch m := m.(type) {
	case Refused:
		return m.Err
	case Welcome:
		l.welcome = m
	default:
		return fmt.Errorf("%T instead of Welcome", m)
	}
	for next := l.welcome.Applied + 1; next <= l.welcome.LSN; {
		m, err := Read(l.in)
		if err != nil {
			if isLost(err) {
				return fmt.Errorf("%w: %w", errNoLeader, err)
			}
			return err
		}
		switch m := m.(type) {
		case Records:
			if m.First != next {
				return fmt.Errorf("records from %d instead of %d", m.First, next)
			}
			l.keep(m)
			next += uint64(len(m.Records))
		case Refused:
			return m.Err
		default:
			return fmt.Errorf("%T instead of Records", m)
		}
	}
	return nil
}

// keep adds records to those after the root.
func (l *link) keep(m Records) []engine.Record {
	n := len(l.records)
	for i, data := range m.Records {
		l.records = append(l.records, engine.Record{LSN: m.First + uint64(i), Data: data})
	}
	return l.records[n:]
}

// adopt makes a root and the records after it the version of the engine.
func (m *Member) adopt(l *link, root engine.Root) error {
	err := m.engine.Adopt(root, l.records)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(l.records, func(r engine.Record) bool { return r.LSN > root.Applied })
	if at < 0 {
		at = len(l.records)
	}
	l.records = slices.Clone(l.records[at:])
	return nil
}

// adoptFirst adopts the state of Welcome, or a newer one that follows it.
func (m *Member) adoptFirst(l *link) error {
	root := l.root(l.welcome.Root, l.welcome.Applied)
	for {
		err := m.adopt(l, root)
		if !outdated(err) {
			return err
		}
		// The leader has a newer root and has sent it.
		l.send(Release{Tx: root.Tx})
		_ = l.conn.SetReadDeadline(time.Now().Add(helloTime))
		for sent := false; !sent; {
			msg, err := Read(l.in)
			if isLost(err) {
				return fmt.Errorf("%w: %w", errNoLeader, err)
			}
			if err != nil {
				return err
			}
			switch msg := msg.(type) {
			case Records:
				l.keep(msg)
			case Root:
				root, sent = l.root(msg.Tx, msg.Applied), true
			case Derived:
			default:
				return fmt.Errorf("%T instead of Root", msg)
			}
		}
		_ = l.conn.SetReadDeadline(time.Time{})
	}
}

// outdated reports whether a root could not be adopted because the leader has a newer one: the file
// has another root, or has lost a segment meanwhile.
func outdated(err error) bool { return errors.Is(err, meta.ErrRoot) || errors.Is(err, fs.ErrNotExist) }

// isLost reports whether an error is the end of a connection.
func isLost(err error) bool {
	var op *net.OpError
	return err != nil && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.As(err, &op))
}

// close ends the connection. Requests without a result are lost.
func (l *link) close() error {
	l.out.close()
	err := l.conn.Close()
	_ = l.sender.Wait() // its error is the end of the connection
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = true
	for id, p := range l.pending {
		delete(l.pending, id)
		p.lost = true
		close(p.done)
	}
	return err
}

// send queues a message; false if the connection has ended.
func (l *link) send(m Message) bool {
	frame, err := Append(nil, m)
	return err == nil && l.out.add(frame)
}

// run follows leaders until the member is closed or leads.
func (m *Member) run(l *link) {
	for {
		err := m.read(l)
		m.mu.Lock()
		m.change(nil)
		m.mu.Unlock()
		_ = l.close() // it has ended already
		if m.ctx.Err() != nil {
			return
		}
		m.opts.Logger.Info("the leader has ended", "process", l.welcome.Process.PID, "reason", err)
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
}

// elect makes this process the leader, or joins the next one. nil says that this process leads,
// that it only reads and nobody leads, or that it is closed.
func (m *Member) elect() *link {
	for pause := minPause; m.ctx.Err() == nil; {
		var err error
		if !m.opts.ReadOnly {
			if err = m.engine.TryLead(); err == nil {
				m.leads()
				return nil
			}
		} else if err = m.engine.Reload(); err == nil {
			m.watch()
			return nil
		}
		if errors.Is(err, engine.ErrLocked) {
			var l *link
			if l, err = m.join(0); err == nil {
				if err = m.adoptFirst(l); err == nil {
					return l
				}
				_ = l.close()
			}
		}
		if errors.Is(err, errNoLeader) || errors.Is(err, ErrNotLeader) || isLost(err) {
			pause = min(2*pause, maxPause)
		} else if m.ctx.Err() == nil {
			m.opts.Logger.Error("cannot follow the leader, nor lead", "error", err)
			pause = brokenPause
		}
		select {
		case <-m.ctx.Done():
		case <-time.After(pause):
		}
	}
	return nil
}

// read takes messages of the leader until the connection ends.
func (m *Member) read(l *link) error {
	for {
		msg, err := Read(l.in)
		if err != nil {
			return err
		}
		switch msg := msg.(type) {
		case Records:
			for _, r := range l.keep(msg) {
				if err := m.engine.Replay(r); err != nil {
					return m.failed(err)
				}
			}
		case Root:
			err := m.adopt(l, l.root(msg.Tx, msg.Applied))
			switch {
			case outdated(err):
				l.send(Release{Tx: msg.Tx}) // a newer one is on its way
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
	}
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
		ops, err := p.decide()
		l.mu.Lock()
		p.decided = err
		p.sent = err == nil && len(ops) > 0
		l.mu.Unlock()
		if err == nil {
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

// finish gives a request its result.
func (l *link) finish(r Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.pending[r.Request]; p != nil {
		delete(l.pending, r.Request)
		p.result = r
		close(p.done)
	}
}

// request sends a message and waits for the result. again is true if the leader has not begun the
// request: it can be repeated.
func (l *link) request(ctx context.Context, id uint64, m Message, p *pending) (again bool, err error) {
	frame, err := Append(nil, m)
	if err != nil {
		return false, err
	}
	p.done = make(chan struct{})
	l.mu.Lock()
	if l.lost || l.bye {
		l.mu.Unlock()
		return true, nil
	}
	l.pending[id] = p
	l.mu.Unlock()
	if !l.out.add(frame) {
		l.drop(id)
		return true, nil
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		l.send(Cancel{Request: id})
		if sent := l.drop(id); sent {
			return false, fmt.Errorf("%w: the leading process has not answered: %w", engine.ErrUnknown, ctx.Err())
		}
		return false, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !p.lost && errors.Is(p.result.Err, ErrNotLeader):
		return true, nil
	case !p.lost && p.decided != nil:
		return false, p.decided
	case !p.lost:
		return false, p.result.Err
	case l.bye || !p.sent:
		return true, nil
	}
	return false, fmt.Errorf("%w: the leading process %d ended before it answered; "+
		"the write took effect as a whole or not at all", engine.ErrUnknown, l.welcome.Process.PID)
}

// drop gives up a request. It reports whether ops of it have been sent.
func (l *link) drop(id uint64) (sent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.pending[id]; p != nil {
		delete(l.pending, id)
		return p.sent
	}
	return false
}

// Forward implements engine.Upstream.
func (m *Member) Forward(ctx context.Context, ops []engine.Op, size int,
	decide func() ([]engine.Op, error)) (deleted int, done bool, err error) {
	for {
		l, err := m.present(ctx)
		if l == nil {
			return 0, err != nil, err
		}
		id := m.requests.Add(1)
		p := &pending{decide: decide, sent: decide == nil}
		var msg Message = WriteOps{Request: id, Ops: ops, Size: size}
		if decide != nil {
			msg = Exclusive{Request: id}
		}
		again, err := l.request(ctx, id, msg, p)
		if !again {
			return p.result.Deleted, true, err
		}
		if err := m.pass(ctx, l); err != nil {
			return 0, true, err
		}
	}
}

// Left implements engine.Upstream.
func (m *Member) Left(root engine.Root) {
	// The engine holds its lock: only a queue may be touched. A later leader may have a root of the
	// same number, which is not the one that was left.
	if l := m.now.Load(); l != nil && l.token == root.Leader {
		l.send(Release{Tx: root.Tx})
	}
}

// present returns the connection to the leader; nil if this process leads or nobody does. While
// there is no leader it waits.
func (m *Member) present(ctx context.Context) (*link, error) {
	for {
		m.mu.Lock()
		l, changed, alone := m.link, m.changed, m.engine.Role() != engine.Follower
		m.mu.Unlock()
		if l != nil || alone {
			return l, nil
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

// pass waits until a connection that refuses requests has ended.
func (m *Member) pass(ctx context.Context, l *link) error {
	for {
		m.mu.Lock()
		now, changed := m.link, m.changed
		m.mu.Unlock()
		if now != l {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-m.ctx.Done():
			return engine.ErrClosed
		}
	}
}

// Call has the leader run a call that only it can run. done is false if this process leads.
func (m *Member) Call(ctx context.Context, kind uint8) (result Result, done bool, err error) {
	for {
		l, err := m.present(ctx)
		if l == nil {
			return Result{}, err != nil, err
		}
		id := m.requests.Add(1)
		p := &pending{}
		again, err := l.request(ctx, id, Call{Request: id, Kind: kind}, p)
		if !again {
			return p.result, true, err
		}
		if err := m.pass(ctx, l); err != nil {
			return Result{}, true, err
		}
	}
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
func (m *Member) Barrier(ctx context.Context) error {
	if m.opts.ReadOnly {
		m.mu.Lock()
		m.seek()
		m.mu.Unlock()
	}
	_, _, err := m.Call(ctx, CallBarrier)
	return err
}
