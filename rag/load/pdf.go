package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ledongthuc/pdf"
	"golang.org/x/text/encoding/unicode"
)

// maxPages bounds the time for one file.
const maxPages = 20_000

// readPDF reads the text of a PDF, with an empty line between pages. A file
// of scanned pages is ErrScanned.
func readPDF(ctx context.Context, doc *Document, b []byte, limit int64) error {
	r, err := openPDF(ctx, b)
	if err != nil {
		return err
	}
	pages, err := pdfPages(r)
	if err != nil {
		return err
	}
	if info := r.Trailer().Key("Info"); info.Kind() == pdf.Dict {
		doc.Title = strings.TrimSpace(strings.ToValidUTF8(info.Key("Title").Text(), ""))
	}
	var text strings.Builder
	var failed error
	for i, p := range pages {
		page, err := p.read(ctx, limit-int64(text.Len()))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, ErrTooLarge) {
			return fmt.Errorf("%w: more than %d bytes of text", ErrTooLarge, limit)
		}
		if err != nil {
			failed = fmt.Errorf("page %d: %w", i+1, err)
		}
		if text.Len() > 0 {
			text.WriteString("\n\n")
		}
		doc.pages = append(doc.pages, text.Len())
		text.WriteString(page)
		if int64(text.Len()) > limit {
			return fmt.Errorf("%w: more than %d bytes of text", ErrTooLarge, limit)
		}
	}
	doc.Text = text.String()
	switch {
	case strings.TrimSpace(doc.Text) != "":
		return nil
	case failed != nil:
		return failed // a broken page does not hide the other pages
	case slices.ContainsFunc(pages, pdfLeaf.hasImage):
		return fmt.Errorf("%w (%d)", ErrScanned, len(pages))
	}
	return nil
}

// hasImage reports whether the page refers to an image.
func (l pdfLeaf) hasImage() (has bool) {
	defer func() { _ = recover() }() // the library panics on broken objects
	objects := l.resources.Key("XObject")
	for _, name := range objects.Keys() {
		if objects.Key(name).Key("Subtype").Name() == "Image" {
			return true
		}
	}
	return false
}

// openPDF opens a file. If its cross-reference table is missing or broken, openPDF searches for the
// objects.
func openPDF(ctx context.Context, b []byte) (*pdf.Reader, error) {
	err := errors.New("the cross-reference table is broken, or larger than the file needs")
	if xrefsFit(ctx, b) {
		var r *pdf.Reader
		r, err = openLibrary(ctx, b)
		if err == nil && hasPages(r) || errors.Is(err, pdf.ErrInvalidPassword) {
			return r, err
		}
	}
	if again := rebuildPDF(ctx, b); again != nil {
		if r, err := openLibrary(ctx, again); err == nil && hasPages(r) {
			return r, nil
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err == nil {
		err = errors.New("no pages")
	}
	return nil, err
}

func hasPages(r *pdf.Reader) bool {
	return r.Trailer().Key("Root").Key("Pages").Key("Kids").Len() > 0
}

var (
	pdfObject  = regexp.MustCompile(`(?:^|[\r\n\t ])(\d{1,8}) (\d{1,5}) obj\b`)
	pdfRoot    = regexp.MustCompile(`/Root\s+(\d{1,8} \d{1,5}) R`)
	pdfCatalog = regexp.MustCompile(`/Type\s*/Catalog\b`)
)

// rebuildPDF appends a new cross-reference table (ISO 32000-1, 7.5.4) for all objects that a search
// finds. Without objects, and after the end of ctx, it returns nil.
func rebuildPDF(ctx context.Context, b []byte) []byte {
	const header = "%PDF-1.7\n"
	out := append([]byte(header), b...)
	type object struct{ at, generation int }
	objects := map[int]object{}
	root, last := "", 0
	matches := pdfObject.FindAllSubmatchIndex(out, -1)
	for i, m := range matches {
		if ctx.Err() != nil {
			return nil
		}
		number, _ := strconv.Atoi(string(out[m[2]:m[3]]))
		generation, _ := strconv.Atoi(string(out[m[4]:m[5]]))
		if number > len(b)/8 { // more objects than the file could hold
			continue
		}
		objects[number] = object{m[2], generation} // the last definition counts
		last = max(last, number)
		body := out[m[1]:] // up to the next object: a search to the end for each one takes their square
		if i+1 < len(matches) {
			body = out[m[1]:matches[i+1][0]]
		}
		body, _, _ = bytes.Cut(body, []byte("endobj"))
		if pdfCatalog.Match(body) {
			root = fmt.Sprintf("%d %d", number, generation)
		}
	}
	if m := pdfRoot.FindAllSubmatch(out, -1); m != nil {
		root = string(m[len(m)-1][1])
	}
	if root == "" {
		return nil
	}
	start := len(out) + 1
	w := bytes.NewBuffer(out)
	fmt.Fprintf(w, "\nxref\n0 %d\n0000000000 65535 f \n", last+1)
	for i := 1; i <= last; i++ {
		if o, ok := objects[i]; ok {
			fmt.Fprintf(w, "%010d %05d n \n", o.at, o.generation)
		} else {
			w.WriteString("0000000000 65535 f \n")
		}
	}
	fmt.Fprintf(w, "trailer\n<< /Size %d /Root %s R >>\nstartxref\n%d\n%%%%EOF\n", last+1, root, start)
	return w.Bytes()
}

// pdfLeaf is a page with its inherited resources.
type pdfLeaf struct{ page, resources pdf.Value }

// pdfPages walks the page tree. Malformed trees may have cycles, so depth and number are bounded.
func pdfPages(r *pdf.Reader) (leaves []pdfLeaf, err error) {
	const maxDepth = 64
	visits := 0
	var walk func(node, resources pdf.Value, depth int) error
	walk = func(node, resources pdf.Value, depth int) error {
		if visits++; depth > maxDepth || visits > 4*maxPages || len(leaves) > maxPages {
			return fmt.Errorf("%w: more than %d pages, or pages within pages", ErrTooLarge, maxPages)
		}
		if own := node.Key("Resources"); !own.IsNull() {
			resources = own
		}
		kids := node.Key("Kids")
		if kids.Kind() != pdf.Array {
			if node.Kind() == pdf.Dict {
				leaves = append(leaves, pdfLeaf{node, resources})
			}
			return nil
		}
		for i := range kids.Len() {
			if err := walk(kids.Index(i), resources, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	err = walk(r.Trailer().Key("Root").Key("Pages"), pdf.Value{}, 0)
	return leaves, err
}

// read returns the text of a page. If the page is broken, it also returns the text before that
// place. More than limit bytes of text are ErrTooLarge.
func (l pdfLeaf) read(ctx context.Context, limit int64) (text string, err error) {
	p := &pdfPage{ctx: ctx, limit: limit, fonts: map[string]*pdfFont{}}
	defer func() {
		e := recover()
		if p.full() {
			err = ErrTooLarge
			return
		}
		if e != nil && p.out.Len() == 0 {
			err = fmt.Errorf("%v", e)
		}
		text = strings.TrimSpace(newlines(strings.ToValidUTF8(pdfLetters.Replace(p.out.String()), "\ufffd")))
	}()
	p.state.ctm = identity
	p.run(l.page.Key("Contents"), l.resources, 0)
	return "", nil
}

// pdfLetters replaces ligatures by letters, because nobody searches for ligatures.
var pdfLetters = strings.NewReplacer("\x00", "", "\ufb00", "ff", "\ufb01", "fi", "\ufb02", "fl",
	"\ufb03", "ffi", "\ufb04", "ffl",
	"\ufb05", "st", "\ufb06", "st")

// A matrix is [a b c d e f] of ISO 32000-1, 8.3.3.
type matrix [6]float64

var identity = matrix{1, 0, 0, 1, 0, 0}

// mul returns the matrix that applies m first, then n.
func (m matrix) mul(n matrix) matrix {
	return matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3],
		m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

// pdfState is the part of the graphics state that affects the position of text.
type pdfState struct {
	ctm                                       matrix
	font                                      *pdfFont
	size, charSpace, wordSpace, scale, leader float64
}

// pdfPage collects the text of a page in drawing order. It inserts spaces and line ends between
// glyphs that are apart.
type pdfPage struct {
	ctx      context.Context
	limit    int64 // of the text, in bytes
	out      strings.Builder
	fonts    map[string]*pdfFont // by object
	state    pdfState
	stack    []pdfState
	text     matrix // at the next glyph
	line     matrix // at the beginning of the line
	shown    bool
	endX     float64 // where the last glyph ended
	endY     float64
	operands int
}

// maxForms bounds the nesting of forms; maxOperations bounds the work per page.
const (
	maxForms      = 8
	maxOperations = 5_000_000
)

func (p *pdfPage) full() bool { return int64(p.out.Len()) > p.limit }

// check panics if the page has too much text, or if nobody waits for it any more.
func (p *pdfPage) check() {
	if err := p.ctx.Err(); err != nil {
		panic(err)
	}
	if p.full() {
		panic(ErrTooLarge)
	}
}

func (p *pdfPage) run(content, resources pdf.Value, depth int) {
	if content.Kind() == pdf.Null {
		return
	}
	for i := range max(1, content.Len()) {
		p.check()
		part := content
		if content.Kind() == pdf.Array {
			part = content.Index(i)
		}
		if part.Kind() == pdf.Stream {
			checkNesting(part)
		}
	}
	pdf.Interpret(content, func(stk *pdf.Stack, op string) {
		args := make([]pdf.Value, stk.Len())
		for i := len(args) - 1; i >= 0; i-- {
			args[i] = stk.Pop()
		}
		if p.operands += 1 + len(args); p.operands > maxOperations {
			panic("too many operations")
		}
		p.check()
		p.operation(op, args, resources, depth)
	})
}

// checkNesting panics if a stream is too long or nests arrays too deep, because parsing it would
// exhaust memory.
func checkNesting(stream pdf.Value) {
	const maxNesting, maxLength = 10_000, 256 << 20
	checkColumns(stream)
	r := stream.Reader()
	defer r.Close()
	depth, length := 0, 0
	b := make([]byte, 32<<10)
	for {
		n, err := r.Read(b)
		for _, c := range b[:n] {
			switch c {
			case '[', '<':
				depth++
			case ']', '>':
				depth = max(0, depth-1)
			}
			if depth > maxNesting {
				panic("nested too deep")
			}
		}
		if length += n; length > maxLength {
			panic("too long")
		}
		if err != nil {
			return
		}
	}
}

// checkColumns panics if a predictor has too many columns, because the library allocates them.
func checkColumns(stream pdf.Value) {
	const most = 16 << 20
	parameters := stream.Key("DecodeParms")
	for i := range max(1, parameters.Len()) {
		one := parameters
		if parameters.Kind() == pdf.Array {
			one = parameters.Index(i)
		}
		if one.Key("Columns").Int64() > most {
			panic("too many columns")
		}
	}
}

func (p *pdfPage) operation(op string, args []pdf.Value, resources pdf.Value, depth int) {
	num := func(i int) float64 {
		if i < len(args) {
			return args[i].Float64()
		}
		return 0
	}
	s := &p.state
	switch op {
	case "q":
		p.stack = append(p.stack, *s)
	case "Q":
		if n := len(p.stack); n > 0 {
			*s, p.stack = p.stack[n-1], p.stack[:n-1]
		}
	case "cm":
		s.ctm = matrix{num(0), num(1), num(2), num(3), num(4), num(5)}.mul(s.ctm)
	case "Do":
		form := resources.Key("XObject").Key(name(args))
		if form.Key("Subtype").Name() != "Form" || depth >= maxForms {
			return
		}
		inner := form.Key("Resources")
		if inner.IsNull() {
			inner = resources
		}
		saved := *s
		if m := form.Key("Matrix"); m.Len() == 6 {
			var fm matrix
			for i := range fm {
				fm[i] = m.Index(i).Float64()
			}
			s.ctm = fm.mul(s.ctm)
		}
		p.run(form, inner, depth+1)
		*s = saved
	case "BT":
		p.text, p.line = identity, identity
	case "Tf":
		s.font, s.size = p.font(resources.Key("Font").Key(name(args))), num(1)
	case "Tc":
		s.charSpace = num(0)
	case "Tw":
		s.wordSpace = num(0)
	case "Tz":
		s.scale = num(0)/100 - 1
	case "TL":
		s.leader = num(0)
	case "Td":
		p.move(num(0), num(1))
	case "TD":
		s.leader = -num(1)
		p.move(num(0), num(1))
	case "T*":
		p.move(0, -s.leader)
	case "Tm":
		p.line = matrix{num(0), num(1), num(2), num(3), num(4), num(5)}
		p.text = p.line
	case "Tj":
		p.show(raw(args))
	case "'", "\"":
		if len(args) == 3 {
			s.wordSpace, s.charSpace = num(0), num(1)
		}
		p.move(0, -s.leader)
		p.show(raw(args))
	case "TJ":
		if len(args) == 0 {
			return
		}
		for i := range args[0].Len() {
			if v := args[0].Index(i); v.Kind() == pdf.String {
				p.show(v.RawString())
			} else {
				p.advance(-v.Float64() / 1000 * s.size)
			}
		}
	}
}

func name(args []pdf.Value) string {
	if len(args) == 0 {
		return ""
	}
	return args[0].Name()
}

func raw(args []pdf.Value) string {
	if len(args) == 0 {
		return ""
	}
	return args[len(args)-1].RawString()
}

func (p *pdfPage) move(x, y float64) {
	p.line = matrix{1, 0, 0, 1, x, y}.mul(p.line)
	p.text = p.line
}

func (p *pdfPage) advance(x float64) {
	p.text = matrix{1, 0, 0, 1, x * (1 + p.state.scale), 0}.mul(p.text)
}

// show writes a string at the current position.
func (p *pdfPage) show(s string) {
	f := p.state.font
	if s == "" || f == nil {
		return
	}
	piece := f.piece(s)
	text, rest := f.encoding.Decode(s[:piece]), s[piece:]
	at := p.text.mul(p.state.ctm)
	// The height of a glyph and the writing direction on the page.
	size := max(math.Hypot(at[2], at[3])*math.Abs(p.state.size), 1e-6)
	length := max(math.Hypot(at[0], at[1]), 1e-9)
	ux, uy := at[0]/length, at[1]/length
	if p.shown {
		dx, dy := at[4]-p.endX, at[5]-p.endY
		along, across := dx*ux+dy*uy, math.Abs(dy*ux-dx*uy)
		written := p.out.String()
		last := written[len(written)-1]
		switch {
		case across > 1.8*size:
			p.out.WriteString("\n\n")
		case across > 0.5*size || along < -2*size:
			p.out.WriteByte('\n')
		case along > 0.15*size && last != ' ' && last != '\n' && !strings.HasPrefix(text, " "):
			p.out.WriteByte(' ')
		}
	}
	if text == "" && rest == "" {
		return
	}
	p.out.WriteString(text)
	p.check()
	for rest != "" {
		piece := f.piece(rest)
		p.out.WriteString(f.encoding.Decode(rest[:piece]))
		p.check()
		rest = rest[piece:]
	}
	p.advance(f.width(s)*p.state.size + float64(f.codes(s))*p.state.charSpace +
		float64(strings.Count(s, " "))*p.state.wordSpace)
	end := p.text.mul(p.state.ctm)
	p.endX, p.endY, p.shown = end[4], end[5], p.out.Len() > 0
}

// pdfFont is the part of a font that text extraction needs: characters and widths.
type pdfFont struct {
	pdf.Font
	encoding pdf.TextEncoding
	wide     bool // codes have two bytes
	widths   map[int]float64
	missing  float64
	cmap     int // bytes of ToUnicode, 0 if there is no such map
}

// piece returns the length of the part of a string to decode at once. A character map can stand for
// a text of its own size with each code, so it bounds the part. Codes have 1 to 4 bytes. A multiple
// of 12 cuts none, unless a map that is longer than usual mixes codes of several lengths.
func (f *pdfFont) piece(s string) int {
	const most = 4 << 20
	if f.cmap == 0 {
		return len(s)
	}
	return min(len(s), max(most/f.cmap/12, 1)*12)
}

func (p *pdfPage) font(v pdf.Value) *pdfFont {
	key := v.String()
	if f := p.fonts[key]; f != nil {
		return f
	}
	f := &pdfFont{Font: pdf.Font{V: v}, widths: map[int]float64{}, missing: 500}
	if cmap := v.Key("ToUnicode"); cmap.Kind() == pdf.Stream {
		const most = 4 << 20 // one with all codes of two bytes has 1 MiB
		checkColumns(cmap)
		n, _ := io.Copy(io.Discard, io.LimitReader(cmap.Reader(), most+1))
		if n > most {
			panic("too large a character map")
		}
		f.cmap = int(n)
	}
	f.encoding = f.Encoder()
	if strings.HasPrefix(v.Key("ToUnicode").Name(), "Identity") {
		f.encoding = utf16Codes{}
	}
	if inner := v.Key("DescendantFonts"); inner.Len() > 0 {
		f.wide, f.missing = true, 1000
		if dw := inner.Index(0).Key("DW"); !dw.IsNull() {
			f.missing = dw.Float64()
		}
		f.wideWidths(inner.Index(0).Key("W"), p.check)
	} else {
		first := f.FirstChar()
		for i, w := range f.Widths() {
			f.widths[first+i] = w
		}
	}
	p.fonts[key] = f
	return f
}

// utf16Codes decodes fonts whose codes are UTF-16.
type utf16Codes struct{}

// Decode implements pdf.TextEncoding.
func (utf16Codes) Decode(s string) string {
	text, err := unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM).NewDecoder().String(s)
	if err != nil {
		return ""
	}
	return text
}

// wideWidths reads the widths of a composite font, 9.7.4.3 of the standard:
// first [w w …] or first last w. Widths of codes that do not exist are left out.
func (f *pdfFont) wideWidths(w pdf.Value, check func()) {
	const codes = 1 << 16
	for i := 0; i+1 < w.Len(); {
		check()
		first := int(min(max(w.Index(i).Int64(), -1), codes))
		exists := first >= 0 && first < codes
		if list := w.Index(i + 1); list.Kind() == pdf.Array {
			for j := 0; exists && j < min(list.Len(), codes-first); j++ {
				f.widths[first+j] = list.Index(j).Float64()
			}
			i += 2
			continue
		}
		last := int(min(w.Index(i+1).Int64(), codes-1))
		for code := first; exists && code <= last; code++ {
			f.widths[code] = w.Index(i + 2).Float64()
		}
		i += 3
	}
}

func (f *pdfFont) codes(s string) int {
	if f.wide {
		return len(s) / 2
	}
	return len(s)
}

// width returns the width of a string in units of the font size.
func (f *pdfFont) width(s string) float64 {
	sum, step := 0.0, 1
	if f.wide {
		step = 2
	}
	for i := 0; i+step <= len(s); i += step {
		code := int(s[i])
		if f.wide {
			code = code<<8 | int(s[i+1])
		}
		w, ok := f.widths[code]
		if !ok {
			w = f.missing
		}
		sum += w
	}
	return sum / 1000
}
