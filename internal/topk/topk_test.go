package topk

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// With any bounds, the candidates contain every row whose true score is at least the k-th best
// score.
func TestCandidatesHoldTheTopK(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 12).Draw(t, "k")
		workers := rapid.IntRange(1, 3).Draw(t, "workers")
		least := math.Inf(-1)
		if rapid.Bool().Draw(t, "threshold") {
			least = rapid.Float64Range(-1, 1).Draw(t, "least")
		}
		scores := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(-1, 1), rapid.SampledFrom([]float64{0, 0.5})), 0, 1500).Draw(t, "scores")
		slack := rapid.Float64Range(0, 0.3).Draw(t, "slack")

		collectors := make([]*Collector, workers)
		for i := range collectors {
			collectors[i] = New(k, least)
		}
		if rapid.Bool().Draw(t, "group") {
			collectors = Group(workers, k, least)
		}
		for row, s := range scores {
			below, above := slack*float64(row%3)/2, slack*float64(row%5)/4
			if row%17 == 0 {
				below, above = math.Inf(1), math.Inf(1)
			}
			collectors[row%workers].Offer(s-below, s+above, 0, int32(row))
		}
		kept := map[int32]bool{}
		for _, c := range Merge(collectors...) {
			if kept[c.Row] {
				t.Fatalf("row %d twice", c.Row)
			}
			kept[c.Row] = true
		}

		want := slices.Clone(scores)
		slices.SortFunc(want, func(a, b float64) int { return cmp.Compare(b, a) })
		bar := least
		if len(want) >= k {
			bar = max(bar, want[k-1])
		}
		for row, s := range scores {
			if s >= bar && !kept[int32(row)] {
				t.Fatalf("row %d with score %v is gone, the bar is %v", row, s, bar)
			}
		}
	})
}

// With exact bounds and no ties only the top k is left.
func TestExactBoundsKeepOnlyTopK(t *testing.T) {
	c := New(10, math.Inf(-1))
	for i := range 100_000 {
		s := float64((i * 7919) % 100_003)
		c.Offer(s, s, 1, int32(i))
	}
	if got := Merge(c); len(got) != 10 {
		t.Fatalf("%d candidates, want 10", len(got))
	}
}

func BenchmarkOffer(b *testing.B) {
	scores := make([]float64, 1<<16)
	for i := range scores {
		scores[i] = float64((i*7919)%65_537) / 65_537
	}
	for b.Loop() {
		c := New(10, math.Inf(-1))
		for i, s := range scores {
			c.Offer(s-1e-6, s+1e-6, 0, int32(i))
		}
	}
}
