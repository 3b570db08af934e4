package filter_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vecbolt/vecbolt/filter"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected output in testdata/where")

// TestWhere runs the stories in testdata/where. A block is a command, its
// input, "----" and its output; blocks are separated by blank lines:
//
//   - documents names the documents of the file, one a line;
//   - where parses a condition and prints its canonical form, "=" and its
//     simplified form if that differs, and the documents that it matches.
func TestWhere(t *testing.T) {
	files, err := filepath.Glob("testdata/where/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runStory(t, string(text))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if diff := cmp.Diff(string(text), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		})
	}
}

type document struct {
	name string
	meta map[string]any
}

func runStory(t *testing.T, text string) string {
	t.Helper()
	var docs []document
	blocks := strings.Split(strings.TrimSpace(text), "\n\n")
	for i, block := range blocks {
		head, _, ok := strings.Cut(block, "----")
		if !ok {
			continue // comment
		}
		lines := strings.Split(strings.TrimSpace(head), "\n")
		for strings.HasPrefix(lines[0], "#") {
			lines = lines[1:]
		}
		var out string
		switch command, input := lines[0], lines[1:]; command {
		case "documents":
			for _, line := range input {
				name, meta, _ := strings.Cut(line, " ")
				docs = append(docs, document{name, readDocument(t, meta)})
			}
		case "where":
			out = explain(strings.Join(input, "\n"), docs)
		default:
			t.Fatalf("unknown command %q", command)
		}
		blocks[i] = strings.TrimSpace(head + "----\n" + out)
	}
	return strings.Join(blocks, "\n\n") + "\n"
}

func explain(where string, docs []document) string {
	e, err := filter.Parse([]byte(where))
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	fmt.Fprintln(&b, e)
	if s := filter.Simplify(e).String(); s != e.String() {
		fmt.Fprintln(&b, "=", s)
	}
	b.WriteString("matches:")
	for _, d := range docs {
		if matches(e, d.meta) {
			b.WriteString(" " + d.name)
		}
	}
	return b.String()
}

func matches(e filter.Expr, meta map[string]any) bool {
	return filter.Match(e, func(path string) (any, bool) { return filter.Lookup(meta, path) })
}

// readDocument decodes JSON to the values that documents hold.
func readDocument(t *testing.T, text string) map[string]any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader([]byte(text)))
	dec.UseNumber()
	var meta map[string]any
	if err := dec.Decode(&meta); err != nil {
		t.Fatalf("document %s: %v", text, err)
	}
	return stored(t, meta).(map[string]any)
}

func stored(t *testing.T, v any) any {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			v[key] = stored(t, child)
		}
		return v
	case []any:
		for i, child := range v {
			v[i] = stored(t, child)
		}
		return v
	}
	s, err := filter.Scalar(v)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestManual holds docs/where.md to what it says: in tables headed "document |
// condition | match" the answer is checked, in tables headed "condition | error"
// the error, and in tables headed "written | canonical" the form.
func TestManual(t *testing.T) {
	text, err := os.ReadFile("../docs/where.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := map[string]int{}
	var head string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			head = ""
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if head == "" {
			head = strings.Join(cells, " ")
			continue
		}
		if strings.HasPrefix(cells[0], "---") {
			continue
		}
		code := func(i int) string { return strings.Trim(strings.TrimSpace(cells[i]), "`") }
		switch head {
		case "document condition match":
			e, err := filter.Parse([]byte(code(1)))
			if err != nil {
				t.Errorf("%s: %v", line, err)
			} else if got := matches(e, readDocument(t, code(0))); got != (cells[2] == "yes") || !got != (cells[2] == "no") {
				t.Errorf("%s: got %v", line, got)
			}
		case "condition error":
			if _, err := filter.Parse([]byte(code(0))); err == nil || err.Error() != "filter: "+code(1) {
				t.Errorf("%s: got %v", line, err)
			}
		case "written canonical":
			if e, err := filter.Parse([]byte(code(0))); err != nil || e.String() != code(1) {
				t.Errorf("%s: got %v, %v", line, e, err)
			}
		default:
			continue
		}
		checked[head]++
	}
	if checked["document condition match"] < 20 || checked["condition error"] < 5 || checked["written canonical"] < 5 {
		t.Errorf("rows checked: %v", checked)
	}
}
