package lint

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A held is what a cell of docs/seeds.md names: a test, or a subtest of it, in a folder.
var held = regexp.MustCompile("`([a-z0-9_/]+)/((?:Test|Fuzz|Benchmark)[A-Za-z0-9]*)(?:/([^`]+))?`")

var story = regexp.MustCompile("`([a-z-]+\\.txtar)`")

// Every requirement in docs/seeds.md names at least one test or story, and all of them exist. A
// subtest exists if the tests of its folder have its name as a string.
func TestSeeds(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "seeds.md"))
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{}
	rows := map[string]int{}
	document := ""
	for line := range strings.Lines(string(page)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			document, _, _ = strings.Cut(title, ":")
		}
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 5 || strings.HasPrefix(cells[1], "---") || cells[1] == " requirement " {
			continue
		}
		rows[document]++
		tests, stories := held.FindAllStringSubmatch(cells[3], -1), story.FindAllStringSubmatch(cells[3], -1)
		if len(tests)+len(stories) == 0 {
			t.Errorf("no test holds %q", strings.TrimSpace(cells[1]))
		}
		for _, m := range tests {
			dir := m[1]
			if _, ok := sources[dir]; !ok {
				sources[dir] = testSource(t, dir)
			}
			if !strings.Contains(sources[dir], "\nfunc "+m[2]+"(") {
				t.Errorf("%q names %s in %s, which does not exist", strings.TrimSpace(cells[1]), m[2], dir)
			}
			if m[3] != "" && !strings.Contains(sources[dir], `"`+m[3]+`"`) {
				t.Errorf("%q names the subtest %s of %s, which does not exist", strings.TrimSpace(cells[1]), m[3], m[2])
			}
		}
		for _, m := range stories {
			if _, err := os.Stat(filepath.Join(root, "tools", "vecbolt", "testdata", "script", m[1])); err != nil {
				t.Errorf("%q: %v", strings.TrimSpace(cells[1]), err)
			}
		}
	}
	for _, document := range []string{"000", "001", "002", "003", "004"} {
		if rows[document] < 30 {
			t.Errorf("document %s has %d rows: the table was not read", document, rows[document])
		}
	}
}

// testSource returns the tests of a folder.
func testSource(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(dir), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	return strings.ReplaceAll(all.String(), "\r\n", "\n")
}
