package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
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
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vecbolt/vecbolt/db"
)

// The client of the SDK talks to the tool as agents do: over its standard input and output, and
// over HTTP.
func TestMCPClient(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t.vdb")
	vdb, err := db.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := vdb.CreateCollection(t.Context(), "c", db.Schema{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Upsert(t.Context(), db.Document{ID: "a", Vector: []float32{1, 0}}, db.Document{ID: "b", Vector: []float32{0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	search := func(transport sdk.Transport) {
		t.Helper()
		s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "search", Arguments: map[string]any{"collection": "c", "vector": []float32{0, 1}, "k": 1}})
		if err != nil {
			t.Fatal(err)
		}
		if text := r.Content[0].(*sdk.TextContent).Text; !strings.HasPrefix(text, `{"hits":[{"id":"b","score":1}]`) {
			t.Error(text)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Run("pipes", func(t *testing.T) {
		search(&sdk.CommandTransport{Command: exec.CommandContext(t.Context(), "vecbolt", "mcp", dir)}) // TestMain puts it there
	})
	t.Run("http", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		args := []string{"mcp", dir, "--http", "127.0.0.1:0"}
		t.Setenv("VECBOLT_TOKEN", "secret")
		lines, report, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer lines.Close()
		status := make(chan int, 1)
		go func() {
			defer report.Close()
			status <- run(ctx, args, strings.NewReader(""), report, report)
		}()
		said := bufio.NewScanner(lines)
		if !said.Scan() {
			t.Fatal("it says nothing")
		}
		_, url, ok := strings.Cut(said.Text(), "serving MCP at ")
		if !ok {
			t.Fatal(said.Text())
		}
		search(&sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer("secret")}})
		response, err := http.Post(url, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized {
			t.Errorf("without a token: status %d", response.StatusCode)
		}
		cancel()
		if got := <-status; got != statusOK {
			t.Errorf("status %d after an interruption", got)
		}
	})
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// Beside the API of serve, the token of a request decides which tools it finds.
func TestServeMCP(t *testing.T) {
	const read, write = "a token to read with", "a token to write with"
	t.Setenv("VECBOLT_READ_TOKEN", read)
	t.Setenv("VECBOLT_WRITE_TOKEN", write)
	for what, tools := range map[string]map[string]int{"read": {read: 6, write: 6, "another": 0}, "write": {read: 6, write: 8, "": 0}, "off": {write: 0}} {
		t.Run(what, func(t *testing.T) {
			url, end := serving(t, filepath.Join(t.TempDir(), "t.vdb"), "--mcp", what)
			defer end()
			for token, want := range tools {
				n := 0
				s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
					&sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: bearer(token)}}, nil)
				if err == nil {
					for _, err := range s.Tools(t.Context(), nil) {
						if err != nil {
							t.Error(err)
						}
						n++
					}
					s.Close()
				}
				if n != want {
					t.Errorf("token %q: %d tools, want %d; %v", token, n, want, err)
				}
			}
		})
	}
}

// serving runs "vecbolt serve" until the returned function is called, and returns where agents find
// it.
func serving(t *testing.T, args ...string) (url string, end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	lines, answer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	status := make(chan int, 1)
	go func() {
		defer answer.Close()
		status <- run(ctx, append([]string{"serve", "--addr", "127.0.0.1:0", "--log", "none"}, args...), strings.NewReader(""), answer, io.Discard)
	}()
	said := bufio.NewScanner(lines)
	if !said.Scan() {
		t.Fatal("it says nothing")
	}
	return strings.TrimPrefix(said.Text(), "listening on ") + "/mcp", func() {
		cancel()
		if got := <-status; got != statusOK {
			t.Errorf("status %d after an interruption", got)
		}
		lines.Close()
	}
}

// Beside the API of serve, agents search by texts in collections that are pinned to a model: to the
// one in the command, and to the one that the flags of serve name.
func TestServeMCPEmbeds(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Input []string }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		var answer struct {
			Data []map[string]any `json:"data"`
		}
		for i, text := range asked.Input {
			cats := strings.Count(strings.ToLower(text), "cat")
			answer.Data = append(answer.Data, map[string]any{"index": i, "embedding": []int{cats, 1}})
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	defer api.Close()
	for what, flags := range map[string][]string{
		"builtin": {"--embed", "static:english-v1"},
		"server":  {"--embed", "openai:m", "--set", "api_base=" + api.URL},
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "t.vdb")
			text := strings.NewReader(`{"id":"cat","text":"Cats purr."}` + "\n" + `{"id":"car","text":"Cars have wheels."}`)
			if got := run(t.Context(), append([]string{"put", dir, "c"}, flags...), text, io.Discard, io.Discard); got != statusOK {
				t.Fatal(got)
			}
			url, end := serving(t, append([]string{dir, "--mcp", "write"}, flags...)...)
			defer end()
			s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: url}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "search", Arguments: map[string]any{"collection": "c", "text": "cats purr", "k": 1}})
			if err != nil {
				t.Fatal(err)
			}
			if text := r.Content[0].(*sdk.TextContent).Text; !strings.HasPrefix(text, `{"hits":[{"id":"cat"`) {
				t.Error(text)
			}
		})
	}
}

// An interruption ends a server whose agent waits for a model.
func TestMCPInterrupted(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":%q,"arguments":%s}}
`
	for name, tt := range map[string]struct{ fill, serve, input string }{
		"mcp": {"put DIR c --embed ollama:tiny --set host=URL", "mcp DIR --provider ollama --model tiny --set host=URL",
			fmt.Sprintf(call, "search", `{"collection":"c","text":"text 1"}`)},
		"rag mcp": {"rag --workspace DIR learn texts --path FILE --provider ollama --model tiny --set host=URL", "rag --workspace DIR mcp",
			fmt.Sprintf(call, "query_base", `{"base":"texts","question":"text 1"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			model := newSlowModel(1)
			api := httptest.NewServer(model)
			defer api.Close()
			defer close(model.released)
			file := filepath.Join(t.TempDir(), "0.txt")
			if err := os.WriteFile(file, []byte("text 0"), 0o600); err != nil {
				t.Fatal(err)
			}
			names := strings.NewReplacer("DIR", filepath.Join(t.TempDir(), "t"), "FILE", file, "URL", api.URL)
			words := func(command string) []string { return strings.Fields(names.Replace(command)) }
			var said strings.Builder
			if got := run(t.Context(), words(tt.fill), strings.NewReader(`{"id":"0","text":"text 0"}`), io.Discard, &said); got != statusOK {
				t.Fatal(got, said.String())
			}
			said.Reset()
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			more, end := io.Pipe()
			defer end.Close()
			status := make(chan int, 1)
			go func() {
				status <- run(ctx, words(tt.serve), io.MultiReader(strings.NewReader(tt.input), more), io.Discard, &said)
			}()
			select {
			case <-model.reached:
			case got := <-status:
				t.Fatal(got, said.String())
			}
			interrupt()
			select {
			case got := <-status:
				if got != statusOK || said.String() != "" {
					t.Errorf("status %d: %s", got, &said)
				}
			case <-time.After(30 * time.Second): // it would wait for ever
				t.Fatal("it goes on")
			}
		})
	}
}

// Over HTTP, requests have some time to end after an interruption, and are then cut off.
func TestMCPInterruptedOverHTTP(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	lines, report, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer lines.Close()
	begun, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		defer report.Close()
		stuck := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(begun)
			<-r.Context().Done()
		})
		ended <- (&mcpCmd{HTTP: "127.0.0.1:0"}).serve(ctx, &tool{report: report}, stuck, time.Nanosecond)
	}()
	said := bufio.NewScanner(lines)
	if !said.Scan() {
		t.Fatal("it says nothing")
	}
	_, url, _ := strings.Cut(said.Text(), "serving MCP at ")
	failed := make(chan error, 1)
	go func() {
		response, err := http.Get(url)
		if err == nil {
			response.Body.Close()
		}
		failed <- err
	}()
	<-begun
	interrupt()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := <-failed; err == nil {
		t.Error("the request was answered")
	}
	if !said.Scan() || said.Text() != "vecbolt: requests were cut off at the end" {
		t.Errorf("%q", said.Text())
	}
}

var agents = flag.Duration("agents", 10*time.Second, "time for which TestMCPServersShareABase lets agents work")

// Eight agents have a server each, all for one base. They learn and ask for some time; nothing
// fails, and each finds at once what it has learnt.
func TestMCPServersShareABase(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: runs eight servers for 10 s, which -short does not")
	}
	names := []string{"Astrid", "Bruno", "Clara", "David", "Emma", "Felix", "Greta", "Hugo"}
	workspace, files := filepath.Join(t.TempDir(), "ws"), t.TempDir()
	end := time.Now().Add(*agents)
	var all sync.WaitGroup
	asked, learnt := make([]int, len(names)), make([]int, len(names))
	for i, name := range names {
		all.Go(func() {
			command := exec.CommandContext(t.Context(), "vecbolt", "rag", "--workspace", workspace, "mcp", "--allow-write", "--learn-from", files)
			var said strings.Builder
			command.Stderr = &said
			err := func() error {
				s, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &sdk.CommandTransport{Command: command}, nil)
				if err != nil {
					return err
				}
				call := func(tool string, args map[string]any) (string, error) {
					r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
					if err != nil {
						return "", err
					}
					text := ""
					for _, c := range r.Content {
						if c, ok := c.(*sdk.TextContent); ok {
							text += c.Text
						}
					}
					if r.IsError {
						return "", fmt.Errorf("%s: %s", tool, text)
					}
					return text, nil
				}
				for round := 0; round == 0 || time.Now().Before(end); round++ {
					fact := fmt.Sprintf("%s saw the comet number %d.", name, round)
					if err := os.WriteFile(filepath.Join(files, name+".txt"), []byte(fact), 0o600); err != nil {
						return err
					}
					if _, err := call("learn_base", map[string]any{"base": "sky", "paths": []string{name + ".txt"}}); err != nil {
						return err
					}
					learnt[i]++
					for range 3 {
						answer, err := call("query_base", map[string]any{"base": "sky", "question": "what did " + name + " see?"})
						if err != nil {
							return err
						}
						if !strings.Contains(answer, fact) {
							return fmt.Errorf("learnt %q, found %s", fact, answer)
						}
						asked[i]++
					}
				}
				return s.Close()
			}()
			if err != nil {
				t.Errorf("%s: %v; the server said %q", name, err, &said)
			}
		})
	}
	all.Wait()
	t.Logf("learnt %v times, asked %v times", learnt, asked)
}
