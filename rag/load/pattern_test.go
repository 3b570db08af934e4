package load

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestPatternsLikeGit: patterns exclude the files that git excludes.
func TestPatternsLikeGit(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil || runtime.GOOS != "linux" {
		t.Skip("skipped: no git, or a system that may not have these names")
	}
	names := []string{"a", "b.txt", "ab", "a-b", "é", "xé", "[", "]", "[a", "a]", "1", "a1", "A", "x ", "x", "a b", "a*b", "a!", "!a", "#a", `a\`, "^", "z",
		"d/a", "d/b.txt", "d/e/a", "d/e/f/b.txt", "é/a", "-", "a/b", "d/é", "tab\t", "foo/x", "foo/y/x", "foobar", "foo.bar", "a:", ":"}
	var files []string
	for _, n := range names {
		if !slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, n+"/") }) {
			files = append(files, n)
		}
	}
	dir := tree(t, files...)
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	t.Setenv("GIT_CONFIG_SYSTEM", "/dev/null")
	if out, err := exec.Command(git, "-C", dir, "init", "-q").CombinedOutput(); err != nil {
		t.Skipf("skipped: git init: %s", out)
	}
	excluded := 0
	for _, line := range []string{"a", "/a", "*.txt", "a*", "?", "??", "x?", "[[:alpha:]]", "[[:digit:]]", "[![:alpha:]]", "[]a]", "[!]a]", "[^a]", "[a-z]", "[z-a]",
		"[a", "[", "[]", "[[:foo:]]", "[[:alpha:]1]", "[[:x]", "[[:]", `[\]]`, `[a\-b]`, "[a-]", "[-a]", "[é]", "x[é]", "x[é][é]", "é", "x ", `x\ `, "a b", `a\*b`,
		`\!a`, `\#a`, "#a", "!a", `a\\`, `a\`, "d/", "d", "d/**", "**/a", "d/**/b.txt", "**", "a**", "**a", "d/*", "/*", "d/e", "*/a", "foo*", "foo/*",
		"foo/**/x", "[+-9]", "d[+-9]a", "d?a", "d[!x]a", "tab\t", "*\n!a", "*\n!d/\n!d/a", "d/\n!d/a", "a\r", "foo.bar", "[:]", "[a:]", "//a", "a/", "é/", "?/a", "??/a"} {
		o := Options{Exclude: strings.Split(line, "\n"), Hidden: true, Ignored: true}
		got, _ := list(t, dir, &o)
		cmd := exec.Command(git, "-C", dir, "ls-files", "-z", "--others", "--exclude-from=-")
		cmd.Args[len(cmd.Args)-1] = "--exclude-from=" + filepath.Join(tree(t, "rules="+line+"\n"), "rules")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		want := strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q keeps %q\nin git %q", line, got, want)
		}
		if len(want) < len(files) {
			excluded++
		}
	}
	if excluded < 40 {
		t.Errorf("%d patterns exclude something", excluded)
	}
}

func TestInclude(t *testing.T) {
	dir := tree(t, "docs/a.md", "docs/sub/b.md", "docs/c.txt", "src/docs/d.md", "src/e.go", "docs.md")
	for _, tt := range []struct{ include, want string }{
		{"docs", "docs/a.md docs/c.txt docs/sub/b.md src/docs/d.md"},
		{"docs/", "docs/a.md docs/c.txt docs/sub/b.md src/docs/d.md"},
		{"/docs", "docs/a.md docs/c.txt docs/sub/b.md"},
		{"/docs/", "docs/a.md docs/c.txt docs/sub/b.md"},
		{"docs/sub", "docs/sub/b.md"},
		{"docs,!*.txt", "docs/a.md docs/sub/b.md src/docs/d.md"},
		{"docs,!sub/", "docs/a.md docs/c.txt src/docs/d.md"},
		{"*.md", "docs.md docs/a.md docs/sub/b.md src/docs/d.md"},
		{"docs/*.md", "docs/a.md"},
		{"e.go/", ""},
	} {
		got, _ := list(t, dir, &Options{Include: strings.Split(tt.include, ",")})
		if all := strings.Join(got, " "); all != tt.want {
			t.Errorf("%s: %s", tt.include, all)
		}
	}
}
