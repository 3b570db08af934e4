package engine

import (
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// The time of a write is noted in the head that gets it, also if the head before had no room: a
// segment without that time passes for one that has settled long ago.
func TestEveryHeadNotesItsFirstWrite(t *testing.T) {
	ctx := t.Context()
	e, err := Open(t.TempDir(), Options{HeadSize: 1 << 10, Workers: 1, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.Define(ctx, "docs", Schema{Dim: 1, Metric: fileformat.L2}, nil, false); err != nil {
		t.Fatal(err)
	}
	heads := map[*head]bool{}
	for i := range 4 {
		id := fmt.Sprint(i)
		doc, err := document.Append(nil, &document.Document{ID: id, Text: string(make([]byte, 2<<10))})
		if err != nil {
			t.Fatal(err)
		}
		ops := []Op{{Kind: OpPut, Collection: "docs", ID: id, Doc: doc, Vec: []float32{1}}}
		if _, err := e.Write(ctx, ops, len(doc)); err != nil {
			t.Fatal(err)
		}
		e.commitMu.Lock()
		h, last := e.head, e.lastWrite
		e.commitMu.Unlock()
		heads[h] = true
		if h.first.IsZero() || !h.watched || h.first.After(last) {
			t.Errorf("write %d: the head began at %v, watched: %v, last write at %v", i, h.first, h.watched, last)
		}
	}
	if len(heads) != 4 {
		t.Errorf("%d heads", len(heads))
	}
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	e.metaMu.Lock()
	defer e.metaMu.Unlock()
	for id, s := range e.segments {
		if s.made.IsZero() {
			t.Errorf("segment %d has no time", id)
		}
	}
}
