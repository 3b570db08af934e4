package formattest

import (
	"context"
	"sync"
)

// A Countdown is a context that is cancelled by a call of Err.
type Countdown struct {
	context.Context
	cancel context.CancelFunc

	mu   sync.Mutex
	left int
}

// NewCountdown returns a context whose Err is nil that many times.
func NewCountdown(ctx context.Context, looks int) *Countdown {
	c := &Countdown{left: looks}
	c.Context, c.cancel = context.WithCancel(ctx)
	return c
}

// Err implements context.Context.
func (c *Countdown) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left < 0 {
		c.cancel()
		return context.Canceled
	}
	return nil
}

// Left returns how many times Err will still be nil, or -n if it has not been n times.
func (c *Countdown) Left() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left
}
