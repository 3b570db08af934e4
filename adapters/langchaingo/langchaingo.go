package langchaingo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tmc/langchaingo/embeddings"
	"github.com/tmc/langchaingo/schema"
	"github.com/tmc/langchaingo/vectorstores"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/text"
)

// Embedder adapts a Vecbolt embedder to langchaingo.
func Embedder(e embed.Embedder) embeddings.Embedder { return embedder{e} }

type embedder struct{ embed.Embedder }

func (e embedder) EmbedDocuments(ctx context.Context, texts []string) ([][]float32, error) {
	return e.EmbedBatch(ctx, texts)
}

func (e embedder) EmbedQuery(ctx context.Context, text string) ([]float32, error) {
	return embed.Queries(e).Embed(ctx, text)
}

// Options tune a Store. The zero value, like nil, is the default.
type Options struct {
	// Collection is the collection for calls without vectorstores.WithNameSpace; empty means
	// "documents".
	Collection string
	// Schema is the schema for creating collections that do not exist.
	Schema db.Schema
	// Hybrid also searches by the words of the query, in collections with a text index. Scores are
	// then fusion scores.
	Hybrid bool
}

// A Store is a vectorstores.VectorStore. It is safe for concurrent use.
type Store struct {
	vdb      *db.DB
	embedder embeddings.Embedder
	o        Options
}

var _ vectorstores.VectorStore = (*Store)(nil)

// New returns a Store over a database that the caller keeps open.
func New(vdb *db.DB, e embeddings.Embedder, opts *Options) (*Store, error) {
	if vdb == nil || e == nil {
		return nil, errors.New("langchaingo: a store needs a database and an embedder")
	}
	s := &Store{vdb: vdb, embedder: e}
	if opts != nil {
		s.o = *opts
	}
	s.o.Collection = cmp.Or(s.o.Collection, "documents")
	return s, nil
}

// options applies a list of options. An empty name space and a nil embedder mean those of the store.
func (s *Store) options(list []vectorstores.Option) vectorstores.Options {
	var o vectorstores.Options
	for _, set := range list {
		set(&o)
	}
	o.NameSpace = cmp.Or(o.NameSpace, s.o.Collection)
	if o.Embedder == nil {
		o.Embedder = s.embedder
	}
	return o
}

// AddDocuments embeds documents, writes them atomically, and returns their ids. The id of a
// document is its metadata field "id", if that is a string, or a new one. Of the options,
// WithNameSpace, WithEmbedder and WithDeduplicater have an effect; documents for which the
// deduplicater returns true are left out.
func (s *Store) AddDocuments(ctx context.Context, docs []schema.Document, options ...vectorstores.Option) ([]string, error) {
	o := s.options(options)
	if o.ScoreThreshold != 0 || o.Filters != nil {
		return nil, errors.New("langchaingo: a score threshold or a filter cannot be used to add documents")
	}
	c, err := s.vdb.OpenCollection(ctx, o.NameSpace, s.o.Schema)
	if err != nil {
		return nil, fmt.Errorf("langchaingo: %w", err)
	}
	var texts []string
	var add []db.Document
	for _, d := range docs {
		if o.Deduplicater != nil && o.Deduplicater(ctx, d) {
			continue
		}
		id, _ := d.Metadata["id"].(string)
		texts = append(texts, d.PageContent)
		add = append(add, db.Document{ID: id, Text: d.PageContent, Metadata: d.Metadata})
	}
	if len(add) == 0 {
		return nil, nil
	}
	vecs, err := o.Embedder.EmbedDocuments(ctx, texts)
	if err == nil && len(vecs) != len(texts) {
		err = fmt.Errorf("%d vectors for %d texts", len(vecs), len(texts))
	}
	if err != nil {
		return nil, fmt.Errorf("langchaingo: embed documents: %w", err)
	}
	for i := range add {
		add[i].Vector = vecs[i]
	}
	ids, err := c.Upsert(ctx, add...)
	if err != nil {
		return nil, fmt.Errorf("langchaingo: %w", err)
	}
	return ids, nil
}

// SimilaritySearch returns at most numDocuments documents, best first, with scores.
// WithScoreThreshold sets the minimum score, inclusive. WithFilters takes a filter.Expr or the JSON
// filter language as a string, bytes, or decoded maps. A collection that does not exist counts as
// empty.
func (s *Store) SimilaritySearch(ctx context.Context, query string, numDocuments int, options ...vectorstores.Option) ([]schema.Document, error) {
	o := s.options(options)
	where, err := expr(o.Filters)
	if err != nil {
		return nil, fmt.Errorf("langchaingo: %w", err)
	}
	c, err := s.vdb.Collection(o.NameSpace)
	if errors.Is(err, db.ErrNotFound) || err == nil && numDocuments == 0 { // for a Query, 0 is the default
		return []schema.Document{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("langchaingo: %w", err)
	}
	q := db.Query{K: numDocuments, Where: where}
	if o.ScoreThreshold != 0 {
		least := float64(o.ScoreThreshold)
		q.Threshold = &least
	}
	vec, err := o.Embedder.EmbedQuery(ctx, query)
	if err != nil {
		return nil, fmt.Errorf("langchaingo: embed the query: %w", err)
	}
	q.Near = db.Vector(vec)
	info, err := c.Info()
	if err != nil {
		return nil, fmt.Errorf("langchaingo: %w", err)
	}
	if s.o.Hybrid && info.Schema.Text != nil {
		q.Text = text.Question(query)
	}
	res, err := c.Search(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("langchaingo: %w", err)
	}
	docs := make([]schema.Document, len(res.Hits))
	for i, h := range res.Hits {
		docs[i] = schema.Document{PageContent: h.Text, Metadata: h.Metadata, Score: float32(h.Score)}
	}
	return docs, nil
}

// expr reads the argument of WithFilters.
func expr(v any) (filter.Expr, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case filter.Expr:
		return v, nil
	case string:
		return filter.Parse([]byte(v))
	case []byte:
		return filter.Parse(v)
	case map[string]any:
		if v == nil {
			return nil, nil
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		return filter.Parse(text)
	}
	return nil, fmt.Errorf("filters of type %T: want filter.Expr, JSON or map[string]any", v)
}
