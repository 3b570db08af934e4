package rag

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/vecbolt/vecbolt/db"
)

// Metadata fields that caches and splitters write.
const (
	FieldSourceFile  = "source_file"
	FieldLineNumber  = "line_number"
	FieldTags        = "tags" // list of strings
	FieldChunkIndex  = "chunk_index"
	FieldChunkLength = "chunk_length"
	FieldSource      = "source" // like source_file, in caches of other programs
	FieldPage        = "page"
	FieldOffset      = "offset" // of the chunk in its text, in bytes
	FieldHeader      = "header" // the headings above the chunk
	FieldTitle       = "title"
	FieldFormat      = "format"
)

// A Chunk is a retrieved piece of text.
type Chunk struct {
	ID string `json:"id"`
	// Score is higher for better chunks. Compare scores within one answer only; their scale depends
	// on the search. Vectors alone (Retrieve, Dense, HyDE): the cosine of the angle to the query,
	// from -1 to 1, and from Retrieve at least 0. Words: BM25, which has no upper bound. Fused
	// rankings: see db.Fusion. A reranker: its score. A chunk added by an Expansion has the score
	// of the chunk that it was added for.
	Score float64 `json:"score"`

	// The parts that AgentConfig.Select asks for.
	Text     string      `json:"text,omitempty"`
	Metadata db.Metadata `json:"metadata,omitempty"`
	Vector   []float32   `json:"vector,omitempty"`

	Why string `json:"why,omitempty"` // in a Stage: why the chunk is there
}

// Options tune a Retriever. The zero value, like nil, is the default.
type Options struct {
	// Dir is the directory of the database that holds the index of one cache, in the collection
	// "chunks". Open creates it or brings it up to date. If Dir is empty, the index is in a
	// temporary directory that Close removes. To share an index between processes, open the
	// database read-only and use New, which ignores Dir.
	Dir string

	// Texts is optional: a JSONL file, or a directory of text files, that maps names of cache files
	// to texts, because embedding caches do not hold texts. A line of the former may have metadata
	// as well, for a vector without a sidecar. New ignores it.
	Texts string

	// Model is the embedding model, if known. A new index stores it; an index that stores another
	// model is refused.
	Model string

	// BatchSize is the number of queries that RetrieveBatch answers in one pass over the index; 0
	// means 32.
	BatchSize int

	// Logger receives warnings about the cache and, at level debug, a line per call; nil
	// means none.
	Logger *slog.Logger
}

func (o *Options) withDefaults() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.BatchSize < 0 {
		return c, fmt.Errorf("%w: batch size is %d", ErrConfig, c.BatchSize)
	}
	c.BatchSize = cmp.Or(c.BatchSize, 32)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// A Retriever finds the chunks whose embeddings are nearest to the embedding of a question. The
// caller embeds the question; a Pipeline or a RetrieverNode does that itself. The methods are safe
// for concurrent use.
type Retriever struct {
	chunks *db.Collection
	opts   Options
	index  *index // nil if the caller owns the collection
}

// New returns a Retriever over a collection, which the caller keeps open. The collection must have
// the metric Cosine, because thresholds are cosines.
func New(chunks *db.Collection, opts *Options) (*Retriever, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	info, err := chunks.Info()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if m := info.Schema.Metric; m != db.Cosine {
		return nil, fmt.Errorf("%w: collection %q has metric %v, not %v", ErrConfig, info.Name, m, db.Cosine)
	}
	if have := info.Schema.Lineage.Model; have != "" && o.Model != "" && have != o.Model {
		return nil, fmt.Errorf("%w: collection %q has model %q, not %q", ErrConfig, info.Name, have, o.Model)
	}
	return &Retriever{chunks: chunks, opts: o}, nil
}

// Collection returns the collection that is searched, for reading chunks by id or filter. A
// Retriever made by Open owns its collection: callers must not write to it.
func (r *Retriever) Collection() *db.Collection { return r.chunks }

// Retrieve returns the chunks whose embeddings have the greatest cosines with vec, best first, and
// by id among equal scores. An empty index has no chunks.
func (r *Retriever) Retrieve(ctx context.Context, vec []float32, cfg AgentConfig) ([]Chunk, error) {
	found, err := r.RetrieveBatch(ctx, [][]float32{vec}, cfg)
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// RetrieveBatch answers many queries, in their order. An invalid query fails the whole batch.
func (r *Retriever) RetrieveBatch(ctx context.Context, vecs [][]float32, cfg AgentConfig) ([][]Chunk, error) {
	q, err := cfg.query()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	found, total := make([][]Chunk, 0, len(vecs)), 0
	queries := make([]db.Query, 0, min(len(vecs), r.opts.BatchSize))
	for group := range slices.Chunk(vecs, r.opts.BatchSize) {
		queries = queries[:0]
		for _, vec := range group {
			q.Near = db.Vector(vec)
			queries = append(queries, q)
		}
		results, err := r.chunks.SearchBatch(ctx, queries)
		if err != nil {
			return nil, fmt.Errorf("%w for agent %q: %w", ErrQuery, cfg.Name, err)
		}
		for _, res := range results {
			found = append(found, chunks(res.Hits))
			total += len(res.Hits)
		}
	}
	r.opts.Logger.DebugContext(ctx, "retrieved", "agent", cfg.Name, "queries", len(vecs), "chunks",
		total, "took", time.Since(start))
	return found, nil
}

func chunks(hits []db.Hit) []Chunk {
	list := make([]Chunk, len(hits))
	for i, h := range hits {
		list[i] = Chunk{ID: h.ID, Score: h.Score, Text: h.Text, Metadata: h.Metadata, Vector: h.Vector}
	}
	return list
}

// Info describes an index.
type Info struct {
	Chunks int `json:"chunks"`
	Dim    int `json:"dim"` // 0 while the index is empty

	// Model is the embedding model: the model stored in the index or named by Options, or otherwise
	// the first of Candidates.
	Model string `json:"model,omitempty"`

	// Candidates are the models that Model was inferred from, or empty if it was not inferred. They
	// are well-known models of the dimension, reduced to the models that occur in the ids of
	// chunks, if any do: caches often put the name of the model in front of a hash.
	Candidates []string `json:"candidates,omitempty"`
}

// Info describes the index. The error matches ErrQuery.
func (r *Retriever) Info() (Info, error) {
	c, err := r.chunks.Info()
	if err != nil {
		return Info{}, fmt.Errorf("%w: %w", ErrQuery, err)
	}
	info := Info{Chunks: c.Documents, Dim: c.Schema.Dim, Model: cmp.Or(c.Schema.Lineage.Model, r.opts.Model)}
	if info.Model == "" {
		if info.Candidates, err = r.named(modelsOf(info.Dim)); err != nil {
			return Info{}, fmt.Errorf("%w: %w", ErrQuery, err)
		}
		if len(info.Candidates) > 0 {
			info.Model = info.Candidates[0]
		}
	}
	return info, nil
}

// named returns the models that occur in ids of chunks, or all models if none occurs.
func (r *Retriever) named(models []string) ([]string, error) {
	if len(models) == 0 {
		return models, nil
	}
	const some = 100
	page, err := r.chunks.List(context.Background(), db.ListQuery{Limit: some, Select: db.IDsOnly})
	if err != nil {
		return nil, err
	}
	named := slices.DeleteFunc(slices.Clone(models), func(model string) bool {
		return !slices.ContainsFunc(page.Documents, func(d *db.Document) bool {
			return strings.Contains(strings.ToLower(d.ID), strings.ToLower(model))
		})
	})
	if len(named) == 0 {
		return models, nil
	}
	return named, nil
}

// modelsOf returns well-known embedding models whose default dimension is dim, the most common
// first; none if the dimension is not known.
func modelsOf(dim int) []string {
	switch dim {
	case 384:
		return []string{"all-MiniLM-L6-v2", "bge-small-en-v1.5"}
	case 768:
		return []string{"nomic-embed-text", "all-mpnet-base-v2", "bge-base-en-v1.5"}
	case 1024:
		return []string{"mxbai-embed-large", "bge-large-en-v1.5"}
	case 1536:
		return []string{"text-embedding-3-small", "text-embedding-ada-002"}
	case 3072:
		return []string{"text-embedding-3-large"}
	}
	return nil
}

// Close releases the index and removes it if it is temporary. A second call does nothing.
func (r *Retriever) Close() error {
	if r.index == nil {
		return nil
	}
	if err := r.index.close(); err != nil {
		return fmt.Errorf("%w: %w", ErrLoad, err)
	}
	return nil
}
