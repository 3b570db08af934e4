package knowledge_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
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
