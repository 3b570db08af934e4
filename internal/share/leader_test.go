package share

import (
	"errors"
	"testing"

	"github.com/vecbolt/vecbolt/internal/engine"
)

// TestLeaderEndsBeforeHello: a process whose Hello comes after the end of the leader is told to
// look for the next one, and does not hold up the end.
func TestLeaderEndsBeforeHello(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes do not share here")
	}
	for name, accepted := range map[string]bool{"accepted": true, "not accepted": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := lead(dir, Process{})
			if err != nil {
				t.Fatal(err)
			}
			conn, err := dial(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if accepted { // as is the one before it, whose answer comes
				other, err := dial(dir)
				if err != nil {
					t.Fatal(err)
				}
				defer other.Close()
				if _, err := other.Write([]byte("no frame, but as long as a header of one")); err != nil {
					t.Fatal(err)
				}
				if m, err := Read(other); err != nil {
					t.Fatal(m, err)
				}
			}
			if err := s.abandon(); err != nil {
				t.Fatal(err)
			}
			l := &link{in: NewReader(conn, true)}
			m, err := l.receive()
			if !errors.Is(err, ErrNotLeader) && !errors.Is(err, errNoLeader) {
				t.Fatal(m, err)
			}
		})
	}
}
