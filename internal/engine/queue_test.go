package engine

import (
	"io"
	"log/slog"
	"testing"
)

// The observer may find the queue empty when it begins to lead: the context of the last write that
// waited has ended. It then commits nothing, and the next write leads.
func TestLeadNobody(t *testing.T) {
	db, err := Open(t.TempDir(), Options{HeadSize: 1 << 20, Workers: 1, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.Queue.leading = true // as CommitSubmitted leaves it
	db.lead(nil)
	if db.Queue.leading || !db.Active.first.IsZero() {
		t.Errorf("leading: %v, a group began at %v", db.Queue.leading, db.Active.first)
	}
	if _, err := db.Exclusively(t.Context(), func(*Group) ([]Op, error) { return nil, nil }); err != nil {
		t.Error(err)
	}
}
