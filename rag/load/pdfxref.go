package load

import (
	"bytes"
	"strconv"
	"strings"
)

// A pdfLexer splits a file into tokens (ISO 32000-1, 7.2) as the library does.
type pdfLexer struct {
	b  []byte
	at int
}

func pdfSpace(c byte) bool { return strings.IndexByte("\x00\t\n\f\r ", c) >= 0 }

func pdfDelimiter(c byte) bool { return strings.IndexByte("<>()[]{}/%", c) >= 0 }

// token returns the next token with its delimiters, or nothing at the end of the file.
func (l *pdfLexer) token() []byte {
	for comment := false; l.at < len(l.b); l.at++ {
		c := l.b[l.at]
		comment = (comment || c == '%') && c != '\r' && c != '\n'
		if !comment && !pdfSpace(c) {
			break
		}
	}
	start := l.at
	if start == len(l.b) {
		return nil
	}
	l.at++
	switch c := l.b[start]; c {
	case '<', '>':
		if l.at < len(l.b) && l.b[l.at] == c {
			l.at++
		} else if c == '<' {
			l.at += bytes.IndexByte(l.b[l.at:], '>') + 1
		}
	case '(':
		for depth := 1; depth > 0 && l.at < len(l.b); l.at++ {
			switch l.b[l.at] {
			case '(':
				depth++
			case ')':
				depth--
			case '\\':
				l.at++
			}
		}
		l.at = min(l.at, len(l.b))
	case ')', '[', ']', '{', '}':
	default:
		for l.at < len(l.b) && !pdfSpace(l.b[l.at]) && !pdfDelimiter(l.b[l.at]) {
			l.at++
		}
	}
	return l.b[start:l.at]
}

func (l *pdfLexer) is(token string) bool { return string(l.token()) == token }

func (l *pdfLexer) integer() (int64, bool) {
	n, err := strconv.ParseInt(string(l.token()), 10, 64)
	return n, err == nil
}

var pdfEscape = strings.NewReplacer("#50", "P", "#53", "S", "#49", "I", "#57", "W", "#43", "C",
	"#72", "r", "#65", "e", "#76", "v", "#69", "i", "#7a", "z", "#7A", "z", "#6e", "n", "#6E", "n",
	"#64", "d", "#78", "x", "#6f", "o", "#6F", "o", "#6c", "l", "#6C", "l", "#75", "u", "#6d", "m",
	"#6D", "m", "#73", "s")

// dict reads a dictionary and returns the integers that follow each key in it, also within inner
// dictionaries. A dictionary with unbalanced brackets is not ok.
func (l *pdfLexer) dict() (numbers map[string][]int64, ok bool) {
	numbers = map[string][]int64{}
	if !l.is("<<") {
		return nil, false
	}
	open, key := []string{">>"}, ""
	for len(open) > 0 {
		t := string(l.token())
		switch t {
		case "":
			return nil, false
		case "<<":
			open = append(open, ">>")
			continue
		case "[":
			open = append(open, "]")
			continue
		case ">>", "]":
			if open[len(open)-1] != t {
				return nil, false
			}
			open = open[:len(open)-1]
			continue
		}
		if t[0] == '/' {
			key = pdfEscape.Replace(t[1:])
		} else if n, err := strconv.ParseInt(t, 10, 64); err == nil {
			numbers[key] = append(numbers[key], n)
		}
	}
	return numbers, true
}

// xrefsFit reports whether the cross-reference sections of a file have no more entries than its
// objects could need. The library allocates 32 bytes for each entry up to the largest number that
// the file mentions, before it reads one. It also follows sections that refer to each other in a
// circle for ever.
func xrefsFit(b []byte) bool {
	// A file has at most one object in 8 bytes, and more in compressed streams.
	most := int64(len(b)/8 + 1<<20)
	const tail = 100 // the library looks for startxref there
	end := max(0, len(b)-tail)
	var offsets []int64
	for from := end; ; {
		i := bytes.Index(b[from:], []byte("startxref"))
		if i < 0 {
			break
		}
		from += i + len("startxref")
		if at, ok := (&pdfLexer{b: b, at: from}).integer(); ok {
			offsets = append(offsets, at)
		}
	}
	seen, read := map[int64]bool{}, 0
	for len(offsets) > 0 {
		at := offsets[0]
		offsets = offsets[1:]
		if seen[at] || at < 0 || at >= int64(len(b)) || read > len(b) {
			return false
		}
		seen[at] = true
		l := &pdfLexer{b: b, at: int(at)}
		previous, ok := l.section(most)
		if !ok {
			return false
		}
		read += l.at - int(at)
		offsets = append(offsets, previous...)
	}
	return true
}

// section reads a section of at most the given number of entries, and returns the offsets of the
// previous ones.
func (l *pdfLexer) section(most int64) (previous []int64, ok bool) {
	start := l.at
	if l.is("xref") {
		return l.table(most)
	}
	l.at = start
	_, ok1 := l.integer()
	_, ok2 := l.integer()
	if !ok1 || !ok2 || !l.is("obj") {
		return nil, false
	}
	const maxWidth = 64 // of a column, in bytes; real ones have up to 8
	fields, ok := l.dict()
	for _, w := range fields["W"] {
		ok = ok && w <= maxWidth
	}
	for _, n := range append(fields["Size"], fields["Columns"]...) {
		ok = ok && n <= most
	}
	entries := int64(0)
	for i, n := range fields["Index"] { // pairs of a first number and a count
		if ok = ok && n <= most; ok && i%2 == 1 {
			entries += n
		}
	}
	return fields["Prev"], ok && entries <= most
}

// table reads the rest of a section that is a table.
func (l *pdfLexer) table(most int64) (previous []int64, ok bool) {
	for {
		at := l.at
		if l.is("trailer") {
			fields, ok := l.dict()
			return fields["Prev"], ok
		}
		l.at = at
		first, ok1 := l.integer()
		n, ok2 := l.integer()
		if !ok1 || !ok2 || first > most || n > most-first {
			return nil, false
		}
		for range n {
			_, ok1 := l.integer()
			_, ok2 := l.integer()
			if kind := l.token(); !ok1 || !ok2 || len(kind) != 1 {
				return nil, false
			}
		}
	}
}
