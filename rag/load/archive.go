package load

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"golang.org/x/net/html/charset"
)

const (
	// maxInflation bounds the bytes that the parts of an archive expand to, as a multiple of
	// Options.MaxBytes. XML takes several times the space of its text.
	maxInflation = 4
	maxParts     = 20_000 // slides, sheets or chapters of a file
	maxDepth     = 1_000  // of XML elements, RTF groups
)

// oleMagic begins the container of Word, Excel and PowerPoint files before 2007, and of encrypted
// ones.
const oleMagic = "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"

// An archive reads the parts of a ZIP file: Office Open XML (ECMA-376), OpenDocument (ISO 26300),
// EPUB. All parts that are read may expand to a limited number of bytes together, because sizes in
// archives cannot be trusted.
type archive struct {
	ctx         context.Context
	zip         *zip.Reader
	limit, left int64 // bytes to expand: in all, and as yet
}

func openArchive(ctx context.Context, b []byte, maxBytes int64) (*archive, error) {
	if bytes.HasPrefix(b, []byte(oleMagic)) {
		return nil, fmt.Errorf("%w: encrypted, or in the format of Office before 2007", ErrUnsupported)
	}
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, err
	}
	return &archive{ctx: ctx, zip: z, limit: maxInflation * maxBytes, left: maxInflation * maxBytes}, nil
}

// open opens a part. Errors name it.
func (a *archive) open(name string) (io.ReadCloser, error) {
	f, err := a.zip.Open(name)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("missing")
		}
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if info, err := f.Stat(); err == nil && info.Size() > a.left {
		f.Close()
		return nil, a.tooLarge(name)
	}
	return &part{f, name, a}, nil
}

func (a *archive) tooLarge(name string) error {
	return fmt.Errorf("%w: %s: the parts of the file expand to more than %d bytes", ErrTooLarge, name, a.limit)
}

// A part counts its bytes against the limit of the archive.
type part struct {
	fs.File
	name string
	a    *archive
}

func (p *part) Read(b []byte) (int, error) {
	if err := p.a.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := p.File.Read(b)
	if p.a.left -= int64(n); p.a.left < 0 {
		return 0, p.a.tooLarge(p.name)
	}
	return n, err
}

// bytes reads a whole part.
func (a *archive) bytes(name string) ([]byte, error) {
	f, err := a.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	return b, inPart(name, err)
}

// unmarshal decodes a part that is XML.
func (a *archive) unmarshal(name string, v any) error {
	f, err := a.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return inPart(name, decoder(f).Decode(v))
}

// walk passes the elements and the text of a part to v. A visitor that returns an error ends the
// walk.
func (a *archive) walk(name string, v visitor) error {
	f, err := a.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	dec := decoder(f)
	for depth := 0; ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return inPart(name, err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if depth++; depth > maxDepth {
				return inPart(name, fmt.Errorf("%w: more than %d elements within each other", ErrBroken, maxDepth))
			}
			err = v.start(t)
		case xml.EndElement:
			depth--
			err = v.end(t.Name.Local)
		case xml.CharData:
			v.chars(t)
		}
		if err != nil {
			return inPart(name, err)
		}
	}
}

// A visitor receives the content of an XML part. Elements are told apart by their local names,
// which do not clash in the formats that are read.
type visitor interface {
	start(t xml.StartElement) error
	end(name string) error
	chars(text []byte)
}

func decoder(r io.Reader) *xml.Decoder {
	dec := xml.NewDecoder(r)
	dec.CharsetReader = charset.NewReaderLabel
	return dec
}

// inPart names the part of an error, unless it does so already.
func inPart(name string, err error) error {
	if err == nil || errors.Is(err, ErrTooLarge) {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// title returns the title in the core properties of an Office file (ECMA-376, part 2, 11.1); broken
// properties have none.
func (a *archive) title() string {
	var core struct {
		Title string `xml:"title"`
	}
	if a.unmarshal("docProps/core.xml", &core) != nil {
		return ""
	}
	return oneLine(core.Title)
}

// A relation leads from one part of an Office file to another (ECMA-376, part 2, 9.3).
type relation struct {
	ID     string `xml:"Id,attr"`
	Type   string `xml:"Type,attr"`
	Target string `xml:"Target,attr"`
	Mode   string `xml:"TargetMode,attr"`
}

// is compares the type, whose namespace depends on the edition of the standard.
func (r *relation) is(kind string) bool { return strings.HasSuffix(r.Type, "/relationships/"+kind) }

// relations returns the relations of a part, with the names of their target parts. A part without
// relations has none.
func (a *archive) relations(name string) ([]relation, error) {
	var list struct {
		Relations []relation `xml:"Relationship"`
	}
	rels := path.Join(path.Dir(name), "_rels", path.Base(name)+".rels")
	if _, err := fs.Stat(a.zip, rels); err != nil {
		return nil, nil
	}
	if err := a.unmarshal(rels, &list); err != nil {
		return nil, err
	}
	var internal []relation
	for _, r := range list.Relations {
		if r.Mode != "External" {
			r.Target = within(name, r.Target)
			internal = append(internal, r)
		}
	}
	return internal, nil
}

// within returns the name of the part that a part refers to by a relative URL.
func within(name, target string) string {
	target, _, _ = strings.Cut(target, "#")
	if plain, err := url.PathUnescape(target); err == nil {
		target = plain
	}
	if strings.HasPrefix(target, "/") {
		return strings.TrimPrefix(path.Clean(target), "/")
	}
	return path.Join(path.Dir(name), target)
}

// attr returns the value of an attribute.
func attr(t xml.StartElement, name string) string {
	for _, a := range t.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// oneLine joins the words of a text by single spaces.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// A markdown builds the text of a converted file.
type markdown struct {
	strings.Builder
	limit int64 // bytes
	rows  int   // of the table that is open
}

func newMarkdown(limit int64) *markdown { return &markdown{limit: limit} }

// heading writes a heading of level 1 to 6.
func (m *markdown) heading(level int, text string) error {
	return m.paragraph(strings.Repeat("#", min(max(level, 1), 6))+" ", oneLine(text))
}

// paragraph writes a paragraph with a prefix, unless it is empty.
func (m *markdown) paragraph(prefix, text string) error {
	if text = strings.TrimSpace(text); text != "" {
		m.endList()
		m.WriteString(prefix + text + "\n\n")
	}
	return m.full()
}

// item writes an item of a list; level counts from 0.
func (m *markdown) item(level int, text string) error {
	if text = oneLine(text); text != "" {
		m.WriteString(strings.Repeat("  ", min(level, 10)) + "- " + text + "\n")
		m.rows = -1
	}
	return m.full()
}

// cells are the cells of a row of a table, each with the text of its paragraphs.
type cells [][]string

// begin adds a cell.
func (c *cells) begin() { *c = append(*c, nil) }

// add adds a paragraph to the last cell. A row without cells has no text.
func (c cells) add(paragraph string) {
	if n := len(c); n > 0 {
		c[n-1] = append(c[n-1], paragraph)
	}
}

// end returns the cells, each in one line, and begins the next row.
func (c *cells) end() []string {
	row := make([]string, len(*c))
	for i, paragraphs := range *c {
		row[i] = oneLine(strings.Join(paragraphs, " "))
	}
	*c = nil
	return row
}

// row writes a row of a table. The first one is the header.
func (m *markdown) row(cells []string) error {
	if strings.Join(cells, "") == "" {
		return nil
	}
	if m.rows < 0 {
		m.endList()
	}
	m.WriteByte('|')
	for _, c := range cells {
		m.WriteString(" " + strings.ReplaceAll(c, "|", `\|`) + " |")
	}
	m.WriteByte('\n')
	if m.rows++; m.rows == 1 {
		m.WriteString(strings.Repeat("| --- ", len(cells)) + "|\n")
	}
	return m.full()
}

// endTable ends a table.
func (m *markdown) endTable() {
	m.rows = 0
	m.WriteByte('\n')
}

// endList ends a list, if the last block is one.
func (m *markdown) endList() {
	if m.rows < 0 {
		m.endTable()
	}
}

func (m *markdown) full() error {
	if int64(m.Len()) > m.limit {
		return fmt.Errorf("%w: more than %d bytes of text", ErrTooLarge, m.limit)
	}
	return nil
}
