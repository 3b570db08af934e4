package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestDirSize(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.Mkdir(at("seg"), 0o700), os.WriteFile(at("seg/a"), make([]byte, 1000), 0o600),
		os.WriteFile(filepath.Join(other, "b"), make([]byte, 500), 0o600)); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	for name, to := range map[string]string{link: dir, at("b"): filepath.Join(other, "b"), at("other"): other,
		at("up"): dir, at("gone"): at("none")} {
		if err := os.Symlink(to, name); err != nil {
			t.Skip(err)
		}
	}
	for _, dir := range []string{dir, link} {
		if n, err := DirSize(dir); err != nil || n != 2000 {
			t.Errorf("%s: %d, %v, want 2000", dir, n, err)
		}
	}
	if _, err := DirSize(at("none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
