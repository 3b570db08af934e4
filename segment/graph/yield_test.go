package graph

import (
	"bytes"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/codes"
)

// A graph has the same bytes whenever its workers yield, and whichever of them work.
func TestYield(t *testing.T) {
	const n, dim = 700, 12
	rng := rand.New(rand.NewPCG(3, 4))
	x := make([]float32, n*dim)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	build := func(opts Options) []byte {
		t.Helper()
		var b blocks.Memory
		ident := codes.Ident{Rows: n, Dim: dim, Metric: fileformat.Cosine}
		rows := func(lo, hi int) ([]float32, error) { return x[lo*dim : hi*dim], nil }
		if _, err := Write(t.Context(), &b, ident, rows, opts); err != nil {
			t.Fatal(err)
		}
		return b
	}
	want := build(Options{Workers: 1, Trials: 20})
	var yields, asked atomic.Int64
	yield := func() { yields.Add(1) }
	for what, alone := range map[string]func() bool{
		"never alone":  nil,
		"always alone": func() bool { return true },
		"now and then": func() bool { return asked.Add(1)%3 == 0 },
	} {
		if yields.Store(0); !bytes.Equal(build(Options{Workers: 3, Trials: 20, Yield: yield, Alone: alone}), want) {
			t.Errorf("%s: another graph", what)
		}
		if yields.Load() == 0 {
			t.Errorf("%s: no worker yielded", what)
		}
	}
}
