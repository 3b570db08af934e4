package rag

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/split"
)

// ErrIndex is returned when documents cannot be indexed.
var ErrIndex error = kind("index documents")

// FieldDocument is the metadata field in which a splitting Indexer stores the id of the document
// that a chunk belongs to.
const FieldDocument = "document"

// IndexerOptions tune an Indexer. The zero value, like nil, is the default.
type IndexerOptions struct {
	// Split, if set, divides the text of each document. Chunk i of document d gets the id "d#i",
	// the metadata of d, FieldDocument, FieldChunkIndex, FieldOffset and, if the chunk has a
	// header, FieldHeader. The header is embedded together with the text.
	Split *split.Splitter
	// NewID creates ids for documents that have none, such as uuid.NewString of
	// github.com/google/uuid. nil means that such documents are refused.
	NewID func() string
	// Batch is the maximum number of texts embedded and written together; 0 means
	// 1,000.
	Batch int
	// Logger receives a line per batch at level debug; nil means none.
	Logger *slog.Logger
}

// An Indexer embeds documents and writes them to a Store. It is safe for concurrent use.
type Indexer struct {
	store    Store
	name     string // of the store, for messages
	embedder embed.Embedder
	o        IndexerOptions
	claims   claims // of documents that are split
}

// NewIndexer returns an Indexer that writes to s, such as a *db.Collection. Questions must be
// embedded with the same embedder. With Split, the store needs the method DeleteWhere of a
// *db.Collection. The error matches ErrConfig.
func NewIndexer(s Store, e embed.Embedder, opts *IndexerOptions) (*Indexer, error) {
	x := &Indexer{store: s, embedder: e, name: fmt.Sprintf("%T", s)}
	if opts != nil {
		x.o = *opts
	}
	x.o.Batch = cmp.Or(x.o.Batch, 1000)
	if x.o.Logger == nil {
		x.o.Logger = slog.New(slog.DiscardHandler)
	}
	if c, ok := s.(*db.Collection); s == nil || e == nil || ok && c == nil {
		return nil, fmt.Errorf("%w: an indexer needs a store and an embedder", ErrConfig)
	}
	if x.o.Batch < 0 {
		return nil, fmt.Errorf("%w: batches of %d texts", ErrConfig, x.o.Batch)
	}
	if x.o.Split != nil {
		if _, err := as[conditionalDeleter](s, "an indexer that splits", "DeleteWhere"); err != nil {
			return nil, err
		}
	}
	schema, err := schemaOf(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	switch s := s.(type) {
	case *db.Collection:
		info, err := s.Info()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
		x.name = info.Name
	case interface{ Name() string }:
		x.name = s.Name()
	}
	if want, got := schema.Dim, e.Dimensions(); want != 0 && got != 0 && want != got {
		return nil, fmt.Errorf("%w: collection %q: %w", ErrConfig, x.name,
			&embed.DimensionError{Expected: want, Got: got})
	}
	return x, nil
}

// Index writes documents, replacing those with the same ids, and returns the ids that it wrote: of
// the documents, or of their chunks. A document that has a vector keeps it unless it is split;
// Index embeds the rest. Batches are written one after the other, each atomically; an error leaves
// earlier batches written. The error matches ErrIndex.
//
// The chunks of a document replace its old ones. In a *db.Collection this is one write: readers see
// the chunks of one version, and if several processes index a document at the same time, the last
// one leaves exactly its chunks. In other stores, and if the chunks of a document are larger than
// db.MaxBatchLen, it takes several writes, and calls of the same Indexer that split the same
// document wait for each other. Several Indexers must not split such a document at the same time:
// it may be left with chunks of both versions, or without the last chunks of the version that was
// written last.
func (x *Indexer) Index(ctx context.Context, docs ...db.Document) ([]string, error) {
	start := time.Now()
	ids, err := x.index(ctx, docs)
	if err != nil {
		return ids, fmt.Errorf("%w in %q: %w", ErrIndex, x.name, err)
	}
	x.o.Logger.DebugContext(ctx, "indexed", "collection", x.name, "documents", len(docs), "written", len(ids), "took",
		time.Since(start))
	return ids, nil
}

func (x *Indexer) index(ctx context.Context, docs []db.Document) (ids []string, err error) {
	docs = slices.Clone(docs)
	for i := range docs {
		if docs[i].ID == "" && x.o.NewID != nil {
			docs[i].ID = x.o.NewID()
		}
		if docs[i].ID == "" {
			return nil, fmt.Errorf("document %d: %w: it has no id", i, db.ErrInvalid)
		}
	}
	if x.o.Split == nil {
		return x.upsert(ctx, docs)
	}
	docs = lastOfEach(docs)
	chunks, err := x.split(ctx, docs)
	if err != nil {
		return nil, err
	}
	// Other stores may do more than the collection that they embed when they write.
	store, ok := x.store.(*db.Collection)
	if !ok {
		return x.replaceInParts(ctx, docs, chunks)
	}
	for len(docs) > 0 {
		n, size := x.group(docs, chunks)
		written, err := x.replace(ctx, store, docs[:n], chunks[:size])
		if ids = append(ids, written...); err != nil {
			return ids, err
		}
		docs, chunks = docs[n:], chunks[size:]
	}
	return ids, nil
}

// group returns how many documents are written together, and how many chunks they have: a batch at
// most, but at least one document.
func (x *Indexer) group(docs, chunks []db.Document) (n, size int) {
	for n < min(len(docs), x.o.Batch) {
		of := 0
		for size+of < len(chunks) && chunks[size+of].Metadata[FieldDocument] == docs[n].ID {
			of++
		}
		if n > 0 && size+of > x.o.Batch {
			break
		}
		n, size = n+1, size+of
	}
	return n, size
}

// upsert embeds and writes documents in batches.
func (x *Indexer) upsert(ctx context.Context, docs []db.Document) (ids []string, err error) {
	for group := range slices.Chunk(docs, x.o.Batch) {
		if err := x.embed(ctx, group); err != nil {
			return ids, err
		}
		written, err := x.store.Upsert(ctx, group...)
		if err != nil {
			return ids, err
		}
		ids = append(ids, written...)
	}
	return ids, nil
}

// replace writes the chunks of documents in place of those that the documents had, as one write.
func (x *Indexer) replace(ctx context.Context, store *db.Collection, docs, chunks []db.Document) ([]string, error) {
	for some := range slices.Chunk(chunks, x.o.Batch) {
		if err := x.embed(ctx, some); err != nil {
			return nil, err
		}
	}
	var b db.Batch
	of := idsOf(docs)
	b.DeleteWhere(x.name, filter.And(filter.In(FieldDocument, anys(of)...), filter.Gte(FieldChunkIndex, 0)))
	for _, c := range chunks {
		b.Upsert(x.name, c)
	}
	if b.Size() > db.MaxBatchLen {
		return x.replaceInParts(ctx, docs, chunks)
	}
	release, err := x.claims.take(ctx, of)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := store.Apply(ctx, &b); err != nil {
		return nil, err
	}
	return b.IDs(), nil
}

// replaceInParts is replace in several batches. Between the chunks of another version and the
// removal of surplus ones, a document would keep a mix of both versions, or a part of one. So calls
// take turns.
func (x *Indexer) replaceInParts(ctx context.Context, docs, chunks []db.Document) ([]string, error) {
	release, err := x.claims.take(ctx, idsOf(docs))
	if err != nil {
		return nil, err
	}
	defer release()
	ids, err := x.upsert(ctx, chunks)
	if err != nil {
		return ids, err
	}
	return ids, x.removeRest(ctx, docs, chunks)
}

// lastOfEach leaves out documents that a later one with their id replaces.
func lastOfEach(docs []db.Document) []db.Document {
	last := make(map[string]int, len(docs))
	for i, d := range docs {
		last[d.ID] = i
	}
	var kept []db.Document
	for i, d := range docs {
		if last[d.ID] == i {
			kept = append(kept, d)
		}
	}
	return kept
}

func idsOf(docs []db.Document) []string {
	ids := make([]string, len(docs))
	for i, d := range docs {
		ids[i] = d.ID
	}
	return ids
}

func anys(ids []string) []any {
	all := make([]any, len(ids))
	for i, id := range ids {
		all[i] = id
	}
	return all
}

// removeRest removes the chunks of documents that now have fewer.
func (x *Indexer) removeRest(ctx context.Context, docs, chunks []db.Document) error {
	count := map[any]int64{}
	for _, c := range chunks {
		count[c.Metadata[FieldDocument]] = c.Metadata[FieldChunkIndex].(int64) + 1
	}
	store, err := as[conditionalDeleter](x.store, "an indexer that splits", "DeleteWhere")
	if err != nil {
		return err
	}
	for group := range slices.Chunk(docs, 100) {
		surplus := make([]filter.Expr, len(group))
		for i, d := range group {
			surplus[i] = filter.And(filter.Eq(FieldDocument, d.ID), filter.Gte(FieldChunkIndex, count[d.ID]))
		}
		if _, err := store.DeleteWhere(ctx, filter.Or(surplus...)); err != nil {
			return err
		}
	}
	return nil
}

// split returns the chunks of documents.
func (x *Indexer) split(ctx context.Context, docs []db.Document) (all []db.Document, err error) {
	for _, d := range docs {
		chunks, err := x.o.Split.Split(ctx, d.Text)
		if err != nil {
			return nil, fmt.Errorf("document %q: %w", d.ID, err)
		}
		for i, c := range chunks {
			m := maps.Clone(d.Metadata)
			if m == nil {
				m = db.Metadata{}
			}
			m[FieldDocument], m[FieldChunkIndex], m[FieldOffset] = d.ID, int64(i), int64(c.Offset)
			if c.Header != "" {
				m[FieldHeader] = c.Header
			}
			all = append(all, db.Document{ID: d.ID + "#" + strconv.Itoa(i), Text: c.Text, Metadata: m})
		}
	}
	return all, nil
}

// embed computes vectors for the documents that have none.
func (x *Indexer) embed(ctx context.Context, docs []db.Document) error {
	var texts []string
	var missing []int
	for i := range docs {
		if len(docs[i].Vector) == 0 {
			texts, missing = append(texts, Embedded(docs[i].Text, docs[i].Metadata)), append(missing, i)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	vecs, err := x.embedder.EmbedBatch(ctx, texts)
	if err != nil {
		return err
	}
	if len(vecs) != len(texts) {
		return errors.New("the embedder returned a wrong number of vectors")
	}
	for i, at := range missing {
		docs[at].Vector = vecs[i]
	}
	return nil
}

// Embedded returns the text to embed for a chunk: its header, if its metadata hold one, followed by
// the text. The header helps the search and is not part of the text shown.
func Embedded(text string, m db.Metadata) string {
	if header, ok := m[FieldHeader].(string); ok {
		return header + "\n\n" + text
	}
	return text
}
