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
	ok(t, os.Symlink("nowhere", at("dangling")))
	ok(t, os.Symlink("a/b", at("through")))
	for name, want := range map[string]string{
		"loop": "a loop of links", "out": "a link that leads out of the directory",
		"dangling": "a link to nothing", "through": "a link to nothing",
	} {
		for what, use := range map[string]func() error{
			"open":  func() error { _, err := f.Open(name); return err },
			"size":  func() error { _, err := f.Size(name); return err },
			"list":  func() error { _, err := f.ReadDir(name); return err },
			"mkdir": func() error { return f.Mkdir(name) },
		} {
			err := use()
			other, ok := errors.AsType[*NotRegularError](err)
			if !ok || other.Mode.Type() != fs.ModeSymlink || err.Error() != name+": "+want {
				t.Errorf("%s of %s: %v", what, name, err)
			}
			if errors.Is(err, fs.ErrNotExist) != (name == "dangling" && what != "mkdir") {
				t.Errorf("%s of %s is of another class: %v", what, name, err)
			}
		}
	}
	for name, want := range map[string]string{"pipe": "a named pipe, not a directory", "a": "a regular file, not a directory"} {
		if _, err := f.ReadDir(name); !errors.Is(err, syscall.ENOTDIR) || err.Error() != name+": "+want {
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
