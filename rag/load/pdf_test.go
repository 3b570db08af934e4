package load

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// pdfFile is a PDF of one page with a content stream and more objects, from 5 on. It has no
// cross-reference table.
func pdfFile(content, resources string, objects ...string) string {
	var b strings.Builder
	b.WriteString("%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n" +
		"2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 1 >>\nendobj\n" +
		"3 0 obj\n<< /Type /Page /Resources << " + resources + " >> /Contents 4 0 R >>\nendobj\n")
	fmt.Fprintf(&b, "4 0 obj\n<< /Length %d >>\nstream\n%s\nendstream\nendobj\n", len(content), content)
	for i, o := range objects {
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", i+5, o)
	}
	return b.String()
}

const pdfFontDict = "/Font << /F << /Type /Font /Subtype /Type1 /Encoding /WinAnsiEncoding >> >>"

// TestPDFTables: a cross-reference table that claims millions of objects takes no memory, and the
// search for objects replaces it. One that refers to itself is not followed.
func TestPDFTables(t *testing.T) {
	const entry, n = "0000000000 65535 f \n", 20_000_000
	table := func(subsections, trailer string) string {
		return "xref\n" + subsections + "trailer\n<< /Root 1 0 R /Size 5 " + trailer + ">>\n"
	}
	stream := func(fields string) string {
		return "9 0 obj\n<< /Type /XRef /Root 1 0 R /Length 4 " + fields + " >>\nstream\nabcd\nendstream\nendobj\n"
	}
	for name, xref := range map[string]string{
		"subsection":    table(fmt.Sprintf("%d 1\n%s", n, entry), ""),
		"second":        table(fmt.Sprintf("0 1\n%s%%\n+%d 1\n%s", entry, n, entry), ""),
		"size":          stream(fmt.Sprintf("/Size %d /W [1 2 1]", n)),
		"escaped size":  stream(fmt.Sprintf("/A [(] \\) >>) <3e3e>] /#53i#7Ae %% comment\n%d /W [1 2 1]", n)),
		"index":         stream(fmt.Sprintf("/Size 5 /Index [%d 1] /W [1 2 1]", n)),
		"counts":        stream("/Size 5 /Index [" + strings.Repeat("0 500000 ", 40) + "] /W [0 0 0]"),
		"widths":        stream(fmt.Sprintf("/Size 5 /W [1 %d 1]", 32*n)),
		"columns":       stream(fmt.Sprintf("/Size 5 /W [1 2 1] /Filter /FlateDecode /DecodeParms << /Predictor 12 /Columns %d >>", 32*n)),
		"brackets":      stream(fmt.Sprintf("/A [ >> ] /Size %d /W [1 2 1]", n)),
		"own successor": table("0 1\n"+entry, "/Prev %d "),
		"previous":      table(fmt.Sprintf("%d 1\n%s", n, entry), "") + "%%" + table("0 1\n"+entry, "/Prev %d "),
	} {
		t.Run(name, func(t *testing.T) {
			file := pdfFile("BT /F 12 Tf (Hello) Tj ET", pdfFontDict)
			first, last := len(file), len(file)
			before, after, two := strings.Cut(xref, "%%x")
			if two {
				last += len(before)
				xref = before + "x" + after
			}
			xref = strings.Replace(xref, "%d", fmt.Sprint(first), 1)
			file += xref + fmt.Sprintf("startxref\n%d\n%%%%EOF\n", last)
			var start, end runtime.MemStats
			runtime.ReadMemStats(&start)
			docs, skipped := read(t, "a.pdf", file, nil)
			runtime.ReadMemStats(&end)
			if len(docs) != 1 || docs[0].Text != "Hello" {
				t.Errorf("%d documents, %v", len(docs), skipped)
			}
			if got := end.TotalAlloc - start.TotalAlloc; got > 64<<20 {
				t.Errorf("%d MB allocated", got>>20)
			}
		})
	}
	_, skipped := read(t, "a.pdf", "%PDF-1.4\n"+table(fmt.Sprintf("%d 1\n%s", n, entry), "")+
		strings.Repeat("\n", 100)+"startxref\n9\n%%EOF\n", nil)
	if len(skipped) != 1 || !errors.Is(skipped[0], ErrBroken) || !strings.Contains(skipped[0].Error(), "cross-reference table") {
		t.Error(skipped)
	}
}

// TestPDFLimits: a small file whose text repeats, or whose widths never end, takes little memory.
func TestPDFLimits(t *testing.T) {
	text := "BT /F 12 Tf (" + strings.Repeat("words ", 10_000) + ") Tj ET"
	form := fmt.Sprintf("<< /Type /XObject /Subtype /Form /Length %d >>\nstream\n%s\nendstream", len(text), text)
	composite := func(widths string) string {
		return "/Font << /F << /Type /Font /Subtype /Type0 /Encoding /Identity-H /DescendantFonts [<< /W [" + widths + "] >>] >> >>"
	}
	characters := "begincmap 1 begincodespacerange <00> <ff> endcodespacerange 1 beginbfchar <61> <" +
		strings.Repeat("0062", 5000) + "> endbfchar endcmap "
	const hello = "BT /F 12 Tf (Hello) Tj ET"
	columns := "<< /Length 27 /Filter /FlateDecode /DecodeParms << /Predictor 12 /Columns 500000000 >> >>\nstream\n" +
		"x\x9c" + strings.Repeat("\x00", 25) + "\nendstream"
	for name, tt := range map[string]struct {
		file string
		want error
	}{
		"forms":        {pdfFile(strings.Repeat("/X Do ", 2000), pdfFontDict+" /XObject << /X 5 0 R >>", form), ErrTooLarge},
		"first width":  {pdfFile(hello, composite("-20000000 65536 500")), nil},
		"last width":   {pdfFile(hello, composite("20000000 [1 2 3] 0 90000000 1")), nil},
		"no predictor": {pdfFile("/X Do", "/XObject << /X 5 0 R >>", strings.Replace(columns, "<< ", "<< /Subtype /Form ", 1)), ErrBroken},
		"characters": {pdfFile("BT /F 12 Tf ("+strings.Repeat("a", 20_000)+") Tj ET", "/Font << /F << /Type /Font /Subtype /Type1 /ToUnicode 5 0 R >> >>",
			fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(characters), characters)), ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			var start, end runtime.MemStats
			runtime.ReadMemStats(&start)
			docs, skipped := read(t, "a.pdf", tt.file, &Options{MaxBytes: 1 << 20})
			runtime.ReadMemStats(&end)
			if tt.want == nil && len(docs) != 1 || tt.want != nil && (len(skipped) != 1 || !errors.Is(skipped[0], tt.want)) {
				t.Errorf("%d documents, %v", len(docs), skipped)
			}
			if got := end.TotalAlloc - start.TotalAlloc; got > 128<<20 {
				t.Errorf("%d MB allocated", got>>20)
			}
		})
	}
}

// TestPDFSearch: the search for objects takes time that grows with the file, not with its square,
// which would exceed the timeout.
func TestPDFSearch(t *testing.T) {
	_, skipped := read(t, "a.pdf", "%PDF-1.4\n"+strings.Repeat("1 0 obj/Type\n", 100_000), nil)
	if len(skipped) != 1 || !errors.Is(skipped[0], ErrBroken) {
		t.Error(skipped)
	}
}

// TestPDFCircles: object streams within each other do not overflow the stack, which would end the
// process.
func TestPDFCircles(t *testing.T) {
	const stream = "2 0 obj\n<< /Type /ObjStm /N 1 /First 4 /Length %s >>\nstream\n1 0 << /Pages << /Kids [3 0 R] >> >>\nendstream\nendobj\n"
	for name, tt := range map[string]struct {
		objects string
		entries [][2]int // kind, and offset or stream
		filter  string
		want    string
	}{
		"stream in itself":   {"", [][2]int{{0, 0}, {2, 1}}, "", "cross-reference table is broken"},
		"streams in circles": {"", [][2]int{{0, 0}, {2, 2}, {2, 1}}, "", "cross-reference table is broken"},
		"length in stream":   {fmt.Sprintf(stream, "1 0 R"), [][2]int{{0, 0}, {2, 2}, {1, 9}}, "", "objects within each other"},
		"filter is null":     {"", [][2]int{{0, 0}, {2, 1}}, "/Filter 9 0 R", "cross-reference table is broken"},
		"no circle":          {fmt.Sprintf(stream, "36"), [][2]int{{0, 0}, {2, 2}, {1, 9}}, "", "no text in it"},
	} {
		t.Run(name, func(t *testing.T) {
			file := "%PDF-1.5\n" + tt.objects
			var entries strings.Builder
			for _, e := range tt.entries {
				entries.Write([]byte{byte(e[0]), byte(e[1]), 0})
			}
			at := len(file)
			file += fmt.Sprintf("9 0 obj\n<< /Type /XRef /Root 1 0 R /Size %d /W [1 1 1] /Length %d %s >>\nstream\n%s\nendstream\nendobj\n%s\nstartxref\n%d\n%%%%EOF\n",
				len(tt.entries), entries.Len(), tt.filter, entries.String(), strings.Repeat(" ", 50), at)
			docs, skipped := read(t, "a.pdf", file, nil)
			if len(docs) != 0 || len(skipped) != 1 || !strings.Contains(skipped[0].Error(), tt.want) {
				t.Errorf("%d documents, %v; want %q", len(docs), skipped, tt.want)
			}
		})
	}
}

// endingContext ends after a number of checks.
type endingContext struct {
	context.Context
	checks int
}

func (c *endingContext) Err() error {
	if c.checks--; c.checks < 0 {
		return context.Canceled
	}
	return nil
}

// TestPDFTimeout: a conversion that nobody waits for ends at its next check, wherever that is.
// TestPDFLexerIsLinear: brackets that are not closed are looked for once. If each is, 16 MB take
// minutes.
func TestPDFLexerIsLinear(t *testing.T) {
	const brackets = 8 << 20
	l, n := &pdfLexer{b: []byte(strings.Repeat("< ", brackets)), ctx: t.Context()}, 0
	for l.token() != nil {
		n++
	}
	if n != brackets {
		t.Errorf("%d tokens", n)
	}
	var b strings.Builder
	b.WriteString("<<" + strings.Repeat("[", 1<<19))
	for i := range 1 << 19 {
		fmt.Fprintf(&b, "/a%d", i)
	}
	if _, ok := (&pdfLexer{b: []byte(b.String()), ctx: t.Context()}).dict(); ok {
		t.Error("a dictionary without an end")
	}
}

func TestPDFTimeout(t *testing.T) {
	const form = "<< /Type /XObject /Subtype /Form /Length 25 >>\nstream\nBT /F 12 Tf (Hello) Tj ET\nendstream"
	file := []byte(pdfFile("/X Do /X Do", pdfFontDict+" /XObject << /X 5 0 R >>", form))
	const many = 1000
	whole := &endingContext{t.Context(), many}
	if err := readPDF(whole, &Document{}, file, many); err != nil {
		t.Fatal(err)
	}
	used := many - whole.checks
	for checks := range used {
		ctx := &endingContext{t.Context(), checks}
		convert := func() (err error) {
			defer func() {
				if p := recover(); p != nil && strings.Contains(fmt.Sprint(p), context.Canceled.Error()) {
					err = context.Canceled
				} else if p != nil {
					panic(p)
				}
			}()
			return readPDF(ctx, &Document{}, file, many)
		}
		if err := convert(); !errors.Is(err, context.Canceled) || ctx.checks < -5 {
			t.Errorf("after %d checks: %v, %d more", checks, err, -ctx.checks)
		}
	}
	if used < 20 {
		t.Errorf("%d checks", used)
	}
}
