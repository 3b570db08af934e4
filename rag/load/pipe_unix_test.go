//go:build unix

package load

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Named pipes among the files of a directory, and in the place of its rules, are reported or passed
// over: nothing waits for their other end.
func TestPipesAreNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"pipe.txt", ".gitignore"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	read, skipped := 0, 0
	for _, err := range Path(t.Context(), dir, nil) {
		var skip *SkipError
		switch {
		case err == nil:
			read++
		case errors.As(err, &skip) && strings.HasSuffix(skip.Source, "pipe.txt") && strings.Contains(err.Error(), "named pipe"):
			skipped++
		default:
			t.Error(err)
		}
	}
	if read != 1 || skipped != 1 {
		t.Errorf("%d read, %d skipped", read, skipped)
	}
	for _, err := range Path(t.Context(), filepath.Join(dir, "pipe.txt"), nil) {
		if err == nil || !strings.Contains(err.Error(), "named pipe") {
			t.Errorf("a pipe by its name: %v", err)
		}
	}
}
