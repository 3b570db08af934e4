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
	// Progress, if set, is called after each batch with what has been done of Source.Total.
	Progress func(done int64, r Report)
	// OnSkip, if set, is called with each Item that is skipped, but not with files that are no part
	// of the source. Calls of Progress and OnSkip come one at a time, from more than one goroutine.
	OnSkip func(*Item)
	// Logger receives a warning for each Item that is skipped; nil is silent.
	Logger *slog.Logger
}

// A Report counts what an import did.
type Report struct {
	Added     int `json:"added"`
	Updated   int `json:"updated"`
	Unchanged int `json:"unchanged"`
	Skipped   int `json:"skipped"` // what cannot be read as a document, and documents that the database refuses
	Ignored   int `json:"ignored"` // files that are no part of the source
}

const (
	importBatch = 1000
	importBytes = 8 << 20
)

// Import writes the documents of src to c, in their order, and leaves those alone that are stored
// already as the source has them. If an id comes more than once, what comes last stays. The next
// batch is read while one is written. An error ends the import; what was written before it stays,
// and is in the Report. A document that the database refuses with db.ErrInvalid is skipped.
func Import(ctx context.Context, c *db.Collection, src Source, opts *ImportOptions) (Report, error) {
	im := &importing{c: c, dim: c.Schema().Dim}
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
			cancel(err) // no need to read on
		}
		return err
	})
	// What cannot be trusted is read here: a panic must not leave the writer waiting.
	readErr := vfs.Catch("", func() error { return im.read(ctx, src, batches) })
	close(batches)
	err := writing.Wait()
	if err == nil {
		err = readErr
	}
	return im.report, err
}

// importing is one import on its way.
type importing struct {
	c      *db.Collection
	dim    int // of the vectors, once known
	opts   ImportOptions
	report Report
	calls  sync.Mutex // held while a function of opts runs: the reading and the writing goroutine call them
}

// A batch is what is compared and written together.
type batch struct {
	items            []*Item // one for each id
	at               map[string]int
	size             int
	done             int64
	skipped, ignored int
}

func (im *importing) read(ctx context.Context, src Source, batches chan<- batch) error {
	limit := cmp.Or(im.opts.BatchSize, importBatch)
	b := batch{at: map[string]int{}}
	for item, err := range src.Items(ctx) {
		if err != nil {
			return errors.Join(err, im.send(ctx, batches, b))
		}
		if err := im.dimension(item); err != nil {
			return errors.Join(err, im.send(ctx, batches, b))
		}
		b.add(item)
		if item.Skip != nil && !errors.Is(item.Skip, ErrIgnored) {
			im.skip(item)
		}
		if len(b.items) >= limit || b.size >= importBytes {
			if err := im.send(ctx, batches, b); err != nil {
				return err
			}
			b = batch{at: map[string]int{}}
		}
	}
	return im.send(ctx, batches, b)
}

func (im *importing) send(ctx context.Context, batches chan<- batch, b batch) error {
	if len(b.items)+b.skipped+b.ignored == 0 {
		return nil
	}
	select {
	case batches <- b:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// dimension compares the vector of an item with the collection, or the first one of the source.
func (im *importing) dimension(item *Item) error {
	n := len(item.Document.Vector)
	if n == 0 || item.Skip != nil {
		return nil
	}
	if im.dim == 0 {
		im.dim = n
	}
	if n == im.dim {
		return nil
	}
	return fmt.Errorf("%v: %w", item.Position,
		&db.DimensionError{Collection: im.c.Name(), ID: item.Document.ID, Expected: im.dim, Got: n})
}

func (im *importing) skip(item *Item) {
	im.calls.Lock()
	defer im.calls.Unlock()
	if im.opts.Logger != nil {
		im.opts.Logger.Warn("skipped", "document", item.Position.String(), "reason", item.Skip)
	}
	if im.opts.OnSkip != nil {
		im.opts.OnSkip(item)
	}
}

func (b *batch) add(item *Item) {
	b.done = item.Done
	switch {
	case errors.Is(item.Skip, ErrIgnored):
		b.ignored++
		return
	case item.Skip != nil:
		b.skipped++
		return
	}
	d := &item.Document
	b.size += 4*len(d.Vector) + len(d.Text) + 64
	if i, twice := b.at[d.ID]; twice && d.ID != "" {
		first := b.items[i] // what only it carries stays, as if it had been written
		item.Document, item.Carries = item.over(&first.Document), item.Carries|first.Carries
		b.items[i] = item
		return
	}
	b.at[d.ID] = len(b.items)
	b.items = append(b.items, item)
}

// A change is a document to write.
type change struct {
	item *Item
	doc  db.Document
	old  bool // stored already, in another form
}

// write compares a batch with what is stored and writes what differs.
func (im *importing) write(ctx context.Context, b batch) error {
	ids := make([]string, len(b.items))
	for i, item := range b.items {
		ids[i] = item.Document.ID
	}
	stored, err := im.c.GetMany(ctx, ids, db.Everything)
	if err != nil {
		return err
	}
	unchanged := 0
	var changes []change
	for i, item := range b.items {
		switch old := stored[i]; {
		case old == nil:
			changes = append(changes, change{item: item, doc: item.Document})
		case item.same(old):
			unchanged++
		default:
			changes = append(changes, change{item: item, doc: item.over(old), old: true})
		}
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

// upsert writes and counts changes. If the database refuses one, it is found by halving: the error
// does not tell which.
func (im *importing) upsert(ctx context.Context, changes []change) error {
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
		changes[0].item.Skip = err
		im.report.Skipped++
		im.skip(changes[0].item)
		return nil
	}
	half := len(changes) / 2
	if err := im.upsert(ctx, changes[:half]); err != nil {
		return err
	}
	return im.upsert(ctx, changes[half:])
}

// same reports whether the stored document is what the source says, as far as it says anything.
func (i *Item) same(old *db.Document) bool {
	d := &i.Document
	return (i.Carries&db.WithText == 0 || d.Text == old.Text) &&
		(i.Carries&db.WithVector == 0 || slices.EqualFunc(d.Vector, old.Vector, equalBits)) &&
		(i.Carries&db.WithMetadata == 0 || sameMetadata(d.Metadata, old.Metadata))
}

func equalBits(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }

func sameMetadata(a, b db.Metadata) bool {
	return len(a) == 0 && len(b) == 0 || maps.EqualFunc(a, b, func(x, y any) bool { return reflect.DeepEqual(x, y) })
}

// over returns the stored document with what the source says of it.
func (i *Item) over(old *db.Document) db.Document {
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
