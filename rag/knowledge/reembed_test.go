package knowledge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/eval"
)

var hashed = &Config{Provider: "hash", Model: "trigram-v1", Embedding: Embedding{Dimensions: 128, Normalize: true}}

func yes(*Reembedding) bool { return true }

func (f *fixture) reembed(o ReembedOptions) *Reembedding {
	f.t.Helper()
	r, err := f.Reembed(f.t.Context(), "b", o)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *fixture) status() *Status {
	f.t.Helper()
	s, err := f.Status(f.t.Context(), "b")
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// entries returns what lies in the directory of the base.
func (f *fixture) entries() []string {
	f.t.Helper()
	return f.entriesOf("b")
}

// entriesOf lists the directory of a base. There are none if the directory does not exist.
func (f *fixture) entriesOf(name string) (names []string) {
	f.t.Helper()
	entries, err := os.ReadDir(f.dir(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (f *fixture) writeMany(n int) {
	for i := range n {
		f.write(fmt.Sprintf("%02d.txt", i), fmt.Sprintf("File %d is about %s and %s.", i, strings.Repeat("x", i+1), strings.Repeat("yz ", i)))
	}
}

func TestReembed(t *testing.T) {
	f := newFixture(t)
	f.writeMany(20)
	f.write("animals.md", animals)
	f.learn("b", counted)
	asked := f.texts.Load()

	r := f.reembed(ReembedOptions{Config: hashed, K: 3})
	if r.Files != 21 || r.Chunks != 22 || r.Embedded != 22 || r.Switched || r.Questions != 22 || !r.Sampled || !(r.Overlap > 0.2 && r.Overlap <= 1) ||
		r.From != "provider=counting, model=m, dimensions=64" || r.To != "provider=hash, model=trigram-v1, dimensions=128" {
		t.Errorf("%+v", r)
	}
	if s := f.status(); s.Config.Provider != "counting" || s.Next != r.To || s.Chunks != 22 {
		t.Errorf("%+v", s)
	}
	if f.texts.Load() != asked {
		t.Error("comparing asked the old model")
	}

	// A second comparison embeds nothing; files learnt in between are followed.
	if r := f.reembed(ReembedOptions{}); r.Embedded != 0 || r.Chunks != 22 {
		t.Errorf("%+v", r)
	}
	f.write("animals.md", strings.Replace(animals, "bark at strangers", "howl at night", 1))
	f.write("new.txt", "Something new.")
	if err := os.Remove(filepath.Join(f.docs, "03.txt")); err != nil {
		t.Fatal(err)
	}
	f.learn("b", nil)
	f.byHand(func(_, chunks *db.Collection) error { return chunks.SetIndex(t.Context(), db.IndexSmall) })
	r = f.reembed(ReembedOptions{Switch: yes})
	if r.Embedded != 2 || r.Files != 21 || r.Chunks != 22 || !r.Switched {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff([]string{"config.yaml", "index-2.vdb"}, f.entries()); diff != "" {
		t.Error(diff)
	}
	s := f.status()
	if s.Config.Provider != "hash" || s.Config.Embedding.Dimensions != 128 || s.Config.ChunkSize != 40 || s.Next != "" || s.Chunks != 22 || s.Files != 21 || s.Learnt.IsZero() {
		t.Errorf("%+v", s)
	}
	f.byHand(func(_, chunks *db.Collection) error {
		info, err := chunks.Info()
		if info.Schema.Index != db.IndexSmall {
			t.Errorf("the base had the index small, and has %v", info.Schema.Index)
		}
		return err
	})
	if r := f.query("howl", QueryOptions{K: 1}); !strings.Contains(r.Chunks[0].Text, "howl at night") {
		t.Errorf("%+v", r)
	}
	f.expect(f.learn("b", nil), Report{Files: 21, Chunks: 22, Skipped: 21})
	if _, err := f.Learn(t.Context(), "b", LearnOptions{Paths: []string{f.docs}, Config: counted}); !errors.Is(err, embed.ErrMismatch) || !strings.Contains(err.Error(), "vecbolt rag reembed b") {
		t.Error(err)
	}

	// And back, in one go.
	if r := f.reembed(ReembedOptions{Config: counted, Switch: yes}); r.Embedded != 22 || !r.Switched {
		t.Errorf("%+v", r)
	}
	if diff := cmp.Diff([]string{"config.yaml", "index-3.vdb"}, f.entries()); diff != "" {
		t.Error(diff)
	}
	if err := f.Clean("b"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(f.dir("b")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestReembedComparesByQuestions(t *testing.T) {
	f := newFixture(t)
	f.write("animals.md", animals)
	f.write("trees.txt", "Oaks live for centuries. Birches do not.")
	f.learn("b", counted)
	files := filepath.ToSlash(f.docs)
	queries := []eval.Query{{ID: "1", Text: "who purrs when content?"}, {ID: "2", Text: "how long do oaks live?"}, {ID: "3", Text: "nobody judged this"}}
	r := f.reembed(ReembedOptions{Config: hashed, K: 2, Queries: queries,
		Qrels: eval.Qrels{"1": {files + "/animals.md#0": 1}, "2": {files + "/trees.txt": 1}}})
	if r.Sampled || r.Questions != 3 || r.Before == nil || *r.Before != 1 || *r.After != 1 || r.Compare.Equal != 2 || r.Overlap == 0 {
		t.Errorf("%+v", r)
	}
	if r := f.reembed(ReembedOptions{Queries: queries[:1]}); r.Before != nil || r.Questions != 1 {
		t.Errorf("%+v", r)
	}
	if _, err := f.Reembed(t.Context(), "b", ReembedOptions{Queries: queries, Qrels: eval.Qrels{"1": {"elsewhere.md": 1}}, Switch: yes}); !errors.Is(err, eval.ErrNotJudged) {
		t.Error(err)
	}
	if _, err := f.Reembed(t.Context(), "b", ReembedOptions{Queries: queries, Qrels: eval.Qrels{"9": {"x": 1}}, Switch: yes}); err == nil || f.status().Config.Provider != "counting" {
		t.Error("nothing could be compared, and it was switched", err)
	}
}

// TestReembedIsLive asks and learns between the steps.
func TestReembedIsLive(t *testing.T) {
	f := newFixture(t)
	f.writeMany(5)
	f.learn("b", counted)
	c, err := f.Config("b")
	if err != nil {
		t.Fatal(err)
	}
	c.Embedding.BatchSize = 0
	learnt := 0
	var steps []string
	var giveUp context.CancelFunc
	f.Engine.at = func(step string) {
		if step == "waits" {
			giveUp()
			return
		}
		steps = append(steps, step)
		if r := f.query("file 3", QueryOptions{K: 1}); len(r.Chunks) != 1 {
			t.Errorf("%s: %+v", step, r)
		}
		var ctx context.Context
		ctx, giveUp = context.WithCancel(t.Context())
		defer giveUp()
		_, err := f.Learn(ctx, "b", LearnOptions{Paths: []string{f.docs}})
		switch step {
		case "begun", "staged":
			if err != nil {
				t.Errorf("%s: %v", step, err)
			}
		case "compared", "switched": // the switch takes exactly the compared vectors
			if !errors.Is(err, db.ErrLocked) || !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", step, err)
			}
		case "followed":
			f.write("late.txt", "Learnt at the last moment.")
			learnt = f.learn("b", nil).Embedded
		}
	}
	r := f.reembed(ReembedOptions{Config: hashed, Switch: yes})
	if diff := cmp.Diff([]string{"begun", "staged", "written", "followed", "written", "compared", "switched", "swept"}, steps); diff != "" {
		t.Error(diff)
	}
	if learnt != 1 || r.Files != 6 || f.query("the last moment", QueryOptions{K: 1}).Chunks[0].Text != "Learnt at the last moment." {
		t.Errorf("%+v", r)
	}
	// Two at once: the second is refused.
	f.Engine.at = func(step string) {
		if step == "staged" {
			f.Engine.at = func(string) {}
			if _, err := f.Reembed(t.Context(), "b", ReembedOptions{Config: counted}); !errors.Is(err, db.ErrLocked) {
				t.Error(err)
			}
			if err := f.Discard("b"); !errors.Is(err, db.ErrLocked) {
				t.Error(err)
			}
		}
	}
	f.reembed(ReembedOptions{Config: counted})
}

func TestReembedRefuses(t *testing.T) {
	f := newFixture(t)
	f.writeMany(3)
	if _, err := f.Reembed(t.Context(), "b", ReembedOptions{Config: hashed}); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	f.learn("b", counted)
	for _, o := range []ReembedOptions{{}, {Config: counted}, {Config: hashed, K: -1}} {
		if _, err := f.Reembed(t.Context(), "b", o); !errors.Is(err, ErrConfig) {
			t.Error(err)
		}
	}
	if _, err := f.Reembed(t.Context(), "b", ReembedOptions{Config: &Config{Provider: "nobody"}}); !errors.Is(err, embed.ErrProviderNotFound) {
		t.Error(err)
	}
	// The new model fails half-way: the base is as it was, and the next call goes on.
	f.reembed(ReembedOptions{Config: hashed, Switch: yes})
	f.broken = errors.New("down")
	if _, err := f.Reembed(t.Context(), "b", ReembedOptions{Config: counted, Switch: yes}); !errors.Is(err, f.broken) {
		t.Error(err)
	}
	f.broken = nil
	f.query("file", QueryOptions{})
	// Another model than the one that was begun: from the beginning.
	other := *counted
	other.Embedding.Dimensions = 96
	if r := f.reembed(ReembedOptions{Config: counted}); r.Embedded != 3 {
		t.Errorf("%+v", r)
	}
	if r := f.reembed(ReembedOptions{Config: &other}); r.Embedded != 3 || !strings.Contains(r.To, "dimensions=96") {
		t.Errorf("%+v", r)
	}
	if err := f.Discard("b"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"config.yaml", "index-2.vdb"}, f.entries()); diff != "" {
		t.Error(diff)
	}
	if err := f.Discard("b"); err != nil {
		t.Error("nothing was begun:", err)
	}
	// A configuration cannot name a file elsewhere.
	if err := os.WriteFile(f.ConfigPath("b"), []byte("index: ../../index.vdb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Config("b"); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
}

// killed names, in the environment, the step at which this program ends.
const killed = "VECBOLT_TEST_KILLED_AT"

func TestMain(m *testing.M) {
	if step := os.Getenv(killed); step != "" {
		dieAt(step, os.Args[len(os.Args)-1])
	}
	if name := os.Getenv(learns); name != "" {
		if err := learnAndAsk(name, os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// dieAt embeds a base again and ends the process at a step, with nothing
// closed: the disk is as a kill leaves it.
func dieAt(step, workspace string) {
	e, err := New(workspace, &Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		e.at = func(now string) {
			if now == step {
				os.Exit(77)
			}
		}
		_, err = e.Reembed(context.Background(), "b", ReembedOptions{Config: hashed, Switch: yes})
	}
	fmt.Fprintln(os.Stderr, "not killed:", err)
	os.Exit(1)
}

func TestReembedKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: runs a process per step, which -short does not")
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"begun", "staged", "written", "followed", "compared", "switched", "swept"} {
		t.Run(step, func(t *testing.T) {
			f := newFixture(t)
			f.writeMany(6)
			f.learn("b", &Config{Provider: "hash", Model: "trigram-v1", Embedding: Embedding{Dimensions: 64}, ChunkSize: 40})
			cmd := exec.CommandContext(t.Context(), program, f.workspace)
			cmd.Env = append(os.Environ(), killed+"="+step)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 77 {
				t.Fatalf("%v: %s", err, out)
			}
			switched := step == "switched" || step == "swept"
			dim := map[bool]int{false: 64, true: 128}[switched]
			if s := f.status(); s.Config.Embedding.Dimensions != dim || s.Files != 6 || s.Chunks != 6 {
				t.Errorf("%+v", s)
			}
			if r := f.query("file 4 is about xxxxx", QueryOptions{K: 6}); len(r.Chunks) != 6 || !strings.HasPrefix(r.Chunks[0].Text, "File 4") {
				t.Errorf("%+v", r)
			}
			f.expect(f.learn("b", nil), Report{Files: 6, Chunks: 6, Skipped: 6})
			if !switched {
				r := f.reembed(ReembedOptions{Config: hashed, Switch: yes})
				if want := map[string]int{"begun": 6, "staged": 6}[step]; r.Embedded != want || !r.Switched {
					t.Errorf("%+v", r)
				}
			}
			if diff := cmp.Diff([]string{"config.yaml", "index-2.vdb"}, f.entries()); diff != "" {
				t.Error(diff)
			}
			vdb, err := db.Open(f.database(f.status().Config), &db.Options{ReadOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			defer vdb.Close()
			if report, err := vdb.Check(t.Context(), db.CheckBytes); err != nil || !report.OK() {
				t.Error(report, err)
			}
		})
	}
}
