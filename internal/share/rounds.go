package share

import (
	"context"
	"sync/atomic"
)

// Rounds let calls that want the same question answered share the answer. A round that had begun
// before a call may have asked before a write that the call must see, so a call takes part only in
// one that began after it.
type rounds struct {
	turn chan struct{} // has an element while a round is under way
	// moves counts beginnings and ends, so it is odd during a round.
	moves atomic.Uint64

	// Guarded by turn; of the last round that was not given up.
	began uint64 // moves once it had begun
	err   error
}

func newRounds() *rounds { return &rounds{turn: make(chan struct{}, 1)} }

// do calls ask, or returns the answer that another call got to an ask which began after this call.
// It returns an error of one that ended after this call began, too, and so waits for one answer at
// most. A call whose ctx ends leaves asking to the next one.
func (r *rounds) do(ctx context.Context, ask func() error) error {
	before := r.moves.Load()
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if r.began > before || r.err != nil && r.began+1 > before {
		return r.err
	}
	now := r.moves.Add(1)
	defer r.moves.Add(1)
	err := ask()
	if err == nil || ctx.Err() == nil {
		r.began, r.err = now, err
	}
	return err
}
