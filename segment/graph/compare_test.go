package graph

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// withDuplicates returns rows some of which are equal, and some zero.
func withDuplicates(rows, dim int) *data {
	r := rand.New(rand.NewPCG(3, uint64(dim)))
	d := &data{vectors{Dim: dim, Vecs: normal(r, rows*dim, 1)}}
	for i := range rows / 10 {
		copy(d.Row(rows-1-i), d.Row(i*3))
	}
	clear(d.Row(rows / 2))
	clear(d.Row(rows/2 + 1))
	return d
}

// Compare finds nothing wrong with graphs that were built, from scratch or upon other graphs,
// and with each kind of change in a file that is rightly signed.
func TestCompare(t *testing.T) {
	ctx := t.Context()
	for _, layout := range []uint32{plain, quick, shared, quickShared} {
		for _, m := range metrics {
			for _, rows := range []int{10, 300} {
				d := withDuplicates(rows, 9)
				g := d.graph(t, m, Options{layout: layout, quiet: true})
				if err := g.Compare(ctx, d.Source); err != nil {
					t.Errorf("layout %d, %v, %d rows: %v", layout, m, rows, err)
				}
				// Without the first tenth, and with others behind.
				next := &data{vectors{Dim: d.Dim, Vecs: slices.Concat(d.Vecs[rows/10*9:], normal(rand.New(rand.NewPCG(5, 5)), rows/10*9, 1))}}
				places := make([]int32, rows)
				for i := range places {
					places[i] = max(-1, int32(i-rows/10))
				}
				merged := next.graph(t, m, Options{layout: layout, quiet: true, Base: g, Rows: places})
				if err := merged.Compare(ctx, next.Source); err != nil {
					t.Errorf("layout %d, %v, %d rows, merged: %v", layout, m, rows, err)
				}
			}
		}
		d := withDuplicates(200, 9)
		for name, c := range map[string]struct {
			change func(g *Graph)
			want   string
		}{
			"codes":                {func(g *Graph) { g.records[5*int(g.geo.stride)+3] ^= 1 }, "codes of row 5"},
			"level":                {func(g *Graph) { g.records[6*int(g.geo.stride)-10] ^= 1 }, "codes of row 5"},
			"mean":                 {func(g *Graph) { g.mean[0]++ }, "codes of row 0"},
			"duplicate":            {func(g *Graph) { g.duplicates[7] = 8 }, "row 8 is not a duplicate of row 7"},
			"duplicate before":     {func(g *Graph) { g.duplicates[7] = 3 }, "duplicate 3 of row 7"},
			"duplicate is lost":    {func(g *Graph) { g.duplicates[0] = none }, "a node that is not"},
			"duplicate with links": {func(g *Graph) { g.nodes[199*g.per] = 5 }, "row 199 is a duplicate and has neighbours"},
			"neighbour beyond":     {func(g *Graph) { g.nodes[4*g.per] = 200 }, "200 cannot be neighbour 0 of row 4"},
			"neighbour itself":     {func(g *Graph) { g.nodes[4*g.per] = 4 }, "4 cannot be neighbour 0 of row 4"},
			"neighbour twice":      {func(g *Graph) { g.nodes[4*g.per] = g.nodes[4*g.per+1] }, "cannot be neighbour 1 of row 4"},
			"neighbour duplicate":  {func(g *Graph) { g.nodes[4*g.per] = 199 }, "199 cannot be neighbour 0 of row 4"},
			"gap":                  {func(g *Graph) { g.nodes[4*g.per] = none }, "cannot be neighbour 1 of row 4"},
			"entry point":          {func(g *Graph) { g.entryPoints[0] = 199 }, "row 199 is a duplicate that is reachable"},
			"overflow":             {func(g *Graph) { g.over = []uint32{5, 5} }, "row 5 behind row 5"},
			"island": {func(g *Graph) {
				for row := range g.Len() {
					if i := slices.Index(g.nodes[row*g.per:][:degree], 4); i >= 0 {
						links := slices.Delete(slices.Clone(g.nodes[row*g.per:][:degree]), i, i+1)
						copy(g.nodes[row*g.per:], append(links, none))
						if g.Quick() {
							words := g.nodes[row*g.per+degree:][:g.per-degree]
							clear(words)
							new(workerScratch).sketch(g, words, uint32(row), links[:slices.Index(append(links, none), none)])
						}
					}
				}
				g.entryPoints = slices.DeleteFunc(g.entryPoints, func(row uint32) bool { return row == 4 })
			}, "row 4 is a duplicate that is reachable, or a node that is not"},
			"sketches":  {func(g *Graph) { g.sketchBlocks(1, 2)[3] ^= 1 }, "sketches from row 32 on"},
			"estimates": {func(g *Graph) { g.nodes[9*g.per+degree+40] ^= 1 }, "estimates of row 9"},
		} {
			if h := (&header{layout: layout}); name == "estimates" && !h.quick() || name == "mean" && h.shares() {
				continue // has none
			}
			with := d.codes(t, fileformat.L2)
			g, err := create(ctx, d.ident(fileformat.L2), d.Source, Options{layout: layout, quiet: true, Codes: with})
			if err != nil {
				t.Fatal(err)
			}
			c.change(g)
			g.head.entryPoints, g.head.overflow = uint32(len(g.entryPoints)), uint32(len(g.over))
			g.geo = g.head.geometry()
			var b memory
			if _, err := g.write(&b); err != nil {
				t.Fatal(err)
			}
			if g, err = Parse(b, d.ident(fileformat.L2), with); err == nil {
				err = g.Verify()
			}
			if err != nil {
				t.Errorf("layout %d, %s: not rightly signed: %v", layout, name, err)
				continue
			}
			if err := g.Compare(ctx, d.Source); !errors.Is(err, fileformat.ErrDamaged) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("layout %d, %s: %v, want %q", layout, name, err, c.want)
			}
		}
	}
	d := withDuplicates(200, 9)
	b := d.file(t, fileformat.L2, Options{quiet: true})
	b[headerSize]++
	g, err := Parse(b, d.ident(fileformat.L2), nil)
	if err == nil {
		err = g.Compare(ctx, d.Source)
	}
	if !errors.Is(err, fileformat.ErrDamaged) || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a rotten block: %v", err)
	}
	g = d.graph(t, fileformat.L2, Options{quiet: true})
	broken := fmt.Errorf("no rows")
	if err := g.Compare(ctx, func(int, int) ([]float32, error) { return nil, broken }); !errors.Is(err, broken) || errors.Is(err, fileformat.ErrDamaged) {
		t.Errorf("no rows: %v", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if err := g.compareNodes(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
