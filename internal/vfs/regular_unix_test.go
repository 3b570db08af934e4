//go:build unix

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Other files than regular ones are refused by kind, without blocking. Links inside the directory
// are followed, links that leave it are not.
func TestOnlyRegularFiles(t *testing.T) {
	f := open(t, nil)
	at := func(name string) string { return filepath.Join(f.Dir(), name) }
	ok(t, os.WriteFile(at("a"), []byte("hello"), 0o600))
	ok(t, syscall.Mkfifo(at("pipe"), 0o600))
	ok(t, os.Mkdir(at("dir"), 0o700))
	ok(t, os.Symlink("a", at("link")))
	ok(t, os.Symlink("pipe", at("link to pipe")))
	ok(t, os.Symlink("loop", at("loop")))
	ok(t, os.Symlink("/etc/passwd", at("out")))
	for name, mode := range map[string]fs.FileMode{"pipe": fs.ModeNamedPipe, "dir": fs.ModeDir, "link to pipe": fs.ModeNamedPipe} {
		for what, use := range map[string]func() error{
			"open":          func() error { _, err := f.Open(name); return err },
			"open to write": func() error { _, err := f.OpenRW(name); return err },
			"read":          func() error { _, err := f.ReadFile(name, 100); return err },
			"size":          func() error { _, err := f.Size(name); return err },
			"lock":          func() error { _, err := f.Lock(name, true); return err },
			"share":         func() error { _, err := f.Lock(name, false); return err },
			"path":          func() error { _, err := OpenFile(at(name)); return err },
			"content":       func() error { _, err := ReadFile(at(name)); return err },
		} {
			err := use()
			if other, ok := errors.AsType[*NotRegularError](err); !ok || other.Mode.Type() != mode {
				t.Errorf("%s of %s: %v", what, name, err)
			}
		}
	}
	for _, name := range []string{"a", "link"} {
		if b, err := f.ReadFile(name, 100); err != nil || string(b) != "hello" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
		if b, err := ReadFile(at(name)); err != nil || string(b) != "hello" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	for _, name := range []string{"loop", "out"} {
		if _, err := f.Open(name); err == nil {
			t.Errorf("%s was opened", name)
		}
	}
	for _, name := range []string{"pipe", "a"} {
		if _, err := f.ReadDir(name); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("the entries of %s: %v", name, err)
		}
		if err := f.SyncDir(name); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("to sync the entries of %s: %v", name, err)
		}
		if _, err := Open(at(name), nil); !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("%s as a root: %v", name, err)
		}
	}
}
