package fsck_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fsck"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A repair that its directories rule out does not touch the database, whose files it would leave
// open.
func TestRefusedRepair(t *testing.T) {
	src := t.TempDir()
	vdb, err := db.Open(src, nil)
	if err == nil {
		err = vdb.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, dst := range []string{engine.Memory, src, filepath.Join(src, "new")} {
		var ops []vfs.Op
		_, err := fsck.RepairOn(t.Context(), src, dst, engine.Options{}, func(op vfs.Op) error {
			ops = append(ops, op)
			return nil
		})
		if !errors.Is(err, document.ErrInvalid) {
			t.Errorf("to %q: %v", dst, err)
		}
		if len(ops) > 0 {
			t.Errorf("to %q: %d operations on the database, the first of them %+v", dst, len(ops), ops[0])
		}
	}
}
