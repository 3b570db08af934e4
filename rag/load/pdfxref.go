package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strconv"
	"strings"

	"github.com/ledongthuc/pdf"
)

// A pdfLexer splits a file into tokens (ISO 32000-1, 7.2) as the library does.
type pdfLexer struct {
	b  []byte
	at int

	ctx   context.Context // tokens end with it
	steps int             // tokens so far
	open  bool            // no > follows
}

func pdfSpace(c byte) bool { return strings.IndexByte("\x00\t\n\f\r ", c) >= 0 }

func pdfDelimiter(c byte) bool { return strings.IndexByte("<>()[]{}/%", c) >= 0 }

// token returns the next token with its delimiters, or nothing at the end of the file.
func (l *pdfLexer) token() []byte {
	if l.steps++; l.steps%1024 == 0 && l.ctx.Err() != nil {
		return nil
	}
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
		} else if c == '<' && !l.open {
			n := bytes.IndexByte(l.b[l.at:], '>') + 1
			l.at, l.open = l.at+n, n == 0
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

// dict reads a dictionary and returns the integers that follow each key in it. Keys of inner
// dictionaries begin with a slash. A dictionary with unbalanced brackets, or with a key twice, is
// not ok.
func (l *pdfLexer) dict() (numbers map[string][]int64, ok bool) {
	numbers = map[string][]int64{}
	if !l.is("<<") {
		return nil, false
	}
	open, inner, key := []string{">>"}, 0, "" // inner: open dictionaries within this one
	for len(open) > 0 {
		t := string(l.token())
		switch t {
		case "":
			return nil, false
		case "<<":
			open = append(open, ">>")
			inner++
			continue
		case "[":
			open = append(open, "]")
			continue
		case ">>", "]":
			if open[len(open)-1] != t {
				return nil, false
			}
			if open = open[:len(open)-1]; t == ">>" {
				inner--
			}
			continue
		}
		if t[0] == '/' {
			key = pdfEscape.Replace(t[1:])
			if inner > 0 {
				key = "/" + key
			} else if _, ok := numbers[key]; ok {
				return nil, false
			}
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
func xrefsFit(ctx context.Context, b []byte) bool {
	// A file has at most one object in 8 bytes, and more in compressed streams.
	most := int64(len(b)/8 + 1<<20)
	const tail = 100 // the library looks for startxref there
	sections := xrefSections{ctx: ctx, b: b, most: most, left: 4 * most}
	for from := max(0, len(b)-tail); ; {
		i := bytes.Index(b[from:], []byte("startxref"))
		if i < 0 {
			break
		}
		from += i + len("startxref")
		if at, ok := (&pdfLexer{b: b, at: from, ctx: ctx}).integer(); ok && !sections.fit(at) {
			return false
		}
	}
	return sections.streams.ok() && ctx.Err() == nil
}

// xrefSections are the sections of a file, as far as they have been read.
type xrefSections struct {
	ctx     context.Context
	b       []byte
	most    int64 // entries of a section
	left    int64 // entries of further sections: updates repeat few
	streams objectStreams
}

// fit reads the section at an offset, and those before it.
func (s *xrefSections) fit(at int64) bool {
	seen, read := map[int64]bool{}, 0
	for offsets := []int64{at}; len(offsets) > 0; offsets = offsets[1:] {
		at := offsets[0]
		if seen[at] || at < 0 || at >= int64(len(s.b)) || read > len(s.b) || s.ctx.Err() != nil {
			return false
		}
		seen[at] = true
		l := &pdfLexer{b: s.b, at: int(at), ctx: s.ctx}
		previous, ok := l.section(s)
		if !ok {
			return false
		}
		read += l.at - int(at)
		offsets = append(offsets, previous...)
	}
	return true
}

// take reports whether a section may have n entries, and counts them.
func (s *xrefSections) take(n int64) bool {
	s.left -= n
	return n <= s.most && s.left >= 0
}

// section reads a section, and returns the offsets of the previous ones.
func (l *pdfLexer) section(s *xrefSections) (previous []int64, ok bool) {
	start, most := l.at, s.most
	if l.is("xref") {
		return l.table(s)
	}
	l.at = start
	number, ok1 := l.integer()
	generation, ok2 := l.integer()
	if !ok1 || !ok2 || !l.is("obj") || number < 1 || number > most {
		return nil, false
	}
	const maxWidth = 64 // of a column, in bytes; real ones have up to 8
	fields, ok := l.dict()
	for _, w := range fields["W"] {
		ok = ok && w >= 0 && w <= maxWidth
	}
	for _, n := range append(fields["Size"], fields["/Columns"]...) {
		ok = ok && n <= most
	}
	index := fields["Index"] // pairs of a first number and a count
	if len(index) == 0 {
		index = append([]int64{0}, fields["Size"]...)
	}
	entries := int64(0)
	for i, n := range index {
		if ok = ok && n >= 0 && n <= most; ok && i%2 == 1 {
			entries += n
		}
	}
	ok = ok && s.take(entries) && len(index)%2 == 0 && len(fields["W"]) >= 3
	if !ok || len(fields["Length"]) == 0 || !l.is("stream") {
		return nil, false
	}
	end := min(max(fields["Length"][0], 0), int64(len(l.b)-l.at)-2) + int64(l.at) + 2 // 2: of the line end
	data, ok := pdfStream(l.b[start:max(end, int64(start))], number, generation)
	return fields["Prev"], ok && s.streams.read(l.ctx, data, fields["W"], index)
}

// pdfStream returns the data of an object that is a stream, as the library decodes it: as the only
// object of a file.
func pdfStream(object []byte, number, generation int64) (data io.Reader, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	const header = "%PDF-1.7\n"
	file := append([]byte(header), object...)
	at := len(file) + 1
	file = fmt.Appendf(file, "\nxref\n%d 1\n%010d %05d n \ntrailer\n<< /Size %d /Stream %d %d R >>\n",
		number, len(header), generation, number+1, number, generation)
	file = fmt.Appendf(file, "%100s\nstartxref\n%d\n%%%%EOF\n", "", at)
	r, err := pdf.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, false
	}
	return r.Trailer().Key("Stream").Reader(), true
}

// objectStreams are the numbers of the streams that hold the objects, by the number of the object:
// -1 for an object outside of streams, and 0 for none.
type objectStreams []int32

// read adds the entries of a section. Entries that were read before count.
func (s *objectStreams) read(ctx context.Context, data io.Reader, widths, index []int64) (ok bool) {
	defer func() {
		if recover() != nil { // the library panics on a filter that it does not know
			ok = false
		}
	}()
	total := int64(0)
	for _, w := range widths {
		total += w
	}
	in, entry := bufio.NewReader(data), make([]byte, total)
	for i := 0; i+1 < len(index); i += 2 {
		for x := index[i]; x < index[i]+index[i+1]; x++ {
			if _, err := io.ReadFull(in, entry); err != nil || x%1024 == 0 && ctx.Err() != nil {
				return false
			}
			kind, stream := 0, 0
			for _, c := range entry[:widths[0]] {
				kind = kind<<8 | int(c)
			}
			for _, c := range entry[widths[0] : widths[0]+widths[1]] {
				stream = stream<<8 | int(c)
			}
			if x >= int64(len(*s)) {
				*s = append(*s, make([]int32, x-int64(len(*s))+1)...)
			}
			switch {
			case (*s)[x] != 0:
			case kind == 2 && (x == 0 || uint32(stream)-1 > math.MaxInt32-1):
				return false
			case kind == 2:
				(*s)[x] = int32(uint32(stream))
			case x > 0 && kind < 2:
				(*s)[x] = -1
			}
		}
	}
	return true
}

// ok reports whether no object stream is in an object stream. The library would look for it without
// end, until the stack overflows, from which the process does not recover.
func (s objectStreams) ok() bool {
	for _, stream := range s {
		if stream > 0 && int(stream) < len(s) && s[stream] > 0 {
			return false
		}
	}
	return true
}

func openLibrary(ctx context.Context, b []byte) (*pdf.Reader, error) {
	return pdf.NewReader(pdfBytes{ctx, bytes.NewReader(b)}, int64(len(b)))
}

// pdfBytes are the bytes of a file. They cannot be read after the end of the context, nor from too
// deep within other calls: objects that refer to each other in a circle would overflow the stack.
type pdfBytes struct {
	ctx context.Context
	b   *bytes.Reader
}

// ReadAt implements io.ReaderAt.
func (r pdfBytes) ReadAt(b []byte, at int64) (int, error) {
	const maxCalls = 10_000
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	if runtime.Callers(maxCalls, make([]uintptr, 1)) > 0 {
		return 0, errors.New("objects within each other")
	}
	return r.b.ReadAt(b, at)
}

// table reads the rest of a section that is a table.
func (l *pdfLexer) table(s *xrefSections) (previous []int64, ok bool) {
	for {
		at := l.at
		if l.is("trailer") {
			fields, ok := l.dict()
			return fields["Prev"], ok
		}
		l.at = at
		first, ok1 := l.integer()
		n, ok2 := l.integer()
		if !ok1 || !ok2 || first > s.most || n > s.most-first || !s.take(max(0, n)) {
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
