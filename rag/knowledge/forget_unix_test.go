//go:build unix

package knowledge

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A learnt file that became a pipe cannot be read, and keeps its chunks.
func TestPipeInPlaceOfFile(t *testing.T) {
	f := newFixture(t)
	f.write("a.md", "Cats purr.")
	f.write("b.md", "Dogs bark.")
	f.expect(f.learn("b", counted), Report{Files: 2, Chunks: 2, Embedded: 2})
	path := filepath.Join(f.docs, "b.md")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f.expect(f.learn("b", nil), Report{Files: 1, Chunks: 1, Skipped: 1, Broken: 1})
	if s, err := f.Status(t.Context(), "b"); err != nil || s.Files != 2 || s.Chunks != 2 {
		t.Errorf("%+v, %v", s, err)
	}
}
