package store_test

import (
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/store"
	"github.com/vecbolt/vecbolt/store/storetest"
)

func open(t testing.TB) *db.DB {
	t.Helper()
	vdb, err := db.Open(t.TempDir(), &db.Options{Sync: db.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := vdb.Close(); err != nil {
			t.Error(err)
		}
	})
	return vdb
}

func TestEmbedded(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Store { return store.Embedded(open(t)) }, storetest.Options{})
}
