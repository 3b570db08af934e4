package fsck_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fsck"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// TestRepairUnreadable has a disk that cannot read a page of meta.bolt, each in turn: what the
// other pages hold is saved, lost documents are reported, and so is the place. The database is the
// same afterwards.
func TestRepairUnreadable(t *testing.T) {
	ctx := t.Context()
	top, err := os.MkdirTemp("/dev/shm", "vecbolt-")
	if err != nil {
		top = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	src := filepath.Join(top, "db")
	vdb, err := db.Open(src, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := vdb.OpenCollection(ctx, "c", db.Schema{Dim: 2})
	if err != nil {
		t.Fatal(err)
	}
	const docs, large = 400, 50
	all := make([]db.Document, docs)
	for i := range all {
		all[i] = db.Document{ID: fmt.Sprintf("document %03d", i), Vector: []float32{1, float32(i)}, Text: fmt.Sprint("text ", i)}
	}
	all[large].Text = strings.Repeat("long ", 16_000) // its pages are not read by a check of the structure
	if _, err := c.Upsert(ctx, all...); err != nil {
		t.Fatal(err)
	}
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(src, engine.MetaName)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	roots, newest, err := boltcheck.Roots(bytes.NewReader(before), int64(len(before)))
	if err != nil {
		t.Fatal(err)
	}
	free, err := boltcheck.FreePages(bytes.NewReader(before), roots[newest])
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	longer := 0 // pages that cost one text
	for page := range roots[newest].Pages {
		if free[page/64]>>(page%64)&1 != 0 {
			continue
		}
		at := int64(page) * boltcheck.PageSize
		broken := func(op vfs.Op) error {
			if op.Kind == vfs.OpRead && op.Name == engine.MetaName && op.Off < at+boltcheck.PageSize && at < op.Off+int64(op.Len) {
				return syscall.EIO
			}
			return nil
		}
		r, err := fsck.RepairOn(ctx, src, filepath.Join(top, fmt.Sprint(page)), engine.Options{
			HeadSize: 64 << 20, Workers: 1, Logger: slog.New(slog.DiscardHandler),
		}, broken)
		if err != nil {
			t.Errorf("page %d: %v", page, err)
			continue
		}
		if !slices.ContainsFunc(r.Problems, func(p fsck.Problem) bool {
			return p.File == engine.MetaName && p.Offset == at && strings.Contains(p.Detail, syscall.EIO.Error())
		}) {
			t.Errorf("page %d: %+v", page, r.Problems)
		}
		for _, p := range r.Problems {
			if p.Offset != at && p.Offset >= 0 {
				t.Errorf("page %d: another one is said to be damaged: %+v", page, p)
			}
		}
		// A check of the files goes on behind such an error too, and says where the page is.
		opened, err := engine.Open(src, engine.Options{ReadOnly: true, Hook: broken, Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			if err := opened.Close(); err != nil {
				t.Error(err)
			}
		} else if refused++; !fsck.Damaged(err) {
			t.Errorf("page %d: %v", page, err)
		} else if c, err := fsck.CheckFiles(ctx, src, err); err != nil || c.Problems[0].Offset < 0 {
			t.Errorf("page %d: %+v, %v", page, c, err)
		}
		if missing := docs - r.Documents; missing > 0 && len(r.Lost) == 0 {
			t.Errorf("page %d: %d documents are missing, and nobody says so", page, missing)
		}
		if len(r.Lost) == 1 && r.Lost[0].ID == all[large].ID {
			longer++
		}
	}
	if pages := len(all[large].Text) / boltcheck.PageSize; longer < pages-1 {
		t.Errorf("%d of %d pages of a large document cost no more than its text", longer, pages)
	}
	if refused == 0 {
		t.Error("it opens, whatever page cannot be read")
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the database has changed: %v", err)
	}
}
