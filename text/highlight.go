package text

import (
	"cmp"
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
	// Start is the byte of the whole text at which it begins.
	Start int `json:"start"`
	// Marks are the words of Text that the query asks for, in order.
	Marks []Range `json:"marks,omitempty"`
}

// Highlight returns the passage of a text, of at most about width bytes, that
// has the most of what q ranks by, and among those of equal worth the first; the
// beginning of the text if there is nothing of it. weight says what a term is
// worth; nil: all the same. Words are not cut, so that the passage of a text with
// very long words can be longer than width.
func (s *Scanner) Highlight(q *Query, text string, width int, weight func(term string) float64) Snippet {
	tokens, _ := s.Tokens(nil, text)
	marks := q.marks(tokens)
	width = max(width, 1)
	lo, hi := 0, 0 // bytes of the best window
	if len(marks) > 0 {
		lo, hi = window(marks, width, weight)
	}
	core := Range{lo, hi}
	// Fill up with text on both sides, more of it in front of the end.
	spare := max(0, width-(hi-lo))
	lo = max(0, lo-spare/3)
	hi = min(len(text), lo+max(width, hi-lo))
	lo = max(0, min(lo, hi-width))
	lo, hi = whole(tokens, text, lo, hi, core)
	sn := Snippet{Text: text[lo:hi], Start: lo}
	for _, m := range marks {
		if m.Start >= lo && m.End <= hi {
			if n := len(sn.Marks); n > 0 && m.Start-lo < sn.Marks[n-1].End { // a part of a whole, or pairs
				sn.Marks[n-1].End = max(sn.Marks[n-1].End, m.End-lo)
				continue
			}
			sn.Marks = append(sn.Marks, Range{m.Start - lo, m.End - lo})
		}
	}
	return sn
}

// mark is a term of the text that the query asks for.
type mark struct {
	Range
	term string // of the query
}

// marks returns what of a text the clauses that rank ask for.
func (q *Query) marks(tokens []Token) []mark {
	var marks []mark
	for _, c := range q.Clauses {
		switch {
		case c.Occur == MustNot:
		case c.Quoted:
			marks = c.phrase(marks, tokens)
		default:
			for i, want := range c.Tokens {
				prefix := c.Prefix && i == 0
				for _, t := range tokens {
					if t.Term == want.Term || prefix && strings.HasPrefix(t.Term, want.Term) {
						marks = append(marks, mark{Range{t.Start, t.End}, want.Term})
					}
				}
			}
		}
	}
	slices.SortFunc(marks, func(a, b mark) int { return cmp.Or(a.Start-b.Start, b.End-a.End) })
	return marks
}

// phrase appends the places where the tokens of a clause follow each other.
func (c *Clause) phrase(marks []mark, tokens []Token) []mark {
	at := map[int][]Token{} // by position
	for _, t := range tokens {
		at[t.Position] = append(at[t.Position], t)
	}
	want := slices.DeleteFunc(slices.Clone(c.Tokens), func(t Token) bool { return t.Extra })
	if len(want) == 0 {
		return marks
	}
	for _, first := range tokens {
		if first.Term != want[0].Term {
			continue
		}
		found := []mark{}
		for _, w := range want {
			for _, t := range at[first.Position+w.Position-want[0].Position] {
				if t.Term == w.Term {
					found = append(found, mark{Range{t.Start, t.End}, w.Term})
					break
				}
			}
		}
		if len(found) == len(want) {
			marks = append(marks, found...)
		}
	}
	return marks
}

// window returns the bytes between the first and last mark of the best window.
func window(marks []mark, width int, weight func(string) float64) (lo, hi int) {
	if weight == nil {
		weight = func(string) float64 { return 1 }
	}
	count := map[string]int{}
	best, worth, n := -1.0, 0.0, 0
	i := 0
	for j, m := range marks {
		if count[m.term]++; count[m.term] == 1 {
			worth += weight(m.term)
		}
		n++
		for i < j && m.End-marks[i].Start > width {
			t := marks[i].term
			if count[t]--; count[t] == 0 {
				worth -= weight(t)
			}
			n--
			i++
		}
		// Different terms first; more of the same break ties.
		if w := worth + 1e-3*float64(min(n, 100)); w > best+1e-9 {
			best, lo, hi = w, marks[i].Start, m.End
		}
	}
	return lo, hi
}

// whole moves the ends of a window so that no word or character is cut, but not into the core, and drops white space at
// both ends.
func whole(tokens []Token, text string, lo, hi int, core Range) (int, int) {
	for _, t := range tokens {
		if t.Start < lo && lo < t.End {
			lo = t.End
		}
	}
	for _, t := range slices.Backward(tokens) {
		if t.Start < hi && hi < t.End {
			if hi = t.Start; hi <= lo { // one word longer than the window
				lo, hi = t.Start, t.End
				break
			}
		}
	}
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
