package codes

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// A query that was prepared for one block has certain bounds in every block like it, whatever rows
// that has.
func TestBlocks(t *testing.T) {
	names := kindNames()
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 2))
		dim := rapid.IntRange(1, 200).Draw(t, "dim")
		m := rapid.SampledFrom(metrics).Draw(t, "metric")
		nibbles := rapid.Bool().Draw(t, "nibbles")
		var first, like *Codes
		var q *Query
		var vec []float32
		for range rapid.IntRange(1, 4).Draw(t, "blocks") {
			d, v := draw(r, rapid.SampledFrom(names).Draw(t, "kind"), rapid.SampledFrom(names).Draw(t, "centre"),
				dim, rapid.IntRange(1, 80).Draw(t, "rows"), math.Pow(10, -float64(r.IntN(10))))
			c, err := NewBlock(m, dim, d.Len(), d.Source, like)
			if like == nil { // whether it pays or not
				c, err = newBlock(Ident{Rows: d.Len(), Dim: dim, Metric: m}, d.Source, nibbles, nil, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.HasNibbles() != nibbles {
				t.Fatalf("halved %v", c.HasNibbles())
			}
			if like = c; first == nil {
				first, vec, q = c, v, c.Query(v)
			}
			checkQuery(t, c, q.On(c), m, d, vec)
			if q.On(c).On(first).c != first {
				t.Fatal("a query does not come back")
			}
		}
	})
}

func TestBlockErrors(t *testing.T) {
	source := func(lo, hi int) ([]float32, error) { return make([]float32, (hi-lo)*2), nil }
	if _, err := NewBlock(fileformat.L2, 2, 0, source, nil); err == nil {
		t.Error("a block without rows was made")
	}
	a, err := NewBlock(fileformat.L2, 2, 3, source, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewBlock(fileformat.L2, 2, 3, source, nil)
	if err != nil {
		t.Fatal(err)
	}
	for what, fn := range map[string]func(){
		"a query on other codes":       func() { a.Query([]float32{1, 2}).On(b) },
		"a block like another metric":  func() { _, _ = NewBlock(fileformat.Dot, 2, 3, source, a) },
		"a block of another dimension": func() { _, _ = NewBlock(fileformat.L2, 1, 3, source, a) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", what)
				}
			}()
			fn()
		}()
	}
}
