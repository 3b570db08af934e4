package db

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
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
		for queue := &vdb.engine.Queue; ; runtime.Gosched() {
			queue.Mu.Lock()
			n := len(queue.Waiting)
			queue.Mu.Unlock()
			if n == 3 {
				break
			}
		}
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
