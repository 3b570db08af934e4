package exchange

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// ImportOptions tune Import. nil is the default.
type ImportOptions struct {
	// BatchSize is the number of documents that are compared and written together; 0 means 1,000,
	// fewer if they are large.
	BatchSize int
	// Progress, if set, is called after each batch with the progress towards Source.Total.
	Progress func(done int64, r Report)
	// OnSkip, if set, is called with each skipped document, but not for files that do not belong to
	// the source. Calls of Progress and OnSkip are serialized, but come from several goroutines.
	OnSkip func(*ImportedDocument)
	// Vectors, if set, gives documents vectors before they are written. It is called with the
	// documents of a batch that have a text, no vector in the source, and none in the collection
	// for the same text, so that an import that was interrupted goes on where it stopped.
	Vectors func(ctx context.Context, docs []*db.Document) error
	// Logger receives a warning for each skipped document; nil is silent.
	Logger *slog.Logger
}

// A Report counts the results of an import.
type Report struct {
	Added     int `json:"added"`
	Updated   int `json:"updated"`
	Unchanged int `json:"unchanged"`
	Skipped   int `json:"skipped"` // unreadable documents, and documents that the database refuses
	Ignored   int `json:"ignored"` // files that do not belong to the source
}

const (
	importBatch = 1000
	importBytes = 8 << 20
)

// Import writes the documents of src to c, in order, and does not write documents that are already
// stored unchanged. If an id is repeated, the last document wins. The next batch is read while one
// is written. An error ends the import; batches written before it stay, and are in the Report. A
// document that the database refuses with db.ErrInvalid is skipped.
func Import(ctx context.Context, c *db.Collection, src Source, opts *ImportOptions) (Report, error) {
	info, err := c.Info()
	if err != nil {
		return Report{}, err
	}
	im := &importer{c: c, dim: info.Schema.Dim}
	if opts != nil {
		im.opts = *opts
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	batches := make(chan batch, 1)
	var writing vfs.Group
	writing.Go("", func() error {
		err := vfs.Catch("", func() error {
			for b := range batches {
				if err := im.write(ctx, b); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			cancel(err) // stop reading
		}
		return err
	})
	// Catch panics, because read handles untrusted input and the writer waits for close(batches).
	readErr := vfs.Catch("", func() error { return im.read(ctx, src, batches) })
	close(batches)
	err = writing.Wait()
	if err == nil {
		err = readErr
	}
	return im.report, err
}

// An importer runs one import.
type importer struct {
	c      *db.Collection
	dim    int // of the vectors; 0 until the first
	opts   ImportOptions
	report Report
	calls  sync.Mutex // serializes the functions of opts, which both the reading and the writing goroutine call
}

// A batch holds documents that are compared and written together.
type batch struct {
	docs             []*ImportedDocument // distinct ids
	at               map[string]int
	size             int
	done             int64
	skipped, ignored int
}

func (im *importer) read(ctx context.Context, src Source, batches chan<- batch) error {
	limit := cmp.Or(im.opts.BatchSize, importBatch)
	b := batch{at: map[string]int{}}
	for doc, err := range src.Documents(ctx) {
		if err != nil {
			return errors.Join(err, im.send(ctx, batches, b))
		}
		if err := im.dimension(doc); err != nil {
			return errors.Join(err, im.send(ctx, batches, b))
		}
		b.add(doc, im.opts.Vectors != nil)
		if doc.Skip != nil && !errors.Is(doc.Skip, ErrIgnored) {
			im.skip(doc)
		}
		if len(b.docs) >= limit || b.size >= importBytes {
			if err := im.send(ctx, batches, b); err != nil {
				return err
			}
			b = batch{at: map[string]int{}}
		}
	}
	return im.send(ctx, batches, b)
}

func (im *importer) send(ctx context.Context, batches chan<- batch, b batch) error {
	if len(b.docs)+b.skipped+b.ignored == 0 {
		return nil
	}
	select {
	case batches <- b:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// dimension compares the vector of doc with the dimension of the collection, or else of the first
// vector of the source.
func (im *importer) dimension(doc *ImportedDocument) error {
	n := len(doc.Document.Vector)
	if n == 0 || doc.Skip != nil {
		return nil
	}
	if im.dim == 0 {
		im.dim = n
	}
	if n == im.dim {
		return nil
	}
	info, err := im.c.Info()
	if err != nil {
		return err
	}
	return fmt.Errorf("%v: %w", doc.Position,
		&db.DimensionError{Collection: info.Name, ID: doc.Document.ID, Expected: im.dim, Got: n})
}

func (im *importer) skip(doc *ImportedDocument) {
	im.calls.Lock()
	defer im.calls.Unlock()
	if im.opts.Logger != nil {
		im.opts.Logger.Warn("skipped", "document", doc.Position.String(), "reason", doc.Skip)
	}
	if im.opts.OnSkip != nil {
		im.opts.OnSkip(doc)
	}
}

// add adds a document. With embeds, a new text of an earlier document of the batch does not keep
// its vector, because it gets one of its own.
func (b *batch) add(doc *ImportedDocument, embeds bool) {
	b.done = doc.Done
	switch {
	case errors.Is(doc.Skip, ErrIgnored):
		b.ignored++
		return
	case doc.Skip != nil:
		b.skipped++
		return
	}
	d := &doc.Document
	b.size += 4*len(d.Vector) + len(d.Text) + 64
	if i, twice := b.at[d.ID]; twice && d.ID != "" {
		first := b.docs[i] // keep the parts that only the first carries, as if it had been written
		stale := embeds && len(d.Vector) == 0 && doc.Carries&first.Carries&db.WithText != 0 &&
			d.Text != first.Document.Text
		doc.Document, doc.Carries = doc.mergeInto(&first.Document), doc.Carries|first.Carries
		if stale {
			doc.Document.Vector, doc.Carries = nil, doc.Carries&^db.WithVector
		}
		b.docs[i] = doc
		return
	}
	b.at[d.ID] = len(b.docs)
	b.docs = append(b.docs, doc)
}

// A change is a document to write.
type change struct {
	from *ImportedDocument
	doc  db.Document
	old  bool // replaces a stored document
}

// write compares a batch with the stored documents and writes the differences.
func (im *importer) write(ctx context.Context, b batch) error {
	ids := make([]string, len(b.docs))
	for i, doc := range b.docs {
		ids[i] = doc.Document.ID
	}
	stored, err := im.c.GetMany(ctx, ids, db.Everything)
	if err != nil {
		return err
	}
	unchanged := 0
	var changes []change
	for i, doc := range b.docs {
		if im.opts.Vectors != nil && len(doc.Document.Vector) == 0 {
			doc.Carries &^= db.WithVector // a vector to be made
		}
		switch old := stored[i]; {
		case old == nil:
			changes = append(changes, change{from: doc, doc: doc.Document})
		case doc.matches(old) && !im.lacks(doc, old):
			unchanged++
		default:
			to := doc.mergeInto(old)
			if im.lacks(doc, old) {
				to.Vector = nil
			}
			changes = append(changes, change{from: doc, doc: to, old: true})
		}
	}
	if err := im.vectors(ctx, changes); err != nil {
		return err
	}
	if err := im.upsert(ctx, changes); err != nil {
		return err
	}
	im.report.Unchanged += unchanged
	im.report.Skipped += b.skipped
	im.report.Ignored += b.ignored
	if im.opts.Progress != nil {
		im.calls.Lock()
		defer im.calls.Unlock()
		im.opts.Progress(b.done, im.report)
	}
	return nil
}

// lacks reports whether a vector is to be made for a text, in place of the vector of old: it has
// none, or one of another text.
func (im *importer) lacks(doc *ImportedDocument, old *db.Document) bool {
	if im.opts.Vectors == nil || doc.Carries&db.WithVector != 0 {
		return false
	}
	text := old.Text
	if doc.Carries&db.WithText != 0 {
		text = doc.Document.Text
	}
	return text != old.Text || text != "" && len(old.Vector) == 0
}

// vectors gives vectors to the documents with a text and none.
func (im *importer) vectors(ctx context.Context, changes []change) error {
	if im.opts.Vectors == nil {
		return nil
	}
	var docs []*db.Document
	for i := range changes {
		if d := &changes[i].doc; d.Text != "" && len(d.Vector) == 0 {
			docs = append(docs, d)
		}
	}
	if len(docs) == 0 {
		return nil
	}
	return im.opts.Vectors(ctx, docs)
}

// upsert writes and counts changes. If the database refuses a document, upsert finds it by
// bisection, because the error does not name it.
func (im *importer) upsert(ctx context.Context, changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	docs := make([]db.Document, len(changes))
	for i := range changes {
		docs[i] = changes[i].doc
	}
	_, err := im.c.Upsert(ctx, docs...)
	switch {
	case err == nil:
		for _, ch := range changes {
			if ch.old {
				im.report.Updated++
			} else {
				im.report.Added++
			}
		}
		return nil
	case !errors.Is(err, db.ErrInvalid):
		return err
	case len(changes) == 1:
		changes[0].from.Skip = err
		im.report.Skipped++
		im.skip(changes[0].from)
		return nil
	}
	half := len(changes) / 2
	if err := im.upsert(ctx, changes[:half]); err != nil {
		return err
	}
	return im.upsert(ctx, changes[half:])
}

// matches reports whether the stored document has all parts that the source carries.
func (i *ImportedDocument) matches(old *db.Document) bool {
	d := &i.Document
	return (i.Carries&db.WithText == 0 || d.Text == old.Text) &&
		(i.Carries&db.WithVector == 0 || slices.EqualFunc(d.Vector, old.Vector, equalBits)) &&
		(i.Carries&db.WithMetadata == 0 || sameMetadata(d.Metadata, old.Metadata))
}

func equalBits(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }

func sameMetadata(a, b db.Metadata) bool {
	return len(a) == 0 && len(b) == 0 || maps.EqualFunc(a, b, func(x, y any) bool { return reflect.DeepEqual(x, y) })
}

// mergeInto returns the stored document with the parts that the source carries replaced.
func (i *ImportedDocument) mergeInto(old *db.Document) db.Document {
	d := *old
	if i.Carries&db.WithText != 0 {
		d.Text = i.Document.Text
	}
	if i.Carries&db.WithVector != 0 {
		d.Vector = i.Document.Vector
	}
	if i.Carries&db.WithMetadata != 0 {
		d.Metadata = i.Document.Metadata
	}
	return d
}
