package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	hint := func(err error, args ...string) string { return hintOf(t, err, args...) }
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

// hintOf returns the hints of an error of a command line.
func hintOf(t *testing.T, err error, args ...string) string {
	t.Helper()
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

// TestHintOfAMissingDatabase: what creates a database, but for the command that could not.
func TestHintOfAMissingDatabase(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "no disk", "notes.vdb")
	missing := fmt.Errorf("open: %w: %w", db.ErrNotFound, fs.ErrNotExist)
	if got, want := hintOf(t, missing, "info", dir), cite("vecbolt put "+quote(dir)+" COLLECTION", onWindows); !strings.Contains(got, want) {
		t.Errorf("%q lacks %s", got, want)
	}
	for _, args := range [][]string{{"put", dir, "c", "x.jsonl"}, {"import", dir, "c", "x.jsonl"}} {
		if got := hintOf(t, missing, args...); got != "" {
			t.Errorf("%v: %q", args, got)
		}
	}
}

// TestCite: words and commands as the shells of a system take them.
func TestCite(t *testing.T) {
	for _, tt := range []struct {
		word           string
		other, windows string
	}{
		{"a/b.vdb", "a/b.vdb", "a/b.vdb"},
		{`C:\Users\me~1\a.vdb`, `'C:\Users\me~1\a.vdb'`, `C:\Users\me~1\a.vdb`},
		{`C:\my data`, `'C:\my data'`, `"C:\my data"`},
		{"100%", "100%", `"100%"`},
		{`{"a":1}`, `'{"a":1}'`, `'{"a":1}'`},
		{"it's", `'it'\''s'`, `"it's"`},
	} {
		if got := quoteFor(tt.word, false); got != tt.other {
			t.Errorf("%s: %s", tt.word, got)
		}
		if got := quoteFor(tt.word, true); got != tt.windows {
			t.Errorf("%s on Windows: %s", tt.word, got)
		}
	}
	command := `vecbolt put "C:\my data" COLLECTION`
	if got := cite(command, true); got != "'"+command+"'" {
		t.Error(got)
	}
	if got := cite(`vecbolt put C:\data c`, true); got != `"vecbolt put C:\data c"` {
		t.Error(got)
	}
	if got := cite("vecbolt put a\x1b", false); got != `"vecbolt put a\x1b"` {
		t.Error(got)
	}
}
