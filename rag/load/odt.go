package load

import (
	"context"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// readODT reads a text document (OpenDocument, ISO 26300) as Markdown. Headings, lists and tables
// keep their structure. Notes follow their paragraph; comments and deleted text are left out.
func readODT(ctx context.Context, doc *Document, b []byte, limit int64) error {
	a, err := openArchive(ctx, b, limit)
	if err != nil {
		return err
	}
	var meta struct {
		Title string `xml:"meta>title"`
	}
	if a.unmarshal("meta.xml", &meta) == nil { // may be missing
		doc.Title = oneLine(meta.Title)
	}
	w := &writerText{text: newMarkdown(limit)}
	err = a.walk("content.xml", w)
	doc.Text = strings.TrimSpace(w.text.String())
	return err
}

// writerText collects the text of a document.
type writerText struct {
	text    *markdown
	stack   []*paragraph // the open paragraphs: notes and text boxes are inside of others
	lists   int          // depth
	tables  int          // depth
	cells   cells        // of the row of the outermost table
	skipped int          // depth in an element whose text is left out
	notes   int          // depth
	pending []string     // notes, to be written after the paragraph
	written int64        // bytes, of which an element of a few bytes can have many
}

// A paragraph is a paragraph or a heading.
type paragraph struct {
	strings.Builder
	level int // of a heading, otherwise 0
}

func (w *writerText) write(s string) {
	if n := len(w.stack); n > 0 {
		w.stack[n-1].WriteString(s)
		w.written += int64(len(s))
	}
}

// chars adds text, whose white space is not significant (ISO 26300-1, 6.1.2).
func (w *writerText) chars(text []byte) {
	if w.skipped == 0 && len(w.stack) > 0 {
		w.write(strings.Map(func(r rune) rune {
			if r == '\n' || r == '\t' || r == '\r' {
				return ' '
			}
			return r
		}, string(text)))
	}
}

func (w *writerText) start(t xml.StartElement) error {
	if w.written > w.text.limit {
		return fmt.Errorf("%w: more than %d bytes of text", ErrTooLarge, w.text.limit)
	}
	if w.skipped > 0 {
		w.skipped++
		return nil
	}
	switch t.Name.Local {
	case "tracked-changes", "annotation", "note-citation", "binary-data", "ruby-text", "forms", "script":
		w.skipped = 1
	case "title", "desc": // of a drawing; a field of the title has the same local name
		if strings.Contains(t.Name.Space, "svg") {
			w.skipped = 1
		}
	case "h":
		level, _ := strconv.Atoi(attr(t, "outline-level"))
		w.stack = append(w.stack, &paragraph{level: max(level, 1)})
	case "p":
		w.stack = append(w.stack, &paragraph{})
	case "s":
		const spaces = 100
		n, _ := strconv.Atoi(attr(t, "c"))
		w.write(strings.Repeat(" ", min(max(n, 1), spaces)))
	case "tab":
		w.write("\t")
	case "line-break":
		w.write("\n")
	case "list":
		w.lists++
	case "note":
		w.notes++
	case "table":
		w.tables++
	case "table-row":
		if w.tables == 1 {
			w.cells = nil
		}
	case "table-cell", "covered-table-cell": // repetitions are of empty cells, as a rule
		if w.tables == 1 {
			w.cells.begin()
		}
	}
	return nil
}

func (w *writerText) end(name string) error {
	if w.skipped > 0 {
		w.skipped--
		return nil
	}
	switch name {
	case "h", "p":
		return w.endParagraph()
	case "list":
		w.lists--
	case "note":
		w.notes--
	case "table-row":
		if w.tables != 1 {
			return nil
		}
		return w.text.row(w.cells.end())
	case "table":
		if w.tables--; w.tables == 0 {
			w.text.endTable()
			return w.writeNotes()
		}
	}
	return nil
}

func (w *writerText) endParagraph() error {
	n := len(w.stack) - 1
	text, level := w.stack[n].String(), w.stack[n].level
	w.stack = w.stack[:n]
	var err error
	switch {
	case w.notes > 0:
		w.pending = append(w.pending, text)
		return nil
	case w.tables > 0:
		w.cells.add(text)
		return nil
	case level > 0:
		err = w.text.heading(level, text)
	case w.lists > 0:
		err = w.text.item(w.lists-1, text)
	default:
		err = w.text.paragraph("", text)
	}
	if err != nil || n > 0 {
		return err
	}
	return w.writeNotes()
}

// writeNotes writes the notes since the last call.
func (w *writerText) writeNotes() error {
	for _, note := range w.pending {
		if err := w.text.paragraph("Note: ", note); err != nil {
			return err
		}
	}
	w.pending = nil
	return nil
}
