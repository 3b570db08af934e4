package load

import (
	"context"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// readPPTX reads a presentation (ECMA-376) as Markdown: for each slide in the order of the show its
// title, text, tables and notes. Hidden slides are left out. A slide is a page.
func readPPTX(ctx context.Context, doc *Document, b []byte, limit int64) error {
	a, err := openArchive(ctx, b, limit)
	if err != nil {
		return err
	}
	doc.Title = a.title()
	const main = "ppt/presentation.xml"
	var show struct {
		Slides []struct {
			Rel string `xml:"http://schemas.openxmlformats.org/officeDocument/2006/relationships id,attr"`
			Old string `xml:"http://purl.oclc.org/ooxml/officeDocument/relationships id,attr"`
		} `xml:"sldIdLst>sldId"`
	}
	if err := a.unmarshal(main, &show); err != nil {
		return err
	}
	rels, err := a.relations(main)
	if err != nil {
		return err
	}
	parts := map[string]string{}
	for _, r := range rels {
		if r.is("slide") {
			parts[r.ID] = r.Target
		}
	}
	if len(show.Slides) > maxParts {
		return fmt.Errorf("%w: %s: more than %d slides", ErrTooLarge, main, maxParts)
	}
	text := newMarkdown(limit)
	for i, s := range show.Slides {
		name, ok := parts[s.Rel+s.Old]
		if !ok {
			return fmt.Errorf("%w: %s: slide %d has no part", ErrBroken, main, i+1)
		}
		doc.pages = append(doc.pages, text.Len())
		if err := a.slide(name, i+1, text); err != nil {
			return err
		}
	}
	doc.Text = strings.TrimRight(text.String(), "\n")
	return nil
}

// slide writes a slide with its notes.
func (a *archive) slide(name string, number int, text *markdown) error {
	s := &shapes{text: newMarkdown(text.limit)}
	if err := a.walk(name, s); err != nil || s.hidden {
		return err
	}
	rels, err := a.relations(name)
	if err != nil {
		return err
	}
	notes := &shapes{text: newMarkdown(text.limit), notes: true}
	for _, r := range rels {
		if r.is("notesSlide") {
			if err := a.walk(r.Target, notes); err != nil {
				return err
			}
		}
	}
	body, spoken := strings.TrimSpace(s.text.String()), strings.TrimSpace(notes.text.String())
	title := oneLine(strings.Join(s.title, " "))
	if title == "" && body == "" && spoken == "" {
		return nil
	}
	if title == "" {
		title = "Slide " + strconv.Itoa(number)
	}
	if err := text.heading(1, title); err != nil {
		return err
	}
	if err := text.paragraph("", body); err != nil {
		return err
	}
	return text.paragraph("Notes: ", spoken)
}

// shapes collects the text of the shapes of a slide, or of its notes.
type shapes struct {
	text      *markdown
	notes     bool     // only the notes: not the slide that stands above them
	title     []string // paragraphs
	hidden    bool
	paragraph strings.Builder
	inText    bool
	role      string // of the shape: the type of its placeholder, empty for a text box
	level     int    // of the paragraph
	inTable   bool
	cells     cells
	repeated  int // depth in a fallback for older programs, which repeats text that was already read
}

func (s *shapes) chars(text []byte) {
	if s.inText {
		s.paragraph.Write(text)
	}
}

func (s *shapes) start(t xml.StartElement) error {
	if t.Name.Local == "Fallback" || s.repeated > 0 {
		s.repeated++
		return nil
	}
	switch t.Name.Local {
	case "sld":
		s.hidden = attr(t, "show") == "0" || attr(t, "show") == "false"
	case "sp", "graphicFrame":
		s.role = ""
	case "ph":
		if s.role = attr(t, "type"); s.role == "" {
			s.role = "obj" // the default of the format
		}
	case "t":
		s.inText = true
	case "tab":
		s.paragraph.WriteByte('\t')
	case "br":
		s.paragraph.WriteByte('\n')
	case "pPr":
		s.level, _ = strconv.Atoi(attr(t, "lvl"))
		s.level = max(s.level, 0)
	case "tbl":
		s.text.endList()
		s.inTable = true
	case "tr":
		s.cells = nil
	case "tc":
		if s.inTable {
			s.cells.begin()
		}
	}
	return nil
}

func (s *shapes) end(name string) error {
	if s.repeated > 0 {
		s.repeated--
		return nil
	}
	switch name {
	case "t":
		s.inText = false
	case "p":
		p, level := s.paragraph.String(), s.level
		s.paragraph.Reset()
		s.level = 0
		return s.add(p, level)
	case "tr":
		return s.text.row(s.cells.end())
	case "tbl":
		s.inTable = false
		s.text.endTable()
	}
	return nil
}

// add adds a paragraph to where it belongs.
func (s *shapes) add(p string, level int) error {
	switch {
	case s.inTable:
		s.cells.add(p)
		return nil
	case s.role == "sldNum" || s.role == "dt" || s.role == "ftr" || s.role == "hdr": // the same on every slide
		return nil
	case s.notes && s.role != "body":
		return nil
	case s.notes:
		return s.text.paragraph("", p)
	case s.role == "title" || s.role == "ctrTitle":
		s.title = append(s.title, p)
		return nil
	case s.role == "body" || s.role == "obj":
		return s.text.item(level, p)
	}
	return s.text.paragraph("", p)
}
