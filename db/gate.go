package db

import (
	"context"
	"sync"
)

// A gate is a mutex that a call need not wait for longer than its context
// allows. The zero value is open.
type gate struct {
	once sync.Once
	held chan struct{}
}

// enter waits until nobody is inside; leave must follow unless it fails.
func (g *gate) enter(ctx context.Context) error {
	g.once.Do(func() { g.held = make(chan struct{}, 1) })
	select {
	case g.held <- struct{}{}: // also if ctx has ended: the work looks for itself
		return nil
	default:
	}
	select {
	case g.held <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gate) leave() { <-g.held }
