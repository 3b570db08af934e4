package load

import (
	"context"
	"encoding/xml"
	"strings"
)

// readDOCX reads a Word document (ECMA-376) as Markdown. Headings, lists and tables keep their
// structure.
func readDOCX(ctx context.Context, doc *Document, b []byte, limit int64) error {
	a, err := openArchive(ctx, b, limit)
	if err != nil {
		return err
	}
	doc.Title = a.title()
	w := &word{text: newMarkdown(limit)}
	err = a.walk("word/document.xml", w)
	doc.Text = strings.TrimSpace(w.text.String())
	return err
}

// word collects the text of a document.
type word struct {
	text      *markdown
	paragraph strings.Builder
	inText    bool
	prefix    string // of the paragraph: heading or list item
	cells     cells  // of the row of the outermost table
	tables    int    // depth
	repeated  int    // depth in a fallback for older programs, which repeats text that was already read
}

func (w *word) chars(text []byte) {
	if w.inText {
		w.paragraph.Write(text)
	}
}

func (w *word) start(t xml.StartElement) error {
	if t.Name.Local == "Fallback" || w.repeated > 0 {
		w.repeated++
		return nil
	}
	switch t.Name.Local {
	case "t":
		w.inText = true
	case "tab":
		w.paragraph.WriteByte('\t')
	case "br", "cr":
		w.paragraph.WriteByte('\n')
	case "pStyle":
		style := strings.ToLower(strings.ReplaceAll(attr(t, "val"), " ", ""))
		if level, ok := strings.CutPrefix(style, "heading"); ok && len(level) == 1 && level >= "1" && level <= "6" {
			w.prefix = strings.Repeat("#", int(level[0]-'0')) + " "
		}
		if style == "title" {
			w.prefix = "# "
		}
	case "numPr":
		if w.prefix == "" {
			w.prefix = "- "
		}
	case "tbl":
		w.tables++
	case "tr":
		if w.tables == 1 {
			w.cells = nil
		}
	case "tc":
		if w.tables == 1 {
			w.cells.begin()
		}
	}
	return nil
}

func (w *word) end(name string) error {
	if w.repeated > 0 {
		w.repeated--
		return nil
	}
	switch name {
	case "t":
		w.inText = false
	case "p":
		p, prefix := w.paragraph.String(), w.prefix
		w.paragraph.Reset()
		w.prefix = ""
		if w.tables == 0 {
			return w.text.paragraph(prefix, p)
		}
		w.cells.add(p)
	case "tr":
		if w.tables != 1 {
			return nil
		}
		return w.text.row(w.cells.end())
	case "tbl":
		if w.tables--; w.tables <= 0 {
			w.tables = 0
			w.text.endTable()
		}
	}
	return nil
}
