package db

import (
	"sync"
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
	for name, lock := range map[string]*sync.Mutex{"CommitMu": &e.CommitMu, "MetaMu": &e.MetaMu, "Mu": &e.Mu} {
		if lock.TryLock() {
			lock.Unlock()
		} else {
			t.Errorf("Close holds %s while it waits for calls", name)
		}
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
