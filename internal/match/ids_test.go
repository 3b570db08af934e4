package match_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/formattest"
	"github.com/vecbolt/vecbolt/internal/match"
)

// IDs looks at its context in proportion to the ids that it reads, and ends with its error.
func TestIDsEndWithTheirContext(t *testing.T) {
	dir := t.TempDir()
	vdb, err := db.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := vdb.OpenCollection(t.Context(), "c", db.Schema{})
	if err != nil {
		t.Fatal(err)
	}
	const rows = 4000
	docs, want := make([]db.Document, rows), make([]string, rows)
	for i := range docs {
		want[i] = fmt.Sprintf("%04d", i)
		docs[i] = db.Document{ID: want[i], Metadata: db.Metadata{"n": i}}
	}
	if _, err := c.Upsert(t.Context(), docs...); err != nil {
		t.Fatal(err)
	}
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(dir, engine.Options{ReadOnly: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ver, err := e.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Done(ver)
	view := ver.SortedViews()[0]
	run := func(ctx context.Context, where filter.Expr) (ids []string, err error) {
		err = e.Guard(func() error {
			ids, err = match.IDs(ctx, ver.Files.Store, view, where)
			return err
		})
		return ids, err
	}
	const enough = 1 << 20
	looks := func(where filter.Expr, want []string) int {
		whole := formattest.NewCountdown(t.Context(), enough)
		got, err := run(whole, where)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%d ids, want %d: %v", len(got), len(want), err)
		}
		return enough - whole.Left()
	}
	none := looks(filter.Lt("n", 0), nil) // reads the columns, too
	all := looks(filter.Gte("n", 0), want)
	if all-none < rows/1024 {
		t.Errorf("%d looks at the context for %d ids, %d for none", all, rows, none)
	}
	for n := range all {
		if _, err := run(formattest.NewCountdown(t.Context(), n), filter.Gte("n", 0)); !errors.Is(err, context.Canceled) {
			t.Errorf("ended at look %d of %d: %v", n, all, err)
		}
	}
}
