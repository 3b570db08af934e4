package engine

import (
	"context"
	"sync"
)

// A gate is a mutex whose enter gives up when the context of the call ends. The
// zero value is open.
type gate struct {
	once sync.Once
	held chan struct{}
}

// enter waits until nobody is inside or ctx ends. Unless it fails, leave must
// follow.
func (g *gate) enter(ctx context.Context) error {
	g.once.Do(func() { g.held = make(chan struct{}, 1) })
	select {
	case g.held <- struct{}{}: // even if ctx has ended: the work checks it
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
