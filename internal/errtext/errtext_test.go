package errtext

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"db: search: filter: at \"a\": bad":             "search: at \"a\": bad",
		"knowledge: learn \"b\": embed: ollama: no":     "learn \"b\": ollama: no",
		"interrupted: vectorize: static: no":            "interrupted: static: no",
		"server: open: no token":                        "open: no token",
		"learn: split: embed sentences: no":             "learn: embed sentences: no",
		"a\nweaviate: b":                                "a\nb",
		"mydb: x, say db: y":                            "mydb: x, say db: y",
		"db: get: no index (in Go: Schema.Text) of b":   "get: no index of b",
		"no (in Go: f(x)) y":                            "no (in Go: f(x)) y",
		`db: get: document "a: db: b\" (in Go: x)": no`: `get: document "a: db: b\" (in Go: x)": no`,
		`db: a 5" disk: db: no 6" disk`:                 `a 5" disk: no 6" disk`,
		"\"open: db: a\ndb: \"b: db: c\"":               "\"open: a\n\"b: db: c\"",
		`db: a 5" disk: db: no`:                         `a 5" disk: no`,
		"":                                              "",
		"db: ":                                          "",
		"x: \ndb: y\n":                                  "x: \ny\n",
	} {
		if got := Plain(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestPlainOfOpenQuotes: a text with many quotes that nothing closes takes no longer than others.
func TestPlainOfOpenQuotes(t *testing.T) {
	text := strings.Repeat(`"`+strings.Repeat(`\"`, 1<<10)+" ", 1<<10)
	if got := Plain(text); got != text {
		t.Errorf("%d bytes of %d", len(got), len(text))
	}
}

func TestInGo(t *testing.T) {
	err := fmt.Errorf("db: search: %w", InGo(io.EOF, "Collection.SetText"))
	if !errors.Is(err, io.EOF) || err.Error() != "db: search: EOF (in Go: Collection.SetText)" || Plain(err.Error()) != "search: EOF" {
		t.Error(err, Plain(err.Error()))
	}
}

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"a  b\n":                          "a b",
		"overloaded\nline2\x1b[31mred":    "overloaded line2 [31mred",
		"\u009b31m\u202ea\xff":            "31m a?",
		strings.Repeat("x", 40):           strings.Repeat("x", 40),
		strings.Repeat("x", 39) + "éé":    strings.Repeat("x", 39) + "…",
		"\n" + strings.Repeat("x", 40):    strings.Repeat("x", 40),
		strings.Repeat("x", 38) + " yyyy": strings.Repeat("x", 38) + " y…",
	} {
		if got := OneLine(text, 40); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestInstead(t *testing.T) {
	var many []string
	for i := range 25 {
		many = append(many, fmt.Sprintf("name-%02d", i))
	}
	for _, tt := range []struct {
		name  string
		exist []string
		want  string
	}{
		{"a", nil, "; there is none"},
		{"note", []string{"notes"}, `; there is "notes"`},
		{"note", []string{"pets", "notes"}, `; there are "notes", "pets"; the nearest is "notes"`},
		{"NOTES", []string{"pets", "notes"}, `; there are "notes", "pets"; the nearest is "notes"`},
		{"doc", []string{"documents", "notes"}, `; there are "documents", "notes"; the nearest is "documents"`},
		{"doc", []string{"documents", "docents"}, `; there are "docents", "documents"`},
		{"x", []string{"documents", "notes"}, `; there are "documents", "notes"`},
		{"cat", []string{"cut", "cot"}, `; there are "cot", "cut"`},
		{"", []string{"a", "b"}, `; there are "a", "b"`},
		{"name-99", many, `; there are "name-00", ` + quoted(many[1:20]) + ` and 5 more`},
		{"a", []string{strings.Repeat("x", 300), "a\n"}, `; there are "a\n", "` + strings.Repeat("x", 100) + `"; the nearest is "a\n"`},
	} {
		if got := Instead(tt.name, tt.exist); got != tt.want {
			t.Errorf("%q of %q: %s, want %s", tt.name, tt.exist, got, tt.want)
		}
	}
}

func quoted(names []string) string { return `"` + strings.Join(names, `", "`) + `"` }

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"kitten", "sitting", 3}, {"topk", "top_k", 1}, {"abc", "cab", 2}} {
		if got, back := Distance(tt.a, tt.b), Distance(tt.b, tt.a); got != tt.want || back != tt.want {
			t.Errorf("%q, %q: %d and %d, want %d", tt.a, tt.b, got, back, tt.want)
		}
	}
}
