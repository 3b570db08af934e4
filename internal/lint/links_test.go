package lint

import (
	"os"
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

// Links between pages lead to a file or a directory, and to a heading there. Source files that a
// page names are there, except in reports, which describe an earlier tree. The index of docs/bench
// links to every page of it: otherwise nobody knows which report is the newest.
func TestLinks(t *testing.T) {
	pages, linked := map[string]string{}, map[string]bool{}
	for _, name := range tracked(t) {
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
			path, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if path != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(name), path))
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s, which is not there", name, m[1])
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
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names %s, which is not there", name, m[1])
			}
		}
	}
}
