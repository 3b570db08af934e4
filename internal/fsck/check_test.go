package fsck_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/formattest"
	"github.com/vecbolt/vecbolt/internal/fsck"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A deep check follows the ids of a collection page by page, and looks at its context in each.
func TestCheckOfIDsHasPages(t *testing.T) {
	dir := t.TempDir()
	vdb, err := db.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := vdb.OpenCollection(t.Context(), "c", db.Schema{})
	if err != nil {
		t.Fatal(err)
	}
	const rows, page = 300, 10
	docs := make([]db.Document, rows)
	for i := range docs {
		docs[i] = db.Document{ID: fmt.Sprint(i)}
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
	const enough = 1 << 20
	for _, page := range []int{page, rows, rows + 1, 7} {
		whole := formattest.NewCountdown(t.Context(), enough)
		r, err := fsck.CheckIDs(whole, e, page)
		if err != nil || len(r.Problems) > 0 {
			t.Fatalf("pages of %d: %+v, %v", page, r, err)
		}
		looks := enough - whole.Left()
		if looks < rows/page {
			t.Errorf("pages of %d: %d looks at the context for %d ids", page, looks, rows)
		}
		for n := range looks {
			if _, err := fsck.CheckIDs(formattest.NewCountdown(t.Context(), n), e, page); !errors.Is(err, context.Canceled) {
				t.Errorf("ended at look %d of %d: %v", n, looks, err)
			}
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	// An id on a late page that leads to the document of another one is found.
	fsys, err := vfs.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer fsys.Close()
	store, err := meta.Open(fsys, engine.MetaName, meta.Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = store.Update(func(tx *meta.Tx) error {
		colls, err := tx.Collections()
		if err != nil {
			return err
		}
		doc, _, err := tx.ID(colls[0].ID, "5")
		if err != nil {
			return err
		}
		return tx.PutID(colls[0].ID, "stray", doc)
	})
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	if e, err = engine.Open(dir, engine.Options{ReadOnly: true, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, page := range []int{page, rows + 1, rows + 2} {
		r, err := fsck.CheckIDs(t.Context(), e, page)
		if err != nil || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Detail, `id "stray" leads to it`) {
			t.Errorf("pages of %d: %+v, %v", page, r, err)
		}
	}
}
