package db

import (
	"path/filepath"
	"testing"
	"testing/synctest"
)

// TestCloseWaitsForCalls: Close waits for calls that have begun, and holds no lock meanwhile that
// they take. A follower that joined while the leader closed was such a call, and a Check of a
// published folder.
func TestCloseWaitsForCalls(t *testing.T) {
	folder := t.TempDir()
	publish(t, publisher(t, open(t, t.TempDir(), nil), folder, nil))
	t.Run("database", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { closeBesideACall(t, must(Open(Memory, nil))) })
	})
	t.Run("published folder", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { closeBesideACall(t, must(Open(folder, &Options{ReadOnly: true}))) })
	})
}

func closeBesideACall(t *testing.T, vdb *DB) {
	e := vdb.engine
	if err := e.Begin(); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- vdb.Close() }()
	synctest.Wait()
	if held := inspect(vdb).Locked(); len(held) > 0 {
		t.Errorf("Close holds %v while it waits for calls", held)
	}
	select {
	case err := <-closed:
		t.Errorf("Close has not waited: %v", err)
	default:
	}
	e.End()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// A collection that is dropped takes no space once the database is closed, not only after the next
// process has written to it.
func TestCloseRemovesDropped(t *testing.T) {
	dir := t.TempDir()
	vdb := open(t, dir, nil)
	upsert(t, collection(t, vdb, "kept", Schema{Dim: 1}), Document{ID: "a", Vector: []float32{1}})
	upsert(t, collection(t, vdb, "dropped", Schema{Dim: 1}), Document{ID: "a", Vector: []float32{1}})
	if err := vdb.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	segments := func() int {
		names, err := filepath.Glob(filepath.Join(dir, "seg", "*.vec"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	if n := segments(); n != 2 {
		t.Fatalf("%d segments before the drop", n)
	}
	if err := vdb.Drop(t.Context(), "dropped"); err != nil {
		t.Fatal(err)
	}
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	if n := segments(); n != 1 {
		t.Errorf("%d segments after Close, want that of the collection that is left", n)
	}
	check(t, open(t, dir, nil))
}
