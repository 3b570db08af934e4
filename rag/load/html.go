package load

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"codeberg.org/readeck/go-readability"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
)

// Limits of what the converter adds to a page. It fills all rows of a table to the width of the
// widest. It inserts the cells that others span one by one, and each moves the rest of its row.
const (
	maxFiller = 1 << 20 // empty cells of all tables together
	maxMoved  = 1 << 30 // empty cells of a table times its columns
	maxSpan   = 1000    // columns of a cell (HTML, 4.9.11)
	maxLists  = 32      // quotes and lists within each other
)

// readHTML reads a page as Markdown.
func readHTML(doc *Document, b []byte, whole bool, limit int64) error {
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
	limitNesting(root, 0)
	if err := limitTables(root); err != nil {
		return err
	}
	// Padding cells to the width of their column would lengthen all rows by one long cell.
	conv := converter.NewConverter(converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(),
		table.NewTablePlugin(table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal))))
	text, err := conv.ConvertNode(root)
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%w: more than %d bytes of text", ErrTooLarge, limit)
	}
	if err != nil {
		return err
	}
	doc.Text = newlines(strings.ToValidUTF8(string(text), "\ufffd"))
	return nil
}

// limitNesting turns quotes and lists that are nested too deep into plain divisions. The converter
// writes the lines of a quote or a list once more for each level, with a longer prefix.
func limitNesting(n *html.Node, depth int) {
	if is(n, "blockquote", "ul", "ol") {
		depth++
	}
	if depth > maxLists && is(n, "blockquote", "ul", "ol", "li") {
		n.Data, n.DataAtom = "div", atom.Div
	}
	for c := range n.ChildNodes() {
		limitNesting(c, depth)
	}
}

// limitTables caps the spans of cells at the size of their table, as a few bytes can state any
// span. It refuses tables that would have too many empty cells.
func limitTables(page *html.Node) error {
	room := int64(maxFiller)
	for d := range page.Descendants() {
		// The converter writes tables with tables in them as paragraphs.
		if !is(d, "table") || find(d, "table") != nil {
			continue
		}
		rows, columns, empty := limitSpans(d, room)
		if room -= empty; room < 0 || empty*columns > maxMoved {
			return fmt.Errorf("%w: a table of at least %d rows and %d columns, with %d empty cells",
				ErrTooLarge, rows, columns, empty)
		}
	}
	return nil
}

// limitSpans caps the spans of the cells of a table, and returns the size that the table will
// have. It stops early if there is no room for the empty cells.
func limitSpans(table *html.Node, room int64) (rows, columns, empty int64) {
	var cells [][]*html.Node // by row
	widest, count := 0, 0
	for tr := range table.Descendants() {
		if !is(tr, "tr") {
			continue
		}
		var row []*html.Node
		for cell := range tr.Descendants() {
			if is(cell, "td", "th") {
				row = append(row, cell)
			}
		}
		cells = append(cells, row)
		widest, count = max(widest, len(row)), count+len(row)
	}
	rows = int64(len(cells))
	widths := make([]int, rows)
	for i, row := range cells {
		for _, cell := range row {
			across := limitSpan(cell, "colspan", min(widest, maxSpan))
			down := limitSpan(cell, "rowspan", len(cells)-i)
			if empty += int64(across)*int64(down) - 1; empty > room {
				return rows, columns, empty
			}
			for j := range down {
				widths[i+j] += across
				columns = max(columns, int64(widths[i+j]))
			}
		}
	}
	return rows, columns, rows*columns - int64(count)
}

// limitSpan returns the number of columns or rows of a cell, and stores it if it exceeded the
// limit.
func limitSpan(cell *html.Node, key string, limit int) int {
	for i := range cell.Attr {
		if a := &cell.Attr[i]; a.Key == key {
			n, err := strconv.Atoi(a.Val)
			if n > limit {
				n = limit
				a.Val = strconv.Itoa(n)
			}
			if err != nil && !errors.Is(err, strconv.ErrRange) {
				return 1
			}
			return max(n, 1)
		}
	}
	return 1
}

// content returns the main content of a page, if it can be detected and makes up a good part of the
// page. Otherwise it returns the page without navigation and footers.
func content(page *html.Node) *html.Node {
	remove(page, "script", "style", "noscript", "template", "svg", "iframe")
	page = without(page, "nav", "footer")
	all := length(page)
	if all < 2000 { // too short to leave more out
		return page
	}
	// Some frameworks put whole pages into a form.
	part := clone(without(page, "aside", "form", "button"))
	if article, err := readability.FromDocument(part, &url.URL{Scheme: "file"}); err == nil && article.Node != nil {
		// On pages of many small parts, readability chooses only one of them.
		if n := len(strings.TrimSpace(article.TextContent)); n*3 >= all || n >= 20_000 {
			return article.Node
		}
	}
	return page
}

// without returns a copy of a page without some elements, or the page itself if they hold most of
// its text.
func without(page *html.Node, tags ...string) *html.Node {
	rest := clone(page)
	if remove(rest, tags...); length(rest)*3 < length(page) {
		return page
	}
	return rest
}

// is reports whether a node is one of some elements.
func is(n *html.Node, tags ...string) bool {
	return n.Type == html.ElementNode && slices.Contains(tags, n.Data)
}

func find(n *html.Node, tag string) *html.Node {
	for d := range n.Descendants() {
		if is(d, tag) && d.Namespace == "" { // drawings have titles, too
			return d
		}
	}
	return nil
}

// remove deletes elements from a page.
func remove(n *html.Node, tags ...string) {
	var gone []*html.Node
	for d := range n.Descendants() {
		if is(d, tags...) {
			gone = append(gone, d)
		}
	}
	for _, d := range gone {
		d.Parent.RemoveChild(d)
	}
}

// length returns the number of bytes of the text of a page.
func length(n *html.Node) int {
	var s strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			s.WriteString(d.Data)
		}
	}
	return len(strings.TrimSpace(s.String()))
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
