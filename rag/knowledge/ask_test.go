package knowledge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
)

// A model is a chat server and a reranker for tests. It records what it is told.
type model struct {
	*httptest.Server
	mu     sync.Mutex
	told   []string // the last message of each request
	answer func(system, user string) string
}

func newModel(t *testing.T, answer func(system, user string) string) *model {
	m := &model{answer: answer}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Stream   bool
			Messages []struct{ Role, Content string }
			Query    string   // of the reranker
			Texts    []string // of the reranker
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		if body.Texts != nil { // the longest text is the best
			m.told = append(m.told, body.Query)
			var scores []map[string]any
			for i, text := range body.Texts {
				scores = append(scores, map[string]any{"index": i, "score": float64(len(text))})
			}
			_ = json.NewEncoder(w).Encode(scores)
			return
		}
		last := body.Messages[len(body.Messages)-1].Content
		m.told = append(m.told, last)
		text := m.answer(body.Messages[0].Content, last)
		if !body.Stream {
			_ = json.NewEncoder(w).Encode(map[string]any{"message": map[string]string{"content": text}, "prompt_eval_count": 100, "eval_count": 10})
			return
		}
		for word := range strings.FieldsSeq(text) {
			_ = json.NewEncoder(w).Encode(map[string]any{"message": map[string]string{"content": word + " "}})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"done": true, "prompt_eval_count": 100, "eval_count": 10})
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *model) heard() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	told := m.told
	m.told = nil
	return told
}

func (f *fixture) set(name string, keys map[string]any) {
	f.t.Helper()
	if _, err := f.Configure(f.t.Context(), name, keys); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) stats(name string) Stats {
	f.t.Helper()
	s, err := f.Stats(name)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func facts(f *fixture) {
	f.write("cats.md", "# Cats\n\nCats purr when they are content.\n")
	f.write("dogs.md", "# Dogs\n\nDogs bark at strangers, and guard the house at night.\n")
	f.write("engine.txt", "The first steam engine pumped water out of a mine.")
	f.write("phone.txt", "The first telephone spoke across a room.")
	f.learn("b", counted)
}

// TestStrategies answers one question in every way that a configuration knows.
func TestStrategies(t *testing.T) {
	f := newFixture(t)
	facts(f)
	m := newModel(t, func(system, _ string) string {
		switch {
		case strings.Contains(system, "passage"):
			return "The first telephone spoke across a room."
		case strings.Contains(system, "other ways"):
			return "1. who guards the house at night?\n- who barks at strangers?\n\nthird\nfourth"
		}
		t.Error(system)
		return ""
	})
	talk := map[string]any{"chat": "ollama", "chat_url": m.URL, "chat_model": "m"}
	with := func(more map[string]any) map[string]any {
		all := map[string]any{}
		for _, m := range []map[string]any{talk, more} {
			for k, v := range m {
				all[k] = v
			}
		}
		return all
	}
	for _, tt := range []struct {
		name     string
		set      map[string]any
		strategy string
		first    string // the file of the best chunk
		n        int
		told     int // requests to the model
	}{
		{"default", nil, "hybrid", "cats.md", 4, 0},
		{"top_k", map[string]any{"top_k": 1}, "hybrid", "cats.md", 1, 0},
		{"dense", map[string]any{"strategy": "dense"}, "dense", "", 4, 0},
		{"text", map[string]any{"strategy": "text"}, "text", "cats.md", 1, 0},
		{"threshold", map[string]any{"strategy": "dense", "threshold": 0.99}, "dense", "", 0, 0},
		{"rrf", map[string]any{"fusion": "rrf", "vector_weight": 0.5, "text_weight": 0.5, "fusion_depth": 10}, "hybrid", "cats.md", 4, 0},
		{"hyde", with(map[string]any{"strategy": "hyde"}), "hyde", "phone.txt", 4, 1},
		{"multi-query", with(map[string]any{"strategy": "multi-query", "rewrites": 2}), "multi-query", "dogs.md", 4, 1},
		{"mmr", map[string]any{"strategy": "mmr", "diversity": 1}, "mmr", "", 4, 0},
		{"lexical", map[string]any{"reranker": "lexical", "rerank_weight": 1}, "hybrid", "cats.md", 4, 0},
		{"rerank mmr", map[string]any{"reranker": "mmr"}, "hybrid", "cats.md", 4, 0},
		{"tei", map[string]any{"reranker": "tei", "rerank_url": m.URL, "candidates": 4, "top_k": 2}, "hybrid", "dogs.md", 2, 1},
		{"siblings", map[string]any{"siblings": "format", "top_k": 1, "max_siblings": 5}, "hybrid", "cats.md", 2, 0},
		{"context", map[string]any{"max_context_tokens": 8}, "hybrid", "cats.md", 4, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := f.Query(t.Context(), "b", "purr", QueryOptions{Set: tt.set})
			if err != nil {
				t.Fatal(err)
			}
			first := ""
			if len(r.Chunks) > 0 {
				first = r.Chunks[0].ID
			}
			if r.Strategy != tt.strategy || len(r.Chunks) != tt.n || !strings.Contains(first, tt.first) {
				t.Errorf("%s, %d chunks, %s", r.Strategy, len(r.Chunks), first)
			}
			if told := m.heard(); len(told) != tt.told {
				t.Errorf("the model heard %q", told)
			}
		})
	}
	// The same keys for every question.
	f.set("b", map[string]any{"strategy": "text", "top_k": 1})
	if r := f.query("purr", QueryOptions{}); r.Strategy != "text" || len(r.Chunks) != 1 {
		t.Errorf("%+v", r)
	}
	f.set("b", map[string]any{"strategy": nil})
	if r := f.query("purr", QueryOptions{K: 2}); r.Strategy != "hybrid" || len(r.Chunks) != 2 {
		t.Errorf("%+v", r)
	}
	for _, tt := range []struct {
		set  map[string]any
		want string
	}{
		{map[string]any{"strategy": "hyde"}, "strategy: hyde: it needs the key chat_model"},
		{map[string]any{"reranker": "cross-encoder", "rerank_model": t.TempDir()}, "bert: open"},
		{map[string]any{"language": "german"}, "language: it cannot be set for one question"},
		{map[string]any{"chunk_size": 20}, "chunk_size: it cannot be set for one question"},
		{map[string]any{"embedding.batch_size": 20}, "embedding.batch_size: it cannot be set for one question"},
		{map[string]any{"topk": 20}, `the nearest is "top_k"`},
	} {
		if _, err := f.Query(t.Context(), "b", "purr", QueryOptions{Set: tt.set}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v", tt.set, err)
		}
	}
}

// TestClientOfTheProgram: requests to chat models and rerankers go through the client that the
// program has set.
func TestClientOfTheProgram(t *testing.T) {
	f := newFixture(t)
	facts(f)
	m := newModel(t, func(_, _ string) string { return "A cat." })
	var paths []string
	f.opts.Embed = &embed.Options{Client: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		paths = append(paths, r.URL.Path)
		return http.DefaultTransport.RoundTrip(r)
	})}}
	f.query("purr", QueryOptions{Set: map[string]any{"strategy": "hyde", "chat": "ollama", "chat_url": m.URL, "chat_model": "m",
		"reranker": "tei", "rerank_url": m.URL + "/rerank"}})
	if diff := cmp.Diff([]string{"/api/chat", "/rerank"}, paths); diff != "" {
		t.Error(diff)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestCacheOutlivesQuestions keeps answers and embeddings between questions, and no longer than
// they are true.
func TestCacheOutlivesQuestions(t *testing.T) {
	f := newFixture(t)
	facts(f)
	f.set("b", map[string]any{"cache_size": 10})
	before := f.stats("b").EmbeddedTexts
	ask := func(set map[string]any) *rag.Response { return f.query("who purrs?", QueryOptions{Set: set}) }
	if r := ask(nil); r.FromCache {
		t.Error("the first answer is from the cache")
	}
	if r := ask(nil); !r.FromCache || len(r.Chunks) != 4 {
		t.Errorf("%+v", r)
	}
	if r := ask(map[string]any{"top_k": 1}); r.FromCache || len(r.Chunks) != 1 {
		t.Errorf("%+v", r)
	}
	if r := f.query("who purrs?", QueryOptions{Strategy: rag.Text()}); r.FromCache || r.Strategy != "text" {
		t.Errorf("%+v", r)
	}
	if n := f.stats("b").EmbeddedTexts - before; n != 1 {
		t.Errorf("the question was embedded %d times", n)
	}
	f.write("cats.md", "# Cats\n\nLions do not purr.\n")
	f.learn("b", nil)
	if r := ask(nil); r.FromCache || !strings.Contains(r.Context, "Lions") {
		t.Errorf("%+v", r)
	}
	// A base that is made again by another process has the version of the first one.
	other, err := New(f.workspace, &f.opts)
	if err != nil {
		t.Fatal(err)
	}
	if ask(nil); other.Clean("b") != nil {
		t.Fatal("not cleaned")
	}
	if err := os.RemoveAll(f.docs); err != nil {
		t.Fatal(err)
	}
	f.write("new.txt", "Nobody purrs.")
	for range 2 {
		set := map[string]any{"provider": "counting", "model": "m", "embedding.dimensions": 64, "embedding.normalize": false, "chunk_size": 40, "cache_size": 10}
		if _, err := other.Learn(t.Context(), "b", LearnOptions{Paths: []string{f.docs}, Set: set}); err != nil {
			t.Fatal(err)
		}
	}
	if r := ask(nil); r.FromCache || len(r.Chunks) != 1 {
		t.Errorf("%+v", r)
	}
	s := f.stats("b")
	if s.Queries != 7 || s.CacheHits != 2 || s.EmbeddingHits != 5 || s.Failures != 0 || s.Chunks == 0 || s.RetrievalTime == 0 || s.AvgRetrievalMS == 0 || s.EmbeddedTexts < 5 || s.EmbeddedTokens < 20 {
		t.Errorf("%+v", s)
	}
	if err := f.Clean("b"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Stats("b"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// TestAsk answers by a model, streamed, with citations, statistics and costs.
func TestAsk(t *testing.T) {
	f := newFixture(t)
	facts(f)
	if _, err := f.Ask(t.Context(), "b", "who purrs?", AskOptions{}); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "chat_model") {
		t.Error(err)
	}
	m := newModel(t, func(_, user string) string {
		if !strings.Contains(user, "[1] [Source: ") || !strings.Contains(user, "Question: who purrs?") {
			t.Error(user)
		}
		return "Cats do [1], [2, 1] and not [7]."
	})
	f.set("b", map[string]any{"chat": "ollama", "chat_url": m.URL, "chat_model": "m", "prompt_price": 1000, "answer_price": 10_000, "embedding.price": 1, "top_k": 2})
	parts, found := "", 0
	o := AskOptions{Found: func(r *rag.Response) error { found = len(r.Citations); return nil }, Part: func(text string) error { parts += text + "|"; return nil }}
	r, err := f.Ask(t.Context(), "b", "who purrs?", o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Answer != "Cats do [1], [2, 1] and not [7]." || !slices.Equal(r.Cited, []int{1, 2}) || found != 2 || parts != "Cats |do |[1], |[2, |1] |and |not |[7]. |" || r.PromptTokens != 100 || r.AnswerTokens != 10 || r.AnswerTime == 0 {
		t.Errorf("%+v, %q, %d", r, parts, found)
	}
	s := f.stats("b")
	if s.Queries != 1 || s.Failures != 1 || s.PromptTokens != 100 || s.AnswerTokens != 10 || s.Cost < 0.2 || s.Cost > 0.2001 || s.AnswerTime != r.AnswerTime {
		t.Errorf("%+v", s)
	}
	// Without a stream, and with what ends it.
	if r, err := f.Ask(t.Context(), "b", "who purrs?", AskOptions{}); err != nil || r.Answer == "" {
		t.Error(r, err)
	}
	stop := errors.New("stop")
	for _, o := range []AskOptions{{Found: func(*rag.Response) error { return stop }}, {Part: func(string) error { return stop }}} {
		if _, err := f.Ask(t.Context(), "b", "who purrs?", o); !errors.Is(err, stop) {
			t.Error(err)
		}
	}
	if s := f.stats("b"); s.Failures != 3 || s.Queries != 2 {
		t.Errorf("%+v", s)
	}
}

// TestAskAgain: a chat model that limits the rate is asked again, after the pause that it wants, as
// a model of embeddings is.
func TestAskAgain(t *testing.T) {
	f := newFixture(t)
	facts(f)
	asked, refusals := 0, 0
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked <= refusals {
			w.Header().Set("Retry-After", "7")
			http.Error(w, "slow down", http.StatusTooManyRequests)
			return
		}
		fmt.Fprintln(w, `{"message":{"content":"Cats do [1]."},"done":true}`)
	}))
	defer model.Close()
	var pauses []time.Duration
	f.opts.Retry = &embed.RetryOptions{Attempts: 3, Rand: func() float64 { return 0 },
		Sleep: func(_ context.Context, d time.Duration) error { pauses = append(pauses, d); return nil }}
	f.set("b", map[string]any{"chat": "ollama", "chat_url": model.URL, "chat_model": "m"})
	for refusals = range 4 {
		for _, stream := range []bool{false, true} {
			asked, pauses = 0, nil
			o, text := AskOptions{}, ""
			if stream {
				o.Part = func(part string) error { text += part; return nil }
			}
			r, err := f.Ask(t.Context(), "b", "who purrs?", o)
			failed := refusals == 3
			if (err != nil) != failed || !failed && r.Answer != "Cats do [1]." || asked != min(refusals+1, 3) || len(pauses) != min(refusals, 2) {
				t.Errorf("%d refusals: asked %d times, paused %v, %+v, %v", refusals, asked, pauses, r, err)
			}
			if failed && !errors.Is(err, ErrModel) || stream && !failed && text != "Cats do [1]." {
				t.Errorf("%q, %v", text, err)
			}
			for _, pause := range pauses {
				if pause != 7*time.Second {
					t.Error(pause)
				}
			}
		}
	}
}

func TestCited(t *testing.T) {
	for answer, want := range map[string][]int{
		"none (1) [x] [0] [5]": nil,
		"[2] [1] [2]":          {2, 1},
		"[1, 3] [2;4]":         {1, 3, 2, 4},
		"[1-3]":                {1, 2, 3},
		"[2 – 4, 1]":           {2, 3, 4, 1},
		"[1-2-3]":              {1, 2, 3},
		"[3-1]":                {3, 1}, // no range
		"[1-2024]":             {1},
		"[2-2]":                {2},
	} {
		if got := cited(answer, 4); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", answer, got, want)
		}
	}
}

// TestConversation follows the topic of a conversation, with a model and without.
func TestConversation(t *testing.T) {
	f := newFixture(t)
	facts(f)
	var log bytes.Buffer
	f.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	say := func(id, message string) *rag.Response {
		t.Helper()
		log.Reset()
		return f.query(message, QueryOptions{Conversation: id, K: 1})
	}
	said := func(strategy string) {
		t.Helper()
		if !strings.Contains(log.String(), `strategy="`+strategy+`"`) {
			t.Errorf("log: %s", log.String())
		}
	}
	topics := func() map[string]string {
		t.Helper()
		all, err := f.Conversations("b")
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]string{}
		for _, c := range all {
			out[c.ID] = fmt.Sprintf("%d: %s", c.Questions, c.Topic)
		}
		return out
	}
	if r := say("x", "what did the first steam engine do?"); r.Query != "" || !strings.Contains(r.Chunks[0].ID, "engine") {
		t.Errorf("%+v", r)
	}
	said("first message (raw query)")
	// A pronoun means what the topic says.
	if r := say("x", "where did it do that?"); !strings.Contains(r.Chunks[0].ID, "engine") || r.Query != "what did the first steam engine do? where it that?" {
		t.Errorf("%+v", r)
	}
	said("follow-up (contextualized topic)")
	if r := say("y", "where did it do that?"); r.Query != "" {
		t.Errorf("%+v", r)
	}
	said("first message (raw query)")
	if diff := cmp.Diff(map[string]string{"x": "2: what did the first steam engine do? where it that?", "y": "1: where did it do that?"}, topics()); diff != "" {
		t.Error(diff)
	}
	// The topic is bounded, and so are the conversations.
	f.set("b", map[string]any{"topic_words": 4, "conversations": 2})
	say("x", "and the telephone, when did it speak?")
	say("z", "purr")
	if diff := cmp.Diff(map[string]string{"x": "3: and telephone, when speak?", "z": "1: purr"}, topics()); diff != "" {
		t.Error(diff)
	}
	if err := f.Forget("b", "x"); err != nil {
		t.Error(err)
	}
	if err := f.Forget("b", "x"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	for _, id := range []string{strings.Repeat("x", 201), ".", "..", "/"} {
		if _, err := f.Query(t.Context(), "b", "purr", QueryOptions{Conversation: id}); !errors.Is(err, ErrConfig) {
			t.Errorf("%.10q: %v", id, err)
		}
	}
	// A model restates the topic.
	m := newModel(t, func(system, user string) string {
		if !strings.Contains(system, "topic so far") {
			return "Across a room [1]."
		}
		return "how far the  first telephone spoke"
	})
	f.set("b", map[string]any{"chat": "ollama", "chat_url": m.URL, "chat_model": "m", "topic_words": nil})
	r, err := f.Ask(t.Context(), "b", "did it speak far?", AskOptions{QueryOptions: QueryOptions{Conversation: "z"}})
	if err != nil || r.Query != "how far the first telephone spoke" || r.Answer != "Across a room [1]." || r.PromptTokens != 200 {
		t.Errorf("%+v, %v", r, err)
	}
	if told := m.heard(); len(told) != 2 || told[0] != "Topic so far: purr\nMessage: did it speak far?" || !strings.HasSuffix(told[1], "did it speak far? (the conversation is about: how far the first telephone spoke)") {
		t.Errorf("%q", told)
	}
	if got := topics()["z"]; got != "2: how far the first telephone spoke" {
		t.Error(got)
	}
}

// TestEmbeddingCacheEfficiency asks two bases with one embedder: the question is embedded once.
func TestEmbeddingCacheEfficiency(t *testing.T) {
	f := newFixture(t)
	facts(f)
	f.learn("c", counted)
	var log bytes.Buffer
	f.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	before := f.stats("b").EmbeddedTexts + f.stats("c").EmbeddedTexts
	for _, base := range []string{"b", "c"} {
		if _, err := f.Query(t.Context(), base, "who purrs?", QueryOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := f.stats("b").EmbeddedTexts + f.stats("c").EmbeddedTexts - before; n != 1 || strings.Count(log.String(), `msg="embedding cache hit" key=counting:`) != 1 {
		t.Errorf("embedded %d times; log: %s", n, log.String())
	}
}

// TestTogether asks, talks, learns and configures at the same time.
func TestTogether(t *testing.T) {
	f := newFixture(t)
	facts(f)
	m := newModel(t, func(string, string) string { return "Cats [1]." })
	f.set("b", map[string]any{"cache_size": 4, "chat": "ollama", "chat_url": m.URL, "chat_model": "m"})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 10 {
				o := AskOptions{QueryOptions: QueryOptions{Set: map[string]any{"top_k": 1 + j%3}, Conversation: fmt.Sprint(j % 2)}}
				if _, err := f.Ask(t.Context(), "b", fmt.Sprintf("who purrs at %d?", i*j), o); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for i := range 5 {
			f.write("more.txt", fmt.Sprintf("More about %d.", i))
			if _, err := f.Learn(t.Context(), "b", LearnOptions{Paths: []string{f.docs}}); err != nil {
				t.Error(err)
			}
			if _, err := f.Configure(t.Context(), "b", map[string]any{"cache_size": 5 + i}); err != nil {
				t.Error(err)
			}
			if _, err := f.Conversations("b"); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	if s := f.stats("b"); s.Queries != 40 || s.Failures != 0 {
		t.Errorf("%+v", s)
	}
	if c, err := f.Config("b"); err != nil || c.CacheSize != 9 {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestKeepOpen keeps a database open between questions, and closes it for whoever needs it.
func TestKeepOpen(t *testing.T) {
	f := newFixture(t)
	f.opts.KeepOpen = time.Hour
	facts(f)
	kept := func(want bool) {
		t.Helper()
		g := f.gate(f.database(Config{Name: "b"}))
		g.mu.Lock()
		defer g.mu.Unlock()
		if open := g.kept != nil; open != want {
			t.Errorf("kept open: %t, want %t", open, want)
		}
	}
	kept(false)
	f.query("purr", QueryOptions{})
	kept(true)
	f.write("cats.md", "Lions do not purr.")
	f.learn("b", nil)
	if r := f.query("purr", QueryOptions{K: 1}); !strings.Contains(r.Context, "Lions") {
		t.Error(r.Context)
	}
	kept(true)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	kept(false)
	f.query("purr", QueryOptions{})
	f.reembed(ReembedOptions{Config: hashed, Switch: yes})
	if _, err := os.Stat(filepath.Join(f.dir("b"), firstIndex)); !errors.Is(err, os.ErrNotExist) {
		t.Error("the replaced database is still there", err)
	}
	f.query("purr", QueryOptions{})
	if err := f.Clean("b"); err != nil {
		t.Error(err)
	}
	// It is closed by itself when no question comes.
	f.opts.KeepOpen = time.Nanosecond
	f.gates = map[string]*gate{}
	facts(f)
	f.query("purr", QueryOptions{})
	g := f.gate(f.database(Config{Name: "b"}))
	for open := true; open; runtime.Gosched() {
		g.mu.Lock()
		open = g.kept != nil
		g.mu.Unlock()
	}
	kept(false)
}

// BenchmarkQuery asks a base of 10,000 chunks; the embedding of the question is in memory.
func BenchmarkQuery(b *testing.B) {
	f := newFixture(b)
	for i := range 100 {
		var text strings.Builder
		for j := range 100 {
			fmt.Fprintf(&text, "# Part %d\n\nSentence %d of file %d is about subject %d and about %d.\n\n", j, j, i, i*j%97, (i+j)%89)
		}
		f.write(fmt.Sprintf("%d.md", i), text.String())
	}
	if r := f.learn("b", nil); r.Chunks < 10_000 {
		b.Fatal(r)
	}
	f.opts.KeepOpen = time.Minute
	f.gates = map[string]*gate{}
	defer f.Close()
	for name, set := range map[string]map[string]any{"hybrid": nil, "dense": {"strategy": "dense"}, "cached": {"cache_size": 10}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if r := f.query("which file is about subject 42?", QueryOptions{Set: set}); len(r.Chunks) != 5 {
					b.Fatal(r)
				}
			}
		})
	}
}

func TestLines(t *testing.T) {
	list := "1. 2024 budget figures\n2) 3D printing methods?\n\n- 100 metre sprint\n* -5 degrees\n• last\n2024. What then?\nno marker\n1.5 litres\n"
	want := []string{"2024 budget figures", "3D printing methods?", "100 metre sprint", "-5 degrees", "last", "2024. What then?", "no marker", "1.5 litres"}
	if got := lines(list, 10); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := lines(list, 2); !slices.Equal(got, want[:2]) {
		t.Errorf("%q", got)
	}
}
