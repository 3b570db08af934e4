package split

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark/ast"
	gmtext "github.com/yuin/goldmark/text"
	"pgregory.net/rapid"
)

// letters embeds a text as how often it has each letter.
func letters(_ context.Context, texts []string) ([][]float32, error) {
	vecs := make([][]float32, len(texts))
	for i, text := range texts {
		vecs[i] = make([]float32, 26)
		for _, r := range strings.ToLower(text) {
			if r >= 'a' && r <= 'z' {
				vecs[i][r-'a']++
			}
		}
	}
	return vecs, nil
}

var strategies = []Strategy{
	Fixed(), Sentences(0), Sentences(2), Paragraphs(), Recursive(), Recursive("\n\n", ". ", ""), Markdown("Title"), Code(),
	Semantic(0.9, letters),
}

func split(t testing.TB, s Strategy, o Options, text string) []Chunk {
	t.Helper()
	splitter, err := New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	chunks, err := splitter.Split(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	return chunks
}

func texts(chunks []Chunk) []string {
	var list []string
	for _, c := range chunks {
		list = append(list, c.Text)
	}
	return list
}

// verify checks what holds for every strategy: exact offsets, the limit, order,
// and that nothing but white space is left out.
func verify(t interface{ Fatalf(string, ...any) }, text string, chunks []Chunk, limit int, count func(string) int) {
	covered, lastStart := 0, -1
	for i, c := range chunks {
		if c.Offset < 0 || c.Offset+len(c.Text) > len(text) || text[c.Offset:c.Offset+len(c.Text)] != c.Text {
			t.Fatalf("chunk %d is not the text at %d: %q", i, c.Offset, c.Text)
		}
		if c.Text == "" || strings.TrimSpace(c.Text) != c.Text {
			t.Fatalf("chunk %d is %q", i, c.Text)
		}
		if n := count(c.Text); n != c.Tokens || n > limit {
			t.Fatalf("chunk %d has %d tokens, says %d, limit %d: %q", i, n, c.Tokens, limit, c.Text)
		}
		if c.Offset <= lastStart || c.Offset+len(c.Text) <= covered {
			t.Fatalf("chunk %d at %d brings nothing new", i, c.Offset)
		}
		if c.Offset > covered && strings.TrimSpace(text[covered:c.Offset]) != "" {
			t.Fatalf("%q is left out before chunk %d", text[covered:c.Offset], i)
		}
		covered, lastStart = c.Offset+len(c.Text), c.Offset
	}
	if strings.TrimSpace(text[covered:]) != "" {
		t.Fatalf("%q is left out at the end", text[covered:])
	}
}

func TestProperties(t *testing.T) {
	runes := []rune("aab  \n\n\tB.!?#`-漢字ñ\u0301👩‍👩‍👧{}0_\r\u00a0")
	counters := map[string]func(string) int{
		"estimate": Estimate,
		"bytes":    func(s string) int { return (len(s) + 2) / 3 },
		// Like byte-pair encodings: a piece can cost more than within the whole.
		"pairs": func(s string) int { return len([]rune(s)) - strings.Count(s, "aa") - strings.Count(s, " a") },
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := string(rapid.SliceOfN(rapid.SampledFrom(runes), 0, 400).Draw(rt, "text"))
		strategy := rapid.SampledFrom(strategies).Draw(rt, "strategy")
		o := Options{MaxTokens: rapid.IntRange(8, 60).Draw(rt, "max")}
		o.Overlap = rapid.SampledFrom([]int{-1, 0, 1, o.MaxTokens / 2, o.MaxTokens - 1}).Draw(rt, "overlap")
		name := rapid.SampledFrom([]string{"estimate", "bytes", "pairs"}).Draw(rt, "count")
		o.Count = counters[name]
		s, err := New(strategy, o)
		if err != nil {
			rt.Fatal(err)
		}
		chunks, err := s.Split(t.Context(), text)
		if err != nil {
			rt.Fatal(err)
		}
		verify(rt, text, chunks, o.MaxTokens, o.Count)
		// They are the same whether chunks are made as early as possible or of all units at once.
		s.ahead = rapid.SampledFrom([]int{1, 7}).Draw(rt, "ahead")
		early, err := s.Split(t.Context(), text)
		if diff := cmp.Diff(chunks, early); err != nil || diff != "" {
			rt.Fatal(err, diff)
		}
	})
}

// A long word is divided into characters. Few are kept at a time.
func TestLongWord(t *testing.T) {
	word := strings.Repeat("x", 1<<20)
	for _, s := range strategies {
		if strings.HasPrefix(s.name, "semantic") {
			continue // embeds sentences
		}
		splitter, err := New(s, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		chunks, err := splitter.Split(t.Context(), word)
		runtime.ReadMemStats(&after)
		if err != nil || len(chunks) < len(word)/DefaultMaxTokens {
			t.Fatal(len(chunks), err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 8*uint64(len(word)) {
			t.Errorf("%s: %d bytes for a text of %d", s.name, n, len(word))
		}
	}
}

func TestStrategies(t *testing.T) {
	const prose = "One two three. Four five six! Seven eight nine?\n\nA second paragraph, by Dr. Smith. It ends."
	tests := []struct {
		name     string
		strategy Strategy
		o        Options
		text     string
		want     []string
	}{
		{"fixed", Fixed(), Options{MaxTokens: 8, Overlap: -1}, prose,
			[]string{"One two three. Four five six!", "Seven eight nine?\n\nA second", "paragraph, by Dr. Smith.", "It ends."}},
		{"fixed with overlap", Fixed(), Options{MaxTokens: 8, Overlap: 3}, "a b c d e f g h i j k l m",
			[]string{"a b c d e f g h", "f g h i j k l m"}},
		{"sentences", Sentences(1), Options{Overlap: -1}, prose,
			[]string{"One two three.", "Four five six!", "Seven eight nine?", "A second paragraph, by Dr. Smith.", "It ends."}},
		{"pairs of sentences", Sentences(2), Options{Overlap: -1}, prose,
			[]string{"One two three. Four five six!", "Seven eight nine?\n\nA second paragraph, by Dr. Smith.", "It ends."}},
		{"sentences overlap", Sentences(2), Options{Overlap: 4}, "Go on. Go up. Go in. Go far.",
			[]string{"Go on. Go up.", "Go up. Go in.", "Go in. Go far."}},
		{"long sentence", Sentences(1), Options{MaxTokens: 8, Overlap: -1}, "Go. A b c d e f g h i j. Go on.",
			[]string{"Go.", "A b c d e f g h", "i j.", "Go on."}},
		{"long sentence of a pair", Sentences(2), Options{MaxTokens: 8, Overlap: 2}, "Go. A b c d e f g h i j. Go on. Go up.",
			[]string{"Go. A b c d e f", "e f g h i j.", "j. Go on.", "Go up."}},
		{"paragraphs", Paragraphs(), Options{}, prose,
			[]string{"One two three. Four five six! Seven eight nine?", "A second paragraph, by Dr. Smith. It ends."}},
		{"long paragraph", Paragraphs(), Options{MaxTokens: 10, Overlap: -1}, prose,
			[]string{"One two three. Four five six!", "Seven eight nine?", "A second paragraph, by Dr. Smith.", "It ends."}},
		{"recursive", Recursive(), Options{MaxTokens: 14, Overlap: -1}, prose,
			[]string{"One two three. Four five six! Seven eight nine?", "A second paragraph, by Dr. Smith. It ends."}},
		{"long word", Fixed(), Options{MaxTokens: 8, Overlap: -1}, strings.Repeat("x", 20), []string{"xxxxxxxxxxxxxxxxxxxx"}},
		{"endless word", Fixed(), Options{MaxTokens: 8, Overlap: -1}, strings.Repeat("x", 60)[:50],
			[]string{"xxxxxxxx", "xxxxxxxx", "xxxxxxxx", "xxxxxxxx", "xxxxxxxx", "xxxxxxxx", "xx"}},
		{"code", Code(), Options{MaxTokens: 16, Overlap: -1}, "func a() {\n\tx := 1\n\n\ty := 2\n}\n\nfunc b() {\n\tz := 3\n}\n",
			[]string{"func a() {\n\tx := 1\n\n\ty := 2\n}", "func b() {\n\tz := 3\n}"}},
		{"semantic", Semantic(0.5, letters), Options{Overlap: -1}, "Aaa aaa. Aa aaaa. Aaaa aa. Zzz zzz. Zz zz. Zzzz z.",
			[]string{"Aaa aaa. Aa aaaa. Aaaa aa.", "Zzz zzz. Zz zz. Zzzz z."}},
		{"white space", Recursive(), Options{}, " \n\t ", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := split(t, tt.strategy, tt.o, tt.text)
			if diff := cmp.Diff(tt.want, texts(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestMarkdownHeaders(t *testing.T) {
	const text = "Intro.\n\n# One\n\nText of one.\n\n## Sub *one*\n\n```go\na\n\n# not a heading\n```\n\n# Two\nText.\n\nSetext\n------\nEnd.\n"
	type piece struct{ Header, Text string }
	var got []piece
	for _, c := range split(t, Markdown("Guide"), Options{}, text) {
		got = append(got, piece{c.Header, c.Text})
	}
	want := []piece{
		{"Guide", "Intro."},
		{"Guide › One", "# One\n\nText of one."},
		{"Guide › One › Sub *one*", "## Sub *one*\n\n```go\na\n\n# not a heading\n```"},
		{"Guide › Two", "# Two\nText."},
		{"Guide › Two › Setext", "Setext\n------\nEnd."},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// A heading with nothing below it is no chunk, unless nothing follows.
	chunks0 := split(t, Markdown(""), Options{}, "# A\n\n## B\n\n### C\ntext\n\n## D\n\n# E\n")
	if diff := cmp.Diff([]string{"# A\n\n## B\n\n### C\ntext", "## D", "# E"}, texts(chunks0)); diff != "" || chunks0[0].Header != "A › B › C" {
		t.Errorf("%q (-want +got)\n%s", chunks0[0].Header, diff)
	}
	// A code block stays whole where it fits, though it has empty lines.
	chunks := split(t, Markdown(""), Options{MaxTokens: 14, Overlap: -1}, "# T\n\nSome words before it.\n\n```\na b c\n\nd e f\n```\n")
	if diff := cmp.Diff([]string{"# T\n\nSome words before it.", "```\na b c\n\nd e f\n```"}, texts(chunks)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestHostileMarkdown: sections take memory and time in proportion to a text. With inline parsers
// and tables, the first of these took 1.9 GB; the others took minutes.
func TestHostileMarkdown(t *testing.T) {
	const size = 1 << 20
	texts := map[string]string{"wide table": strings.Repeat("|a", 10_000) + "|\n" + strings.Repeat("|-", 10_000) + "|\n" +
		strings.Repeat("|b|b|b\n", 1000)}
	for _, unit := range []string{">", "> ", "+ ", "1. ", "> - 1. ", "[a](", "[a]: b\n", "```\nx\n```\n\ntext\n\n",
		"a\n===\n", "a\n\n", "> a\n> \n"} {
		texts[unit] = strings.Repeat(unit, size/len(unit))
	}
	texts["empty lines in lists"] = deeper("- ", 200) + strings.Repeat("\n", size/8)
	for name, text := range texts {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		groups := sections(text, "")
		runtime.ReadMemStats(&after)
		if took := (after.TotalAlloc - before.TotalAlloc) / uint64(len(text)); took > 2000 {
			t.Errorf("%q: %d bytes of memory for each byte", name, took)
		}
		at := 0
		for _, g := range groups {
			for _, p := range g.pieces {
				if p.lo != at {
					t.Fatalf("%q: a piece begins at %d, the one before ends at %d", name, p.lo, at)
				}
				at = p.hi
			}
		}
		if at != len(text) {
			t.Errorf("%q: the pieces end at %d of %d", name, at, len(text))
		}
	}
}

// deeper returns lines of lists within lists: each line begins a few of them in the last one.
func deeper(marker string, lines int) string {
	var b strings.Builder
	for i := range lines {
		b.WriteString(strings.Repeat(" ", 10*len(marker)*i) + strings.Repeat(marker, 10) + "a\n")
	}
	return b.String()
}

// TestNestedMarkdown: headings after many nested quotes and lists divide a text, and keep their
// words. The parser sees only a few of them within each other.
func TestNestedMarkdown(t *testing.T) {
	for _, marker := range []string{">", "- ", "* ", "12) ", "> + 3. "} {
		for _, text := range []string{strings.Repeat(marker, 150) + "deep\n", deeper(marker, 15)} {
			text += "\n# 1. One > two - three\n\ntext\n"
			groups := sections(text, "")
			if len(groups) != 2 || groups[1].header != "1. One > two - three" || groups[0].pieces[0].lo != 0 {
				t.Errorf("%q: %+v", marker, groups)
			}
			depth, deepest := 0, 0
			err := ast.Walk(blockParser.Parse(gmtext.NewReader(shallow(text))), func(_ ast.Node, entering bool) (ast.WalkStatus, error) {
				if depth--; entering {
					depth += 2
				}
				deepest = max(deepest, depth)
				return ast.WalkContinue, nil
			})
			if err != nil || deepest < maxNesting/2 || deepest > 2*maxNesting+5 { // a list has items
				t.Errorf("%q: %d nodes within each other, %v", marker, deepest, err)
			}
		}
	}
}

// TestTitles: underlined text is a heading only if it is short and no table.
func TestTitles(t *testing.T) {
	for body, want := range map[string]string{
		"Title\n---\n": "T › Title", "A title of\ntwo lines\n===\n": "A title of\ntwo lines", "a | b\n---\n": "T › a | b",
		"| a | b |\n|---|---|\n| c | d |\n---\n": "T", "[1]: http://x\n[2]: http://y\n---\n": "T", "[1]: http://x\n---\n": "T",
		strings.Repeat("a long paragraph\n", 50) + "---\n": "T",
	} {
		groups := sections("# T\n\n"+body+"next\n", "")
		if got := groups[len(groups)-1].header; got != want {
			t.Errorf("%q: header %q, want %q", body, got, want)
		}
	}
}

func TestInvalid(t *testing.T) {
	for name, tt := range map[string]struct {
		s Strategy
		o Options
	}{
		"no strategy":  {Strategy{}, Options{}},
		"small limit":  {Fixed(), Options{MaxTokens: 7}},
		"overlap":      {Fixed(), Options{MaxTokens: 10, Overlap: 10}},
		"sentences":    {Sentences(-1), Options{}},
		"threshold":    {Semantic(2, letters), Options{}},
		"no embedding": {Semantic(0.5, nil), Options{}},
	} {
		if _, err := New(tt.s, tt.o); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, err := New(Fixed(), Options{MaxTokens: 8, Count: func(s string) int { return 9 * len(s) }})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"\xff", "a"} {
		if _, err := s.Split(t.Context(), text); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
	broken := errors.New("broken")
	for name, embed := range map[string]func(context.Context, []string) ([][]float32, error){
		"fails":      func(context.Context, []string) ([][]float32, error) { return nil, broken },
		"too few":    func(context.Context, []string) ([][]float32, error) { return [][]float32{{1}}, nil },
		"dimensions": func(context.Context, []string) ([][]float32, error) { return [][]float32{{1}, {1, 2}, {1}}, nil },
	} {
		s, err := New(Semantic(0.5, embed), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Split(t.Context(), "One. Two."); !errors.Is(err, ErrInvalid) && !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRealDocuments splits Markdown and source files.
func TestRealDocuments(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(files, sources...) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range strategies {
			chunks := split(t, s, Options{MaxTokens: 100, Overlap: 20}, string(b))
			verify(t, string(b), chunks, 100, Estimate)
			if len(chunks) < 2 {
				t.Errorf("%s, %s: %d chunks", name, s.name, len(chunks))
			}
		}
	}
}

func TestEstimate(t *testing.T) {
	for text, want := range map[string]int{"": 0, " \n": 0, "Hello, world!": 4, "internationalisation": 4, "漢字": 2, "3.14": 1} {
		if got := Estimate(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range strategies {
		splitter, err := New(s, Options{MaxTokens: 256})
		if err != nil {
			t.Fatal(err)
		}
		name := splitter.Name()
		if seen[name] || !strings.HasSuffix(name, "/256/32") || strings.ContainsFunc(name, unicode.IsControl) {
			t.Errorf("name %q", name)
		}
		seen[name] = true
	}
}

func BenchmarkSplit(b *testing.B) {
	text, err := os.ReadFile("../../docs/design.md")
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range strategies {
		b.Run(s.name, func(b *testing.B) {
			splitter, err := New(s, Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := splitter.Split(b.Context(), string(text)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
