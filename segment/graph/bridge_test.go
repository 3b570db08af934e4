package graph

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

// TestBridge compares searches that leave a row out with searches of a graph without it: they find
// about as much or less, and more than searches that only skip the row.
func TestBridge(t *testing.T) {
	const rows, held, k, ef = 2000, 150, 10, 20
	for _, name := range []string{"normal", "latent", "cone"} {
		all, _ := make1(name, 24, rows, 0)
		rest := &data{vectors{Dim: all.Dim, Vecs: all.Vecs[held*all.Dim:]}}
		g, never := all.graph(t, fileformat.L2, Options{quiet: true}), rest.graph(t, fileformat.L2, Options{quiet: true})
		var buf Buffer
		var avoided, out, in int
		for row := range held {
			vec := all.Row(row)
			others := bitset.New(rows)
			others.Fill(rows)
			others.Clear(row)
			truth := exact(fileformat.L2, all, vec, k, others)
			search := func(q *Query, allowed bitset.Set) int {
				hits, _, err := q.Search(k, levels.Setting{EF: ef}, allowed, all.scorer(fileformat.L2, vec), &buf)
				if err != nil || len(hits) != k || slices.ContainsFunc(hits, func(h Hit) bool { return h.Row == row }) {
					t.Fatal(hits, err)
				}
				return common(hits, truth)
			}
			q := queryRow(g, vec, row)
			out += search(q, nil)
			if n := search(q, others); n < k-4 { // by the search without bridges
				t.Errorf("%s: %d found of row %d under a filter", name, n, row)
			}
			for node, links := range q.bridge.links {
				n := count(links)
				distinct := slices.Clone(links[:n])
				slices.Sort(distinct)
				if len(slices.Compact(distinct)) != n || slices.Contains(links[:n], uint32(row)) || slices.Contains(links[:n], node) {
					t.Fatalf("%s: node %d has %v without row %d", name, node, links, row)
				}
			}
			for node := range uint32(rows) { // nothing is in the place of the row
				q.bridge.links[node] = (*[degree]uint32)(g.nodes[int(node)*g.per:])
			}
			avoided += search(q, nil)
			hits, _, err := never.Query(vec).Search(k, levels.Setting{EF: ef}, nil, rest.scorer(fileformat.L2, vec), &buf)
			if err != nil {
				t.Fatal(err)
			}
			in += common(hits, exact(fileformat.L2, rest, vec, k, nil))
		}
		if avoided >= out || out > in+held*k/50 {
			t.Errorf("%s: %d found by avoiding rows, %d by leaving them out, %d without them", name, avoided, out, in)
		}
		t.Logf("%s: %d found by avoiding rows, %d by leaving them out, %d without them", name, avoided, out, in)
	}
	r := rand.New(rand.NewPCG(3, 4)) // duplicates stay
	d := &data{vectors{Dim: 2}}
	for range 50 {
		v := normal(r, 2, 1)
		d.Vecs = append(append(d.Vecs, v...), v...)
	}
	g := d.graph(t, fileformat.L2, Options{quiet: true})
	hits, _, err := queryRow(g, d.Row(4), 4).Search(1, levels.Setting{EF: 10}, nil, d.scorer(fileformat.L2, d.Row(4)), new(Buffer))
	if err != nil || len(hits) != 1 || hits[0].Row != 5 {
		t.Errorf("%v, %v; want the duplicate", hits, err)
	}
}

// queryRow prepares a search for vec, the vector of row, as if the row were absent.
func queryRow(g *Graph, vec []float32, row int) *Query {
	q := g.Query(vec)
	q.Without(row)
	return q
}
