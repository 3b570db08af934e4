package english_test

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/embed/static/english"
)

func cosine(a, b []float32) float64 {
	sum := 0.0
	for i, x := range a {
		sum += float64(x) * float64(b[i])
	}
	return sum
}

// The model and its vocabulary stay below 8 MB.
func TestSize(t *testing.T) {
	bytes := int64(0)
	for _, name := range []string{"model.safetensors", "vocab.txt"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}
	if bytes > 8e6 {
		t.Errorf("%d bytes", bytes)
	}
	if english.Model().Dim() != 256 {
		t.Error(english.Model().Dim())
	}
}

// Texts are nearer to texts of the same meaning than to others, with no word in common.
func TestMeaning(t *testing.T) {
	for _, tt := range []struct{ text, near, far string }{
		{"automobile", "car", "banana"},
		{"a physician treats the sick", "doctors care for patients in a hospital", "the ship crossed the ocean"},
		{"How do I reset my password?", "Recover the login credentials of an account", "Bake bread with yeast and flour"},
		{"heart attack", "myocardial infarction", "stock market"},
		{"the king and the queen", "royal monarchs", "a computer program"},
		{"error while connecting to the database", "SQL server refused the connection", "flowers in the garden"},
	} {
		text, near, far := english.Model().
			Embed(tt.text),
			english.Model().
				Embed(tt.near),
			english.Model().
				Embed(tt.far)
		a, b := cosine(text, near), cosine(text, far)
		t.Logf("%-40s %.3f %.3f", tt.text, a, b)
		if a < b+0.1 {
			t.Errorf("%q: %.3f to %q, %.3f to %q", tt.text, a, tt.near, b, tt.far)
		}
	}
}

// Any text has a finite vector of length 1, or zero if no token is known.
func TestTexts(t *testing.T) {
	for text, want := range map[string]float64{
		"": 0, " \n": 0, "中文": 0, "\xff\xfe\x00": 0, "x": 1, "Grüße aus Ulm": 1, "[CLS] word": 1, "[PAD]": 0,
		strings.Repeat("word ", 100_000): 1, strings.Repeat("a", 10_000): 0,
	} {
		v := english.Model().Embed(text)
		if n := cosine(v, v); math.Abs(n-want) > 1e-6 || len(v) != 256 {
			t.Errorf("%.20q: length² %v, want %v", text, n, want)
		}
	}
	if a, b := english.Model().Embed("The WING, lift!"), english.Model().Embed("the wing , lift !"); cosine(
		a,
		b,
	) < 1-1e-6 {
		t.Error("case and spaces matter")
	}
}

func TestProvider(t *testing.T) {
	registry := embed.NewRegistry(append(embed.Builtin(), english.Provider())...)
	e, err := registry.Open(t.Context(), english.Config(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if e.Provider() != "static" || e.Model() != "english-v1" || e.Dimensions() != 256 {
		t.Error(e.Provider(), e.Model(), e.Dimensions())
	}
	vecs, err := e.EmbedBatch(t.Context(), []string{"one", "two"})
	if err != nil || len(vecs) != 2 || cosine(vecs[0], english.Model().Embed("one")) < 1-1e-6 {
		t.Error(vecs, err)
	}
	for _, c := range []embed.Config{{Provider: "static", Model: "french-v1"}, {Provider: "static", Dimensions: 128}} {
		if _, err := registry.Open(t.Context(), c, nil); !errors.Is(err, embed.ErrConfig) {
			t.Errorf("%v: %v", c, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Embed(ctx, "one"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Texts of 200 words, and a question.
func BenchmarkEmbed(b *testing.B) {
	model := english.Model()
	long := strings.Repeat(
		"The lift of a wing in a slipstream depends on its angle of attack, and on the propeller's speed. ",
		11,
	)
	for name, text := range map[string]string{"200 words": strings.Join(strings.Fields(long)[:200], " "), "question": "How does the lift of a wing depend on its angle?"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				model.Embed(text)
			}
		})
	}
}
