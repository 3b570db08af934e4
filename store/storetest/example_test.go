package storetest_test

import (
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/store"
	"github.com/vecbolt/vecbolt/store/storetest"
)

// A test of an implementation is one call; here of store.Embedded.
func Example() {
	_ = func(t *testing.T) { // func TestStore(t *testing.T)
		storetest.Run(t, func(t *testing.T) store.Store {
			vdb, err := db.Open(t.TempDir(), nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { vdb.Close() })
			return store.Embedded(vdb)
		}, storetest.Options{Recall: 0.98})
	}
}
