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
			err = out.keep()
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
