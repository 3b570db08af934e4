package lint

import (
	"io/fs"
	"os"
	"path/filepath"
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

// TestBannedWords refuses the words of the right columns of docs/words.md in comments.
func TestBannedWords(t *testing.T) {
	banned := map[string]string{} // word → the word to use
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
	for word, use := range banned {
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
	"rag/embed/bert", "rag/embed/static", "rag/embed/tokenizer", "rag/embed/weights",
}

// TestCodeColumns refuses long lines of code, but for those of a long string and of struct tags.
func TestCodeColumns(t *testing.T) {
	text := regexp.MustCompile(`"(?:[^"\\]|\\.){60,}"`)
	for _, f := range files(t) {
		if f.test || slices.Contains(wide, f.dir) || f.path == "tools/vecbolt/rag.go" ||
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
			if rel != "." && strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules" {
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
