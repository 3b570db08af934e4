package mcp

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vecbolt/vecbolt/rag/knowledge"
)

// TestBases makes, learns, configures and asks knowledge bases, without a database beside them.
func TestBases(t *testing.T) {
	files := t.TempDir()
	for name, text := range map[string]string{"cats.md": "# Cats\n\nCats purr.\n", "dogs.md": "# Dogs\n\nDogs bark.\n"} {
		if err := os.WriteFile(filepath.Join(files, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	workspace := filepath.Join(t.TempDir(), "ws")
	engine, err := knowledge.New(workspace, &knowledge.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := connect(t, NewServer(nil, &Options{AllowWrite: true, Bases: engine, Files: files}))
	reader := connect(t, NewServer(nil, &Options{Bases: engine, Files: files}))
	tools, err := reader.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) != 3 {
		t.Errorf("%d tools for readers, %v", len(tools.Tools), err)
	}

	made, failure := call[changedKeys](t, s, "create_base", `{"base":"pets","set":{"top_k":1,"splitter":"sentences"}}`)
	if failure != "" || made.Changes["top_k"] != "at once" || !strings.Contains(made.Changes["splitter"], "next learn") {
		t.Errorf("%+v, %s", made, failure)
	}
	if report, failure := call[knowledge.Report](t, s, "learn_base", `{"base":"pets","paths":["."]}`); failure != "" || report.Files != 2 {
		t.Errorf("%+v, %s", report, failure)
	}
	if l, failure := call[baseList](t, reader, "list_bases", `{}`); failure != "" || len(l.Bases) != 1 || l.Bases[0].Name != "pets" || l.Bases[0].Language != "english" {
		t.Errorf("%+v, %s", l, failure)
	}
	ask := func(arguments string) passages {
		t.Helper()
		p, failure := call[passages](t, reader, "query_base", arguments)
		if failure != "" {
			t.Fatal(failure)
		}
		return p
	}
	if p := ask(`{"base":"pets","question":"who purrs?"}`); len(p.Passages) != 1 || !strings.Contains(p.Passages[0].Text, "purr") || !strings.HasSuffix(p.Passages[0].Source, "cats.md:1") {
		t.Errorf("%+v", p)
	}
	if p := ask(`{"base":"pets","question":"who barks?","k":2,"set":{"strategy":"text"},"max_text":4}`); p.Strategy != "text" || len(p.Passages) != 1 || p.Passages[0].Text != "# Do" || p.Passages[0].Cut == 0 {
		t.Errorf("%+v", p)
	}
	ask(`{"base":"pets","question":"who barks?","conversation":"x"}`)
	if p := ask(`{"base":"pets","question":"at whom?","conversation":"x"}`); p.Query != "who barks? at whom?" {
		t.Errorf("%+v", p)
	}
	if c, failure := call[changedKeys](t, s, "configure_base", `{"base":"pets","set":{"top_k":2}}`); failure != "" || len(c.Changes) != 1 {
		t.Errorf("%+v, %s", c, failure)
	}
	d, failure := call[baseDescription](t, reader, "describe_base", `{"base":"pets"}`)
	if failure != "" || d.Files != 2 || d.Keys["top_k"] != 2.0 || d.Keys["splitter"] != "sentences" || d.Stats.Queries != 4 || d.Learnt == "" {
		t.Errorf("%+v, %s", d, failure)
	}
	if _, err := engine.Create("new", nil); err != nil {
		t.Fatal(err)
	}
	if _, failure := call[passages](t, reader, "query_base", `{"base":"new","question":"x"}`); !strings.Contains(failure, `"new" was never learnt`) {
		t.Error(failure)
	}
	broken := filepath.Join(workspace, "new", "config.yaml")
	if err := os.WriteFile(broken, []byte("top_k: many\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, failure := call[baseList](t, reader, "list_bases", `{}`); failure != "" || len(l.Bases) != 2 || !strings.HasPrefix(l.Bases[0].Error, "config.yaml: ") || !strings.Contains(l.Bases[0].Error, "top_k") || l.Bases[1].Name != "pets" {
		t.Errorf("%+v, %s", l, failure)
	}
	if err := engine.Clean("new"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ tool, arguments, want string }{
		{"query_base", `{"base":"none","question":"x"}`, `base "none"; existing bases: ["pets"]`},
		{"describe_base", `{"base":"none"}`, `base "none"; existing bases: ["pets"]`},
		{"configure_base", `{"base":"none","set":{"top_k":1}}`, `base "none"; existing bases: ["pets"]`},
		{"query_base", `{"base":"pets","question":"x","set":{"chat_url":"http://localhost:1"}}`, `chat_url`},
		{"create_base", `{"base":"x","set":{"provider":"openai"}}`, `provider`},
		{"create_base", `{"base":"pets"}`, `exists`},
		{"learn_base", `{"base":"pets","paths":["../x"]}`, `is not a relative path below`},
		{"learn_base", `{"base":"pets","paths":["/etc"]}`, `is not a relative path below`},
		{"learn_base", `{"base":"pets","paths":["-"]}`, `is not a relative path below`},
		{"learn_base", `{"base":"pets","paths":["none"]}`, `a path does not exist`},
	} {
		if _, failure := call[map[string]any](t, s, tt.tool, tt.arguments); !strings.Contains(failure, tt.want) {
			t.Errorf("%s %s: %q", tt.tool, tt.arguments, failure)
		}
	}
}

// TestBasesOfOthers: as over HTTP, agents see no paths of the machine, and those that only read see
// no servers.
func TestBasesOfOthers(t *testing.T) {
	files, workspace := t.TempDir(), filepath.Join(t.TempDir(), "ws")
	if err := os.Mkdir(filepath.Join(files, "pets"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(files, "pets", "cats.md"), []byte("Cats purr."), 0o600); err != nil {
		t.Fatal(err)
	}
	embeds, goes := make(chan struct{}), make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		switch {
		case err != nil:
			t.Error(err)
		case strings.Contains(string(body), "purr"):
			close(embeds)
			<-goes
			_, _ = io.WriteString(w, `{"embeddings":[[1,0]]}`)
		default:
			http.Error(w, r.Host+" has no such model", http.StatusNotFound)
		}
	}))
	defer model.Close()
	engine, err := knowledge.New(workspace, &knowledge.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	config := knowledge.Config{Provider: "ollama", Model: "m", Embedding: knowledge.Embedding{Dimensions: 2, ProviderConfig: map[string]any{"host": model.URL}}}
	var withheld []string
	server := func(write bool) *sdk.Server {
		return NewServer(nil, &Options{AllowWrite: write, Bases: engine, Files: files, Withheld: func(err error) { withheld = append(withheld, err.Error()) }})
	}
	reader, writer := connect(t, server(false)), connect(t, server(true))
	learnt := make(chan error, 1)
	go func() {
		_, err := engine.Learn(t.Context(), "pets", knowledge.LearnOptions{Paths: []string{files}, Config: &config})
		learnt <- err
	}()
	select {
	case <-embeds:
	case err := <-learnt:
		t.Fatal(err)
	}
	for who, s := range map[string]*sdk.ClientSession{"reader": reader, "writer": writer} {
		if d, failure := call[baseDescription](t, s, "describe_base", `{"base":"pets"}`); failure != "" || d.Learning == nil || d.Learning.File != "pets/cats.md" {
			t.Errorf("%s: %+v, %s", who, d.Learning, failure)
		}
	}
	close(goes)
	if err := <-learnt; err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(model.URL, "http://")
	for _, tt := range []struct {
		who           *sdk.ClientSession
		want, without string
		withheld      int
	}{
		{reader, "the configuration of base 'pets' is invalid", host, 1},
		{writer, host, "ask for nothing", 0},
	} {
		withheld = nil
		_, failure := call[passages](t, tt.who, "query_base", `{"base":"pets","question":"who?"}`)
		if !strings.Contains(failure, tt.want) || strings.Contains(failure, tt.without) || len(withheld) != tt.withheld {
			t.Errorf("%q, %q", failure, withheld)
		}
		for _, text := range withheld {
			if !strings.Contains(text, host) {
				t.Error(text)
			}
		}
	}
	// A workspace that cannot be read.
	if err := os.RemoveAll(workspace); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(workspace, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for tool, arguments := range map[string]string{"list_bases": `{}`, "describe_base": `{"base":"pets"}`, "create_base": `{"base":"other"}`, "learn_base": `{"base":"other","paths":["."]}`} {
		if _, failure := call[map[string]any](t, writer, tool, arguments); failure == "" || strings.Contains(failure, workspace) {
			t.Errorf("%s: %q", tool, failure)
		}
	}
}

// TestLimitsOfQuestions: no question asks for more chunks than agents get, by none of its keys, nor
// by those of the base.
func TestLimitsOfQuestions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cats.md")
	if err := os.WriteFile(file, []byte("Cats purr."), 0o600); err != nil {
		t.Fatal(err)
	}
	engine, err := knowledge.New(t.TempDir(), &knowledge.Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		_, err = engine.Learn(t.Context(), "pets", knowledge.LearnOptions{Paths: []string{file}})
	}
	if err != nil {
		t.Fatal(err)
	}
	s := connect(t, NewServer(nil, &Options{Bases: engine}))
	ask := func(arguments, want string) {
		t.Helper()
		p, failure := call[passages](t, s, "query_base", `{"base":"pets","question":"who purrs?"`+arguments+`}`)
		if (want == "") != (len(p.Passages) == 1) || !strings.Contains(failure, want) {
			t.Errorf("%s: %+v, %s", arguments, p, failure)
		}
	}
	for _, key := range []string{"candidates", "max_siblings", "fusion_depth"} {
		ask(fmt.Sprintf(`,"set":{%q:1000}`, key), "")
		ask(fmt.Sprintf(`,"set":{%q:1001}`, key), key+": 1001: want an integer of at most 1000")
	}
	if _, err := engine.Configure(t.Context(), "pets", map[string]any{"top_k": 1001}); err != nil {
		t.Fatal(err)
	}
	ask("", "top_k: 1001: want an integer of at most 1000")
	ask(`,"k":50`, "")
}

// TestManyPassages: an answer has at most MaxK passages, whatever the configuration says.
func TestManyPassages(t *testing.T) {
	const rows = MaxK + 7
	file := filepath.Join(t.TempDir(), "cats.csv")
	if err := os.WriteFile(file, []byte("text\n"+strings.Repeat("A cat.\n", rows)), 0o600); err != nil {
		t.Fatal(err)
	}
	engine, err := knowledge.New(t.TempDir(), &knowledge.Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		_, err = engine.Learn(t.Context(), "pets", knowledge.LearnOptions{Paths: []string{file}, Set: map[string]any{"top_k": 2 * rows}})
	}
	if err != nil {
		t.Fatal(err)
	}
	s := connect(t, NewServer(nil, &Options{Bases: engine}))
	for k, want := range map[string]struct{ passages, more int }{"": {MaxK, rows - MaxK}, `,"k":2.0`: {2, 0}} {
		p, failure := call[passages](t, s, "query_base", `{"base":"pets","question":"a cat?"`+k+`}`)
		if failure != "" || len(p.Passages) != want.passages || p.More != want.more {
			t.Errorf("%s: %d passages and %d more, %s", k, len(p.Passages), p.More, failure)
		}
	}
}
