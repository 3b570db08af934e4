package rag

import (
	"cmp"
	"container/list"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/simd"
)

// CacheOptions tune the answer cache. The zero value is the default.
type CacheOptions struct {
	// Size is the maximum number of answers kept; the least recently used are evicted first. 0
	// means 1000.
	Size int
	// Similarity is the minimum cosine, inclusive, between the embeddings of two questions that
	// share an answer; 0 means 0.97.
	Similarity float64
	// TTL is the lifetime of an answer. 0 means until the store changes, which needs a store that
	// reports its version, as *db.Collection does; other stores need a TTL.
	TTL time.Duration
	// Now returns the time; nil means time.Now.
	Now func() time.Time
}

// A cache holds answers by the embeddings of their questions. Any change of the store empties it.
type cache struct {
	o       CacheOptions
	mu      sync.Mutex
	version uint64
	recent  *list.List // of *cached, the most recently used first
}

type cached struct {
	where  string // the filter of the question
	vector []float32
	norm   float64
	since  time.Time
	answer Response
}

func newCache(o CacheOptions) (*cache, error) {
	o.Size = cmp.Or(o.Size, 1000)
	o.Similarity = cmp.Or(o.Similarity, 0.97)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Size < 0 || !(o.Similarity >= -1 && o.Similarity <= 1) || o.TTL < 0 {
		return nil, fmt.Errorf("%w: cache of %d answers, similarity %v, time to live %v", ErrConfig,
			o.Size, o.Similarity, o.TTL)
	}
	return &cache{o: o, recent: list.New()}, nil
}

// expires reports whether a cache over a store forgets answers when chunks change, or after a time.
func expires(s Store, o *CacheOptions) bool {
	_, ok := s.(versioned)
	return ok || o.TTL > 0
}

// get returns a copy of the answer to the most similar question, or nil.
func (c *cache) get(where string, vec []float32, version uint64) *Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.renew(version)
	now, norm := c.o.Now(), length(vec)
	var best *list.Element
	bestCosine := c.o.Similarity
	var next *list.Element
	for e := c.recent.Front(); e != nil; e = next {
		next = e.Next()
		entry := e.Value.(*cached)
		if c.o.TTL > 0 && now.Sub(entry.since) >= c.o.TTL {
			c.recent.Remove(e)
			continue
		}
		if entry.where != where || len(entry.vector) != len(vec) || norm == 0 || entry.norm == 0 {
			continue
		}
		if cos := simd.Dot64(entry.vector, vec) / (entry.norm * norm); cos >= bestCosine-1e-12 &&
			(best == nil || cos > bestCosine) {
			best, bestCosine = e, cos
		}
	}
	if best == nil {
		return nil
	}
	c.recent.MoveToFront(best)
	answer := own(best.Value.(*cached).answer)
	answer.FromCache = true
	answer.EmbedTime, answer.RerankTime = 0, 0
	return &answer
}

func (c *cache) put(where string, vec []float32, version uint64, r *Response) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if version != c.version {
		return // the store changed after the answer was found
	}
	c.recent.PushFront(&cached{where: where, vector: slices.Clone(vec), norm: length(vec),
		since: c.o.Now(), answer: own(*r)})
	for c.recent.Len() > c.o.Size {
		c.recent.Remove(c.recent.Back())
	}
}

// own returns a copy of an answer that callers may change without changing the cache.
func own(r Response) Response {
	r.Chunks, r.Citations = slices.Clone(r.Chunks), slices.Clone(r.Citations)
	for i := range r.Chunks {
		m, _ := document.Clone(map[string]any(r.Chunks[i].Metadata)).(map[string]any)
		r.Chunks[i].Metadata = m
		r.Chunks[i].Vector = slices.Clone(r.Chunks[i].Vector)
	}
	return r
}

// renew empties the cache if the store is not the one that its answers are from. A store that was
// made again begins with a lower version.
func (c *cache) renew(version uint64) {
	if version != c.version {
		c.recent.Init()
		c.version = version
	}
}

func length(vec []float32) float64 { return math.Sqrt(simd.Dot64(vec, vec)) }
