package knowledge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/eval"
)

// TestDocumentsThatCannotBeStored: they are reported like files that cannot be read, and all others
// are learnt.
func TestDocumentsThatCannotBeStored(t *testing.T) {
	const text = "Dogs bark."
	matter := func(yaml string) string { return "---\n" + yaml + "\n---\n" + text }
	var many strings.Builder
	for i := range 5_000 {
		fmt.Fprintf(&many, "%s%d: 1\n", strings.Repeat("k", 240), i)
	}
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for _, c := range "bcdefghijk" {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.Repeat(fmt.Sprintf("*%c, ", c-1), 10))
	}
	for _, tt := range []struct{ name, content, reason string }{
		{"x.md", matter("score: .nan"), "NaN"},
		{"x.md", matter("score: .inf"), "Inf"},
		{"x.md", matter("$x: 1"), "$x"},
		{"x.md", matter("a: {\"\": 1}"), "empty"},
		{"x.md", matter("a: {b: 1}\na.b: 2"), "a.b"},
		{"x.md", matter("a: " + strings.Repeat("{a: ", 25) + "1" + strings.Repeat("}", 25)), "deep"},
		{"x.md", matter("a: " + strings.Repeat("x", 1<<20+100_000)), "metadata takes"},
		{"x.md", matter(strings.TrimSpace(many.String())), "metadata takes"},
		{"x.md", matter(strings.TrimSpace(bomb)), "front matter of more than"},
		{"x.csv", "text,$t\nDogs bark.,1\n", "$t"},
		{"x.jsonl", `{"text": "Dogs bark.", "$t": 1}` + "\n", "$t"},
	} {
		for _, first := range []bool{true, false} { // in order of names
			f := newFixture(t)
			name := "z" + tt.name
			if first {
				name = "0" + tt.name
			}
			f.write("a.md", "Cats purr.")
			f.write("b.md", "Cows moo.")
			good := text
			if strings.HasSuffix(name, ".csv") {
				good = "text\n" + text + "\n"
			} else if strings.HasSuffix(name, ".jsonl") {
				good = `{"text": "Dogs bark."}` + "\n"
			}
			f.write(name, good)
			f.expect(f.learn("b", counted), Report{Files: 3, Chunks: 3, Embedded: 3})

			f.write(name, tt.content)
			f.write("a.md", "Cats sleep.")
			f.write("c.md", "Hens cackle.")
			r := f.learn("b", nil)
			f.expect(r, Report{Files: 3, Chunks: 3, Embedded: 2, Skipped: 1, Broken: 1})
			if len(r.Unread) != 1 || !strings.HasSuffix(r.Unread[0].File, name) || !strings.Contains(r.Unread[0].Reason, tt.reason) {
				t.Errorf("%.60q: %.300v", tt.content, r.Unread)
			}
			var texts []string
			for _, c := range f.query("dogs", QueryOptions{K: 9}).Chunks {
				texts = append(texts, c.Text)
			}
			if all := strings.Join(texts, "\n"); len(texts) != 4 || !strings.Contains(all, text) || !strings.Contains(all, "sleep") {
				t.Errorf("%.60q: %q", tt.content, texts)
			}
		}
	}
}

// Of a file of rows, those that can be stored are learnt.
func TestRowsThatCannotBeStored(t *testing.T) {
	f := newFixture(t)
	f.write("a.jsonl", `{"text": "one", "$x": 1}`+"\n"+`{"text": "two"}`+"\n"+`{"text": "three", "a": {"b": 1}, "a.b": 1}`+"\n")
	for range 2 {
		r := f.learn("b", counted)
		if r.Files != 1 || r.Chunks != 1 || len(r.Unread) != 2 || !strings.HasPrefix(r.Unread[0].Reason, "row 1: ") ||
			!strings.HasPrefix(r.Unread[1].Reason, "row 3: ") {
			t.Errorf("%+v", r)
		}
	}
}

// choosy is a provider that refuses long texts, or all texts as with a wrong key.
type choosy struct {
	embed.Embedder
	status int       // 0: with vector
	vector []float32 // what the server gives a refused text
	any    bool      // refuses all texts
	takes  bool      // refuses none
}

func (c *choosy) Provider() string { return "counting" }

func (c *choosy) Embed(ctx context.Context, text string) ([]float32, error) {
	vecs, err := c.EmbedBatch(ctx, []string{text})
	if err != nil {
		return nil, err
	}
	return vecs[0], nil
}

func (c *choosy) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	refuses := func(text string) bool { return c.any || !c.takes && strings.Contains(text, "long") }
	if c.status != 0 && slices.ContainsFunc(texts, refuses) {
		return nil, &embed.Error{Kind: embed.ErrProvider, Status: c.status, Err: errors.New("input too long")}
	}
	vecs, err := c.Embedder.EmbedBatch(ctx, texts)
	for i := range vecs {
		if refuses(texts[i]) {
			vecs[i] = c.vector
		}
	}
	return vecs, err
}

// provide makes c the provider of the bases.
func (f *fixture) provide(c *choosy) {
	f.opts.Providers = embed.NewRegistry(embed.Builtin()...)
	err := f.opts.Providers.Register(embed.Provider{Name: "counting", Capabilities: embed.Capabilities{Dimensions: true},
		Open: func(_ context.Context, cfg embed.Config, _ *embed.Options) (e embed.Embedder, err error) {
			c.Embedder, err = embed.Trigram(cfg.Dimensions)
			return c, err
		}})
	if err != nil {
		f.t.Fatal(err)
	}
}

func TestTextsThatTheProviderRefuses(t *testing.T) {
	const reason = "input too long"
	nan := make([]float32, counted.Embedding.Dimensions)
	nan[0] = float32(math.NaN())
	for _, tt := range []struct {
		status int
		vector []float32
		any    bool
		ends   bool // the run
		reason string
	}{
		{http.StatusBadRequest, nil, false, false, reason},
		{http.StatusRequestEntityTooLarge, nil, false, false, reason},
		{http.StatusUnprocessableEntity, nil, false, false, reason},
		{http.StatusBadRequest, nil, true, true, reason}, // as for a wrong key
		{http.StatusUnauthorized, nil, false, true, reason},
		{http.StatusTooManyRequests, nil, false, true, reason},
		{http.StatusInternalServerError, nil, false, false, reason},
		{http.StatusInternalServerError, nil, true, true, reason},
		{http.StatusServiceUnavailable, nil, false, true, reason},
		{0, nan, false, false, "is NaN"},
		{0, nil, false, false, "has 0 components"},
		{0, []float32{1}, true, true, "dimension mismatch"}, // as for another model
	} {
		f := newFixture(t)
		c := &choosy{status: tt.status, vector: tt.vector}
		f.provide(c)
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			f.write(name+".md", "Text of "+name+".")
		}
		cfg := *counted
		cfg.Embedding.Attempts = 1
		f.expect(f.learn("b", &cfg), Report{Files: 5, Chunks: 5, Embedded: 5})
		c.any = tt.any
		f.write("a.md", "One more.")
		f.write("b.md", "Too long.")
		f.write("e.md", "Too long again.")
		r, err := f.Learn(t.Context(), "b", LearnOptions{Paths: []string{f.docs}})
		if tt.ends {
			if err == nil || !strings.Contains(err.Error(), tt.reason) {
				t.Errorf("%+v: %+v, %v", tt, r, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		f.expect(*r, Report{Files: 3, Chunks: 3, Embedded: 1, Skipped: 2, Broken: 2})
		if len(r.Unread) != 2 || !strings.HasSuffix(r.Unread[0].File, "b.md") || !strings.Contains(r.Unread[1].Reason, tt.reason) {
			t.Errorf("%+v: %+v", tt, r.Unread)
		}
		if s, err := f.Status(t.Context(), "b"); err != nil || s.Files != 5 || s.Chunks != 5 {
			t.Errorf("%+v: %+v, %v", tt, s, err)
		}
	}
}

// Of a file of rows, those with a text that the provider refuses are left out, and every run tries
// them again. Of another file, the report shows the passage.
func TestRowsThatTheProviderRefuses(t *testing.T) {
	f := newFixture(t)
	c := &choosy{status: http.StatusBadRequest}
	f.provide(c)
	cfg := *counted
	cfg.Embedding.Attempts = 1
	learn := func(want Report, unread ...Unread) {
		t.Helper()
		r := f.learn("b", &cfg)
		f.expect(r, want)
		if diff := cmp.Diff(unread, r.Unread); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
	const refusal = "embed: : provider error: status 400: input too long"
	file := func(name string) string { return filepath.ToSlash(filepath.Join(f.docs, name)) }
	f.write("a.md", "Cats purr.")
	f.write("rows.csv", "text\none\nlong\nthree\n")
	rows := Unread{file("rows.csv"), "row 2: " + refusal}
	learn(Report{Files: 2, Chunks: 3, Embedded: 3}, rows)
	list, err := f.Unread(t.Context(), "b")
	if diff := cmp.Diff([]Unread{rows}, list); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	_, chunks, err := f.FileChunks(t.Context(), "b", file("rows.csv"), 0, 9)
	if err != nil || len(chunks) != 2 || chunks[1].Text != "three" || chunks[1].Metadata[rag.FieldChunkIndex] != int64(1) {
		t.Errorf("%+v, %v", chunks, err)
	}

	f.write("a.md", "A text that is too long.")
	f.write("all.csv", "text\nlong\nlonger\n")
	learn(Report{Files: 1, Chunks: 2, Broken: 2},
		Unread{file("a.md"), `the passage "A text that is too long.": ` + refusal}, Unread{file("all.csv"), "row 1: " + refusal}, rows)

	c.takes = true
	learn(Report{Files: 3, Chunks: 6, Embedded: 4})
	learn(Report{Files: 3, Chunks: 6, Skipped: 3})
}

// A refusal leaves nothing in the cache of a base, however often the text is tried again.
func TestRefusalsAndTheCache(t *testing.T) {
	f := newFixture(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Input []string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		var vectors []string
		for i, text := range body.Input {
			if strings.Contains(text, "long") {
				http.Error(w, `{"error":{"message":"input too long"}}`, http.StatusBadRequest)
				return
			}
			vectors = append(vectors, fmt.Sprintf(`{"index":%d,"embedding":[1,2,3]}`, i))
		}
		fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(vectors, ","))
	}))
	defer server.Close()
	at := map[string]any{"api_base": server.URL}
	c := &Config{Provider: "openai", Model: "m", Embedding: Embedding{Dimensions: 3, ProviderConfig: at}}
	f.write("rows.csv", "text\none\nlong\nthree\n")
	for range 2 {
		if r := f.learn("b", c); r.Chunks != 2 || len(r.Unread) != 1 {
			t.Errorf("%+v", r)
		}
		entries, err := os.ReadDir(filepath.Join(f.dir("b"), "embeddings"))
		if err != nil || len(entries) != 2 {
			t.Errorf("%d entries for two texts, %v", len(entries), err)
		}
	}
}

// Vectors of a new model replace the old ones only if it embeds all chunks. The error has those
// that it refuses, and the next call goes on.
func TestReembedWithTextsThatTheProviderRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, file, content string
		begun               bool // before the file is learnt: its chunks have vectors of the new model
		reason              string
	}{
		{"a row", "rows.csv", "text\none\nlong\nthree\n", false, `the passage "long"`},
		{"rows", "rows.csv", "text\nlong\nlonger\nthree\n", false,
			`the passage "long": embed: : provider error: status 400: input too long; the passage "longer"`},
		{"many rows", "rows.csv", "text\none" + strings.Repeat("\nlong", 7) + "\n", false,
			strings.Repeat(`the passage "long": embed: : provider error: status 400: input too long; `, 5) +
				"and 2 more passages"},
		{"a file", "b.md", "Too long.", false, `the passage "Too long."`},
		{"all that changed", "a.md", "Cats sleep long.", true, `the passage "Cats sleep long."`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			queries := []eval.Query{{ID: "1", Text: "who purrs?"}}
			f := newFixture(t)
			c := &choosy{status: http.StatusBadRequest, takes: true}
			f.provide(c)
			to := *counted
			to.Embedding.Attempts = 1
			f.write("a.md", "Cats purr.")
			f.learn("b", hashed)
			if tt.begun {
				f.reembed(ReembedOptions{Config: &to})
			}
			f.write(tt.file, tt.content)
			f.learn("b", nil)
			before := f.status()

			c.takes = false
			r, err := f.Reembed(t.Context(), "b", ReembedOptions{Config: &to, Queries: queries, Switch: yes})
			if err == nil || !strings.Contains(err.Error(), tt.file+": "+tt.reason) {
				t.Errorf("%+v, %v", r, err)
			}
			s := f.status()
			if answer, err := f.Query(t.Context(), "b", "who purrs?", QueryOptions{}); err != nil || len(answer.Chunks) == 0 {
				t.Errorf("%+v, %v", answer, err)
			}
			if s.Config.Embedding.Dimensions != 128 || s.Files != before.Files || s.Chunks != before.Chunks || s.Next == "" {
				t.Errorf("%+v, was %+v", s, before)
			}

			c.takes = true
			r = f.reembed(ReembedOptions{Switch: yes})
			if !r.Switched || r.Files != before.Files || r.Chunks != before.Chunks {
				t.Errorf("%+v", r)
			}
		})
	}
}

// Files are written in batches that the database accepts; one that fills a batch alone is too
// large.
func TestLargeChanges(t *testing.T) {
	defer func(most int) { maxChange = most }(maxChange)
	maxChange = 2000
	f := newFixture(t)
	for i := range 9 {
		f.write(fmt.Sprintf("%d.txt", i), fmt.Sprintf("Number %d.", i))
	}
	f.write("5.txt", strings.Repeat("Many words. ", 100))
	r := f.learn("b", counted)
	f.expect(r, Report{Files: 8, Chunks: 8, Embedded: 8, Broken: 1})
	if len(r.Unread) != 1 || !strings.Contains(r.Unread[0].Reason, "the limit is 2000") {
		t.Errorf("%+v", r.Unread)
	}
}
