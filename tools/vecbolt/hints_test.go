package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/db"
)

// TestHintOfAFullDisk asks what to do where no command can write, because a log has to be flushed
// first and there is no room for that.
func TestHintOfAFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "notes.vdb")
	if err := os.MkdirAll(filepath.Join(dir, "wal"), 0o700); err != nil {
		t.Fatal(err)
	}
	full := fmt.Errorf("open: %w", db.ErrNoSpace)
	hint := func(err error, args ...string) string {
		var c cli
		var helped bool
		parser, failed := newParser(&c, io.Discard, io.Discard, &helped)
		if failed != nil {
			t.Fatal(failed)
		}
		line, failed := parser.Parse(args)
		if failed != nil {
			t.Fatal(failed)
		}
		return strings.Join(hints(line, err), "\n")
	}
	if got := hint(full, "drop", dir, "c"); got != "" {
		t.Errorf("without a log: %q", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "wal", "00000001.wal"), make([]byte, 3<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"drop", dir, "c"}, {"compact", dir}, {"delete", dir, "c", "a"}} {
		if got := hint(full, args...); !strings.Contains(got, "make room on the disk of "+dir+", mostly no more than the 3.0 MiB of its log") ||
			!strings.Contains(got, "vecbolt backup "+dir+" DIR") {
			t.Errorf("%v: %q", args, got)
		}
	}
	if got := hint(full, "backup", dir, "copy"); strings.Contains(got, "room") {
		t.Errorf("the disk of the copy is full: %q", got)
	}
	if got := hint(errors.New("another"), "drop", dir, "c"); strings.Contains(got, "room") {
		t.Errorf("another error: %q", got)
	}
}
