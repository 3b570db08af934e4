package vectorize

import (
	"context"
	"sync"
)

// calls lets those who want the same value at the same time wait for one call that gets it, each as
// long as its own context allows.
type calls[V any] struct {
	keep bool // the value of a call that succeeded is returned ever after

	mu    sync.Mutex // not held during a call: models answer over the network
	byKey map[string]*call[V]
}

// A call is under way until done is closed. The other fields do not change after that.
type call[V any] struct {
	done     chan struct{}
	value    V
	err      error
	gaveUp   bool // the context of the call ended, or it panicked: others try again
	finished bool // it has a value
}

// do returns the result of fn, or of the call of another goroutine for the same key. Errors are not
// kept.
func (c *calls[V]) do(ctx context.Context, key string, fn func() (V, error)) (V, error) {
	for {
		c.mu.Lock()
		other := c.byKey[key]
		if other == nil {
			mine := &call[V]{done: make(chan struct{}), gaveUp: true}
			c.set(key, mine)
			c.mu.Unlock()
			return c.run(ctx, key, mine, fn)
		}
		c.mu.Unlock()
		select {
		case <-other.done:
			if !other.gaveUp {
				return other.value, other.err
			}
		case <-ctx.Done():
			var none V
			return none, ctx.Err()
		}
	}
}

// run makes a call that others wait for.
func (c *calls[V]) run(ctx context.Context, key string, mine *call[V], fn func() (V, error)) (V, error) {
	defer func() {
		if !mine.finished || !c.keep {
			c.mu.Lock()
			if c.byKey[key] == mine {
				delete(c.byKey, key)
			}
			c.mu.Unlock()
		}
		close(mine.done)
	}()
	mine.value, mine.err = fn()
	mine.finished = mine.err == nil
	mine.gaveUp = mine.err != nil && ctx.Err() != nil
	return mine.value, mine.err
}

// put keeps a value for a key.
func (c *calls[V]) put(key string, v V) {
	have := &call[V]{done: make(chan struct{}), value: v, finished: true}
	close(have.done)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.set(key, have)
}

// set sets the call of a key. The caller holds mu.
func (c *calls[V]) set(key string, one *call[V]) {
	if c.byKey == nil {
		c.byKey = map[string]*call[V]{}
	}
	c.byKey[key] = one
}
