package rag

import (
	"context"
	"sync"
)

// claims are the documents that calls are at work on. Two calls that write one document take turns.
type claims struct {
	mu    sync.Mutex
	owner map[string]chan struct{} // by id of the document; closed when the call releases it
}

// take waits until no other call has any of the documents, and takes all of them at once, so that
// no two calls wait for each other. It ends early with ctx.
func (c *claims) take(ctx context.Context, ids []string) (release func(), err error) {
	done := make(chan struct{})
	for {
		other := c.try(ids, done)
		if other == nil {
			return func() { c.release(ids, done) }, nil
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// try takes the documents, or returns the channel of a call that has one of them.
func (c *claims) try(ids []string, done chan struct{}) (other <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if owner, taken := c.owner[id]; taken {
			return owner
		}
	}
	if c.owner == nil {
		c.owner = map[string]chan struct{}{}
	}
	for _, id := range ids {
		c.owner[id] = done
	}
	return nil
}

func (c *claims) release(ids []string, done chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		delete(c.owner, id)
	}
	close(done)
}
