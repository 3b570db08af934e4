package graph

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/simd"
)

// A pool with a front gives and holds the same rows as one that keeps all in order.
func TestFront(t *testing.T) {
	const seed = 5
	r := rand.New(rand.NewPCG(seed, 0))
	kept := [2]int{} // pools without and with a front at the end
	for round := range 300 {
		limit, front := 1+r.IntN(1+r.IntN(2000)), 1+r.IntN(200)
		var whole, folded pool
		whole.reset(limit, 0)
		folded.reset(limit, front)
		id, most := uint32(0), float32(math.MaxFloat32)
		for step := range 40 {
			ids, dists := make([]uint32, r.IntN(33)), make([]float32, 33)
			for i := range ids {
				id++
				ids[i] = id | uint32(r.IntN(8)/7*simd.Marked)
				switch dists[i] = float32(r.ExpFloat64() * 100 / float64(1+step)); r.IntN(50) { // no ties
				case 0:
					dists[i] = float32(math.NaN())
				case 1:
					dists[i] = float32(math.Inf(1))
				}
			}
			dists = dists[:len(ids)]
			if most = min(most, float32(r.ExpFloat64())*200); step < 3 {
				most = math.MaxFloat32
			}
			whole.offerAll(ids, dists, most)
			folded.offerAll(ids, dists, most)
			ef := 1 + r.IntN(limit)
			for range r.IntN(3) {
				a, aok := whole.pop(ef, most)
				if b, bok := folded.pop(ef, most); a != b || aok != bok {
					t.Fatalf("seed %d, round %d, step %d: popped %d %v, want %d %v", seed, round, step, b, bok, a, aok)
				}
			}
			if dist := float32(r.ExpFloat64() * 10); folded.full(dist) && !whole.full(dist) {
				t.Fatalf("seed %d, round %d, step %d: full at %g", seed, round, step, dist)
			}
		}
		kept[min(folded.ef, 1)]++
		for _, rank := range []int{1, front} {
			a, aok := whole.within(rank)
			if b, bok := folded.within(rank); a != b || aok != bok {
				t.Fatalf("seed %d, round %d: row %d at %g %v, want %g %v", seed, round, rank, b, bok, a, aok)
			}
		}
		have, want := slices.Concat(folded.rows, folded.rest), whole.rows
		slices.SortFunc(have, func(a, b simd.Neighbour) int { return cmp.Compare(a.Dist, b.Dist) })
		if have = have[:min(len(have), limit)]; !slices.Equal(have, want) {
			t.Fatalf("seed %d, round %d: rows %v, want %v", seed, round, have, want)
		}
	}
	if kept[0] < 50 || kept[1] < 50 {
		t.Errorf("%d pools without a front at the end, %d with one", kept[0], kept[1])
	}
}

// A front does not become longer for a row of a rank that the pool does not have.
func TestFrontStays(t *testing.T) {
	var p pool
	p.reset(1000, 64)
	for id := range uint32(200) {
		p.offer(float32(id*37%200), id)
	}
	if dist, ok := p.within(201); ok || p.limit != 64 {
		t.Errorf("row 201 of 200 at %g %v, with a front of %d rows", dist, ok, p.limit)
	}
	if dist, ok := p.within(200); !ok || dist != 199 || p.limit != 256 {
		t.Errorf("row 200 at %g %v, with a front of %d rows", dist, ok, p.limit)
	}
}

// selectNearest brings the nearest rows before the others, also where many are as far.
func TestSelectNearest(t *testing.T) {
	const seed = 6
	r := rand.New(rand.NewPCG(seed, 0))
	for round := range 2000 {
		rows := make([]simd.Neighbour, r.IntN(1+r.IntN(300)))
		different := 1 + r.IntN(1+r.IntN(1000))
		for i := range rows {
			rows[i] = simd.Neighbour{ID: uint32(i), Dist: float32(r.IntN(different))}
			if round%5 == 0 {
				rows[i].Dist = float32(i)
			}
		}
		byDist := func(a, b simd.Neighbour) int { return cmp.Or(cmp.Compare(a.Dist, b.Dist), int(a.ID)-int(b.ID)) }
		n, want := r.IntN(len(rows)+2), slices.Clone(rows)
		selectNearest(rows, n)
		n = min(n, len(rows))
		if n > 0 && n < len(rows) {
			first, others := slices.MaxFunc(rows[:n], byDist), slices.MinFunc(rows[n:], byDist)
			if first.Dist > others.Dist {
				t.Fatalf("seed %d, round %d: %g is among the nearest %d, not %g", seed, round, first.Dist, n, others.Dist)
			}
		}
		slices.SortFunc(rows, byDist)
		slices.SortFunc(want, byDist)
		if !slices.Equal(rows, want) {
			t.Fatalf("seed %d, round %d: other rows", seed, round)
		}
	}
}

// A buffer forgets the rows that a search has visited, whether these are few or many.
func TestVisitedAreForgotten(t *testing.T) {
	const rows = 1 << 20
	var b Buffer
	for _, n := range []int{0, 10, rows / 64 / markedPerWord, rows / 100, 3} {
		b.start(rows, 10, 10, 0)
		if got := b.visited.Count(); got != 0 {
			t.Fatalf("%d rows are visited at the start", got)
		}
		b.marks = true
		for i := range n {
			id := uint32(i * 97 % rows)
			b.visited.Set(int(id))
			b.mark([]uint32{id})
		}
	}
	b.start(rows, 10, 10, 0)
	b.visited.Set(5) // while a graph is built, nothing is marked
	if b.start(rows, 10, 10, 0); b.visited.Count() != 0 {
		t.Error("a row that was not marked is visited")
	}
}

// TestFrontOfMarkedRows: marked rows that fill a front, or more, leave the others to be popped.
func TestFrontOfMarkedRows(t *testing.T) {
	for _, front := range []int{shortFront, longFront} {
		for _, marked := range []int{front - 1, front, front + 1, front + room} {
			for _, others := range []int{1, 20, 60, 300} {
				var p pool
				p.reset(1000, front)
				for id := range marked {
					p.offer(float32(id), uint32(id)|simd.Marked)
				}
				ids, dists := make([]uint32, others), make([]float32, others)
				for i := range ids {
					ids[i], dists[i] = uint32(1000+i), float32(1000+i)
				}
				p.offerAll(ids, dists, math.MaxFloat32)
				for i := range others {
					if id, ok := p.pop(1000, math.MaxFloat32); !ok || id != ids[i] {
						t.Fatalf("front %d, %d marked: popped %d %v as number %d of %d", front, marked, id, ok, i, others)
					}
				}
			}
		}
	}
}
