package load

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func sample(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestOfficeFiles reads files that other programs wrote; testdata/make.py says how.
func TestOfficeFiles(t *testing.T) {
	tests := []struct {
		file  string
		want  Document
		pages []int
	}{
		{"slides.pptx", Document{Format: "pptx", Title: "Storage engines", Text: "# Log-structured storage\n\nA talk about segments\n\n" +
			"# Sizes\n\n| part | bytes |\n| --- | --- |\n| segment | 64 \\| 128 |\n\nIn a group\n\n" +
			"# Write path\n\n- Append to the log\n  - fsync once per group\n- Flush to a segment\n\nNotes: Mention group commit here."}, []int{0, 49, 126}},
		{"sheet.xlsx", Document{Format: "xlsx", Title: "Orders", Text: "# Orders 2024\n\n" +
			"Customer: Ann Müller; Date: 2024-03-01; Amount: 12.5; Paid: true\nCustomer: Bob; Date: 2024-03-02 14:30:00; Amount: 1000; Paid: false\n\n" +
			"after a gap; third column\n\n# Notes\n\nDeliveries are late in March."}, nil},
		{"shared.xlsx", Document{Format: "xlsx", Text: "# Shared strings\n\nPart: segment; When: 2024-03-02 14:30:00; Note: kept for ever"}, nil},
		{"notes.odt", Document{Format: "odt", Title: "Field notes", Text: "# Field notes\n\nFirst  words\tand\nmore.\n\n## Birds\n\n- Wren\n- Crane\n  - in autumn\n\n" +
			"| Bird | Count |\n| --- | --- |\n| Wren | 7 |\n\nWith a note.\n\nNote: seen from the bridge"}, nil},
		{"book.epub", Document{Format: "epub", Title: "A short book", Text: "# Two\n\nThe second.\n\n- a list\n\n# One\n\nThe first **chapter**.",
			Metadata: map[string]any{"author": []any{"Ann Writer"}, "language": "en"}}, nil},
		{"sums.ipynb", Document{Format: "ipynb", Title: "An experiment", Text: "# Sums\n\nAdd two numbers.\n\n```python\nx = [1, 2]\nprint(sum(x))\n```\n\nraw words",
			Metadata: map[string]any{"language": "python"}}, nil},
		{"mail.eml", Document{Format: "eml", Title: "Größe des Segments", Text: "# Größe des Segments\n\nFrom: Ann Müller <ann@example.org>\n" +
			"To: bob@example.org, Carl <carl@example.org>\nDate: Fri, 01 Mar 2024 09:30:00 +0100\nAttachments: größe.bin\n\nThe segment is 64 MiB.\nGrüße, Ann",
			Metadata: map[string]any{"from": "Ann Müller <ann@example.org>", "to": "bob@example.org, Carl <carl@example.org>",
				"date": "2024-03-01T09:30:00+01:00", "attachments": []any{"größe.bin"}}}, nil},
		{"html.eml", Document{Format: "eml", Title: "Only HTML", Text: "# Only HTML\n\nFrom: bob@example.org\n\n# Hello\n\nCafé",
			Metadata: map[string]any{"from": "bob@example.org"}}, nil},
		{"notes.rtf", Document{Format: "rtf", Title: "Café notes", Text: "# Opening\n\nNaïve café {braces} and a “quote”.\nSecond line.\n\nПривет, € 5, 😀.\n\na link\n\n" +
			"| name | size |\n| --- | --- |\n| log file | 64 |\n\nThe end."}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			content := sample(t, tt.file)
			got, skipped := read(t, tt.file, content, nil)
			if len(skipped) > 0 || len(got) != 1 {
				t.Fatal(len(got), skipped)
			}
			tt.want.Source = tt.file
			if tt.want.Metadata == nil {
				tt.want.Metadata = map[string]any{}
			}
			if diff := cmp.Diff(&tt.want, got[0], cmpopts.IgnoreUnexported(Document{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if !cmp.Equal(got[0].pages, tt.pages) || got[0].Exact() || !got[0].Format.IsMarkdown() {
				t.Errorf("pages %v, exact %v", got[0].pages, got[0].Exact())
			}
			// The content tells the format of a file without an extension, except for text formats.
			if tt.want.Format == "ipynb" || tt.want.Format == "eml" {
				return
			}
			if plain, skipped := read(t, "file", content, nil); len(plain) != 1 || plain[0].Format != tt.want.Format {
				t.Errorf("without an extension: %v, %v", plain, skipped)
			}
		})
	}
}

// rezip replaces parts of an archive; nil removes one.
func rezip(t testing.TB, content string, parts map[string][]byte) string {
	t.Helper()
	r, err := zip.NewReader(strings.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	written := map[string]bool{}
	for _, f := range r.File {
		part, replaced := parts[f.Name]
		if replaced && part == nil {
			continue
		}
		if !replaced {
			in, err := f.Open()
			if err == nil {
				part, err = io.ReadAll(in)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		writePart(t, w, f.Name, part)
		written[f.Name] = true
	}
	for name, part := range parts {
		if !written[name] && part != nil {
			writePart(t, w, name, part)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func writePart(t testing.TB, w *zip.Writer, name string, content []byte) {
	t.Helper()
	out, err := w.Create(name)
	if err == nil {
		_, err = out.Write(content)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestBrokenParts expects errors that name the part of the file.
func TestBrokenParts(t *testing.T) {
	spaces := []byte("<a>" + strings.Repeat(" ", 5<<20))
	deep := []byte(strings.Repeat("<a>", 2000))
	parts := func(name string, content []byte) map[string][]byte { return map[string][]byte{name: content} }
	tests := []struct {
		name, file string
		parts      map[string][]byte
		want       error
		mentions   string
	}{
		{"slide missing", "slides.pptx", parts("ppt/slides/slide2.xml", nil), ErrBroken, "ppt/slides/slide2.xml: missing"},
		{"slide cut off", "slides.pptx", parts("ppt/slides/slide3.xml", []byte("<p:sld><p:cSld>")), ErrBroken, "ppt/slides/slide3.xml: XML syntax error on line 1"},
		{"no relations", "slides.pptx", parts("ppt/_rels/presentation.xml.rels", nil), ErrBroken, "slide 1 has no part"},
		{"notes", "slides.pptx", parts("ppt/notesSlides/notesSlide1.xml", deep), ErrBroken, "ppt/notesSlides/notesSlide1.xml: broken: more than 1000 elements"},
		{"slide bomb", "slides.pptx", parts("ppt/slides/slide1.xml", spaces), ErrTooLarge, "ppt/slides/slide1.xml"},
		{"workbook", "sheet.xlsx", parts("xl/workbook.xml", []byte("<")), ErrBroken, "xl/workbook.xml"},
		{"shared string", "sheet.xlsx", parts("xl/worksheets/sheet1.xml", []byte(`<worksheet><sheetData><row r="7"><c t="s"><v>99</v></c></row></sheetData></worksheet>`)),
			ErrBroken, `xl/worksheets/sheet1.xml: row 7: broken: no shared string "99"`},
		{"styles", "sheet.xlsx", parts("xl/styles.xml", []byte("<a></b>")), ErrBroken, "xl/styles.xml"},
		{"sheet bomb", "sheet.xlsx", parts("xl/worksheets/sheet1.xml", spaces), ErrTooLarge, "xl/worksheets/sheet1.xml"},
		{"strings bomb", "shared.xlsx", parts("xl/sharedStrings.xml", []byte("<sst>"+strings.Repeat("<si/>", 100_000)+"</sst>")), ErrTooLarge, "bytes of text"},
		{"content", "notes.odt", parts("content.xml", nil), ErrBroken, "content.xml: missing"},
		{"spaces", "notes.odt", parts("content.xml", spaces), ErrTooLarge, "content.xml"},
		{"container", "book.epub", parts("META-INF/container.xml", []byte("<container/>")), ErrBroken, "META-INF/container.xml names no book"},
		{"chapter", "book.epub", parts("EPUB/chapter 2.xhtml", nil), ErrBroken, "EPUB/chapter 2.xhtml: missing"},
		{"encrypted", "book.epub", parts("META-INF/encryption.xml", []byte(`<encryption><EncryptedData><CipherData><CipherReference URI="EPUB/chapter%202.xhtml"/></CipherData></EncryptedData></encryption>`)),
			ErrUnsupported, "EPUB/chapter 2.xhtml is encrypted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			docs, skipped := read(t, tt.file, rezip(t, sample(t, tt.file), tt.parts), &Options{MaxBytes: 1 << 20})
			if len(docs) != 0 || len(skipped) != 1 || !errors.Is(skipped[0], tt.want) ||
				!strings.Contains(skipped[0].Error(), tt.file) || !strings.Contains(skipped[0].Error(), tt.mentions) {
				t.Errorf("%d documents, %v; want an error with %q", len(docs), skipped, tt.mentions)
			}
		})
	}
}

// TestEncodingOfChapters reads chapters in the encodings that they declare.
func TestEncodingOfChapters(t *testing.T) {
	const page = `<html><head><title/><meta charset="windows-1251"/></head><body><p>%</p></body></html>`
	for _, tt := range []struct{ declaration, text, want string }{
		{`<?xml version="1.0" encoding="iso-8859-1"?>`, "caf\xe9", "café"},
		{`<?xml version="1.0" encoding="iso-8859-1"?>`, strings.Repeat("\xe9", 200), strings.Repeat("é", 200)},
		{`<?xml version="1.0" encoding="iso-8859-2"?>`, "\xb3\xf3d\xbc", "łódź"},
		{`<?xml version="1.0" encoding="shift_jis"?>`, "\x93\xfa\x96\x7b", "日本"},
		{mark + `<?xml version="1.0" encoding="iso-8859-1"?>`, "café", "café"},
		{`<?xml version="1.0" encoding="none"?>`, "plain", "plain"},
		{`<?xml version="1.0" encoding="utf-16"?>`, "plain", "plain"},
		{`<?xml version="1.0" encoding="iso-2022-kr"?>`, "plain", "plain"},
	} {
		chapter := []byte(tt.declaration + strings.Replace(page, "%", tt.text, 1))
		docs, skipped := read(t, "a.epub", rezip(t, sample(t, "book.epub"), map[string][]byte{"EPUB/chapter 2.xhtml": chapter}), nil)
		if len(docs) != 1 || !strings.Contains(docs[0].Text, tt.want+"\n") {
			t.Errorf("%s: %v", tt.declaration, skipped)
			for _, d := range docs {
				t.Errorf("%q, want %q", d.Text, tt.want)
			}
		}
	}
}

// TestLongCells: the memory for the paragraphs of a cell, or of the title of a slide, grows with
// their number, not with its square.
func TestLongCells(t *testing.T) {
	long := func(paragraph string) string { return strings.Repeat(paragraph, 4000) }
	tests := []struct{ file, part, content string }{
		{"a.docx", "word/document.xml", `<document><tbl><tr><tc>` + long(`<p><t>some words</t></p>`) + `</tc></tr></tbl></document>`},
		{"notes.odt", "content.xml", `<o><table><table-row><table-cell>` + long(`<p>some words</p>`) + `</table-cell></table-row></table></o>`},
		{"slides.pptx", "ppt/slides/slide1.xml", `<sld><tbl><tr><tc>` + long(`<p><t>some words</t></p>`) + `</tc></tr></tbl></sld>`},
		{"slides.pptx", "ppt/slides/slide1.xml", `<sld><sp><ph type="title"/>` + long(`<p><t>some words</t></p>`) + `</sp></sld>`},
	}
	for _, tt := range tests {
		var whole string
		if tt.file == "a.docx" {
			whole = docx(t)
		} else {
			whole = sample(t, tt.file)
		}
		content := rezip(t, whole, map[string][]byte{tt.part: []byte(tt.content)})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		docs, skipped := read(t, tt.file, content, nil)
		runtime.ReadMemStats(&after)
		if len(docs) != 1 || !strings.Contains(docs[0].Text, strings.TrimSpace(long("some words "))) {
			t.Errorf("%s: %d documents, %v", tt.file, len(docs), skipped)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 32<<20 {
			t.Errorf("%s: %d MB allocated", tt.file, got>>20)
		}
	}
}

// TestConverted reads small contents of the formats that are text.
func TestConverted(t *testing.T) {
	tests := []struct {
		name, file, content string
		text                string
		err                 error
		mentions            string
	}{
		{"notebook 3", "a.ipynb", `{"metadata":{"name":"x"},"nbformat":3,"worksheets":[{"cells":[{"cell_type":"heading","level":2,"source":["Head"]},` +
			`{"cell_type":"code","language":"python","input":["a = '` + "```" + `'\n","b"]}]}]}`, "## Head\n\n````python\na = '```'\nb\n````", nil, ""},
		{"empty notebook", "a.ipynb", `{"cells":[]}`, "", ErrEmpty, ""},
		{"not a notebook", "a.ipynb", `{"cells":[{"source":7}]}`, "", ErrBroken, "a.ipynb"},
		{"mail without type", "a.eml", "Subject: =?iso-8859-1?q?caf=E9?=\r\n\r\nText\r\n", "# café\n\nText", nil, ""},
		{"mail cut off", "a.eml", "Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nfirst part\n--b\nContent-Ty", "# x\n\nfirst part", nil, ""},
		{"mail with a name", "a.eml", "Subject: x\nContent-Type: text/plain; name=a.txt\nContent-Disposition: inline; filename=a.txt\n\nText\n", "# x\n\nText", nil, ""},
		{"mail of named parts", "a.eml", "Subject: x\nContent-Type: multipart/mixed; boundary=b; name=a\n\n--b\nContent-Type: text/plain; name=b.txt\n\nb\n--b\n\nText\n--b--\n",
			"# x\n\nAttachments: b.txt\n\nText", nil, ""},
		{"mail of named lists", "a.eml", "Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: multipart/alternative; boundary=c; name=a\n\n" +
			"--c\n\nText\n--c--\n--b\nContent-Type: multipart/mixed; boundary=d\nContent-Disposition: attachment; filename=d\n\n--d\n\nmore\n--d--\n--b--\n",
			"# x\n\nAttachments: d\n\nText", nil, ""},
		{"mail of an image", "a.eml", "Subject: x\nContent-Type: image/png; name=a.png\n\n..\n", "# x\n\nAttachments: a.png", nil, ""},
		{"mail of parts", "a.eml", "Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: multipart/mixed; boundary=c\n\n" +
			"--c\nContent-Type: text/html\nContent-Transfer-Encoding: base64\n\n!!!!\n--c--\n--b--\n", "", ErrBroken, "part 1.1: illegal base64"},
		{"forwarded mail", "a.eml", "Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: message/rfc822\n\nSubject: y\n\nz\n--b\nContent-Type: image/png; name=a.png\n\n..\n--b--\n",
			"# x\n\nAttachments: message/rfc822, a.png", nil, ""},
		{"mail with bad parameters", "a.eml", "Subject: x\nContent-Type: multipart/mixed; boundary=b; foo\n\n--b\nContent-Type: text/html; charset=utf-8; foo\n\n<p>caf\u00e9</p>\n" +
			"--b\nContent-Type: application/pdf; name=My file.pdf\n\n%PDF\x00\n--b\nContent-Disposition: attachment; filename=a b.txt\n\nb\n" +
			"--b\nContent-Type: text/html; charset=utf-8; charset=utf-8\n\n<p>two</p>\n--b--\n",
			"# x\n\nAttachments: My file.pdf, a b.txt\n\ncafé\n\ntwo", nil, ""},
		{"mail with a quoted boundary", "a.eml", "Subject: x\nContent-Type: multipart/mixed; boundary=\"a;b\"; x=y z\n\n--a;b\n\nText\n--a;b--\n", "# x\n\nText", nil, ""},
		{"mail with a broken part", "a.eml", "Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\n\nText\n--b\nContent-Type: text/plain; name=b.txt\n" +
			"Content-Disposition: inline\n\nc\n--b\n\nbinary\x00\n--b\nContent-Type: multipart/mixed; boundary=c\n\nnothing\n--b\n\nThe end\n--b--\n",
			"# x\n\nAttachments: b.txt, text/plain\n\nText\n\nThe end", nil, ""},
		{"mail with a footer", "a.eml", "Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/html\n\n<p>Hello</p>\n" +
			"--b\nContent-Type: text/plain\n\nA list\n--b--\n", "# x\n\nHello\n\nA list", nil, ""},
		{"mail of alternatives", "a.eml", "Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: multipart/alternative; boundary=c\n\n" +
			"--c\nContent-Type: text/html\n\n<p>Not this</p>\n--c\n\nplain\n--c--\n--b\nContent-Type: multipart/alternative; boundary=d\n\n" +
			"--d\n\n \n--d\nContent-Type: multipart/related; boundary=e\n\n--e\nContent-Type: text/html\n\n<p>rich</p>\n--e--\n--d--\n--b--\n", "# x\n\nplain\n\nrich", nil, ""},
		{"no mail", "a.eml", "hello", "", ErrBroken, "header"},
		{"rtf code page", "a.rtf", `{\rtf1\ansi\ansicpg1251 \'cf\'f0\par}`, "Пр", nil, ""},
		{"rtf of two bytes", "a.rtf", `{\rtf1\ansi\ansicpg932 \'93\'fa\'96\'7b\par}`, "日本", nil, ""},
		{"rtf without end", "a.rtf", `{\rtf1 text`, "", ErrBroken, "offset 11"},
		{"rtf escapes", "a.rtf", `{\rtf1 a\'zz}`, "", ErrBroken, `\' without two digits`},
		{"rtf groups", "a.rtf", `{\rtf1` + strings.Repeat("{", 2000), "", ErrBroken, "groups within each other"},
		{"rtf binary", "a.rtf", `{\rtf1 a{\pict\bin5 }}}}}b}c}`, "ac", nil, ""},
		{"rtf heading after a table", "a.rtf", `{\rtf1\trowd\intbl a\cell\row\pard\outlinelevel0 Head\par\trowd\intbl b\cell\row}`,
			"| a |\n| --- |\n\n# Head\n\n| b |\n| --- |", nil, ""},
		{"no rtf", "a.rtf", "hello", "", ErrBroken, `{\rtf`},
		{"old word", "a.docx", oleMagic + "...", "", ErrUnsupported, "before 2007"},
		{"encrypted slides", "a.pptx", oleMagic + "...", "", ErrUnsupported, "encrypted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			docs, skipped := read(t, tt.file, tt.content, nil)
			if tt.err != nil {
				if len(docs) != 0 || len(skipped) != 1 || !errors.Is(skipped[0], tt.err) || !strings.Contains(skipped[0].Error(), tt.mentions) {
					t.Errorf("%d documents, %v", len(docs), skipped)
				}
				return
			}
			if len(docs) != 1 || docs[0].Text != tt.text {
				t.Errorf("%d documents, %v", len(docs), skipped)
				for _, d := range docs {
					t.Errorf("%q", d.Text)
				}
			}
		})
	}
}

// TestSheetValues reads cells of every type.
func TestSheetValues(t *testing.T) {
	const row = `<row>%</row>`
	tests := []struct{ name, cells, want string }{
		{"sum of fractions", `<c><v>0.30000000000000004</v></c>`, "0.3"},
		{"large", `<c><v>123456789012345678</v></c>`, "123456789012345678"},
		{"exponent", `<c><v>1.5E-3</v></c>`, "0.0015"},
		{"inline", `<c t="inlineStr"><is><r><t>a</t></r><r><t>b</t></r></is></c>`, "ab"},
		{"inline with pronunciation", `<c t="inlineStr"><is><r><t>東京</t></r><rPh sb="0" eb="2"><t>トウキョウ</t></rPh><r><t>都</t></r></is></c>`, "東京都"},
		{"formula", `<c t="str"><f>A1</f><v>text</v></c>`, "text"},
		{"error", `<c t="e"><v>#N/A</v></c>`, "#N/A"},
		{"iso date", `<c t="d"><v>2024-01-02</v></c>`, "2024-01-02"},
		{"date", `<c s="1"><v>45352</v></c>`, "2024-03-01"},
		{"time", `<c s="2"><v>0.5</v></c>`, "12:00:00"},
		{"before the day that did not exist", `<c s="1"><v>59</v></c>`, "1900-02-28"},
		{"not a date", `<c s="3"><v>45352</v></c>`, "45352"},
		{"date out of range", `<c s="1"><v>-1</v></c>`, "-1"},
		{"columns", `<c r="A1" t="str"><v>a</v></c><c r="XFD1" t="str"><v>b</v></c>`, "a; b"},
	}
	styles := []byte(`<styleSheet><numFmts><numFmt numFmtId="164" formatCode="[$-409]d\-mmm;@"/><numFmt numFmtId="165" formatCode="0 &quot;days&quot;;[Red]0"/></numFmts>` +
		`<cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="164"/><xf numFmtId="165"/></cellXfs></styleSheet>`)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sheet := []byte("<worksheet><sheetData>" + strings.Replace(row, "%", tt.cells, 1) + "</sheetData></worksheet>")
			content := rezip(t, sample(t, "sheet.xlsx"), map[string][]byte{"xl/worksheets/sheet1.xml": sheet, "xl/styles.xml": styles})
			docs, skipped := read(t, "a.xlsx", content, nil)
			if len(docs) != 1 {
				t.Fatal(skipped)
			}
			if got, want := docs[0].Text, "# Orders 2024\n\n"+tt.want+"\n\n# Notes\n\nDeliveries are late in March."; got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// TestScanned reports a PDF of images, which an empty page is not.
func TestScanned(t *testing.T) {
	page := func(resources string) string {
		return "%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\n2 0 obj\n<< /Type /Pages /Kids [3 0 R] /Count 1 >>\nendobj\n" +
			"3 0 obj\n<< /Type /Page /Parent 2 0 R " + resources + " /Contents 5 0 R >>\nendobj\n" +
			"4 0 obj\n<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /Length 1 >>\nstream\nx\nendstream\nendobj\n" +
			"5 0 obj\n<< /Length 5 >>\nstream\n/I Do\nendstream\nendobj\ntrailer\n<< /Size 6 /Root 1 0 R >>\n%%EOF\n"
	}
	for _, tt := range []struct {
		resources string
		scanned   bool
	}{{"/Resources << /XObject << /I 4 0 R >> >>", true}, {"", false}} {
		docs, skipped := read(t, "a.pdf", page(tt.resources), nil)
		if len(docs) != 0 || len(skipped) != 1 || !errors.Is(skipped[0], ErrEmpty) || errors.Is(skipped[0], ErrScanned) != tt.scanned || errors.Is(skipped[0], ErrBroken) {
			t.Errorf("%d documents, %v", len(docs), skipped)
		}
	}
}

// TestDamagedParts changes bytes of one part of a file at a time. Readers must not rely on the
// recovery from panics.
func TestDamagedParts(t *testing.T) {
	type whole struct{ file, content, part string }
	var parts []whole
	for _, file := range []string{"slides.pptx", "sheet.xlsx", "notes.odt", "book.epub"} {
		content := sample(t, file)
		r, err := zip.NewReader(strings.NewReader(content), int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range r.File {
			ext := filepath.Ext(f.Name)
			if (ext == ".xml" || ext == ".rels" || ext == ".opf" || ext == ".xhtml") && !strings.Contains(f.Name, "Layout") && !strings.Contains(f.Name, "theme") {
				parts = append(parts, whole{file, content, f.Name})
			}
		}
	}
	for _, file := range []string{"sums.ipynb", "mail.eml", "notes.rtf"} {
		parts = append(parts, whole{file, sample(t, file), ""})
	}
	rapid.Check(t, func(rt *rapid.T) {
		w := rapid.SampledFrom(parts).Draw(rt, "part")
		b := []byte(w.content)
		if w.part != "" {
			r, err := zip.NewReader(strings.NewReader(w.content), int64(len(w.content)))
			if err != nil {
				rt.Fatal(err)
			}
			f, err := r.Open(w.part)
			if err == nil {
				b, err = io.ReadAll(f)
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
		for range rapid.IntRange(1, 4).Draw(rt, "changes") {
			from := rapid.IntRange(0, len(b)).Draw(rt, "from")
			to := min(len(b), from+rapid.IntRange(0, 40).Draw(rt, "length"))
			with := rapid.SampledFrom([]string{"", "<", ">", "\"", "-1", "99999999999999999999", "{", "}", "\\", "\xff", string(b[from:to]) + string(b[from:to])}).Draw(rt, "with")
			b = append(append(append([]byte(nil), b[:from]...), with...), b[to:]...)
		}
		content := string(b)
		if w.part != "" {
			content = rezip(t, w.content, map[string][]byte{w.part: b})
		}
		for _, err := range Read(t.Context(), w.file, strings.NewReader(content), &Options{MaxBytes: 1 << 20}) {
			var skip *SkipError
			if err != nil && (!errors.As(err, &skip) || strings.Contains(err.Error(), "runtime error")) {
				rt.Fatal(err)
			}
		}
	})
}

// TestODTFields: the title of the document is text where it is a field, and not in a drawing. The
// spaces that an element stands for count against the limit before the paragraph ends.
func TestODTFields(t *testing.T) {
	file := func(body string) string {
		return rezip(t, sample(t, "notes.odt"), map[string][]byte{"content.xml": []byte(`<o xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" ` +
			`xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0">` + body + `</o>`)})
	}
	docs, skipped := read(t, "a.odt", file(`<text:p>About <text:title>Birds</text:title><svg:title>drawing</svg:title><svg:desc>lines</svg:desc>.</text:p>`), nil)
	if len(docs) != 1 || docs[0].Text != "About Birds." {
		t.Errorf("%v %v", docs, skipped)
	}
	spaces := strings.Repeat(`<text:s text:c="100"/>`, 200_000)
	for _, body := range []string{"<text:p>a" + spaces + "b</text:p>", "<text:p><text:note><text:p>" + spaces, "<table><table-row><table-cell>" + strings.Repeat("<text:p>"+spaces[:len(spaces)/100]+"</text:p>", 100)} {
		var before, after runtime.MemStats
		content := file(body)
		runtime.ReadMemStats(&before)
		docs, skipped := read(t, "a.odt", content, &Options{MaxBytes: 2 << 20})
		runtime.ReadMemStats(&after)
		if len(docs) != 0 || len(skipped) != 1 || !errors.Is(skipped[0], ErrTooLarge) {
			t.Errorf("%d documents, %v", len(docs), skipped)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 40<<20 {
			t.Errorf("%d MB allocated", got>>20)
		}
	}
}

// TestWordStyles reads headings by the names and levels of their styles, whose ids depend on the
// language of Word, and notes after their paragraph.
func TestWordStyles(t *testing.T) {
	const styles = `<w:styles xmlns:w="w"><w:style w:styleId="berschrift1"><w:name w:val="heading 1"/></w:style>
		<w:style w:styleId="Own"><w:name w:val="Own"/><w:basedOn w:val="berschrift1"/></w:style>
		<w:style w:styleId="Level"><w:name w:val="Level"/><w:pPr><w:outlineLvl w:val="2"/></w:pPr></w:style>
		<w:style w:styleId="Deep"><w:name w:val="heading 9"/></w:style>
		<w:style w:styleId="Titel"><w:name w:val="Title"/></w:style>
		<w:style w:styleId="Author"><w:name w:val="Author"/><w:basedOn w:val="Titel"/></w:style>
		<w:style w:styleId="Contents"><w:name w:val="TOC Heading"/><w:basedOn w:val="berschrift1"/><w:pPr><w:outlineLvl w:val="9"/></w:pPr></w:style>
		<w:style w:styleId="Circle"><w:name w:val="Circle"/><w:basedOn w:val="Circle2"/></w:style>
		<w:style w:styleId="Circle2"><w:name w:val="Circle 2"/><w:basedOn w:val="Circle"/></w:style></w:styles>`
	paragraph := func(style, run string) string {
		return `<w:p><w:pPr><w:pStyle w:val="` + style + `"/></w:pPr><w:r>` + run + `</w:r></w:p>`
	}
	var body string
	for _, style := range []string{"berschrift1", "Own", "Level", "Deep", "Titel", "Author", "Contents", "Circle", "Heading2"} {
		body += paragraph(style, "<w:t>"+style+"</w:t>")
	}
	const headings = "# berschrift1\n\n# Own\n\n### Level\n\n###### Deep\n\n# Titel\n\nAuthor\n\nContents\n\nCircle\n\n## Heading2"
	notes := paragraph("", `<w:t>co</w:t><w:noBreakHyphen/><w:t>op</w:t><w:footnoteReference w:id="1"/><w:endnoteReference w:id="1"/>`) +
		"<w:tbl><w:tr><w:tc>" + paragraph("", `<w:t>cell</w:t><w:footnoteReference w:id="2"/>`) + "</w:tc></w:tr></w:tbl>" + paragraph("", "<w:t>End</w:t>")
	const footnotes = `<w:footnotes xmlns:w="w"><w:footnote w:type="separator" w:id="-1"><w:p/></w:footnote>
		<w:footnote w:id="1"><w:p><w:r><w:footnoteRef/><w:t>one</w:t></w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:r><w:t>more</w:t></w:r></w:p></w:tc></w:tr></w:tbl></w:footnote>
		<w:footnote w:id="2"><w:p><w:r><w:t>two</w:t></w:r></w:p></w:footnote></w:footnotes>`
	const endnotes = `<w:endnotes xmlns:w="w"><w:endnote w:id="1"><w:p><w:r><w:t>at the end</w:t></w:r></w:p></w:endnote></w:endnotes>`
	for name, tt := range map[string]struct {
		body, styles string
		want         string
		err          error
	}{
		"headings":      {body, styles, headings, nil},
		"broken styles": {paragraph("Heading1", "<w:t>Head</w:t>"), "<w:styles", "# Head", nil},
		"other names": {paragraph("Heading1", "<w:t>Head</w:t>"), `<w:styles xmlns:w="w"><w:style w:styleId="Heading1"><w:name w:val="Corporate H1"/></w:style></w:styles>`,
			"# Head", nil},
		"broken notes":   {notes, styles, "co-op\n\nNote: one more\n\nNote: at the end\n\n| cell |\n| --- |\n\nEnd", nil},
		"notes":          {notes, styles, "co-op\n\nNote: one more\n\nNote: at the end\n\n| cell |\n| --- |\n\nNote: two\n\nEnd", nil},
		"repeated notes": {paragraph("", strings.Repeat(`<w:footnoteReference w:id="1"/>`, 1000)), styles, "", ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			footnotes := footnotes
			if name == "broken notes" {
				footnotes = footnotes[:strings.Index(footnotes, "<w:t>two")]
			}
			content := rezip(t, docx(t), map[string][]byte{"word/styles.xml": []byte(tt.styles), "word/footnotes.xml": []byte(footnotes), "word/endnotes.xml": []byte(endnotes),
				"word/document.xml": []byte(`<w:document xmlns:w="w"><w:body>` + tt.body + `</w:body></w:document>`)})
			docs, skipped := read(t, "a.docx", content, &Options{MaxBytes: 8 << 10})
			if tt.err != nil {
				if len(skipped) != 1 || !errors.Is(skipped[0], tt.err) {
					t.Errorf("%d documents, %v", len(docs), skipped)
				}
				return
			}
			if len(docs) != 1 || docs[0].Text != tt.want {
				t.Errorf("%d documents, %v", len(docs), skipped)
				for _, d := range docs {
					t.Errorf("%q", d.Text)
				}
			}
		})
	}
}
