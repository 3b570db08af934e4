package load

import (
	"bytes"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"codeberg.org/readeck/go-readability"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
)

// readHTML reads a page as Markdown.
func readHTML(doc *Document, b []byte, whole bool) error {
	enc := marked(b)
	if enc == nil {
		var certain bool
		// If a page does not declare its encoding, the guess is based on its first kilobyte, which
		// may be ASCII even if the rest is not.
		if enc, _, certain = charset.DetermineEncoding(b, ""); !certain && utf8.Valid(b) {
			enc = encoding.Nop
		}
	}
	b = bytes.TrimPrefix(b, []byte(mark))
	page, err := html.Parse(enc.NewDecoder().Reader(bytes.NewReader(b)))
	if err != nil {
		return err
	}
	if title := find(page, "title"); title != nil && title.FirstChild != nil {
		doc.Title = strings.Join(strings.Fields(title.FirstChild.Data), " ")
	}
	root := page
	if !whole {
		root = content(page)
	}
	conv := converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(),
		commonmark.NewCommonmarkPlugin(), table.NewTablePlugin()))
	text, err := conv.ConvertNode(root)
	doc.Text = newlines(strings.ToValidUTF8(string(text), "\ufffd"))
	return err
}

// content returns the main content of a page, if it can be detected and makes up a good part of the
// page. Otherwise it returns the page without elements that hold no text.
func content(page *html.Node) *html.Node {
	remove(page, "script", "style", "noscript", "template", "svg", "iframe", "nav", "footer", "aside", "form", "button")
	all := len(strings.TrimSpace(textOf(page)))
	if all < 2000 { // too short to leave anything out
		return page
	}
	if article, err := readability.FromDocument(clone(page), &url.URL{Scheme: "file"}); err == nil &&
		article.Node != nil {
		// On pages of many small parts, readability chooses only one of them.
		if n := len(strings.TrimSpace(article.TextContent)); n*3 >= all || n >= 20_000 {
			return article.Node
		}
	}
	return page
}

func find(n *html.Node, tag string) *html.Node {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.Data == tag {
			return d
		}
	}
	return nil
}

// remove deletes elements from a page.
func remove(n *html.Node, tags ...string) {
	var gone []*html.Node
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && slices.Contains(tags, d.Data) {
			gone = append(gone, d)
		}
	}
	for _, d := range gone {
		d.Parent.RemoveChild(d)
	}
}

func textOf(n *html.Node) string {
	var s strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			s.WriteString(d.Data)
		}
	}
	return s.String()
}

// clone copies a page, because readability modifies its input.
func clone(n *html.Node) *html.Node {
	c := &html.Node{Type: n.Type, DataAtom: n.DataAtom, Data: n.Data, Namespace: n.Namespace,
		Attr: append([]html.Attribute(nil), n.Attr...)}
	for child := range n.ChildNodes() {
		c.AppendChild(clone(child))
	}
	return c
}
