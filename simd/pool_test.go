package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// vacancies returns a pool without rows.
func vacancies(n int) []Neighbour { return slices.Repeat([]Neighbour{Vacant}, n) }

// testOffer offers rows to a pool, some at a time, and compares it with what sorting gives. The
// bits choose which rows are marked, how many are offered at a time, and the length of the pool.
func testOffer(t *testing.T, limit int, ids []uint32, dists []float32, most float32, bits uint32) {
	pool, next := vacancies([]int{PoolLen(limit), PoolLen(limit), limit, PoolLen(limit) + 40}[bits%4]), 0
	var want []Neighbour
	for lo, turn := 0, 0; lo < len(dists); turn++ {
		hi := min(len(dists), lo+1+int(bits>>(turn%29)%40))
		taken := false
		for i := lo; i < hi; i++ {
			e := Neighbour{ids[i]&^Marked | bits<<(i%32)&Marked, max(dists[i], 0)}
			ids[i] = e.ID
			if !(e.Dist <= most) || e.Dist > math.MaxFloat32 || len(want) == limit && e.Dist >= want[limit-1].Dist {
				continue
			}
			at := len(want)
			for at > 0 && want[at-1].Dist > e.Dist {
				at--
			}
			want = slices.Insert(want, at, e)
			want = want[:min(len(want), limit)]
			taken = taken || at < len(want)
		}
		rows, unmarked := Offer(pool, limit, next, ids[lo:hi], dists[lo:hi], most)
		if !taken {
			if rows != 0 || unmarked != 0 {
				t.Fatalf("%d rows, %d unmarked, although none was taken in", rows, unmarked)
			}
		} else {
			first := slices.IndexFunc(want, func(e Neighbour) bool { return e.ID < Marked })
			if first < 0 {
				first = limit
			}
			if rows != len(want) || unmarked != first {
				t.Fatalf("%d rows, %d unmarked, want %d and %d", rows, unmarked, len(want), first)
			}
			next = first
		}
		if !slices.Equal(pool[:len(want)], want) {
			t.Fatalf("limit %d: %v, want %v", limit, pool[:len(want)], want)
		}
		for i, e := range pool[len(want):limit] {
			if e != Vacant {
				t.Fatalf("limit %d: entry %d of %d rows is %v", limit, len(want)+i, len(want), e)
			}
		}
		if next < len(want) { // as a search does
			pool[next].ID |= Marked
			want[next].ID |= Marked
		}
		lo = hi
	}
}

func TestOffer(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 5))
		special := []float32{0, float32(math.Copysign(0, -1)), -1, float32(math.NaN()), -float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)),
			math.MaxFloat32, math.SmallestNonzeroFloat32, 0.5}
		for limit := 1; limit <= 260; limit += 1 + limit/40 {
			for _, kinds := range []int{3, 20, 1 << 20} { // with and without ties
				n := r.IntN(3*limit + 40)
				ids, dists := make([]uint32, n), make([]float32, n)
				for i := range ids {
					ids[i] = r.Uint32()
					dists[i] = float32(r.IntN(kinds)) / float32(kinds)
					if r.IntN(10) == 0 {
						dists[i] = special[r.IntN(len(special))]
					}
				}
				for _, most := range []float32{math.MaxFloat32, 0.4, float32(math.Inf(1))} {
					testOffer(t, limit, slices.Clone(ids), dists, most, r.Uint32())
				}
			}
		}
	})
	for _, bad := range []struct{ pool, limit, ids, dists int }{{32, 0, 1, 1}, {32, 33, 1, 1}, {32, 32, 1, 2}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v: no panic", bad)
				}
			}()
			Offer(vacancies(bad.pool), bad.limit, 0, make([]uint32, bad.ids), make([]float32, bad.dists), 1)
		}()
	}
}

// BenchmarkOffer offers 20 rows at a time, of which fewer and fewer are taken in, as in a search.
func BenchmarkOffer(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	const each, times = 20, 60
	ids, dists := make([]uint32, each*times), make([]float32, each*times)
	for i := range ids {
		ids[i], dists[i] = uint32(i), r.Float32()
	}
	defer func(l level) { active = l }(active)
	for _, limit := range []int{24, 64, 128, 192, 256, 1000} {
		for _, l := range available() {
			active = l
			b.Run(fmt.Sprintf("%d/%s", limit, l), func(b *testing.B) {
				pool := make([]Neighbour, PoolLen(limit))
				for b.Loop() {
					copy(pool, vacancies(len(pool)))
					next := 0
					for lo := 0; lo < len(ids); lo += each {
						if rows, unmarked := Offer(pool, limit, next, ids[lo:lo+each], dists[lo:lo+each], 1); rows > 0 {
							next = unmarked
						}
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(ids)), "ns/row")
			})
		}
	}
}
