package load

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// readDOCX reads a Word document (ECMA-376) as Markdown. Headings, lists and tables keep their
// structure. Notes follow their paragraph.
func readDOCX(ctx context.Context, doc *Document, b []byte, limit int64) error {
	a, err := openArchive(ctx, b, limit)
	if err != nil {
		return err
	}
	doc.Title = a.title()
	w := &word{text: newMarkdown(limit), notes: map[string]string{}}
	if w.levels, err = a.wordStyles("word/styles.xml"); err != nil {
		return err
	}
	for _, name := range []string{"word/footnotes.xml", "word/endnotes.xml"} {
		if _, err := fs.Stat(a.zip, name); err != nil {
			continue // a document without notes
		}
		notes := &word{text: newMarkdown(limit), notes: w.notes, inNotes: w.inNotes}
		err := a.walk(name, notes)
		if errors.Is(err, ErrTooLarge) || ctx.Err() != nil {
			return err
		}
		w.inNotes = notes.inNotes // of a damaged part, the notes before the damage
	}
	err = a.walk("word/document.xml", w)
	doc.Text = strings.TrimSpace(w.text.String())
	return err
}

// wordStyles returns the levels of the styles of paragraphs, 0 if they are not for headings. Ids
// depend on the language of Word. A broken part of styles is ignored.
func (a *archive) wordStyles(name string) (map[string]int, error) {
	type value struct {
		Val string `xml:"val,attr"`
	}
	type style struct {
		ID    string `xml:"styleId,attr"`
		Name  value  `xml:"name"`
		Based value  `xml:"basedOn"`
		Level *value `xml:"pPr>outlineLvl"`
	}
	var list struct {
		Styles []style `xml:"style"`
	}
	if err := a.unmarshal(name, &list); errors.Is(err, ErrTooLarge) {
		return nil, err
	}
	styles := map[string]style{}
	for _, s := range list.Styles {
		styles[s.ID] = s
	}
	levels := map[string]int{}
	for _, s := range list.Styles {
		levels[s.ID] = headingLevel(s.Name.Val)
		stated := false
		const maxBases = 20 // styles may be based on each other in a circle
		for at, n := s, 0; n < maxBases && levels[s.ID] == 0; at, n = styles[at.Based.Val], n+1 {
			level := headingLevel(at.Name.Val)
			if level > 0 && !strings.EqualFold(at.Name.Val, "title") { // an author's name may be based on it
				levels[s.ID] = level
			} else if at.Level != nil {
				stated = true
				if level, err := strconv.Atoi(at.Level.Val); err == nil && level >= 0 && level < 9 { // 9: body text
					levels[s.ID] = level + 1
				}
				break
			}
		}
		if levels[s.ID] == 0 && !stated { // other programs keep the ids of English and change the names
			levels[s.ID] = headingLevel(s.ID)
		}
	}
	return levels, nil
}

// headingLevel returns the level that the name of a built-in style tells, or 0.
func headingLevel(style string) int {
	style = strings.ToLower(strings.ReplaceAll(style, " ", ""))
	if style == "title" {
		return 1
	}
	if level, ok := strings.CutPrefix(style, "heading"); ok && len(level) == 1 && level >= "1" && level <= "9" {
		return int(level[0] - '0')
	}
	return 0
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

	levels  map[string]int    // of the styles
	notes   map[string]string // by kind and id
	note    string            // kind and id of the note that is read
	pending []string          // notes, to be written after the paragraph
	inNotes int64             // bytes

	noteText strings.Builder // of the note that is read
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
	if w.note != "" && (t.Name.Local == "tbl" || t.Name.Local == "tr" || t.Name.Local == "tc") {
		return nil // the text of a table in a note is a part of the note
	}
	switch t.Name.Local {
	case "t":
		w.inText = true
	case "tab":
		w.paragraph.WriteByte('\t')
	case "br", "cr":
		w.paragraph.WriteByte('\n')
	case "noBreakHyphen":
		w.paragraph.WriteByte('-')
	case "footnote", "endnote":
		w.note = t.Name.Local + attr(t, "id")
	case "footnoteReference", "endnoteReference":
		if note := w.notes[strings.TrimSuffix(t.Name.Local, "Reference")+attr(t, "id")]; note != "" {
			w.pending = append(w.pending, note)
		}
	case "pStyle":
		style := attr(t, "val")
		level, known := w.levels[style]
		if !known {
			level = headingLevel(style)
		}
		if level > 0 {
			w.prefix = strings.Repeat("#", min(level, 6)) + " "
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
		switch {
		case w.note != "":
			return w.addNote(p)
		case w.tables > 0:
			w.cells.add(p)
			return nil
		}
		if err := w.text.paragraph(prefix, p); err != nil {
			return err
		}
		return w.writeNotes()
	case "footnote", "endnote":
		w.notes[w.note] = oneLine(w.noteText.String())
		w.noteText.Reset()
		w.note = ""
	case "tr":
		if w.tables != 1 || w.note != "" {
			return nil
		}
		return w.text.row(w.cells.end())
	case "tbl":
		if w.note != "" {
			return nil
		}
		if w.tables--; w.tables <= 0 {
			w.tables = 0
			w.text.endTable()
			return w.writeNotes()
		}
	}
	return nil
}

// addNote adds a paragraph to the note that is read.
func (w *word) addNote(p string) error {
	if w.inNotes += int64(len(p)); w.inNotes > w.text.limit {
		return fmt.Errorf("%w: more than %d bytes of text", ErrTooLarge, w.text.limit)
	}
	w.noteText.WriteString(p + " ")
	return nil
}

// writeNotes writes the notes since the last call.
func (w *word) writeNotes() error {
	for _, note := range w.pending {
		if err := w.text.paragraph("Note: ", note); err != nil {
			return err
		}
	}
	w.pending = nil
	return nil
}
