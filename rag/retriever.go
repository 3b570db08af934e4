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

// The metadata fields that caches and splitters write.
const (
	FieldSourceFile  = "source_file"
	FieldLineNumber  = "line_number"
	FieldTags        = "tags" // list of strings
	FieldChunkIndex  = "chunk_index"
	FieldChunkLength = "chunk_length"
	FieldSource      = "source" // like source_file, in the caches of others
	FieldPage        = "page"
	FieldOffset      = "offset" // of the chunk in its text, in bytes
	FieldHeader      = "header" // the headings above the chunk
	FieldTitle       = "title"
	FieldFormat      = "format"
)

// A Chunk is a piece of text that was found.
type Chunk struct {
	ID string `json:"id"`
	// Score is higher for better chunks, and comparable within one answer only:
	// by vector alone (Retrieve, Dense, HyDE) the cosine of the angle to the
	// query, from -1 to 1, and from Retrieve not below 0; by words BM25, which
	// has no upper bound; of fused rankings what db.Fusion says; after a
	// reranker its score. A chunk that an Expansion adds has that of the one
	// that it belongs to.
	Score float64 `json:"score"`

	// What AgentConfig.Select asks for.
	Text     string      `json:"text,omitempty"`
	Metadata db.Metadata `json:"metadata,omitempty"`
	Vector   []float32   `json:"vector,omitempty"`
}

// Options tune a Retriever. The zero value, like nil, is the default.
type Options struct {
	// Dir is the directory of the database that keeps the index of one cache,
	// in the collection "chunks". Open creates it or brings it up to date. If
	// Dir is empty, the index lives in a temporary directory that Close
	// removes. To share an index between processes, open the database
	// read-only and use New, which ignores Dir.
	Dir string

	// Texts names a JSONL file, or a directory of text files, that maps names
	// of cache files to texts; embedding caches do not hold them. Optional.
	// New ignores it.
	Texts string

	// Model is the embedding model, if it is known. A new index is marked
	// with it; one that is marked with another is refused.
	Model string

	// BatchSize is the number of queries that RetrieveBatch answers in one
	// pass over the index; 0 means DefaultBatchSize.
	BatchSize int

	// Logger receives warnings about the cache, and a line per call at level
	// debug. nil means slog.Default().
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
	c.BatchSize = cmp.Or(c.BatchSize, DefaultBatchSize)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}

// A Retriever finds chunks by the embedding of a question. Its methods are
// safe for concurrent use.
type Retriever struct {
	chunks *db.Collection
	opts   Options
	index  *index // nil if the collection is the caller's
}

// New returns a Retriever over a collection that the caller keeps open. Scores
// are compared as cosines, so that the collection must have the metric Cosine.
func New(chunks *db.Collection, opts *Options) (*Retriever, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if m := chunks.Schema().Metric; m != db.Cosine {
		return nil, fmt.Errorf("%w: collection %q has metric %v, not %v", ErrConfig, chunks.Name(), m, db.Cosine)
	}
	if have := chunks.Schema().Lineage.Model; have != "" && o.Model != "" && have != o.Model {
		return nil, fmt.Errorf("%w: collection %q has model %q, not %q", ErrConfig, chunks.Name(), have, o.Model)
	}
	return &Retriever{chunks: chunks, opts: o}, nil
}

// Collection returns the collection that is searched, to read chunks by id or
// filter. Retrievers made by Open own it: it must not be written to.
func (r *Retriever) Collection() *db.Collection { return r.chunks }

// Retrieve returns the chunks that are most similar to the embedding vec,
// best first, and by id where scores are equal. An empty index has none.
func (r *Retriever) Retrieve(ctx context.Context, vec []float32, cfg AgentConfig) ([]Chunk, error) {
	found, err := r.RetrieveBatch(ctx, [][]float32{vec}, cfg)
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

// RetrieveBatch answers many queries, in their order. If one is invalid, none
// is answered.
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
			q.Vector = vec
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
	r.opts.Logger.DebugContext(ctx, "retrieved", "agent", cfg.Name, "queries", len(vecs), "chunks", total, "took", time.Since(start))
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

	// Model is the embedding model: the one that the index is marked with, or
	// that Options name, or else the first of Candidates.
	Model string `json:"model,omitempty"`

	// Candidates are the models from which Model was inferred; none if it was
	// not. They are those of ModelsOf, without what the ids of chunks speak
	// against: caches often have the name of the model in front of a hash.
	Candidates []string `json:"candidates,omitempty"`
}

// Info describes the index.
func (r *Retriever) Info() Info {
	c := r.chunks.Info()
	info := Info{Chunks: c.Documents, Dim: c.Schema.Dim, Model: cmp.Or(c.Schema.Lineage.Model, r.opts.Model)}
	if info.Model == "" {
		if info.Candidates = r.named(ModelsOf(info.Dim)); len(info.Candidates) > 0 {
			info.Model = info.Candidates[0]
		}
	}
	return info
}

// named returns the models that ids of chunks name, or all if they name none.
func (r *Retriever) named(models []string) []string {
	const some = 100
	page, err := r.chunks.List(context.Background(), db.ListQuery{Limit: some, Select: db.IDsOnly})
	if err != nil || len(models) == 0 { // closed: nothing is known
		return models
	}
	named := slices.DeleteFunc(slices.Clone(models), func(model string) bool {
		return !slices.ContainsFunc(page.Documents, func(d *db.Document) bool {
			return strings.Contains(strings.ToLower(d.ID), strings.ToLower(model))
		})
	})
	if len(named) == 0 {
		return models
	}
	return named
}

// ModelsOf returns well-known embedding models whose vectors have dim
// components by default, the most usual first; none if dim tells nothing.
func ModelsOf(dim int) []string {
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

// Close releases the index, and removes it if it is temporary. Closing twice
// is fine.
func (r *Retriever) Close() error {
	if r.index == nil {
		return nil
	}
	if err := r.index.close(); err != nil {
		return fmt.Errorf("%w: %w", ErrLoad, err)
	}
	return nil
}
