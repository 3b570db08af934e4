package share

import (
	"context"
	"errors"
	"testing"

	"github.com/vecbolt/vecbolt/internal/engine"
)

// TestRejoinEndsWithItsCall: a call that waits for somebody to follow ends when its context does.
// The next call waits again.
func TestRejoinEndsWithItsCall(t *testing.T) {
	e, err := engine.NewFollower(t.TempDir(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := &Member{ctx: t.Context(), engine: e, changed: make(chan struct{})}
	e.Look(m.rejoin)
	call, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		if _, err := e.Acquire(call); !errors.Is(err, context.Canceled) {
			t.Error("the call waited no more:", err)
		}
	}
}
