package load

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/net/html/charset"
)

// readEPUB reads a book (EPUB 2 and 3) as Markdown: its chapters in reading order, without the
// table of contents. The authors and the language become metadata.
func readEPUB(ctx context.Context, doc *Document, b []byte, limit int64) error {
	a, err := openArchive(ctx, b, limit)
	if err != nil {
		return err
	}
	const first = "META-INF/container.xml"
	var container struct {
		Roots []struct {
			Path string `xml:"full-path,attr"`
		} `xml:"rootfiles>rootfile"`
	}
	if err := a.unmarshal(first, &container); err != nil {
		return err
	}
	if len(container.Roots) == 0 {
		return fmt.Errorf("%w: %s names no book", ErrBroken, first)
	}
	name := container.Roots[0].Path
	var book epub
	if err := a.unmarshal(name, &book); err != nil {
		return err
	}
	book.describe(doc)
	encrypted, err := a.encrypted()
	if err != nil {
		return err
	}
	chapters, err := book.chapters(name)
	if err != nil {
		return err
	}
	text := newMarkdown(limit)
	for _, chapter := range chapters {
		if slices.Contains(encrypted, chapter) {
			return fmt.Errorf("%w: %s is encrypted", ErrUnsupported, chapter)
		}
		page, err := a.bytes(chapter)
		if err != nil {
			return err
		}
		var part Document
		if err := readHTML(&part, xhtml(page), true, limit); err != nil {
			return inPart(chapter, err)
		}
		if err := text.paragraph("", part.Text); err != nil {
			return inPart(chapter, err)
		}
	}
	doc.Text = strings.TrimSpace(text.String())
	return nil
}

// epub is the package document of a book.
type epub struct {
	Titles    []string `xml:"metadata>title"`
	Creators  []string `xml:"metadata>creator"`
	Languages []string `xml:"metadata>language"`
	Items     []struct {
		ID         string `xml:"id,attr"`
		Href       string `xml:"href,attr"`
		Type       string `xml:"media-type,attr"`
		Properties string `xml:"properties,attr"`
	} `xml:"manifest>item"`
	Spine []struct {
		Item string `xml:"idref,attr"`
	} `xml:"spine>itemref"`
}

// describe copies the metadata of the book.
func (e *epub) describe(doc *Document) {
	if len(e.Titles) > 0 {
		doc.Title = oneLine(e.Titles[0])
	}
	var creators []any
	for _, c := range e.Creators {
		creators = append(creators, oneLine(c))
	}
	if creators != nil {
		doc.Metadata["author"] = creators
	}
	if len(e.Languages) > 0 {
		doc.Metadata["language"] = strings.TrimSpace(e.Languages[0])
	}
}

// chapters returns the parts with text in reading order. name is the part of the package document.
func (e *epub) chapters(name string) ([]string, error) {
	parts := map[string]string{}
	for _, item := range e.Items {
		html := item.Type == "application/xhtml+xml" || item.Type == "text/html"
		if html && !slices.Contains(strings.Fields(item.Properties), "nav") {
			parts[item.ID] = within(name, item.Href)
		}
	}
	if len(e.Spine) > maxParts {
		return nil, fmt.Errorf("%w: %s: more than %d chapters", ErrTooLarge, name, maxParts)
	}
	var chapters []string
	for _, s := range e.Spine {
		if part, ok := parts[s.Item]; ok {
			chapters = append(chapters, part)
			delete(parts, s.Item) // a part is read once
		}
	}
	return chapters, nil
}

// encrypted returns the names of parts that cannot be read without a key. Fonts are often among
// them.
func (a *archive) encrypted() ([]string, error) {
	const name = "META-INF/encryption.xml"
	if _, err := fs.Stat(a.zip, name); err != nil {
		return nil, nil
	}
	var list struct {
		Data []struct {
			Reference struct {
				URI string `xml:"URI,attr"`
			} `xml:"CipherData>CipherReference"`
		} `xml:"EncryptedData"`
	}
	if err := a.unmarshal(name, &list); err != nil {
		return nil, err
	}
	var names []string
	for _, d := range list.Data {
		names = append(names, within("", d.Reference.URI))
	}
	return names, nil
}

// declared returns a page of XML in UTF-8, with a mark that says so, if the page declares another
// encoding that is known.
func declared(page []byte) []byte {
	if marked(page) != nil {
		return page // the mark overrides a declaration
	}
	label := ""
	dec := xml.NewDecoder(bytes.NewReader(page))
	dec.CharsetReader = func(l string, r io.Reader) (io.Reader, error) {
		label = l
		return r, nil
	}
	_, _ = dec.RawToken() // the declaration comes first
	enc, name := charset.Lookup(label)
	switch {
	case enc == nil, name == "utf-8", name == "replacement": // the last one has no decoder
		return page
	case strings.HasPrefix(name, "utf-16"): // not a page whose declaration could be read
		return page
	}
	text, err := enc.NewDecoder().Bytes(page)
	if err != nil {
		return page
	}
	return append([]byte(mark), text...)
}

// xhtml prepares a page of XML for the HTML parser, which does not know that <title/> is closed: it
// would take the rest of the page as the title.
func xhtml(page []byte) []byte {
	page = declared(page)
	text := bytes.TrimPrefix(page, []byte(mark))
	out := slices.Clone(page[:len(page)-len(text)])
	dec := xml.NewDecoder(bytes.NewReader(text))
	dec.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil } // offsets are of the page
	dec.Strict, dec.Entity, dec.AutoClose = false, xml.HTMLEntity, xml.HTMLAutoClose
	last := int64(0)
	for {
		token, err := dec.RawToken()
		if err != nil {
			return append(out, text[last:]...)
		}
		at := dec.InputOffset()
		tag := text[last:at]
		start, ok := token.(xml.StartElement)
		if n := len(tag); ok && n > 2 && string(tag[n-2:]) == "/>" &&
			!slices.Contains(xml.HTMLAutoClose, start.Name.Local) {
			out = append(append(out, tag[:n-2]...), "></"+start.Name.Local+">"...)
		} else {
			out = append(out, tag...)
		}
		last = at
	}
}
