package rerank_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/embed/bert"
	"github.com/vecbolt/vecbolt/rag/rerank"
)

func order(t *testing.T, r rag.Reranker, question string, chunks []rag.Chunk) []string {
	t.Helper()
	before := slices.Clone(chunks)
	got, err := r.Rerank(t.Context(), question, chunks)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i, c := range got {
		ids = append(ids, c.ID)
		if before[i].ID != chunks[i].ID {
			t.Error("the chunks given were changed")
		}
	}
	return ids
}

func TestLexical(t *testing.T) {
	chunks := []rag.Chunk{{ID: "a", Text: "the cat sat"}, {ID: "b", Text: "the dog ran"}, {ID: "c", Text: "the dog and the cat"}}
	for weight, want := range map[float64][]string{1: {"c", "a", "b"}, 0: {"a", "b", "c"}} {
		if got := order(t, rerank.Lexical(weight), "Cat, dog?", chunks); !slices.Equal(got, want) {
			t.Errorf("weight %v: %v", weight, got)
		}
	}
	if got := order(t, rerank.Lexical(1), "?", chunks); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Error(got)
	}
	if _, err := rerank.Lexical(2).Rerank(t.Context(), "", chunks); err == nil {
		t.Error("no error")
	}
}

// A setting out of range is refused by NewPipeline, before the first question.
func TestSettings(t *testing.T) {
	vdb, err := db.Open(db.Memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	c, err := vdb.OpenCollection(t.Context(), "c", db.Schema{Text: &db.TextIndex{}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		r  rag.Reranker
		ok bool
	}{
		{rerank.Lexical(0), true}, {rerank.Lexical(1), true}, {rerank.MMR(0.5), true},
		{rerank.Lexical(2), false}, {rerank.Lexical(math.NaN()), false}, {rerank.MMR(-0.1), false},
	} {
		_, err := rag.NewPipeline(c, nil, &rag.PipelineOptions{Strategy: rag.Text(), Rerank: tt.r})
		if tt.ok != (err == nil) || !tt.ok && !errors.Is(err, rag.ErrConfig) {
			t.Errorf("%v: %v", tt.ok, err)
		}
		if _, err := tt.r.Rerank(t.Context(), "a", nil); tt.ok != (err == nil) {
			t.Errorf("%v: %v", tt.ok, err)
		}
	}
}

func TestCross(t *testing.T) {
	shared := func(question, text string) (n float64) {
		for _, w := range strings.Fields(question) {
			n += float64(strings.Count(text, w))
		}
		return n
	}
	chunks := []rag.Chunk{{ID: "a", Text: "a cat"}, {ID: "b", Text: "a dog and a cat"}, {ID: "c", Text: "a cat", Metadata: map[string]any{rag.FieldHeader: "dog, cat, dog"}}, {ID: "d", Text: "a cat"}}
	if got := order(t, rerank.Cross(shared), "dog cat", chunks); !slices.Equal(got, []string{"c", "b", "a", "d"}) {
		t.Error(got)
	}
	got, err := rerank.Cross(shared).Rerank(t.Context(), "dog cat", chunks)
	if err != nil || got[0].Score != 4 || got[3].Score != 1 {
		t.Error(got, err)
	}
	if got, err := rerank.Cross(shared).Rerank(t.Context(), "dog", nil); err != nil || len(got) != 0 {
		t.Error(got, err)
	}
	if _, err := rerank.Cross(func(string, string) float64 { return math.NaN() }).Rerank(t.Context(), "", chunks); err == nil || !strings.Contains(err.Error(), `"a"`) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := rerank.Cross(shared).Rerank(ctx, "dog", chunks); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	var _ func(string, string) float64 = (*bert.CrossEncoder)(nil).Score // what Cross takes
}

func TestMMR(t *testing.T) {
	chunks := []rag.Chunk{
		{ID: "a", Score: 0.9, Vector: []float32{1, 0}}, {ID: "twin", Score: 0.89, Vector: []float32{1, 0.01}},
		{ID: "other", Score: 0.5, Vector: []float32{0, 1}}, {ID: "none", Score: 0.1},
	}
	for lambda, want := range map[float64][]string{1: {"a", "twin", "other", "none"}, 0.5: {"a", "other", "none", "twin"}} {
		if got := order(t, rerank.MMR(lambda), "", chunks); !slices.Equal(got, want) {
			t.Errorf("lambda %v: %v", lambda, got)
		}
	}
	if _, err := rerank.MMR(-1).Rerank(t.Context(), "", chunks); err == nil {
		t.Error("no error")
	}
}

// TestBatches: text-embeddings-inference takes 32 texts in a request.
func TestBatches(t *testing.T) {
	var sizes []int
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Texts []string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		sizes = append(sizes, len(body.Texts))
		type score struct {
			Index int     `json:"index"`
			Score float64 `json:"score"`
		}
		var scores []score
		for i, text := range body.Texts {
			n, err := strconv.Atoi(text)
			if err != nil {
				t.Error(err)
			}
			scores = append(scores, score{i, float64(n)})
		}
		if err := json.NewEncoder(w).Encode(scores); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	var chunks []rag.Chunk
	var want []string
	for i := range 70 {
		chunks = append(chunks, rag.Chunk{ID: strconv.Itoa(i), Text: strconv.Itoa(i)})
		want = append(want, strconv.Itoa(69-i))
	}
	if got := order(t, rerank.HTTP(server.URL, rerank.HTTPOptions{API: rerank.TEI}), "q", chunks); !slices.Equal(got, want) {
		t.Error(got)
	}
	if !slices.Equal(sizes, []int{32, 32, 6}) {
		t.Error(sizes)
	}
}

func TestHTTP(t *testing.T) {
	chunks := []rag.Chunk{{ID: "a", Text: "one", Metadata: map[string]any{rag.FieldHeader: "H"}}, {ID: "b", Text: "two"}}
	var body map[string]any
	answer, status := "", http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(b, &body)
		}
		if err != nil || r.Header.Get("Authorization") != "Bearer key" {
			t.Error(err, r.Header)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	secret := func(context.Context) (string, error) { return "key", nil }
	cohere := rerank.HTTP(server.URL, rerank.HTTPOptions{Model: "m", Secret: secret})
	tei := rerank.HTTP(server.URL, rerank.HTTPOptions{API: rerank.TEI, Secret: secret, Retry: &embed.RetryOptions{Attempts: 1}})

	answer = `{"results":[{"index":1,"relevance_score":0.9},{"index":0,"relevance_score":0.1}]}`
	if got := order(t, cohere, "q", chunks); !slices.Equal(got, []string{"b", "a"}) || body["model"] != "m" || body["query"] != "q" {
		t.Error(got, body)
	}
	answer = `[{"index":1,"score":2.5},{"index":0,"score":-1}]`
	if got := order(t, tei, "q", chunks); !slices.Equal(got, []string{"b", "a"}) || !slices.Equal(body["texts"].([]any), []any{"H\n\none", "two"}) {
		t.Error(got, body)
	}
	if got := order(t, tei, "q", nil); got != nil {
		t.Error(got)
	}
	for _, wrong := range []string{"", "{}", `[{"index":0,"score":1}]`, `[{"index":0,"score":1},{"index":0,"score":1}]`, `[{"index":0,"score":1},{"index":2,"score":1}]`,
		`[{"index":0,"score":1},{"index":1}]`, `[{"index":0,"score":1},{"score":1}]`} {
		answer = wrong
		if _, err := tei.Rerank(t.Context(), "q", chunks); err == nil || !strings.Contains(err.Error(), "invalid response") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	answer = `{"results":[{"index":1,"relevance_score":0.9},{"index":0,"relevance_score":0.1}],"error":""}`
	if got := order(t, cohere, "q", chunks); !slices.Equal(got, []string{"b", "a"}) {
		t.Error(got)
	}
	answer = `{"error":"no memory for key"}`
	for _, r := range []rag.Reranker{cohere, tei} {
		if _, err := r.Rerank(t.Context(), "q", chunks); err == nil || err.Error() != `the server gave up: "no memory for [secret]"` {
			t.Error(err)
		}
	}
	status, answer = http.StatusTooManyRequests, "slow down"
	if _, err := tei.Rerank(t.Context(), "q", chunks); err == nil || !strings.Contains(err.Error(), "429") || !strings.Contains(err.Error(), "slow down") {
		t.Error(err)
	}
	down := errors.New("no key")
	broken := rerank.HTTP(server.URL, rerank.HTTPOptions{Secret: func(context.Context) (string, error) { return "", down }})
	if _, err := broken.Rerank(t.Context(), "q", chunks); !errors.Is(err, down) {
		t.Error(err)
	}
}

// TestRetry: a request is sent again after temporary errors, after the pause that the server asks
// for, and not once the context ends. Requests that were answered are not.
func TestRetry(t *testing.T) {
	var statuses []int // of the answers to come; 200 after them
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		var body struct{ Texts []string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		if len(statuses) > 0 {
			status := statuses[0]
			if statuses = statuses[1:]; status != http.StatusOK {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(status)
				return
			}
		}
		var scores []map[string]any
		for i := range body.Texts {
			scores = append(scores, map[string]any{"index": i, "score": i})
		}
		if err := json.NewEncoder(w).Encode(scores); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	var pauses []time.Duration
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := rerank.HTTP(server.URL, rerank.HTTPOptions{API: rerank.TEI, Retry: &embed.RetryOptions{
		Rand:  func() float64 { return 0 },
		Sleep: func(ctx context.Context, d time.Duration) error { pauses = append(pauses, d); return ctx.Err() },
	}})
	chunks := make([]rag.Chunk, 40) // two requests
	for _, tt := range []struct {
		statuses         []int
		requests, pauses int
		err              string
	}{
		{[]int{200, 429, 503, 200}, 4, 2, ""},
		{[]int{401}, 1, 0, "status 401"},
		{[]int{429, 429, 429, 429, 429}, 5, 4, "after 5 attempts: status 429"},
	} {
		statuses, requests, pauses = tt.statuses, 0, nil
		_, err := r.Rerank(ctx, "q", chunks)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) || requests != tt.requests ||
			!slices.Equal(pauses, slices.Repeat([]time.Duration{7 * time.Second}, tt.pauses)) {
			t.Errorf("%v: %d requests, %v, %v", tt.statuses, requests, pauses, err)
		}
	}
	statuses, requests = []int{429, 429}, 0
	stopped := rerank.HTTP(server.URL, rerank.HTTPOptions{API: rerank.TEI, Retry: &embed.RetryOptions{
		Sleep: func(ctx context.Context, _ time.Duration) error { cancel(); return ctx.Err() },
	}})
	if _, err := stopped.Rerank(ctx, "q", chunks); !errors.Is(err, context.Canceled) || requests != 1 {
		t.Error(requests, err)
	}
}
