package embed_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/rag/embed"
)

// wordVectors writes a file of word vectors and returns its name.
func wordVectors(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tiny.txt")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// model2Vec writes a model in which "a" has the vector (x, 1), and "b" (3, 4).
func model2Vec(t *testing.T, x float32) string {
	t.Helper()
	header := `{"embeddings":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}}`
	b := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	for _, f := range []float32{x, 1, 3, 4, 3, 4} {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	dir := filepath.Join(t.TempDir(), "tiny")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"model.safetensors": string(b),
		"tokenizer.json": `{"pre_tokenizer":{"type":"WhitespaceSplit"},"model":{"type":"WordLevel","unk_token":"?","vocab":{"a":0,"?":1,"b":2}}}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Questions and passages get the prompts of the model, or those of the configuration, through every
// wrapper.
func TestPrompts(t *testing.T) {
	dir := model2Vec(t, 0)
	none := embed.Config{Provider: "model2vec", Settings: map[string]any{"model_path": dir}}
	e, err := embed.Open(t.Context(), none, nil)
	if err != nil {
		t.Fatal(err)
	}
	if embed.Queries(e) != e || embed.Queries(embed.Batches(e, nil)).(interface{ Queries() embed.Embedder }).Queries() != nil {
		t.Error("without prompts, questions are embedded like passages")
	}
	config := `{"prompts":{"query":"b ","document":"","passage":"b b "},"default_prompt_name":null}`
	if err := os.WriteFile(filepath.Join(dir, "config_sentence_transformers.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cache, err := embed.NewCache(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		settings       map[string]any
		query, passage []float32
	}{
		{map[string]any{}, []float32{0.51449573, 0.8574929}, []float32{0, 1}},
		{map[string]any{"passage_prompt": "b b b "}, []float32{0.51449573, 0.8574929}, []float32{0.56920997, 0.8221922}},
		{map[string]any{"query_prompt": "", "passage_prompt": ""}, []float32{0, 1}, []float32{0, 1}},
	} {
		tt.settings["model_path"] = dir
		e, err := embed.Open(t.Context(), embed.Config{Provider: "model2vec", Settings: tt.settings}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, wrapped := range map[string]embed.Embedder{
			"bare": e, "batches": embed.Batches(e, nil), "retry": embed.Retry(e, nil), "limit": embed.Limit(e, embed.LimitOptions{PerSecond: 1e6}),
			"cache": cache.Wrap(e), "cache of batches": cache.Wrap(embed.Batches(e, nil)),
		} {
			for range 2 { // the second time from the cache
				for text, each := range map[string]struct {
					e    embed.Embedder
					want []float32
				}{"query": {embed.Queries(wrapped), tt.query}, "passage": {wrapped, tt.passage}} {
					got, err := each.e.Embed(t.Context(), "a")
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(each.want, got); diff != "" {
						t.Errorf("%v, %s, %s: %s", tt.settings, name, text, diff)
					}
				}
			}
		}
		unit := embed.Queries(embed.Normalize(e))
		if v, err := unit.Embed(t.Context(), "a"); err != nil || math.Abs(math.Hypot(float64(v[0]), float64(v[1]))-1) > 1e-6 {
			t.Error(v, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "config_sentence_transformers.json"), []byte(`{"prompts":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := embed.Open(t.Context(), none, nil); !errors.Is(err, embed.ErrConfig) {
		t.Error(err)
	}
}

func TestLocalProviders(t *testing.T) {
	for _, tt := range []struct {
		config embed.Config
		text   string
		model  string
		want   []float32
	}{
		{embed.Config{Provider: "words", Settings: map[string]any{"model_path": wordVectors(t, "tea 3 4\n")}}, "Tea!", "tiny.txt", []float32{0.6, 0.8}},
		{embed.Config{Provider: "model2vec", Model: "mine", Dimensions: 2, Settings: map[string]any{"model_path": model2Vec(t, 0), "threads": 3}}, "a a", "mine", []float32{0, 1}},
		{embed.Config{Provider: "gguf", Settings: map[string]any{"model_path": "bert/testdata/tiny.gguf"}}, "", "tiny", nil},
		{embed.Config{Provider: "bert", Settings: map[string]any{"model_path": "bert/testdata/tiny.gguf"}}, "", "tiny", nil},
	} {
		e, err := embed.Open(t.Context(), tt.config, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		v := vector(t, e, tt.text)
		if e.Provider() != tt.config.Provider || e.Model() != tt.model || e.Dimensions() != len(v) || tt.want != nil && !cmp.Equal(v, tt.want) {
			t.Errorf("%s %s %d: %v", e.Provider(), e.Model(), e.Dimensions(), v)
		}
	}
}

func TestLocalBatches(t *testing.T) {
	var words strings.Builder
	var list []string
	for i := range 300 {
		fmt.Fprintf(&words, "w%d %d 1\n", i, i)
		list = append(list, fmt.Sprintf("w%d", i))
	}
	name := wordVectors(t, words.String())
	for _, threads := range []int{0, 1, 7} {
		e, err := embed.Local("words", name, &embed.LocalOptions{Threads: threads})
		if err != nil {
			t.Fatal(err)
		}
		vecs, err := e.EmbedBatch(t.Context(), list)
		if err != nil || len(vecs) != 300 {
			t.Fatal(len(vecs), err)
		}
		for i, v := range vecs {
			if math.Abs(float64(v[0]/v[1])-float64(i)) > 1e-3 {
				t.Fatalf("%d: %v", i, v)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := e.EmbedBatch(ctx, list); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if vecs, err := e.EmbedBatch(t.Context(), nil); len(vecs) != 0 || err != nil {
			t.Error(vecs, err)
		}
	}
}

func TestLocalErrors(t *testing.T) {
	for _, c := range []embed.Config{
		{Provider: "words"},
		{Provider: "words", Settings: map[string]any{"model_path": ""}},
		{Provider: "words", Settings: map[string]any{"model_path": filepath.Join(t.TempDir(), "none")}},
		{Provider: "words", Settings: map[string]any{"model_path": wordVectors(t, "tea x\n")}},
		{Provider: "words", Dimensions: 3, Settings: map[string]any{"model_path": wordVectors(t, "tea 3 4\n")}},
		{Provider: "model2vec", Settings: map[string]any{"model_path": t.TempDir()}},
		{Provider: "bert", Settings: map[string]any{"model_path": t.TempDir()}},
		{Provider: "gguf", Settings: map[string]any{"model_path": wordVectors(t, "tea 3 4\n"), "threads": -1}},
	} {
		if _, err := embed.Open(t.Context(), c, nil); !errors.Is(err, embed.ErrConfig) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := embed.Local("x", "y", nil); !errors.Is(err, embed.ErrProviderNotFound) {
		t.Error(err)
	}
	// Weights that are no numbers are found out at the first text that meets them.
	e, err := embed.Local("model2vec", model2Vec(t, float32(math.NaN())), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Embed(t.Context(), "a"); !errors.Is(err, embed.ErrInvalidResponse) {
		t.Error(err)
	}
}

// Two models of the same name have their own entries in a cache.
func TestLocalModelsDoNotShareEntries(t *testing.T) {
	cache := newCache(t, t.TempDir(), embed.CacheOptions{})
	for _, x := range []float32{0, 1, 2} {
		e, err := embed.Local("model2vec", model2Vec(t, x), nil)
		if err != nil {
			t.Fatal(err)
		}
		want := vector(t, e, "a")
		if got := vector(t, cache.Wrap(embed.Batches(e, nil)), "a"); !cmp.Equal(got, want) {
			t.Errorf("%v: %v, want %v", x, got, want)
		}
		if got := vector(t, cache.Wrap(e), "a"); !cmp.Equal(got, want) {
			t.Error(got)
		}
	}
	if s := cache.Stats(); s.Misses != 3 || s.Hits != 3 {
		t.Errorf("%+v", s)
	}
}

// Models of the same weights and the same name share no vectors if another file makes them differ.
func TestLocalModelsDoNotShareSettings(t *testing.T) {
	cache := newCache(t, t.TempDir(), embed.CacheOptions{})
	const swapped = `{"pre_tokenizer":{"type":"WhitespaceSplit"},"model":{"type":"WordLevel","unk_token":"?","vocab":{"b":0,"?":1,"a":2}}}`
	for _, tt := range []struct {
		file, content string
		want          []float32
	}{
		{"README.md", "no setting", []float32{0.9805807, 0.19611613}},
		{"config.json", `{"normalize":false}`, []float32{5, 1}},
		{"config_sentence_transformers.json", `{"normalize":false}`, []float32{5, 1}},
		{"modules.json", `[]`, []float32{5, 1}},
		{"tokenizer.json", swapped, []float32{0.6, 0.8}},
	} {
		dir := model2Vec(t, 5)
		if err := os.WriteFile(filepath.Join(dir, tt.file), []byte(tt.content), 0o600); err != nil {
			t.Fatal(err)
		}
		e, err := embed.Local("model2vec", dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got := vector(t, cache.Wrap(e), "a"); !cmp.Equal(got, tt.want) {
				t.Errorf("%s: %v, want %v", tt.file, got, tt.want)
			}
		}
	}
	if s := cache.Stats(); s.Misses != 5 || s.Hits != 5 {
		t.Errorf("%+v", s)
	}
}

// A model whose files cannot be read, so that it cannot be told from others, shares no cache.
func TestLocalFilesAreRead(t *testing.T) {
	dir := model2Vec(t, 5)
	if err := os.Mkdir(filepath.Join(dir, "vocab.txt"), 0o700); err != nil {
		t.Fatal(err)
	}
	cache, err := embed.NewCache(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		e, err := embed.Local("model2vec", dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		vector(t, cache.Wrap(e), "a")
	}
	if s := cache.Stats(); s.Misses != 2 || s.Hits != 0 {
		t.Errorf("%+v", s)
	}
}
