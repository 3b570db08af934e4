package share

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/wal"
)

const (
	// helloTime is how long a process may take for its Hello.
	helloTime = 10 * time.Second
	// farewell is how long the end of a leader waits until a follower has read the rest.
	farewell = 2 * time.Second
	// MaxRequests is the number of requests of one follower that are worked on at once.
	MaxRequests = 256
	// joinBytes is the size from which records are sent to a follower that joins.
	joinBytes = 1 << 20
)

var (
	// decideTime is how long all writers wait for a sign of life from a follower that decides about
	// a write. Tests change it.
	decideTime = 5 * time.Second
	// beatTime is the time between two such signs.
	beatTime = time.Second
)

// A leader serves the followers of an engine that leads.
type leader struct {
	files    *vfs.FS // the directory of the socket, also after the database has got another one
	self     Process
	listener *net.UnixListener
	group    vfs.Group
	loop     *loop
	flushes  chan struct{}   // has an element when records wait to be sent
	timing   atomic.Bool     // flush looks again within gatherTime
	looks    chan struct{}   // has an element when findLost is to look
	ctx      context.Context // ends when the connections are to end
	cancel   context.CancelFunc
	ready    chan struct{} // closed once engine is set
	engine   *engine.Engine

	mu        sync.Mutex
	closing   bool // requests are refused
	followers map[*session]struct{}
	writers   map[[16]byte]*session // the newest connection of each process
	roots     map[uint64]*pinned    // by transaction
	lost      []*lost
}

// pinned is a root with the number of followers that may read it.
type pinned struct {
	unpin []func() // one, or more where meta.bolt was rewritten and its transactions began at 1 again
	users int
}

// lead makes the socket of a database. Followers that connect wait until serve.
func lead(dir string, self Process) (*leader, error) {
	listener, err := listen(dir)
	if err != nil {
		return nil, err
	}
	files, err := vfs.Open(dir, nil)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s := &leader{
		files: files, self: self, listener: listener, ready: make(chan struct{}),
		flushes: make(chan struct{}, 1), looks: make(chan struct{}, 1),
		followers: map[*session]struct{}{}, writers: map[[16]byte]*session{}, roots: map[uint64]*pinned{},
	}
	s.loop, err = newLoop(runtime.GOMAXPROCS(0) == 1, s.serveOne, func() { s.engine.CommitSubmitted() })
	if err != nil {
		return nil, errors.Join(err, listener.Close(), files.Close())
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.group.Go(engine.SocketName, s.accept)
	s.group.Go(engine.SocketName, s.flush)
	s.group.Go(engine.SocketName, s.findLost)
	return s, nil
}

// serve gives the followers an engine.
func (s *leader) serve(e *engine.Engine) {
	s.engine = e
	e.Observe(s)
	close(s.ready)
}

// accept takes connections until the listener is closed.
func (s *leader) accept() error {
	for number := uint64(0); ; number++ {
		conn, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil { // such as too many open files
			select {
			case <-s.ctx.Done():
				return nil
			case <-time.After(10 * time.Millisecond):
			}
			continue
		}
		s.group.Go(engine.SocketName, func() error { return s.connected(conn, number) })
	}
}

// abandon ends a leader that never served. Its followers are refused.
func (s *leader) abandon() error {
	s.cancel()
	return errors.Join(s.unlisten(), s.wait())
}

// wait waits for the end of all connections.
func (s *leader) wait() error {
	err := s.group.Wait()
	return errors.Join(err, s.loop.end())
}

// close ends the engine by closeEngine, and the connections. Requests that are refused from now on
// have not been applied: their followers ask the next leader.
func (s *leader) close(closeEngine func() error) error {
	s.refuse()
	errs := []error{s.unlisten()}
	errs = append(errs, closeEngine())
	s.cancel()
	errs = append(errs, s.wait())
	return errors.Join(errs...)
}

// refuse ends the requests that are being worked on, as far as possible, and takes no others.
func (s *leader) refuse() {
	s.mu.Lock()
	s.closing = true
	all := s.all()
	s.mu.Unlock()
	for _, f := range all {
		f.cancelRequests()
	}
}

// depose ends the connections of a leader whose place another process has taken.
func (s *leader) depose() error {
	s.refuse()
	s.cancel()
	return errors.Join(s.unlisten(), s.wait())
}

// unlisten removes the socket. The lock of the directory is held, so it is this leader's.
func (s *leader) unlisten() error {
	err := errors.Join(s.listener.Close(), s.files.Remove(engine.SocketName))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, s.files.Close())
}

// followed reports whether there are followers.
func (s *leader) followed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.followers) > 0
}

func (s *leader) all() []*session {
	all := make([]*session, 0, len(s.followers))
	for f := range s.followers {
		all = append(all, f)
	}
	return all
}

// connected serves one connection to its end.
func (s *leader) connected(conn *net.UnixConn, number uint64) error {
	socket, err := newSocket(conn)
	if err != nil {
		return nil // the follower finds that it has ended
	}
	source := &source{socket: socket, parks: true, deadline: time.Now().Add(helloTime)}
	f := &session{number: number, ended: make(chan struct{}), socket: socket, source: source,
		in: newReader(source, false), out: newQueue(socket), quiet: make(chan struct{}, 1),
		beat: make(chan struct{}, 1), requests: map[uint64]*request{}}
	defer close(f.ended)
	var sender vfs.Group
	sender.Go(engine.SocketName, func() error {
		defer socket.cut()
		return f.out.send()
	})
	defer context.AfterFunc(s.ctx, socket.stopReading)()
	if f.pid, err = checkPeer(socket); err == nil {
		err = s.greet(f)
	}
	if err == nil {
		s.read(f)
		if s.ctx.Err() == nil {
			_ = s.engine.CheckLead() // whoever takes the place of a leader ends the connection to it
		}
		f.send(Bye{})
	} else {
		f.send(Refused{Err: err})
	}
	s.leave(f)
	f.out.close()
	late := time.AfterFunc(farewell, socket.cut)
	_ = sender.Wait() // the other side learns of an error by the end of the connection
	late.Stop()
	return socket.Close()
}

// greet receives a follower and sends it the present state. errNotLeader says that the leader ends.
func (s *leader) greet(f *session) error {
	m, err := f.in.next()
	if s.ctx.Err() != nil { // which ends the read as well
		return errNotLeader
	}
	if err != nil {
		return err
	}
	hello, ok := m.(Hello)
	if !ok {
		return fmt.Errorf("%T instead of Hello", m)
	}
	select {
	case <-s.ready:
	case <-s.ctx.Done():
		return errNotLeader
	}
	f.source.deadline = time.Time{}
	if err := s.succeed(f, hello.Writer); err != nil {
		return err
	}
	f.process = hello.Process
	f.sync = hello.SyncWithin < s.engine.Opts.SyncWithin()
	f.process.Role = engine.Follower.String()
	var batch Records
	size := 0
	flush := func() error {
		next := batch.First + uint64(len(batch.Records))
		if len(batch.Records) > 0 && !f.send(batch) {
			return net.ErrClosed
		}
		batch, size = Records{First: next}, 0
		return nil
	}
	err = s.engine.Join(func(root engine.Root, lsn uint64, unpin func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		batch.First = root.Applied + 1
		s.followers[f] = struct{}{}
		s.keep(root.Tx, unpin, []*session{f})
		f.send(Welcome{Version: Version, DB: s.engine.Identity, Process: s.self,
			Root: root.Tx, Applied: root.Applied, LSN: lsn})
	}, func(record []byte) error {
		batch.Records = append(batch.Records, slices.Clone(record))
		if size += len(record); size < joinBytes {
			return nil
		}
		return flush()
	})
	if errors.Is(err, engine.ErrClosed) || errors.Is(err, engine.ErrLocked) { // or it has lost the lead
		err = errNotLeader
	}
	if err == nil {
		err = flush()
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f.joined = true
	for _, frame := range f.later {
		f.add(frame)
	}
	f.later = nil
	return nil
}

// succeed ends the connection that a process had before, and waits until its requests have ended:
// the process may ask for their outcomes.
func (s *leader) succeed(f *session, writer [16]byte) error {
	s.mu.Lock()
	before := s.writers[writer]
	if before != nil && before.number > f.number {
		s.mu.Unlock()
		return errors.New("the process has connected again")
	}
	f.writer = writer
	s.writers[writer] = f
	s.mu.Unlock()
	if before != nil {
		before.socket.cut()
		<-before.ended
	}
	return nil
}

// keep holds a root for followers. mu is held.
func (s *leader) keep(tx uint64, unpin func(), users []*session) {
	if len(users) == 0 {
		unpin()
		return
	}
	p := s.roots[tx]
	if p == nil {
		p = &pinned{}
		s.roots[tx] = p
	}
	p.unpin = append(p.unpin, unpin)
	for _, f := range users {
		f.roots = append(f.roots, tx)
		p.users++
	}
}

// letGo ends the use of a root by one follower. mu is held.
func (s *leader) letGo(tx uint64) {
	p := s.roots[tx]
	if p == nil {
		return
	}
	if p.users--; p.users == 0 {
		for _, unpin := range p.unpin {
			unpin()
		}
		delete(s.roots, tx)
	}
}

// Committed sends batches to all followers.
func (s *leader) Committed(first uint64, records []wal.Record, replaced [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.followers) == 0 {
		return
	}
	m := Records{First: first, Replaced: replaced}
	for _, r := range records {
		m.Records = append(m.Records, slices.Concat(r.Parts...))
	}
	s.broadcast(m, (*queue).addLater)
	if !s.timing.Load() { // otherwise the goroutine looks within gatherTime
		select {
		case s.flushes <- struct{}{}:
		default:
		}
	}
}

// Froze tells all followers that the head was frozen, with the next frame for each.
func (s *leader) Froze(lsn uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broadcast(Frozen{LSN: lsn}, (*queue).addLater)
}

// Rooted sends a root to all followers.
func (s *leader) Rooted(root engine.Root, unpin func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(root.Tx, unpin, s.all())
	s.lookForLost()
	s.broadcast(Root{Tx: root.Tx, Applied: root.Applied}, (*queue).addSoon)
}

// Made tells all followers that there are new derived files.
func (s *leader) Made() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broadcast(Derived{}, (*queue).addSoon)
}

// Submitted has the writes of followers committed, and own ones in between.
func (s *leader) Submitted(own bool) bool { return s.loop.submitted(own) }

// broadcast queues a message for all followers, for those that join once they have the present
// state. mu is held, and locks of the engine.
func (s *leader) broadcast(m Message, add func(q *queue, frame []byte) bool) {
	if len(s.followers) == 0 {
		return
	}
	frame, err := Append(nil, m)
	for f := range s.followers {
		switch {
		case err != nil:
			f.socket.cut() // it joins again, and reads the log
		case !f.joined:
			f.later = append(f.later, frame)
		default:
			f.keepUp(add(f.out, frame))
		}
	}
}

// flush sends the records that wait, with the results of followers or when they have waited for
// long enough.
func (s *leader) flush() error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var all []*session
	for {
		select {
		case <-s.ctx.Done():
			return nil
		case <-s.flushes:
		case <-timer.C:
		}
		s.timing.Store(false) // before it looks
		s.mu.Lock()
		all = all[:0]
		for f := range s.followers {
			all = append(all, f)
		}
		s.mu.Unlock()
		now, next := time.Now(), time.Duration(0)
		for _, f := range all {
			if wait := f.out.flush(now); wait > 0 && (next == 0 || wait < next) {
				next = wait
			}
		}
		clear(all)
		if next > 0 {
			timer.Reset(next)
			s.timing.Store(true)
		}
	}
}

// read works on the requests of a follower until its connection or the leader ends. The loop reads
// while there are many.
func (s *leader) read(f *session) {
	f.source.parks, f.source.brief = false, 0
	for f.failed == nil {
		if f.failed = f.socket.park(time.Time{}); f.failed == nil {
			s.loop.add(f)
			<-f.quiet
		}
	}
	if !isLost(f.failed) {
		s.engine.Opts.Logger.Warn("lost a follower", "process", f.process.PID, "error", f.failed)
	}
	f.cancelRequests()
	_ = f.working.Wait() // their errors are in their results
	f.writes.Wait()
}

// serveOne handles the messages of a follower that have arrived.
func (s *leader) serveOne(f *session) {
	for more := true; more && f.failed == nil && !f.full(); more = f.in.ready() {
		m, err := f.in.next()
		if err == errNothing {
			return
		}
		if err == nil {
			err = s.handle(f, m)
		}
		f.failed = err
	}
}

// handle handles a message of a follower. It does not wait for anything.
func (s *leader) handle(f *session, m Message) error {
	switch m := m.(type) {
	case Release:
		s.mu.Lock()
		defer s.mu.Unlock()
		if at := slices.Index(f.roots, m.Tx); at >= 0 {
			f.roots = slices.Delete(f.roots, at, at+1)
			s.letGo(m.Tx)
		}
		return nil
	case Bye:
		f.leaves = true
		return nil
	case Deciding:
		select {
		case f.beat <- struct{}{}:
		default: // the one before has not been seen
		}
		return nil
	case Cancel:
		f.withRequest(m.Request, func(r *request) { r.cancel() })
		return nil
	case Decided:
		f.withRequest(m.Request, func(r *request) {
			select {
			case r.decided <- m:
			default: // a second answer
			}
		})
		return nil
	case WriteOps:
		return s.write(f, m)
	}
	id, work := s.work(f, m)
	if work == nil {
		return fmt.Errorf("unexpected %T", m)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	r := &request{cancel: cancel, decided: make(chan Decided, 1)}
	if err := f.begin(id, r); err != nil {
		cancel()
		return err
	}
	f.working.Go(engine.SocketName, func() error {
		defer cancel()
		result := Result{Request: id}
		err := vfs.Catch(engine.SocketName, func() error { return s.serving(ctx, r, work, &result) })
		s.answer(f, result, err)
		return nil
	})
	return nil
}

// write gives the engine a write of a follower. It is synced at once if the follower allows less
// time for that than this process takes.
func (s *leader) write(f *session, m WriteOps) error {
	if err := f.begin(m.Request, &request{cancel: func() {}}); err != nil {
		return err
	}
	s.mu.Lock()
	closing := s.closing
	s.mu.Unlock()
	if closing {
		s.answer(f, Result{Request: m.Request}, errNotLeader)
		return nil
	}
	f.writes.Add(1)
	s.engine.Submit(f.id(m.Request), m.Ops, m.Size, f.sync, func(deleted int, err error) {
		defer f.writes.Done()
		s.answer(f, Result{Request: m.Request, Deleted: deleted}, err)
	})
	return nil
}

// answer sends the result of a request.
func (s *leader) answer(f *session, result Result, err error) {
	result.Err = s.outcome(err)
	f.end(result.Request)
	f.send(result)
	f.heard.Store(ticks(time.Now()))
}

// work runs a request.
type work func(ctx context.Context, r *request, result *Result) error

func (s *leader) serving(ctx context.Context, r *request, do work, result *Result) error {
	s.mu.Lock()
	closing := s.closing
	s.mu.Unlock()
	if closing {
		return errNotLeader
	}
	return do(ctx, r, result)
}

// outcome returns the error that a follower gets. A request that the end of this leader met has not
// been applied.
func (s *leader) outcome(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case errors.Is(err, engine.ErrUnknown):
		return err
	case errors.Is(err, engine.ErrLocked), // it has lost the lead
		s.closing && (errors.Is(err, engine.ErrClosed) || errors.Is(err, context.Canceled)):
		return errNotLeader
	}
	return err
}

// work returns the number of a request and its work.
func (s *leader) work(f *session, m Message) (id uint64, _ work) {
	switch m := m.(type) {
	case Exclusive:
		id := f.id(m.Request)
		return m.Request, func(ctx context.Context, r *request, result *Result) (err error) {
			result.Deleted, err = s.engine.ExclusivelyFor(ctx, id, f.sync, func(g *engine.Group) ([]engine.Op, error) {
				ops, err := s.decide(ctx, f, m.Request, g.Base.LSN, r)
				if err == nil {
					err = g.Accept(ops)
				}
				return ops, err
			})
			if err == nil {
				s.engine.WakeCompact() // segments may lack a new text index
			}
			return err
		}
	case Outcome:
		return m.Request, func(_ context.Context, _ *request, result *Result) (err error) {
			result.LSN, result.Deleted, err = s.engine.Outcome(f.id(m.Of), m.Seen)
			return err
		}
	case Call:
		return m.Request, func(ctx context.Context, _ *request, result *Result) error {
			return s.call(ctx, m.Kind, result)
		}
	}
	return 0, nil
}

// errRefrained is the error of a follower that decided to write nothing.
var errRefrained = errors.New("the follower writes nothing")

// decide lets a follower decide what to write, while nobody writes, for as long as it says that it
// still does. A follower that is stopped is cut off; it asks again when it goes on.
func (s *leader) decide(ctx context.Context, f *session, id, lsn uint64, r *request) ([]engine.Op, error) {
	f.deciding.Store(true)
	defer f.deciding.Store(false)
	if !f.send(Grant{Request: id, LSN: lsn}) {
		return nil, net.ErrClosed
	}
	late := time.NewTimer(decideTime)
	defer late.Stop()
	look := time.NewTicker(patience)
	defer look.Stop()
	for {
		select {
		case d := <-r.decided:
			if d.Err {
				return nil, errRefrained
			}
			return d.Ops, nil
		case <-f.beat:
			late.Reset(decideTime)
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-look.C:
			if f.pid != 0 && stopped(f.pid) {
				f.socket.cut()
				return nil, net.ErrClosed
			}
		case <-late.C:
			return nil, fmt.Errorf("process %d decides what to write and has not been heard of for %v", f.process.PID, decideTime)
		}
	}
}

// call runs a call that is not a write.
func (s *leader) call(ctx context.Context, kind uint8, result *Result) error {
	switch kind {
	case CallBarrier: // a leader that was fenced does not know what the next one has acknowledged
		if err := s.engine.Begin(); err != nil {
			return err
		}
		defer s.engine.End()
		return s.engine.CheckLead()
	case CallFlush:
		if err := s.engine.Usable(ctx); err != nil {
			return err
		}
		defer s.engine.End()
		return s.engine.Flush()
	case CallCompact:
		if err := s.engine.Usable(ctx); err != nil {
			return err
		}
		defer s.engine.End()
		return s.engine.Compact(ctx)
	case CallProcesses:
		result.Processes = s.processes()
	case CallCheckLog:
		if err := s.engine.Begin(); err != nil {
			return err
		}
		defer s.engine.End()
		damage, err := s.engine.CheckLog(ctx)
		return cmp.Or(err, damage)
	default:
		return fmt.Errorf("unknown call %d", kind)
	}
	return nil
}

// processes lists the leader and its followers, in the order in which they began.
func (s *leader) processes() []Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []Process{s.self}
	for f := range s.followers {
		list = append(list, f.process)
	}
	slices.SortStableFunc(list[1:], func(a, b Process) int { return a.Since.Compare(b.Since) })
	return list
}
