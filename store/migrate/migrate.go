package migrate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/store"
)

// DefaultBatchSize is the number of documents that are read and written at a time if
// Options.BatchSize is zero.
const DefaultBatchSize = 300

// ErrCheckpoint is returned when the checkpoint belongs to another migration, or the target has
// fewer documents than it says.
var ErrCheckpoint = errors.New("checkpoint of another migration")

// Options tune Run. nil is the default.
type Options struct {
	// BatchSize is the most documents of a batch; 0 means DefaultBatchSize. Batches of more than
	// 16 MiB are divided.
	BatchSize int
	// Checkpoint is a file that records the progress after each batch. It is removed at the
	// end. Empty means no checkpoint.
	Checkpoint string
	// ID identifies the migration in the checkpoint: a checkpoint with another ID is refused
	// with ErrCheckpoint.
	ID string
	// Resume continues at Checkpoint, or at the beginning without a checkpoint: documents that
	// exist already are written again. Without Resume the collection must be missing or empty.
	Resume bool
	// Within says that the target is in the database of the source. Report.Changed stays false
	// then, because the run itself writes to that database.
	Within bool
	// Progress, if set, is called after each batch with the number of documents done and in
	// total.
	Progress func(done, total int)
}

// A Report counts the migrated documents.
type Report struct {
	Documents int `json:"documents"` // written by this run
	Before    int `json:"before"`    // written by earlier runs, according to the checkpoint
	// Changed says that the database of the source was written to between the beginning of the
	// first of these runs and the end of this one: if it was to this collection, the copy may lack
	// those writes. Other stores do not tell, nor does a migration within one database.
	Changed bool `json:"changed,omitempty"`
}

// A versioned source tells whether its database was written to, as db.Collection does.
type versioned interface{ Version() (uint64, error) }

// version returns the version of a source, 0 of one that has none. It counts all writes that any
// process had acknowledged.
func version(ctx context.Context, from store.Collection) (uint64, error) {
	if c, ok := from.(interface{ DB() *db.DB }); ok {
		if err := c.DB().Barrier(ctx); err != nil {
			return 0, err
		}
	}
	if v, ok := from.(versioned); ok {
		return v.Version()
	}
	return 0, nil
}

// checkpoint is the content of the file, as JSON.
type checkpoint struct {
	ID    string `json:"id"`
	After string `json:"after"` // where to continue, see store.Collection.Scan
	Done  int    `json:"done"`
	// Version is the version of the source when the migration began.
	Version uint64 `json:"version,omitempty"`
}

// Run copies all documents of a collection into the collection with the given name of another
// store. It creates that collection with the schema of the source unless it exists; one for the
// vectors of another model is db.ErrSchema. Documents that
// are written to the source during the run may be missed, and if it resumes, since the first run
// began; Report.Changed says so. Run can be repeated: documents replace themselves.
func Run(ctx context.Context, from store.Collection, to store.Store, name string, opts *Options) (*Report, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.BatchSize < 0 || o.BatchSize > store.MaxLimit {
		return nil, fmt.Errorf("%w: batch size is %d", db.ErrInvalid, o.BatchSize)
	}
	at := checkpoint{ID: o.ID}
	if o.Resume {
		var err error
		if at, err = o.load(); err != nil {
			return nil, err
		}
	}
	target, err := open(ctx, from.Schema(), to, name, o.Resume, at.Done)
	if err != nil {
		return nil, err
	}
	if !o.Resume {
		if err := o.remove(); err != nil { // of an earlier migration
			return nil, err
		}
	}
	now, err := version(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("read the source: %w", err)
	}
	total, err := from.Count(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("count the source: %w", err)
	}
	at.Version = cmp.Or(at.Version, now)
	report := &Report{Before: at.Done}
	for {
		page, err := from.Scan(ctx, at.After, cmp.Or(o.BatchSize, DefaultBatchSize), nil)
		if err != nil {
			return report, fmt.Errorf("read the source: %w", err)
		}
		batch := make([]db.Document, len(page.Documents))
		for i, d := range page.Documents {
			batch[i] = *d
		}
		for len(batch) > 0 {
			n := fitting(batch)
			if err := target.Upsert(ctx, batch[:n]); err != nil {
				return report, fmt.Errorf("write after %d documents: %w", at.Done, err)
			}
			report.Documents += n
			at.Done += n
			batch = batch[n:]
		}
		at.After = page.Next
		if o.Progress != nil {
			o.Progress(at.Done, max(total, at.Done))
		}
		if page.Next == "" {
			if now, err = version(ctx, from); err != nil {
				return report, fmt.Errorf("read the source: %w", err)
			}
			report.Changed = now != at.Version && !o.Within
			return report, o.remove()
		}
		if err := o.save(at); err != nil {
			return report, err
		}
	}
}

// maxBatchBytes is how many bytes of documents are written at a time, unless a single document has
// more: batches of databases are bounded, and so are requests to servers.
const maxBatchBytes = 16 << 20

// fitting returns how many of the first documents are written at a time.
func fitting(docs []db.Document) (n int) {
	var batch db.Batch // is not applied
	for ; n < len(docs); n++ {
		if batch.Upsert("", docs[n]); n > 0 && batch.Size() > maxBatchBytes {
			break
		}
	}
	return n
}

// open returns the target collection, which must have the documents that an earlier migration has
// written.
func open(ctx context.Context, schema store.Schema, to store.Store, name string,
	resume bool, written int) (store.Collection, error) {
	lost := func(n int) error {
		return fmt.Errorf("%w: %d documents were written, and collection %q has %d: migrate anew, without resume",
			ErrCheckpoint, written, name, n)
	}
	target, err := to.Collection(ctx, name)
	if errors.Is(err, db.ErrNotFound) {
		if written > 0 {
			return nil, lost(0)
		}
		return to.Create(ctx, name, schema)
	}
	if err != nil {
		return nil, err
	}
	if err := sameModel(name, target.Schema(), schema); err != nil {
		return nil, err
	}
	n, err := target.Count(ctx, nil)
	if err != nil {
		return nil, err
	}
	if resume && n < written {
		return nil, lost(n)
	}
	if e, ok := to.(emptyStore); ok && n == 0 && target.Schema().Dim == 0 {
		if target, err = e.SetDim(ctx, name, schema.Dim); err != nil {
			return nil, err
		}
	}
	if have := target.Schema().Dim; have != schema.Dim {
		return nil, &db.DimensionError{Collection: name, Expected: have, Got: schema.Dim}
	}
	if n > 0 && !resume {
		return nil, fmt.Errorf("collection %q %w, with %d documents: resume a migration that was cut short, or take another name", name, db.ErrExists, n)
	}
	return target, nil
}

// pin is the field of Schema.Metadata with the model that a collection embeds its texts by: see
// vectorize.Field.
const pin = "vecbolt:embedder"

// modelOf returns the lineage of a collection, with the provider and the model of its pin. Fields
// that nobody has named are empty.
func modelOf(s store.Schema) db.Lineage {
	known := s.Lineage
	if fields, ok := s.Metadata[pin].(map[string]any); ok {
		if provider, ok := fields["provider"].(string); ok {
			known.Provider = provider
		}
		if model, ok := fields["model"].(string); ok {
			known.Model = model
		}
	}
	return known
}

// sameModel returns an error that matches db.ErrSchema if a collection is for another model.
func sameModel(name string, target, source store.Schema) error {
	have, want := modelOf(target), modelOf(source)
	for _, f := range []struct{ name, have, want string }{
		{"provider", have.Provider, want.Provider},
		{"model", have.Model, want.Model},
		{"chunker", have.Chunker, want.Chunker},
	} {
		if f.have != "" && f.want != "" && f.have != f.want {
			return fmt.Errorf("%w: collection %q has %s %q, the source has %q", db.ErrSchema,
				name, f.name, f.have, f.want)
		}
	}
	return nil
}

// An emptyStore can give an empty collection the dimension that it lacks. In a database, an empty
// collection without one need not be for texts: its first vector would set it.
type emptyStore interface {
	SetDim(ctx context.Context, name string, dim int) (store.Collection, error)
}

// load reads the checkpoint; without one it returns the beginning.
func (o *Options) load() (checkpoint, error) {
	at := checkpoint{ID: o.ID}
	if o.Checkpoint == "" {
		return at, nil
	}
	b, err := os.ReadFile(o.Checkpoint)
	if errors.Is(err, fs.ErrNotExist) {
		return at, nil
	}
	if err != nil {
		return at, err
	}
	if err := json.Unmarshal(b, &at); err != nil {
		return at, fmt.Errorf("checkpoint %s: %w", o.Checkpoint, err)
	}
	if at.ID != o.ID {
		return at, fmt.Errorf("%w: %s is of %q, not of %q", ErrCheckpoint, o.Checkpoint, at.ID, o.ID)
	}
	return at, nil
}

// save replaces the checkpoint. It does not sync: an older checkpoint only means more work to
// repeat.
func (o *Options) save(at checkpoint) error {
	if o.Checkpoint == "" {
		return nil
	}
	b, err := json.Marshal(at)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(o.Checkpoint), filepath.Base(o.Checkpoint)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), o.Checkpoint)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func (o *Options) remove() error {
	if o.Checkpoint == "" {
		return nil
	}
	if err := os.Remove(o.Checkpoint); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
