package engine

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
)

// TestLatest compares the entries of a head with maps, one for each prefix that a reader may have:
// ids come again, are deleted, and share slots, as their hashes do in a small table.
func TestLatest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := &collHead{}
	states := []map[string]uint64{{}}
	for n := range 2000 {
		id, num := fmt.Sprint(rng.IntN(300+n/2)), uint64(n+1)
		if rng.IntN(5) == 0 {
			num = 0
		}
		c.record(id, num)
		next := states[n]
		if n%100 == 0 {
			next = maps.Clone(next)
		}
		next[id] = num
		states = append(states, next)
	}
	if used := len(states[len(states)-1]); c.latest.used != used || 4*used > 3*len(c.latest.slots) {
		t.Errorf("%d ids in %d slots, there are %d", c.latest.used, len(c.latest.slots), used)
	}
	for n := 100; n <= len(c.entries); n += 100 { // the map is cloned for the next entry
		want := states[n]
		if got := maps.Collect(c.IDs(n)); !maps.Equal(got, want) {
			t.Fatalf("%d ids after %d entries, want %d", len(got), n, len(want))
		}
		for i := range 1400 {
			id := fmt.Sprint(i)
			num, found := c.find(id, n)
			if wanted, known := want[id]; found != known || num != wanted {
				t.Fatalf("%s after %d entries: %d %v, want %d %v", id, n, num, found, wanted, known)
			}
		}
	}
	if _, found := (&collHead{}).find("a", 0); found {
		t.Error("an empty head has an id")
	}
}

// A reader that visits the ids of a head does not hold up a write.
func TestIDsWhileWriting(t *testing.T) {
	c := &collHead{}
	for i := range 100 {
		c.record(fmt.Sprint(i), uint64(i+1))
	}
	got := map[string]uint64{}
	for id, num := range c.IDs(100) {
		c.record(id, 1000+num)
		got[id] = num
	}
	for i := range 100 {
		if got[fmt.Sprint(i)] != uint64(i+1) {
			t.Errorf("id %d has DocNum %d, want %d", i, got[fmt.Sprint(i)], i+1)
		}
	}
	if len(got) != 100 {
		t.Errorf("%d ids, want 100", len(got))
	}
}

// BenchmarkLatest records new ids, and looks for them.
func BenchmarkLatest(b *testing.B) {
	ids := make([]string, 1<<15)
	for i := range ids {
		ids[i] = fmt.Sprint("document ", i)
	}
	for b.Loop() {
		c := &collHead{}
		for i, id := range ids {
			c.record(id, uint64(i+1))
		}
		for _, id := range ids {
			if _, found := c.find(id, len(ids)); !found {
				b.Fatal(id)
			}
		}
	}
}
