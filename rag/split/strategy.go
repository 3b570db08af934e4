package split

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/sentences"
	"github.com/clipperhouse/uax29/v2/words"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/parser"
	gmtext "github.com/yuin/goldmark/text"

	"github.com/vecbolt/vecbolt/simd"
)

// A Strategy says where a text may be divided.
type Strategy struct {
	name   string
	divide func(ctx context.Context, text string) ([]group, error)
	levels []level
	whole  bool // a piece that fits is not divided further
	join   bool // pieces are joined up to the limit; otherwise each is a chunk
	pieces int  // maximum number of pieces in a chunk; 0: no limit
	err    error
}

// Fixed makes chunks as large as the limit allows, divided between words.
func Fixed() Strategy {
	return Strategy{name: "fixed", divide: all, levels: []level{wordEnds}, join: true}
}

// Sentences makes chunks of at most n whole sentences; 0 means no limit. Only a sentence above the
// token limit is divided, between words.
func Sentences(n int) Strategy {
	s := Strategy{name: "sentence", divide: sentencePieces, levels: []level{wordEnds}, whole: true,
		join: true, pieces: n}
	if n > 0 {
		s.name = fmt.Sprintf("sentence-%d", n)
	}
	if n < 0 {
		s.err = fmt.Errorf("%d sentences", n)
	}
	return s
}

// Paragraphs makes one chunk per paragraph, a block between empty lines. Paragraphs above the limit
// are divided between sentences.
func Paragraphs() Strategy {
	return Strategy{name: "paragraph", divide: paragraphPieces, levels: []level{sentenceEnds, wordEnds}, whole: true}
}

// Recursive divides at the first separator, divides pieces that are still too large at the second,
// and so on. A separator stays at the end of the piece before it. Without arguments the levels are
// paragraphs, lines, sentences and words.
func Recursive(separators ...string) Strategy {
	s := Strategy{name: "recursive", divide: all,
		levels: []level{paragraphEnds, lineEnds, sentenceEnds, wordEnds}, whole: true, join: true}
	if len(separators) > 0 {
		s.name, s.levels = fmt.Sprintf("recursive-%q", separators), nil
	}
	for _, sep := range separators {
		if sep != "" { // such lists often end with "", for characters, which is the last level anyway
			s.levels = append(s.levels, func(text string) []int { return after(text, sep) })
		}
	}
	return s
}

// Markdown keeps sections apart: no chunk crosses a heading. Code blocks stay whole if they fit.
// The Header of a chunk is the list of headings above it, beginning with title if it is not empty.
func Markdown(title string) Strategy {
	return Strategy{
		name:   "markdown",
		divide: func(_ context.Context, text string) ([]group, error) { return sections(text, title), nil },
		levels: []level{lineEnds, sentenceEnds, wordEnds}, whole: true, join: true,
	}
}

// Code divides source text before unindented lines that follow an empty line, where most languages
// begin a new definition; then at empty lines; then at lines.
func Code() Strategy {
	return Strategy{name: "code", divide: all,
		levels: []level{definitions, paragraphEnds, lineEnds, wordEnds}, whole: true, join: true}
}

// Semantic divides where the topic changes: where the embedding of the two preceding sentences and
// that of the two following ones have a cosine below threshold, in [-1, 1]. embed returns a vector
// for each text.
func Semantic(threshold float64, embed func(ctx context.Context, texts []string) ([][]float32, error)) Strategy {
	s := Strategy{name: fmt.Sprintf("semantic-%g", threshold), levels: []level{wordEnds}, whole: true, join: true}
	if !(threshold >= -1 && threshold <= 1) || embed == nil {
		s.err = fmt.Errorf("similarity threshold %v, embedder %t", threshold, embed != nil)
	}
	s.divide = func(ctx context.Context, text string) ([]group, error) { return topics(ctx, text, threshold, embed) }
	return s
}

func all(_ context.Context, text string) ([]group, error) {
	return []group{{pieces: []span{{0, len(text)}}}}, nil
}

func sentencePieces(_ context.Context, text string) ([]group, error) {
	return []group{{pieces: pieces(0, text, sentenceEnds)}}, nil
}

func paragraphPieces(_ context.Context, text string) ([]group, error) {
	return []group{{pieces: pieces(0, text, paragraphEnds)}}, nil
}

// pieces divides a text that begins at offset.
func pieces(offset int, text string, l level) []span {
	var spans []span
	lo := 0
	for _, hi := range append(l(text), len(text)) {
		if hi > lo {
			spans = append(spans, span{offset + lo, offset + hi})
		}
		lo = hi
	}
	return spans
}

// wordEnds cuts before words or after white space, so that white space and signs stay with the word
// before them.
func wordEnds(text string) []int {
	var cuts []int
	spaced := false
	for it := words.FromString(text); it.Next(); {
		r, _ := utf8.DecodeRuneInString(it.Value())
		if it.Start() > 0 && !unicode.IsSpace(r) && (spaced || unicode.IsLetter(r) || unicode.IsNumber(r)) {
			cuts = append(cuts, it.Start())
		}
		spaced = unicode.IsSpace(r)
	}
	return cuts
}

// abbreviations end with a full stop that does not end a sentence before a capital letter.
var abbreviations = []string{"dr.", "mr.", "mrs.", "ms.", "prof.", "st.", "fig.", "figs.", "eq.",
	"no.", "vs.", "cf.", "e.g.",
	"i.e.", "al.", "approx.", "sec.", "ch.", "vol.", "pp.", "ref.", "refs.", "inc.", "ltd.", "jr.", "sr."}

func sentenceEnds(text string) []int {
	var cuts []int
	whole := true // the preceding text is a sentence
	for it := sentences.FromString(text); it.Next(); {
		if it.Start() > 0 && whole && !blank(it.Value()) {
			cuts = append(cuts, it.Start())
		}
		if !blank(it.Value()) {
			s := strings.TrimRightFunc(it.Value(), unicode.IsSpace)
			last := s[strings.LastIndexFunc(s, func(r rune) bool { return unicode.IsSpace(r) || r == '(' })+1:]
			whole = !slices.Contains(abbreviations, strings.ToLower(last))
		}
	}
	return cuts
}

// after returns the ends of sep in text.
func after(text, sep string) []int {
	var cuts []int
	for at := 0; ; {
		i := strings.Index(text[at:], sep)
		if i < 0 || at+i+len(sep) == len(text) {
			return cuts
		}
		at += i + len(sep)
		cuts = append(cuts, at)
	}
}

func lineEnds(text string) []int { return after(text, "\n") }

// paragraphEnds cuts before each line with text that follows an empty line.
func paragraphEnds(text string) []int {
	return lines(text, func(before, line string) bool { return blank(before) && !blank(line) })
}

func definitions(text string) []int {
	return lines(text, func(before, line string) bool {
		return blank(before) && !blank(line) && !strings.ContainsAny(line[:1], " \t})]")
	})
}

func blank(line string) bool { return strings.TrimSpace(line) == "" }

// lines cuts before the lines that cut selects.
func lines(text string, cut func(before, line string) bool) []int {
	var cuts []int
	before, at := "x", 0
	for line := range strings.Lines(text) {
		if at > 0 && cut(before, line) {
			cuts = append(cuts, at)
		}
		before = line
		at += len(line)
	}
	return cuts
}

// blockParser finds the blocks of Markdown. Sections need no links, emphasis or tables, and to find
// these takes quadratic time or memory for some texts.
var blockParser = parser.NewParser(parser.WithBlockParsers(parser.DefaultBlockParsers()...))

// maxNesting is how many quotes and lists may be within each other: every line costs the parser
// that much, and a line that begins many of them the square of it.
const maxNesting = 16

// shallow returns a text with no more than maxNesting quotes and lists within each other. Their
// further markers are overwritten with x: headings inside these divide nothing. A line that is
// indented by n columns is within n/2 lists at most.
func shallow(text string) []byte {
	const tab = 4
	all := []byte(text)
	for line := range bytes.Lines(all) {
		for at, columns, markers := 0, 0, 0; at < len(line); {
			switch line[at] {
			case ' ':
				at, columns = at+1, columns+1
				continue
			case '\t':
				at, columns = at+1, columns+tab
				continue
			}
			size := markerLen(line[at:])
			if size == 0 {
				break
			}
			if markers++; columns/2+markers > maxNesting {
				for i := range size {
					line[at+i] = 'x'
				}
			}
			at += size
		}
	}
	return all
}

// markerLen returns the length of the marker of a quote or list item at the beginning of a line, or
// 0.
func markerLen(line []byte) int {
	digits := 0
	for digits < len(line) && line[digits] >= '0' && line[digits] <= '9' {
		digits++
	}
	line = line[digits:]
	switch {
	case len(line) == 0:
		return 0
	case digits == 0 && line[0] == '>':
		return 1
	case digits == 0 && bytes.IndexByte([]byte("-+*"), line[0]) < 0, digits > 0 && line[0] != '.' && line[0] != ')',
		len(line) > 1 && line[1] != ' ' && line[1] != '\t':
		return 0
	}
	return digits + 1
}

// titled reports whether the lines of a heading are a title. Without parsers of their own, a table
// and definitions of links would be titles where they are underlined.
func titled(lines *gmtext.Segments, source []byte) bool {
	const most = 2 // lines
	first := lines.Value(source)
	return lines.Len() <= most && !(lines.Len() > 1 && bytes.ContainsRune(first, '|')) &&
		!(bytes.HasPrefix(first, []byte("[")) && bytes.Contains(first, []byte("]:")))
}

// sections divides a Markdown text before each heading and, within sections, between blocks.
func sections(text, title string) []group {
	source := shallow(text)
	doc := blockParser.Parse(gmtext.NewReader(source))
	lineStart := func(at int) int { return strings.LastIndexByte(text[:at], '\n') + 1 }

	type heading struct {
		at, level int
		text      string
	}
	var headings []heading
	var code []span // blank lines in code do not divide
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		l := n.Lines()
		if l.Len() == 0 {
			continue
		}
		first, last := l.At(0), l.At(l.Len()-1)
		switch n := n.(type) {
		case *ast.Heading:
			if !titled(l, source) {
				continue
			}
			headings = append(headings, heading{lineStart(first.Start), n.Level,
				strings.TrimSpace(string(l.Value(source)))})
		case *ast.FencedCodeBlock, *ast.CodeBlock, *ast.HTMLBlock:
			code = append(code, span{first.Start, last.Stop})
		}
	}
	blocks := func(lo, hi int) []span {
		return pieces(lo, text[lo:hi], func(s string) []int {
			return slices.DeleteFunc(paragraphEnds(s), func(cut int) bool {
				i := sort.Search(len(code), func(i int) bool { return lo+cut <= code[i].hi })
				return i < len(code) && code[i].lo < lo+cut
			})
		})
	}
	var groups []group
	var path []heading
	header := func() string {
		var names []string
		if title != "" {
			names = append(names, title)
		}
		for _, h := range path {
			if h.text != "" && h.text != title {
				names = append(names, h.text)
			}
		}
		return strings.Join(names, " › ")
	}
	lo := 0
	for _, h := range append(headings, heading{at: len(text), level: math.MaxInt}) {
		if h.at > lo {
			g := group{header: header(), pieces: blocks(lo, h.at)}
			// A heading with nothing below it joins the section that follows.
			if n := len(groups); n > 0 && groups[n-1].bare {
				g.pieces = append(groups[n-1].pieces, g.pieces...)
				groups = groups[:n-1]
			}
			_, body, _ := strings.Cut(text[lo:h.at], "\n")
			g.bare = len(path) > 0 && h.level > path[len(path)-1].level && h.level != math.MaxInt &&
				blank(strings.Trim(body, "=- \n"))
			groups = append(groups, g)
		}
		for len(path) > 0 && path[len(path)-1].level >= h.level {
			path = path[:len(path)-1]
		}
		path = append(path, h)
		lo = h.at
	}
	return groups
}

// topics divides a text between sentences where the two preceding and the two following sentences
// differ in topic, as in TextTiling (Hearst 1997).
func topics(ctx context.Context, text string, threshold float64,
	embed func(context.Context, []string) ([][]float32, error)) ([]group, error) {
	units := slices.DeleteFunc(pieces(0, text, sentenceEnds), func(u span) bool { return blank(text[u.lo:u.hi]) })
	n := len(units)
	if n == 0 {
		return nil, nil
	}
	pairs := make([]string, n+1) // pair i ends with sentence i
	for i := range pairs {
		pairs[i] = trim(text, units[max(0, i-1)].lo, units[min(n-1, i)].hi)
	}
	vecs, err := embed(ctx, pairs)
	if err != nil {
		return nil, fmt.Errorf("split: embed sentences: %w", err)
	}
	if len(vecs) != len(pairs) {
		return nil, fmt.Errorf("%w: %d vectors for %d texts", ErrInvalid, len(vecs), len(pairs))
	}
	for i, v := range vecs {
		if len(v) != len(vecs[0]) {
			return nil, fmt.Errorf("%w: vector %d has %d dimensions, the first %d", ErrInvalid, i, len(v), len(vecs[0]))
		}
	}
	groups := []group{{}}
	for i, u := range units {
		last := &groups[len(groups)-1]
		last.pieces = append(last.pieces, u)
		if i+1 < n && simd.Cosine64(vecs[i], vecs[min(n, i+2)]) < threshold {
			groups = append(groups, group{})
		}
	}
	return groups, nil
}
