package db

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A Collection is a set of documents with comparable vectors. It is a cheap handle, safe
// for concurrent use. It is bound to the collection itself, not to its name, so it
// survives a Rename. A Collection from a Snapshot is frozen and read-only.
type Collection struct {
	db   *DB
	id   uint32
	snap *Snapshot // nil for the live collection
}

// DB returns the database of the collection.
func (c *Collection) DB() *DB { return c.db }

// A CollectionInfo describes a collection at one moment.
type CollectionInfo struct {
	Name      string   `json:"name"`
	Schema    Schema   `json:"schema"`
	Metadata  Metadata `json:"metadata,omitempty"`
	Documents int      `json:"documents"`
}

func infoOf(v *engine.View) CollectionInfo {
	m, _ := document.Clone(v.Def.Metadata).(map[string]any)
	return CollectionInfo{Name: v.Def.Name, Schema: schemaOf(v.Def.Schema), Metadata: m, Documents: v.Count}
}

// infosOf describes every collection, in order of name.
func infosOf(ver *engine.Version) []CollectionInfo {
	var infos []CollectionInfo
	for _, v := range ver.SortedViews() {
		infos = append(infos, infoOf(v))
	}
	return infos
}

// CreateCollection makes an empty collection; ErrExists if the name is taken. The metadata m
// belongs to the collection itself, as if set by SetMetadata; it may be nil.
func (db *DB) CreateCollection(ctx context.Context, name string, s Schema, m Metadata) (*Collection, error) {
	var own Metadata
	var err error
	if len(m) > 0 {
		if own, err = m.canonical(); err != nil {
			return nil, fmt.Errorf("db: create collection: %w", err)
		}
	}
	c, err := db.define(ctx, name, s, own, true)
	if err != nil {
		return nil, fmt.Errorf("db: create collection: %w", err)
	}
	return c, nil
}

func (db *DB) define(ctx context.Context, name string, s Schema, m Metadata, mustCreate bool) (*Collection, error) {
	if err := s.Text.check(name); err != nil {
		return nil, err
	}
	def, err := db.engine.Define(ctx, name, s.engine(), m, mustCreate)
	if err != nil {
		return nil, err
	}
	return &Collection{db: db, id: def.ID}, nil
}

// OpenCollection returns the collection of that name, and creates it if it does not
// exist. The schema of an existing collection must fit: another dimension is a
// *DimensionError; another metric, lineage, text index or index is ErrSchema. A zero
// dimension, a nil text index and the index IndexFast fit everything. Of the lineage, provider,
// model and chunker are compared, each only if both s and the collection name it. A collection
// without dimension or text index takes it from s; its lineage never changes.
func (db *DB) OpenCollection(ctx context.Context, name string, s Schema) (*Collection, error) {
	c, err := db.Collection(name)
	var info CollectionInfo
	if err == nil {
		info, err = c.Info()
	}
	if err == nil {
		have := info.Schema
		if err := have.engine().Accepts(name, s.engine()); err != nil {
			return nil, fmt.Errorf("db: open collection: %w", err)
		}
		if (have.Dim != 0 || s.Dim == 0) && (have.Text != nil || s.Text == nil) || db.opts.ReadOnly {
			return c, nil
		}
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, err
	}
	if c, err = db.define(ctx, name, s, nil, false); err != nil {
		return nil, fmt.Errorf("db: open collection: %w", err)
	}
	return c, nil
}

// Collection returns an existing collection; ErrNotFound if it does not exist.
func (db *DB) Collection(name string) (*Collection, error) {
	ver, err := db.engine.Acquire(context.Background())
	if err != nil {
		return nil, fmt.Errorf("db: collection %q: %w", name, err)
	}
	defer db.engine.Done(ver)
	id, ok := ver.Names[name]
	if !ok {
		return nil, fmt.Errorf("db: %w", engine.Missing(name, ver.Names))
	}
	return &Collection{db: db, id: id}, nil
}

// Collections describes every collection, in order of name.
func (db *DB) Collections() ([]CollectionInfo, error) {
	ver, err := db.engine.Acquire(context.Background())
	if err != nil {
		return nil, fmt.Errorf("db: collections: %w", err)
	}
	defer db.engine.Done(ver)
	return infosOf(ver), nil
}

// Drop removes a collection with all its documents; ErrNotFound if it does not exist. The
// background frees its segments seconds later, once no snapshot reads them, unless
// Options.Compaction is Manual; Compact frees all of its space at once.
func (db *DB) Drop(ctx context.Context, name string) error {
	if err := db.engine.DropCollection(ctx, name); err != nil {
		return fmt.Errorf("db: drop: %w", err)
	}
	return nil
}

// Rename gives a collection another name; ErrExists if the name is taken.
func (db *DB) Rename(ctx context.Context, from, to string) error {
	if err := db.engine.Rename(ctx, from, to); err != nil {
		return fmt.Errorf("db: rename: %w", err)
	}
	return nil
}

// begin begins a call on the collection: the caller must call done. An error names the call.
func (c *Collection) begin(ctx context.Context, call string) (
	ver *engine.Version, v *engine.View, done func(), err error,
) {
	if ver, v, done, err = c.open(ctx); err != nil {
		err = fmt.Errorf("db: %s: %w", call, err)
	}
	return ver, v, done, err
}

// open is begin with an error that the caller wraps.
func (c *Collection) open(ctx context.Context) (*engine.Version, *engine.View, func(), error) {
	return c.openAt(func() (*engine.Version, error) { return c.db.engine.Acquire(ctx) })
}

// openAt is open with the version that acquire returns, unless the collection is of a snapshot.
func (c *Collection) openAt(acquire func() (*engine.Version, error)) (
	ver *engine.Version, v *engine.View, done func(), err error,
) {
	if c.snap != nil {
		ver, done, err = c.snap.open()
	} else if current, failed := acquire(); failed == nil {
		ver, done = current, func() { c.db.engine.Done(current) }
	} else {
		err = failed
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if v = ver.Views[c.id]; v == nil {
		done()
		return nil, nil, nil, errDropped
	}
	return ver, v, done, nil
}

// Info describes the newest version of the collection, or the version of its snapshot:
// ErrNotFound after Drop, ErrClosed after Close.
func (c *Collection) Info() (CollectionInfo, error) {
	_, v, done, err := c.begin(context.Background(), "info")
	if err != nil {
		return CollectionInfo{}, err
	}
	defer done()
	return infoOf(v), nil
}

// Version returns a number that grows with every batch written to the database. Equal numbers of
// one DB mean equal answers. In a replica it may also grow without a write. It fails as Info does.
func (c *Collection) Version() (uint64, error) {
	ver, _, done, err := c.begin(context.Background(), "version")
	if err != nil {
		return 0, err
	}
	defer done()
	return ver.Number(), nil
}

// SetMetadata replaces the metadata of the collection itself. The rules for document
// metadata apply.
func (c *Collection) SetMetadata(ctx context.Context, m Metadata) error {
	own, err := m.canonical()
	if err == nil && c.snap != nil {
		err = ErrReadOnly
	}
	if err == nil {
		err = c.db.engine.SetMetadata(ctx, c.id, own)
	}
	return c.wrap("set metadata", err)
}

// UpdateMetadata replaces the metadata of the collection itself by what update returns. What Update
// says of its function applies to this one.
func (c *Collection) UpdateMetadata(ctx context.Context, update func(CollectionInfo) (Metadata, error)) error {
	if update == nil {
		return c.wrap("update metadata", invalidf("no function makes the metadata"))
	}
	return c.wrap("update metadata", c.redefine(ctx, "UpdateMetadata", func(info *CollectionInfo) (err error) {
		info.Metadata, err = update(*info)
		return err
	}))
}

// Update renames the collection, whatever its name is by now, and replaces its metadata, in one
// write: it stores the Name and the Metadata that update leaves in info. ErrInvalid if update
// changes another field, ErrExists if another collection has the name. No write comes between the
// collection that update gets and the change. update may be called several times, and what
// DeleteFunc says of its function applies to it as well. An error or a panic of update is returned
// as an error, and nothing is changed.
func (c *Collection) Update(ctx context.Context, update func(info *CollectionInfo) error) error {
	if update == nil {
		return c.wrap("update", invalidf("no function says what to change"))
	}
	return c.wrap("update", c.redefine(ctx, "Update", update))
}

// redefine changes the name and the metadata of the collection for a call.
func (c *Collection) redefine(ctx context.Context, call string, update func(*CollectionInfo) error) error {
	return c.change(ctx, func(g *engine.Group, v *engine.View) ([]engine.Op, error) {
		defer c.db.engine.Within(call)()
		info, def := infoOf(v), *v.Def
		err := vfs.Catch(call, func() error { return engine.CallersError(update(&info)) })
		if err == nil {
			rest := infoOf(v)
			if rest.Name, rest.Metadata = info.Name, info.Metadata; !reflect.DeepEqual(rest, info) {
				err = invalidf("only the name and the metadata can be updated")
			}
		}
		if err == nil {
			def.Metadata, err = info.Metadata.canonical()
		}
		if err == nil && info.Name != def.Name {
			def.Name, err = info.Name, engine.ValidateName(info.Name)
			if _, taken := g.Base.Names[info.Name]; err == nil && taken {
				err = fmt.Errorf("%w: collection %q", ErrExists, info.Name)
			}
		}
		if err != nil {
			return nil, err
		}
		return []engine.Op{{Kind: engine.OpDefine, Coll: c.id, Def: &def}}, nil
	})
}

// SetIndex changes which files are kept to search the vectors of the collection. Searches
// go on with the present ones until the background, or Compact, has replaced them. The
// space of a replaced file is free once every process has closed its segment: at the
// latest when it closes the database.
func (c *Collection) SetIndex(ctx context.Context, index Index) error {
	if c.snap != nil {
		return c.wrap("set index", ErrReadOnly)
	}
	return c.wrap("set index", c.db.engine.SetIndex(ctx, c.id, index))
}

// Drop removes this collection with all its documents, whatever its name is by now. DB.Drop removes
// the collection that has a name when the call takes effect. Space is freed as after DB.Drop.
func (c *Collection) Drop(ctx context.Context) error {
	return c.wrap("drop", c.change(ctx, func(*engine.Group, *engine.View) ([]engine.Op, error) {
		return []engine.Op{{Kind: engine.OpDrop, Coll: c.id}}, nil
	}))
}

// Apply is DB.Apply for writes to this collection. They go to it whatever its name is, also if
// another collection has taken the name that the writes have. They must all have one name.
func (c *Collection) Apply(ctx context.Context, b *Batch) error {
	if b == nil {
		return c.wrap("apply", errNoBatch)
	}
	_, err := c.writable(ctx)
	bound := *b
	bound.ops, bound.wheres = slices.Clone(b.ops), slices.Clone(b.wheres)
	if names := b.collections(); err == nil && len(names) > 1 {
		err = invalidf("the batch has writes to the collections %.200q and %.200q", names[0], names[1])
	}
	if err == nil {
		_, err = c.apply(ctx, &bound)
	}
	return c.wrap("apply", err)
}

var errDropped = fmt.Errorf("%w: the collection was dropped", ErrNotFound)

// A decision returns the writes to make, given the newest version of a collection.
type decision func(*engine.Group, *engine.View) ([]engine.Op, error)

// change runs decide on the newest version of the collection while all other writes wait.
func (c *Collection) change(ctx context.Context, decide decision) error {
	_, err := c.changed(ctx, decide)
	return err
}

func (c *Collection) changed(ctx context.Context, decide decision) (int, error) {
	if c.snap != nil {
		return 0, ErrReadOnly
	}
	return c.db.engine.Exclusively(ctx, func(g *engine.Group) ([]engine.Op, error) {
		v := g.Base.Views[c.id]
		if v == nil {
			return nil, errDropped
		}
		return decide(g, v)
	})
}

// write builds a batch and applies it to this collection, even if the collection is
// renamed in between.
func (c *Collection) write(ctx context.Context, build func(b *Batch, name string)) (*Batch, int, error) {
	name, err := c.writable(ctx)
	if err != nil {
		return nil, 0, err
	}
	b := &Batch{}
	build(b, name)
	deleted, err := c.apply(ctx, b)
	return b, deleted, err
}

// writable returns the present name, or the reason that writes are refused.
func (c *Collection) writable(ctx context.Context) (name string, err error) {
	if c.snap != nil || c.db.opts.ReadOnly {
		return "", ErrReadOnly
	}
	_, v, done, err := c.open(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	return v.Def.Name, nil
}

func (c *Collection) apply(ctx context.Context, b *Batch) (deleted int, err error) {
	if b.err != nil {
		return 0, b.err
	}
	for i := range b.ops {
		b.ops[i].Bound, b.ops[i].Coll = true, c.id
	}
	for i := range b.wheres {
		b.wheres[i].bound, b.wheres[i].coll = true, c.id
	}
	return c.db.apply(ctx, b)
}

// Upsert writes documents, all or none, replacing documents with the same ids; of two with
// one id the last stays. It returns all ids, including generated ones. Vectors are not kept,
// but must not change during the call.
func (c *Collection) Upsert(ctx context.Context, docs ...Document) ([]string, error) {
	b, _, err := c.write(ctx, func(b *Batch, name string) {
		b.expect(docs)
		for i := range docs {
			b.Upsert(name, docs[i])
		}
	})
	if err != nil {
		return nil, c.wrap("upsert", err)
	}
	return b.IDs(), nil
}

// Insert writes documents whose ids must be free: all of them, or none and
// ErrExists. It returns their ids.
func (c *Collection) Insert(ctx context.Context, docs ...Document) ([]string, error) {
	b, _, err := c.write(ctx, func(b *Batch, name string) {
		b.expect(docs)
		for i := range docs {
			b.Insert(name, docs[i])
		}
	})
	if err != nil {
		return nil, c.wrap("insert", err)
	}
	return b.IDs(), nil
}

// Patch changes parts of one document; ErrNotFound if it does not exist.
func (c *Collection) Patch(ctx context.Context, p Patch) error {
	_, _, err := c.write(ctx, func(b *Batch, name string) { b.Patch(name, p) })
	return c.wrap("patch", err)
}

// wrap adds the call and, unless err names it, the collection to an error. It goes by the names
// that this process knows: the context of the call may have ended, and to look for newer ones may
// take as long as another process is waited for.
func (c *Collection) wrap(call string, err error) error {
	if err == nil {
		return nil
	}
	err = engine.Translate(err)
	if _, v, done, gone := c.openAt(c.db.engine.AcquireKnown); gone == nil {
		defer done()
		name := fmt.Sprintf("collection %q", v.Def.Name)
		if !strings.Contains(err.Error(), name) {
			return fmt.Errorf("db: %s in %s: %w", call, name, err)
		}
	}
	return fmt.Errorf("db: %s: %w", call, err)
}
