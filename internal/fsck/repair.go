package fsck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/wal"
)

// Repair copies everything that is provably intact from the damaged database in src to a new
// database in dst, which must be empty or not exist, and which is opened with opts. It becomes a
// database with the last step. src is not changed. Where pages of meta.bolt are damaged, or the
// disk cannot read them, Repair looks for records in all of its pages. Of a published folder, it
// saves the newest version whose meta.bolt opens or, if no meta.bolt does, the newest that has one.
// An error means that the repair could not be done; nothing is in dst then, and directories that
// were made for it are removed.
func Repair(ctx context.Context, src, dst string, opts engine.Options) (*RepairReport, error) {
	r := &repairer{ctx: ctx, report: &RepairReport{Lost: []Lost{}, Problems: []Problem{}}}
	return r.report, r.run(src, dst, opts)
}

// A repairer repairs one database.
type repairer struct {
	ctx    context.Context
	report *RepairReport
	hook   vfs.Hook // of the damaged database, in tests
	*place
	wreck *meta.Wreck // store is rebuilt from it; nil: store is the database's own
	state meta.State
	names map[uint32]string // of collections
	dims  map[string]int    // of their vectors, by name; 0 until there is one
	dst   *engine.Engine
	ops   []engine.Op // salvaged writes that are not applied yet
	size  int         // bytes of their documents and vectors
}

func (r *repairer) run(src, dst string, opts engine.Options) (err error) {
	if dst == engine.Memory {
		return document.Invalidf("a repaired database in memory would be lost")
	}
	dst = filepath.Clean(dst)
	switch inside, err := vfs.Inside(dst, src); {
	case err != nil:
		return err
	case inside:
		return document.Invalidf("the new directory lies inside the damaged database %q", src)
	}
	if r.place, err = look(src, r.hook); err != nil {
		if unusable := (*engine.VersionError)(nil); errors.As(err, &unusable) {
			err = fmt.Errorf("%w; no version tells which files belong together: publish the database again, "+
				"or copy the folder anew", err)
		}
		return err
	}
	defer r.close()
	if r.unlocked != nil {
		r.report.problem(r.unlocked)
	}
	r.report.Problems = append(r.report.Problems, r.passedOver()...)
	if r.version != nil {
		r.report.Version = r.version.Number
		defer func() {
			for i, p := range r.report.Problems {
				r.report.Problems[i] = located(p, r.version)
			}
		}()
	}
	var wreck *meta.Wreck
	switch err = r.why; {
	case Damaged(err):
		wreck, err = meta.Examine(r.ctx, r.fs, engine.MetaName)
	case errors.Is(err, fs.ErrNotExist):
		err = cmp.Or(engine.RootLost(r.fs), fmt.Errorf("%w: %s is not there", engine.ErrNotFound, engine.MetaName))
	}
	if err != nil {
		return err
	}
	made := ""
	if r.dst, made, err = create(dst, opts); err != nil {
		return errors.Join(err, r.closeStore())
	}
	defer func() {
		if err == nil {
			err = finish(dst, opts.Hook)
		}
		if err != nil {
			err = errors.Join(err, discard(dst, made))
		}
	}()
	if wreck != nil {
		err = r.rebuild(wreck)
	} else if stale := meta.Contradicted(r.fs, engine.MetaName); stale != nil {
		r.report.problem(stale)
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

// rebuilt is the file of the new database for the rebuilt meta.bolt.
const rebuilt = engine.TmpDir + "/" + engine.MetaName + ".rebuilt"

// rebuild continues with the readable records of a meta.bolt whose pages are
// damaged.
func (r *repairer) rebuild(w *meta.Wreck) (err error) {
	r.wreck = w
	if w.Stale { // first: of many problems the last ones are left out
		r.report.problem(&fileformat.CorruptError{File: engine.MetaName, Offset: -1,
			Err: errors.New("free pages cannot be told from others: what was deleted or replaced may be back")})
	}
	for _, err := range w.Problems {
		r.report.problem(err)
	}
	if err := w.WriteTo(r.ctx, r.dst.FS, rebuilt); err != nil {
		return err
	}
	for id, n := range w.Nameless {
		r.report.lose(Lost{What: "document",
			Reason: fmt.Sprintf("%d documents, or earlier versions of them, are of collection %d, whose definition is lost", n, id)})
	}
	r.store, err = meta.Open(r.dst.FS, rebuilt, lenient)
	return err
}

func (r *repairer) closeStore() error {
	if r.store == nil {
		return nil
	}
	err := r.store.Close()
	if r.wreck != nil {
		err = errors.Join(err, r.dst.FS.Remove(rebuilt))
	}
	return err
}

// create makes the new database, in engine.Unfinished of its directory. That must be empty: discard
// removes all that a database may have. made is the topmost directory that was not there, if any.
func create(dir string, opts engine.Options) (_ *engine.Engine, made string, err error) {
	f, err := vfs.Open(dir, nil)
	if err == nil {
		var names []string
		names, err = f.ReadDir(".")
		err = errors.Join(err, f.Close())
		switch {
		case slices.Contains(names, engine.Unfinished):
			return nil, "", fmt.Errorf("%w: %q has what an interrupted backup or repair has left; remove it", engine.ErrExists, dir)
		case len(names) > 0:
			return nil, "", fmt.Errorf("%w: %q is not empty", engine.ErrExists, dir)
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, "", err
	}
	made = engine.TopMissing(dir)
	e, err := engine.Open(filepath.Join(dir, engine.Unfinished), opts)
	if err != nil {
		err = errors.Join(err, discard(dir, made))
	}
	return e, made, err
}

// discard removes what create and finish have made in a directory that was empty, and the
// directories from made on, which were made for that.
func discard(dir, made string) error {
	for _, name := range []string{dir, filepath.Join(dir, engine.Unfinished)} {
		f, err := vfs.Open(name, nil)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err == nil {
			err = errors.Join(engine.Empty(f), f.Close())
		}
		if err != nil {
			return err
		}
	}
	if err := engine.RemoveDir(filepath.Join(dir, engine.Unfinished)); err != nil {
		return err
	}
	return engine.RemoveDirs(dir, made)
}

// finish moves the new database to its place, meta.bolt last.
func finish(dir string, hook vfs.Hook) (err error) {
	f, err := vfs.Open(dir, hook)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	names, err := f.ReadDir(engine.Unfinished)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == engine.MetaName })
	move := func(name string) error { return f.Rename(engine.Unfinished+"/"+name, name) }
	for _, name := range names {
		if err := move(name); err != nil {
			return err
		}
	}
	if err := f.SyncDir("."); err != nil {
		return err
	}
	if err := move(engine.MetaName); err != nil {
		return err
	}
	return errors.Join(f.Remove(engine.Unfinished), f.SyncDir("."))
}

// count fills in what the new database holds.
func (r *repairer) count() error {
	ver, err := r.dst.Acquire(r.ctx)
	if err != nil {
		return err
	}
	defer r.dst.Done(ver)
	for _, v := range ver.Views {
		r.report.Collections++
		r.report.Documents += v.Count
		for _, p := range v.Parts {
			if p.Dim > 0 {
				r.report.Vectors += p.Live()
			}
		}
	}
	return nil
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
			r.report.problem(&fileformat.CorruptError{File: engine.MetaName, Offset: -1, Err: err})
			r.report.lose(Lost{Collection: c.Name, What: "definition", Reason: err.Error()})
			def = &engine.Definition{ID: c.ID, Name: c.Name}
		}
		if err := r.define(def); err != nil {
			return err
		}
		own := slices.DeleteFunc(slices.Clone(segments), func(s segment.Info) bool { return s.Collection != c.ID })
		s := &salvager{repairer: r, coll: c.ID, name: def.Name, want: int(c.Documents),
			done: map[uint64]bool{}, dead: map[uint64]bool{}}
		if err := s.run(own); err != nil {
			return err
		}
	}
	if r.wreck == nil { // otherwise the list of segments may be incomplete
		if err := r.unexplained(segments); err != nil {
			return err
		}
	}
	return r.logged()
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
		r.report.problem(p)
		r.report.lose(Lost{What: "document", Reason: p.Error()})
	}
	return nil
}

// define gives a collection of the new database the name and the schema of def.
func (r *repairer) define(def *engine.Definition) error {
	for id, name := range r.names {
		if name == def.Name && id != def.ID {
			if err := r.displace(id); err != nil {
				return err
			}
		}
	}
	old, there := r.names[def.ID]
	if there && old != def.Name {
		if err := r.dst.Rename(r.ctx, old, def.Name); err != nil {
			return err
		}
	}
	r.names[def.ID] = def.Name
	set := r.dst.Redefine // the log may change the text index and the index
	if !there {
		set = func(ctx context.Context, name string, s engine.Schema) (*engine.Definition, error) {
			return r.dst.Define(ctx, name, s, nil, false)
		}
	}
	made, err := set(r.ctx, def.Name, def.Schema)
	if err != nil {
		return err
	}
	r.dims[def.Name] = made.Schema.Dim
	return r.dst.SetMetadata(r.ctx, made.ID, def.Metadata)
}

// displace gives a collection another name, because a later one has its name now: a lost batch has
// renamed or dropped it.
func (r *repairer) displace(id uint32) error {
	taken := slices.Collect(maps.Values(r.names))
	was, name := r.names[id], fmt.Sprintf("collection %d", id)
	for slices.Contains(taken, name) {
		name += "+"
	}
	if err := errors.Join(r.flush(), r.dst.Rename(r.ctx, was, name)); err != nil {
		return err
	}
	r.names[id], r.dims[name] = name, r.dims[was]
	r.report.lose(Lost{Collection: name, What: "definition",
		Reason: fmt.Sprintf("it was %q until a lost batch renamed or dropped it", was)})
	return nil
}

// flushEvery is the size in bytes at which salvaged documents are written.
const flushEvery = 4 << 20

// put saves a document. A vector of another dimension than the collection's, and a document that no
// database accepts, are reported as lost.
func (r *repairer) put(name string, d document.Document, vec []float32) error {
	if n := len(vec); n > 0 && r.dims[name] == 0 {
		r.dims[name] = n
	} else if n > 0 && n != r.dims[name] {
		r.report.lose(Lost{Collection: name, ID: d.ID, What: "vector",
			Reason: fmt.Sprintf("it has %d components, others have %d", n, r.dims[name])})
		vec = nil
	}
	err := document.ValidateVector(d.ID, vec)
	var doc []byte
	if err == nil {
		doc, err = document.Append(nil, &d)
	}
	if err != nil {
		r.report.lose(Lost{Collection: name, ID: d.ID, What: "document", Reason: err.Error()})
		return nil
	}
	return r.write(engine.Op{Kind: engine.OpPut, Collection: name, ID: d.ID, Doc: doc, Vec: slices.Clone(vec)})
}

// write queues a write and flushes the queue when it is large.
func (r *repairer) write(o engine.Op) error {
	r.ops = append(r.ops, o)
	if r.size += len(o.ID) + len(o.Doc) + 4*len(o.Vec); r.size < flushEvery {
		return nil
	}
	return r.flush()
}

// flush applies the queued writes.
func (r *repairer) flush() error {
	if len(r.ops) == 0 {
		return nil
	}
	_, err := r.dst.Write(r.ctx, r.ops, r.size)
	r.ops, r.size = nil, 0
	return err
}

// logged applies the batches that only the log has and that can be read. A batch says all that it
// writes. So a document has its last version unless a lost batch wrote that.
func (r *repairer) logged() error {
	if err := r.flush(); err != nil {
		return err
	}
	return r.place.log(r.state, r.replay, func(g wal.Gap) {
		r.report.problem(g.Err)
		if g.First > 0 {
			r.report.lose(Lost{What: "document", Reason: fmt.Sprintf(
				"of the batches that only the log has, %v: what was replaced or deleted there may be back", g)})
		}
	})
}

// replay applies a batch.
func (r *repairer) replay(b engine.Batch) error {
	for _, o := range b.Ops {
		name, known := r.names[o.Coll]
		switch {
		case o.Kind == engine.OpDefine:
			if err := errors.Join(r.flush(), r.define(o.Def)); err != nil {
				return err
			}
		case !known && o.Kind != engine.OpDrop:
			r.report.lose(Lost{ID: o.ID, What: "document",
				Reason: fmt.Sprintf("the log writes to collection %d, whose definition is lost", o.Coll)})
		case !known: // there is nothing to drop
		case o.Kind == engine.OpDrop:
			if err := errors.Join(r.flush(), r.dst.DropCollection(r.ctx, name)); err != nil {
				return err
			}
			delete(r.names, o.Coll)
		case o.Kind == engine.OpDelete:
			if err := document.ValidateID(o.ID); err != nil {
				return &fileformat.CorruptError{File: engine.WALDir, Offset: -1, Err: err}
			}
			if err := r.write(engine.Op{Kind: engine.OpDelete, Collection: name, ID: o.ID}); err != nil {
				return err
			}
		case o.Kind == engine.OpPut:
			d, err := document.Decode(o.Doc, document.All)
			if err != nil {
				return err
			}
			if err := r.put(name, d, o.Vec); err != nil {
				return err
			}
		}
	}
	return nil
}
