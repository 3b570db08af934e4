package share

import (
	"log/slog"
	"path"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
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

// TestFollowerIsSynced: every write of a follower that syncs always is on disk before its answer,
// also one that changes nothing: the state that it found may be a write of the leader, which never
// syncs.
func TestFollowerIsSynced(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	dir := t.TempDir()
	var dirty atomic.Bool // the log has unsynced writes
	var s *leader
	o := engine.Options{Shared: true, HeadSize: 1 << 20, Workers: 1, Logger: slog.New(slog.DiscardHandler)}
	o.Hook = func(op vfs.Op) error {
		if path.Dir(op.Name) == engine.WALDir && (op.Kind == vfs.OpWrite || op.Kind == vfs.OpSync) {
			dirty.Store(op.Kind == vfs.OpWrite)
		}
		return nil
	}
	o.OnLead = func(*engine.Engine) bool {
		var err error
		if s, err = lead(dir, Process{}); err != nil {
			t.Error(err)
		}
		return err == nil
	}
	e, err := engine.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	s.serve(e)
	o = engine.Options{Shared: true, HeadSize: 1 << 20, Workers: 1, SyncAlways: true, Logger: o.Logger}
	m, err := Open(dir, o, Process{})
	if err != nil {
		t.Fatal(err)
	}
	define := func(g *engine.Group) ([]engine.Op, error) {
		def := &engine.Definition{ID: g.NextID, Name: "docs", Schema: engine.Schema{Dim: 2}}
		ops := []engine.Op{{Kind: engine.OpDefine, Coll: g.NextID, Def: def}}
		return ops, g.Accept(ops)
	}
	remove := []engine.Op{{Kind: engine.OpDelete, Collection: "docs", ID: "a"}}
	doc := stored(t, document.Document{ID: "a"})
	put := []engine.Op{{Kind: engine.OpPut, Collection: "docs", ID: "a", Doc: doc, Vec: []float32{1, 0}}}
	write := func(e *engine.Engine, ops []engine.Op) (err error) {
		ops = append([]engine.Op(nil), ops...) // a write fills them in
		_, err = e.Write(t.Context(), ops, 1)
		return err
	}
	for _, step := range []struct {
		name  string
		run   func() error
		dirty bool
	}{
		{"decision", func() error { _, err := m.engine.Exclusively(t.Context(), define); return err }, false},
		{"put of the leader", func() error { return write(e, put) }, true},
		{"delete", func() error { return write(m.engine, remove) }, false},
		{"put", func() error { return write(m.engine, put) }, false},
		{"delete of the leader", func() error { return write(e, remove) }, true},
		{"delete of what is deleted", func() error { return write(m.engine, remove) }, false},
	} {
		if err := step.run(); err != nil || dirty.Load() != step.dirty {
			t.Fatalf("%s: %v; the log is dirty: %t", step.name, err, dirty.Load())
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := s.close(e.Close); err != nil {
		t.Error(err)
	}
}
