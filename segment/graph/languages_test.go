package graph

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/synthetic"
)

// translated returns texts in eight languages, each text in every one, and a source of further
// texts in a language, or in none if it is negative. A language is an offset, much longer than the
// differences of texts. All texts have a part in common.
func translated(texts, dim int) (d *data, further func(language int) []float32) {
	const languages, offset, common, length, noise, topics = 8, 1.5, 1, 0.6, 0.005, 12
	r := rand.New(rand.NewPCG(4, uint64(dim)))
	directions := make([][]float32, topics)
	for i := range directions { // at right angles to all languages and to the common part
		directions[i] = append(make([]float32, languages+1), normal(r, dim-languages-1, length)...)
	}
	text := func() []float32 {
		x := make([]float32, dim)
		x[languages] = common
		for _, y := range directions {
			times := r.NormFloat64() / math.Sqrt(float64(dim*topics))
			for i, v := range y {
				x[i] += float32(times * float64(v))
			}
		}
		return x
	}
	in := func(x []float32, language int) []float32 {
		if language < 0 {
			return x
		}
		y := near(r, x, noise)
		y[language] += offset
		return y
	}
	d = &data{vectors{Dim: dim}}
	for range texts {
		x := text()
		for language := range languages {
			d.Vecs = append(d.Vecs, in(x, language)...)
		}
	}
	return d, func(language int) []float32 { return in(text(), language) }
}

// TestNoLanguage: texts without a language get the recall asked for. Their neighbours are in all
// languages at once, and few links are between these. Without trials of this kind 0.71 is found.
func TestNoLanguage(t *testing.T) {
	const k, recall = 10, 0.8
	d, further := translated(350, 64)
	g := d.created(t, fileformat.Cosine, Options{Planned: true, layout: plain})
	keepsRecall(t, g, d, fileformat.Cosine, k, recall, func() []float32 { return further(-1) })
}

// TestWithoutFirst: trials without the first principal components have nothing of what tells the
// languages apart. There are none for other metrics, or where no component is strong.
func TestWithoutFirst(t *testing.T) {
	const dim, languages = 64, 8
	texts, _ := translated(100, dim)
	even, _ := make1("normal", dim, 800, 0)
	for _, c := range []struct {
		d      *data
		metric fileformat.Metric
		want   int
	}{{texts, fileformat.Cosine, 90}, {texts, fileformat.L2, 0}, {texts, fileformat.Dot, 0}, {even, fileformat.Cosine, 0}} {
		trials, err := newBuilder(t.Context(), c.d.graph(t, c.metric, Options{quiet: true}), 1).queries(c.d.Source)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, trial := range trials {
			if trial.kind != synthetic.WithoutFirst {
				continue
			}
			n++
			low, high := trial.vec[0], trial.vec[0]
			for _, v := range trial.vec[:languages] {
				low, high = min(low, v), max(high, v)
			}
			if high-low > 0.1 {
				t.Errorf("a trial has %.3f to %.3f of the languages", low, high)
			}
		}
		if n != c.want {
			t.Errorf("metric %v: %d trials, want %d", c.metric, n, c.want)
		}
	}
}
