package graph

import (
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

// TestSameEverywhere: with and without assembly, equal rows make equal files, and searches of these
// give equal answers for equal work. It has rows of every shape in every layout, calibrations, and
// a merge. So .ci/run leaves out the tests of whole graphs where there is no assembly. -update
// writes the checksums anew after a change of graphs.
func TestSameEverywhere(t *testing.T) {
	const name = "testdata/same.txt"
	var lines []string
	add := func(label string, d *data, m fileformat.Metric, opts Options, queries [][]float32) *Graph {
		opts.Codes = d.codes(t, m)
		b := d.file(t, m, opts)
		g, err := Parse(b, d.ident(m), opts.Codes)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s, layout %d, dimension %d, metric %d: file %08x, answers %08x\n", label,
			opts.layout, d.Dim, m, crc32.ChecksumIEEE(b), answersTo(g, queries)))
		return g
	}
	for j, w := range walks {
		for i, shape := range shapeNames() {
			d, queries := make1(shape, w.dim, 300, 4)
			add(shape, d, metrics[(i+j)%len(metrics)], Options{layout: w.layout, quiet: true}, queries)
		}
		if testing.Short() && j > 0 { // an emulator takes minutes for six calibrations
			continue
		}
		const rows, gone = 400, 10
		m, opts := metrics[j%len(metrics)], Options{layout: w.layout, Planned: j%2 == 0}
		d, queries := make1("latent", w.dim, rows, 4)
		opts.Base = add("calibrated", d, m, opts, queries)
		for row := range int32(rows) {
			opts.Rows = append(opts.Rows, max(row-gone, -1))
		}
		more, _ := make1("normal", w.dim, 50, 0)
		opts.quiet = true
		add("merged", &data{vectors{Dim: d.Dim, Vecs: slices.Concat(d.Vecs[gone*d.Dim:], more.Vecs)}}, m, opts, queries)
	}
	got := strings.Join(lines, "")
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if !strings.Contains(string(b), line) {
			t.Errorf("%s does not say %s", name, line)
		}
	}
}

// answersTo returns a checksum of what searches of all kinds find, and of their work.
func answersTo(g *Graph, queries [][]float32) uint32 {
	some := bitset.New(g.Len())
	for row := range g.Len() {
		if row%3 > 0 {
			some.Set(row)
		}
	}
	const k = 10
	sum := crc32.NewIEEE()
	var buf Buffer
	for i, vec := range queries {
		for _, allowed := range []bitset.Set{nil, some} {
			for _, s := range []levels.Setting{
				{EF: k}, {EF: 60, StopRatio: 1.2}, {EF: k, Within: 1e-9, Second: levels.Stage{EF: 150}},
				{EF: 1, Within: levels.AlwaysBeyond, Second: levels.Stage{Deviations: 2}},
			} {
				q := g.Query(vec)
				q.Guard(k, s, 2*g.Len()/3)
				if i%2 > 0 {
					q.Without(i)
				}
				rows, stats, err := q.Find(k, s, allowed, &buf)
				fmt.Fprintln(sum, rows, stats, err)
				for _, dist := range buf.dists {
					fmt.Fprintln(sum, math.Float32bits(dist))
				}
			}
		}
	}
	return sum.Sum32()
}
