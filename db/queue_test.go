package db

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/share"
)

// A write that waits for others ends with its context, in the process that leads: a function that
// decides may hang, here or in another process.
func TestWaitingWriteEndsWithItsContext(t *testing.T) {
	vdb := open(t, t.TempDir(), quick)
	c := collection(t, vdb, "c", Schema{})
	upsert(t, c, Document{ID: "first"})
	deciding, decided := make(chan struct{}), make(chan struct{})
	var deleting sync.WaitGroup
	deleting.Go(func() {
		n, err := c.DeleteFunc(t.Context(), nil, func(*Document) (bool, error) {
			close(deciding)
			<-decided
			return true, nil
		})
		if n != 1 || err != nil {
			t.Errorf("%d documents deleted, %v", n, err)
		}
	})
	<-deciding
	ctx, cancel := context.WithCancel(t.Context())
	finishes(t, "a write", func() {
		var writing sync.WaitGroup
		for _, id := range []string{"a", "b", "c"} {
			writing.Go(func() {
				if _, err := c.Insert(ctx, Document{ID: id}); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnknown) {
					t.Errorf("insert: %v", err)
				}
			})
		}
		untilWaiting(vdb, 3)
		cancel()
		writing.Wait()
	})
	var waiting sync.WaitGroup
	waiting.Go(func() {
		if _, err := c.Upsert(t.Context(), Document{ID: "last"}); err != nil {
			t.Error(err)
		}
	})
	close(decided)
	deleting.Wait()
	waiting.Wait()
	if n := must(c.Count(t.Context(), nil)); n != 1 {
		t.Errorf("%d documents, want the last one", n)
	}
	check(t, vdb)
}

// untilWaiting waits until n writes wait for others.
func untilWaiting(vdb *DB, n int) {
	for waiting := 0; waiting < n; runtime.Gosched() {
		waiting = inspect(vdb).Waiting()
	}
}

// TestDecisionBehindWrites: a decision of a follower reaches the leader behind more requests than
// the leader works on at once, which all wait for the decision.
func TestDecisionBehindWrites(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	dir := t.TempDir()
	leader := open(t, dir, quick)
	collection(t, leader, "c", Schema{})
	c := collectionOf(t, open(t, dir, quick), "c")
	upsert(t, c, Document{ID: "first"})
	const writers = share.MaxRequests + 50
	var writing sync.WaitGroup
	n, err := c.DeleteFunc(t.Context(), nil, func(*Document) (bool, error) {
		for w := range writers {
			writing.Go(func() {
				if _, err := c.Insert(t.Context(), Document{ID: fmt.Sprint(w)}); err != nil {
					t.Error(err)
				}
			})
		}
		untilWaiting(leader, writers)
		return true, nil
	})
	writing.Wait()
	if n != 1 || err != nil {
		t.Errorf("%d documents deleted, %v", n, err)
	}
	if n := must(c.Count(t.Context(), nil)); n != writers {
		t.Errorf("%d documents of %d", n, writers)
	}
}
