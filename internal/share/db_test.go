package share_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/share"
)

// A patch that the engine refuses is refused before it is sent, in the words of the engine.
func TestRefusedPatches(t *testing.T) {
	vdb, err := db.Open(db.Memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	c, err := vdb.CreateCollection(t.Context(), "notes", db.Schema{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Upsert(t.Context(), db.Document{ID: "a"}); err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]db.Patch{
		"text":      {Text: new("\xff")},
		"long text": {Text: new(strings.Repeat("x", 16<<20+1))},
		"type":      {Set: db.Metadata{"f": make(chan int)}},
		"operator":  {Set: db.Metadata{"$f": 1}},
		"twice":     {Set: db.Metadata{"a.b": 1, "a": map[string]any{"b": 2}}},
		"deep":      {Set: db.Metadata{"list": []any{[]any{}}}},
	} {
		p.ID = "a"
		want := c.Patch(t.Context(), p)
		_, got := share.Append(nil, share.WriteOps{Ops: []engine.Op{{Kind: engine.OpPut, Collection: "notes", ID: "a",
			Patch: &engine.Patch{Text: p.Text, Set: p.Set, Unset: p.Unset}}}})
		if want == nil || got == nil || !strings.HasSuffix(want.Error(), got.Error()) {
			t.Errorf("%s: %v, package db says: %v", name, got, want)
		}
	}
}

// The largest batch of db fits into a frame, with two writes for each KiB.
func TestLimits(t *testing.T) {
	if share.MaxOps != db.MaxBatchLen || engine.MaxBatchLen != db.MaxBatchLen {
		t.Errorf("a batch has %d bytes at most, %d in the engine, %d in db", share.MaxOps, engine.MaxBatchLen, db.MaxBatchLen)
	}
	if share.MaxFrame < db.MaxBatchLen+db.MaxBatchLen/512*20 {
		t.Error("a batch may not fit into a frame")
	}
}

// shared returns a collection of a leader and the same of its follower.
func shared(t *testing.T) (led, followed *db.Collection) {
	t.Helper()
	dir := t.TempDir()
	open := func() *db.Collection {
		vdb, err := db.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := vdb.Close(); err != nil {
				t.Error(err)
			}
		})
		c, err := vdb.OpenCollection(t.Context(), "notes", db.Schema{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	led = open()
	return led, open()
}

// TestSilentDecision: other processes write on while a decision hangs that sends no sign of life.
// The decision fails, and its process writes on, too.
func TestSilentDecision(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	decide, beat := share.SetDecideTimes(50*time.Millisecond, time.Hour)
	t.Cleanup(func() { share.SetDecideTimes(decide, beat) })
	led, followed := shared(t)
	err := followed.UpdateMetadata(t.Context(), func(db.CollectionInfo) (db.Metadata, error) {
		_, err := led.Upsert(t.Context(), db.Document{ID: "a"}) // waits until the leader gives the decision up
		return db.Metadata{"a": 1}, err
	})
	if err == nil || !strings.Contains(err.Error(), "has not been heard of for 50ms") {
		t.Error(err)
	}
	if _, err := followed.Upsert(t.Context(), db.Document{ID: "b"}); err != nil {
		t.Error(err)
	}
}

// TestBatchesBeyondTheQueue: writes of a follower that are more together than its queue holds, and
// larger than it each, take effect.
func TestBatchesBeyondTheQueue(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	before := share.SetMaxQueued(64 << 10)
	t.Cleanup(func() { share.SetMaxQueued(before) }) // when nobody reads it any more: after Close
	_, c := shared(t)
	const writers, each = 8, 8
	long := strings.Repeat("x", 100<<10)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				d := db.Document{ID: fmt.Sprint(w, " ", i)}
				if i%2 == 0 {
					d.Text = long
				}
				if _, err := c.Insert(t.Context(), d); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n, err := c.Count(t.Context(), nil); n != writers*each || err != nil {
		t.Errorf("%d documents, %v", n, err)
	}
}

// TestDamageAtOpen: Open beside a leader that shares the database reports damage as such. To wait
// for the leader, as ErrLocked advises, is no help.
func TestDamageAtOpen(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	dir := t.TempDir()
	vdb, err := db.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	c, err := vdb.OpenCollection(t.Context(), "notes", db.Schema{Dim: 2})
	if err == nil {
		_, err = c.Upsert(t.Context(), db.Document{ID: "a", Vector: []float32{1, 2}})
	}
	if err := errors.Join(err, vdb.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, engine.SegDir, "*.vec"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	f, err := os.OpenFile(names[0], os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt([]byte("damage"), 20)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{false, true} {
		_, err := db.Open(dir, &db.Options{ReadOnly: readOnly})
		if !errors.Is(err, db.ErrCorrupt) || errors.Is(err, db.ErrLocked) || strings.Contains(err.Error(), "does not share") {
			t.Errorf("ReadOnly=%v: %v", readOnly, err)
		}
	}
}
