package db

import (
	"testing"
	"testing/synctest"
)

// TestCloseWaitsForCalls: Close waits for calls that have begun, and holds no lock meanwhile that
// they take. A follower that joined while the leader closed was such a call.
func TestCloseWaitsForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vdb, err := Open(Memory, nil)
		if err != nil {
			t.Fatal(err)
		}
		e := vdb.engine
		if err := e.Begin(); err != nil {
			t.Fatal(err)
		}
		closed := make(chan error, 1)
		go func() { closed <- vdb.Close() }()
		synctest.Wait()
		for name, lock := range map[string]interface {
			TryLock() bool
			Unlock()
		}{"CommitMu": &e.CommitMu, "MetaMu": &e.MetaMu, "Mu": &e.Mu} {
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
	})
}
