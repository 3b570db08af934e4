package graph

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

// TestFar excludes the neighbourhood of the query: a guarded search gives up, in every walk,
// whether it has seen the excluded nodes or got lost, and however many other rows are excluded. A
// search under a filter that is independent of the query does not give up, nor does one without a
// filter or a guard.
func TestFar(t *testing.T) {
	for _, w := range walks {
		layout := w.layout
		d, queries := make1("latent", w.dim, 3000, 20)
		g := d.graph(t, fileformat.Cosine, Options{quiet: true, layout: layout})
		r := rand.New(rand.NewPCG(1, 2))
		half, n := bitset.New(d.Len()), d.Len()/2
		for _, i := range r.Perm(d.Len())[:n] {
			half.Set(i)
		}
		const k = 10
		s := levels.Setting{EF: 20}
		var buf Buffer
		gaveUp, noticed := 0, 0
		for _, vec := range queries {
			score := d.scorer(fileformat.Cosine, vec)
			order := exact(fileformat.Cosine, d, vec, d.Len(), nil)
			without := func(nearest int) bitset.Set {
				set := bitset.New(d.Len())
				for _, h := range order[nearest:] {
					set.Set(h.Row)
				}
				return set
			}
			for _, c := range []struct {
				allowed bitset.Set
				guarded bool
				want    error
			}{{nil, true, nil}, {without(1), true, nil}, {without(10), true, ErrFar}, {without(n / 10), true, ErrFar}, {without(n), true, ErrFar}, {without(n), false, nil}} {
				q := g.Query(vec)
				if c.guarded {
					q.Guard(k, s, max(c.allowed.Count(), 1))
				}
				hits, stats, err := q.Search(k, s, c.allowed, score, &buf)
				if !errors.Is(err, c.want) || err == nil && len(hits) != k || err != nil && (len(hits) > 0 || stats.Passed < 3) {
					t.Fatalf("%+v: %v, %d hits, %+v", w, err, len(hits), stats)
				}
			}
			// All rows lie too close together for this setting. Where the filter excludes the
			// nearest rows as well, ErrFar is the error, because it tells how to go on.
			strict := s
			strict.Spread = math.MaxFloat32
			for _, c := range []struct {
				allowed bitset.Set
				want    error
			}{{nil, ErrBetween}, {without(1), ErrBetween}, {without(n / 10), ErrFar}} {
				q := g.Query(vec)
				q.Guard(k, strict, max(c.allowed.Count(), 1))
				if _, _, err := q.Search(k, strict, c.allowed, score, &buf); !errors.Is(err, c.want) {
					t.Fatalf("%+v: %v, want %v", w, err, c.want)
				}
			}
			q := g.Query(vec)
			q.Guard(k, s, n)
			if _, _, err := q.Search(k, s, half, score, &buf); err != nil {
				gaveUp++
			}
			// Of that half, the nearest are excluded. They are so few of all excluded rows that the
			// sample hardly holds one: the search has to count the nodes that it expands.
			far := slices.Clone(half)
			for _, h := range order[:40] {
				far.Clear(h.Row)
			}
			q = g.Query(vec)
			q.Guard(k, s, far.Count())
			if _, _, err := q.Search(k, s, far, score, &buf); errors.Is(err, ErrFar) {
				noticed++
			}
			// A lost search: the neighbourhood of the query cannot be reached.
			lost := *g
			lost.entryPoints = []uint32{uint32(order[n].Row)}
			lost.nodes = slices.Repeat([]uint32{none}, len(g.nodes))
			for _, h := range order[n:] {
				lost.nodes[h.Row*g.per] = uint32(order[n].Row)
			}
			for i, h := range order[n+1:][:degree] {
				lost.nodes[order[n].Row*g.per+i] = uint32(h.Row)
			}
			lost.head.layout, lost.rotation = plain, nil
			if g.Quick() {
				continue
			}
			q = lost.Query(vec)
			if q.Guard(k, s, d.Len()-50); true {
				if _, stats, err := q.Search(k, s, without(50), score, &buf); !errors.Is(err, ErrFar) || stats.Passed != 50 {
					t.Fatalf("lost: %v, %+v", err, stats)
				}
			}
		}
		if gaveUp > 1 {
			t.Errorf("%+v: %d of %d searches gave up where half of the rows are allowed", w, gaveUp, len(queries))
		}
		if noticed < len(queries) {
			t.Errorf("%+v: %d of %d searches noticed that the nearest are excluded", w, noticed, len(queries))
		}
	}
}

// TestFarDuplicates excludes half of the rows, and all duplicates of the three vectors nearest to
// the query: these are many rows, though few nodes. Searches notice it. Where only the half is
// excluded they find enough duplicates of the nearest vectors, and do not give up.
func TestFarDuplicates(t *testing.T) {
	for _, w := range walks {
		layout := w.layout
		d, queries := make1("duplicates", w.dim, 3000, 20)
		g := d.graph(t, fileformat.Cosine, Options{quiet: true, layout: layout})
		half := bitset.New(d.Len())
		for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(d.Len())[:d.Len()/2] {
			half.Set(i)
		}
		const k = 10
		s := levels.Setting{EF: 20}
		var buf Buffer
		for i, vec := range queries {
			far, vectors, last := slices.Clone(half), 0, math.Inf(1)
			for _, h := range exact(fileformat.Cosine, d, vec, d.Len(), nil) {
				if h.Score != last {
					vectors, last = vectors+1, h.Score
				}
				if vectors > 3 {
					break
				}
				far.Clear(h.Row)
			}
			for _, c := range []struct {
				allowed bitset.Set
				want    error
			}{{half, nil}, {far, ErrFar}} {
				q := g.Query(vec)
				q.Guard(k, s, c.allowed.Count())
				if _, stats, err := q.Search(k, s, c.allowed, d.scorer(fileformat.Cosine, vec), &buf); !errors.Is(err, c.want) {
					t.Errorf("%+v, query %d: %v, want %v; %+v", w, i, err, c.want, stats)
				}
			}
		}
	}
}

// TestFarIsConfirmed excludes half of the rows, and among them the one that equals the query and is
// in every sample. Alone it is no reason to give up: a search for one row passes by as many.
func TestFarIsConfirmed(t *testing.T) {
	d, _ := make1("latent", 24, 3000, 0)
	g := d.graph(t, fileformat.Cosine, Options{quiet: true, layout: plain})
	r := rand.New(rand.NewPCG(1, 2))
	var buf Buffer
	const filters = 40
	gaveUp := 0
	for range filters {
		half := bitset.New(d.Len())
		for _, i := range r.Perm(d.Len() - 1)[:d.Len()/2] {
			half.Set(1 + i)
		}
		q := g.Query(d.Row(0))
		s := levels.Setting{EF: 20}
		q.Guard(1, s, half.Count())
		if _, _, err := q.Search(1, s, half, d.scorer(fileformat.Cosine, d.Row(0)), &buf); errors.Is(err, ErrFar) {
			gaveUp++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if gaveUp > 1 {
		t.Errorf("%d of %d searches gave up because of one row", gaveUp, filters)
	}
}

// TestFarEnds counts expansions of searches that give up. If the nearest rows are excluded, that is
// at the first look, whatever the beam width. If the filter excludes the rows beyond the nearest
// ones, so that the beam cannot be filled, it is at the limit.
func TestFarEnds(t *testing.T) {
	d, queries := make1("latent", 24, 3000, 5)
	g := d.graph(t, fileformat.Cosine, Options{quiet: true, layout: plain})
	const k = 10
	s := levels.Setting{EF: 100}
	var buf Buffer
	for _, vec := range queries {
		order := exact(fileformat.Cosine, d, vec, d.Len(), nil)
		for _, c := range []struct{ from, to, expanded int }{
			{0, 1500, firstLook}, {k, 1500 + k, 16 + 2*slack*100},
		} {
			allowed := bitset.New(d.Len())
			for _, h := range slices.Concat(order[:c.from], order[c.to:]) {
				allowed.Set(h.Row)
			}
			q := g.Query(vec)
			q.Guard(k, s, allowed.Count())
			if _, stats, err := q.Search(k, s, allowed, d.scorer(fileformat.Cosine, vec), &buf); !errors.Is(err, ErrFar) || stats.Expanded != c.expanded {
				t.Errorf("rows %d to %d excluded: %v after %d expansions, want %d", c.from, c.to, err, stats.Expanded, c.expanded)
			}
		}
	}
}

// TestFarOnTheWay has rows in a line, and a search that walks along it to the query at its end. The
// filter excludes the first half, which is no reason to give up there.
func TestFarOnTheWay(t *testing.T) {
	const rows, dim = 1000, 8
	d := &data{vectors{Dim: dim}}
	for i := range rows {
		v := normal(rand.New(rand.NewPCG(1, uint64(i))), dim, 0.01)
		v[0] = float32(i)
		d.Vecs = append(d.Vecs, v...)
	}
	line := *d.graph(t, fileformat.L2, Options{quiet: true, layout: plain})
	line.entryPoints, line.nodes = []uint32{0}, slices.Repeat([]uint32{none}, len(line.nodes))
	second := bitset.New(rows)
	for i := range rows {
		if line.nodes[i*line.per] = uint32(i + 1); i == rows-1 {
			line.nodes[i*line.per] = none
		}
		if i >= rows/2 {
			second.Set(i)
		}
	}
	vec := d.Row(rows - 1)
	q, s := line.Query(vec), levels.Setting{EF: rows}
	q.Guard(1, s, rows/2)
	var buf Buffer
	hits, stats, err := q.Search(1, s, second, d.scorer(fileformat.L2, vec), &buf)
	if err != nil || hits[0].Row != rows-1 {
		t.Errorf("%v, %v, %+v", hits, err, stats)
	}
}
