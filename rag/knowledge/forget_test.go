package knowledge

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/vecbolt/vecbolt/rag/load"
)

// Files that exist stay in the base, whatever a run reads.
func TestExistingFilesStay(t *testing.T) {
	none := func(*testing.T) {}
	change := func(f func() error) func(*testing.T) {
		return func(t *testing.T) {
			if err := f(); err != nil {
				t.Fatal(err)
			}
		}
	}
	write := func(name, text string) func(*testing.T) {
		return change(func() error { return os.WriteFile(filepath.FromSlash(name), []byte(text), 0o600) })
	}
	for _, tt := range []struct {
		name   string
		change func(*testing.T)
		load   load.Options
		paths  []string
		gone   []string // of all files
	}{
		{"a hidden file named before", none, load.Options{}, []string{"docs"}, nil},
		{"a hidden file named after its directory", none, load.Options{}, []string{"docs", "docs/.hidden.md"}, nil},
		{"include", none, load.Options{Include: []string{"*.txt"}}, []string{"docs"}, nil},
		{"exclude", none, load.Options{Exclude: []string{"sub"}}, []string{"docs"}, nil},
		{"deleted", change(func() error { return os.Remove("docs/sub/c.md") }), load.Options{}, []string{"docs"}, []string{"docs/sub/c.md"}},
		{"deleted directory", change(func() error { return os.RemoveAll("docs/sub") }), load.Options{}, []string{"docs"}, []string{"docs/sub/c.md"}},
		{"deleted path", change(func() error { return os.RemoveAll("docs") }), load.Options{}, []string{"docs"},
			[]string{"docs/.hidden.md", "docs/a.md", "docs/b.txt", "docs/sub/c.md"}},
		{"deleted, not selected", change(func() error { return os.Remove("docs/a.md") }), load.Options{Include: []string{"*.txt"}}, []string{"docs"},
			[]string{"docs/a.md"}},
		{"a file in place of its directory", change(func() error {
			return errors.Join(os.RemoveAll("docs/sub"), os.WriteFile("docs/sub", nil, 0o600))
		}), load.Options{Include: []string{"*.txt"}}, []string{"docs"}, []string{"docs/sub/c.md"}},
		{"a directory in its place", change(func() error {
			return errors.Join(os.Remove("docs/a.md"), os.Mkdir("docs/a.md", 0o700))
		}), load.Options{}, []string{"docs"}, []string{"docs/a.md"}},
		{"ignored now", write("docs/.gitignore", "sub/\n"), load.Options{}, []string{"docs"}, []string{"docs/sub/c.md"}},
		{"ignored now, but named", write("docs/.vecboltignore", "sub/\n"), load.Options{}, []string{"docs", "docs/sub/c.md"}, nil},
		{"ignored, rules are off", write("docs/.gitignore", "sub/\n"), load.Options{Ignored: true}, []string{"docs"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			all := []string{"docs/.hidden.md", "docs/a.md", "docs/b.txt", "docs/sub/c.md"}
			for _, name := range all {
				f.write(name[len("docs/"):], "The file "+name)
			}
			t.Chdir(filepath.Dir(f.docs))
			f.learnPaths(counted, "docs", "docs/.hidden.md")
			f.expectIDs(all...)
			tt.change(t)
			before := f.texts.Load()
			r, err := f.Learn(t.Context(), "b", LearnOptions{Paths: tt.paths, Load: &tt.load})
			if err != nil || r.Removed != len(tt.gone) || f.texts.Load() != before {
				t.Errorf("%+v, %v", r, err)
			}
			var left []string
			for i, j := 0, 0; i < len(all); i++ {
				if j < len(tt.gone) && all[i] == tt.gone[j] {
					j++
					continue
				}
				left = append(left, all[i])
			}
			f.expectIDs(left...)
		})
	}
}

// Files in a directory that cannot be read keep their chunks.
func TestUnreadableDirectory(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: modes do not keep the owner out")
	}
	f := newFixture(t)
	f.write("a.md", "Cats purr.")
	f.write("sub/b.md", "Dogs bark.")
	f.write("sub/deep/c.md", "Cows moo.")
	f.expect(f.learn("b", counted), Report{Files: 3, Chunks: 3, Embedded: 3})
	dir := filepath.Join(f.docs, "sub")
	defer os.Chmod(dir, 0o700)
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadDir(dir); err == nil {
		t.Skip("skipped: root may read every directory")
	}
	f.expect(f.learn("b", nil), Report{Files: 1, Chunks: 1, Skipped: 1, Broken: 1})
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f.expect(f.learn("b", nil), Report{Files: 3, Chunks: 3, Skipped: 3})
}

// TestWorkspaceIsNotLearnt: a run does not read the files of a base, wherever the workspace lies.
func TestWorkspaceIsNotLearnt(t *testing.T) {
	for _, tt := range []struct {
		workspace string
		paths     []string
		want      []string
	}{
		{"ws", []string{"."}, []string{"a.md", "b/embeddings/c.md", "ws/b/notes.md"}},
		{".vecbolt", []string{"."}, []string{".vecbolt/b/notes.md", "a.md", "b/embeddings/c.md"}},
		{".", []string{"."}, []string{"a.md", "b/notes.md"}}, // b/embeddings is the cache
		{".", []string{"b"}, []string{"b/notes.md"}},
		{"ws", []string{"a.md", "ws/b"}, []string{"a.md", "ws/b/notes.md"}},
	} {
		f := newFixture(t)
		top := filepath.Dir(f.docs)
		t.Chdir(top)
		f.workspace = tt.workspace
		f.write("../a.md", "Cats purr.")
		f.write("../b/embeddings/c.md", "Cows moo.")
		f.write("../"+tt.workspace+"/b/notes.md", "Dogs bark.")
		for range 2 {
			_, err := f.Learn(t.Context(), "b", LearnOptions{Paths: tt.paths, Config: counted, Load: &load.Options{Hidden: true}})
			if err != nil {
				t.Fatal(err)
			}
			f.expectIDs(tt.want...)
		}
	}
}
