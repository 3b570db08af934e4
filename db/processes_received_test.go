//go:build linux || darwin

package db

import (
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/share"
)

// TestDecisionSeesAll: a process that decides what to write has applied every record before, even
// if none of its calls has needed them yet.
func TestDecisionSeesAll(t *testing.T) {
	bounded(t)
	leader, other := openBoth(t, t.TempDir())
	docs, same := collection(t, leader, "docs", Schema{}), collection(t, other, "docs", Schema{})
	for i := range 20 {
		upsert(t, docs, Document{ID: fmt.Sprint(i), Metadata: Metadata{"n": i}})
		if n, err := same.DeleteWhere(t.Context(), filter.Eq("n", i)); err != nil || n != 1 {
			t.Fatalf("document %d: %d deleted, %v", i, n, err)
		}
	}
}

// TestReceivedTellsOutcome loses the answer to a write whose batch the leader has flushed. One
// process has its record, and no call that needs it: the writer itself, or the one that leads next.
func TestReceivedTellsOutcome(t *testing.T) {
	bounded(t)
	for name, writerHasIt := range map[string]bool{"the writer": true, "the next leader": false} {
		t.Run(name, func(t *testing.T) {
			w, leader, others := unanswered(t, 2)
			received, answered := make(chan struct{}), make(chan struct{})
			var writer *wireConn
			w.arm(func(c *wireConn, m share.Message) bool {
				switch m.(type) {
				case share.WriteOps:
					if writer == nil {
						writer, c.kept = c, true
					}
				case share.Records:
					return writer == nil || (c == writer) == writerHasIt
				case share.Root, share.Bye, share.Derived, share.Frozen:
					return writer == nil
				case share.Result:
					if c == writer {
						close(answered)
						return false
					}
				}
				return true
			})
			w.mu.Lock()
			w.send = func(_ *wireConn, to *net.UnixConn, m share.Message, frame []byte) error {
				_, err := to.Write(frame)
				if _, records := m.(share.Records); records {
					close(received)
				}
				return err
			}
			w.mu.Unlock()
			done := make(chan error)
			go func() {
				_, err := existing(t, others[0], "docs").Insert(t.Context(), Document{ID: "new"})
				done <- err
			}()
			<-received
			<-answered
			if err := errors.Join(leader.Close(), others[1].Barrier(t.Context())); err != nil { // flushed
				t.Fatal(err)
			}
			upsert(t, existing(t, others[1], "docs"), Document{ID: "of the next leader"})
			w.arm(nil)
			writer.cut()
			if err := errors.Join(<-done, others[0].Barrier(t.Context())); err != nil {
				t.Error(err)
			}
			if n, err := existing(t, others[0], "docs").Count(t.Context(), nil); err != nil || n != 12 {
				t.Errorf("%d documents, %v", n, err)
			}
		})
	}
}
