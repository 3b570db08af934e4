package lint

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	linkPattern    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	sourcePattern  = regexp.MustCompile("`((?:[a-z_]+/)+[a-z_0-9]+\\.go)`")
	headingPattern = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	linkInHeading  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	notInAnchors   = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors returns the anchors that GitHub makes of the headings of a page.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range headingPattern.FindAllStringSubmatch(page, -1) {
		text := strings.ToLower(linkInHeading.ReplaceAllString(m[1], "$1"))
		all[strings.ReplaceAll(notInAnchors.ReplaceAllString(text, ""), " ", "-")] = true
	}
	return all
}

func TestAnchors(t *testing.T) {
	got := anchors("# One `flag`\n\n## [Two](two.md), three: 4.5\n")
	if len(got) != 2 || !got["one-flag"] || !got["two-three-45"] {
		t.Errorf("anchors %v", got)
	}
}

// inTree returns the names and their directories, the root too.
func inTree(names []string) map[string]bool {
	known := map[string]bool{".": true}
	for _, name := range names {
		for ; !known[name]; name = path.Dir(name) {
			known[name] = true
		}
	}
	return known
}

func TestInTree(t *testing.T) {
	known := inTree([]string{"a/b/c.md", "d"})
	for _, name := range []string{".", "a", "a/b", "a/b/c.md", "d"} {
		if !known[name] {
			t.Errorf("%s is not known", name)
		}
	}
	if known["a/b/other.md"] || known["d/e"] || known[""] {
		t.Error("names that nobody gave are known")
	}
}

// Links between pages lead to a file or a directory that git tracks, and to a heading there. Source
// files that a page names are tracked, except in reports, which describe an earlier tree. The index
// of docs/bench links to every page of it: otherwise nobody knows which report is the newest.
func TestLinks(t *testing.T) {
	pages, linked := map[string]string{}, map[string]bool{}
	names := tracked(t)
	known := inTree(names) // a file that git does not track is there for its author only
	for _, name := range names {
		if !strings.HasSuffix(name, ".md") || strings.Contains("/"+name, "/testdata/") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		pages[name] = string(b)
	}
	if len(pages) < 100 {
		t.Fatalf("only %d pages found", len(pages))
	}
	for name, text := range pages {
		for _, m := range linkPattern.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], ":") { // https: and others
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if !known[target] {
				t.Errorf("%s links to %s, which is not in the tree", name, m[1])
			} else if page, ok := pages[target]; ok && anchor != "" && !anchors(page)[anchor] {
				t.Errorf("%s links to %s, which has no such heading", name, m[1])
			}
			if name == "docs/bench/README.md" {
				linked[target] = true
			}
		}
	}
	for name, text := range pages {
		if strings.HasPrefix(name, "docs/bench/2") {
			if !linked[name] {
				t.Errorf("docs/bench/README.md does not link to %s", name)
			}
			continue
		}
		for _, m := range sourcePattern.FindAllStringSubmatch(text, -1) {
			if !known[path.Clean(m[1])] {
				t.Errorf("%s names %s, which is not in the tree", name, m[1])
			}
		}
	}
}
