package share_test

import (
	"fmt"
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

// follow returns a collection of a follower.
func follow(t *testing.T) *db.Collection {
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
	open()
	return open()
}

// TestDecisionTakesLong: a decision of a follower may take longer than the leader waits for a sign
// of life, and fails without one.
func TestDecisionTakesLong(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	const limit = time.Second
	for name, c := range map[string]struct {
		beat time.Duration
		fail bool
	}{"alive": {limit / 20, false}, "silent": {time.Hour, true}} {
		t.Run(name, func(t *testing.T) {
			decide, beat := share.SetDecideTimes(limit, c.beat)
			t.Cleanup(func() { share.SetDecideTimes(decide, beat) })
			notes := follow(t)
			err := notes.UpdateMetadata(t.Context(), func(db.CollectionInfo) (db.Metadata, error) {
				time.Sleep(2 * limit)
				return db.Metadata{"a": 1}, nil
			})
			if c.fail != (err != nil) || c.fail && !strings.Contains(err.Error(), "has not been heard of for 1s") {
				t.Error(err)
			}
			if _, err := notes.Upsert(t.Context(), db.Document{ID: "a"}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDecisionBehindWrites: a decision of a follower reaches the leader behind more requests than
// that works on at once, which all wait for the decision.
func TestDecisionBehindWrites(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	c := follow(t)
	if _, err := c.Upsert(t.Context(), db.Document{ID: "first"}); err != nil {
		t.Fatal(err)
	}
	const writers = share.MaxRequests + 50
	var all sync.WaitGroup
	n, err := c.DeleteFunc(t.Context(), nil, func(*db.Document) (bool, error) {
		for w := range writers {
			all.Go(func() {
				if _, err := c.Insert(t.Context(), db.Document{ID: fmt.Sprint(w)}); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second / 2) // they are sent
		return true, nil
	})
	all.Wait()
	if n != 1 || err != nil {
		t.Errorf("%d documents deleted, %v", n, err)
	}
	if n, err := c.Count(t.Context(), nil); n != writers || err != nil {
		t.Errorf("%d documents, %v", n, err)
	}
}

// TestBatchesBeyondTheQueue: writes of a follower that are more together than its queue holds, and
// larger than it each, take effect.
func TestBatchesBeyondTheQueue(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	defer share.SetMaxQueued(share.SetMaxQueued(64 << 10))
	c := follow(t)
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
