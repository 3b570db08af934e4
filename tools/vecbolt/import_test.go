package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/exchange"
)

// A slowModel is a server of embeddings that answers for the texts "text 0" to "text n-1". Requests
// for later texts wait until the client is gone or the model is released, and are not answered.
// Requests after that are.
type slowModel struct {
	mu       sync.Mutex
	answers  int            // n
	asked    map[string]int // how often vectors of a text were returned
	reached  chan struct{}  // closed by the first request that waits
	once     sync.Once
	released chan struct{}
}

func newSlowModel(n int) *slowModel {
	return &slowModel{answers: n, asked: map[string]int{}, reached: make(chan struct{}), released: make(chan struct{})}
}

// waits reports whether a request had to wait.
func (m *slowModel) waits(r *http.Request) bool {
	select {
	case <-m.released:
		return false
	default:
	}
	m.once.Do(func() { close(m.reached) })
	select {
	case <-m.released:
	case <-r.Context().Done():
	}
	return true
}

func (m *slowModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct{ Input []string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, `{"error":"not JSON"}`, http.StatusBadRequest)
		return
	}
	vecs := [][]float32{}
	for _, text := range body.Input {
		i := 0
		if n, err := fmt.Sscanf(text, "text %d", &i); n == 1 && err == nil && i >= m.answers && m.waits(r) {
			return // to a client that was killed
		}
		vecs = append(vecs, []float32{float32(i), 1, 0, 0})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, text := range body.Input {
		m.asked[text]++
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"model": "tiny", "embeddings": vecs}) // the client may be gone
}

// The process of an import is killed while it waits for a model. The next import goes on after the
// last whole batch: it embeds the other texts only, once each.
func TestImportKilled(t *testing.T) {
	const documents = 1000
	var lines bytes.Buffer
	for i := range documents {
		fmt.Fprintf(&lines, `{"id":"%d","text":"text %d"}`+"\n", i, i)
	}
	source := filepath.Join(t.TempDir(), "docs.jsonl")
	if err := os.WriteFile(source, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	const batch = 200 // of package exchange, with a model
	for _, written := range []int{0, batch, 3 * batch} {
		t.Run(fmt.Sprint(written), func(t *testing.T) {
			model := newSlowModel(written)
			server := httptest.NewServer(model)
			defer server.Close()
			dir := filepath.Join(t.TempDir(), "t.vdb")
			args := []string{"import", dir, "notes", source, "--embed", "ollama:tiny", "--set", "host=" + server.URL, "--json"}

			child := exec.CommandContext(t.Context(), "vecbolt", args...) // TestMain puts it there
			child.Stdout, child.Stderr = io.Discard, os.Stderr
			if err := child.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- child.Wait() }()
			select {
			case <-model.reached:
			case err := <-ended:
				t.Fatal("the import ended by itself: ", err)
			}
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err == nil {
				t.Fatal("the import was not killed")
			}
			close(model.released)

			var stdout, stderr bytes.Buffer
			if status := run(t.Context(), []string{"check", dir}, nil, &stdout, &stderr); status != statusOK {
				t.Fatalf("check: %s", &stderr)
			}
			if n := count(t, dir, "notes"); n != written {
				t.Errorf("%d documents survived, want %d", n, written)
			}
			model.mu.Lock()
			clear(model.asked)
			model.mu.Unlock()
			stdout.Reset()
			if status := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); status != statusOK {
				t.Fatal(stderr.String())
			}
			want := fmt.Sprintf(`{"added":%d,"updated":0,"unchanged":%d,"skipped":0,`, documents-written, written)
			if !strings.HasPrefix(stdout.String(), want) {
				t.Errorf("%s, want %s…", &stdout, want)
			}
			if n := count(t, dir, "notes"); n != documents {
				t.Errorf("%d documents, want %d", n, documents)
			}
			model.mu.Lock()
			defer model.mu.Unlock()
			for i := range documents {
				want := 1
				if i < written {
					want = 0
				}
				if n := model.asked[fmt.Sprintf("text %d", i)]; n != want {
					t.Fatalf("text %d was embedded %d times by the second import, want %d", i, n, want)
				}
			}
		})
	}
}

// The bytes that an import reads before it makes a collection include metadata.
func TestImportBeginsWithFewBytes(t *testing.T) {
	list := make([]any, 100_000) // 2.4 MB in memory
	read := 0
	src := &begun{next: func() (*exchange.ImportedDocument, error, bool) {
		read++
		return &exchange.ImportedDocument{Document: db.Document{Metadata: db.Metadata{"list": list}}}, nil, true
	}}
	err := src.begin(t.Context(), func(db.Document) error { return nil })
	if err != nil || read != 4 {
		t.Errorf("%d documents are read, want 4: %v", read, err)
	}
}

// TestInterruptedSource: a source that is interrupted between two documents ends with an error.
// Without it, a part would look like all.
func TestInterruptedSource(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	read := 0
	src := &begun{next: func() (*exchange.ImportedDocument, error, bool) {
		if read++; read == 3 {
			interrupt()
		}
		return &exchange.ImportedDocument{}, nil, true
	}}
	var last error
	n := 0
	for _, err := range src.Documents(ctx) {
		if last = err; err == nil {
			n++
		}
	}
	if n != 3 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d documents, then %v", n, last)
	}
}
