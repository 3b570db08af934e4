package text

import (
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/snowballstem"
	"github.com/clipperhouse/uax29/v2/words"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// algorithm is the version of the analysis in this package. It must change whenever a text gives
// other terms, so that an index of an earlier version is not used with the new terms.
const algorithm = 3

// MaxTerm is the maximum length of a term in bytes. Longer terms are cut between characters.
const MaxTerm = 256

// An Analyzer turns texts into terms.
type Analyzer struct {
	name  string
	stem  func(*snowballstem.Env) bool // nil: none
	bare  bool                         // remove accents before stemming
	elide map[string]bool              // words that an apostrophe elides at the start of a word
	stop  map[string]bool
}

// New returns the analyzer of a language. "" means "english", "none" disables everything specific
// to a language; [Languages] lists the names.
func New(language string) (*Analyzer, error) {
	if language == "" {
		language = "english"
	}
	l, ok := languages[language]
	if !ok {
		return nil, fmt.Errorf("text: unknown language %q: want one of %s", language, strings.Join(Languages(), ", "))
	}
	return &Analyzer{name: language, stem: l.stem, bare: l.bare, elide: set(l.elide), stop: set(l.stop)}, nil
}

func set(words string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// Language returns the name of the language.
func (a *Analyzer) Language() string { return a.name }

// ID identifies the analysis by language, version of this package and version of the Unicode
// tables. Equal IDs give equal terms.
func (a *Analyzer) ID() string {
	return fmt.Sprintf("%s/%d/unicode-%s", a.name, algorithm, norm.Version)
}

// A Token is one term of a text.
type Token struct {
	Term string
	// Position counts words from 0.
	Position int
	// Start and End delimit the bytes of the text that the term stands for.
	Start, End int
	// Extra marks an additional term at the position of a word: a whole identifier, or the last
	// character of a run without spaces. Phrases skip it.
	Extra bool
	// Stop marks a stop word.
	Stop bool
}

// A Scanner splits texts into terms. It caches the terms of words.
type Scanner struct {
	a    *Analyzer
	fold cases.Caser
	seen map[string][]Token // of a word, relative to its start
	iter *words.Iterator[string]
	run  []unit
}

// unit is a character of a script without spaces.
type unit struct {
	term       string
	start, end int
}

// remembered is the maximum number of cached words.
const remembered = 1 << 16

// Scanner returns a Scanner, for one goroutine.
func (a *Analyzer) Scanner() *Scanner {
	return &Scanner{a: a, fold: cases.Fold(), seen: map[string][]Token{}, iter: words.FromString("")}
}

// Tokens appends the terms of a text to dst, in order of position, and returns dst and the number
// of positions. A text may hold any bytes.
func (s *Scanner) Tokens(dst []Token, text string) (tokens []Token, positions int) {
	r, before := respell(text), len(dst)
	dst, _, positions = s.tokens(dst, r.text, 0, 0, math.MaxInt)
	r.place(dst[before:])
	return dst, positions
}

// tokens is Tokens for a text in the common spelling, from the offset at, where position pos
// begins. It ends behind the first segment that brings the tokens to most or more, and returns the
// offset and the position there.
func (s *Scanner) tokens(dst []Token, text string, at, pos, most int) ([]Token, int, int) {
	for before := len(dst); at < len(text) && len(dst)-before < most; {
		end := s.segment(text, at)
		r, size := rune(text[at]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(text[at:])
		}
		switch {
		case r < utf8.RuneSelf && isWordASCII(byte(r)):
			dst, pos = s.word(dst, text[at:end], at, pos)
		case r < utf8.RuneSelf || r == utf8.RuneError && size == 1:
		case spaceless(r):
			for end < len(text) {
				if r, _ := utf8.DecodeRuneInString(text[end:]); !spaceless(r) {
					break
				}
				end = s.segment(text, end)
			}
			dst, pos = s.pairs(dst, text[at:end], at, pos)
		case unicode.IsLetter(r) || unicode.IsNumber(r) || r >= 0x1F000 && unicode.Is(unicode.So, r):
			dst, pos = s.word(dst, text[at:end], at, pos)
		}
		at = end
	}
	return dst, at, pos
}

// segment returns the end of the segment that begins at a boundary.
func (s *Scanner) segment(text string, at int) int {
	// Fast path: most words have ASCII letters only, and are followed by a character that no rule
	// of the annex joins to them, so that properties need no lookup.
	i := at
	for i < len(text) && isWordASCII(text[i]) {
		i++
	}
	switch {
	case i == len(text):
		return i
	case i == at:
		if text[i] < utf8.RuneSelf && (i+1 == len(text) || text[i+1] < utf8.RuneSelf) {
			return i + 1 // spaces may be split into any number of segments
		}
	case text[i] < utf8.RuneSelf && !joins(text[i]):
		return i
	case text[i] < utf8.RuneSelf && (i+1 == len(text) || text[i+1] < utf8.RuneSelf && !isWordASCII(text[i+1])):
		return i // a point or the like joins only between two characters
	}
	s.iter.SetText(text[at:])
	s.iter.Next()
	return at + s.iter.End()
}

func isWordASCII(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// joins reports whether an ASCII character may occur inside a word (MidLetter, MidNum, MidNumLet
// and Single_Quote of the annex).
func joins(c byte) bool { return c == '.' || c == ',' || c == ':' || c == ';' || c == '\'' }

// spaceless reports whether a character belongs to a script without spaces between words, or whose
// words are better found by pairs of characters.
func spaceless(r rune) bool {
	if r < 0x0E00 {
		return false
	}
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) && !unicode.IsPunct(r) || r == 'ー' || r == 'ｰ'
}

// word appends the terms of one word.
func (s *Scanner) word(dst []Token, w string, start, pos int) ([]Token, int) {
	terms, ok := s.seen[w]
	if !ok {
		terms = s.analyse(w)
		if len(s.seen) >= remembered {
			clear(s.seen)
		}
		if len(w) <= MaxTerm {
			s.seen[strings.Clone(w)] = terms
		}
	}
	last := -1
	for _, t := range terms {
		last = max(last, t.Position)
		t.Position += pos
		t.Start += start
		t.End += start
		dst = append(dst, t)
	}
	return dst, pos + last + 1
}

// analyse returns the terms of a word, with positions and byte ranges relative to its start.
func (s *Scanner) analyse(w string) []Token {
	var tokens []Token
	if parts := split(w); len(parts) > 1 {
		whole, _ := s.term(w)
		tokens = append(tokens, Token{Term: whole, End: len(w), Extra: true})
		for i, p := range parts {
			term, stop := s.term(w[p[0]:p[1]])
			tokens = append(tokens, Token{Term: term, Position: i, Start: p[0], End: p[1], Stop: stop})
		}
	} else {
		term, stop := s.term(w)
		tokens = append(tokens, Token{Term: term, End: len(w), Stop: stop})
	}
	for i := range tokens {
		tokens[i].Term = limited(tokens[i].Term)
	}
	return tokens
}

// term returns the term of an undivided word, and whether it is a stop word.
func (s *Scanner) term(w string) (term string, stop bool) {
	w = s.surface(w)
	stop = s.a.stop[w]
	if s.a.bare {
		w = s.unaccented(w)
	}
	if s.a.stem != nil && len(w) <= MaxTerm {
		env := snowballstem.NewEnv(w)
		s.a.stem(env)
		if stem := env.Current(); stem != "" {
			w = stem
		}
	}
	return s.unaccented(w), stop
}

// surface returns the form of a word that stemmers expect: folded, without elided words in front.
func (s *Scanner) surface(w string) string {
	w = s.folded(w)
	if front, rest, ok := strings.Cut(w, "'"); ok && rest != "" && s.a.elide[front] {
		return rest
	}
	return w
}

// folded normalises a word and folds its case.
func (s *Scanner) folded(w string) string {
	if isASCII(w) {
		return strings.ToLower(w)
	}
	w = strings.ReplaceAll(norm.NFKC.String(w), "’", "'")
	return norm.NFKC.String(s.fold.String(w))
}

// unaccented removes combining marks of the common European scripts. In other scripts they are
// letters in their own right.
func (s *Scanner) unaccented(w string) string {
	if isASCII(w) {
		return w
	}
	bare := strings.Map(func(r rune) rune {
		if r >= 0x300 && r <= 0x36F {
			return -1
		}
		return r
	}, norm.NFD.String(w))
	if bare == "" {
		return w
	}
	return norm.NFC.String(bare)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// limited shortens a term to MaxTerm, between characters.
func limited(term string) string {
	if len(term) <= MaxTerm {
		return term
	}
	end := MaxTerm
	for end > 0 && !utf8.RuneStart(term[end]) {
		end--
	}
	return term[:end]
}

// split returns the parts of an identifier as byte ranges. It cuts at characters that are neither
// letters nor digits, between a small letter and a capital, and before the last of several capitals
// if a small letter follows. Numbers, abbreviations such as U.S. and words with an apostrophe stay
// whole.
func split(w string) [][2]int {
	var parts [][2]int
	start, letters := -1, 0
	var prev, before rune // the start of prev
	prevAt := 0
	long := false
	end := func(at int) {
		if start >= 0 && at > start {
			parts = append(parts, [2]int{start, at})
			long = long || utf8.RuneCountInString(w[start:at]) > 1
		}
		start = -1
	}
	for i, r := range w {
		switch {
		case r == '\'' || r == '’':
			return nil
		case !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r):
			end(i)
		case start < 0:
			start = i
		case unicode.IsUpper(r) && unicode.IsLower(prev):
			end(i)
			start = i
		case unicode.IsLower(r) && unicode.IsUpper(prev) && unicode.IsUpper(before) && prevAt > start:
			end(prevAt)
			start = prevAt
		}
		if unicode.IsLetter(r) {
			letters++
		}
		before, prev, prevAt = prev, r, i
	}
	end(len(w))
	if letters == 0 || !long {
		return nil
	}
	return parts
}

// pairs appends the terms of a run of characters without spaces: overlapping pairs, and the last
// character alone, so that every character begins a term.
func (s *Scanner) pairs(dst []Token, run string, start, pos int) ([]Token, int) {
	s.run = s.run[:0]
	for i := 0; i < len(run); {
		r, size := utf8.DecodeRuneInString(run[i:])
		if n := len(s.run); n > 0 && (unicode.IsMark(r) || !spaceless(r)) {
			s.run[n-1].end = i + size // a combining mark extends the character before it
		} else {
			s.run = append(s.run, unit{start: i, end: i + size})
		}
		i += size
	}
	for i, u := range s.run {
		s.run[i].term = s.folded(run[u.start:u.end])
	}
	n := len(s.run)
	for i, u := range s.run[:n-1] {
		next := s.run[i+1]
		dst = append(dst, Token{Term: limited(u.term + next.term), Position: pos + i,
			Start: start + u.start, End: start + next.end})
	}
	last := s.run[n-1]
	t := Token{Term: limited(last.term), Position: pos + n - 1, Start: start + last.start,
		End: start + last.end, Extra: n > 1}
	return append(dst, t), pos + n
}
