package knowledge

import (
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
)

// A state is what an Engine keeps of a base between questions.
type state struct {
	mu        sync.Mutex
	stats     Stats
	pipelines *lru[*rag.Pipeline] // by configuration
	talks     *lru[Conversation]
	file      []byte // config.yaml as it was read last
	config    Config // the content of file
	progress  *Progress
}

// Learning returns the progress of the run of Learn that this Engine is at, or nil. It returns
// ErrNotFound if the base does not exist and is not being made. Unlike Status it reads nothing of
// the base but its configuration, so that it may be called often.
func (e *Engine) Learning(name string) (*Progress, error) {
	p := e.learning(name)
	if _, err := e.Config(name); err != nil && !(errors.Is(err, ErrNotFound) && p != nil) {
		return nil, err
	}
	return p, nil
}

// learning returns a copy of the progress of Learn, or nil.
func (e *Engine) learning(name string) *Progress {
	e.mu.Lock()
	s := e.states[name]
	e.mu.Unlock()
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.progress == nil {
		return nil
	}
	p := *s.progress
	return &p
}

// at records the progress of Learn; nil when it has ended.
func (s *state) at(p *Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress = p
}

// maxPipelines is the number of pipelines kept per base: one for each configuration in use, as
// questions may change it for themselves.
const maxPipelines = 16

// state returns the state of a base.
func (e *Engine) state(name string) *state {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.states[name]
	if s == nil {
		s = &state{pipelines: newLRU[*rag.Pipeline](), talks: newLRU[Conversation]()}
		e.states[name] = s
	}
	return s
}

func (s *state) pipeline(key string) *rag.Pipeline {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, _ := s.pipelines.get(key)
	return p
}

func (s *state) keep(key string, p *rag.Pipeline) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pipelines.put(key, p, maxPipelines)
}

// topic returns the topic of a conversation; empty if it is new.
func (s *state) topic(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, _ := s.talks.get(id)
	return c.Topic
}

// remember stores the topic of a conversation. most conversations are kept.
func (s *state) remember(id, topic string, most int) {
	if id == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c, _ := s.talks.get(id)
	s.talks.put(id, Conversation{ID: id, Topic: topic, Questions: c.Questions + 1}, most)
}

// note counts a question. response is nil if it failed.
func (s *state) note(response *rag.Response, err error, spent *usage, c Config) {
	if err != nil {
		s.spend(spent, c)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.stats.Failures++
		return
	}
	s.stats.Cost += spent.cost(c)
	s.stats.Add(response)
}

// spend counts the tokens of chat models and their price.
func (s *state) spend(spent *usage, c Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Cost += spent.cost(c)
	s.stats.PromptTokens += spent.prompt
	s.stats.AnswerTokens += spent.answer
}

// metered counts the texts that an embedder gets.
type metered struct {
	embed.Embedder
	count func(texts []string)
}

// Unwrap lets a cache see the embedder that it is for.
func (m metered) Unwrap() embed.Embedder { return m.Embedder }

// EmbedBatch implements embed.Embedder.
func (m metered) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	vecs, err := m.Embedder.EmbedBatch(ctx, texts)
	if err == nil {
		m.count(texts)
	}
	return vecs, err
}

// Embed implements embed.Embedder.
func (m metered) Embed(ctx context.Context, text string) ([]float32, error) {
	vec, err := m.Embedder.Embed(ctx, text)
	if err == nil {
		m.count([]string{text})
	}
	return vec, err
}

// meter counts the texts of a base that reach its provider.
func (e *Engine) meter(inner embed.Embedder, s *state, price float64) embed.Embedder {
	return metered{inner, func(texts []string) {
		tokens := 0
		for _, text := range texts {
			tokens += e.tokens(text)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stats.EmbeddedTexts += len(texts)
		s.stats.EmbeddedTokens += tokens
		s.stats.Cost += float64(tokens) * price / 1e6
	}}
}

// questions keeps the embeddings of questions, for all bases with one embedder.
type questions struct {
	mu   sync.Mutex
	vecs *lru[[]float32]
}

// maxQuestions is the number of embeddings kept per embedder.
const maxQuestions = 1000

// remembering wraps the embedder of a base for questions: equal embedders of several bases compute
// the embedding of one text once.
func (e *Engine) remembering(c Config, inner embed.Embedder) embed.Embedder {
	config := c.embedding()
	config.BatchSize = 0
	key, err := json.Marshal(config)
	if err != nil { // not with what a file can hold
		return inner
	}
	s := e.state(c.Name)
	e.mu.Lock()
	defer e.mu.Unlock()
	q := e.questions[string(key)]
	if q == nil {
		q = &questions{vecs: newLRU[[]float32]()}
		e.questions[string(key)] = q
	}
	return remembered{inner, e, q, s, fmt.Sprintf("%s:%s", c.Provider, inner.Model())}
}

type remembered struct {
	embed.Embedder
	engine *Engine
	*questions
	state *state
	name  string // connection and model, for the log
}

// Unwrap returns the embedder without the memory.
func (r remembered) Unwrap() embed.Embedder { return r.Embedder }

// Embed implements embed.Embedder.
func (r remembered) Embed(ctx context.Context, text string) ([]float32, error) {
	r.mu.Lock()
	vec, ok := r.vecs.get(text)
	r.mu.Unlock()
	if ok {
		r.state.mu.Lock()
		r.state.stats.EmbeddingHits++
		r.state.mu.Unlock()
		r.engine.opts.Logger.InfoContext(ctx, "embedding cache hit", "key", r.name)
		return slices.Clone(vec), nil
	}
	vec, err := r.Embedder.Embed(ctx, text)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.vecs.put(text, slices.Clone(vec), maxQuestions)
	return vec, nil
}

// An lru is a map that keeps the keys used last.
type lru[V any] struct {
	recent *list.List // of pair, the most recently used first
	byKey  map[string]*list.Element
}

type pair[V any] struct {
	key   string
	value V
}

func newLRU[V any]() *lru[V] { return &lru[V]{list.New(), map[string]*list.Element{}} }

func (l *lru[V]) get(key string) (v V, ok bool) {
	at := l.byKey[key]
	if at == nil {
		return v, false
	}
	l.recent.MoveToFront(at)
	return at.Value.(pair[V]).value, true
}

// put stores a value, and removes the values used longest ago if there are more than most.
func (l *lru[V]) put(key string, v V, most int) {
	l.remove(key)
	l.byKey[key] = l.recent.PushFront(pair[V]{key, v})
	for l.recent.Len() > most {
		l.remove(l.recent.Back().Value.(pair[V]).key)
	}
}

func (l *lru[V]) remove(key string) bool {
	at := l.byKey[key]
	if at == nil {
		return false
	}
	l.recent.Remove(at)
	delete(l.byKey, key)
	return true
}

// all yields the values, the most recently used first.
func (l *lru[V]) all() iter.Seq[V] {
	return func(yield func(V) bool) {
		for at := l.recent.Front(); at != nil; at = at.Next() {
			if !yield(at.Value.(pair[V]).value) {
				return
			}
		}
	}
}
