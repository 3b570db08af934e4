package knowledge_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/knowledge"
)

// Clients of a service see no path of the machine, and servers only if they may write.
func TestErrorText(t *testing.T) {
	e, err := knowledge.New(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	config := e.ConfigPath("pets")
	model := &embed.Error{Kind: embed.ErrOther, Provider: "ollama", Err: errors.New("dial localhost:1")}
	for _, tt := range []struct {
		err            error
		reader, writer string
		whole          bool // for readers
	}{
		{fmt.Errorf("%w: base pets in %s", knowledge.ErrNotFound, config), "base 'pets' does not exist, or was never learnt", "", true},
		{fmt.Errorf("%w: %s: top_k", knowledge.ErrConfig, config), "invalid configuration: config.yaml: top_k", "", true},
		{fmt.Errorf("query: %w: score", db.ErrInvalid), "query: invalid: score", "", true},
		{fmt.Errorf("%s: %w", config, db.ErrExists), "the base exists already", "", true},
		{fmt.Errorf("%s: %w", config, db.ErrLocked), "base 'pets' is being learnt or configured, or another process keeps it for itself", "", true},
		{model, "a model of base 'pets' does not answer", "ollama: embedding failed: dial localhost:1", false},
		{&embed.Error{Kind: embed.ErrConfig, Provider: "model2vec", Err: errors.New("no directory")},
			"the configuration of base 'pets' is invalid", "model2vec: invalid configuration: no directory", false},
		{&embed.Error{Kind: embed.ErrProviderNotFound, Provider: "x"},
			"the configuration of base 'pets' is invalid", "x: provider not found", false},
		{&embed.Error{Kind: embed.ErrProvider, Provider: "x", Status: 401},
			"the configuration of base 'pets' is invalid", "x: provider error: status 401", false},
		{fmt.Errorf("%w: %w: dial localhost:1", rag.ErrQuery, rag.ErrRerank),
			"a model of base 'pets' does not answer", "query: rerank: dial localhost:1", false},
		{fmt.Errorf("%w: localhost:1", knowledge.ErrModel), "a model of base 'pets' does not answer", "the chat model failed: localhost:1", false},
		{fmt.Errorf("%s: %w", config, db.ErrCorrupt), "base 'pets': corrupt", "", false},
		{&fs.PathError{Op: "open", Path: config, Err: fs.ErrPermission}, "base 'pets' cannot be used", "", false},
	} {
		for _, write := range []bool{false, true} {
			want, whole := tt.reader, tt.whole
			if write && tt.writer != "" {
				want, whole = tt.writer, true
			}
			if text, all := e.ErrorText("pets", tt.err, write); text != want || all != whole {
				t.Errorf("%v, may write %v: %q, %v", tt.err, write, text, all)
			}
		}
	}
}

// A wrong value in a configuration is quoted, but a server only for clients that may write, and the
// name and the password of a URL for none.
func TestErrorTextOfConfig(t *testing.T) {
	e, err := knowledge.New(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	const url = ": want a URL that begins with http:// or https://"
	for _, tt := range []struct {
		config         string
		reader, writer string // behind the kind; an empty writer sees the text of readers
		whole          bool   // for readers
	}{
		{"top_k: -1", "top_k: -1: want an integer from 0 to 1000000", "", true},
		{"top_k: x", `top_k: "x": want an integer from 0 to 1000000`, "", true},
		{"strategy: best@1", `strategy: "best@1": want one of auto, dense, text, hybrid, hyde, multi-query, mmr`, "", true},
		{"chat_url: internal.corp", "chat_url" + url, `chat_url: "internal.corp"` + url, false},
		{"chat_url: bob:hunter2@internal.corp", "chat_url" + url, `chat_url: "…@internal.corp"` + url, false},
		{"rerank_url: ftp://bob:hunter2@internal.corp/x", "rerank_url" + url, `rerank_url: "ftp://…@internal.corp/x"` + url, false},
		{"chat_url: bob:hunter2/?#@internal.corp", "chat_url" + url, `chat_url: "…@internal.corp"` + url, false},
		{"chat_url: bob:" + strings.Repeat("hunter2", 20) + "@internal.corp", "chat_url" + url, `chat_url: "…@internal.corp"` + url, false},
		{`chat_url: "bob:hun\nter2@internal.corp"`, "chat_url" + url, `chat_url: "…@internal.corp"` + url, false},
		{"chat_url: [bob:hunter2@internal.corp]", "chat_url" + url, "", false},
		{"embedding: {provider_config: 'http://bob:hunter2@internal.corp'}", "embedding.provider_config: want settings of the provider",
			`embedding.provider_config: "http://…@internal.corp": want settings of the provider`, false},
	} {
		if err := os.MkdirAll(filepath.Dir(e.ConfigPath("pets")), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(e.ConfigPath("pets"), []byte(tt.config+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := e.Config("pets")
		for _, write := range []bool{false, true} {
			want, all := tt.reader, tt.whole || write
			if write && tt.writer != "" {
				want = tt.writer
			}
			text, whole := e.ErrorText("pets", err, write)
			if want = "config.yaml: invalid configuration: " + want; text != want || whole != all {
				t.Errorf("%s, may write %v: %q, %v", tt.config, write, text, whole)
			}
		}
		if strings.Contains(fmt.Sprint(err), "hunter2") {
			t.Error(err)
		}
	}
	// Errors of YAML quote the lines around the wrong one.
	broken := []byte("chat_url: http://bob:hunter2@internal.corp\ntop_k: 1: 2\n")
	if err := os.WriteFile(e.ConfigPath("pets"), broken, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = e.Config("pets")
	for _, write := range []bool{false, true} {
		text, whole := e.ErrorText("pets", err, write)
		if !strings.HasPrefix(text, "invalid configuration: config.yaml: [2:") || strings.Contains(text, "internal") || !whole {
			t.Errorf("may write %v: %q, %v", write, text, whole)
		}
	}
}

func TestStatusShown(t *testing.T) {
	files := t.TempDir()
	status := knowledge.Status{Name: "pets", Files: 1, Root: files, Locked: "by process 7 at " + files,
		Config:   knowledge.Config{Name: "pets", ChatURL: "http://localhost:1", ChatModel: "m", ChatKeyEnv: "KEY"},
		Learning: &knowledge.Progress{File: filepath.Join(files, "pets", "cats.md")}}
	for _, tt := range []struct {
		files     string
		write     bool
		url, file string
	}{
		{files, false, "", "pets/cats.md"},
		{files, true, "http://localhost:1", "pets/cats.md"},
		{"", false, "", "cats.md"},
		{filepath.Join(files, "dogs"), true, "http://localhost:1", "cats.md"},
	} {
		want := &knowledge.Status{Name: "pets", Files: 1, Locked: "another process keeps the base for itself",
			Config: knowledge.Config{Name: "pets", ChatURL: tt.url, ChatModel: "m"}, Learning: &knowledge.Progress{File: tt.file}}
		if tt.write {
			want.Config.ChatKeyEnv = "KEY"
		}
		if diff := cmp.Diff(want, status.ForClients(tt.files, tt.write)); diff != "" {
			t.Errorf("%+v: %s", tt, diff)
		}
	}
	if status.Root != files || status.Learning.File != filepath.Join(files, "pets", "cats.md") {
		t.Error("the status itself has changed")
	}
}
