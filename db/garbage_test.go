package db

import (
	"runtime"
	"testing"
	"weak"
)

// TestClosedDatabaseIsGarbage: only its user holds a closed database. Otherwise a
// program that opens and closes many databases would need the memory of all of them
// between two garbage collections, and each collection would come later than the
// one before.
func TestClosedDatabaseIsGarbage(t *testing.T) {
	for name, opts := range map[string]Options{"scans": {Sync: SyncNever}, "walks": walking} {
		t.Run(name, func(t *testing.T) {
			use := func() weak.Pointer[DB] {
				vdb, err := Open(t.TempDir(), &opts)
				if err != nil {
					t.Fatal(err)
				}
				c := collection(t, vdb, "c", Schema{Dim: 2, Text: &TextIndex{}})
				upsert(t, c, Document{ID: "a", Vector: []float32{1, 0}, Text: "one"}, Document{ID: "b", Vector: []float32{0, 1}, Text: "two"})
				if err := vdb.Compact(t.Context()); err != nil {
					t.Fatal(err)
				}
				for _, q := range []Query{{Near: Vector{1, 1}, K: 1}, {Near: Vector{1, 1}, K: 1, Accuracy: Exact}, {Text: "one", K: 1}} {
					if _, err := c.Search(t.Context(), q); err != nil {
						t.Fatal(err)
					}
				}
				if err := vdb.Close(); err != nil {
					t.Fatal(err)
				}
				return weak.Make(vdb)
			}
			w := use()
			runtime.GC()
			if w.Value() != nil {
				t.Error("the closed database is still there after a collection")
			}
		})
	}
}
