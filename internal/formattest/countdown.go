package formattest

import "context"

// A Countdown is a context that is cancelled from the call of Err after the next Looks on.
type Countdown struct {
	context.Context
	Looks int
}

// Err implements context.Context.
func (c *Countdown) Err() error {
	if c.Looks--; c.Looks < 0 {
		return context.Canceled
	}
	return nil
}
