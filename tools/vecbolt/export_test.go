package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestOutFile: an export that fails leaves the file of an earlier one, and nothing beside it.
func TestOutFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out.jsonl")
	if err := os.WriteFile(name, []byte("before"), 0o640); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		keep bool
		want string
	}{{false, "before"}, {true, "after"}} {
		out, err := (&tool{}).create(name)
		if err == nil {
			_, err = io.WriteString(out, "after")
		}
		if err == nil && tt.keep {
			err = keep(out)
		}
		if err != nil {
			t.Fatal(err)
		}
		out.drop()
		if got, err := os.ReadFile(name); err != nil || string(got) != tt.want {
			t.Errorf("%q, %v, want %q", got, err, tt.want)
		}
		if left, err := os.ReadDir(filepath.Dir(name)); err != nil || len(left) != 1 {
			t.Error(left, err)
		}
	}
}

// TestOutFilesTogether: of files that belong together, all take their names or none.
func TestOutFilesTogether(t *testing.T) {
	for _, tt := range []struct {
		broken int // this file cannot be completed; -1 for none
		want   string
	}{{0, "before"}, {1, "before"}, {-1, "after"}} {
		dir := t.TempDir()
		var files []*outFile
		for i, name := range []string{"vectors", "documents"} {
			name = filepath.Join(dir, name)
			if err := os.WriteFile(name, []byte("before"), 0o640); err != nil {
				t.Fatal(err)
			}
			out, err := (&tool{}).create(name)
			if err == nil {
				_, err = io.WriteString(out, "after")
			}
			if err == nil && i == tt.broken {
				err = out.file.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, out)
		}
		if err := keep(files...); (err != nil) != (tt.broken >= 0) {
			t.Errorf("with file %d broken: %v", tt.broken, err)
		}
		for _, out := range files {
			out.drop()
			if got, err := os.ReadFile(out.name); err != nil || string(got) != tt.want {
				t.Errorf("with file %d broken: %s has %q, %v, want %q", tt.broken, out.name, got, err, tt.want)
			}
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != len(files) {
			t.Errorf("with file %d broken: %v, %v", tt.broken, left, err)
		}
	}
}
