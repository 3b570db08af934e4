package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/exchange"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/vectorize"
)

type importCmd struct {
	collection
	Source    string          `arg:"" help:"File or directory to import; - for JSON lines from standard input."`
	Format    exchange.Format `default:"auto" enum:"auto,emb-cache,jsonl,fvecs,bvecs,npy,csv,beir,parquet" placeholder:"FORMAT" help:"One of ${enum}."`
	Texts     string          `placeholder:"FILE" help:"For an embedding cache: JSON lines {\"key\",\"text\",\"metadata\"}, or a directory of texts named like the vectors."`
	Metadata  string          `xor:"rows" placeholder:"FILE" help:"For a file of vectors: JSON lines; line i is the metadata of row i."`
	Documents string          `xor:"rows" placeholder:"FILE" help:"For a file of vectors: JSON lines; line i is the document of row i (id, text, metadata), as export writes it. A vector in it ends the import."`
	Wait      bool            `help:"Build the graphs of large collections before the command ends, as compact does."`
	schema
	embedding
}

func (c *importCmd) Help() string {
	return `Sources are an embedding cache (a directory of JSON arrays in files named by a hash, with <name>.meta.json beside ` +
		`them), JSON lines or one JSON array (id or _id; text, document, page_content, content or body; vector, embedding or values; metadata; ` +
		`other keys become metadata), CSV, TSV or Parquet with columns of such names, .fvecs, .bvecs, .npy, and a BEIR corpus. Rows of a file of ` +
		`vectors have their number as id, from 0. Only new and changed documents are written, and with --embed only their texts are embedded: an import that was interrupted goes on ` +
		`where it stopped. A document without an id gets a new one, and so it is added again by another import. Of a stored document, the parts that a line does not carry stay: ` +
		`{"id":"1","text":"new"} keeps the vector of the old text, unless the collection is pinned to a model; "vector":null removes it, and put replaces ` +
		`the document as a whole. Metadata is one part: a line with any of it replaces all of it. A document that cannot ` +
		`be stored is skipped, with a message, and so is an object of JSON with a value of the wrong type. A line that is not JSON ` +
		`and a vector of another dimension end the import, and the documents before them stay. ` +
		`A new collection is not made if no document can be stored. In JSON, graphs_due counts the graphs that are still to be built, ` +
		`and graph_seconds is the time that this is expected to take.`
}

// Validate is called by kong.
func (c *importCmd) Validate() error {
	lines := slices.Contains([]exchange.Format{exchange.Auto, exchange.JSONL, exchange.BEIR}, c.Format)
	if c.Source == "-" && (!lines || c.Texts+c.Metadata+c.Documents != "") {
		return errors.New("standard input is read as JSON lines, and excludes other sources")
	}
	return c.schema.Validate()
}

func (c *importCmd) Run(ctx context.Context, t *tool) error {
	start := time.Now()
	src, err := c.open(ctx, t)
	if err != nil {
		return err
	}
	next, end := iter.Pull2(src.Documents(ctx))
	defer end()
	from := &begun{Source: src, next: next}
	begin := func(model *embed.Config) error {
		err := from.begin(ctx, func(d db.Document) error { return c.storable(d, model) })
		if err != nil && ctx.Err() == nil {
			for _, doc := range from.refused() {
				t.notef("%s", skipped(doc))
			}
		}
		return err
	}
	write := func(vdb *db.DB, vectors *vectorize.Collection) error {
		report, err := c.load(ctx, t, vectors, from)
		// Documents imported before an error stay, and are counted.
		seconds := time.Since(start).Seconds()
		if err == nil {
			err = vdb.Flush(ctx) // as Close would
		}
		due, left := 0, time.Duration(0)
		if err == nil {
			due, left, err = c.graphs(ctx, t, vdb)
		}
		later := ""
		if due > 0 {
			later = fmt.Sprintf("; %s to build, which takes about %s: \"vecbolt compact %s\", or import with --wait",
				counted(due, "graph"), about(left), c.DB)
		}
		count := func(n int) string { return humanize.Comma(int64(n)) }
		return errors.Join(err, t.answer(struct {
			Added     int     `json:"added"`
			Updated   int     `json:"updated"`
			Unchanged int     `json:"unchanged"`
			Skipped   int     `json:"skipped"`
			Seconds   float64 `json:"seconds"`
			Due       int     `json:"graphs_due"`
			Left      float64 `json:"graph_seconds"` // estimated
		}{report.Added, report.Updated, report.Unchanged, report.Skipped, seconds, due, left.Seconds()},
			"added %s, updated %s, unchanged %s, skipped %s in %.1f s%s",
			count(report.Added), count(report.Updated), count(report.Unchanged), count(report.Skipped), seconds, later))
	}
	return c.embedding.create(ctx, t, c.collection, c.schema, begin, write)
}

// graphs builds the graphs that are missing, if the command waits for them. Otherwise it returns
// their number and about how long compact will take to build them.
func (c *importCmd) graphs(ctx context.Context, t *tool, vdb *db.DB) (due int, left time.Duration, err error) {
	stats, err := vdb.Stats()
	if err != nil {
		return 0, 0, err
	}
	for _, s := range stats.Collections {
		if s.Name == c.Collection && s.GraphsDue > 0 {
			due, left = s.GraphsDue, graphTime(s.Vectors, s.Schema.Dim, runtime.GOMAXPROCS(0))
		}
	}
	if due == 0 || !c.Wait {
		return due, left, nil
	}
	t.notef("%s to build, which takes about %s", counted(due, "graph"), about(left))
	ctx, b := t.working(ctx, "build "+counted(due, "graph"))
	err = vdb.Compact(ctx)
	b.end()
	return 0, 0, err
}

// graphTime estimates how long it takes to build a graph, within a factor of two or three: machines
// differ, and a merge that extends a graph takes less. Builds of 36,000 to 1,000,000 rows of 100 to
// 1,536 dimensions took 0.13 to 1.1 ms of a processor for each row.
func graphTime(rows, dim, processors int) time.Duration {
	perRow := 100*time.Microsecond + time.Duration(dim)*900*time.Nanosecond
	return time.Duration(rows) * perRow / time.Duration(processors)
}

// about writes a duration with one or two digits.
func about(d time.Duration) string {
	if d < 100*time.Second {
		return fmt.Sprintf("%.0f s", max(1, d.Seconds()))
	}
	return fmt.Sprintf("%.0f min", d.Minutes())
}

// open opens the source.
func (c *importCmd) open(ctx context.Context, t *tool) (exchange.Source, error) {
	if c.Source == "-" {
		return exchange.Stream(t.in, inputName(c.Source)), nil
	}
	if _, err := os.Stat(c.Source); errors.Is(err, fs.ErrNotExist) {
		return nil, misspelt(c.Source, err)
	}
	if c.Format == formatParquet || c.Format == exchange.Auto && isParquet(c.Source) {
		if c.Texts+c.Metadata+c.Documents != "" {
			return nil, errors.New("--texts, --metadata and --documents do not go with Parquet, which has columns for them")
		}
		return openParquet(c.Source)
	}
	return openSource(ctx, c.Source, exchange.OpenOptions{
		Format: c.Format, Texts: c.Texts, Metadata: c.Metadata, Documents: c.Documents,
	})
}

func (c *importCmd) load(ctx context.Context, t *tool, coll *vectorize.Collection,
	src exchange.Source) (exchange.Report, error) {
	p := t.progress("import", src.Total)
	defer p.end()
	in := &contents{Source: src}
	o := &exchange.ImportOptions{
		Progress: func(done int64, r exchange.Report) { p.at(done, r.Added+r.Updated+r.Unchanged) },
		OnSkip: func(doc *exchange.ImportedDocument) {
			p.notef("%s", skipped(doc))
		},
	}
	info, err := coll.Info()
	if err != nil {
		return exchange.Report{}, err
	}
	if _, ok := vectorize.Pinned(info); ok {
		o.Vectors = coll.Fill
	}
	report, err := exchange.Import(ctx, coll.Collection, in, o)
	if report.Ignored > 0 {
		p.notef("ignored %d files that are not named like cache files and contain no array", report.Ignored)
	}
	if err == nil && in.yielded == 0 {
		p.notef("warning: %s has no documents", inputName(c.Source))
	}
	// Lines for stored documents need neither: they may be there to change the metadata.
	if err == nil && report.Added > 0 && in.documents > 0 && !in.found {
		p.notef("warning: no document of %s has a text (keys text, document, page_content, content, body) or a vector (vector, embedding, values)",
			inputName(c.Source))
	}
	return report, err
}

// skipped says that a document is not imported, and why.
func skipped(doc *exchange.ImportedDocument) string {
	return fmt.Sprintf("skipped %v: %s", doc.Position, errtext.Plain(doc.Skip.Error()))
}

// begun is a source of which begin reads the first documents. It can be read once.
type begun struct {
	exchange.Source
	next  func() (*exchange.ImportedDocument, error, bool)
	first []item
}

// An item is what a source yields.
type item struct {
	doc *exchange.ImportedDocument
	err error
}

// begin reads what the first batch needs, or less of large documents, but at least up to the first
// document that can be stored. It returns the error of ctx, and others if nothing would be written:
// the source fails first, or ends and none of its documents can be stored.
func (s *begun) begin(ctx context.Context, check func(db.Document) error) error {
	const documents, bytes = 1000, 8 << 20
	stores := false
	for size := 0; !stores || len(s.first) < documents && size < bytes; {
		doc, err, ok := s.next()
		if !ok && !stores && len(s.refused()) > 0 {
			return fmt.Errorf("%w: none of the documents can be stored (%d)", db.ErrInvalid, len(s.refused()))
		}
		if !ok {
			break
		}
		if err == nil && doc.Skip == nil && !stores {
			err = check(doc.Document)
			if stores = err == nil; errors.Is(err, db.ErrInvalid) {
				doc.Skip, err, doc.Document = err, nil, db.Document{} // there may be many
			} else if err != nil {
				err = fmt.Errorf("%v: %w", doc.Position, err)
			}
		}
		if err != nil && !stores {
			return err
		}
		s.first = append(s.first, item{doc, err})
		if err == nil {
			size += sizeOf(&doc.Document)
		}
	}
	return ctx.Err()
}

// sizeOf returns about the bytes of a document in memory.
func sizeOf(d *db.Document) int {
	return 4*len(d.Vector) + len(d.Text) + document.Footprint(map[string]any(d.Metadata))
}

// refused returns the documents that begin has read and that cannot be stored.
func (s *begun) refused() []*exchange.ImportedDocument {
	var docs []*exchange.ImportedDocument
	for _, i := range s.first {
		if i.doc != nil && i.doc.Skip != nil && !errors.Is(i.doc.Skip, exchange.ErrIgnored) {
			docs = append(docs, i.doc)
		}
	}
	return docs
}

// Documents implements exchange.Source.
func (s *begun) Documents(ctx context.Context) iter.Seq2[*exchange.ImportedDocument, error] {
	return func(yield func(*exchange.ImportedDocument, error) bool) {
		for _, i := range s.first {
			if !yield(i.doc, i.err) {
				return
			}
		}
		s.first = nil
		for ctx.Err() == nil {
			if doc, err, ok := s.next(); !ok || !yield(doc, err) {
				return
			}
		}
		yield(nil, ctx.Err())
	}
}

// contents is a source that notes whether any document has a text or a vector.
type contents struct {
	exchange.Source
	yielded   int // documents and skipped ones
	documents int
	found     bool
}

// Documents implements exchange.Source.
func (c *contents) Documents(ctx context.Context) iter.Seq2[*exchange.ImportedDocument, error] {
	return func(yield func(*exchange.ImportedDocument, error) bool) {
		for doc, err := range c.Source.Documents(ctx) {
			if err == nil {
				c.yielded++
			}
			if err == nil && doc.Skip == nil {
				c.documents++
				c.found = c.found || doc.Document.Text != "" || len(doc.Document.Vector) > 0
			}
			if !yield(doc, err) {
				return
			}
		}
	}
}

// misspelt adds the nearest name in the same directory, if it is plain, to the error for a path
// that does not exist.
func misspelt(name string, err error) error {
	entries, derr := os.ReadDir(filepath.Dir(name))
	if derr != nil {
		return err // the advice is left out
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	if nearest := errtext.Nearest(filepath.Base(name), names); nearest != "" {
		return fmt.Errorf("%w; the nearest is %.100q", err, nearest)
	}
	return err
}

// noteGraphs reports whether the collection of the database in dir, or any collection if name is
// empty, has segments that are scanned because their graphs are not built yet.
func (t *tool) noteGraphs(vdb *db.DB, name, dir string) error {
	stats, err := vdb.Stats()
	for _, s := range stats.Collections {
		if (name == "" || s.Name == name) && s.GraphsDue > 0 {
			t.notef("%d of %d segments of %q have no graph yet and are scanned; \"vecbolt compact %s\" builds the graphs now", s.GraphsDue, s.Segments, s.Name, dir)
		}
	}
	return err
}
