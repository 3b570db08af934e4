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

// model2Vec writes a model of two tokens, the first of which has the vector
// (x, 1).
func model2Vec(t *testing.T, x float32) string {
	t.Helper()
	header := `{"embeddings":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}`
	b := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	for _, f := range []float32{x, 1, 3, 4} {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(f))
	}
	dir := filepath.Join(t.TempDir(), "tiny")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"model.safetensors": string(b),
		"tokenizer.json": `{"pre_tokenizer":{"type":"WhitespaceSplit"},"model":{"type":"WordLevel","unk_token":"?","vocab":{"a":0,"?":1}}}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
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
