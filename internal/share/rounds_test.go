package share

import (
	"context"
	"errors"
	"testing"
)

// waiting is a context that tells when a call is about to wait for its end.
type waiting struct {
	context.Context
	waits chan<- struct{}
}

func (w waiting) Done() <-chan struct{} {
	w.waits <- struct{}{}
	return w.Context.Done()
}

// TestRounds: calls that come while one asks do not take its answer, which may be too old, but ask
// together once it has ended. They take its error, unless that is the one of its own context.
func TestRounds(t *testing.T) {
	failed := errors.New("failed")
	for name, c := range map[string]struct {
		first error // of the call that asks
		ends  bool  // its context ends
		asked int
		want  error // of the calls that come later
	}{
		"answered":     {nil, false, 2, nil},
		"failed":       {failed, false, 1, failed},
		"given up":     {context.Canceled, true, 2, nil},
		"just in time": {nil, true, 2, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r, asked := newRounds(), 0 // the call that asks counts
			begun, goOn, first := make(chan struct{}), make(chan struct{}), make(chan error)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				first <- r.do(ctx, func() error {
					asked++
					close(begun)
					<-goOn
					return c.first
				})
			}()
			<-begun
			const calls = 16
			waits, others := make(chan struct{}), make(chan error, calls)
			for range calls {
				go func() {
					others <- r.do(waiting{t.Context(), waits}, func() error {
						asked++
						return nil
					})
				}()
			}
			for range calls {
				<-waits
			}
			if c.ends {
				cancel()
			}
			close(goOn)
			if err := <-first; err != c.first {
				t.Errorf("the first call: %v, want %v", err, c.first)
			}
			for range calls {
				if err := <-others; err != c.want {
					t.Errorf("a later call: %v, want %v", err, c.want)
				}
			}
			if asked != c.asked {
				t.Errorf("asked %d times, want %d", asked, c.asked)
			}
			own := errors.New("own")
			if err := r.do(t.Context(), func() error { return own }); err != own {
				t.Errorf("a call after all others took an answer that was given before it: %v", err)
			}
		})
	}
}

// TestRoundsEnd: a call that waits for another one ends with its context.
func TestRoundsEnd(t *testing.T) {
	r := newRounds()
	r.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.do(ctx, func() error { return nil }); err != context.Canceled {
		t.Error(err)
	}
}
