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
	"strings"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// ImportOptions tune Import. nil is the default.
type ImportOptions struct {
	// BatchSize is the number of documents that are compared and written together; 0 means 1,000,
	// or 200 with Vectors, fewer if they are large.
	BatchSize int
	// Progress, if set, is called after each batch with the progress towards Source.Total.
	Progress func(done int64, r Report)
	// OnSkip, if set, is called with each skipped document, but not for files that do not belong to
	// the source. Progress and OnSkip are called by one goroutine, beside the caller of Import.
	OnSkip func(*ImportedDocument)
	// Vectors, if set, gives a vector to each document that has a text and none, before it is
	// written. It is called with the documents of a batch that have a vector or need one. A text
	// needs none if it is white space, or if the collection has one for it, so that an import that
	// was interrupted goes on where it stopped. An error that matches db.ErrDimensionMismatch
	// refuses the vector of a document, as the database does; any other error ends the import.
	Vectors func(ctx context.Context, docs []*db.Document) error
	// Logger receives a warning for each skipped document; nil is silent.
	Logger *slog.Logger
}

// A Report counts the results of an import: each document of the source once, also those with
// equal ids.
type Report struct {
	Added     int `json:"added"`
	Updated   int `json:"updated"`
	Unchanged int `json:"unchanged"`
	Skipped   int `json:"skipped"` // unreadable documents, and documents that the database refuses
	Ignored   int `json:"ignored"` // files that do not belong to the source
}

const (
	importBatch = 1000
	modelBatch  = 200 // with Vectors: an import that is interrupted loses the vectors of a batch
	importBytes = 8 << 20
)

// Import writes the documents of src to c as if each were written by itself, in order, but many at
// a time. It does not write documents that are already stored unchanged. The next batch is read
// while one is written. A document that the database refuses with db.ErrInvalid is skipped. An
// error ends the import; batches written before it stay, and are in the Report. The error for a
// vector of another dimension has its place, and all documents before it stay.
//
// Each batch is compared with all that any process had acknowledged before. Parts that the source
// does not carry are written as they were read then, before vectors are made: a change of another
// writer to them in between is lost. Do not change documents while they are imported.
func Import(ctx context.Context, c *db.Collection, src Source, opts *ImportOptions) (Report, error) {
	info, err := c.Info()
	if err != nil {
		return Report{}, err
	}
	im := &importer{c: c, name: info.Name}
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
				if err := im.write(ctx, b.docs); err != nil {
					return err
				}
				if im.opts.Progress != nil {
					im.opts.Progress(b.docs[len(b.docs)-1].Done, im.report)
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
	name   string // of c
	opts   ImportOptions
	report Report // of the writing goroutine
}

// A batch holds documents that are written together, and those that are skipped between them.
type batch struct {
	docs []*ImportedDocument
	size int
}

func (b *batch) add(doc *ImportedDocument) {
	b.docs = append(b.docs, doc)
	d := &doc.Document
	b.size += 4*len(d.Vector) + len(d.Text) + 64
	if len(d.Metadata) > 0 {
		b.size += document.Footprint(map[string]any(d.Metadata))
	}
}

func (im *importer) read(ctx context.Context, src Source, batches chan<- batch) error {
	limit := importBatch
	if im.opts.Vectors != nil {
		limit = modelBatch
	}
	limit = cmp.Or(im.opts.BatchSize, limit)
	var b batch
	for doc, err := range src.Documents(ctx) {
		if err != nil {
			return errors.Join(err, send(ctx, batches, b))
		}
		if b.add(doc); len(b.docs) < limit && b.size < importBytes {
			continue
		}
		if err := send(ctx, batches, b); err != nil {
			return err
		}
		b = batch{}
	}
	return send(ctx, batches, b)
}

func send(ctx context.Context, batches chan<- batch, b batch) error {
	if len(b.docs) == 0 {
		return nil
	}
	select {
	case batches <- b:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// write stores and counts documents, all in one transaction. If the database refuses one, it stores
// none, and write tries the halves one after the other until the refused document is alone: the
// error need not name it. No other function skips or refuses a document.
func (im *importer) write(ctx context.Context, docs []*ImportedDocument) error {
	changes, counts, err := im.compare(ctx, docs)
	if err != nil {
		return err
	}
	refused, err := im.store(ctx, changes)
	switch {
	case err != nil:
		return err
	case refused == nil:
		im.count(docs, counts)
		return nil
	case len(docs) > 1:
		half := len(docs) / 2
		if err := im.write(ctx, docs[:half]); err != nil {
			return err
		}
		return im.write(ctx, docs[half:])
	case errors.Is(refused, db.ErrDimensionMismatch):
		if d, ok := errors.AsType[*db.DimensionError](refused); ok {
			bare := *d
			bare.ID = docs[0].Document.ID // not the new id of a document without one
			refused = &bare
		}
		return fmt.Errorf("%v: %w", docs[0].Position, refused)
	}
	docs[0].Skip = refused
	return im.write(ctx, docs)
}

// count adds to the report, and reports the skipped documents.
func (im *importer) count(docs []*ImportedDocument, r Report) {
	im.report.Added += r.Added
	im.report.Updated += r.Updated
	im.report.Unchanged += r.Unchanged
	im.report.Skipped += r.Skipped
	im.report.Ignored += r.Ignored
	for _, doc := range docs {
		if doc.Skip == nil || errors.Is(doc.Skip, ErrIgnored) {
			continue
		}
		if im.opts.Logger != nil {
			im.opts.Logger.Warn("skipped", "document", doc.Position.String(), "reason", doc.Skip)
		}
		if im.opts.OnSkip != nil {
			im.opts.OnSkip(doc)
		}
	}
}

// A change is a document to write.
type change struct {
	doc      db.Document
	replaced bool // by a later change of the same batch
}

// compare compares documents with the stored ones, and with those before them that have the same
// id. It returns the changes in order, and counts the documents.
func (im *importer) compare(ctx context.Context, docs []*ImportedDocument) ([]*change, Report, error) {
	var r Report
	ids := make([]string, len(docs))
	for i, doc := range docs {
		ids[i] = doc.Document.ID
	}
	// What another process has just written may not be visible in this one yet.
	if err := im.c.DB().Barrier(ctx); err != nil {
		return nil, r, err
	}
	changes := make([]*change, 0, len(docs))
	last := make(map[string]*change, len(docs)) // of each id
	i := -1
	for old, err := range im.c.GetSeq(ctx, ids, db.Everything) {
		if err != nil {
			return nil, r, err
		}
		i++
		doc, earlier := docs[i], last[ids[i]]
		if im.opts.Vectors != nil && len(doc.Document.Vector) == 0 {
			doc.Carries &^= db.WithVector // a vector to be made
		}
		if earlier != nil {
			old = &earlier.doc
		}
		ch := &change{doc: doc.Document}
		switch {
		case errors.Is(doc.Skip, ErrIgnored):
			r.Ignored++
			continue
		case doc.Skip != nil:
			r.Skipped++
			continue
		case old == nil:
			r.Added++
		case im.lacks(doc, old, earlier != nil):
			r.Updated++
			ch.doc = doc.mergeInto(old)
			ch.doc.Vector = nil
		case doc.matches(old):
			r.Unchanged++
			continue
		default:
			r.Updated++
			ch.doc = doc.mergeInto(old)
		}
		if earlier != nil {
			earlier.replaced = true
		}
		if ids[i] != "" { // those without an id are different documents
			last[ids[i]] = ch
		}
		changes = append(changes, ch)
	}
	return changes, r, nil
}

// lacks reports whether a vector is to be made for a text, in place of the vector of old: it has
// none, or one of another text. With due, old is in the same batch and gets its vector with that.
func (im *importer) lacks(doc *ImportedDocument, old *db.Document, due bool) bool {
	if im.opts.Vectors == nil || doc.Carries&db.WithVector != 0 {
		return false
	}
	text := old.Text
	if doc.Carries&db.WithText != 0 {
		text = doc.Document.Text
	}
	return text != old.Text || hasWords(text) && len(old.Vector) == 0 && !due
}

// hasWords reports whether a text can have a vector.
func hasWords(text string) bool { return strings.TrimSpace(text) != "" }

// store writes changes, all or none. refused says that none is written because a document cannot be
// stored.
func (im *importer) store(ctx context.Context, changes []*change) (refused, err error) {
	if len(changes) == 0 {
		return nil, nil
	}
	if im.opts.Vectors != nil {
		if refused := im.check(changes); refused != nil {
			return refused, nil
		}
		switch err := im.vectors(ctx, changes); {
		case errors.Is(err, db.ErrDimensionMismatch):
			return err, nil
		case err != nil:
			return nil, err
		}
	}
	docs := make([]db.Document, len(changes))
	for i, ch := range changes {
		docs[i] = ch.doc
	}
	_, err = im.c.Upsert(ctx, docs...)
	if errors.Is(err, db.ErrInvalid) || errors.Is(err, db.ErrDimensionMismatch) {
		return err, nil
	}
	return nil, err
}

// check returns the error of a document that the database would refuse, before a vector is made for
// it or for another one of the batch: models take time and money.
func (im *importer) check(changes []*change) error {
	var b db.Batch
	for _, ch := range changes {
		b.Upsert(im.name, ch.doc)
	}
	return b.Err()
}

// vectors gives vectors to the documents with a text and none.
func (im *importer) vectors(ctx context.Context, changes []*change) error {
	var docs []*db.Document
	for _, ch := range changes {
		if len(ch.doc.Vector) > 0 || hasWords(ch.doc.Text) && !ch.replaced {
			docs = append(docs, &ch.doc)
		}
	}
	if len(docs) == 0 {
		return nil
	}
	return im.opts.Vectors(ctx, docs)
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
	return maps.EqualFunc(a, b, sameValue)
}

// sameValue compares metadata values as they are stored: 0.0 and -0.0 differ, 1 and 1.0 too.
func sameValue(a, b any) bool {
	switch a := a.(type) {
	case float64:
		b, ok := b.(float64)
		return ok && math.Float64bits(a) == math.Float64bits(b)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameValue)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, sameValue)
	}
	return reflect.DeepEqual(a, b)
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
