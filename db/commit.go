package db

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"sync"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/wal"
)

// Apply makes all writes of b take effect, across collections, or none. When it returns
// nil, the writes survive power loss (see SyncPolicy). An error means that nothing was
// written, except ErrUnknown: the disk failed during the write.
//
// The context is honoured until the batch is queued for the log; from then on Apply waits
// for the outcome. Concurrent calls share one fsync.
func (db *DB) Apply(ctx context.Context, b *Batch) error {
	if b.err != nil {
		return fmt.Errorf("db: apply: %w", b.err)
	}
	_, err := db.apply(ctx, b)
	if err != nil {
		return fmt.Errorf("db: apply: %w", err)
	}
	return nil
}

// apply is Apply; it returns how many documents the deletes removed.
func (db *DB) apply(ctx context.Context, b *Batch) (deleted int, err error) {
	r := &request{ops: make([]op, len(b.ops)), size: b.len}
	for i, o := range b.ops {
		o.doc = b.buf[o.start:o.end:o.end]
		r.ops[i] = o
	}
	err = db.submit(ctx, r)
	return r.deleted, err
}

// exclusively runs decide while no other write happens, and applies the ops that decide
// returns. decide sees the newest version.
func (db *DB) exclusively(ctx context.Context, decide func(*group) ([]op, error)) (deleted int, err error) {
	r := &request{decide: decide}
	err = db.submit(ctx, r)
	return r.deleted, err
}

// A request is one batch on its way through the queue.
type request struct {
	ops     []op
	size    int
	decide  func(*group) ([]op, error) // if set, computes ops, alone in its group
	deleted int
	err     error
	turn    chan bool // true: lead the next group; false: done
}

// commitQueue lines up requests. A request that finds no leader becomes the leader. It
// takes the queued requests, writes them with one append and one fsync, and hands the
// lead to the first request that queued while it wrote. One fsync then serves all
// concurrent writers.
type commitQueue struct {
	mu      sync.Mutex
	waiting []*request
	leading bool
}

// maxGroupBytes bounds the size of one append.
const maxGroupBytes = 8 << 20

func (db *DB) submit(ctx context.Context, r *request) error {
	if db.opts.ReadOnly {
		return ErrReadOnly
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	r.turn = make(chan bool, 1)
	q := &db.queue
	q.mu.Lock()
	q.waiting = append(q.waiting, r)
	lead := !q.leading
	q.leading = true
	q.mu.Unlock()
	if lead || <-r.turn {
		db.lead(r)
	}
	return r.err
}

// gather yields while more requests arrive: one sync costs the same for a large group as
// for a single request.
func (q *commitQueue) gather() {
	for before := 0; ; runtime.Gosched() {
		q.mu.Lock()
		n := len(q.waiting)
		q.mu.Unlock()
		if n == before {
			return
		}
		before = n
	}
}

// lead commits one group, starting with r, and passes the lead on.
func (db *DB) lead(r *request) {
	q := &db.queue
	q.gather()
	q.mu.Lock()
	n, size := 0, 0
	for n < len(q.waiting) && (n == 0 || size+q.waiting[n].size <= maxGroupBytes) {
		alone := q.waiting[n].decide != nil
		if alone && n > 0 {
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

	defer q.handOver(r, group) // also when a panic or Goexit ends this goroutine
	db.commitGroup(group)
}

// handOver wakes the followers of a group after its commit and passes on the lead of r.
func (q *commitQueue) handOver(r *request, group []*request) {
	for _, member := range group {
		if member != r {
			member.turn <- false
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 {
		q.waiting[0].turn <- true
	} else {
		q.waiting = nil
		q.leading = false
	}
}

// errAbandoned is the error of a group whose leader goroutine ended during the commit.
var errAbandoned = errors.New("the writing goroutine ended during the commit")

// commitGroup is the write path: resolve, log, sync, apply, publish. A panic becomes the
// error of the whole group: followers wait for the outcome, and a batch of any of them
// may have caused the panic.
func (db *DB) commitGroup(requests []*request) {
	db.commitMu.Lock()
	defer db.commitMu.Unlock()
	err, logged := errAbandoned, false
	defer func() {
		if err != nil && logged {
			err = db.fail(err) // the log may hold batches that are not applied
		}
		for _, r := range requests {
			if err != nil && r.err == nil {
				r.err = translate(err)
			}
		}
	}()
	err = vfs.Catch(walDir, func() error {
		logged = true // a panic during rotation may leave the log between two files
		err := db.makeRoom()
		if logged = false; err != nil {
			return err
		}
		return db.commitLocked(requests, &logged)
	})
}

// commitLocked commits a group once there is room. The error applies to every request
// that has none of its own. logged is true while the log may hold batches that are not
// applied: an error or panic then must stop further writes.
func (db *DB) commitLocked(requests []*request, logged *bool) error {
	g := newGroup(db)
	if r := requests[0]; r.decide != nil {
		err := db.guard(func() (err error) {
			r.ops, err = r.decide(g)
			return err
		})
		if err != nil {
			return err
		}
	}
	var records []wal.Record
	err := db.read(g.base, func(tx *meta.Tx) error {
		g.tx = tx
		for _, r := range requests {
			first := g.nextNum
			if r.err = translate(g.resolve(r)); r.err != nil || len(r.ops) == 0 {
				continue
			}
			parts, err := encodeRecord(first, r.ops)
			if err != nil {
				return err
			}
			records = append(records, wal.Record{Parts: parts})
		}
		return nil
	})
	if err != nil || len(records) == 0 {
		return err
	}
	*logged = true
	last, err := db.log.Append(records)
	if err == nil && db.opts.Sync == SyncAlways {
		err = db.log.Sync()
	}
	if err != nil {
		// A log that cannot create its next file has written nothing and stays usable.
		// After a failed write or sync, the log refuses every further sync, so Sync tells
		// the two apart.
		if failed := db.log.Sync(); failed != nil {
			err = db.fail(failed)
		}
		*logged = false
		return err
	}
	db.active.logged += wal.GroupSize(records)
	err = db.guard(func() error {
		for _, r := range requests {
			if r.err == nil {
				g.apply(r.ops)
			}
		}
		g.publish(last)
		return nil
	})
	if err != nil {
		return db.fail(err) // the log is ahead of the state in memory
	}
	return nil
}

// A group is a set of requests that become visible together. It resolves each request
// against the newest version and the writes of the requests before it.
type group struct {
	db      *DB
	base    *version
	tx      *meta.Tx
	nextNum uint64
	nextID  uint32                 // next collection number
	defs    map[uint32]*definition // collections changed by the group; nil is a drop
	pending map[docKey]*op         // newest write of each id, by resolved requests
	own     map[docKey]*op         // the same, by the request being resolved

	views map[uint32]*view // collections touched, with their new state
	kills map[uint32][]uint64
}

type docKey struct {
	coll uint32
	id   string
}

// newGroup must be called, and the group used, with commitMu held.
func newGroup(db *DB) *group {
	return &group{
		db: db, base: db.tip(), nextNum: db.nextNum, nextID: db.nextColl,
		defs:    map[uint32]*definition{},
		pending: map[docKey]*op{},
		own:     map[docKey]*op{},
		views:   map[uint32]*view{},
		kills:   map[uint32][]uint64{},
	}
}

// resolve turns a request into final writes: it fills in collection numbers, DocNums and
// replaced versions, merges patches, and drops deletes of missing documents. On an error
// the group is unchanged, so that the remaining requests can commit.
func (g *group) resolve(r *request) (err error) {
	nextNum, nextID, defs := g.nextNum, g.nextID, maps.Clone(g.defs)
	if n := len(r.ops); n > 8 {
		g.own = make(map[docKey]*op, n)
	}
	defer func() {
		switch {
		case err != nil:
			g.nextNum, g.nextID, g.defs = nextNum, nextID, defs
			r.deleted = 0
		case len(g.pending) == 0:
			g.pending, g.own = g.own, g.pending
		default:
			maps.Copy(g.pending, g.own)
		}
		clear(g.own)
	}()
	kept := r.ops[:0]
	for i := range r.ops {
		o := &r.ops[i]
		if o.kind == opDefine || o.kind == opDrop {
			g.defs[o.coll] = o.def
			kept = append(kept, *o)
			continue
		}
		def, err := g.definition(o)
		if err != nil {
			return err
		}
		o.coll = def.id
		current, pending, err := g.current(o.coll, o.id)
		if err != nil {
			return err
		}
		o.old = current
		switch {
		case o.kind == opDelete && current == 0:
			continue
		case o.kind == opDelete:
			r.deleted++
		case o.insert && current != 0:
			return fmt.Errorf("%w: document %q in collection %q", ErrExists, o.id, def.name)
		case o.patch != nil && current == 0:
			return fmt.Errorf("%w: document %q in collection %q", ErrNotFound, o.id, def.name)
		case o.patch != nil:
			if err := g.merge(o, pending); err != nil {
				return err
			}
		}
		if len(o.vec) > 0 && len(o.vec) != def.schema.Dim {
			if def.schema.Dim != 0 {
				return &DimensionError{Collection: def.name, ID: o.id, Expected: def.schema.Dim, Got: len(o.vec)}
			}
			set := *def
			set.schema.Dim = len(o.vec)
			g.defs[def.id] = &set
			if len(kept) == i { // the definition would overwrite o
				kept = append(make([]op, 0, len(r.ops)+1), kept...)
			}
			kept = append(kept, op{kind: opDefine, coll: def.id, def: &set})
		}
		if o.kind == opPut {
			o.num = g.nextNum
			g.nextNum++
		}
		kept = append(kept, *o)
		g.own[docKey{o.coll, o.id}] = &kept[len(kept)-1]
	}
	r.ops = kept
	return nil
}

// definition returns the present definition of the collection that o writes to.
func (g *group) definition(o *op) (*definition, error) {
	id := o.coll
	if !o.bound {
		// Names change only in groups of their own.
		var ok bool
		if id, ok = g.base.names[o.collection]; !ok {
			return nil, fmt.Errorf("%w: collection %q", ErrNotFound, o.collection)
		}
	}
	if def := g.defs[id]; def != nil {
		return def, nil
	}
	if v := g.base.views[id]; v != nil {
		return v.def, nil
	}
	return nil, fmt.Errorf("%w: the collection was dropped", ErrNotFound)
}

// current returns the DocNum of an id, or 0, and the write of this group that assigned
// it, if any.
func (g *group) current(coll uint32, id string) (uint64, *op, error) {
	key := docKey{coll, id}
	for _, writes := range []map[docKey]*op{g.own, g.pending} {
		if o := writes[key]; o != nil {
			return o.num, o, nil
		}
	}
	v := g.base.views[coll]
	if v == nil {
		return 0, nil, nil // created by this group
	}
	num, err := g.base.num(g.tx, v, id)
	return num, nil, err
}

// merge turns a patch into a put of the whole document.
func (g *group) merge(o *op, pending *op) error {
	doc, vec := []byte(nil), []float32(nil)
	if pending != nil {
		doc, vec = pending.doc, pending.vec
	} else {
		v := g.base.views[o.coll]
		p, row, ok := v.locate(o.old)
		if !ok {
			return missingDocument(v.def.name, o.old)
		}
		var err error
		if doc, err = v.stored(g.tx, p, row); err != nil {
			return err
		}
		if o.patch.Vector == nil {
			if vec, err = p.vector(row); err != nil {
				return err
			}
		}
	}
	d, err := document.Decode(doc, document.All)
	if err != nil {
		return err
	}
	if o.patch.Text != nil {
		d.Text = *o.patch.Text
	}
	for _, field := range o.patch.Unset {
		delete(d.Metadata, field)
	}
	if len(o.patch.Set) > 0 && d.Metadata == nil {
		d.Metadata = map[string]any{}
	}
	maps.Copy(d.Metadata, o.patch.Set)
	if o.doc, err = document.Append(nil, &d); err != nil {
		return err
	}
	if o.patch.Vector == nil {
		o.vec = vec
	}
	return nil
}

// view returns a view of a collection that the group may change.
func (g *group) view(coll uint32) *view {
	v := g.views[coll]
	if v == nil {
		v = g.base.views[coll].clone()
		g.views[coll] = v
	}
	return v
}

// apply adds resolved writes to the head.
func (g *group) apply(ops []op) {
	for i := range ops {
		o := &ops[i]
		switch o.kind {
		case opDefine:
			if _, exists := g.base.views[o.coll]; !exists && g.views[o.coll] == nil {
				g.views[o.coll] = &view{}
			}
			g.view(o.coll).def = o.def
			g.db.active.coll(o.coll) // so that the flush includes the collection
			continue
		case opDrop:
			g.views[o.coll] = nil
			g.db.active.coll(o.coll)
			continue
		case opPut:
			g.db.active.put(o.coll, o)
			g.view(o.coll).count++
		case opDelete:
			g.db.active.coll(o.coll).record(o.id, 0)
			g.db.active.bytes += int64(len(o.id)) + entryOverhead
		}
		if o.old != 0 {
			g.view(o.coll).count--
			g.kills[o.coll] = append(g.kills[o.coll], o.old)
		}
	}
}

// publish makes the applied writes visible, as of batch lsn.
func (g *group) publish(lsn uint64) {
	db := g.db
	db.nextNum, db.nextColl = g.nextNum, max(g.nextID, db.nextColl)
	next := g.base.successor()
	next.lsn, next.nextNum = lsn, g.nextNum
	renamed := false
	for id, v := range g.views {
		before := next.views[id]
		if v == nil {
			delete(next.views, id)
		} else {
			v.refresh(db.active.colls[id])
			v.kill(g.kills[id])
			next.views[id] = v
		}
		renamed = renamed || v == nil || before == nil || before.def.name != v.def.name
	}
	if renamed {
		next.names = make(map[string]uint32, len(next.views))
		for id, v := range next.views {
			next.names[v.def.name] = id
		}
	}
	db.publish(next)
}

// refresh replaces the parts and entries of the active head by their newest state.
func (v *view) refresh(c *collHead) {
	if c == nil {
		return
	}
	for _, t := range []*table{c.vec, c.bare} {
		if t == nil {
			continue
		}
		fresh, at := t.part(), len(v.parts)
		for i, p := range v.parts {
			if p.table == t {
				at, fresh.dead = i, p.dead
			}
		}
		if at == len(v.parts) {
			v.parts = append(v.parts, fresh)
		} else {
			v.parts[at] = fresh
		}
	}
	h := headView{coll: c, entries: len(c.entries)}
	if len(v.heads) > 0 && v.heads[0].coll == c {
		v.heads[0] = h
	} else {
		v.heads = append([]headView{h}, v.heads...)
	}
}
