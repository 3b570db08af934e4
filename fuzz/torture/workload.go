package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A profile describes a kind of workload.
type profile struct {
	name    string
	steps   int // per track; 0: no end
	tracks  int // concurrent writers
	head    int64
	sync    db.SyncPolicy
	compact bool // in the background
	ids     int  // number of ids: few make updates
	text    int  // largest text, in bytes
	docs    int  // most documents of a batch
	cost    int  // divisor of the number of verified states, for large states; 0 is 1
	weights []weight
}

// A weight is the relative frequency of a kind of step.
type weight struct {
	kind stepKind
	n    int
}

type stepKind uint8

const (
	stepBatch  stepKind = iota // puts to one collection
	stepCross                  // puts, patches and deletes over two collections, as one batch
	stepDelete                 // deletes by id
	stepWhere                  // deletes by condition
	stepCreate
	stepDrop
	stepRename
	stepMeta // metadata of a collection
	stepText // makes or drops its full-text index
	lastWrite
	stepFlush
	stepCompact
	stepBackup
	stepReopen
	stepSnapshot // opens a snapshot, and closes the previous one
	stepRead     // reads everything, and compares
	stepPublish  // to the folder of replicas
	stepRestore  // restores the last backup: the database continues from there
	stepDepose   // takes the lead away, as from a process that is stopped
)

const (
	kib = 1 << 10
	dim = 8

	mostCollections = 12 // per track; then one is dropped instead
)

// profiles are the workloads, each about one feature of a database.
var profiles = []profile{
	{name: "puts", steps: 40, head: 64 * kib, ids: 1000, text: 3000, docs: 4, weights: []weight{{stepBatch, 1}}},
	{name: "batches", steps: 40, head: 64 * kib, ids: 60, text: 1500, docs: 4,
		weights: []weight{{stepCross, 4}, {stepBatch, 1}}},
	{name: "updates", steps: 50, head: 16 * kib, ids: 12, text: 700, docs: 3,
		weights: []weight{{stepBatch, 5}, {stepCross, 2}}},
	{name: "deletes", steps: 50, head: 12 * kib, ids: 40, text: 400, docs: 5,
		weights: []weight{{stepBatch, 3}, {stepDelete, 3}, {stepFlush, 1}}},
	{name: "deletes-where", steps: 50, head: 12 * kib, ids: 60, text: 300, docs: 6,
		weights: []weight{{stepBatch, 4}, {stepWhere, 2}, {stepFlush, 1}}},
	{name: "collections", steps: 60, head: 16 * kib, ids: 20, text: 300, docs: 3,
		weights: []weight{{stepBatch, 4}, {stepCreate, 3}, {stepDrop, 2}, {stepRename, 2},
			{stepMeta, 2}, {stepFlush, 1}}},
	{name: "flushes", steps: 50, head: 8 * kib, ids: 40, text: 900, docs: 4,
		weights: []weight{{stepBatch, 4}, {stepCross, 2}, {stepFlush, 3}}},
	{name: "compaction", steps: 50, head: 16 * kib, ids: 30, text: 300, docs: 5,
		weights: []weight{{stepBatch, 4}, {stepDelete, 2}, {stepWhere, 1}, {stepFlush, 2}, {stepCompact, 1}}},
	{name: "background", steps: 60, head: 8 * kib, compact: true, ids: 30, text: 500, docs: 4,
		weights: []weight{{stepBatch, 4}, {stepCross, 2}, {stepDelete, 1}, {stepFlush, 2}}},
	{name: "backup", steps: 30, head: 16 * kib, ids: 30, text: 400, docs: 3,
		weights: []weight{{stepBatch, 4}, {stepDelete, 1}, {stepBackup, 1}}},
	{name: "restore", steps: 30, head: 16 * kib, ids: 30, text: 400, docs: 3,
		weights: []weight{{stepBatch, 5}, {stepDelete, 1}, {stepBackup, 1}, {stepRestore, 1},
			{stepFlush, 1}, {stepPublish, 2}, {stepText, 1}}},
	{name: "publish", steps: 24, head: 16 * kib, compact: true, ids: 20, text: 400, docs: 3,
		weights: []weight{{stepBatch, 4}, {stepCross, 1}, {stepDelete, 1}, {stepPublish, 2},
			{stepCompact, 1}, {stepText, 1}}},
	{name: "publish-unsynced", steps: 30, head: 64 * kib, sync: db.SyncNever, ids: 20, text: 400, docs: 3,
		weights: []weight{{stepBatch, 6}, {stepCross, 2}, {stepDelete, 1}, {stepPublish, 2}}},
	{name: "reopen", steps: 40, head: 16 * kib, ids: 30, text: 600, docs: 3,
		weights: []weight{{stepBatch, 4}, {stepDelete, 1}, {stepReopen, 1}}},
	{name: "snapshots", steps: 60, head: 12 * kib, ids: 12, text: 300, docs: 3,
		weights: []weight{{stepBatch, 4}, {stepDelete, 1}, {stepSnapshot, 2}, {stepFlush, 1},
			{stepCompact, 1}, {stepDrop, 1}, {stepCreate, 1}}},
	{name: "deposed", steps: 24, head: 16 * kib, compact: true, ids: 20, text: 400, docs: 3,
		weights: []weight{{stepBatch, 4}, {stepDelete, 1}, {stepDepose, 2}, {stepFlush, 1}, {stepCompact, 1}}},
	{name: "words", steps: 40, head: 12 * kib, compact: true, ids: 30, text: 400, docs: 4,
		weights: []weight{{stepBatch, 4}, {stepCross, 2}, {stepDelete, 1}, {stepText, 2},
			{stepFlush, 2}, {stepCompact, 1}}},
	{name: "writers", steps: 16, tracks: 4, cost: 3, head: 16 * kib, compact: true, ids: 20, text: 900, docs: 3,
		weights: []weight{{stepBatch, 4}, {stepCross, 2}, {stepDelete, 1}, {stepWhere, 1}, {stepFlush, 1}}},
	{name: "unsynced", steps: 50, head: 16 * kib, sync: db.SyncNever, ids: 30, text: 900, docs: 3,
		weights: []weight{{stepBatch, 6}, {stepCross, 2}, {stepDelete, 1}, {stepFlush, 1}}},
	{name: "rotation", steps: 12, cost: 6, head: 16 << 20, ids: 12, text: 900 * kib, docs: 1,
		weights: []weight{{stepBatch, 1}}},
	{name: "rewrite", steps: 36, head: 256 * kib, ids: 30, text: 120 * kib, docs: 2,
		weights: []weight{{stepBatch, 4}, {stepWhere, 2}, {stepDelete, 1}, {stepCompact, 2}}},
	{name: "mixed", steps: 60, head: 12 * kib, compact: true, ids: 40, text: 600, docs: 4,
		weights: []weight{{stepBatch, 6}, {stepCross, 4}, {stepDelete, 2}, {stepWhere, 1},
			{stepCreate, 1}, {stepDrop, 1}, {stepRename, 1},
			{stepMeta, 1}, {stepFlush, 1}, {stepCompact, 1}, {stepReopen, 1}, {stepSnapshot, 1}}},
}

// A step is one call of the database. It depends only on seed, track, number and the content
// before, so any process can compute it again.
type step struct {
	kind     stepKind
	coll, to string
	writes   []write
	where    filter.Expr
	group    int64 // value of the field group in where
	metadata db.Metadata
	dim      int
	words    bool
}

// A write is one line of a batch.
type write struct {
	coll  string
	put   *db.Document // of a patch: the document afterwards
	patch *db.Patch
	del   string
}

// A track is a sequence of steps by one writer on its own collections. Their names begin with the
// number of the track.
type track struct {
	number  int
	seed    uint64
	p       *profile
	history []content // after each batch; the first is empty
	taken   int       // steps, including those without a write
	acked   int       // batches acknowledged by the database
}

func newTrack(p *profile, seed uint64, number int) *track {
	return &track{number: number, seed: seed, p: p, history: []content{{}}}
}

func (t *track) now() content { return t.history[len(t.history)-1] }

// next computes the next step, and its effect if it writes.
func (t *track) next() step {
	rng := rand.New(rand.NewPCG(t.seed, uint64(t.number)<<32|uint64(t.taken)))
	t.taken++
	c := t.now()
	name := func(s string) string { return fmt.Sprintf("%d/%s", t.number, s) }
	var s step
	switch t.taken {
	case 1:
		s = step{kind: stepCreate, coll: name("a"), dim: dim}
	case 2:
		s = step{kind: stepCreate, coll: name("b")}
	default:
		s = t.choose(rng, c, name)
	}
	if s.kind < lastWrite {
		t.history = append(t.history, s.effect(c))
	}
	return s
}

func (t *track) choose(rng *rand.Rand, c content, name func(string) string) step {
	total := 0
	for _, w := range t.p.weights {
		total += w.n
	}
	kind := stepBatch
	for n, i := rng.IntN(total), 0; ; i++ {
		if n -= t.p.weights[i].n; n < 0 {
			kind = t.p.weights[i].kind
			break
		}
	}
	names := slices.Sorted(maps.Keys(c))
	coll := names[rng.IntN(len(names))]
	fresh := name(fmt.Sprintf("c%d", t.taken))
	switch kind {
	case stepCross:
		return step{kind: kind, writes: t.cross(rng, c)}
	case stepDelete:
		s := step{kind: kind, coll: coll}
		for range 1 + rng.IntN(4) {
			s.writes = append(s.writes, write{coll: coll, del: t.id(rng)})
		}
		return s
	case stepWhere:
		group := int64(rng.IntN(4))
		return step{kind: kind, coll: coll, group: group, where: filter.Eq("group", group)}
	case stepDrop, stepRename, stepCreate:
		if kind == stepCreate && len(names) < mostCollections {
			return step{kind: kind, coll: fresh, dim: dim * rng.IntN(2)}
		}
		// "a" and "b" stay, because later steps need them.
		if coll == name("a") || coll == name("b") {
			break
		}
		if kind == stepCreate {
			kind = stepDrop
		}
		return step{kind: kind, coll: coll, to: fresh}
	case stepText:
		return step{kind: kind, coll: coll, words: !c[coll].words}
	case stepMeta:
		return step{kind: kind, coll: coll, metadata: db.Metadata{"step": int64(t.taken), "of": coll}}
	case stepBatch:
		s, d := step{kind: kind, coll: coll}, c[coll].dim
		if coll != name("b") && rng.IntN(3) == 0 {
			d = dim // sets the dimension of a collection that has none yet
		}
		for range 1 + rng.IntN(t.p.docs) {
			s.writes = append(s.writes, write{coll: coll, put: t.document(rng, d)})
		}
		return s
	default:
		return step{kind: kind}
	}
	return step{kind: stepBatch, coll: coll, writes: []write{{coll: coll, put: t.document(rng, c[coll].dim)}}}
}

// cross returns a batch over the collections a and b.
func (t *track) cross(rng *rand.Rand, c content) (all []write) {
	for _, base := range []string{"a", "b", "a"} {
		name := fmt.Sprintf("%d/%s", t.number, base)
		tab := c[name]
		all = append(all, write{coll: name, put: t.document(rng, tab.dim)})
		switch id := t.id(rng); {
		case tab.docs[id] == nil || slices.ContainsFunc(all,
			func(w write) bool { return w.coll == name && (w.del == id || w.put != nil && w.put.ID == id) }):
		case rng.IntN(2) == 0:
			all = append(all, write{coll: name, del: id})
		default:
			d := *tab.docs[id]
			d.Text = strings.ToUpper(d.Text)
			d.Metadata = maps.Clone(d.Metadata)
			d.Metadata["step"] = int64(t.taken)
			all = append(all, write{coll: name, put: &d,
				patch: &db.Patch{ID: id, Text: &d.Text, Set: db.Metadata{"step": int64(t.taken)}}})
		}
	}
	return all
}

func (t *track) id(rng *rand.Rand) string { return fmt.Sprintf("id-%03d", rng.IntN(t.p.ids)) }

const letters = "the quick brown fox jumps over a lazy dog while vectors sleep "

func (t *track) document(rng *rand.Rand, dim int) *db.Document {
	d := &db.Document{ID: t.id(rng), Metadata: db.Metadata{
		"step": int64(t.taken), "group": int64(rng.IntN(4)), "track": int64(t.number),
		"nested": map[string]any{"x": rng.Float64()}}}
	if t.p.text > 0 {
		n, from := rng.IntN(t.p.text), rng.IntN(len(letters))
		if n > 64*kib { // large texts test length only
			n = t.p.text - rng.IntN(t.p.text/8)
		}
		d.Text = strings.Repeat(letters, n/len(letters)+2)[from : from+n]
	}
	if dim > 0 && rng.IntN(8) > 0 {
		d.Vector = make([]float32, dim)
		for i := range d.Vector {
			d.Vector[i] = float32(rng.NormFloat64())
		}
	}
	return d
}

// effect returns the content after the step.
func (s *step) effect(c content) content {
	c = c.next()
	switch s.kind {
	case stepCreate:
		c[s.coll] = &table{dim: s.dim, docs: map[string]*db.Document{}}
	case stepDrop:
		delete(c, s.coll)
	case stepRename:
		c[s.to] = c[s.coll]
		delete(c, s.coll)
	case stepMeta:
		c.edit(s.coll).metadata = s.metadata
	case stepText:
		c.edit(s.coll).words = s.words
	case stepWhere:
		t := c.edit(s.coll)
		for _, d := range c[s.coll].docs {
			if d.Metadata["group"] == s.group {
				t.remove(d.ID)
			}
		}
	default:
		edited := map[string]*table{}
		for _, w := range s.writes {
			t := edited[w.coll]
			if t == nil {
				t = c.edit(w.coll)
				edited[w.coll] = t
			}
			if w.put != nil {
				t.put(w.put)
				if len(w.put.Vector) > 0 {
					t.dim = len(w.put.Vector)
				}
			} else {
				t.remove(w.del)
			}
		}
	}
	return c
}

// write executes the step if it writes.
func (s *step) write(ctx context.Context, vdb *db.DB) error {
	switch s.kind {
	case stepCreate:
		_, err := vdb.CreateCollection(ctx, s.coll, db.Schema{Dim: s.dim}, nil)
		return err
	case stepDrop:
		return vdb.Drop(ctx, s.coll)
	case stepRename:
		return vdb.Rename(ctx, s.coll, s.to)
	case stepMeta, stepWhere, stepText:
		c, err := vdb.Collection(s.coll)
		if err != nil {
			return err
		}
		if s.kind == stepMeta {
			return c.SetMetadata(ctx, s.metadata)
		}
		if s.kind == stepText {
			if !s.words {
				return c.SetText(ctx, nil)
			}
			return c.SetText(ctx, &db.TextIndex{Language: "none"})
		}
		_, err = c.DeleteWhere(ctx, s.where)
		return err
	}
	b := &db.Batch{}
	for _, w := range s.writes {
		switch {
		case w.patch != nil:
			b.Patch(w.coll, *w.patch)
		case w.put != nil:
			b.Upsert(w.coll, *w.put)
		default:
			b.Delete(w.coll, w.del)
		}
	}
	return vdb.Apply(ctx, b)
}

// A workload is a profile that runs on a database.
type workload struct {
	p      *profile
	tracks []*track
	dir    string // contains the database and its backups
	mark   func(format string, args ...any) error
	faulty bool      // errors are expected
	blind  bool      // reads may fail, too
	scarce *shortage // of file handles; may be nil

	vdb      *db.DB
	name     string // of the database's directory
	snap     *db.Snapshot
	pub      *db.Publisher // opened on demand
	backups  int
	backedUp int // last batch of the newest backup
	restores int
	wrong    error // set if the database answered wrongly after a fault
}

func newWorkload(p *profile, seed uint64, dir string, mark func(string, ...any) error) *workload {
	w := &workload{p: p, dir: dir, mark: mark, name: databaseName}
	for i := range max(1, p.tracks) {
		w.tracks = append(w.tracks, newTrack(p, seed, i))
	}
	return w
}

const (
	databaseName  = "database"  // restored ones have a number appended
	publishedName = "published" // the folder of replicas
)

func (p *profile) options() *db.Options {
	o := &db.Options{HeadSize: p.head, Sync: p.sync, Compaction: db.Manual, Workers: 1}
	if p.compact {
		o.Compaction = db.Automatic
	}
	return o
}

func (w *workload) open() (err error) {
	if err := w.mark(opened); err != nil {
		return err
	}
	w.vdb, err = db.Open(filepath.Join(w.dir, cmp.Or(w.name, databaseName)), w.p.options())
	return err
}

// run takes all steps, and closes the database in any case.
func (w *workload) run(ctx context.Context) (err error) {
	if err := w.open(); err != nil {
		return err
	}
	if len(w.tracks) == 1 {
		err = w.follow(ctx, w.tracks[0])
	} else {
		errs := make([]error, len(w.tracks))
		var all sync.WaitGroup
		for i, t := range w.tracks {
			all.Go(func() { errs[i] = w.follow(ctx, t) })
		}
		all.Wait()
		err = errors.Join(errs...)
	}
	if err != nil && w.faulty && w.vdb != nil {
		w.wrong = errors.Join(w.wrong, w.answers(ctx))
	}
	return errors.Join(err, w.close())
}

// answers checks that a database which refuses writes still contains all acknowledged writes.
func (w *workload) answers(ctx context.Context) error {
	got, err := read(ctx, w.vdb, len(w.tracks))
	if err != nil && w.blind && !wrongAnswer(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read after a failed write: %w", err)
	}
	for i, t := range w.tracks {
		if sum := got[i].sum(); sum != t.history[t.acked].sum() && sum != t.now().sum() {
			return fmt.Errorf("read after a failed write: %s", difference(got[i], t.history[t.acked]))
		}
	}
	return nil
}

func (w *workload) close() (err error) {
	vdb := w.vdb
	w.vdb = nil
	if vdb == nil {
		return nil
	}
	if w.snap != nil {
		w.snap.Close()
		w.snap = nil
	}
	if w.pub != nil {
		err = w.pub.Close()
		w.pub = nil
	}
	stats, unknown := vdb.Stats()
	failed := stats.Failed != "" // if so, nothing is flushed
	if err := errors.Join(err, unknown, vdb.Close()); err != nil || failed {
		return err
	}
	for _, t := range w.tracks {
		err = errors.Join(err, w.safe(t))
	}
	return err
}

// safe marks that the acknowledged batches of a track survive a power cut.
func (w *workload) safe(t *track) error { return w.mark("safe %d %d", t.number, t.acked) }

// recover opens a database after a crash, marks its content, and closes it. Once it was read, the
// content must not change.
func (w *workload) recover(ctx context.Context, e *expectation) error {
	if err := w.open(); err != nil {
		return err
	}
	found, err := e.find(ctx, w.vdb)
	for i, n := range found {
		err = errors.Join(err, w.mark("begin %d %d", i, n), w.mark("safe %d %d", i, n))
	}
	return errors.Join(err, w.vdb.Close())
}

func (w *workload) follow(ctx context.Context, t *track) error {
	for w.p.steps == 0 || t.taken < w.p.steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		s := t.next()
		var err error
		if s.kind < lastWrite {
			err = w.write(ctx, t, &s)
		} else if err = w.maintain(ctx, t, &s); err != nil && w.faulty && s.kind != stepReopen {
			err = nil // the next step finds out whether writes continue
		} else if w.scarce != nil && errors.Is(err, errNoHandles) && !errors.Is(err, db.ErrUnknown) {
			err = nil
		}
		if err != nil {
			return fmt.Errorf("step %d of track %d: %w", t.taken, t.number, err)
		}
	}
	return nil
}

func (w *workload) write(ctx context.Context, t *track, s *step) error {
	batch := len(t.history) - 1
	if err := w.mark("begin %d %d", t.number, batch); err != nil {
		return err
	}
	err := s.write(ctx, w.vdb)
	for w.scarce != nil && errors.Is(err, errNoHandles) && !errors.Is(err, db.ErrUnknown) {
		// Nothing was written. With more handles the same process continues.
		w.scarce.end()
		if err := errors.Join(w.mark("undo %d %d", t.number, batch-1),
			w.mark("begin %d %d", t.number, batch)); err != nil {
			return err
		}
		err = s.write(ctx, w.vdb)
	}
	if w.scarce != nil {
		w.scarce.mark()
	}
	if err != nil && w.faulty && !errors.Is(err, db.ErrUnknown) {
		// Nothing was written, so the step can be repeated.
		if err := w.mark("undo %d %d", t.number, batch-1); err != nil {
			return err
		}
		if err := w.mark("begin %d %d", t.number, batch); err != nil {
			return err
		}
		again := s.write(ctx, w.vdb)
		if again != nil && !errors.Is(again, db.ErrUnknown) {
			return errors.Join(again, w.mark("undo %d %d", t.number, batch-1))
		}
		err = again
	}
	if err != nil {
		return err
	}
	t.acked = batch
	if w.p.sync == db.SyncAlways {
		return w.safe(t)
	}
	return w.mark("ack %d %d", t.number, batch)
}

func (w *workload) maintain(ctx context.Context, t *track, s *step) (err error) {
	switch s.kind {
	case stepFlush:
		err = w.vdb.Flush(ctx)
	case stepCompact:
		err = w.vdb.Compact(ctx)
	case stepReopen:
		if err := w.close(); err != nil {
			return err
		}
		return w.open()
	case stepSnapshot:
		old := w.snap
		w.snap, err = w.vdb.Snapshot()
		if old != nil {
			err = errors.Join(err, old.Close())
		}
		return err
	case stepRead:
		return w.look(ctx, t)
	case stepBackup:
		w.backups++
		name := fmt.Sprintf("backup-%d", w.backups)
		if err := w.mark("backup %s %d", name, len(t.history)-1); err != nil {
			return err
		}
		if err := w.vdb.Backup(ctx, filepath.Join(w.dir, name)); err != nil {
			return err
		}
		w.backedUp = len(t.history) - 1
		err = w.mark("copied %s %d", name, len(t.history)-1)
	case stepPublish:
		err = w.publish(ctx, t)
	case stepRestore:
		return w.restore(t)
	case stepDepose:
		if t.taken%2 == 0 {
			err = w.mark(dies)
		}
		if err == nil {
			err = deposeLeader(filepath.Join(w.dir, w.name))
		}
		if err == nil {
			err = w.vdb.Barrier(ctx) // it follows, and leads in the other directory
		}
	}
	if err != nil {
		return err
	}
	return w.safe(t)
}

// deposeLeader does what a process does that finds the leader stopped.
func deposeLeader(dir string) (err error) {
	files, err := vfs.Open(dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	token, err := files.LockToken(engine.LockName)
	if err != nil {
		return err
	}
	return engine.Depose(dir, token)
}

// publish publishes the database to the folder of replicas.
func (w *workload) publish(ctx context.Context, t *track) (err error) {
	if err := w.mark("publish %s %d", publishedName, len(t.history)-1); err != nil {
		return err
	}
	if w.pub == nil {
		if w.pub, err = w.vdb.NewPublisher(filepath.Join(w.dir, publishedName),
			&db.PublishOptions{Keep: 2}); err != nil {
			return err
		}
	}
	if _, err := w.pub.Publish(ctx); err != nil {
		return err
	}
	return w.mark("published %s %d", publishedName, len(t.history)-1)
}

// restore continues with a copy of the last backup, if there is one: all later batches are undone,
// as one more batch.
func (w *workload) restore(t *track) error {
	if w.backedUp == 0 {
		return nil
	}
	if err := w.close(); err != nil {
		return err
	}
	w.restores++
	name := fmt.Sprintf("%s-%d", databaseName, w.restores)
	if err := copyDurably(filepath.Join(w.dir, fmt.Sprintf("backup-%d", w.backups)),
		filepath.Join(w.dir, name)); err != nil {
		return err
	}
	t.history = append(t.history, t.history[w.backedUp])
	t.acked = len(t.history) - 1
	if err := w.mark("restored %s %d", name, t.acked); err != nil {
		return err
	}
	w.name = name
	return w.open()
}

// copyDurably copies a directory durably: the content is on disk before the name.
func copyDurably(from, to string) error {
	var dirs []string
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := to + strings.TrimPrefix(path, from)
		if d.IsDir() {
			dirs = append(dirs, name)
			return os.Mkdir(name, 0o700)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(b)
		return errors.Join(err, f.Sync(), f.Close())
	})
	for _, dir := range append(dirs, filepath.Dir(to)) {
		if err == nil {
			err = syncDirectory(dir)
		}
	}
	return err
}

func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// look reads in several ways. Errors are allowed if faults are expected; wrong answers never are.
func (w *workload) look(ctx context.Context, t *track) error {
	wrong := func(err error) error {
		w.wrong = errors.Join(w.wrong, fmt.Errorf("step %d of track %d: %w", t.taken, t.number, err))
		return nil
	}
	report, err := w.vdb.Check(ctx, db.CheckBytes)
	if err != nil {
		return err
	}
	if !report.OK() && !w.blind {
		return wrong(fmt.Errorf("check: %v", report.Problems))
	}
	got, err := read(ctx, w.vdb, len(w.tracks))
	if wrongAnswer(err) {
		return wrong(err)
	}
	if err != nil {
		return err
	}
	if want := t.history[t.acked]; got[t.number].sum() != want.sum() {
		return wrong(fmt.Errorf("%s", difference(got[t.number], want)))
	}
	err = search(ctx, w.vdb, got[t.number], rand.New(rand.NewPCG(t.seed, uint64(t.taken))))
	if wrongAnswer(err) {
		return wrong(err)
	}
	return err
}

// bounds are the batches, per track, between which a state must be, and the expected backups.
type bounds struct {
	safe  []int // survive a power failure
	acked []int // survive a kill
	begun []int // may be present

	backups   map[string]backup
	database  string    // its directory
	published published // versions in the folder of replicas
}

// published bounds the batch of the first track in the folder of replicas; -1 if the folder may be
// empty.
type published struct {
	lower, upper int
}

// A backup contains the content after a batch of the first track.
type backup struct {
	batch int
	whole bool
}

// backingUp reports whether a backup is incomplete.
func (b *bounds) backingUp() bool {
	for _, backup := range b.backups {
		if !backup.whole {
			return true
		}
	}
	return false
}

func newBounds(tracks int) *bounds {
	return &bounds{safe: make([]int, tracks), acked: make([]int, tracks), begun: make([]int, tracks),
		backups:  map[string]backup{},
		database: databaseName, published: published{-1, -1}}
}

func (b *bounds) clone() *bounds {
	c := *b
	c.safe, c.acked, c.begun, c.backups = slices.Clone(b.safe), slices.Clone(b.acked),
		slices.Clone(b.begun), maps.Clone(b.backups)
	return &c
}

// note applies a mark.
func (b *bounds) note(note string) error {
	var verb, what string
	var n int
	if _, err := fmt.Sscan(note, &verb, &what, &n); err != nil {
		return fmt.Errorf("torture: mark %q: %w", note, err)
	}
	switch verb {
	case "backup", "copied":
		b.backups[what] = backup{n, verb == "copied"}
		return nil
	case "publish":
		b.published.upper = n
		return nil
	case "published":
		b.published.lower = n
		return nil
	case "restored":
		b.database, b.safe[0], b.acked[0], b.begun[0] = what, n, n, n
		return nil
	}
	var t int
	if _, err := fmt.Sscan(what, &t); err != nil || t >= len(b.begun) {
		return fmt.Errorf("torture: mark %q: no such track", note)
	}
	switch verb {
	case "begin", "undo":
		b.begun[t] = n
	case "ack":
		b.acked[t] = max(b.acked[t], n)
	case "safe":
		b.acked[t], b.safe[t] = max(b.acked[t], n), max(b.safe[t], n)
	default:
		return fmt.Errorf("torture: unknown mark %q", note)
	}
	return nil
}

// sum is equal for equal bounds.
func (b *bounds) sum() uint64 {
	return hashString(fmt.Sprint(b.safe, b.acked, b.begun, b.backups, b.database, b.published))
}
