package knowledge

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag"
)

// learnPaths learns paths as they are.
func (f *fixture) learnPaths(c *Config, paths ...string) Report {
	f.t.Helper()
	r, err := f.Learn(f.t.Context(), "b", LearnOptions{Paths: paths, Config: c})
	if err != nil {
		f.t.Fatal(err)
	}
	return *r
}

// ids returns the ids of the files of the base, in order.
func (f *fixture) ids() (ids []string) {
	f.t.Helper()
	r, err := f.readAlone(f.t.Context(), "b")
	if err != nil {
		f.t.Fatal(err)
	}
	defer r.close()
	for d, err := range r.files.All(f.t.Context(), nil, db.IDsOnly) {
		if err != nil {
			f.t.Fatal(err)
		}
		ids = append(ids, d.ID)
	}
	slices.Sort(ids)
	return ids
}

func (f *fixture) expectIDs(want ...string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.ids()); diff != "" {
		f.t.Errorf("(-want +got)\n%s", diff)
	}
}

// byHand opens the database of the base as a program of the user does.
func (f *fixture) byHand(change func(files, chunks *db.Collection) error) {
	f.t.Helper()
	c, err := f.Config("b")
	if err != nil {
		f.t.Fatal(err)
	}
	vdb, err := db.Open(f.database(c), &db.Options{MustExist: true})
	if err != nil {
		f.t.Fatal(err)
	}
	defer vdb.Close()
	files, err := vdb.Collection(filesName)
	if err != nil {
		f.t.Fatal(err)
	}
	chunks, err := vdb.Collection(chunksName)
	if err == nil {
		err = change(files, chunks)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// real returns a new directory without links in its path.
func real(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// put writes a file below a directory.
func put(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(content), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func slash(parts ...string) string { return filepath.ToSlash(filepath.Join(parts...)) }

// TestReembedFindsTheModelOut names a provider only.
func TestReembedFindsTheModelOut(t *testing.T) {
	f := newFixture(t)
	f.writeMany(3)
	f.learn("b", hashed)
	named := &Config{Provider: "counting"}
	r := f.reembed(ReembedOptions{Config: named})
	if r.Embedded != 3 || r.To != "provider=counting, model=trigram-v1, dimensions=64" {
		t.Errorf("%+v", r)
	}
	r = f.reembed(ReembedOptions{Config: named, Switch: yes})
	if r.Embedded != 0 || !r.Switched {
		t.Errorf("%+v", r)
	}
	f.query("file", QueryOptions{})
	f.expect(f.learn("b", nil), Report{Files: 3, Chunks: 3, Skipped: 3})
	if _, err := f.Reembed(t.Context(), "b", ReembedOptions{Config: named}); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "already") {
		t.Error(err)
	}
}

// TestFirstLearnFails leaves nothing behind that a later one must agree with.
func TestFirstLearnFails(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	fail := func(c *Config) {
		t.Helper()
		f.broken = errors.New("down")
		if _, err := f.Learn(t.Context(), "b", LearnOptions{Paths: []string{f.docs}, Config: c}); !errors.Is(err, f.broken) {
			t.Fatal(err)
		}
		f.broken = nil
	}
	fail(counted)
	if names, err := f.Bases(); err != nil || len(names) != 0 {
		t.Error(names, err)
	}
	if _, err := os.Stat(f.dir("b")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	f.expect(f.learn("b", hashed), Report{Files: 1, Chunks: 1, Embedded: 1})
	if err := f.Clean("b"); err != nil {
		t.Fatal(err)
	}

	// A configuration that was written by hand stays, and nothing is pinned to it.
	put(t, f.dir("b"), "config.yaml", "provider: counting # of the office\n")
	fail(nil)
	if s := f.status(); !s.Learnt.IsZero() || s.Files != 0 {
		t.Errorf("%+v", s)
	}
	put(t, f.dir("b"), "config.yaml", "provider: hash\n")
	f.expect(f.learn("b", nil), Report{Files: 1, Chunks: 1, Embedded: 1})
	if s := f.status(); s.Learnt.IsZero() || s.Config.Provider != "hash" {
		t.Errorf("%+v", s)
	}

	// What a process leaves that is killed before it has written a file.
	if err := f.Clean("b"); err != nil {
		t.Fatal(err)
	}
	put(t, f.dir("b"), "config.yaml", "provider: hash\n")
	vdb, err := db.Open(f.database(Config{Name: "b"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	files, err := vdb.OpenCollection(t.Context(), filesName, db.Schema{})
	if err == nil {
		err = files.SetMetadata(t.Context(), pin(counted.embedding(), chunksName))
	}
	if err == nil {
		_, err = vdb.OpenCollection(t.Context(), chunksName, db.Schema{Dim: 64, Lineage: db.Lineage{Provider: "counting", Model: "m"}, Text: &db.TextIndex{}})
	}
	if err := errors.Join(err, vdb.Close()); err != nil {
		t.Fatal(err)
	}
	f.expect(f.learn("b", nil), Report{Files: 1, Chunks: 1, Embedded: 1})
}

// endsAfter is a context that ends when it is looked at a number of times.
type endsAfter struct {
	context.Context
	looks  atomic.Int64
	cancel context.CancelFunc
}

func (c *endsAfter) Err() error {
	if c.looks.Add(-1) < 0 {
		c.cancel()
	}
	return c.Context.Err()
}

// TestFirstLearnEnds ends a first run of Learn wherever it looks at its context: it leaves the
// file, or nothing.
func TestFirstLearnEnds(t *testing.T) {
	var nothing, file int
	for n := int64(0); ; n++ {
		f := newFixture(t)
		f.write("a.txt", "Apples are red.")
		ctx, cancel := context.WithCancel(t.Context())
		ends := &endsAfter{Context: ctx, cancel: cancel}
		ends.looks.Store(n)
		_, err := f.Learn(ends, "b", LearnOptions{Paths: []string{f.docs}, Config: counted})
		cancel()
		if err == nil {
			break
		}
		_, gone := os.Stat(f.dir("b"))
		names, err := f.Bases()
		switch {
		case err != nil:
			t.Fatal(err)
		case errors.Is(gone, os.ErrNotExist) && len(names) == 0:
			nothing++
		case gone == nil && len(names) == 1 && f.status().Files == 1:
			file++
		default:
			t.Errorf("after %d looks: bases %q, %v", n, names, gone)
		}
	}
	t.Logf("%d runs left nothing, %d the file", nothing, file)
	if nothing < 3 || file == 0 {
		t.Error("the runs ended elsewhere")
	}
}

// TestFirstLearnFailsHalfWay keeps the files that were written.
func TestFirstLearnFailsHalfWay(t *testing.T) {
	f := newFixture(t)
	f.writeMany(3)
	o := LearnOptions{Paths: []string{f.docs}, Config: &Config{Provider: "counting", Model: "m", Embedding: Embedding{Dimensions: 64, BatchSize: 1}, ChunkSize: 8, ChunkOverlap: -1}}
	put(t, f.docs, "00.txt", strings.Repeat("Five sentences of some words each. ", 5))
	o.Progress = func(string) { f.broken = errors.New("down") }
	if _, err := f.Learn(t.Context(), "b", o); !errors.Is(err, f.broken) {
		t.Fatal(err)
	}
	if s := f.status(); s.Files != 1 || !s.Learnt.IsZero() || s.Config.ChunkSize != 8 {
		t.Errorf("%+v", s)
	}
	f.broken = nil
	if r := f.learn("b", nil); r.Skipped != 1 || r.Files != 3 {
		t.Errorf("%+v", r)
	}
	if s := f.status(); s.Learnt.IsZero() {
		t.Errorf("%+v", s)
	}
}

// TestWorkingDirectories learns files of the same relative paths in two
// directories.
func TestWorkingDirectories(t *testing.T) {
	f := newFixture(t)
	top := real(t)
	a, b := filepath.Join(top, "a"), filepath.Join(top, "b")
	put(t, a, "docs/x.txt", "Apples are red.")
	put(t, a, "docs/y.txt", "Plums are blue.")
	put(t, b, "docs/x.txt", "Pears are green.")
	t.Chdir(a)
	f.learnPaths(counted, "docs")
	f.expectIDs("docs/x.txt", "docs/y.txt")
	t.Chdir(b)
	f.expect(f.learnPaths(nil, "docs"), Report{Files: 1, Chunks: 1, Embedded: 1})
	f.expectIDs(slash(b, "docs/x.txt"), "docs/x.txt", "docs/y.txt")
	if err := os.Remove(filepath.Join(b, "docs/x.txt")); err != nil {
		t.Fatal(err)
	}
	f.expect(f.learnPaths(nil, "."), Report{Removed: 1})
	f.expectIDs("docs/x.txt", "docs/y.txt")

	// A file has one id, whichever way it is named.
	for _, path := range []string{"../a/docs", filepath.Join(a, "docs"), "../a/./docs/../docs/"} {
		f.expect(f.learnPaths(nil, path), Report{Files: 2, Chunks: 2, Skipped: 2})
	}
	f.expect(f.learnPaths(nil, a, "../a/docs/x.txt"), Report{Files: 2, Chunks: 2, Skipped: 2})
	if err := os.Symlink(a, filepath.Join(top, "link")); err == nil {
		f.expect(f.learnPaths(nil, filepath.Join(top, "link"), "../link/docs/x.txt"), Report{Files: 2, Chunks: 2, Skipped: 2})
		t.Chdir(filepath.Join(top, "link"))
		f.expect(f.learnPaths(nil, "docs"), Report{Files: 2, Chunks: 2, Skipped: 2})
	}
	f.expectIDs("docs/x.txt", "docs/y.txt")
	if s := f.status(); s.Root != a {
		t.Errorf("%+v", s)
	}

	// A directory that is gone is forgotten by its path, and a new embedder changes no names.
	if err := os.RemoveAll(filepath.Join(a, "docs")); err != nil {
		t.Fatal(err)
	}
	f.reembed(ReembedOptions{Config: hashed, Switch: yes})
	f.expectIDs("docs/x.txt", "docs/y.txt")
	t.Chdir(b)
	put(t, b, "-", "A dash.")
	r, err := f.Learn(t.Context(), "b", LearnOptions{Paths: []string{"../a/docs", "-"}, Stdin: strings.NewReader("Standard input.")})
	if err != nil {
		t.Fatal(err)
	}
	f.expect(*r, Report{Files: 1, Chunks: 1, Embedded: 1, Removed: 2})
	f.expectIDs("-")
	t.Chdir(a)
	put(t, a, "-", "A dash.")
	f.expect(f.learnPaths(nil, "./-"), Report{Files: 1, Chunks: 1, Embedded: 1})
	f.expectIDs("-", "./-")
	if _, err := f.Learn(t.Context(), "b", LearnOptions{Paths: []string{"../a/docs"}}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestCaseOfPaths: a file has one id where its name may be typed in any case.
func TestCaseOfPaths(t *testing.T) {
	f := newFixture(t)
	top := real(t)
	put(t, top, "Docs/x.txt", "Apples are red.")
	if _, err := os.Stat(filepath.Join(top, "DOCS")); err != nil || runtime.GOOS != "windows" {
		t.Skip("the case of names counts, or they are taken as they are typed")
	}
	t.Chdir(top)
	f.learnPaths(counted, "docs")
	for _, path := range []string{"Docs", "DOCS", `docs\X.TXT`, filepath.Join(strings.ToUpper(top), "docs")} {
		f.expect(f.learnPaths(nil, path), Report{Files: 1, Chunks: 1, Skipped: 1})
	}
	f.expectIDs("Docs/x.txt")
}

// TestLinks: a symbolic link below the root is a place of its own. It may lead to a new version of
// its files, which then replace the old ones.
func TestLinks(t *testing.T) {
	f := newFixture(t)
	top := real(t)
	put(t, top, "v1/x.txt", "Apples are red.")
	put(t, top, "v1/y.txt", "Plums are blue.")
	put(t, top, "v2/x.txt", "Apples are green.")
	t.Chdir(top)
	lead := func(version string) {
		t.Helper()
		if err := os.RemoveAll("current"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(version, "current"); err != nil {
			t.Skip("skipped: no symbolic links here:", err)
		}
	}
	lead("v1")
	f.expect(f.learnPaths(counted, "current"), Report{Files: 2, Chunks: 2, Embedded: 2})
	f.expectIDs("current/x.txt", "current/y.txt")
	lead("v2")
	f.expect(f.learnPaths(nil, "current"), Report{Files: 1, Chunks: 1, Embedded: 1, Removed: 1})
	f.expectIDs("current/x.txt")
	f.expect(f.learnPaths(nil, "v2"), Report{Files: 1, Chunks: 1})
	f.expectIDs("current/x.txt", "v2/x.txt")
}

// TestProjectMoves moves a directory with the workspace in it.
func TestProjectMoves(t *testing.T) {
	f := newFixture(t)
	top := real(t)
	put(t, top, "old/docs/x.txt", "Apples are red.")
	f.workspace = ".vecbolt"
	t.Chdir(top)
	chdir := func(dir string) { // t.Chdir holds the directory before open, which Windows then does not rename
		t.Helper()
		if err := os.Chdir(dir); err != nil {
			t.Fatal(err)
		}
	}
	chdir("old")
	f.learnPaths(counted, "docs")
	chdir(top)
	if err := os.Rename("old", "new"); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(top, "new", "docs"))
	f.workspace = filepath.Join("..", ".vecbolt")
	f.expect(f.learnPaths(nil, "."), Report{Files: 1, Chunks: 1, Skipped: 1})
	f.expectIDs("docs/x.txt")
}

// TestBasesWithoutRoot learns bases as earlier releases left them.
func TestBasesWithoutRoot(t *testing.T) {
	forgetRoot := func(files, _ *db.Collection) error {
		info, err := files.Info()
		if err != nil {
			return err
		}
		m := info.Metadata
		delete(m, rooted)
		return files.SetMetadata(t.Context(), m)
	}
	t.Run("relative", func(t *testing.T) {
		f := newFixture(t)
		top := real(t)
		put(t, top, "a/docs/x.txt", "Apples are red.")
		put(t, top, "b/docs/other.txt", "Pears are green.")
		t.Chdir(filepath.Join(top, "a"))
		f.learnPaths(counted, "docs")
		f.byHand(forgetRoot)
		t.Chdir(filepath.Join(top, "b"))
		if r, err := f.Learn(t.Context(), "b", LearnOptions{Paths: []string{"-"}, Stdin: strings.NewReader("x")}); err != nil || r.Files != 1 || f.status().Root != "" {
			t.Error("a root was guessed", r, err)
		}
		f.expect(f.learnPaths(nil, "../a/docs"), Report{Files: 1, Chunks: 1, Skipped: 1})
		f.expect(f.learnPaths(nil, "docs"), Report{Files: 1, Chunks: 1, Embedded: 1})
		f.expectIDs("-", slash(top, "b/docs/other.txt"), "docs/x.txt")
	})
	t.Run("beside the workspace", func(t *testing.T) {
		f := newFixture(t)
		top := real(t)
		put(t, top, "a/docs/x.txt", "Apples are red.")
		put(t, top, "c/y.txt", "Plums are blue.")
		f.workspace = filepath.Join(top, "a", ".vecbolt")
		t.Chdir(filepath.Join(top, "a"))
		f.learnPaths(counted, "docs")
		f.byHand(forgetRoot)
		t.Chdir(filepath.Join(top, "c"))
		f.learnPaths(nil, ".")
		f.expectIDs(slash(top, "c/y.txt"), "docs/x.txt")
		if s := f.status(); s.Root != filepath.Join(top, "a") {
			t.Errorf("%+v", s)
		}
	})
	t.Run("absolute", func(t *testing.T) {
		f := newFixture(t)
		top := real(t)
		put(t, top, "docs/x.txt", "Apples are red.")
		f.learnPaths(counted, filepath.Join(top, "docs"))
		f.expectIDs(slash(top, "docs/x.txt"))
		f.byHand(forgetRoot)
		t.Chdir(top)
		f.expect(f.learnPaths(nil, "docs"), Report{Files: 1, Chunks: 1, Removed: 1}) // the same file, with the same vectors
		f.expectIDs("docs/x.txt")
	})
}

// TestStatusOfALockedBase says who has it for itself, and is complete beside others.
func TestStatusOfALockedBase(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	f.learn("b", counted)
	if s := f.status(); s.Locked != "" {
		t.Errorf("%+v", s)
	}
	if runtime.GOOS != "windows" { // where processes do not share a database
		f.byHand(func(_, _ *db.Collection) error {
			if s := f.status(); s.Locked != "" || s.Files != 1 {
				t.Errorf("%+v", s)
			}
			return nil
		})
	}
	vdb, err := db.Open(f.database(Config{Name: "b"}), &db.Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	if s := f.status(); !strings.Contains(s.Locked, "locked by process") || s.Config.Provider != "counting" || s.Bytes == 0 {
		t.Errorf("%+v", s)
	}
}

// TestLanguage learns texts in German, changes the language, and follows a text index that was
// changed by hand.
func TestLanguage(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Die Häuser stehen am Fluss.")
	f.write("b.txt", "The houses are running.")
	german := *counted
	german.Language = "german"
	f.learn("b", &german)
	found := func(question string) int {
		t.Helper()
		return len(f.query(question, QueryOptions{Strategy: rag.Text()}).Chunks)
	}
	if found("welches Haus?") != 1 || found("run") != 0 {
		t.Error("the index is not German")
	}
	if c, err := f.Config("b"); err != nil || c.Language != "german" {
		t.Errorf("%+v, %v", c, err)
	}
	f.learn("b", &german)
	other := Config{Language: "none"}
	f.learn("b", &other)
	if found("welches Haus?") != 0 {
		t.Error("the index is still German")
	}
	f.expect(f.learn("b", &german), Report{Files: 2, Chunks: 2, Skipped: 2})
	if found("welches Haus?") != 1 {
		t.Error("the index is not German again")
	}
	other.Language = "klingon"
	if _, err := f.Learn(t.Context(), "c", LearnOptions{Paths: []string{f.docs}, Config: &other}); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
	f.reembed(ReembedOptions{Config: hashed, Switch: yes})
	if found("welches Haus?") != 1 {
		t.Error("the index is not German after the base was embedded again")
	}

	// By hand: learning and embedding again go on with it.
	f.setText(&db.TextIndex{Language: "english", Fields: []string{"title"}})
	f.write("c.txt", "A man runs.")
	f.expect(f.learn("b", nil), Report{Files: 3, Chunks: 3, Embedded: 1, Skipped: 2})
	f.learn("b", &Config{Language: "english"})
	f.reembed(ReembedOptions{Config: counted, Switch: yes})
	if found("run") != 2 || found("welches Haus?") != 0 {
		t.Error("the index is not English")
	}
	// The configuration changes the language of the index by hand, and keeps its fields.
	if _, err := f.Configure(t.Context(), "b", map[string]any{"language": "german"}); err != nil {
		t.Fatal(err)
	}
	if found("welches Haus?") != 1 {
		t.Error("the index is not German")
	}
	f.byHand(func(_, chunks *db.Collection) error {
		info, err := chunks.Info()
		if index := info.Schema.Text; err != nil || index.Language != "german" || len(index.Fields) != 1 {
			t.Errorf("%+v, %v", index, err)
		}
		return err
	})
	// So does a change of the file, when the base is learnt next.
	c, err := f.Config("b")
	if err != nil {
		t.Fatal(err)
	}
	c.Language = "english"
	if err := f.save(c); err != nil {
		t.Fatal(err)
	}
	f.learn("b", nil)
	if found("run") != 2 || found("welches Haus?") != 0 {
		t.Error("the index is not English")
	}
	// None at all: questions are answered by vectors.
	f.setText(nil)
	f.expect(f.learn("b", nil), Report{Files: 3, Chunks: 3, Skipped: 3})
	if r := f.query("run", QueryOptions{}); r.Strategy != "dense" || len(r.Chunks) != 3 {
		t.Errorf("%+v", r)
	}

	// A configuration that was written by hand is completed, and kept otherwise.
	if err := f.Clean("b"); err != nil {
		t.Fatal(err)
	}
	put(t, f.dir("b"), "config.yaml", "provider: hash\nmodel: "+"trigram-v1"+"\n")
	f.learn("b", &Config{Language: "german"})
	if found("welches Haus?") != 1 {
		t.Error("the index is not German")
	}
}

// setText gives the chunks in use another text index.
func (f *fixture) setText(index *db.TextIndex) {
	f.t.Helper()
	f.byHand(func(_, chunks *db.Collection) error { return chunks.SetText(f.t.Context(), index) })
}

// A default of the program is for new bases. Bases that exist keep their embedder, even if their
// file does not name it.
func TestDefaultEmbedder(t *testing.T) {
	f := newFixture(t)
	f.write("a.txt", "Apples are red.")
	f.learn("old", nil)
	put(t, f.dir("nameless"), "config.yaml", "chunk_size: 100\n")
	f.learn("nameless", nil)
	put(t, f.dir("nameless"), "config.yaml", "chunk_size: 100\n")

	e := counted.embedding()
	f.opts.Default = &e
	f.learn("new", nil)
	f.learn("sized", &Config{ChunkSize: 100})
	put(t, f.dir("written"), "config.yaml", "chunk_size: 100\n")
	f.learn("written", nil)
	for base, want := range map[string]string{"old": "hash", "nameless": "hash", "new": "counting", "sized": "counting", "written": "hash"} {
		f.learn(base, nil)
		c, err := f.Config(base)
		if err != nil || c.Provider != want {
			t.Errorf("%s: %q, want %q: %v", base, c.Provider, want, err)
		}
	}
	if d := f.Defaults("b"); d.Provider != "counting" || d.Embedding.Dimensions != 64 {
		t.Errorf("%+v", d)
	}
}

// Vectors of trained models get more weight than words, and those of encoders the most.
func TestFusionOfProviders(t *testing.T) {
	for provider, want := range map[string]float64{"hash": 0, "mock": 0, "words": 0, "static": 0.7, "model2vec": 0.7, "bert": 0.8, "gguf": 0.8, "openai": 0.8} {
		if vector, text := weights(provider); vector != want || want > 0 && vector+text != 1 {
			t.Errorf("%s: %v and %v", provider, vector, text)
		}
	}
}
