package lint

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// tracked returns the files that git tracks and that exist, below the root.
func tracked(t *testing.T) []string {
	t.Helper()
	return gitFiles(t, "ls-files", "-z")
}

func gitFiles(t *testing.T, args ...string) []string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("not a git repository: ", err)
	}
	out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", root}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	names := strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
	return slices.DeleteFunc(names, func(name string) bool {
		_, err := os.Lstat(filepath.Join(root, name))
		return err != nil
	})
}

// A misspelt target of .ci/fuzz is an error: go test passes if no target has the name.
func TestFuzzKnowsItsTargets(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	out, err := exec.CommandContext(t.Context(), "bash", filepath.Join(root, ".ci", "fuzz"), "1s", "FuzzNothing").CombinedOutput()
	if err == nil || string(out) != "no fuzz target is called FuzzNothing\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// maxFile is the most bytes of a file that is no test data; large are those that
// may have more.
const maxFile = 1 << 20

var large = []string{
	"tools/vecbolt/demo/words.fvecs.gz",          // what the demo searches, embedded in the command
	"rag/embed/static/english/model.safetensors", // the model, embedded in the package
}

func TestNoLitter(t *testing.T) {
	files := tracked(t)
	if len(files) < 500 {
		t.Fatalf("only %d files found", len(files))
	}
	for _, name := range files {
		if strings.Contains("/"+name, "/testdata/") {
			continue
		}
		info, err := os.Lstat(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if !info.Mode().IsRegular() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > maxFile && !slices.Contains(large, name) {
			t.Errorf("%s has %d bytes", name, len(b))
		}
		if why := program(b, info.Mode()); why != "" {
			t.Errorf("%s %s", name, why)
		}
	}
	if ignored := gitFiles(t, "ls-files", "-z", "-c", "-i", "--exclude-standard"); len(ignored) > 0 {
		t.Errorf("tracked, though .gitignore ignores it: %q", ignored)
	}
}

// program says why a file is an executable other than a script.
func program(b []byte, mode fs.FileMode) string {
	for _, magic := range []string{"\x7fELF", "MZ\x90\x00", "\xcf\xfa\xed\xfe", "\xfe\xed\xfa\xcf", "\xca\xfe\xba\xbe", "\x00asm"} {
		if bytes.HasPrefix(b, []byte(magic)) {
			return "is an executable"
		}
	}
	if mode&0o111 != 0 && !bytes.HasPrefix(b, []byte("#!")) {
		return "may be executed and is no script"
	}
	return ""
}

func TestProgram(t *testing.T) {
	for _, tt := range []struct {
		text string
		mode fs.FileMode
		bad  bool
	}{{"#!/bin/sh", 0o755, false}, {"text", 0o755, true}, {"\x7fELF\x02", 0o644, true}, {"package x", 0o644, false}} {
		if got := program([]byte(tt.text), tt.mode); (got != "") != tt.bad {
			t.Errorf("%q, %v: %q", tt.text, tt.mode, got)
		}
	}
}

// Peers of the benchmark come as packages: nothing tells how to build one.
func TestPeersArePackages(t *testing.T) {
	build := regexp.MustCompile(`(?i)\bcmake\b|\bgit clone\b|\bninja\b|\bmake install\b|VECBOLT_BENCH_FAISS`)
	for _, name := range tracked(t) {
		if !strings.HasPrefix(name, "docs/bench/") && !strings.HasPrefix(name, "tools/bench/") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if found := build.Find(b); found != nil {
			t.Errorf("%s tells of %s", name, found)
		}
	}
}

// mapOf returns the directories that a map names: one on each line, below that
// on the line before with less indentation.
func mapOf(text string) (dirs []string, err error) {
	entry := regexp.MustCompile(`^( *)([a-z0-9-]+)/( .*)?$`)
	var above []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if line == "" {
			continue
		}
		m := entry.FindStringSubmatch(line)
		if m == nil || len(m[1])%2 != 0 || len(m[1])/2 > len(above) {
			return nil, fmt.Errorf("line %q", line)
		}
		above = append(above[:len(m[1])/2], m[2])
		dirs = append(dirs, path.Join(above...))
	}
	return dirs, nil
}

// The map in docs/design.md names every folder of Go files, and no other but
// those above them.
func TestMapIsTheTree(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "docs/design.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), "## Shape")
	_, text, _ = strings.Cut(text, "```\n")
	text, _, _ = strings.Cut(text, "```")
	drawn, err := mapOf(text)
	if err != nil {
		t.Fatal(err)
	}
	var tree []string
	for _, name := range tracked(t) {
		dir := path.Dir(name)
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(dir, "docs/") || strings.Contains("/"+dir+"/", "/testdata/") ||
			strings.Contains(dir, "/_") {
			continue
		}
		for ; dir != "."; dir = path.Dir(dir) {
			tree = append(tree, dir)
		}
	}
	slices.Sort(tree)
	tree = slices.Compact(tree)
	for _, dir := range tree {
		if !slices.Contains(drawn, dir) {
			t.Errorf("the map does not name %s", dir)
		}
	}
	for i, dir := range drawn {
		if !slices.Contains(tree, dir) {
			t.Errorf("the map names %s, where there are no Go files", dir)
		}
		if slices.Contains(drawn[:i], dir) {
			t.Errorf("the map names %s twice", dir)
		}
	}
}

// Numbers in docs/design.md are those of the code.
func TestNumbersOfTheDesign(t *testing.T) {
	words := map[int]string{4: "four", 8: "eight", 10: "ten", 11: "eleven", 12: "twelve", 13: "thirteen"}
	b, err := os.ReadFile(filepath.Join(root, "docs/design.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(b)), " ")
	source, err := os.ReadFile(filepath.Join(root, "internal/engine/compact.go"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`\btierCount += (\d+)`).FindSubmatch(source)
	if m == nil {
		t.Fatal("no tierCount in internal/engine/compact.go")
	}
	var tiers int
	if _, err := fmt.Sscan(string(m[1]), &tiers); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{
		"when " + words[tiers] + " segments are of like size",
		"`db` links " + words[len(core)-1] + " modules and no cgo", // core has this one as well
	} {
		if !strings.Contains(text, says) {
			t.Errorf("docs/design.md does not say %q", says)
		}
	}
}

// The walks in docs/design.md, which lead a reader from a call down to a kernel or an fsync, name
// methods that exist, in the files that they name.
func TestWalksOfTheDesign(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "docs/design.md"))
	if err != nil {
		t.Fatal(err)
	}
	path := regexp.MustCompile(`^ *([a-z/]+/|(?:[a-z]+/)*[a-z]+\.go) `)
	method := regexp.MustCompile(`\b([A-Za-z]+)\.([A-Za-z]+)\b`)
	_, walks, _ := strings.Cut(string(b), "## A query, step by step")
	found, folder := 0, ""
	for i, block := range strings.Split(walks, "```") {
		if i%2 == 0 {
			continue
		}
		for line := range strings.Lines(block) {
			where := ""
			if m := path.FindStringSubmatch(line); m != nil {
				where, line = m[1], line[len(m[0]):]
				switch {
				case strings.HasSuffix(where, "/"):
					folder = where
				case !strings.Contains(where, "/"):
					where = folder + where
				}
			} else if f := strings.TrimSpace(line); strings.HasSuffix(f, "/") {
				folder = f
				continue
			}
			name, _, _ := strings.Cut(strings.TrimLeft(line, " "), "  ")
			for _, m := range method.FindAllStringSubmatch(name, -1) {
				if !hasMethod(t, where, m[1], m[2]) {
					t.Errorf("%q: no %s.%s in %q", strings.TrimSpace(line), m[1], m[2], where)
				}
				found++
			}
		}
	}
	if found < 30 {
		t.Errorf("%d methods: the walks are not where this test looks", found)
	}
}

// hasMethod looks for a method in a file or a folder below the root; in the packages of a database
// if where is empty.
func hasMethod(t *testing.T, where, receiver, name string) bool {
	t.Helper()
	folders := []string{where}
	if where == "" {
		folders = []string{"db", "wal", "simd", "segment/*", "internal/*"}
	}
	declared := regexp.MustCompile(`(?m)^func \(\w+ \*?` + receiver + `(\[\w+\])?\) ` + name + `\(`)
	for _, f := range folders {
		if !strings.HasSuffix(f, ".go") {
			f = filepath.Join(f, "*.go")
		}
		files, err := filepath.Glob(filepath.Join(root, f))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if b, err := os.ReadFile(file); err == nil && declared.Match(b) {
				return true
			}
		}
	}
	return false
}
