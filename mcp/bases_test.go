package mcp

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
	if l, failure := call[baseList](t, reader, "list_bases", `{}`); failure != "" || len(l.Bases) != 2 || !strings.Contains(l.Bases[0].Error, "top_k") || l.Bases[1].Name != "pets" {
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
	} {
		if _, failure := call[map[string]any](t, s, tt.tool, tt.arguments); !strings.Contains(failure, tt.want) {
			t.Errorf("%s %s: %q", tt.tool, tt.arguments, failure)
		}
	}
}
