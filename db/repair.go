package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/wal"
)

// A RepairReport lists the data that Repair saved and the data that is lost.
type RepairReport struct {
	Collections int       `json:"collections"`
	Documents   int       `json:"documents"` // in the new database
	Vectors     int       `json:"vectors"`   // documents with a vector
	Lost        []Lost    `json:"lost"`
	Problems    []Problem `json:"problems"` // damage found on the way
}

// A Lost describes data that was stored once and is not in the new database.
type Lost struct {
	Collection string `json:"collection"`
	ID         string `json:"id,omitempty"` // empty if unknown; if DocNum is 0 too, Reason says how many
	DocNum     uint64 `json:"docnum,omitempty"`
	What       string `json:"what"` // "document", "text and metadata", "vector", or "definition" of a collection
	Reason     string `json:"reason"`
}

// String is one line for people.
func (l Lost) String() string {
	s := l.What
	switch {
	case l.ID != "" && l.What != "document":
		s += fmt.Sprintf(" of document %q", l.ID)
	case l.ID != "":
		s += fmt.Sprintf(" %q", l.ID)
	case l.DocNum != 0:
		s += fmt.Sprintf(" number %d", l.DocNum)
	case l.What == "document":
		s += "s"
	}
	if l.Collection != "" {
		s += fmt.Sprintf(" in collection %q", l.Collection)
	}
	return s + ": " + l.Reason
}

// Repair copies everything that is provably intact from the damaged database in
// src to a new database in dst, which must be empty or not exist. src is not
// changed. Where pages of meta.bolt are damaged, Repair looks for records in
// all of its pages. An error means that the repair could not be done; the
// report lists lost data, by id where the id is known.
//
// Derived data need no repair: an open database rebuilds it by itself.
func Repair(ctx context.Context, src, dst string) (*RepairReport, error) {
	r := &repairer{ctx: ctx, report: &RepairReport{Lost: []Lost{}, Problems: []Problem{}}}
	if err := r.Run(src, dst); err != nil {
		return r.report, fmt.Errorf("db: repair %q: %w", src, engine.Translate(err))
	}
	return r.report, nil
}

// A repairer repairs one database.
type repairer struct {
	ctx    context.Context
	report *RepairReport
	fs     *vfs.FS
	store  *meta.Store
	wreck  *meta.Wreck // store is rebuilt from it; nil: store is the database's own
	state  meta.State
	names  map[uint32]string // of collections
	dims   map[string]int    // of their vectors, by name; 0 until there is one
	dst    *DB
	batch  Batch
}

func (r *repairer) Run(src, dst string) (err error) {
	if r.fs, err = vfs.Open(src, nil); err != nil {
		return err
	}
	defer r.fs.Close()
	lock, err := r.fs.Lock(engine.LockName, false)
	if err != nil {
		return err
	}
	defer lock.Close()
	// bbolt must not read a damaged tree: it trusts the pages that it reads.
	lenient := meta.Options{ReadOnly: true, Verify: true, Lenient: true}
	r.store, err = meta.Open(r.fs, engine.MetaName, lenient)
	var wreck *meta.Wreck
	if bad := (*fileformat.CorruptError)(nil); errors.As(err, &bad) && !errors.Is(err, fileformat.ErrVersion) {
		wreck, err = meta.Examine(r.fs, engine.MetaName)
	}
	if err != nil {
		return err
	}
	if r.dst, err = r.create(dst); err != nil {
		return errors.Join(err, r.closeStore())
	}
	if wreck != nil {
		err = r.rebuild(wreck, lenient)
	} else if stale := meta.Contradicted(r.fs, engine.MetaName); stale != nil {
		r.problem(stale)
	}
	if err == nil {
		err = r.salvage()
	}
	if err == nil {
		err = r.flush()
	}
	if err == nil {
		err = r.count()
	}
	return errors.Join(err, r.closeStore(), r.dst.Close())
}

// rebuilt is the file in the new database in which meta.bolt is rebuilt.
const rebuilt = engine.TmpDir + "/" + engine.MetaName + ".rebuilt"

// rebuild continues with the readable records of a meta.bolt whose pages are
// damaged.
func (r *repairer) rebuild(w *meta.Wreck, o meta.Options) (err error) {
	r.wreck = w
	for _, err := range w.Problems {
		r.problem(err)
	}
	if w.Stale {
		r.problem(&fileformat.CorruptError{File: engine.MetaName, Offset: -1,
			Err: errors.New("free pages cannot be told from others: what was deleted or replaced may be back")})
	}
	if err := w.WriteTo(r.dst.engine.FS, rebuilt); err != nil {
		return err
	}
	for id, n := range w.Nameless {
		r.lose(Lost{What: "document", Reason: fmt.Sprintf("%d documents, or earlier versions of them, are of collection %d, whose definition is lost", n, id)})
	}
	r.store, err = meta.Open(r.dst.engine.FS, rebuilt, o)
	return err
}

func (r *repairer) closeStore() error {
	if r.store == nil {
		return nil
	}
	err := r.store.Close()
	if r.wreck != nil {
		err = errors.Join(err, r.dst.engine.FS.Remove(rebuilt))
	}
	return err
}

func (r *repairer) create(dst string) (*DB, error) {
	if _, err := Open(dst, &Options{MustExist: true, ReadOnly: true}); !errors.Is(err, engine.ErrNotFound) {
		return nil, fmt.Errorf("%w: %q is not empty", engine.ErrExists, dst)
	}
	return Open(dst, nil)
}

func (r *repairer) count() error {
	for _, c := range r.dst.Stats().Collections {
		r.report.Collections++
		r.report.Documents += c.Documents
		r.report.Vectors += c.Vectors
	}
	return nil
}

// problem notes damage and lets the repair go on.
func (r *repairer) problem(err error) {
	if len(r.report.Problems) < maxProblems {
		r.report.Problems = append(r.report.Problems, problemOf(err))
	}
}

func (r *repairer) salvage() error {
	var colls []meta.Collection
	var segments []segment.Info
	err := r.store.View(func(tx *meta.Tx) (err error) {
		if r.state, err = tx.State(); err != nil {
			return err
		}
		if colls, err = tx.Collections(); err != nil {
			return err
		}
		segments, err = tx.Segments()
		return err
	})
	if err != nil {
		return err
	}
	r.names, r.dims = map[uint32]string{}, map[string]int{}
	for _, c := range colls {
		if c.Name == "" {
			continue // dropped
		}
		def, err := engine.DecodeDefinition(c.ID, c.Schema)
		if err != nil {
			r.problem(&fileformat.CorruptError{File: engine.MetaName, Offset: -1, Err: err})
			r.lose(Lost{Collection: c.Name, What: "definition", Reason: err.Error()})
			def = &engine.Definition{ID: c.ID, Name: c.Name}
		}
		if err := r.define(def); err != nil {
			return err
		}
		own := slices.DeleteFunc(slices.Clone(segments), func(s segment.Info) bool { return s.Collection != c.ID })
		s := &salvager{repairer: r, coll: c.ID, name: def.Name, want: int(c.Documents), done: map[uint64]bool{}, dead: map[uint64]bool{}}
		if err := s.Run(own); err != nil {
			return err
		}
	}
	if r.wreck == nil { // otherwise the list of segments may be incomplete
		if err := r.unexplained(segments); err != nil {
			return err
		}
	}
	return r.log()
}

// unexplained reports the segments that neither meta.bolt nor the log knows:
// they hold vectors without ids.
func (r *repairer) unexplained(segments []segment.Info) error {
	l := engine.NewLeftovers(r.fs, r.state, segments)
	problems, err := l.Problems()
	if err != nil {
		return nil // the log is damaged, which is reported
	}
	for _, p := range problems {
		r.problem(p)
		r.lose(Lost{What: "document", Reason: p.Error()})
	}
	return nil
}

func (r *repairer) define(def *engine.Definition) error {
	if old, ok := r.names[def.ID]; ok && old != def.Name {
		if err := r.dst.Rename(r.ctx, old, def.Name); err != nil {
			return err
		}
	}
	r.names[def.ID] = def.Name
	c, err := r.dst.OpenCollection(r.ctx, def.Name, schemaOf(def.Schema))
	if err != nil {
		return err
	}
	r.dims[def.Name] = c.Schema().Dim
	return c.SetMetadata(r.ctx, def.Metadata)
}

// flushEvery is the size in bytes at which salvaged documents are written.
const flushEvery = 4 << 20

// put saves a document. A vector of another dimension than the collection's,
// and a document that no database accepts, are reported as lost.
func (r *repairer) put(name string, d Document) error {
	d.Vector = slices.Clone(d.Vector)
	if n := len(d.Vector); n > 0 && r.dims[name] == 0 {
		r.dims[name] = n
	} else if n > 0 && n != r.dims[name] {
		r.lose(Lost{Collection: name, ID: d.ID, What: "vector", Reason: fmt.Sprintf("it has %d components, others have %d", n, r.dims[name])})
		d.Vector = nil
	}
	if r.batch.Upsert(name, d); r.batch.err != nil {
		r.lose(Lost{Collection: name, ID: d.ID, What: "document", Reason: r.batch.err.Error()})
		r.batch.err = nil
	}
	if r.batch.len < flushEvery {
		return nil
	}
	return r.flush()
}

func (r *repairer) flush() error {
	if r.batch.Len() == 0 {
		return r.batch.err
	}
	err := r.dst.Apply(r.ctx, &r.batch)
	r.batch.Reset()
	return err
}

// log applies the batches that only the log has, up to the first damage.
func (r *repairer) log() error {
	if err := r.flush(); err != nil {
		return err
	}
	next := r.state.Applied + 1
	_, err := wal.Replay(wal.Options{FS: r.fs, DB: r.state.DB, ReadOnly: true}, r.state.Applied, func(lsn uint64, b []byte) error {
		_, ops, err := engine.DecodeRecord(b)
		if err != nil {
			return engine.BadBatch(lsn, err)
		}
		next = lsn + 1
		return r.replay(ops)
	})
	if errors.Is(engine.Translate(err), fileformat.ErrCorrupt) {
		r.problem(err)
		r.lose(Lost{What: "document", Reason: fmt.Sprintf("batches from number %d on cannot be read from the log", next)})
		return nil
	}
	return err
}

func (r *repairer) replay(ops []engine.Op) error {
	for _, o := range ops {
		name, known := r.names[o.Coll]
		switch {
		case o.Kind == engine.OpDefine:
			if err := errors.Join(r.flush(), r.define(o.Def)); err != nil {
				return err
			}
		case !known:
			r.lose(Lost{ID: o.ID, What: "document", Reason: fmt.Sprintf("the log writes to collection %d, whose definition is lost", o.Coll)})
		case o.Kind == engine.OpDrop:
			if err := errors.Join(r.flush(), r.dst.Drop(r.ctx, name)); err != nil {
				return err
			}
			delete(r.names, o.Coll)
		case o.Kind == engine.OpDelete:
			if err := document.ValidateID(o.ID); err != nil {
				return &fileformat.CorruptError{File: engine.WALDir, Offset: -1, Err: err}
			}
			r.batch.Delete(name, o.ID)
		case o.Kind == engine.OpPut:
			d := Document{Vector: o.Vec}
			if err := d.decode(o.Doc, WithText|WithMetadata); err != nil {
				return err
			}
			if err := r.put(name, d); err != nil {
				return err
			}
		}
	}
	return nil
}

// A salvager saves one collection.
type salvager struct {
	*repairer
	coll uint32
	name string
	want int // expected documents, or versions of them, neither found nor reported by id yet
	open []*segment.Segment
	done map[uint64]bool // DocNums saved from damaged segments
	dead map[uint64]bool // DocNums of dead rows, with a wreck
}

func (s *salvager) Run(infos []segment.Info) error {
	defer func() {
		for _, seg := range s.open {
			seg.Close()
		}
	}()
	for _, info := range infos {
		seg, err := segment.Open(s.fs, s.state.DB, info)
		if err == nil {
			err = seg.Verify(s.ctx)
		}
		if err == nil {
			s.open = append(s.open, seg)
			if s.wreck != nil {
				err = seg.Guard(func() error { return s.buried(seg, info.ID) })
			}
			if err != nil {
				return err
			}
			continue
		}
		if s.ctx.Err() != nil || errors.Is(err, fileformat.ErrVersion) {
			return err
		}
		for _, e := range flatten(err) {
			s.problem(e)
		}
		if seg != nil {
			seg.Close()
		}
		if err := s.damaged(info); err != nil {
			return err
		}
	}
	return s.documents()
}

// damaged saves the rows of a segment that are provably intact.
func (s *salvager) damaged(info segment.Info) error {
	_, err := segment.Salvage(s.ctx, s.fs, segment.FileName(info.ID), info, func(num uint64, vec []float32) error {
		return s.store.View(func(tx *meta.Tx) error {
			b, ok, err := tx.Document(s.coll, num)
			if err != nil || !ok {
				return nil // reported with the documents, or dead
			}
			d, live, err := s.decode(tx, num, b)
			if err != nil || !live {
				return nil // likewise
			}
			d.Vector = vec
			s.done[num] = true
			return s.put(s.name, *d)
		})
	})
	var corrupt *fileformat.CorruptError
	if errors.As(err, &corrupt) || errors.Is(err, fs.ErrNotExist) {
		return nil // nothing can be saved of it; its documents are reported
	}
	return err
}

// decode reads a stored document and reports whether it is the live version of
// its id. If the record of the id is damaged, or may be lost, every version
// whose row is not dead counts as live: the newest one is put last and wins.
func (s *salvager) decode(tx *meta.Tx, num uint64, b []byte) (*Document, bool, error) {
	d := &Document{}
	if err := d.decode(b, WithText|WithMetadata); err != nil {
		return nil, false, err
	}
	current, ok, err := tx.ID(s.coll, d.ID)
	if err == nil && !ok && s.wreck != nil {
		return d, !s.dead[num], nil
	}
	return d, err != nil || ok && current == num, nil
}

// buried records the DocNums of dead rows.
func (s *salvager) buried(seg *segment.Segment, id uint64) error {
	var chunks map[int][]uint64
	err := s.store.View(func(tx *meta.Tx) (err error) {
		chunks, err = tx.DeadChunks(id)
		return err
	})
	if err != nil {
		return err
	}
	nums := seg.DocNums()
	for chunk, words := range chunks {
		for row := range bitset.Set(words).All() {
			if row += chunk * 64 * len(words); row < len(nums) {
				s.dead[nums[row]] = true
			}
		}
	}
	return nil
}

// documents saves every document that is not saved yet, with its vector if an
// intact segment has it.
func (s *salvager) documents() error {
	broken := map[uint64]error{}
	err := s.store.View(func(tx *meta.Tx) error {
		err := tx.SalvageDocuments(s.coll, func(num uint64, b []byte) error {
			s.want--
			if err := s.ctx.Err(); err != nil || s.done[num] {
				return err
			}
			d, live, err := s.decode(tx, num, b)
			if err != nil {
				s.problem(engine.CorruptDocument(num, err))
				broken[num] = err
				return nil
			}
			if !live {
				return nil
			}
			vec, found, err := s.vector(num)
			if err != nil {
				return err
			}
			if !found {
				s.lose(Lost{Collection: s.name, ID: d.ID, DocNum: num, What: "vector", Reason: "its segment is damaged"})
			}
			d.Vector = vec
			return s.put(s.name, *d)
		}, func(num uint64, err error) {
			s.want--
			s.problem(err)
			broken[num] = err
		})
		if err != nil {
			return err
		}
		return s.undocumented(tx, broken)
	})
	if s.want > 0 && err == nil {
		s.lose(Lost{Collection: s.name, What: "document", Reason: fmt.Sprintf("%d documents, or earlier versions of them, are in no page that can be read", s.want)})
	}
	return err
}

// undocumented handles ids whose document is damaged or belongs to another id:
// the vector may be intact.
func (s *salvager) undocumented(tx *meta.Tx, broken map[uint64]error) error {
	err := tx.SalvageIDs(s.coll, func(id string, num uint64) error {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		why, ok := broken[num]
		if !ok {
			return s.misled(tx, id, num)
		}
		delete(broken, num)
		return s.bare(id, num, why.Error())
	}, func(_ string, err error) { s.problem(err) })
	for num, why := range broken {
		s.lose(Lost{Collection: s.name, DocNum: num, What: "document", Reason: why.Error()})
	}
	return err
}

// bare saves the vector of a document that is lost.
func (s *salvager) bare(id string, num uint64, why string) error {
	lost := Lost{Collection: s.name, ID: id, DocNum: num, What: "document", Reason: why}
	vec, found, err := s.vector(num)
	if err == nil && found && vec != nil {
		lost.What = "text and metadata"
		err = s.put(s.name, Document{ID: id, Vector: vec})
	}
	s.lose(lost)
	return err
}

// misled handles an id whose document is missing or belongs to another id.
func (s *salvager) misled(tx *meta.Tx, id string, num uint64) error {
	b, ok, err := tx.Document(s.coll, num)
	if err == nil && !ok {
		s.want--
		return s.bare(id, num, "it is missing")
	}
	var d document.Document
	if err == nil {
		d, err = document.Decode(b, document.All)
	}
	if err == nil && d.ID != id {
		s.lose(Lost{Collection: s.name, ID: id, DocNum: num, What: "document", Reason: fmt.Sprintf("its id leads to document %q", d.ID)})
	}
	return nil // damage was reported already
}

func (r *repairer) lose(l Lost) { r.report.Lost = append(r.report.Lost, l) }

// vector finds the vector of a document in the intact segments; it returns nil
// and true for a document without vector.
func (s *salvager) vector(num uint64) (vec []float32, found bool, err error) {
	for _, seg := range s.open {
		err = seg.Guard(func() error {
			row, ok := seg.Find(num)
			if !ok {
				return nil
			}
			found = true
			if seg.Dim() == 0 {
				return nil
			}
			rows, err := seg.Rows(row, row+1)
			vec = slices.Clone(rows)
			return err
		})
		if found || err != nil {
			return vec, found, err
		}
	}
	return nil, false, nil
}
