package lint

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// wordsPage is the page whose tables the tests below enforce.
const wordsPage = "docs/words.md"

// tableRows returns the cells of every table row of a Markdown page, without heads and rules.
func tableRows(t *testing.T, page string) (rows [][]string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	const bar = "\x00" // an escaped one, inside a cell
	lines := strings.Split(strings.ReplaceAll(string(b), `\|`, bar), "\n")
	for i, line := range lines {
		head := i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|---")
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, ">") || strings.HasPrefix(line, "|---") || head {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for j, c := range cells {
			cells[j] = strings.TrimSpace(strings.ReplaceAll(c, bar, "|"))
		}
		rows = append(rows, cells)
	}
	return rows
}

// comments returns the prose of the comments of a Go file, without directives.
func comments(f file) string {
	var b strings.Builder
	for _, group := range f.ast.Comments {
		b.WriteString(group.Text())
		b.WriteString("\n")
	}
	return b.String()
}

// TestPhraseRates holds the phrases of docs/words.md to their rates.
func TestPhraseRates(t *testing.T) {
	var prose strings.Builder
	for _, f := range files(t) {
		if !f.test {
			prose.WriteString(comments(f))
		}
	}
	text := prose.String()
	words := len(regexp.MustCompile(`[A-Za-z']+`).FindAllString(text, -1))
	checked := 0
	for _, row := range tableRows(t, wordsPage) {
		if len(row) != 3 || !strings.HasPrefix(row[1], "`") {
			continue
		}
		limit, err := strconv.ParseFloat(row[2], 64)
		if err != nil {
			t.Fatalf("%s: rate of %q: %v", wordsPage, row[0], err)
		}
		checked++
		n := len(regexp.MustCompile(strings.Trim(row[1], "`")).FindAllString(text, -1))
		if rate := 1000 * float64(n) / float64(words); rate > limit {
			t.Errorf("%q: %.2f per 1,000 words of comments, the limit is %g", row[0], rate, limit)
		}
	}
	if checked < 5 {
		t.Errorf("%s: only %d rates found", wordsPage, checked)
	}
}

// bannedWords returns the words of the right columns of docs/words.md, each with the word to use.
func bannedWords(t *testing.T) map[string]string {
	t.Helper()
	banned := map[string]string{}
	for _, row := range tableRows(t, wordsPage) {
		if len(row) != 3 || strings.HasPrefix(row[1], "`") {
			continue
		}
		for word := range strings.SplitSeq(row[2], ",") {
			if word = strings.TrimSpace(word); word != "" {
				banned[word] = row[0]
			}
		}
	}
	if len(banned) < 5 {
		t.Fatalf("%s: only %d banned words found", wordsPage, len(banned))
	}
	return banned
}

// TestBannedWords refuses banned words in comments.
func TestBannedWords(t *testing.T) {
	for word, use := range bannedWords(t) {
		pattern := regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `s?\b`)
		for _, f := range files(t) {
			for _, group := range f.ast.Comments {
				if !f.test && pattern.MatchString(group.Text()) {
					t.Errorf("%s:%d: %q: say %q", f.path, f.line(group.Pos()), word, use)
				}
			}
		}
	}
}

// foreign lists the directories whose JSON and YAML keys other programs have defined.
var foreign = []string{"rag/embed", "rag/chat", "rag/rerank", "rag/load", "rag/provider", "server/chroma", "store/weaviate", "tools/bench"}

// TestKeys holds the names of flags, of keys in JSON and YAML, and of metrics to docs/words.md: no
// banned words, lower case, words of keys joined by _ and words of flags by -, and the unit of a
// duration at the end of its key.
func TestKeys(t *testing.T) {
	banned := bannedWords(t)
	key, flag := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`), regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	unit := regexp.MustCompile(`^ns$|_(?:ns|us|ms|seconds)$`)
	hump := regexp.MustCompile(`([a-z0-9])([A-Z])`) // where the library of flags divides names of fields
	metric := regexp.MustCompile(`\bvecbolt_[a-z0-9_]*[a-z0-9]`)
	checked := map[string]int{}
	check := func(where, kind, name string, form *regexp.Regexp) {
		checked[kind]++
		if !form.MatchString(name) {
			t.Errorf("%s: %s %q is not of the form %v", where, kind, name, form)
		}
		for _, word := range strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '-' }) {
			if use, ok := banned[strings.TrimSuffix(word, "s")]; ok {
				t.Errorf("%s: %s %q: say %q", where, kind, name, use)
			}
		}
	}
	for _, f := range files(t) {
		if f.test || slices.ContainsFunc(foreign, func(dir string) bool { return strings.HasPrefix(f.path, dir+"/") }) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					for _, name := range metric.FindAllString(n.Value, -1) {
						check(fmt.Sprintf("%s:%d", f.path, f.line(n.Pos())), "metric", name, key)
					}
				}
			case *ast.Field:
				if n.Tag == nil {
					return true
				}
				text, _ := strconv.Unquote(n.Tag.Value)
				tag, where := reflect.StructTag(text), fmt.Sprintf("%s:%d", f.path, f.line(n.Pos()))
				for _, kind := range []string{"json", "yaml"} {
					name, _, _ := strings.Cut(tag.Get(kind), ",")
					if name == "" || name == "-" {
						continue
					}
					check(where, kind, name, key)
					typ, _ := n.Type.(*ast.SelectorExpr)
					if typ != nil && typ.Sel.Name == "Duration" && kind == "json" && !unit.MatchString(name) {
						t.Errorf("%s: %q is a duration without a unit", where, name)
					}
				}
				if _, ok := tag.Lookup("help"); ok && len(n.Names) > 0 {
					name := strings.ToLower(hump.ReplaceAllString(n.Names[0].Name, "$1-$2"))
					check(where, "flag", cmp.Or(tag.Get("name"), name), flag)
				}
			}
			return true
		})
	}
	for kind, least := range map[string]int{"json": 200, "flag": 50, "metric": 20} {
		if checked[kind] < least {
			t.Errorf("%d names of kind %s found", checked[kind], kind)
		}
	}
}

// maxColumns is the longest line of comments and documents; a tab counts as four.
const maxColumns = 100

// TestColumns refuses long lines of comments and of Markdown, but for those that cannot be broken:
// tables, code, links and lines without a space.
func TestColumns(t *testing.T) {
	long := func(line string) bool {
		line = strings.ReplaceAll(line, "\t", "    ")
		text := strings.TrimLeft(strings.TrimSpace(line), "/ ")
		return utf8.RuneCountInString(line) > maxColumns && strings.Contains(text, " ")
	}
	for _, f := range files(t) {
		if strings.Contains(f.text[:min(len(f.text), 100)], "Code generated") {
			continue
		}
		for i, line := range strings.Split(f.text, "\n") {
			if comment := strings.TrimSpace(line); strings.HasPrefix(comment, "// ") && long(line) {
				t.Errorf("%s:%d: the line has more than %d columns", f.path, i+1, maxColumns)
			}
		}
	}
	for _, page := range pages(t) {
		b, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		code := false
		for i, line := range strings.Split(string(b), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			}
			if code || strings.HasPrefix(line, "|") || strings.HasPrefix(line, ">") || strings.HasPrefix(line, "    ") || strings.Contains(line, "](") {
				continue
			}
			if long(line) {
				t.Errorf("%s:%d: the line has more than %d columns", page, i+1, maxColumns)
			}
		}
	}
}

// maxCode is the longest line of code; wide lists the folders that have longer ones still.
const maxCode = 120

var wide = []string{
	"simd", "mcp", "rag/knowledge", "rag/embed",
	"rag/embed/bert", "rag/embed/static", "internal/tokenizer", "internal/weights",
}

// TestCodeColumns refuses long lines of code, but for those of a long string and of struct tags.
func TestCodeColumns(t *testing.T) {
	text := regexp.MustCompile(`"(?:[^"\\]|\\.){60,}"`)
	for _, f := range files(t) {
		if f.test || slices.Contains(wide, f.dir) ||
			strings.Contains(f.text[:min(len(f.text), 100)], "Code generated") {
			continue
		}
		raw := false // inside a raw string
		for i, line := range strings.Split(f.text, "\n") {
			ticks := strings.Count(line, "`")
			columns := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
			if columns > maxCode && !raw && !strings.HasPrefix(strings.TrimSpace(line), "//") && ticks == 0 && !text.MatchString(line) {
				t.Errorf("%s:%d: the line has more than %d columns", f.path, i+1, maxCode)
			}
			raw = raw != (ticks%2 == 1)
		}
	}
}

// pages returns the Markdown pages of the repository that people write: not the reports of
// docs/bench, not the generated page of the command, and nothing in testdata.
func pages(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		name := e.Name()
		if e.IsDir() {
			if rel != "." && strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" || name == "venv" {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ".md") && rel != "docs/cli.md" && (!strings.HasPrefix(rel, "docs/bench/") || name == "README.md") {
			all = append(all, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
