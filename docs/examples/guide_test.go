package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	_ "github.com/vecbolt/vecbolt/rag" // what the programs use, so that a cached test result does not outlive a change of it
)

// pages quote programs.
var pages = []string{"../guide.md", "../eval.md", "../seeds.md"}

// A block of code on these pages begins with its language and where it is
// quoted from:
//
//	```go examples/first/main.go complete    the whole file
//	```go examples/first/main.go             consecutive lines of it, indented as one likes
//	```text examples/first                   consecutive lines that the program prints
var block = regexp.MustCompile("(?ms)^```(\\w+)(?: (\\S+))?( complete)?\n(.*?)^```$")

type quote struct {
	language, source string
	complete         bool
	text             string
}

func quotes(t *testing.T) []quote {
	t.Helper()
	var all []quote
	fences := 0
	for _, name := range pages {
		page, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllStringSubmatch(string(page), -1) {
			all = append(all, quote{m[1], m[2], m[3] != "", m[4]})
		}
		fences += strings.Count(string(page), "\n```")
	}
	if fences != 2*len(all) {
		t.Fatalf("%d fences but %d blocks: one is malformed", fences, len(all))
	}
	return all
}

// contains reports whether text is a sequence of whole lines of file, after
// as many tabs as text has too few.
func contains(file, text string) bool {
	lines := regexp.MustCompile(`(?m)^(.)`)
	for range 4 {
		if strings.Contains("\n"+file, "\n"+text) {
			return true
		}
		text = lines.ReplaceAllString(text, "\t$1")
	}
	return false
}

func TestGuideQuotesPrograms(t *testing.T) {
	for _, q := range quotes(t) {
		if q.language != "go" {
			continue
		}
		code, err := os.ReadFile(filepath.FromSlash("../" + q.source))
		if err != nil {
			t.Errorf("a block quotes %q: %v", q.source, err)
			continue
		}
		switch file := strings.ReplaceAll(string(code), "\r\n", "\n"); {
		case q.complete && q.text != file:
			t.Errorf("the copy of %s differs from the file", q.source)
		case !contains(file, q.text):
			t.Errorf("%s does not contain these lines of a page:\n%s", q.source, q.text)
		}
	}
}

func TestGuideQuotesOutput(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: builds the programs, which -short does not")
	}
	mains, err := filepath.Glob("*/main.go")
	if err != nil {
		t.Fatal(err)
	}
	printed := map[string]string{}
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin+string(filepath.Separator), "./...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, main := range mains {
		name := filepath.Dir(main)
		program := exec.CommandContext(t.Context(), filepath.Join(bin, name)) // finds name.exe on Windows
		program.Dir = t.TempDir()
		out, err := program.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		printed["examples/"+name] = strings.ReplaceAll(string(out), "\r\n", "\n")
	}
	shown := map[string]bool{}
	for _, q := range quotes(t) {
		if q.source == "" {
			continue
		}
		shown["examples/"+strings.Split(q.source, "/")[1]] = true
		if q.language == "text" && !contains(printed[q.source], q.text) {
			t.Errorf("%s prints\n%snot\n%s", q.source, printed[q.source], q.text)
		}
	}
	for name := range printed {
		if !shown[name] {
			t.Errorf("no page quotes %s", name)
		}
	}
}
