package text

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Range is a range of bytes, [Start, End).
type Range struct {
	Start int `json:"start"`
	End   int `json:"end"`
}

// A Snippet is a passage of a text.
type Snippet struct {
	// Text is the passage, unchanged.
	Text string `json:"text"`
	// Start is the offset of the passage in the whole text, in bytes.
	Start int `json:"start"`
	// Marks are the ranges of Text that match the query, in order.
	Marks []Range `json:"marks,omitempty"`
}

// Highlight returns the passage of a text, of about width bytes, with the greatest weight of terms
// that q ranks by; of equal passages the first, and without such terms the beginning of the text.
// weight returns the weight of a term; nil means equal weights. Words are not cut, so the passage
// may exceed width in a text with very long words.
func (s *Scanner) Highlight(q *Query, text string, width int, weight func(term string) float64) Snippet {
	return s.highlight(q, text, width, weight, blockTokens)
}

// highlight is Highlight with blocks of about block tokens.
func (s *Scanner) highlight(q *Query, text string, width int, weight func(string) float64, block int) Snippet {
	all := blocks{Scanner: s, spelt: respell(text), most: block}
	wanted := q.wanted()
	var matches []Token // few, where all tokens take many times the memory of the text
	for all.next() {
		for _, t := range all.tokens {
			if wanted(t.Term) {
				matches = append(matches, t)
			}
		}
	}
	marks := q.marks(matches)
	width = max(width, 1)
	lo, hi := 0, 0 // bytes of the best window
	if len(marks) > 0 {
		lo, hi = window(marks, width, weight)
	}
	core := Range{lo, hi}
	// Fill up with text on both sides, a third of it in front.
	spare := max(0, width-(hi-lo))
	lo = max(0, lo-spare/3)
	hi = min(len(text), lo+max(width, hi-lo))
	lo = max(0, min(lo, hi-width))
	lo, hi = all.whole(text, lo, hi, core)
	sn := Snippet{Text: text[lo:hi], Start: lo}
	for _, m := range marks {
		if m.Start >= lo && m.End <= hi {
			// part of an identifier, or overlapping pairs
			if n := len(sn.Marks); n > 0 && m.Start-lo < sn.Marks[n-1].End {
				sn.Marks[n-1].End = max(sn.Marks[n-1].End, m.End-lo)
				continue
			}
			sn.Marks = append(sn.Marks, Range{m.Start - lo, m.End - lo})
		}
	}
	return sn
}

// blockTokens are enough that a block is seldom read twice, and far fewer than a large text has.
const blockTokens = 1 << 12

// blocks reads the tokens of a text in order, and keeps one block at a time.
type blocks struct {
	*Scanner
	spelt   respelling
	most    int // tokens after which a block ends with the segment, or the run of spaceless characters, that it is in
	at, pos int // end of the block in spelt.text
	tokens  []Token
	begins  []begin // of the blocks read
}

// begin is the offset at which a block begins, in spelt.text, and the start of its first token in
// the text.
type begin struct{ at, start int }

// next reads the next block that has tokens. It reports whether there is one; otherwise the last
// block stays.
func (b *blocks) next() bool {
	if b.at == len(b.spelt.text) {
		return false
	}
	at := b.at
	tokens, end, pos := b.Scanner.tokens(b.tokens[:0], b.spelt.text, at, b.pos, b.most)
	b.at, b.pos = end, pos
	if len(tokens) == 0 {
		return false // no token up to the end of the text
	}
	b.spelt.place(tokens)
	b.tokens, b.begins = tokens, append(b.begins, begin{at, tokens[0].Start})
	return true
}

// from goes back to a block before which no token ends beyond lo, and reads it. Positions are not
// those of the text from there on: whole does not look at them.
func (b *blocks) from(lo int) {
	n, _ := slices.BinarySearchFunc(b.begins, lo, func(b begin, lo int) int { return cmp.Compare(b.start, lo) })
	// One more: where spellings differ, tokens of two blocks may stand for one character.
	if n = max(0, n-2); n < len(b.begins)-1 {
		b.at, b.begins = b.begins[n].at, nil
		b.next()
	}
}

// mark is a match of a query term in the text.
type mark struct {
	Range
	term string // of the query
}

// wanted returns whether marks looks at a term.
func (q *Query) wanted() func(term string) bool {
	terms := map[string]bool{}
	var prefixes []string
	for i := range q.Clauses {
		c := &q.Clauses[i]
		if c.Occur == MustNot {
			continue
		}
		for at, want := range c.Tokens {
			if c.Prefix && !c.Quoted && at == 0 {
				prefixes = append(prefixes, want.Term)
			} else {
				terms[want.Term] = true
			}
		}
	}
	return func(term string) bool {
		return terms[term] || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(term, p) })
	}
}

// marks returns the matches of the ranking clauses. Its time is linear in the text plus the
// clauses; only phrases and prefixes multiply the two.
func (q *Query) marks(tokens []Token) []mark {
	var marks []mark
	terms := map[string]bool{}
	var prefixes []string
	var phrases phraseMarker
	for i := range q.Clauses {
		c := &q.Clauses[i]
		switch {
		case c.Occur == MustNot:
		case c.Quoted:
			marks = phrases.mark(marks, c, tokens)
		default:
			for at, want := range c.Tokens {
				if c.Prefix && at == 0 {
					if !slices.Contains(prefixes, want.Term) {
						prefixes = append(prefixes, want.Term)
					}
				} else {
					terms[want.Term] = true
				}
			}
		}
	}
	for _, t := range tokens {
		if terms[t.Term] {
			marks = append(marks, mark{Range{t.Start, t.End}, t.Term})
		}
		for _, p := range prefixes {
			if strings.HasPrefix(t.Term, p) && !(terms[t.Term] && t.Term == p) {
				marks = append(marks, mark{Range{t.Start, t.End}, p})
			}
		}
	}
	slices.SortFunc(marks, func(a, b mark) int {
		return cmp.Or(a.Start-b.Start, b.End-a.End, strings.Compare(a.term, b.term))
	})
	return slices.Compact(marks)
}

// A phraseMarker marks the matches of quoted clauses in some tokens. A query may repeat a phrase a
// thousand times, so each is looked for once, and each token is marked once.
type phraseMarker struct {
	places map[string][]int // tokens with a term
	known  map[string]bool  // phrases, by terms and positions
	marked []bool           // tokens, because phrases may overlap
}

// mark appends the matches of a clause that are not marked yet.
func (m *phraseMarker) mark(marks []mark, c *Clause, tokens []Token) []mark {
	want := slices.DeleteFunc(slices.Clone(c.Tokens), func(t Token) bool { return t.Extra })
	if len(want) == 0 {
		return marks
	}
	if m.places == nil {
		m.places, m.known, m.marked = map[string][]int{}, map[string]bool{}, make([]bool, len(tokens))
		for at, t := range tokens {
			m.places[t.Term] = append(m.places[t.Term], at)
		}
	}
	var key strings.Builder
	for _, t := range want {
		fmt.Fprintf(&key, "%d%q", t.Position-want[0].Position, t.Term)
	}
	if m.known[key.String()] {
		return marks
	}
	m.known[key.String()] = true
	// where calls found for each start, a position, and the index of the i-th token of the phrase
	// that begins there. starts must ascend.
	where := func(i int, starts []int, found func(start, at int)) {
		list, offset := m.places[want[i].Term], want[i].Position-want[0].Position
		for _, start := range starts {
			for len(list) > 0 && tokens[list[0]].Position < start+offset {
				list = list[1:]
			}
			if len(list) > 0 && tokens[list[0]].Position == start+offset {
				found(start, list[0])
			}
		}
	}
	var starts []int
	for _, at := range m.places[want[0].Term] {
		starts = append(starts, tokens[at].Position)
	}
	for i := 1; i < len(want) && len(starts) > 0; i++ {
		kept := starts[:0]
		where(i, starts, func(start, _ int) { kept = append(kept, start) })
		starts = kept
	}
	for i := 0; i < len(want) && len(starts) > 0; i++ {
		where(i, starts, func(_, at int) {
			if !m.marked[at] {
				m.marked[at] = true
				marks = append(marks, mark{Range{tokens[at].Start, tokens[at].End}, want[i].Term})
			}
		})
	}
	return marks
}

// window returns the range from the first to the last mark of the window with the greatest weight.
func window(marks []mark, width int, weight func(string) float64) (lo, hi int) {
	if weight == nil {
		weight = func(string) float64 { return 1 }
	}
	known := map[string]float64{}
	worthOf := func(term string) float64 {
		w, ok := known[term]
		if !ok {
			w = weight(term)
			known[term] = w
		}
		return w
	}
	count := map[string]int{}
	best, worth, n := -1.0, 0.0, 0
	i := 0
	for j, m := range marks {
		if count[m.term]++; count[m.term] == 1 {
			worth += worthOf(m.term)
		}
		n++
		for i < j && m.End-marks[i].Start > width {
			t := marks[i].term
			if count[t]--; count[t] == 0 {
				worth -= worthOf(t)
			}
			n--
			i++
		}
		// Distinct terms decide; repetitions break ties.
		if w := worth + float64(1e-3*float64(min(n, 100))); w > best+1e-9 {
			best, lo, hi = w, marks[i].Start, m.End
		}
	}
	return lo, hi
}

// whole moves the ends of a window to boundaries of words and characters, but not into the core,
// and trims white space.
func (b *blocks) whole(text string, lo, hi int, core Range) (int, int) {
	b.from(lo)
	var tokens []Token // of the window
	for first, last, more := lo, hi, len(b.tokens) > 0; more; {
		for _, t := range b.tokens {
			if t.Start < lo && lo < t.End {
				lo = t.End
			}
			if t.Start < last && first < t.End {
				tokens = append(tokens, t)
			}
		}
		more = b.tokens[len(b.tokens)-1].Start < max(lo, last) && b.next()
	}
	for _, t := range slices.Backward(tokens) {
		if t.Start < hi && hi < t.End {
			if hi = t.Start; hi <= lo { // a single word longer than the window
				lo, hi = t.Start, t.End
				break
			}
		}
	}
	return trimmed(text, lo, hi, core)
}

// trimmed moves the ends of a window to boundaries of characters, but not into the core, and trims
// white space.
func trimmed(text string, lo, hi int, core Range) (int, int) {
	for lo < hi && !utf8.RuneStart(text[lo]) {
		lo++
	}
	for hi < len(text) && hi > lo && !utf8.RuneStart(text[hi]) {
		hi--
	}
	if core.End > 0 {
		lo, hi = min(lo, core.Start), max(hi, core.End)
	}
	if inner := strings.Trim(text[lo:hi], space); inner != "" {
		lo += len(text[lo:hi]) - len(strings.TrimLeft(text[lo:hi], space))
		hi = lo + len(inner)
	}
	return lo, hi
}

const space = " \t\r\n"
