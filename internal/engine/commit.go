package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/wal"
)

// MaxBatchLen is the limit of one batch, db.MaxBatchLen: the bytes of its documents as stored,
// merged with their patches, and of its vectors. A record of the log has room for twice as much.
const MaxBatchLen = 512 << 20

// maxBatchLen is MaxBatchLen. Tests change it.
var maxBatchLen = MaxBatchLen

// Write applies ops, whose documents and vectors have size bytes, all or none. It returns how many
// documents the deletes removed.
func (e *Engine) Write(ctx context.Context, ops []Op, size int) (deleted int, err error) {
	r := &request{ops: ops, size: size}
	err = e.submit(ctx, r)
	return r.deleted, err
}

// Submit is Write for a follower. It does not wait: done gets the result, and must not block.
// CommitSubmitted, or a writer of this process, commits the write. A request that was applied
// already is not applied again, and has the result that it had. With sync, the log is synced before
// the result, whatever the options of this process say.
func (e *Engine) Submit(id RequestID, ops []Op, size int, sync bool, done func(deleted int, err error)) {
	if !e.Leads() {
		done(0, errDeposed) // its follower asks the new leader
		return
	}
	q := &e.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, &request{id: id, ops: ops, size: size, sync: sync, done: done})
}

// CommitSubmitted commits one group of requests, unless somebody is about to do so.
func (e *Engine) CommitSubmitted() {
	q := &e.queue
	q.mu.Lock()
	if q.committing || len(q.waiting) == 0 {
		q.mu.Unlock()
		return
	}
	q.committing = true
	q.mu.Unlock()
	e.commitNext(nil)
}

// Exclusively runs decide while no other write happens, and applies the ops that decide
// returns. decide sees the newest version.
func (e *Engine) Exclusively(ctx context.Context, decide func(*Group) ([]Op, error)) (deleted int, err error) {
	return e.ExclusivelyFor(ctx, RequestID{}, false, decide)
}

// ExclusivelyFor is Exclusively for a follower, whose request is not applied twice. About sync see
// Submit.
func (e *Engine) ExclusivelyFor(ctx context.Context, id RequestID, sync bool,
	decide func(*Group) ([]Op, error)) (deleted int, err error) {
	r := &request{id: id, sync: sync, decide: decide}
	err = e.submit(ctx, r)
	return r.deleted, err
}

// A request is one batch on its way through the queue.
type request struct {
	id      RequestID // zero for a write of this process that no other one follows
	ops     []Op
	size    int
	sync    bool                       // sync the log before the answer, whatever Options say
	decide  func(*Group) ([]Op, error) // if set, computes ops, alone in its group
	deleted int
	err     error
	turn    chan bool                    // true: commit the next group; false: done
	done    func(deleted int, err error) // instead of turn, for a request of Submit
}

// commitQueue lines up requests. A request that finds nobody at work is the committer. It takes
// the queued requests, writes them with one append and one fsync, and gives its turn to the first
// request that queued meanwhile. One fsync then serves all concurrent writers. While other
// processes write, the observer commits instead, because it reads all requests that have arrived
// before: its groups are larger.
type commitQueue struct {
	mu         sync.Mutex
	waiting    []*request
	committing bool // a request has the turn
	many       bool // several goroutines of this process write
}

// maxGroupBytes bounds the size of one append.
const maxGroupBytes = 8 << 20

func (e *Engine) submit(ctx context.Context, r *request) error {
	if e.Opts.ReadOnly {
		return ErrReadOnly
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.MayWait(); err != nil {
		return err
	}
	own := r.id.zero()
	for {
		for e.Role() == Follower {
			if !own {
				return errDeposed // its follower asks the new leader
			}
			if done, err := e.forward(ctx, r); done {
				return err
			}
		}
		unresolved, seen := r.ops, uint64(0)
		if own {
			if r.id = e.ownID(); !r.id.zero() {
				unresolved, seen = slices.Clone(r.ops), e.Seen()
			}
		}
		r.err = nil
		if err := e.enqueue(ctx, r); err != nil {
			return err
		}
		switch {
		case r.err == nil || !errors.Is(r.err, errDeposed):
			return r.err
		case !errors.Is(r.err, ErrUnknown): // the lead was lost before the request was begun
		case !own || r.id.zero():
			return r.err
		default:
			if applied, err := e.askOutcome(ctx, r, seen); applied || err != nil {
				return err
			}
		}
		r.ops = unresolved
	}
}

// ownID returns an id for a write of this process, which leads; zero if no other process follows.
func (e *Engine) ownID() RequestID {
	if up := e.Opts.Upstream; up != nil {
		return up.OwnID()
	}
	return RequestID{}
}

// askOutcome finds out whether a write of this process, made after batch seen when it had lost the
// lead without knowing, is in the log that the next leader took over.
func (e *Engine) askOutcome(ctx context.Context, r *request, seen uint64) (applied bool, err error) {
	if err := e.Begin(); err != nil {
		return false, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	defer e.End()
	r.deleted, applied, err = e.Opts.Upstream.Outcome(ctx, r.id, seen)
	return applied, err
}

// enqueue waits until a group with the request has been committed. It fails with the error of ctx
// if that ends before the group is begun: a function that decides, here or in another process, may
// keep others waiting for ever.
func (e *Engine) enqueue(ctx context.Context, r *request) error {
	r.turn = make(chan bool, 1)
	q, o := &e.queue, e.observer()
	q.mu.Lock()
	q.waiting = append(q.waiting, r)
	turn := !q.committing && !r.left(o)
	q.committing = q.committing || turn
	q.mu.Unlock()
	for {
		if !turn {
			var err error
			if turn, err = q.await(ctx, r); !turn {
				return err
			}
		}
		if e.commitNext(r) {
			return nil
		}
		turn = false // the group was full before r
	}
}

// await waits until a request has the turn, or is done. If ctx ends first, it takes the
// request out of the queue, unless its group has begun.
func (q *commitQueue) await(ctx context.Context, r *request) (turn bool, err error) {
	select {
	case turn = <-r.turn:
		return turn, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	at := slices.Index(q.waiting, r)
	if at < 0 || len(r.turn) > 0 {
		q.mu.Unlock()
		return <-r.turn, nil
	}
	q.waiting = slices.Concat(q.waiting[:at], q.waiting[at+1:]) // a group shares the memory of the old one
	q.mu.Unlock()
	return false, fmt.Errorf("%w: it waited for other writes, and has written nothing", ctx.Err())
}

// left leaves a request to the observer, if that commits requests. Nobody has the turn.
func (r *request) left(o Observer) bool {
	return o != nil && r.decide == nil && o.Submitted(r.done == nil)
}

// gather yields while more requests arrive: one sync costs the same for a large group as
// for a single request. To yield wakes another thread, so a lonely writer does not.
func (q *commitQueue) gather() {
	for before := 0; ; runtime.Gosched() {
		q.mu.Lock()
		n, many := len(q.waiting), q.many
		q.mu.Unlock()
		if n == before || !many {
			return
		}
		before = n
	}
}

// commitNext commits one group and passes the turn of r on. It reports whether r was in the group;
// r is nil if the observer commits.
func (e *Engine) commitNext(r *request) (included bool) {
	q := &e.queue
	q.gather()
	q.mu.Lock()
	n, size := 0, 0
	for n < len(q.waiting) && (n == 0 || size+q.waiting[n].size <= maxGroupBytes) {
		alone := q.waiting[n].decide != nil
		if alone && (n > 0 || q.waiting[n] != r) { // it decides on its own goroutine
			break
		}
		size += q.waiting[n].size
		n++
		if alone {
			break
		}
	}
	group := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	q.mu.Unlock()

	defer e.handOver(r, group) // also when a panic or Goexit ends this goroutine
	if n == 0 {
		return false // the contexts of those before have ended
	}
	e.commitGroup(group)
	return slices.Contains(group, r)
}

// handOver passes on the turn of r after the commit of a group, and answers its members.
func (e *Engine) handOver(r *request, group []*request) {
	e.queue.passOn(group, e.observer())
	woken := false
	for _, member := range group {
		switch {
		case member.done != nil:
			member.done(member.deleted, member.err)
		case member != r:
			member.turn <- false
			woken = true
		}
	}
	// The observer goes on with short system calls and keeps its processor of the runtime. If a
	// flush has the other one, the writers would run only once the observer yields, after 8 ms.
	if woken && r == nil {
		runtime.Gosched()
	}
}

// passOn gives the turn to the first request that waits, or to the observer.
func (q *commitQueue) passOn(group []*request, o Observer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	writers := 0
	for _, requests := range [][]*request{group, q.waiting} {
		for _, r := range requests {
			if r.done == nil {
				writers++
			}
		}
	}
	q.many = writers > 1
	if len(q.waiting) == 0 {
		q.waiting = nil
		q.committing = false
		return
	}
	first := q.waiting[0]
	q.committing = !first.left(o) && first.done == nil
	if q.committing {
		first.turn <- true
	}
}

// errAbandoned is the error of a group whose committer ended during the commit.
var errAbandoned = errors.New("the writing goroutine ended during the commit")

// commitGroup is the write path: resolve, log, sync, apply, publish. A panic becomes the error of
// the whole group: its requests wait for the outcome, and each of them may have caused the panic.
func (e *Engine) commitGroup(requests []*request) {
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	err, logged := errAbandoned, false
	defer func() {
		if err != nil && logged {
			err = e.Fail(err) // the log may hold batches that are not applied
		}
		for _, r := range requests {
			if err != nil && r.err == nil {
				r.err = Translate(err)
			}
		}
	}()
	err = vfs.Catch(WALDir, func() error {
		logged = true // a panic during rotation may leave the log between two files
		err := e.makeRoom()
		if logged = false; err != nil {
			return err
		}
		return e.commitLocked(requests, &logged)
	})
}

// commitLocked commits a group once there is room. The error applies to every request
// that has none of its own. logged is true while the log may hold batches that are not
// applied: an error or panic then must stop further writes.
func (e *Engine) commitLocked(requests []*request, logged *bool) error {
	g := newGroup(e)
	records, err := g.records(requests)
	if err != nil {
		return err
	}
	strict := slices.ContainsFunc(requests, func(r *request) bool { return r.sync })
	log := e.log.Load()
	if len(records) == 0 {
		if !strict {
			return nil
		}
		return e.SyncLog() // a delete that a request found done, by another process, may be unsynced
	}
	*logged = true
	last, err := log.Append(records)
	if err == nil && (e.Opts.SyncAlways || strict) {
		err = log.Sync()
	}
	if fenced := e.fenced(); errors.Is(fenced, errDeposed) {
		// The process that leads now has a copy in another directory: nobody reads this log again,
		// so its batches cannot contradict later writes.
		*logged = false
		return fmt.Errorf("%w: %w", ErrUnknown, fenced)
	} else if err == nil && fenced != nil {
		return fenced
	}
	if err != nil {
		// A log that cannot create its next file has written nothing and stays usable.
		// After a failed write or sync, the log refuses every further sync, so Sync tells
		// the two apart.
		if failed := log.Sync(); failed != nil {
			err = e.Fail(failed)
		}
		*logged = false
		return err
	}
	e.head.logged += wal.GroupSize(records)
	err = e.Guard(func() error {
		lsn := last - uint64(len(records))
		for _, r := range requests {
			if r.err == nil && len(r.ops) > 0 {
				lsn++
				g.apply(r.ops)
				e.outcomes.note(lsn, r.id, r.deleted)
			}
		}
		g.publish(last)
		return nil
	})
	if err != nil {
		return e.Fail(err) // the log is ahead of the state in memory
	}
	if o := e.observer(); o != nil {
		replaced := make([][]byte, 0, len(records))
		for _, r := range requests {
			if r.err == nil && len(r.ops) > 0 {
				replaced = append(replaced, replacedBy(r.ops))
			}
		}
		o.Committed(last+1-uint64(len(records)), records, replaced)
	}
	return nil
}

// SyncLog makes the batches in the log durable, whatever Options say about writes. After an error
// the database is read-only until it is reopened. Only a leader has a log.
func (e *Engine) SyncLog() error {
	if err := e.log.Load().Sync(); err != nil {
		return e.Fail(err)
	}
	return nil
}

// records resolves requests and returns their records for the log. A request with an error of its
// own has no record, nor has one that changes nothing.
func (g *Group) records(requests []*request) ([]wal.Record, error) {
	e := g.engine
	for _, r := range requests {
		if o, applied, _ := e.outcomes.find(r.id); applied { // its follower has sent it again
			r.ops, r.decide, r.deleted = nil, nil, o.deleted
		}
	}
	if r := requests[0]; r.decide != nil {
		err := e.Guard(func() (err error) {
			r.ops, err = r.decide(g)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	var records []wal.Record
	err := e.Read(g.Base, func(tx *meta.Tx) error {
		g.tx = tx
		for _, r := range requests {
			first := g.nextNum
			if r.err = Translate(g.resolve(r)); r.err != nil || len(r.ops) == 0 {
				continue
			}
			parts, err := EncodeRecord(Batch{First: first, Ops: r.ops, Request: r.id})
			if err != nil {
				return err
			}
			records = append(records, wal.Record{Parts: parts})
		}
		return nil
	})
	return records, err
}

// replacedBy returns Record.Replaced of resolved writes.
func replacedBy(ops []Op) []byte {
	e := codec.Encoder{B: make([]byte, 0, len(ops))}
	for i := range ops {
		if k := ops[i].Kind; k == OpPut || k == OpDelete {
			e.Uvarint(ops[i].old)
		}
	}
	return e.B
}

// A Group is a set of requests that become visible together. It resolves each request
// against the newest version and the writes of the requests before it.
type Group struct {
	engine  *Engine
	Base    *Version
	tx      *meta.Tx
	nextNum uint64
	NextID  uint32                 // next collection number
	defs    map[uint32]*Definition // collections changed by the group; nil is a drop
	pending map[docKey]*Op         // newest write of each id, by resolved requests
	own     map[docKey]*Op         // the same, by the request being resolved

	kept  bool             // the head has the writes
	views map[uint32]*View // collections touched, with their new state
	kills map[uint32][]uint64
}

type docKey struct {
	coll uint32
	id   string
}

// newGroup must be called, and the group used, with commitMu held.
func newGroup(e *Engine) *Group {
	return &Group{
		engine: e, Base: e.tip(), nextNum: e.nextNum, NextID: e.nextColl,
		defs:    map[uint32]*Definition{},
		pending: map[docKey]*Op{},
		own:     map[docKey]*Op{},
		views:   map[uint32]*View{},
		kills:   map[uint32][]uint64{},
	}
}

// resolve turns a request into final writes: it fills in collection numbers, DocNums and
// replaced versions, merges patches, and drops deletes of missing documents. On an error
// the group is unchanged, so that the remaining requests can commit.
func (g *Group) resolve(r *request) (err error) {
	nextNum, nextID, defs := g.nextNum, g.NextID, maps.Clone(g.defs)
	if n := len(r.ops); n > 8 {
		g.own = make(map[docKey]*Op, n)
	}
	defer func() {
		switch {
		case err != nil:
			g.nextNum, g.NextID, g.defs = nextNum, nextID, defs
			r.deleted = 0
		case len(g.pending) == 0:
			g.pending, g.own = g.own, g.pending
		default:
			maps.Copy(g.pending, g.own)
		}
		clear(g.own)
	}()
	kept, size := r.ops[:0], 0
	for i := range r.ops {
		o := &r.ops[i]
		if o.Kind == OpDefine || o.Kind == OpDrop {
			g.defs[o.Coll] = o.Def
			kept = append(kept, *o)
			continue
		}
		def, err := g.definition(o)
		if err != nil {
			return err
		}
		o.Coll = def.ID
		current, pending, err := g.current(o.Coll, o.ID)
		if err != nil {
			return err
		}
		o.old = current
		switch {
		case o.Kind == OpDelete && current == 0:
			continue
		case o.Kind == OpDelete:
			r.deleted++
		case o.Insert && current != 0 && g.own[docKey{o.Coll, o.ID}] != nil:
			return fmt.Errorf("%w: document %q in collection %q: the batch has this id twice", ErrExists, o.ID, def.Name)
		case o.Insert && current != 0:
			return fmt.Errorf("%w: document %q in collection %q", ErrExists, o.ID, def.Name)
		case o.Patch != nil && current == 0:
			return fmt.Errorf("%w: document %q in collection %q", ErrNotFound, o.ID, def.Name)
		case o.Patch != nil:
			if err := g.merge(o, pending); err != nil {
				return err
			}
		}
		if len(o.Vec) > 0 && len(o.Vec) != def.Schema.Dim {
			if def.Schema.Dim != 0 {
				return &DimensionError{Collection: def.Name, ID: o.ID, Expected: def.Schema.Dim, Got: len(o.Vec)}
			}
			set := *def
			set.Schema.Dim = len(o.Vec)
			g.defs[def.ID] = &set
			if len(kept) == i { // the definition would overwrite o
				kept = append(make([]Op, 0, len(r.ops)+1), kept...)
			}
			kept = append(kept, Op{Kind: OpDefine, Coll: def.ID, Def: &set})
		}
		if o.Kind == OpPut {
			o.Num = g.nextNum
			g.nextNum++
			if size += len(o.Doc) + 4*len(o.Vec); size > maxBatchLen {
				return document.Invalidf("the documents of the batch, with their patches, are larger than %d bytes",
					maxBatchLen)
			}
		}
		kept = append(kept, *o)
		g.own[docKey{o.Coll, o.ID}] = &kept[len(kept)-1]
	}
	r.ops = kept
	return nil
}

// Accept checks the definitions among ops that another process has decided on, and takes the
// numbers of new collections.
func (g *Group) Accept(ops []Op) error {
	for i := range ops {
		o := &ops[i]
		if o.Kind != OpDefine && o.Kind != OpDrop {
			continue
		}
		old := g.Base.Views[o.Coll]
		taken, known := uint32(0), false
		if o.Kind == OpDefine {
			taken, known = g.Base.Names[o.Def.Name]
		}
		switch {
		case old == nil && (o.Kind == OpDrop || o.Coll != g.NextID):
			return fmt.Errorf("%w: collection number %d", ErrNotFound, o.Coll)
		case known && taken != o.Coll:
			return fmt.Errorf("%w: collection %q", ErrExists, o.Def.Name)
		case old == nil:
			g.NextID++
		case o.Kind == OpDefine && (o.Def.Schema.Metric != old.Def.Schema.Metric ||
			old.Def.Schema.Dim != 0 && o.Def.Schema.Dim != old.Def.Schema.Dim):
			return fmt.Errorf("%w: collection %q", ErrSchema, old.Def.Name)
		}
	}
	return nil
}

// definition returns the present definition of the collection that o writes to.
func (g *Group) definition(o *Op) (*Definition, error) {
	id := o.Coll
	if !o.Bound {
		// Names change only in groups of their own.
		var ok bool
		if id, ok = g.Base.Names[o.Collection]; !ok {
			return nil, Missing(o.Collection, g.Base.Names)
		}
	}
	if def := g.defs[id]; def != nil {
		return def, nil
	}
	if v := g.Base.Views[id]; v != nil {
		return v.Def, nil
	}
	return nil, fmt.Errorf("%w: the collection was dropped", ErrNotFound)
}

// current returns the DocNum of an id, or 0, and the write of this group that assigned
// it, if any.
func (g *Group) current(coll uint32, id string) (uint64, *Op, error) {
	key := docKey{coll, id}
	for _, writes := range []map[docKey]*Op{g.own, g.pending} {
		if o := writes[key]; o != nil {
			return o.Num, o, nil
		}
	}
	v := g.Base.Views[coll]
	if v == nil {
		return 0, nil, nil // created by this group
	}
	num, err := g.Base.Num(g.tx, v, id)
	return num, nil, err
}

// merge turns a patch into a put of the whole document.
func (g *Group) merge(o *Op, pending *Op) error {
	doc, vec := []byte(nil), []float32(nil)
	if pending != nil {
		doc, vec = pending.Doc, pending.Vec
	} else {
		v := g.Base.Views[o.Coll]
		p, row, ok := v.Locate(o.old)
		if !ok {
			return MissingDocument(v.Def.Name, o.old)
		}
		var err error
		if doc, err = v.Stored(g.tx, p, row); err != nil {
			return err
		}
		if o.Vec == nil {
			if vec, err = p.Vector(row); err != nil {
				return err
			}
		}
	}
	d, err := document.Decode(doc, document.All)
	if err != nil {
		return err
	}
	if o.Patch.Text != nil {
		d.Text = *o.Patch.Text
	}
	for _, field := range o.Patch.Unset {
		delete(d.Metadata, field)
	}
	if len(o.Patch.Set) > 0 && d.Metadata == nil {
		d.Metadata = map[string]any{}
	}
	maps.Copy(d.Metadata, o.Patch.Set)
	if o.Doc, err = document.Append(nil, &d); err != nil {
		return err
	}
	if o.Vec == nil {
		o.Vec = vec
	}
	return nil
}

// view returns a view of a collection that the group may change.
func (g *Group) view(coll uint32) *View {
	v := g.views[coll]
	if v == nil {
		v = g.Base.Views[coll].clone()
		g.views[coll] = v
	}
	return v
}

// apply adds resolved writes to the head.
func (g *Group) apply(ops []Op) {
	for i := range ops {
		o := &ops[i]
		switch o.Kind {
		case OpDefine:
			if _, exists := g.Base.Views[o.Coll]; !exists && g.views[o.Coll] == nil {
				g.views[o.Coll] = &View{}
			}
			g.view(o.Coll).Def = o.Def
		case OpDrop:
			g.views[o.Coll] = nil
		case OpPut:
			g.view(o.Coll).Count++
		}
		if !g.kept {
			g.addToHead(o)
		}
		if o.old != 0 {
			g.view(o.Coll).Count--
			g.kills[o.Coll] = append(g.kills[o.Coll], o.old)
		}
	}
}

// addToHead adds a resolved write to the head.
func (g *Group) addToHead(o *Op) {
	h := g.engine.head
	switch o.Kind {
	case OpDefine:
		h.coll(o.Coll) // so that the flush includes the collection
	case OpDrop:
		h.dropped(o.Coll, g.Base.Views[o.Coll])
	case OpPut:
		h.put(o.Coll, o)
	case OpDelete:
		h.coll(o.Coll).record(o.ID, 0)
		h.bytes += int64(len(o.ID)) + entryOverhead
	}
}

// publish makes the applied writes visible, as of batch lsn.
func (g *Group) publish(lsn uint64) {
	e := g.engine
	e.nextNum, e.nextColl = g.nextNum, max(g.NextID, e.nextColl)
	next := g.Base.successor()
	next.LSN, next.nextNum = lsn, g.nextNum
	renamed, indexed := false, false
	for id, v := range g.views {
		before := next.Views[id]
		if v == nil {
			delete(next.Views, id)
		} else {
			if older := e.shared.received.frozen; g.kept && older != nil {
				v.refresh(older.colls[id])
			}
			v.refresh(e.head.colls[id])
			v.kill(g.kills[id])
			next.Views[id] = v
		}
		renamed = renamed || v == nil || before == nil || before.Def.Name != v.Def.Name
		indexed = indexed || v != nil && before != nil && before.Def.Schema.Index != v.Def.Schema.Index
	}
	if renamed {
		next.Names = make(map[string]uint32, len(next.Views))
		for id, v := range next.Views {
			next.Names[v.Def.Name] = id
		}
	}
	e.publish(next)
	if indexed {
		e.background.wakeDerive()
	}
}

// refresh replaces the parts and entries of the active head by their newest state.
func (v *View) refresh(c *collHead) {
	if c == nil {
		return
	}
	for _, t := range []*table{c.vec, c.bare} {
		if t == nil {
			continue
		}
		fresh, at := t.part(), len(v.Parts)
		for i, p := range v.Parts {
			if p.table == t {
				at, fresh.Dead = i, p.Dead
			}
		}
		if at == len(v.Parts) {
			v.Parts = append(v.Parts, fresh)
		} else {
			v.Parts[at] = fresh
		}
	}
	h := headView{Coll: c, Entries: len(c.entries)}
	if at := slices.IndexFunc(v.Heads, func(h headView) bool { return h.Coll == c }); at >= 0 {
		v.Heads[at] = h
	} else {
		v.Heads = append([]headView{h}, v.Heads...)
	}
}
