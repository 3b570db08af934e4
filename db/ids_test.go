package db

import (
	"slices"
	"strings"
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
