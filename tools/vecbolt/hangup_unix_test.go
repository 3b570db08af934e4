//go:build unix

package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
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

// An interrupt ends a verb that waits for a named pipe, before it has a writer and after.
func TestPipeInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t.vdb")
	if status := run(t.Context(), []string{"put", dir, "c"}, strings.NewReader(`{"id":"a","vector":[1,0]}`), io.Discard, t.Output()); status != statusOK {
		t.Fatal("no database")
	}
	const line, row = `{"id":"b"`, "\x02\x00\x00\x00\x00" // the beginning of one
	for _, tt := range []struct {
		args []string // and the pipe
		half string   // what the verb waits after
	}{
		{[]string{"put", dir, "c"}, line},
		{[]string{"import", dir, "c"}, line},
		{[]string{"import", dir, "c", "--format", "csv"}, "id,na"},
		{[]string{"search", dir, "c", "--vector"}, line},
		{[]string{"search", dir, "c", "--fvecs"}, row},
	} {
		args := tt.args
		for _, content := range []string{"", tt.half} {
			pipe := filepath.Join(t.TempDir(), "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Skip("no named pipes here: ", err)
			}
			ctx, interrupt := context.WithCancel(t.Context())
			s := start(ctx, t, slices.Concat(args, []string{pipe})...)
			go func() {
				for s.out.Scan() { // otherwise its output would block it
				}
			}()
			if content != "" {
				w, err := os.OpenFile(pipe, os.O_WRONLY, 0) // when the verb has opened it
				if err != nil {
					t.Fatal(err)
				}
				defer w.Close()
				if _, err := io.WriteString(w, content); err != nil {
					t.Fatal(err)
				}
			}
			interrupt()
			select {
			case status := <-s.status:
				if status != statusError || !strings.HasPrefix(s.report.String(), "vecbolt: interrupted: ") {
					t.Errorf("%q, content %q: status %d: %s", args, content, status, &s.report)
				}
			case <-time.After(time.Minute):
				t.Fatalf("%q, content %q: it waits on", args, content)
			}
		}
	}
}
