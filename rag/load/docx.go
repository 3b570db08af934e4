package load

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// readDOCX reads a Word document (ECMA-376) as Markdown. Headings, lists and tables keep their
// structure.
func readDOCX(doc *Document, b []byte, limit int64) error {
	archive, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return err
	}
	if title, err := member(archive, "docProps/core.xml", limit); err == nil {
		var core struct {
			Title string `xml:"title"`
		}
		if xml.Unmarshal(title, &core) == nil {
			doc.Title = strings.TrimSpace(core.Title)
		}
	}
	body, err := member(archive, "word/document.xml", limit)
	if err != nil {
		return err
	}
	w := &word{}
	dec := xml.NewDecoder(bytes.NewReader(body))
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.StartElement:
			w.start(t)
		case xml.EndElement:
			w.end(t.Name.Local)
		case xml.CharData:
			if w.inText {
				w.paragraph.Write(t)
			}
		}
	}
	doc.Text = strings.TrimSpace(w.text.String())
	return nil
}

// member reads a file of an archive, up to a limit, because sizes in archives cannot be trusted.
func member(archive *zip.Reader, name string, limit int64) ([]byte, error) {
	f, err := archive.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%w: %s has more than %d bytes", ErrTooLarge, name, limit)
	}
	return b, err
}

// word collects the text of a document.
type word struct {
	text, paragraph strings.Builder
	inText          bool
	prefix          string   // of the paragraph: heading or list item
	cells           []string // of the row of the outermost table
	tables          int      // depth
	rows            int      // of the outermost table
	repeated        int      // depth in a fallback for older programs, which repeats text that was already read
}

func (w *word) start(t xml.StartElement) {
	if t.Name.Local == "Fallback" || w.repeated > 0 {
		w.repeated++
		return
	}
	switch t.Name.Local {
	case "t":
		w.inText = true
	case "tab":
		w.paragraph.WriteByte('\t')
	case "br", "cr":
		w.paragraph.WriteByte('\n')
	case "pStyle":
		for _, a := range t.Attr {
			style := strings.ToLower(strings.ReplaceAll(a.Value, " ", ""))
			if a.Name.Local != "val" {
				continue
			}
			if level, ok := strings.CutPrefix(style, "heading"); ok && len(level) == 1 && level >= "1" && level <= "6" {
				w.prefix = strings.Repeat("#", int(level[0]-'0')) + " "
			}
			if style == "title" {
				w.prefix = "# "
			}
		}
	case "numPr":
		if w.prefix == "" {
			w.prefix = "- "
		}
	case "tbl":
		if w.tables++; w.tables == 1 {
			w.rows = 0
		}
	case "tr":
		if w.tables == 1 {
			w.cells = nil
		}
	case "tc":
		if w.tables == 1 {
			w.cells = append(w.cells, "")
		}
	}
}

func (w *word) end(name string) {
	if w.repeated > 0 {
		w.repeated--
		return
	}
	switch name {
	case "t":
		w.inText = false
	case "p":
		p := strings.TrimSpace(w.paragraph.String())
		w.paragraph.Reset()
		switch {
		case w.tables > 0:
			if n := len(w.cells); n > 0 {
				w.cells[n-1] = strings.Join(strings.Fields(w.cells[n-1]+" "+p), " ")
			}
		case p != "":
			w.text.WriteString(w.prefix + p + "\n\n")
		}
		w.prefix = ""
	case "tr":
		if w.tables != 1 {
			return
		}
		if strings.Join(w.cells, "") != "" {
			w.text.WriteString("| " + strings.Join(w.cells, " | ") + " |\n")
			if w.rows == 0 {
				w.text.WriteString(strings.Repeat("| --- ", len(w.cells)) + "|\n")
			}
			w.rows++
		}
		w.cells = nil
	case "tbl":
		if w.tables--; w.tables <= 0 {
			w.tables = 0
			w.text.WriteString("\n")
		}
	}
}
