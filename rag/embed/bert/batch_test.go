package bert_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/rag/embed/bert"
	"github.com/vecbolt/vecbolt/simd"
)

// A vector depends on its text alone: it has the same bits in every batch and on every number of
// threads.
func TestEmbedBatch(t *testing.T) {
	old := runtime.GOMAXPROCS(4)
	t.Cleanup(func() { runtime.GOMAXPROCS(old) })
	for _, shape := range [][4]int{{2, 4, 48, 80}, {1, 3, 96, 200}, {1, 1, 7, 9}} {
		testBatches(t, open(t, newMade(shape[0], shape[1], shape[2], shape[3], 90, words).dir(t, nil)))
	}
	model := open(t, newMade(1, 3, 96, 200, 90, words).dir(t, nil))
	if err := model.Quantize(); err != nil {
		t.Fatal(err)
	}
	testBatches(t, model)
}

func testBatches(t *testing.T, model *bert.Model) {
	alone := map[string][]float32{}
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		texts := make([]string, rapid.SampledFrom([]int{0, 1, 2, 3, 5, 9, 40}).Draw(t, "texts"))
		for i := range texts {
			texts[i] = strings.Repeat([]string{"tea ", "the green ", "un able cups, "}[rng.IntN(3)], rng.IntN(rapid.SampledFrom([]int{2, 12, 70}).Draw(t, "most")))
		}
		threads := rapid.IntRange(0, 5).Draw(t, "threads")
		got, err := model.EmbedBatch(context.Background(), texts, threads)
		if err != nil || len(got) != len(texts) {
			t.Fatalf("%d vectors: %v", len(got), err)
		}
		for i, text := range texts {
			if alone[text] == nil {
				alone[text] = model.Embed(text)
			}
			if !slices.Equal(got[i], alone[text]) {
				t.Fatalf("text %d of %d, %d threads: another vector than alone", i, len(texts), threads)
			}
		}
	})
}

// The vectors of a model of rounded weights are near the others.
func TestQuantize(t *testing.T) {
	m := newMade(3, 4, 64, 256, 90, words)
	dir := m.dir(t, nil)
	plain, model := open(t, dir), open(t, dir)
	for range 2 { // the second call does nothing
		if err := model.Quantize(); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"", "tea", "the green teacups, unable", strings.Repeat("a cup of tea. ", 20)} {
		a, b := plain.Embed(text), model.Embed(text)
		if c := simd.Cosine64(a, b); c < 0.999 || slices.Equal(a, b) {
			t.Errorf("%q: cosine %v", text, c)
		}
	}
	m.tensors["encoder.layer.2.output.dense.weight"].data[77] = float32(math.Inf(1))
	model = open(t, m.dir(t, nil))
	before := model.Embed("tea")
	if err := model.Quantize(); err == nil || !strings.Contains(err.Error(), "layer 2") {
		t.Errorf("an infinite weight: %v", err)
	}
	if len(before) != 64 {
		t.Error(before)
	}
}

func TestEmbedBatchEnds(t *testing.T) {
	model := open(t, small().dir(t, nil))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if vecs, err := model.EmbedBatch(ctx, []string{"tea", "cup"}, 2); vecs != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", vecs, err)
	}
}
