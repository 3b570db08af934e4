package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// workspace returns the directories that go.work uses, "." among them.
func workspace(t *testing.T) []string {
	t.Helper()
	_, list, _ := strings.Cut(read(t, "go.work"), "\nuse (\n")
	list, _, _ = strings.Cut(list, ")")
	var dirs []string
	for _, dir := range strings.Fields(list) {
		dirs = append(dirs, filepath.ToSlash(filepath.Clean(dir)))
	}
	if len(dirs) < 2 {
		t.Fatalf("go.work uses %q", dirs)
	}
	return dirs
}

// maxRequires limits the direct requires of the module of db and filter: importers get them in
// their module graph.
const maxRequires = 12

func TestFewRequires(t *testing.T) {
	direct := regexp.MustCompile(`(?m)^\t\S+ v\S+$`).FindAllString(read(t, "go.mod"), -1)
	if len(direct) < 5 || len(direct) > maxRequires {
		t.Errorf("go.mod requires %d modules, want at most %d: %q", len(direct), maxRequires, direct)
	}
}

// go install refuses a module with replace directives, so go.work holds the ones for unpublished
// modules.
func TestModulesOfTheWorkspace(t *testing.T) {
	dirs := workspace(t)
	_, tidied, _ := strings.Cut(read(t, ".ci/tidy"), "dirs=(")
	tidied, _, _ = strings.Cut(tidied, ")")
	if got := strings.Fields(tidied); !slices.Equal(got, dirs) {
		t.Errorf(".ci/tidy tidies %q, go.work uses %q", got, dirs)
	}
	work := read(t, "go.work")
	for _, dir := range dirs {
		text := read(t, dir+"/go.mod")
		if strings.Contains(text, "replace") {
			t.Errorf("%s/go.mod replaces modules", dir)
		}
		for _, m := range regexp.MustCompile(`(?m)^\t(github.com/vecbolt/vecbolt\S*) (v\S+)`).FindAllStringSubmatch(text, -1) {
			own := strings.TrimPrefix(strings.TrimPrefix(m[1], strings.TrimSuffix(module, "/")), "/")
			if m[2] == "v0.0.0" && !strings.Contains(work, m[1]+" v0.0.0 => ./"+own+"\n") {
				t.Errorf("%s/go.mod requires %s, which go.work does not replace", dir, m[0])
			}
		}
	}
}
