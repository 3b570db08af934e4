package rag

import (
	"cmp"
	"container/list"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/rag/embed"
)

// A Reranker reorders chunks and may drop some. Package rerank has several implementations. A
// Pipeline calls it for several questions at the same time.
type Reranker interface {
	// Rerank returns chunks, best first, with scores of its own if it has any. It gets them in the
	// order of the search, with text, metadata and vector, and may change the slice. Its error
	// fails the question and matches ErrRerank. NewPipeline refuses a reranker with a method
	// Invalid() error that returns one.
	Rerank(ctx context.Context, question string, chunks []Chunk) ([]Chunk, error)
}

// PipelineOptions tune a Pipeline. The zero value, like nil, is the default.
type PipelineOptions struct {
	// Strategy is the search strategy. The zero value depends on the store: Hybrid with the default
	// fusion if the store has a text index, Dense otherwise, and Text without an embedder.
	Strategy Strategy
	// TopK is the maximum number of chunks in an answer, before expansion; 0 means DefaultTopK.
	TopK int
	// Candidates is the number of chunks passed to the reranker; 0 means 4 × TopK.
	Candidates int
	// Threshold is the minimum score of the search, inclusive; nil means none. The scale of scores
	// depends on the strategy.
	Threshold *float64
	// Rerank, if set, orders the candidates.
	Rerank Reranker
	// Expand, if set, adds chunks that belong to the chunks found.
	Expand *Expansion
	// Context tunes the context.
	Context ContextOptions
	// Cache, if set, reuses the answers to similar questions.
	Cache *CacheOptions
	// Logger receives a line per question; nil means none.
	Logger *slog.Logger
}

// A Pipeline finds the chunks that answer a question and builds a context for a language model. It
// does not call the model. It is safe for concurrent use.
type Pipeline struct {
	store    Store
	embedder embed.Embedder
	opts     PipelineOptions
	cache    *cache
	total    *totals
	explain  bool
}

// On returns the pipeline over another store, with the same statistics: for a collection that is
// opened for each question, or was moved. The chunks of both must have vectors of the same
// embedder.
//
// The cache is the same only if s is known to be the same store: the same collection of the same
// open database, an equal value, or a store whose method Identity returns the same string. Any
// other store begins with an empty cache. There is no cache if s does not tell when it changes and
// CacheOptions.TTL is 0, which NewPipeline refuses.
func (p *Pipeline) On(s Store) *Pipeline {
	other := *p
	other.store = s
	switch {
	case p.cache == nil:
	case !expires(s, &p.cache.o):
		other.cache = nil
	case !sameStore(p.store, s):
		other.cache = &cache{o: p.cache.o, recent: list.New()}
	}
	return &other
}

// A Response is the answer to a question.
type Response struct {
	// Chunks are in order of relevance.
	Chunks []Chunk `json:"chunks"`
	// Context is the text for the model, built from the chunks in Citations, and ContextTokens its
	// length by ContextOptions.Count.
	Context       string     `json:"context"`
	ContextTokens int        `json:"context_tokens"`
	Citations     []Citation `json:"citations"`
	// FromCache reports that the answer was found for a similar question before: see CacheOptions.
	FromCache bool `json:"from_cache"`
	// Strategy is the name of the search: "dense", "text", "hybrid", "mmr", "hyde" or
	// "multi-query".
	Strategy string `json:"strategy"`
	// Candidates is the number of chunks found before reranking.
	Candidates int           `json:"candidates_before_rerank"`
	EmbedTime  time.Duration `json:"embed_ns"`
	// RetrievalTime is the time of the search, of the expansion and of building the context.
	RetrievalTime time.Duration `json:"retrieval_ns"`
	RerankTime    time.Duration `json:"rerank_ns"`

	// Query is the text that was searched for, if it is not the question: see QueryText.
	Query string `json:"query,omitempty"`

	// Answer is the answer of a chat model, if one was asked, and Cited the numbers of the
	// citations that it refers to.
	Answer string `json:"answer,omitempty"`
	Cited  []int  `json:"cited,omitempty"`
	// AnswerCut says, in the word of its server, why the model stopped before the answer ended,
	// such as "length", at a limit of tokens. It is empty if the answer is whole.
	AnswerCut    string        `json:"answer_cut,omitempty"`
	AnswerTime   time.Duration `json:"answer_ns,omitempty"`
	PromptTokens int           `json:"prompt_tokens,omitempty"` // read by chat models, also to rewrite the question
	AnswerTokens int           `json:"answer_tokens,omitempty"` // written by chat models

	// Stages say how the answer came about, if an explanation was asked for.
	Stages []Stage `json:"stages,omitempty"`
}

// NewPipeline returns a Pipeline over a store. The embedder must be the one that made the vectors
// of the store; it may be nil for strategies without vectors. The error matches ErrConfig.
func NewPipeline(s Store, e embed.Embedder, opts *PipelineOptions) (*Pipeline, error) {
	p := &Pipeline{store: s, embedder: e, total: &totals{}}
	if opts != nil {
		p.opts = *opts
	}
	o := &p.opts
	if o.Strategy.search == nil {
		o.Strategy = Dense()
		schema, err := schemaOf(s)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrConfig, err)
		}
		if schema.Text != nil {
			if o.Strategy = Hybrid(db.Fusion{}); e == nil {
				o.Strategy = Text()
			}
		}
	}
	o.TopK = cmp.Or(o.TopK, DefaultTopK)
	o.Candidates = max(o.TopK, cmp.Or(o.Candidates, 4*o.TopK))
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case s == nil:
		return nil, fmt.Errorf("%w: no store", ErrConfig)
	case o.TopK < 0 || o.Candidates < 0:
		return nil, fmt.Errorf("%w: top_k %d of %d candidates", ErrConfig, o.TopK, o.Candidates)
	case o.Expand != nil && (o.Expand.Field == "" || o.Expand.Max < 0):
		return nil, fmt.Errorf("%w: expansion by field %q, at most %d", ErrConfig, o.Expand.Field, o.Expand.Max)
	case o.Strategy.invalid != "":
		return nil, fmt.Errorf("%w: strategy %v: %s", ErrConfig, o.Strategy, o.Strategy.invalid)
	case e == nil && o.Strategy.name != "text":
		return nil, fmt.Errorf("%w: strategy %v needs an embedder", ErrConfig, o.Strategy)
	}
	if err := o.Context.validate(); err != nil {
		return nil, err
	}
	if err := p.usable(); err != nil {
		return nil, err
	}
	if r, ok := o.Rerank.(interface{ Invalid() error }); ok && r.Invalid() != nil {
		return nil, fmt.Errorf("%w: reranker: %w", ErrConfig, r.Invalid())
	}
	if o.Cache != nil {
		if e == nil {
			return nil, fmt.Errorf("%w: the cache compares embeddings and needs an embedder", ErrConfig)
		}
		if !expires(s, o.Cache) {
			return nil, fmt.Errorf("%w: the store does not tell when it changes: the cache needs a time to live",
				ErrConfig)
		}
		c, err := newCache(*o.Cache)
		if err != nil {
			return nil, err
		}
		p.cache = c
	}
	return p, nil
}

// usable returns an error if the store lacks a method that the options need. Queries ask it before
// a model is called, because On may have changed the store.
func (p *Pipeline) usable() error {
	if needs := p.opts.Strategy.needs; needs != nil {
		if err := needs(p.store); err != nil {
			return err
		}
	}
	if p.opts.Expand != nil {
		return has[lister]("Expand", "List")(p.store)
	}
	return nil
}

// Query answers a question from the chunks that match where; nil matches all. An empty result is
// not an error. The error matches ErrQuery.
func (p *Pipeline) Query(ctx context.Context, question string, where filter.Expr) (*Response, error) {
	if strings.TrimSpace(question) == "" {
		return nil, fmt.Errorf("%w: the question is empty", ErrQuery)
	}
	if err := p.usable(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrQuery, err)
	}
	var vec []float32
	start := time.Now()
	if p.opts.Strategy.vector || p.cache != nil {
		var err error
		if vec, err = embed.Queries(p.embedder).Embed(ctx, question); err != nil {
			return nil, fmt.Errorf("%w: embed the question: %w", ErrQuery, err)
		}
	}
	r, err := p.answer(ctx, question, vec, where)
	if err != nil {
		return nil, err
	}
	r.EmbedTime = time.Since(start) - r.RetrievalTime - r.RerankTime
	if p.explain && vec != nil {
		about := fmt.Sprintf("%s:%s, %d components", p.embedder.Provider(), p.embedder.Model(), len(vec))
		r.Stages = slices.Insert(r.Stages, 0, Stage{Name: "embed", Time: r.EmbedTime, About: about})
	}
	p.total.note(r)
	return r, nil
}

// QueryVector is Query for a question with a known embedding.
func (p *Pipeline) QueryVector(ctx context.Context, question string, vec []float32,
	where filter.Expr) (*Response, error) {
	if err := p.usable(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrQuery, err)
	}
	r, err := p.answer(ctx, question, vec, where)
	if err != nil {
		return nil, err
	}
	p.total.note(r)
	return r, nil
}

func (p *Pipeline) answer(ctx context.Context, question string, vec []float32, where filter.Expr) (*Response, error) {
	start := time.Now()
	var version uint64
	if v, ok := p.store.(versioned); ok {
		var err error
		if version, err = v.Version(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrQuery, err)
		}
	}
	key := ""
	if where != nil {
		key = where.String()
	}
	var r *Response
	if p.cache != nil {
		r = p.cache.get(key, vec, version)
	}
	if r != nil {
		r.RetrievalTime = time.Since(start)
	} else {
		var err error
		if r, err = p.retrieve(ctx, question, vec, where); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrQuery, err)
		}
		if p.cache != nil {
			p.cache.put(key, vec, version, r)
		}
	}
	p.opts.Logger.DebugContext(ctx, "answered", "strategy", r.Strategy, "chunks", len(r.Chunks),
		"candidates", r.Candidates,
		"context_tokens", r.ContextTokens, "from_cache", r.FromCache, "took", time.Since(start))
	return r, nil
}

func (p *Pipeline) retrieve(ctx context.Context, question string, vec []float32, where filter.Expr) (*Response, error) {
	start := time.Now()
	r := &retrieval{Pipeline: p, question: question, vector: vec}
	if p.explain {
		r.trace = &trace{}
	}
	r.query = db.Query{K: p.opts.TopK, Where: where, Threshold: p.opts.Threshold}
	if p.opts.Rerank != nil {
		r.query.K = p.opts.Candidates
		r.query.Select = db.WithText | db.WithMetadata | db.WithVector
	}
	res, err := p.opts.Strategy.search(ctx, r)
	if err != nil {
		return nil, err
	}
	found := chunks(res.Hits)
	answer := &Response{Strategy: p.opts.Strategy.name, Candidates: len(found), RetrievalTime: time.Since(start)}
	r.trace.search(p, res, answer.RetrievalTime)
	if p.opts.Rerank != nil {
		before := slices.Clone(found)
		start = time.Now()
		if found, err = p.opts.Rerank.Rerank(ctx, question, found); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRerank, err)
		}
		answer.RerankTime = time.Since(start)
		r.trace.rerank(before, found, p.opts.TopK, answer.RerankTime)
		found = found[:min(len(found), p.opts.TopK)]
		for i := range found {
			found[i].Vector = nil
		}
	}
	start = time.Now()
	if p.opts.Expand != nil {
		before := found
		if found, err = r.expand(ctx, found); err != nil {
			return nil, fmt.Errorf("expand: %w", err)
		}
		r.trace.expand(before, found, p.opts.Expand.Field, time.Since(start))
	}
	answer.Chunks = found
	built := time.Now()
	c := buildContext(found, p.opts.Context)
	answer.Context, answer.ContextTokens, answer.Citations = c.text, c.tokens, c.cited
	answer.RetrievalTime += time.Since(start)
	if r.trace != nil {
		r.trace.stage("context", time.Since(built), c.used, c.left, "%d of %d chunks, %d of at most %d tokens",
			len(c.used), len(found), c.tokens, c.limit)
		answer.Stages = r.trace.stages
	}
	return answer, nil
}

// Stats returns the statistics of the questions answered so far.
func (p *Pipeline) Stats() Stats {
	p.total.mu.Lock()
	defer p.total.mu.Unlock()
	return p.total.stats
}

type totals struct {
	mu    sync.Mutex
	stats Stats
}

func (t *totals) note(r *Response) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stats.Add(r)
}
