package match

import (
	"container/heap"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// Ids in heads come in order, each once and in its newest state.
func TestHeadIDsInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		var ids headIDs
		want := map[string]uint64{}
		for age := 2; age >= 0; age-- { // the newest head last, so that it decides
			for _, i := range rng.Perm(1 + n)[:rng.IntN(1+n)] {
				s := headID{fmt.Sprint(i), rng.Uint64N(3), age}
				ids = append(ids, s)
				want[s.id] = s.num
			}
		}
		heap.Init(&ids)
		for _, id := range slices.Sorted(maps.Keys(want)) {
			if got := ids.take(); got.id != id || got.num != want[id] {
				t.Fatalf("%s is %d, want %s with %d", got.id, got.num, id, want[id])
			}
		}
		if len(ids) > 0 {
			t.Fatalf("%d ids are left", len(ids))
		}
	}
}
