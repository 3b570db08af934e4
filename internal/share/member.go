package share

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// openTime is how long Open waits for the process that holds the lock to listen or, if it is
// stopped, to answer. So do calls that need its answer and write nothing. Tests change it.
var openTime = 10 * time.Second

// readersTime is how long Open waits for readers that hold the lock. Those that share the database
// hold it while they open it or read it again, which takes longest with a full log: 64 MiB are read
// in less than a second. Tests change it.
var readersTime = 3 * time.Second

// lookTime is how long a reader waits for an answer of a leader that recovers the database, before
// it looks again whether that one leads. Tests change it.
var lookTime = time.Second

// restTime is the pause between two attempts of a reader to find a leader after one that failed, or
// that got no answer. Calls in between use the version that the reader has. Tests change it.
var restTime = time.Second

// moment is how long a reader waits for a process that has just taken the lock to declare that it
// shares the database. It is also the timeout for a leader that did not answer within openTime.
const moment = 100 * time.Millisecond

const (
	// Pauses between attempts to lead or to join.
	minPause = time.Millisecond
	maxPause = 20 * time.Millisecond
	// brokenPause is the pause after an attempt that failed for another reason.
	brokenPause = time.Second
)

// A Member is one process at work on a database.
type Member struct {
	dir    string // as Open was told
	path   string // the absolute one: the working directory of the process may change
	opts   engine.Options
	self   Process
	engine *engine.Engine
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	group  vfs.Group

	writer   [16]byte      // random; with the number of a request, it tells a write from all others
	requests atomic.Uint64 // numbers given out

	looked   atomic.Int64  // ticks when look or seek did something
	looks    chan struct{} // has an element while a call of a reader looks for a leader
	awaited  wait          // of a reader; guarded by looks
	alone    atomic.Int64  // ticks until when rejoin does not wait
	deposing sync.Mutex    // held while a stopped leader is replaced
	barriers *rounds

	mu      sync.Mutex
	leader  *leader              // set while this process leads
	lost    bool                 // the engine has lost the lead
	link    atomic.Pointer[link] // set while it follows; changed with mu held
	stuck   error                // why this process can neither lead nor follow, as far as it has tried
	changed chan struct{}        // closed and replaced when one of them changes
	retry   chan struct{}        // has an element if the next attempt is not to wait
}

// A wait is about a process that holds the lock and cannot be joined yet. All calls of a reader
// have part in it.
type wait struct {
	holder string    // LockMark of the process
	since  time.Time // when it was met
	silent bool      // it listens, and has not answered
	vain   bool      // it was waited for long enough
}

// Open opens a database: it leads, or follows the process that does. Without Options.Shared it does
// what engine.Open does.
func Open(dir string, opts engine.Options, self Process) (*Member, error) {
	m := &Member{dir: dir, opts: opts, self: self, looks: make(chan struct{}, 1), barriers: newRounds(),
		changed: make(chan struct{}), retry: make(chan struct{}, 1)}
	_, _ = rand.Read(m.writer[:]) // never fails
	m.ctx, m.cancel = context.WithCancel(context.Background())
	opts.Shared = opts.Shared && engine.CanShare && dir != engine.Memory && opts.Hook == nil
	m.opts.Shared = opts.Shared
	if opts.Shared {
		var err error
		if m.path, err = filepath.Abs(dir); err != nil {
			return nil, err
		}
		m.opts.OnLead, m.opts.OnAbandon, m.opts.OnDeposed, m.opts.Upstream = m.onLead, m.abandon, m.deposed, m
	}
	var start time.Time // when this holder was met; the first attempt may have taken a leader's place
	holder := ""
	for {
		e, err := engine.Open(dir, m.opts)
		if err == nil {
			m.engine = e
			if m.opts.Shared {
				e.Look(m.look)
			}
			if !m.opts.ReadOnly {
				m.leads()
			}
			return m, nil
		}
		if !m.opts.Shared || !errors.Is(engine.Translate(err), engine.ErrLocked) {
			return nil, err
		}
		joined := m.follow()
		if joined == nil {
			return m, nil
		}
		if !errors.Is(joined, errNoLeader) && !errors.Is(joined, errNotLeader) {
			return nil, notShared(err, joined)
		}
		token, _ := m.token() // without one the holder does not share
		if start.IsZero() || token != holder {
			start, holder = time.Now(), token
		}
		most := openTime
		if token == "" || errors.Is(err, vfs.ErrReaders) {
			most = readersTime
		}
		if time.Since(start) > most {
			return nil, err
		}
		time.Sleep(minPause)
	}
}

// notShared is the error of a lock whose holder cannot be followed. It is not about the lock if the
// holder shares the database, or if something else is amiss: to wait for the holder is no help.
func notShared(locked, joined error) error {
	var welcomed *welcomedError
	if errors.As(joined, &welcomed) {
		return welcomed.error
	}
	for _, other := range []error{ErrStopped, engine.ErrReplaced, engine.ErrRemoved, fileformat.ErrCorrupt,
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(joined, other) {
			return joined
		}
	}
	return fmt.Errorf("%w; it does not share it: %w", locked, joined)
}

// A welcomedError is the error of a process that a leader shares the database with.
type welcomedError struct{ error }

func (e *welcomedError) Unwrap() error { return e.error }

// removed returns err, of a process that has the database open, or ErrRemoved if it says that
// something is missing and no database is in the directory.
func (m *Member) removed(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, there := os.Stat(filepath.Join(m.path, engine.MetaName)); !errors.Is(there, fs.ErrNotExist) {
		return err
	}
	return engine.NewRemovedError(m.dir)
}

// Present returns an error if the directory does not hold the open database any more.
func (m *Member) Present() error {
	return m.engine.Present(m.engine.Leads() || m.link.Load() != nil)
}

// Engine returns the engine.
func (m *Member) Engine() *engine.Engine { return m.engine }

// Close closes the engine. Another process leads after a leader.
func (m *Member) Close() error {
	m.cancel()
	m.looks <- struct{}{} // seek sees that ctx has ended, or this sees its link
	<-m.looks
	m.mu.Lock() // likewise run
	l := m.link.Load()
	m.mu.Unlock()
	if l != nil {
		m.leave(l)
	}
	err := m.group.Wait()
	m.mu.Lock()
	s := m.leader
	m.leader = nil
	m.mu.Unlock()
	if s != nil {
		return errors.Join(err, s.close(m.engine.Close))
	}
	return errors.Join(err, m.engine.Close())
}

// leave ends the connection to the leader once all calls have their answers: it would lose the
// outcome of a write. It does not wait for ever, as a call may whose context never ends.
func (m *Member) leave(l *link) {
	late := time.NewTimer(openTime)
	defer late.Stop()
	select {
	case <-m.engine.Refuse():
		l.send(Bye{})
	case <-l.ended:
	case <-late.C:
	}
	l.socket.cut()
}

// refuses reports whether an error is the engine's to a message that comes when the last call has
// ended. It does not end the connection: leave is about to.
func (m *Member) refuses(err error) bool {
	return errors.Is(err, engine.ErrClosed) && m.ctx.Err() != nil
}

// onLead makes the socket as soon as the lock is held, so that others can wait for the end of the
// recovery.
func (m *Member) onLead(*engine.Engine) (serves bool) {
	s, err := lead(m.path, m.process(engine.Leader))
	if err != nil {
		// The database works without: others find it locked.
		m.opts.Logger.Warn("cannot share the database with other processes", "error", err)
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leader = s
	return true
}

func (m *Member) process(role engine.Role) Process {
	p := m.self
	p.Role = role.String()
	return p
}

// abandon ends what onLead began. The lock is still held.
func (m *Member) abandon() {
	m.mu.Lock()
	s := m.leader
	m.leader, m.lost = nil, false
	m.mu.Unlock()
	if s != nil {
		if err := s.abandon(); err != nil {
			m.opts.Logger.Warn("cannot remove the socket", "error", err)
		}
	}
}

// leads lets the engine, which leads, serve followers.
func (m *Member) leads() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.leader != nil {
		m.leader.serve(m.engine)
	}
	m.change(nil)
	m.stepDown()
	m.clear()
}

// change sets the link and wakes those who wait. mu is held.
func (m *Member) change(l *link) {
	m.link.Store(l)
	m.stuck = nil
	m.wake()
}

// wake wakes those who wait for a change. mu is held.
func (m *Member) wake() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// follow opens the database beside a leader.
func (m *Member) follow() error {
	l, err := m.join(m.ctx, 0)
	if err != nil {
		return err
	}
	e, err := engine.NewFollower(m.dir, m.opts)
	if err != nil {
		return &welcomedError{errors.Join(err, l.close())}
	}
	e.Look(m.look)
	m.engine = e
	if err := m.adoptFirst(l); err != nil {
		return &welcomedError{errors.Join(err, l.close(), e.Close())}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin(l)
	return nil
}

// begin follows the leader at the other end of a link. mu is held.
func (m *Member) begin(l *link) {
	m.change(l)
	m.group.Go(engine.SocketName, func() error {
		m.run(l)
		return nil
	})
}

// seek has a process that reads alone see what others have written since: it joins the leader, or
// reads the files again if that one has ended. errNoLeader says that a process holds the lock and
// cannot be joined yet. looks is held; mu is not, because calls that have no time wait for that.
func (m *Member) seek(ctx context.Context) (err error) {
	if !m.opts.Shared || m.link.Load() != nil || m.ctx.Err() != nil || m.engine.Role() != engine.Reader {
		return nil
	}
	began := ticks(time.Now())
	defer func() {
		if err == nil {
			m.looked.Store(began)
			m.awaited = wait{}
		}
	}()
	if fresh, err := m.engine.Fresh(); fresh || err != nil {
		return m.removed(err)
	}
	answers := lookTime
	if m.awaited.vain {
		answers = moment
	}
	l, joined := m.joinAdopted(ctx, answers)
	if joined == nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.begin(l)
		return nil
	}
	joined = m.removed(joined)
	m.awaited.silent = errors.Is(joined, os.ErrDeadlineExceeded)
	switch err := m.removed(m.engine.Reload()); {
	case !errors.Is(err, engine.ErrLocked):
		return err
	case errors.Is(joined, errNoLeader) || errors.Is(joined, errNotLeader):
		return fmt.Errorf("%w: %w", errNoLeader, err)
	default:
		return notShared(err, joined)
	}
}

// renew is awaitLeader of a call that does not look otherwise.
func (m *Member) renew(ctx context.Context) error {
	end, err := m.beginLook(ctx)
	if err != nil {
		return err
	}
	defer end()
	return m.awaitLeader(ctx)
}

// beginLook waits until no other call looks for a leader. The caller looks until it calls end.
func (m *Member) beginLook(ctx context.Context) (end func(), err error) {
	select {
	case m.looks <- struct{}{}:
		return func() { <-m.looks }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// awaitLeader is seek that waits for a process which cannot be joined yet, unless calls have waited
// for it in vain. looks is held.
func (m *Member) awaitLeader(ctx context.Context) error {
	for {
		err := m.seek(ctx)
		if !errors.Is(err, errNoLeader) || ctx.Err() == nil && m.inVain(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.ctx.Done():
			return engine.ErrClosed
		case <-time.After(minPause):
		}
	}
}

// inVain reports whether calls have waited long enough for the process that holds the lock and, as
// err says, cannot be joined: as long as Open does, all together. One that does not say that it
// shares the database never can; it may have just taken the lock. looks is held.
func (m *Member) inVain(err error) bool {
	mark, shares := m.holder()
	w := &m.awaited
	if w.holder != mark || w.since.IsZero() {
		*w = wait{holder: mark, since: time.Now(), silent: w.silent}
	}
	most := openTime
	if !shares {
		most = min(most, moment)
	}
	if !w.vain && time.Since(w.since) >= most {
		w.vain = true
		m.opts.Logger.Error("cannot see what others have written", "error", err)
	}
	return w.vain
}

// Self describes this process.
func Self() Process {
	p := Process{PID: os.Getpid(), Since: time.Now()}
	if len(os.Args) > 0 {
		p.Program = filepath.Base(os.Args[0])
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		p.Version = info.Main.Version
	}
	return p
}
