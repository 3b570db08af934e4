package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/vecbolt/vecbolt/internal/vfs"
)

// TestMissingDrive: a drive that is not there has no parent to make it in.
func TestMissingDrive(t *testing.T) {
	if runtime.GOOS != "windows" {
		t.Skip("every path begins in a directory that is there")
	}
	for letter := 'Z'; letter >= 'A'; letter-- {
		drive := fmt.Sprintf(`%c:\`, letter)
		if _, err := os.Stat(drive); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		dir := filepath.Join(drive, "a", "b")
		if err := vfs.MakeDir(dir, nil); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("MakeDir: %v", err)
		}
		if top := TopMissing(dir); top != drive {
			t.Errorf("TopMissing: %q", top)
		}
		return
	}
	t.Skip("every letter has a drive")
}

// TestMakeDir makes a directory and its parents, and says which one would be the first.
func TestMakeDir(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "a", "b") + string(filepath.Separator)
	if got := TopMissing(dir); got != filepath.Join(top, "a") {
		t.Errorf("TopMissing: %q", got)
	}
	for range 2 {
		if err := vfs.MakeDir(dir, nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := TopMissing(dir); got != "" {
		t.Errorf("TopMissing of what is there: %q", got)
	}
	if err := os.WriteFile(filepath.Join(top, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := vfs.MakeDir(filepath.Join(top, "file", "b"), nil); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("below a file: %v", err)
	}
}

// TestSharedWhereItCannotBe: an engine that may share, as Repair makes one, opens on every system.
func TestSharedWhereItCannotBe(t *testing.T) {
	e, err := Open(t.TempDir(), Options{HeadSize: 1 << 20, Workers: 1, Shared: true, Upstream: new(lonely),
		OnLead: func(*Engine) bool { return true }, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if e.sharing() != CanShare {
		t.Errorf("shares: %v", e.sharing())
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
