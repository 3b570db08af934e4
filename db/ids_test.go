package db

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vecbolt/vecbolt/internal/engine"
)

func TestKnownIDs(t *testing.T) {
	var k engine.KnownIDs
	if id := k.Get(7); id != "" {
		t.Fatalf("%q is known from the start", id)
	}
	k.Put(7, "seven")
	k.Put(8, "eight")
	k.Put(9, strings.Repeat("9", engine.IDLongest+1))
	k.Put(10, strings.Repeat("9", engine.IDLongest))
	if k.Get(7) != "seven" || k.Get(8) != "eight" || k.Get(9) != "" || len(k.Get(10)) != engine.IDLongest {
		t.Fatalf("got %q, %q, %q, %q", k.Get(7), k.Get(8), k.Get(9), k.Get(10))
	}
	k.Put(7+engine.IDSlots, "another") // in its place
	if k.Get(7) != "" || k.Get(7+engine.IDSlots) != "another" {
		t.Fatalf("got %q and %q", k.Get(7), k.Get(7+engine.IDSlots))
	}
}

// Whatever other goroutines put in the same places, an id belongs to its number or is not known.
func TestKnownIDsTogether(t *testing.T) {
	const numbers, rounds = 6, 4000
	var k engine.KnownIDs
	num := func(i int) uint64 { return uint64(5 + i%2 + i/2*engine.IDSlots) }
	id := func(i int) string { return strings.Repeat(string(rune('a'+i)), 1+i*(engine.IDLongest-1)/(numbers-1)) }
	var known atomic.Int64
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for round := range rounds {
				k.Put(num(round%numbers), id(round%numbers))
				if got := k.Get(num(round % numbers)); got != "" && got != id(round%numbers) {
					t.Errorf("number %d is %q", round%numbers, got)
				}
				k.GetAll(numbers, num, func(i int, got string) {
					if known.Add(1); got != id(i) {
						t.Errorf("number %d is %q, among others", i, got)
					}
				})
			}
		})
	}
	group.Wait()
	if known.Load() == 0 {
		t.Error("nothing was ever known")
	}
}

// Asked at once, the ids of many documents are the same as one by one.
func TestKnownIDsOfMany(t *testing.T) {
	var k engine.KnownIDs
	for i := range 100 {
		if i%7 != 0 {
			k.Put(uint64(3*i+1), fmt.Sprint("document ", i))
		}
	}
	for _, n := range []int{0, 1, 15, 16, 17, 100} {
		got := make([]string, n)
		k.GetAll(n, func(i int) uint64 { return uint64(3*i + 1) }, func(i int, id string) { got[i] = id })
		for i := range got {
			if want := k.Get(uint64(3*i + 1)); got[i] != want || (want == "") != (i%7 == 0) {
				t.Errorf("%d of %d: %q, want %q", i, n, got[i], want)
			}
		}
	}
}

// Cached ids are right in every version of the database, whether a query asks for
// ids only or for more.
func TestIDsOfHits(t *testing.T) {
	vdb := open(t, t.TempDir(), &Options{Sync: SyncNever})
	c := collection(t, vdb, "c", Schema{Dim: 1})
	search := func(c *Collection, want ...string) {
		t.Helper()
		for range 2 {
			for _, parts := range []Select{IDsOnly, WithVector, Everything, IDsOnly} {
				r, err := c.Search(t.Context(), Query{Near: Vector{1}, Select: parts})
				if err != nil {
					t.Fatal(err)
				}
				if got := ids(r.Hits); !slices.Equal(got, want) {
					t.Fatalf("select %d: got %q, want %q", parts, got, want)
				}
				for _, h := range r.Hits {
					if (h.Vector != nil) != parts.has(WithVector) || (h.Text == "text of "+h.ID) != parts.has(WithText) {
						t.Fatalf("select %d: got %+v", parts, h.Document)
					}
				}
			}
		}
	}
	doc := func(id string, x float32) Document {
		return Document{ID: id, Vector: []float32{x}, Text: "text of " + id}
	}
	upsert(t, c, doc("b", 1), doc("a", 1), doc("c", -1))
	search(c, "a", "b", "c") // by id, where scores are equal
	if err := vdb.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	search(c, "a", "b", "c")
	snap, err := vdb.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	upsert(t, c, doc("b", -2), doc("d", 3))
	if _, err := c.Delete(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	search(c, "d", "b", "c")
	if err := vdb.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	search(c, "d", "b", "c")
	old, err := snap.Collection("c")
	if err != nil {
		t.Fatal(err)
	}
	search(old, "a", "b", "c")
}
