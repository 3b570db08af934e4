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
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/load"
)

// fixture is a workspace, a directory of documents, and an engine that counts
// the texts it embeds.
type fixture struct {
	*Engine
	t      testing.TB
	docs   string
	texts  atomic.Int64
	opened atomic.Int64
	broken error
}

// counter counts texts on their way to the trigram embedder.
type counter struct {
	embed.Embedder
	f *fixture
}

func (c counter) Provider() string { return "counting" }

func (c counter) EmbedBatch(ctx context.Context, texts []string) ([][]float32, error) {
	c.f.texts.Add(int64(len(texts)))
	if c.f.broken != nil {
		return nil, c.f.broken
	}
	return c.Embedder.EmbedBatch(ctx, texts)
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{t: t, docs: filepath.Join(t.TempDir(), "docs")}
	registry := embed.NewRegistry(embed.Builtin()...)
	err := registry.Register(embed.Provider{Name: "counting", Capabilities: embed.Capabilities{Dimensions: true},
		Open: func(_ context.Context, c embed.Config, _ *embed.Options) (embed.Embedder, error) {
			f.opened.Add(1)
			e, err := embed.Trigram(max(c.Dimensions, 64))
			return counter{e, f}, err
		}})
	if err == nil {
		f.Engine, err = New(filepath.Join(t.TempDir(), "workspace"), &Options{Providers: registry, Logger: slog.New(slog.DiscardHandler)})
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) write(name, content string) {
	f.t.Helper()
	path := filepath.Join(f.docs, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o600)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

var counted = &Config{Provider: "counting", Model: "m", Embedding: Embedding{Dimensions: 64}, ChunkSize: 40}

func (f *fixture) learn(name string, c *Config) Report {
	f.t.Helper()
	r, err := f.Learn(f.t.Context(), name, LearnOptions{Paths: []string{f.docs}, Config: c})
	if err != nil {
		f.t.Fatal(err)
	}
	return *r
}

func (f *fixture) query(question string, o QueryOptions) *rag.Response {
	f.t.Helper()
	r, err := f.Query(f.t.Context(), "b", question, o)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *fixture) expect(got, want Report) {
	f.t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Report{}, "Seconds", "Unread")); diff != "" {
		f.t.Errorf("(-want +got)\n%s", diff)
	}
}

const animals = "# Animals\n\n## Cats\n\nCats sleep most of the day and purr when they are content.\n\n## Dogs\n\nDogs guard the house and bark at strangers.\n"

// Pages are read again once all of them is wanted, or the main content alone.
func TestWholePages(t *testing.T) {
	f := newFixture(t)
	f.write("a.md", "Cats purr.")
	f.write("page.html", "<p>Cats sleep in the sun.</p><footer>Never wake them.</footer>")
	skipped := Report{Files: 2, Chunks: 2, Skipped: 2}
	for i, want := range []struct {
		whole bool
		Report
	}{
		{false, Report{Files: 2, Chunks: 2, Embedded: 2}}, {false, skipped},
		{true, Report{Files: 2, Chunks: 2, Embedded: 1}}, {true, skipped},
		{false, Report{Files: 2, Chunks: 2, Embedded: 1}}, {false, skipped},
	} {
		o := LearnOptions{Paths: []string{f.docs}, Config: counted, Load: &load.Options{WholePages: want.whole}}
		r, err := f.Learn(t.Context(), "b", o)
		if err != nil {
			t.Fatal(err)
		}
		f.expect(*r, want.Report)
		_, chunks, err := f.FileChunks(t.Context(), "b", filepath.ToSlash(filepath.Join(f.docs, "page.html")), 0, 1)
		if err != nil || strings.Contains(chunks[0].Text, "Never") != want.whole {
			t.Errorf("run %d: %+v, %v", i, chunks, err)
		}
	}
}

func TestLearn(t *testing.T) {
	f := newFixture(t)
	f.write("animals.md", animals)
	f.write("plants/trees.txt", "Oaks live for centuries. Birches do not.")
	f.write("plants/broken.pdf", "not a pdf")
	f.write("rows.csv", "text,year\nThe first steam engine,1712\nThe first telephone,1876\n")
	f.expect(f.learn("b", counted), Report{Files: 3, Chunks: 5, Embedded: 5, Broken: 1})

	// Nothing has changed: nothing is embedded.
	before := f.texts.Load()
	f.expect(f.learn("b", nil), Report{Files: 3, Chunks: 5, Skipped: 3, Broken: 1})
	if f.texts.Load() != before {
		t.Error("texts were embedded again")
	}
	r := f.query("which animal purrs?", QueryOptions{K: 2})
	if len(r.Chunks) != 2 || !strings.Contains(r.Chunks[0].Text, "purr") || r.Chunks[0].Metadata[rag.FieldHeader] != "Animals › Cats" ||
		r.Chunks[0].Metadata[rag.FieldLineNumber] != int64(1) || r.Strategy != "hybrid" || !strings.Contains(r.Context, "animals.md:1]") {
		t.Errorf("%+v", r)
	}
	offset, _ := r.Chunks[0].Metadata[rag.FieldOffset].(int64)
	if !strings.HasPrefix(animals[offset:], r.Chunks[0].Text) {
		t.Error("offset", offset)
	}
	if r := f.query("telephone", QueryOptions{K: 1, Where: filter.Eq("year", "1876")}); r.Chunks[0].Metadata["row"] != int64(2) {
		t.Errorf("%+v", r.Chunks)
	}

	// One section changes: the others keep their vectors.
	f.write("animals.md", strings.Replace(animals, "bark at strangers", "howl at night", 1))
	f.expect(f.learn("b", nil), Report{Files: 3, Chunks: 5, Embedded: 1, Skipped: 2, Broken: 1})
	if r := f.query("howl", QueryOptions{K: 1}); !strings.Contains(r.Chunks[0].Text, "howl") {
		t.Errorf("%+v", r.Chunks)
	}
	// It gets shorter: surplus chunks are removed.
	f.write("animals.md", "# Animals\n\nCats purr.\n")
	f.expect(f.learn("b", nil), Report{Files: 3, Chunks: 4, Embedded: 1, Skipped: 2, Broken: 1})
	// A file is gone; another can no longer be read and keeps its content.
	if err := os.Remove(filepath.Join(f.docs, "rows.csv")); err != nil {
		t.Fatal(err)
	}
	f.write("animals.md", "\x00\x01\x02")
	f.expect(f.learn("b", nil), Report{Files: 1, Chunks: 1, Skipped: 1, Removed: 1, Broken: 2})
	s, err := f.Status(t.Context(), "b")
	if err != nil || s.Files != 2 || s.Chunks != 2 || s.Bytes == 0 || s.Learnt.IsZero() || s.Config.ChunkSize != 40 {
		t.Errorf("%+v, %v", s, err)
	}
	if n := f.opened.Load(); n != 1 {
		t.Errorf("the embedder was made %d times", n)
	}
	names, err := f.Bases()
	if err != nil || !slices.Equal(names, []string{"b"}) {
		t.Error(names, err)
	}
	for _, file := range []string{configFile, nextConfig} { // left by interrupted runs
		if err := os.WriteFile(filepath.Join(f.dir("b"), file+newSuffix), []byte("nam"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Clean("b"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Status(t.Context(), "b"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if _, err := os.Stat(f.dir("b")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestEmbeddedIsLogged has one line per batch of texts, with what embedded them.
func TestEmbeddedIsLogged(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	f.write("b.txt", "Bananas are yellow.")
	var log bytes.Buffer
	f.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	f.learn("b", counted)
	if want := "level=INFO msg=embedded base=b texts=2 provider=counting model=trigram-v1 dimensions=64 took="; strings.Count(log.String(), want) != 1 {
		t.Errorf("no %q in\n%s", want, log.String())
	}
	log.Reset()
	if f.learn("b", nil); strings.Contains(log.String(), "embedded") {
		t.Errorf("nothing was embedded:\n%s", log.String())
	}
}

// TestInterrupted learns with an embedder that fails: the previous content stays.
func TestInterrupted(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	f.learn("b", counted)
	f.write("a.txt", "Apples are green.")
	f.broken = errors.New("down")
	if _, err := f.Learn(t.Context(), "b", LearnOptions{Paths: []string{f.docs}}); !errors.Is(err, f.broken) {
		t.Fatal(err)
	}
	f.broken = nil
	if r := f.query("apples", QueryOptions{}); r.Chunks[0].Text != "Apples are red." {
		t.Errorf("%+v", r.Chunks)
	}
	f.expect(f.learn("b", nil), Report{Files: 1, Chunks: 1, Embedded: 1})
}

// Fields of a file whose names chunks need are kept under others.
func TestFieldsOfTheSameName(t *testing.T) {
	f := newFixture(t)
	f.write("a.md", "---\nformat: A4\noffset: [1, 2]\npage: 3\ntitle: Cats\nown_row: 1\nheader: top\n---\n# Head\n\nCats purr.\n")
	f.write("b.jsonl", `{"text": "Dogs bark.", "row": 7, "own_row": 8, "source_file": "x"}`+"\n"+`{"text": "Cows moo.", "row": 7, "line_number": {"a": 1}}`+"\n")
	f.learn("b", counted)
	for _, tt := range []struct {
		where filter.Expr
		want  map[string]any
	}{
		{filter.Eq("own_format", "A4"), map[string]any{"format": "markdown", "own_offset": []any{int64(1), int64(2)}, "page": int64(3), "title": "Cats",
			"own_title": nil, "own_row": int64(1), "own_header": "top"}},
		{filter.Eq("own_source_file", "x"), map[string]any{"row": int64(1), "own_row": int64(8)}},
		{filter.Eq("own_row", 7), map[string]any{"row": int64(2), "own_line_number": map[string]any{"a": int64(1)}}},
	} {
		chunks := f.query("animals", QueryOptions{Where: tt.where}).Chunks
		if len(chunks) != 1 {
			t.Errorf("%v: %d chunks", tt.where, len(chunks))
			continue
		}
		for field, want := range tt.want {
			if got := chunks[0].Metadata[field]; !cmp.Equal(got, want) {
				t.Errorf("%v: %s is %v, want %v", tt.where, field, got, want)
			}
		}
	}
}

// A chunk of a converted file is cited without a line: the lines of its text are not in the file.
func TestSourcesOfConvertedFiles(t *testing.T) {
	f := newFixture(t)
	f.write("a.html", "<html>\n<head>\n</head>\n<h1>Cats</h1>\n<p>Cats purr.</p>\n")
	f.write("b.md", "# Dogs\n\nDogs bark.\n")
	f.learn("b", counted)
	for question, want := range map[string]string{"Who purrs?": "a.html", "Who barks?": "b.md:1"} {
		r := f.query(question, QueryOptions{K: 1, Set: map[string]any{"strategy": "text"}})
		_, lined := r.Chunks[0].Metadata[rag.FieldLineNumber]
		if len(r.Citations) != 1 || filepath.Base(r.Citations[0].Source) != want || lined != strings.Contains(want, ":") {
			t.Errorf("%s: %+v, %v", question, r.Citations, r.Chunks)
		}
	}
}

// TestLargeFiles skips them before they are read.
func TestLargeFiles(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	f.write("b.txt", strings.Repeat("x", 100))
	r, err := f.Learn(t.Context(), "b", LearnOptions{Paths: []string{f.docs, "-"}, Stdin: strings.NewReader(strings.Repeat("y", 100)), Load: &load.Options{MaxBytes: 50}})
	if err != nil {
		t.Fatal(err)
	}
	f.expect(*r, Report{Files: 1, Chunks: 1, Embedded: 1, Broken: 2})
}

// TestUnread reports files and rows without text on each run, changed or not.
func TestUnread(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	f.write("broken.rtf", "no RTF")
	f.write("empty.md", "\n")
	f.write("rows.csv", "text,n\npears,1\nplums,2,3\n")
	f.write("scan.pdf", "%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 1 >>\nendobj\n"+
		"3 0 obj\n<< /Type /Page /Parent 2 0 R /Resources << /XObject << /I 4 0 R >> >> >>\nendobj\n"+
		"4 0 obj\n<< /Type /XObject /Subtype /Image /Length 1 >>\nstream\nx\nendstream\nendobj\ntrailer\n<< /Size 5 /Root 1 0 R >>\n%%EOF\n")
	var many strings.Builder
	for range 30 {
		many.WriteString("[]\n")
	}
	f.write("many.jsonl", "{\"text\":\"figs\"}\n"+many.String())
	var files []string
	for run := range 2 {
		r := f.learn("b", nil)
		if r.Broken != 1 || r.Files != 5 || r.Chunks != 3 {
			t.Errorf("run %d: %+v", run, r)
		}
		files = files[:0]
		for _, u := range r.Unread {
			files = append(files, filepath.Base(u.File)+": "+u.Reason)
		}
		if len(files) != 24 {
			t.Fatalf("run %d: %q", run, files)
		}
		want := []string{"broken.rtf: broken: no {\\rtf at the beginning", "empty.md: no text in it", "many.jsonl: row 2: broken: not a JSON object"}
		if diff := cmp.Diff(want, files[:3]); diff != "" {
			t.Errorf("run %d (-want +got)\n%s", run, diff)
		}
		want = []string{"many.jsonl: 11 rows more", "rows.csv: row 2: broken: 3 fields under 2 names", "scan.pdf: no text in it: its pages are images (1)"}
		if diff := cmp.Diff(want, files[21:]); diff != "" {
			t.Errorf("run %d (-want +got)\n%s", run, diff)
		}
	}
}

func TestStandardInput(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	learn := func(paths []string, input string) Report {
		r, err := f.Learn(t.Context(), "b", LearnOptions{Paths: paths, Stdin: strings.NewReader(input), Config: counted})
		if err != nil {
			t.Fatal(err)
		}
		return *r
	}
	f.expect(learn([]string{f.docs, "-"}, "Pears are green.\n"), Report{Files: 2, Chunks: 2, Embedded: 2})
	f.expect(learn([]string{"-"}, "Pears are green.\n"), Report{Files: 1, Chunks: 1, Skipped: 1})
	f.expect(learn([]string{"-"}, "Plums are blue.\n"), Report{Files: 1, Chunks: 1, Embedded: 1})
	t.Chdir(f.docs)
	learn([]string{"."}, "")
	if r := f.query("plums", QueryOptions{K: 1}); r.Chunks[0].Text != "Plums are blue." || !strings.Contains(r.Context, "[Source: -:1]") {
		t.Errorf("%+v", r)
	}
}

// TestTokens counts tokens in another way, which splits files again.
func TestTokens(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", strings.Repeat("One sentence of six words here. ", 12))
	f.learn("b", counted)
	f.opts.Tokens = Tokens{Name: "bytes", Count: func(text string) int { return len(text) }}
	r := f.learn("b", nil)
	if r.Skipped != 0 || r.Chunks < 10 {
		t.Errorf("%+v", r)
	}
	for _, c := range f.query("sentence", QueryOptions{K: 20}).Chunks {
		if len(c.Text) > 40 {
			t.Errorf("%q", c.Text)
		}
	}
	if r := f.learn("b", nil); r.Skipped != 1 {
		t.Errorf("%+v", r)
	}
}

func TestMismatch(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	f.learn("gamedex", counted)
	const message = `Embedding configuration mismatch for base 'gamedex':
  Expected: provider=counting, model=m, dimensions=64
  Found: provider=openai, model=text-embedding-3-small, dimensions=1536

To change embedding configuration, clean and recreate the base:
  vecbolt rag clean gamedex
  vecbolt rag learn gamedex --path ...`
	other := &Config{Provider: "openai", Model: "text-embedding-3-small", Embedding: Embedding{Dimensions: 1536}}
	_, err := f.Learn(t.Context(), "gamedex", LearnOptions{Paths: []string{f.docs}, Config: other})
	if !errors.Is(err, embed.ErrMismatch) || !strings.Contains(err.Error(), message) {
		t.Errorf("%v", err)
	}
	// The file is edited and disagrees with the configuration pinned in the database.
	c, err := f.Config("gamedex")
	if err != nil {
		t.Fatal(err)
	}
	c.Embedding.Dimensions = 128
	if err := f.save(c); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Learn(t.Context(), "gamedex", LearnOptions{Paths: []string{f.docs}}); !errors.Is(err, embed.ErrMismatch) {
		t.Error(err)
	}
	if _, err := f.Query(t.Context(), "gamedex", "apples", QueryOptions{}); !errors.Is(err, embed.ErrMismatch) {
		t.Error(err)
	}
	s, err := f.Status(t.Context(), "gamedex")
	if err != nil || !strings.Contains(s.Mismatch, "dimensions=128") {
		t.Errorf("%+v, %v", s, err)
	}
	// So is it when the file is gone.
	if err := os.Remove(f.ConfigPath("gamedex")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Learn(t.Context(), "gamedex", LearnOptions{Paths: []string{f.docs}}); !errors.Is(err, embed.ErrMismatch) {
		t.Error(err)
	}
	if err := f.Clean("gamedex"); err != nil {
		t.Fatal(err)
	}
	f.learn("gamedex", nil)
}

// TestMismatchOfDefaults asks for an embedder whose model and dimension are not
// said, without contacting its provider.
func TestMismatchOfDefaults(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	f.learn("b", nil)
	for _, tt := range []struct {
		asked Config
		found string
	}{
		{Config{Provider: "openai"}, "provider=openai, model=text-embedding-3-small, dimensions=1536\n"},
		{Config{Provider: "openai", Model: "text-embedding-3-large"}, "provider=openai, model=text-embedding-3-large, dimensions=3072\n"},
		{Config{Embedding: Embedding{Dimensions: 128}}, "provider=hash, model=trigram-v1, dimensions=128\n"},
		{Config{Embedding: Embedding{Dimensions: 128}}, "vecbolt rag reembed b --provider hash --model trigram-v1 --dimensions 128"},
		{Config{Provider: "openai"}, "vecbolt rag reembed b --provider openai --model text-embedding-3-small --dimensions 1536\n"},
		{Config{Provider: "ollama", Model: "nomic-embed-text"}, "provider=ollama, model=nomic-embed-text, dimensions=0\n"},
	} {
		_, err := f.Learn(t.Context(), "b", LearnOptions{Paths: []string{f.docs}, Config: &tt.asked})
		if !errors.Is(err, embed.ErrMismatch) || !strings.Contains(err.Error()+"\n", tt.found) {
			t.Errorf("%+v: %v", tt.asked, err)
		}
	}
	// Nothing could be embedded again with an embedder that there is not.
	for _, tt := range []struct {
		asked Config
		want  error
	}{
		{Config{Provider: "nope"}, embed.ErrProviderNotFound},
		{Config{Provider: "ollama"}, embed.ErrConfig}, // of which model?
		{Config{Model: "nope"}, embed.ErrConfig},
	} {
		_, err := f.Learn(t.Context(), "b", LearnOptions{Paths: []string{f.docs}, Config: &tt.asked})
		if !errors.Is(err, tt.want) || errors.Is(err, embed.ErrMismatch) || strings.Contains(err.Error(), "reembed") {
			t.Errorf("%+v: %v", tt.asked, err)
		}
	}
}

// TestChange changes what does not concern the vectors of a base.
func TestChange(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", strings.Repeat("One sentence of six words here. ", 12))
	f.expect(f.learn("b", counted), Report{Files: 1, Chunks: 3, Embedded: 3})
	f.expect(f.learn("b", &Config{Provider: "counting", Model: "m"}), Report{Files: 1, Chunks: 3, Skipped: 1})
	if r := f.learn("b", &Config{ChunkSize: 10, ChunkOverlap: -1}); r.Chunks != 12 || r.Skipped != 0 {
		t.Errorf("%+v", r)
	}
	f.learn("b", &Config{MaxContextTokens: 100, Embedding: Embedding{BatchSize: 7}})
	f.expect(f.learn("b", nil), Report{Files: 1, Chunks: 12, Skipped: 1})
	want := Config{Name: "b", Provider: "counting", Model: "m", Embedding: Embedding{Dimensions: 64, BatchSize: 7}, ChunkSize: 10, ChunkOverlap: -1, MaxContextTokens: 100}
	if c, err := f.Config("b"); err != nil || !cmp.Equal(c, want) {
		t.Errorf("%+v, %v", c, err)
	}
	if e, err := f.Embedder(t.Context(), "b"); err != nil || e.Dimensions() != 64 {
		t.Error(e, err)
	}
	for _, c := range []Config{{ChunkSize: 4}, {ChunkSize: 16, ChunkOverlap: 16}, {MaxContextTokens: -1}} {
		for _, name := range []string{"b", "c"} { // neither changed nor made
			if _, err := f.Learn(t.Context(), name, LearnOptions{Paths: []string{f.docs}, Config: &c}); !errors.Is(err, ErrConfig) {
				t.Errorf("%+v of %s: %v", c, name, err)
			}
		}
	}
	if c, err := f.Config("b"); err != nil || !cmp.Equal(c, want) {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := f.Embedder(t.Context(), "c"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// TestConfigByHand learns with a file that says little.
func TestConfigByHand(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	write := func(config string) {
		t.Helper()
		err := os.MkdirAll(f.dir("b"), 0o700)
		if err == nil {
			err = os.WriteFile(f.ConfigPath("b"), []byte(config), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("name: b\nprovider: mock\nembedding:\n  provider_config:\n    # nothing\nchunk_overlap: 0\n")
	f.expect(f.learn("b", nil), Report{Files: 1, Chunks: 1, Embedded: 1})
	f.expect(f.learn("b", &Config{Provider: "mock", Model: "trigram-v1"}), Report{Files: 1, Chunks: 1, Skipped: 1})
	f.query("apples", QueryOptions{})
	if c, err := f.Config("b"); err != nil || c.ChunkOverlap >= 0 || c.ChunkSize != 512 {
		t.Errorf("%+v, %v", c, err)
	}
	write("provider: mock\nmodel: trigram-v1\nembedding:\n  normalize: true\n")
	_, err := f.Learn(t.Context(), "b", LearnOptions{Paths: []string{f.docs}})
	if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "embedding.normalize: the base has vectors with false; vecbolt rag reembed b") {
		t.Error(err)
	}
	write("provider: mock\nmodel: trigram-v1\nembedding:\n  dimensions: 100\n")
	if _, err := f.Learn(t.Context(), "b", LearnOptions{Paths: []string{f.docs}}); !errors.Is(err, embed.ErrMismatch) {
		t.Error(err)
	}
}

// TestCacheIsShared learns texts that a server has already embedded, and queries them.
func TestCacheIsShared(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		var body struct{ Input []string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		fmt.Fprint(w, `{"data":[{"index":0,"embedding":[1,2,3]}]}`)
	}))
	defer server.Close()
	c := &Config{Provider: "openai", Model: "m", Embedding: Embedding{ProviderConfig: map[string]any{"api_base": server.URL}}}
	f.expect(f.learn("b", c), Report{Files: 1, Chunks: 1, Embedded: 1})
	if err := os.RemoveAll(filepath.Join(f.dir("b"), firstIndex)); err != nil {
		t.Fatal(err)
	}
	before := requests
	// Requesting the present settings does not rewrite the file.
	const note = "# the office server\n"
	text, err := os.ReadFile(f.ConfigPath("b"))
	if err == nil {
		err = os.WriteFile(f.ConfigPath("b"), append([]byte(note), text...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.learn("b", c)
	if text, err = os.ReadFile(f.ConfigPath("b")); err != nil || !strings.HasPrefix(string(text), note) {
		t.Errorf("%s, %v", text, err)
	}
	again, err := New(f.workspace, &Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Learn(t.Context(), "b", LearnOptions{Paths: []string{f.docs}}); err != nil {
		t.Fatal(err)
	}
	if _, err := again.Query(t.Context(), "b", "Apples are red.", QueryOptions{}); err != nil || requests != before {
		t.Errorf("%d requests, then %d, %v", before, requests, err)
	}
}

// TestAskWhileLearning asks a base from within Learn, and learns it from within
// a question, which has to wait.
func TestAskWhileLearning(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	f.write("b.txt", "Pears are green.")
	f.learn("b", counted)
	asked := 0
	o := LearnOptions{Paths: []string{f.docs}, Progress: func(string) {
		if r := f.query("apples", QueryOptions{K: 1}); r.Chunks[0].Text == "Apples are red." {
			asked++
		}
		if s, err := f.Status(t.Context(), "b"); err != nil || s.Learning == nil || !strings.HasSuffix(s.Learning.File, ".txt") {
			t.Error(s, err)
		}
	}}
	if _, err := f.Learn(t.Context(), "b", o); err != nil || asked != 2 {
		t.Errorf("asked %d times, %v", asked, err)
	}
	if s, err := f.Status(t.Context(), "b"); err != nil || s.Learning != nil {
		t.Error(s, err)
	}
	c, err := f.Config("b")
	if err != nil {
		t.Fatal(err)
	}
	learnt, after := make(chan error), make(chan error)
	f.write("c.txt", "Plums are blue.")
	rewrite := func(ctx context.Context, _ string) ([]string, error) {
		go func() {
			_, err := f.Learn(t.Context(), "b", LearnOptions{Paths: []string{f.docs}})
			learnt <- err
		}()
		g := f.gate(f.database(c))
		for g.places.TryAcquire(1) { // fails when a writer waits
			g.places.Release(1)
			runtime.Gosched()
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.Query(ended, "b", "plums", QueryOptions{}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		go func() { // an unrelated question waits for its turn
			_, err := f.Query(t.Context(), "b", "plums", QueryOptions{})
			after <- err
		}()
		// This read belongs to the question that the writer waits for.
		if _, err := f.Query(ctx, "b", "pears", QueryOptions{K: 1}); err != nil {
			t.Error(err)
		}
		_, err := f.Learn(ctx, "b", LearnOptions{Paths: []string{f.docs}})
		if !errors.Is(err, db.ErrLocked) {
			t.Error(err)
		}
		return []string{"plums"}, nil
	}
	f.query("fruit", QueryOptions{Strategy: rag.MultiQuery(rewrite)})
	if err := errors.Join(<-learnt, <-after); err != nil {
		t.Error(err)
	}
	if r := f.query("plums", QueryOptions{K: 1}); r.Chunks[0].Text != "Plums are blue." {
		t.Errorf("%+v", r)
	}
}

// TestFilesThatMove renames a file, empties one, and names one that is gone.
func TestFilesThatMove(t *testing.T) {
	f := newFixture(t)
	f.write("animals.md", animals)
	f.write("trees.txt", "Oaks live for centuries.")
	f.write("rocks.txt", "Granite is hard.")
	f.learn("b", counted)
	path := func(name string) string { return filepath.Join(f.docs, name) }
	if err := os.Rename(path("animals.md"), path("beasts.md")); err != nil {
		t.Fatal(err)
	}
	f.expect(f.learn("b", nil), Report{Files: 3, Chunks: 4, Skipped: 2, Removed: 1})
	if r := f.query("which animal purrs?", QueryOptions{K: 1}); !strings.HasSuffix(r.Chunks[0].ID, "beasts.md#0") {
		t.Errorf("%+v", r.Chunks)
	}
	f.write("trees.txt", " \n")
	f.expect(f.learn("b", nil), Report{Files: 3, Chunks: 3, Skipped: 2})
	for _, c := range f.query("oaks", QueryOptions{K: 10}).Chunks {
		if strings.Contains(c.Text, "Oaks") {
			t.Errorf("%+v", c)
		}
	}
	if err := os.Remove(path("rocks.txt")); err != nil {
		t.Fatal(err)
	}
	r, err := f.Learn(t.Context(), "b", LearnOptions{Paths: []string{path("rocks.txt"), path("beasts.md")}})
	if err != nil {
		t.Fatal(err)
	}
	f.expect(*r, Report{Files: 1, Chunks: 2, Skipped: 1, Removed: 1})
	if _, err := f.Learn(t.Context(), "b", LearnOptions{Paths: []string{path("rocks.txt")}}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestConfigFile(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	r, err := f.Learn(t.Context(), "b", LearnOptions{Paths: []string{f.docs}})
	if err != nil || r.Files != 1 {
		t.Fatal(r, err)
	}
	b, err := os.ReadFile(f.ConfigPath("b"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `name: b
provider: hash
model: trigram-v1
embedding:
  dimensions: 384
  normalize: true
  batch_size: 100
chunk_size: 512
chunk_overlap: 64
max_context_tokens: 2048
`
	if diff := cmp.Diff(want, string(b)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	c, err := f.Config("b")
	if err != nil || !cmp.Equal(c, Defaults("b")) {
		t.Error(c, err)
	}
	for _, wrong := range []string{"nonsense: 1\n", "chunk_size: [\n", "chunk_size: many\n"} {
		if err := os.WriteFile(f.ConfigPath("b"), []byte(wrong), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Config("b"); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "config.yaml") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	for _, name := range []string{"", "..", "a/b", ".hidden", "x y"} {
		if _, err := f.Learn(t.Context(), name, LearnOptions{Paths: []string{f.docs}}); !errors.Is(err, ErrConfig) {
			t.Errorf("%q: %v", name, err)
		}
		if err := f.Clean(name); !errors.Is(err, ErrConfig) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := f.Learn(t.Context(), "c", LearnOptions{}); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
	if _, err := f.Learn(t.Context(), "c", LearnOptions{Paths: []string{"/does/not/exist"}}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, err := f.Learn(t.Context(), "c", LearnOptions{Paths: []string{f.docs}, Config: &Config{Provider: "nobody", Model: "x"}}); !errors.Is(err, embed.ErrProviderNotFound) {
		t.Error(err)
	}
	if _, err := f.Query(t.Context(), "c", "x", QueryOptions{}); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// TestCleanLeavesOpenBases pulls no database away from under a reader.
func TestCleanLeavesOpenBases(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	f.learn("b", counted)
	vdb, err := db.Open(f.database(Config{Name: "b"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	if err := f.Clean("b"); !errors.Is(err, db.ErrLocked) {
		t.Error(err)
	}
	if _, err := f.Config("b"); err != nil {
		t.Error(err)
	}
}

// TestQueryDuringClean opens a base whose database vanishes while it is opened.
func TestQueryDuringClean(t *testing.T) {
	for _, tt := range []struct {
		name   string
		remove func(*fixture) error
	}{
		{"the base", func(f *fixture) error { return f.Clean("b") }},
		{"the database alone", func(f *fixture) error { return removeIndex(f.database(Config{Name: "b"})) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			f.write("a.txt", "Apples are red.")
			f.learn("b", counted)
			_, err := f.readBy(t.Context(), "b", func(context.Context, string) (*db.DB, func() error, error) {
				if err := tt.remove(f); err != nil {
					t.Error(err)
				}
				return nil, nil, fmt.Errorf("%w: seg/00000001.vec: no such file", db.ErrCorrupt)
			})
			if !errors.Is(err, ErrNotFound) || errors.Is(err, db.ErrCorrupt) {
				t.Error(err)
			}
		})
	}
}

// TestInterruptedClean removes what an earlier Clean has left.
func TestInterruptedClean(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	f.learn("b", counted)
	index := f.database(Config{Name: "b"})
	if err := os.Rename(index, index+removedSuffix); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Query(t.Context(), "b", "red?", QueryOptions{}); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if err := f.Clean("b"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(f.dir("b")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// BenchmarkLearnUnchanged learns 1,000 files that have not changed.
func BenchmarkLearnUnchanged(b *testing.B) {
	f := newFixture(b)
	for i := range 1000 {
		f.write(fmt.Sprintf("%d/%d.md", i%10, i), fmt.Sprintf("# File %d\n\n%s", i, strings.Repeat("Some text that is not short. ", 100)))
	}
	f.learn("b", counted)
	for b.Loop() {
		if r := f.learn("b", nil); r.Skipped != 1000 || r.Embedded != 0 {
			b.Fatalf("%+v", r)
		}
	}
}
