package engine

import (
	"io"
	"log/slog"
	"testing"
)

// The observer may find the queue empty when it begins to lead: the context of the last write that
// waited has ended. It then commits nothing, and the next write leads.
func TestLeadNobody(t *testing.T) {
	e, err := Open(t.TempDir(), Options{HeadSize: 1 << 20, Workers: 1, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.Queue.leading = true // as CommitSubmitted leaves it
	e.lead(nil)
	if e.Queue.leading || !e.Active.first.IsZero() {
		t.Errorf("leading: %v, a group began at %v", e.Queue.leading, e.Active.first)
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
	for name, lead := range map[string]func(){
		"the observer":    e.CommitSubmitted,
		"another request": func() { e.lead(&request{turn: make(chan bool, 1)}) },
	} {
		decided, e.Queue.Waiting = false, []*request{r}
		lead()
		if decided || len(r.turn) != 1 || !<-r.turn {
			t.Fatalf("%s did not give the lead to the function; decided: %v", name, decided)
		}
		if !e.lead(r) || !decided || e.Queue.leading {
			t.Errorf("after %s, decided: %v, leading: %v", name, decided, e.Queue.leading)
		}
	}
}
