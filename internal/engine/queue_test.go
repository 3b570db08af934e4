package engine

import (
	"io"
	"log/slog"
	"testing"
)

// The observer may find the queue empty when it begins to commit: the context of the last write
// that waited has ended. It then commits nothing, and the next write has the turn.
func TestLeadNobody(t *testing.T) {
	e, err := Open(t.TempDir(), Options{HeadSize: 1 << 20, Workers: 1, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.queue.committing = true // as CommitSubmitted leaves it
	e.commitNext(nil)
	if e.queue.committing || !e.head.first.IsZero() {
		t.Errorf("committing: %v, a group began at %v", e.queue.committing, e.head.first)
	}
	if _, err := e.Exclusively(t.Context(), func(*Group) ([]Op, error) { return nil, nil }); err != nil {
		t.Error(err)
	}
}

// A function that decides runs on the goroutine of its caller, also if the writes before it, which
// the observer was to commit, have left the queue.
func TestOthersDecideNothing(t *testing.T) {
	e, err := Open(t.TempDir(), Options{HeadSize: 1 << 20, Workers: 1, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	decided := false
	r := &request{turn: make(chan bool, 1), decide: func(*Group) ([]Op, error) {
		decided = true
		return nil, nil
	}}
	for name, commit := range map[string]func(){
		"the observer":    e.CommitSubmitted,
		"another request": func() { e.commitNext(&request{turn: make(chan bool, 1)}) },
	} {
		decided, e.queue.waiting = false, []*request{r}
		commit()
		if decided || len(r.turn) != 1 || !<-r.turn {
			t.Fatalf("%s did not give the turn to the function; decided: %v", name, decided)
		}
		if !e.commitNext(r) || !decided || e.queue.committing {
			t.Errorf("after %s, decided: %v, committing: %v", name, decided, e.queue.committing)
		}
	}
}
