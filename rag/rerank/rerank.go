// Package rerank reorders retrieved chunks by relevance. [Lexical] and [MMR] need no model. [Cross]
// scores question and chunk together with a model in this process, such as a cross-encoder of
// package bert. [HTTP] asks a cross-encoder behind the API of Cohere, Jina or
// text-embeddings-inference. All are [rag.Reranker]s and safe for concurrent use.
package rerank

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/vecbolt/vecbolt/internal/httpjson"
	"github.com/vecbolt/vecbolt/internal/mmr"
	"github.com/vecbolt/vecbolt/internal/retry"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/simd"
)

// Func makes a Reranker from a function.
type Func func(ctx context.Context, question string, chunks []rag.Chunk) ([]rag.Chunk, error)

// Rerank calls f.
func (f Func) Rerank(ctx context.Context, question string, chunks []rag.Chunk) ([]rag.Chunk, error) {
	return f(ctx, question, chunks)
}

// A checked reranker says why it cannot work before the first question.
type checked struct {
	rag.Reranker
	err error
}

// Invalid returns the error that every call of Rerank would return.
func (c checked) Invalid() error { return c.err }

// within returns f, or a reranker that fails if the setting is outside 0..1.
func within(setting string, value float64, f Func) rag.Reranker {
	if value >= 0 && value <= 1 {
		return f
	}
	err := fmt.Errorf("%s %v is outside 0..1", setting, value)
	return checked{Func(func(context.Context, string, []rag.Chunk) ([]rag.Chunk, error) { return nil, err }), err}
}

// Lexical combines the present rank of a chunk with the words that it shares with the question;
// words that are rare among the chunks count more. weight, in [0, 1], is the share of the words.
func Lexical(weight float64) rag.Reranker {
	return within("weight", weight, func(_ context.Context, question string, chunks []rag.Chunk) ([]rag.Chunk, error) {
		asked := words(question)
		sets := make([]map[string]bool, len(chunks))
		frequency := map[string]int{}
		for i, c := range chunks {
			sets[i] = words(c.Text)
			for w := range asked {
				if sets[i][w] {
					frequency[w]++
				}
			}
		}
		rarity := func(w string) float64 { return math.Log(1 + float64(len(chunks))/float64(1+frequency[w])) }
		all := 0.0
		for w := range asked {
			all += rarity(w)
		}
		scores := make([]float64, len(chunks))
		for i := range chunks {
			shared := 0.0
			for w := range asked {
				if sets[i][w] {
					shared += rarity(w)
				}
			}
			if all > 0 {
				shared /= all
			}
			scores[i] = weight*shared + (1-weight)*(1-float64(i)/float64(len(chunks)))
		}
		return ordered(chunks, scores), nil
	})
}

func words(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.FieldsFunc(strings.ToLower(text),
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) }) {
		set[w] = true
	}
	return set
}

// ordered returns the chunks by score, best first. Chunks with equal scores keep their order.
func ordered(chunks []rag.Chunk, scores []float64) []rag.Chunk {
	index := make([]int, len(chunks))
	for i := range index {
		index[i] = i
	}
	slices.SortStableFunc(index, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	out := make([]rag.Chunk, len(chunks))
	for i, at := range index {
		out[i] = chunks[at]
		out[i].Score = scores[at]
	}
	return out
}

// MMR orders chunks by maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998): lambda ×
// score − (1 − lambda) × the greatest cosine with an earlier chunk. lambda is in [0, 1]; 1 orders
// by score alone.
func MMR(lambda float64) rag.Reranker {
	return within("lambda", lambda, func(_ context.Context, _ string, chunks []rag.Chunk) ([]rag.Chunk, error) {
		order := mmr.Order(len(chunks), lambda, func(i int) float64 { return chunks[i].Score },
			func(chosen int) func(int) (float64, bool) {
				vec := chunks[chosen].Vector
				return func(i int) (float64, bool) { // a chunk without a vector has no cosine
					if len(vec) == 0 || len(chunks[i].Vector) != len(vec) {
						return 0, false
					}
					return simd.Cosine64(vec, chunks[i].Vector), true
				}
			})
		out := make([]rag.Chunk, 0, len(chunks))
		for i := range order {
			out = append(out, chunks[i])
		}
		return out, nil
	})
}

// Cross orders chunks by score, higher being better, such as the method Score of a
// bert.CrossEncoder. score is called on all cores at the same time and must be safe for that. The
// header of a chunk is scored with its text, as it is embedded. A NaN score is an error.
func Cross(score func(question, text string) float64) rag.Reranker {
	return Func(func(ctx context.Context, question string, chunks []rag.Chunk) ([]rag.Chunk, error) {
		scores := make([]float64, len(chunks))
		var next atomic.Int64
		var wg sync.WaitGroup
		for range min(runtime.GOMAXPROCS(0), len(chunks)) {
			wg.Go(func() {
				for i := int(next.Add(1)) - 1; i < len(chunks) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
					scores[i] = score(question, rag.Embedded(chunks[i].Text, chunks[i].Metadata))
				}
			})
		}
		wg.Wait()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(scores, math.IsNaN); i >= 0 {
			return nil, fmt.Errorf("the score of chunk %q is NaN", chunks[i].ID)
		}
		return ordered(chunks, scores), nil
	})
}

// An API is the protocol of a cross-encoder server.
type API uint8

// The APIs.
const (
	// Cohere is POST /v2/rerank of Cohere; Jina's /v1/rerank is the same.
	Cohere API = iota
	// TEI is POST /rerank of text-embeddings-inference.
	TEI
)

// HTTPOptions tune HTTP.
type HTTPOptions struct {
	API   API
	Model string
	// Secret returns the API key; it is called for each request. nil means no key.
	Secret func(context.Context) (string, error)
	// Client sends the request; nil means a client with a timeout of a minute that follows no
	// redirects.
	Client *http.Client
	// Retry says how requests are repeated after temporary errors; nil means as embed.Retry does.
	Retry *embed.RetryOptions
}

// HTTP asks the cross-encoder at url and returns its scores. The header of a chunk is sent with its
// text, as it is embedded. A request is repeated if the server limits the rate or fails internally,
// or if the connection broke: after the pause that the server asks for, or one that grows.
func HTTP(url string, o HTTPOptions) rag.Reranker {
	caller := httpjson.Caller{Client: o.Client, Timeout: time.Minute, Secret: o.Secret}
	var policy retry.Policy
	if o.Retry != nil {
		policy = retry.Policy(*o.Retry)
	}
	return Func(func(ctx context.Context, question string, chunks []rag.Chunk) ([]rag.Chunk, error) {
		if len(chunks) == 0 {
			return chunks, nil
		}
		var scores []float64
		for rest := range slices.Chunk(chunks, batchOf[o.API]) {
			texts := make([]string, len(rest))
			for i, c := range rest {
				texts[i] = rag.Embedded(c.Text, c.Metadata)
			}
			request := map[string]any{"query": question, "texts": texts}
			if o.API == Cohere {
				request = map[string]any{"model": o.Model, "query": question, "documents": texts, "top_n": len(texts)}
			}
			var answer json.RawMessage
			err := policy.Do(ctx, "reranking", func() error {
				return caller.Post(ctx, url, request, &answer)
			}, httpjson.Temporary)
			if err != nil {
				return nil, err
			}
			some, err := parseScores(answer, o.API, len(texts))
			if err != nil {
				return nil, fmt.Errorf("invalid response: %w", err)
			}
			scores = append(scores, some...)
		}
		return ordered(chunks, scores), nil
	})
}

// batchOf is how many texts are sent in a request: what text-embeddings-inference takes by default
// (max-client-batch-size), and what Cohere recommends at most.
var batchOf = [...]int{Cohere: 1000, TEI: 32}

// parseScores reads one score for each of n texts.
func parseScores(answer []byte, api API, n int) ([]float64, error) {
	type result struct {
		Index *int     `json:"index"`
		Score *float64 `json:"score"`           // TEI
		Other *float64 `json:"relevance_score"` // Cohere
	}
	var results []result
	var err error
	if api == TEI {
		err = json.Unmarshal(answer, &results)
	} else {
		var body struct{ Results []result }
		err = json.Unmarshal(answer, &body)
		results = body.Results
	}
	if err != nil {
		return nil, err
	}
	scores, seen := make([]float64, n), make([]bool, n)
	for _, r := range results {
		score := cmp.Or(r.Score, r.Other)
		if r.Index == nil || score == nil || *r.Index < 0 || *r.Index >= n || seen[*r.Index] {
			return nil, errors.New("a result without a score, or for no text")
		}
		scores[*r.Index], seen[*r.Index] = *score, true
	}
	if len(results) != n {
		return nil, fmt.Errorf("%d results for %d texts", len(results), n)
	}
	return scores, nil
}
