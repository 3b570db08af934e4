//go:build unix

package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestHangup: a terminal that is closed interrupts a command, as the user does, so that it cleans
// up. A command that was started with nohup goes on.
func TestHangup(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("hangups are ignored here")
	}
	source := filepath.Join(t.TempDir(), "docs.jsonl")
	if err := os.WriteFile(source, []byte(`{"id":"a","text":"text"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		shell, message string
		status         int
	}{
		"terminal": {`exec "$@"`, "vecbolt: interrupted: ", statusError},
		"nohup":    {`trap "" HUP; exec "$@"`, "", statusOK},
	} {
		t.Run(name, func(t *testing.T) {
			reached, released := make(chan struct{}), make(chan struct{})
			reach := sync.OnceFunc(func() { close(reached) })
			release := sync.OnceFunc(func() { close(released) })
			model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // then the end of the client is noticed
				reach()
				select {
				case <-released:
				case <-r.Context().Done():
				}
				_, _ = io.WriteString(w, `{"model":"tiny","embeddings":[[1,0]]}`) // the client may be gone
			}))
			defer model.Close()
			defer release()

			dir := filepath.Join(t.TempDir(), "t.vdb")
			child := exec.CommandContext(t.Context(), "sh", "-c", tt.shell, "sh",
				"vecbolt", "import", dir, "c", source, "--embed", "ollama:tiny", "--set", "host="+model.URL)
			var stderr bytes.Buffer
			child.Stderr = &stderr
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- child.Wait() }()
			select {
			case <-reached:
			case err := <-ended:
				t.Fatalf("the import ended by itself: %v, %s", err, &stderr)
			}
			if err := child.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			if tt.status == statusOK {
				release()
			}
			<-ended
			if got := child.ProcessState.ExitCode(); got != tt.status || !strings.HasPrefix(stderr.String(), tt.message) {
				t.Errorf("%v, %q", child.ProcessState, &stderr)
			}
			if tt.status == statusOK && count(t, dir, "c") != 1 {
				t.Error("the import did not go on")
			}
		})
	}
}
