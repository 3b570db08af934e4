package eino

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cloudwego/eino/components"
	"github.com/cloudwego/eino/components/embedding"
	"github.com/cloudwego/eino/components/indexer"
	"github.com/cloudwego/eino/components/retriever"
	"github.com/cloudwego/eino/schema"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/text"
)

// Embedder adapts a Vecbolt embedder to eino, whose vectors are float64. It embeds passages; a Store
// embeds questions as embed.Queries has it.
func Embedder(e embed.Embedder) embedding.Embedder { return embedder{e} }

type embedder struct{ embed.Embedder }

// GetType implements components.Typer.
func (embedder) GetType() string { return "Vecbolt" }

// EmbedStrings implements embedding.Embedder. If the options name a model, it must be the model of
// the embedder.
func (e embedder) EmbedStrings(ctx context.Context, texts []string, opts ...embedding.Option) ([][]float64, error) {
	if o := embedding.GetCommonOptions(nil, opts...); o.Model != nil && *o.Model != e.Model() {
		return nil, fmt.Errorf("eino: model %q was requested, but the embedder has model %q", *o.Model, e.Model())
	}
	vecs, err := e.EmbedBatch(ctx, texts)
	if err != nil {
		return nil, err
	}
	wide := make([][]float64, len(vecs))
	for i, v := range vecs {
		wide[i] = make([]float64, len(v))
		for j, x := range v {
			wide[i][j] = float64(x)
		}
	}
	return wide, nil
}

// ofQuestions returns the embedder of questions that belongs to one of passages.
func ofQuestions(e embedding.Embedder) embedding.Embedder {
	if own, ok := e.(embedder); ok {
		return embedder{embed.Queries(own.Embedder)}
	}
	return e
}

// Options tune a Store. The zero value, like nil, is the default.
type Options struct {
	// Collection is the collection for calls without retriever.WithIndex; empty means "documents".
	Collection string
	// Schema is the schema for creating the collection if it does not exist.
	Schema db.Schema
	// Hybrid also searches by the words of the query, in collections with a text index. Scores are
	// then fusion scores.
	Hybrid bool
	// TopK is the number of documents for calls without retriever.WithTopK; 0 means
	// rag.DefaultTopK.
	TopK int
}

// A Store is a retriever.Retriever and an indexer.Indexer. It is safe for
// concurrent use.
type Store struct {
	vdb      *db.DB
	embedder embedding.Embedder
	o        Options
}

var (
	_ retriever.Retriever = (*Store)(nil)
	_ indexer.Indexer     = (*Store)(nil)
	_ components.Typer    = (*Store)(nil)
)

// New returns a Store over a database that the caller keeps open.
func New(vdb *db.DB, e embedding.Embedder, opts *Options) (*Store, error) {
	if vdb == nil || e == nil {
		return nil, errors.New("eino: a store needs a database and an embedder")
	}
	s := &Store{vdb: vdb, embedder: e}
	if opts != nil {
		s.o = *opts
	}
	s.o.Collection, s.o.TopK = cmp.Or(s.o.Collection, "documents"), cmp.Or(s.o.TopK, rag.DefaultTopK)
	return s, nil
}

// GetType implements components.Typer.
func (s *Store) GetType() string { return "Vecbolt" }

// keySubIndexes is eino's metadata key of the sub-indexes of a document, which are stored under it.
const keySubIndexes = "_sub_indexes"

// transient lists eino's metadata keys that describe a single search, or hold a vector. Loaders and
// parsers use other keys that begin with an underscore, such as _source.
var transient = []string{"_score", "_dsl", "_dense_vector", "_sparse_vector"}

// Store embeds the documents that have no dense vector and writes all documents atomically. It
// returns their ids and creates the missing ones. The sub-indexes of a document and
// indexer.WithSubIndexes restrict the searches that find it. Sparse vectors are not stored.
func (s *Store) Store(ctx context.Context, docs []*schema.Document, opts ...indexer.Option) ([]string, error) {
	if i := slices.Index(docs, nil); i >= 0 {
		return nil, fmt.Errorf("eino: document %d of %d is nil", i, len(docs))
	}
	o := indexer.GetCommonOptions(&indexer.Options{}, opts...)
	if o.Embedding == nil {
		o.Embedding = s.embedder
	}
	c, err := s.vdb.OpenCollection(ctx, s.o.Collection, s.o.Schema)
	if err != nil {
		return nil, fmt.Errorf("eino: %w", err)
	}
	add := make([]db.Document, len(docs))
	var texts []string
	var missing []int
	for i, d := range docs {
		m := db.Metadata(maps.Clone(d.MetaData))
		maps.DeleteFunc(m, func(key string, _ any) bool { return key == keySubIndexes || slices.Contains(transient, key) })
		if list := slices.Concat(d.SubIndexes(), o.SubIndexes); len(list) > 0 {
			if m == nil {
				m = db.Metadata{}
			}
			m[keySubIndexes] = list
		}
		add[i] = db.Document{ID: d.ID, Text: d.Content, Metadata: m}
		if vec := d.DenseVector(); vec != nil {
			add[i].Vector = narrow(vec)
			continue
		}
		texts, missing = append(texts, d.Content), append(missing, i)
	}
	if len(texts) > 0 {
		vecs, err := embedAll(ctx, o.Embedding, texts)
		if err != nil {
			return nil, err
		}
		for i, at := range missing {
			add[at].Vector = vecs[i]
		}
	}
	ids, err := c.Upsert(ctx, add...)
	if err != nil {
		return nil, fmt.Errorf("eino: %w", err)
	}
	return ids, nil
}

// embedAll returns one vector per text.
func embedAll(ctx context.Context, e embedding.Embedder, texts []string) ([][]float32, error) {
	wide, err := e.EmbedStrings(ctx, texts)
	if err == nil && len(wide) != len(texts) {
		err = fmt.Errorf("%d vectors for %d texts", len(wide), len(texts))
	}
	if err != nil {
		return nil, fmt.Errorf("eino: embed: %w", err)
	}
	vecs := make([][]float32, len(wide))
	for i, w := range wide {
		vecs[i] = narrow(w)
	}
	return vecs, nil
}

func narrow(wide []float64) []float32 {
	vec := make([]float32, len(wide))
	for i, x := range wide {
		vec[i] = float32(x)
	}
	return vec
}

type where struct{ expr filter.Expr }

// WithFilter restricts Retrieve to documents whose metadata match.
func WithFilter(x filter.Expr) retriever.Option {
	return retriever.WrapImplSpecificOptFn(func(w *where) { w.expr = x })
}

// Retrieve returns the documents nearest to a query, best first, with scores. Common options: Index
// names the collection, SubIndex one of the sub-indexes of the documents, DSLInfo is a filter in
// the JSON language of Vecbolt, and ScoreThreshold is inclusive. WithFilter adds a filter. Options
// with zero values mean the defaults of the store.
func (s *Store) Retrieve(ctx context.Context, query string, opts ...retriever.Option) ([]*schema.Document, error) {
	o := retriever.GetCommonOptions(&retriever.Options{Embedding: s.embedder, TopK: new(int), Index: new(string)}, opts...)
	if o.Embedding == nil {
		o.Embedding = s.embedder
	}
	var conditions []filter.Expr
	if w := retriever.GetImplSpecificOptions(&where{}, opts...); w.expr != nil {
		conditions = append(conditions, w.expr)
	}
	if o.SubIndex != nil {
		conditions = append(conditions, filter.Contains(keySubIndexes, *o.SubIndex))
	}
	if o.DSLInfo != nil {
		text, err := json.Marshal(o.DSLInfo)
		if err != nil {
			return nil, fmt.Errorf("eino: filter: %w", err)
		}
		x, err := filter.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("eino: %w", err)
		}
		conditions = append(conditions, x)
	}
	c, err := s.vdb.Collection(cmp.Or(*o.Index, s.o.Collection))
	if err != nil {
		return nil, fmt.Errorf("eino: %w", err)
	}
	vecs, err := embedAll(ctx, ofQuestions(o.Embedding), []string{query})
	if err != nil {
		return nil, err
	}
	q := db.Query{Near: db.Vector(vecs[0]), K: cmp.Or(*o.TopK, s.o.TopK), Threshold: o.ScoreThreshold}
	if len(conditions) > 0 {
		q.Where = filter.And(conditions...)
	}
	info, err := c.Info()
	if err != nil {
		return nil, fmt.Errorf("eino: %w", err)
	}
	if s.o.Hybrid && info.Schema.Text != nil {
		q.Text = text.Question(query)
	}
	res, err := c.Search(ctx, q)
	if err != nil {
		return nil, fmt.Errorf("eino: %w", err)
	}
	docs := make([]*schema.Document, len(res.Hits))
	for i, h := range res.Hits {
		docs[i] = (&schema.Document{ID: h.ID, Content: h.Text, MetaData: h.Metadata}).WithScore(h.Score)
		if list, ok := h.Metadata[keySubIndexes].([]any); ok {
			var names []string
			for _, v := range list {
				if name, ok := v.(string); ok {
					names = append(names, name)
				}
			}
			docs[i].WithSubIndexes(names)
		}
	}
	return docs, nil
}
