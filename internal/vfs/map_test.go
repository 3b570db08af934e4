package vfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/vecbolt/vecbolt/internal/vfs"
)

func TestMapFile(t *testing.T) {
	for _, content := range []string{"", "abc"} {
		name := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := vfs.MapFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m.Advise(vfs.Forget)
		if got := string(m.Bytes()); got != content {
			t.Errorf("%q, want %q", got, content)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := vfs.MapFile(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := vfs.MapFile(t.TempDir()); err == nil {
		t.Error("a directory")
	}
}
