package share

import (
	"log/slog"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/engine"
)

// TestSyncPolicies: a leader knows which followers have their writes synced sooner than its own.
func TestSyncPolicies(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	always, often := engine.Options{SyncAlways: true}, engine.Options{SyncEvery: time.Millisecond}
	seldom, never := engine.Options{SyncEvery: time.Minute}, engine.Options{}
	options := []engine.Options{always, often, seldom, never} // in order
	for i, leads := range options {
		dir := t.TempDir()
		open := func(o engine.Options) *Member {
			o.Shared, o.HeadSize, o.Workers, o.Logger = true, 1<<20, 1, slog.New(slog.DiscardHandler)
			m, err := Open(dir, o, Process{Program: o.SyncWithin().String()})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		leader := open(leads)
		for j, follows := range options {
			m := open(follows)
			met := false
			leader.leader.mu.Lock()
			for f := range leader.leader.followers {
				if f.process.Program != follows.SyncWithin().String() {
					continue // it has closed
				}
				if met = true; f.sync != (j < i) {
					t.Errorf("leader %v, follower %v: sync %t", leads.SyncWithin(), follows.SyncWithin(), f.sync)
				}
			}
			leader.leader.mu.Unlock()
			if !met {
				t.Errorf("leader %v has no follower %v", leads.SyncWithin(), follows.SyncWithin())
			}
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if err := leader.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
