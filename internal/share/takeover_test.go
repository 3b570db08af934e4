package share

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestTicks: nothing here depends on the clock that can be set, but for the time that a process is
// shown with.
func TestTicks(t *testing.T) {
	if monotonic := " m="; !strings.Contains(epoch.String(), monotonic) {
		t.Errorf("ticks begin at %v, by the clock that can be set", epoch)
	}
	if now := ticks(time.Now()); now < int64(time.Hour) || now > int64(24*time.Hour) {
		t.Errorf("%v have passed", time.Duration(now))
	}
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, wall := range []string{".Unix()", ".UnixMilli()", ".UnixMicro()", ".UnixNano()", ".Round(0)"} {
			if name != "message.go" && !strings.HasSuffix(name, "_test.go") && strings.Contains(string(source), wall) {
				t.Errorf("%s uses %s instead of ticks", name, wall)
			}
		}
	}
}
