package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// database is the argument that names a database.
type database struct {
	DB string `arg:"" name:"db" help:"Directory of the database."`
}

// read opens the database for reading and runs fn.
func (d database) read(fn func(*db.DB) error) error {
	return d.open(db.Options{ReadOnly: true}, fn)
}

// change opens an existing database for writing and runs fn.
func (d database) change(fn func(*db.DB) error) error {
	return d.open(db.Options{MustExist: true}, fn)
}

// create opens the database for writing, creates it if necessary, and runs fn. What fn does first,
// try, is done in memory before a database is made, so that a refusal leaves nothing behind.
func (d database) create(try, fn func(*db.DB) error) error {
	if err := lasting(d.DB); err != nil {
		return err
	}
	if missing(d.DB) {
		if err := d.inMemory(try); err != nil {
			return err
		}
	}
	return d.open(db.Options{}, fn)
}

// inMemory runs fn on an empty database in memory, which stands for this one.
func (d database) inMemory(fn func(*db.DB) error) (err error) {
	vdb, err := db.Open(db.Memory, nil)
	if err != nil { // by limits of the process, or for lack of memory
		return d.blame(fmt.Errorf("db: open %q: in memory at first: %w", d.DB, errors.Unwrap(err)))
	}
	defer func() { err = errors.Join(err, vdb.Close()) }()
	return fn(vdb)
}

// lasting refuses a database in memory as the target of a command that only writes.
func lasting(dir string) error {
	if dir == db.Memory {
		return fmt.Errorf("%w: a database in memory ends with this command, and what it wrote is lost: name a directory",
			db.ErrInvalid)
	}
	return nil
}

func (d database) open(o db.Options, fn func(*db.DB) error) (err error) {
	vdb, err := db.Open(d.DB, &o)
	if err != nil {
		return d.blame(err)
	}
	defer func() { err = errors.Join(err, vdb.Close()) }()
	return fn(vdb)
}

// A databaseError is an error of the database in dir, which need not be the argument of the verb.
type databaseError struct {
	error
	dir string
}

// Unwrap returns the error of the database.
func (e *databaseError) Unwrap() error { return e.error }

// blame returns err as an error of this database, unless it is one of another.
func (d database) blame(err error) error {
	if other := (*databaseError)(nil); err == nil || errors.As(err, &other) {
		return err
	}
	return &databaseError{err, d.DB}
}

// leading names the process that leads a database in an error that says that this one does not.
func leading(ctx context.Context, vdb *db.DB, err error) error {
	if !errors.Is(err, db.ErrLocked) && !errors.Is(err, db.ErrReadOnly) {
		return err
	}
	others, perr := processes(ctx, vdb)
	if perr != nil || len(others) == 0 || others[0].Role != db.RoleLeader {
		return err
	}
	p := others[0]
	return fmt.Errorf("%w: only process %d, %s, since %s, can do this: it leads the database", db.ErrLocked,
		p.PID, p.Program, p.Since.UTC().Format(time.RFC3339))
}

// collection is the pair of arguments that names a collection.
type collection struct {
	database
	Collection string `arg:"" help:"Name of the collection."`
}

// read opens the collection for reading and runs fn.
func (c collection) read(fn func(*db.Collection) error) error {
	return c.database.read(c.existing(fn))
}

// frozen returns a function that runs fn on the state that a collection has then: for verbs that
// read several times, so that their answer does not mix states.
func frozen(fn func(*db.Collection) error) func(*db.Collection) error {
	return func(coll *db.Collection) (err error) {
		coll, end, err := coll.Snapshot()
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, end()) }()
		return fn(coll)
	}
}

// change opens an existing collection for writing and runs fn.
func (c collection) change(fn func(*db.Collection) error) error {
	return c.database.change(c.existing(fn))
}

func (c collection) existing(fn func(*db.Collection) error) func(*db.DB) error {
	return func(vdb *db.DB) error {
		coll, err := vdb.Collection(c.Collection)
		if err != nil {
			return err
		}
		return fn(coll)
	}
}

// schema are the flags of verbs that may create a collection.
type schema struct {
	Metric     *db.Metric `placeholder:"METRIC" help:"Metric: cosine, dot or l2. The default for a new collection is cosine; an existing collection must have the given metric."`
	Provider   string     `placeholder:"NAME" help:"Provider of the vectors. An existing collection that names a provider, model or chunker must have the given one."`
	Model      string     `placeholder:"NAME" help:"Model of the vectors."`
	Normalized bool       `help:"The model returns vectors of length 1."`
	Chunker    string     `placeholder:"NAME" help:"How texts were split."`
	TextIndex  bool       `help:"Index texts for full-text search. An existing collection gets an index, or keeps the one it has."`
	Language   string     `placeholder:"NAME" help:"With --text-index: the language of the texts, for stemming and stop words; default english, none for no language."`
	TextField  []string   `sep:"none" placeholder:"FIELD" help:"With --text-index: index this metadata field as well. May be repeated."`
	Index      *db.Index  `placeholder:"INDEX" help:"Index over the vectors: fast, the default; small takes less space; none scans. An existing collection must have the given index, unless that is fast."`
	bm25
}

// bm25 are the parameters of a text index.
type bm25 struct {
	K1 *float64 `name:"k1" placeholder:"K1" help:"Weight of repeated words, from 0 (k1 of BM25; 1.2)."`
	B  *float64 `name:"b" placeholder:"B" help:"Weight of the text length, from 0 to 1 (b of BM25; 0.75)."`
}

func (p bm25) given() bool { return p.K1 != nil || p.B != nil }

// describesText reports whether a flag says how texts are indexed.
func (s schema) describesText() bool { return s.Language != "" || len(s.TextField) > 0 || s.given() }

// Validate is called by kong.
func (s schema) Validate() error {
	if s.describesText() && !s.TextIndex {
		return errors.New("--language, --text-field, --k1 and --b need --text-index")
	}
	return nil
}

// text returns the index that the flags select; nil if they select none or the existing index.
func (s schema) text(have *db.TextIndex) *db.TextIndex {
	if !s.TextIndex || have != nil && !s.describesText() {
		return nil
	}
	return &db.TextIndex{Language: s.Language, Fields: s.TextField, K1: s.K1, B: s.B}
}

// create opens the collection for writing, and creates it if necessary. Before it makes a database
// or a collection it calls prepare, so that an error of it leaves nothing behind.
func (c collection) create(ctx context.Context, s schema, prepare func() error,
	fn func(*db.DB, *db.Collection) error) error {
	prepare = sync.OnceValue(prepare)
	open := func(vdb *db.DB) (*db.Collection, error) {
		want := db.Schema{Lineage: db.Lineage{Provider: s.Provider, Model: s.Model,
			Normalized: s.Normalized, Chunker: s.Chunker}}
		if s.Metric != nil {
			want.Metric = *s.Metric
		}
		if s.Index != nil {
			want.Index = *s.Index
		}
		var have *db.TextIndex
		coll, err := vdb.Collection(c.Collection)
		if err == nil {
			info, err := coll.Info()
			if err != nil {
				return nil, err
			}
			have = info.Schema.Text
			if s.Metric == nil {
				want.Metric = info.Schema.Metric
			}
		} else if err := prepare(); err != nil {
			return nil, err
		}
		want.Text = s.text(have)
		return vdb.OpenCollection(ctx, c.Collection, want)
	}
	try := func(vdb *db.DB) error {
		_, err := open(vdb)
		return err
	}
	return c.database.create(try, func(vdb *db.DB) error {
		coll, err := open(vdb)
		if err != nil {
			return err
		}
		return fn(vdb, coll)
	})
}

// missing reports whether there is no database in dir, and nothing else.
func missing(dir string) bool {
	entries, err := vfs.ReadDir(dir)
	return errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0
}

// condition is the flag that selects documents by their metadata.
type condition struct {
	Where where `placeholder:"JSON" help:"Only documents that meet this condition, such as '{\"lang\":\"go\",\"year\":{\"$gte\":2020}}'. See docs/where.md."`
}

// where is a filter in JSON; the zero value is no filter.
type where struct{ filter.Expr }

// UnmarshalText implements encoding.TextUnmarshaler.
func (w *where) UnmarshalText(b []byte) error {
	e, err := filter.Parse(b)
	if text := bytes.TrimSpace(b); err != nil && len(text) > 0 && text[0] != '{' { // perhaps SQL
		err = errors.New(`not a JSON object, such as {"lang":"go","year":{"$gte":2020}}`)
	}
	if err != nil {
		return fmt.Errorf("condition %s: %w", b, err)
	}
	w.Expr = e
	return nil
}
