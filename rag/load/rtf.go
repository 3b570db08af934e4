package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
)

// readRTF reads a document in the Rich Text Format (specification 1.9.1) as Markdown: paragraphs,
// headings by their outline level, and rows of tables.
func readRTF(_ context.Context, doc *Document, b []byte, limit int64) error {
	if !bytes.HasPrefix(b, []byte(`{\rtf`)) {
		return errors.New(`no {\rtf at the beginning`)
	}
	r := &rtf{b: b, text: newMarkdown(limit), fonts: map[int]encoding.Encoding{}, page: charmap.Windows1252}
	r.state = rtfState{outline: -1, font: -1, unicodeSkip: 1}
	if err := r.run(); err != nil {
		return fmt.Errorf("offset %d: %w", r.at, err)
	}
	doc.Title = oneLine(r.title.String())
	doc.Text = strings.TrimSpace(strings.ToValidUTF8(r.text.String(), "\ufffd"))
	return nil
}

// rtf reads a document.
type rtf struct {
	b     []byte
	at    int
	state rtfState
	stack []rtfState // of the open groups
	page  encoding.Encoding
	fonts map[int]encoding.Encoding

	text      *markdown
	title     strings.Builder
	paragraph strings.Builder
	cells     []string
	bytes     []byte   // not decoded yet: a character may have several
	units     []uint16 // not decoded yet: a character may have two
	skip      int      // characters that stand for a Unicode character in older programs
}

// rtfState is what the end of a group restores.
type rtfState struct {
	destination rtfDestination
	starred     bool // \* was read: the next word, if unknown, is a destination to pass over
	outline     int  // level of a heading, from 0; -1: none
	font        int
	unicodeSkip int
	inTable     bool
}

// A rtfDestination is where the text of a group goes.
type rtfDestination int

const (
	rtfBody rtfDestination = iota
	rtfTitle
	rtfFonts
	rtfNothing
)

// rtfIgnored are destinations without text of the document.
var rtfIgnored = []string{"colortbl", "stylesheet", "info", "pict", "header", "headerl", "headerr", "headerf", "footer",
	"footerl", "footerr", "footerf", "fldinst", "filetbl", "revtbl", "listtable", "xe", "tc",
	"bkmkstart", "bkmkend", "nonshppict", "sp", "shprslt",
	"annotation", "atnid", "atnauthor", "themedata", "datastore", "latentstyles", "generator"}

func (r *rtf) run() error {
	for r.at < len(r.b) {
		var err error
		switch c := r.b[r.at]; c {
		case '{':
			r.flush()
			if len(r.stack) == maxDepth {
				return fmt.Errorf("%w: more than %d groups within each other", ErrBroken, maxDepth)
			}
			r.stack = append(r.stack, r.state)
			r.state.starred = false
			r.at++
		case '}':
			r.flush()
			if len(r.stack) == 0 {
				return errors.New("a group ends that has not begun")
			}
			r.state = r.stack[len(r.stack)-1]
			r.stack = r.stack[:len(r.stack)-1]
			r.skip = 0
			if r.at++; len(r.stack) == 0 {
				return r.endParagraph() // what follows is not part of the document
			}
		case '\\':
			err = r.control()
		case '\r', '\n':
			r.at++
		default:
			r.char(c)
			r.at++
		}
		if err != nil {
			return err
		}
	}
	return errors.New("the last group has no end")
}

// char adds a byte in the code page of the font.
func (r *rtf) char(c byte) {
	if r.skip > 0 {
		r.skip--
		return
	}
	if len(r.units) > 0 {
		r.flush()
	}
	r.bytes = append(r.bytes, c)
}

// add adds characters.
func (r *rtf) add(s string) {
	r.flush()
	r.write(s)
}

func (r *rtf) write(s string) {
	switch r.state.destination {
	case rtfBody:
		r.paragraph.WriteString(s)
	case rtfTitle:
		r.title.WriteString(s)
	}
}

// flush decodes the bytes read so far.
func (r *rtf) flush() {
	if len(r.bytes) > 0 {
		page := r.page
		if own := r.fonts[r.state.font]; own != nil {
			page = own
		}
		if s, err := page.NewDecoder().Bytes(r.bytes); err == nil {
			r.write(string(s))
		}
		r.bytes = r.bytes[:0]
	}
	if len(r.units) > 0 {
		r.write(string(utf16.Decode(r.units)))
		r.units = r.units[:0]
	}
}

// control reads a control word or symbol.
func (r *rtf) control() error {
	r.at++
	if r.at == len(r.b) {
		return errors.New(`a \ at the end`)
	}
	switch c := r.b[r.at]; {
	case c == '\'':
		if r.at+3 > len(r.b) {
			return errors.New(`\' without two digits`)
		}
		v, err := strconv.ParseUint(string(r.b[r.at+1:r.at+3]), 16, 8)
		if err != nil {
			return fmt.Errorf(`\' without two digits: %q`, r.b[r.at+1:r.at+3])
		}
		r.char(byte(v))
		r.at += 3
		return nil
	case c < 'a' || c > 'z':
		r.at++
		return r.symbol(c)
	}
	start := r.at
	for r.at < len(r.b) && (r.b[r.at]|0x20 >= 'a' && r.b[r.at]|0x20 <= 'z') {
		r.at++
	}
	word := string(r.b[start:r.at])
	number := r.number()
	if r.at < len(r.b) && r.b[r.at] == ' ' {
		r.at++
	}
	return r.word(word, number)
}

// number reads the parameter of a control word; a missing one is 0.
func (r *rtf) number() int {
	const digits = 10
	start := r.at
	if r.at < len(r.b) && r.b[r.at] == '-' {
		r.at++
	}
	for r.at < len(r.b) && r.at-start <= digits && r.b[r.at] >= '0' && r.b[r.at] <= '9' {
		r.at++
	}
	n, _ := strconv.Atoi(string(r.b[start:r.at]))
	return n
}

func (r *rtf) symbol(c byte) error {
	switch c {
	case '\\', '{', '}':
		r.char(c)
	case '~':
		r.add("\u00a0")
	case '_':
		r.add("-")
	case '*':
		r.state.starred = true
	case '\r', '\n':
		return r.endParagraph()
	}
	return nil
}

// rtfCharacters are control words for characters.
var rtfCharacters = map[string]rune{"tab": '\t', "line": '\n', "emdash": '—', "endash": '–', "bullet": '•',
	"lquote": '‘', "rquote": '’',
	"ldblquote": '“', "rdblquote": '”', "emspace": ' ', "enspace": ' ', "qmspace": ' '}

func (r *rtf) word(word string, n int) error {
	starred := r.state.starred
	r.state.starred = false
	if c := rtfCharacters[word]; c != 0 {
		if r.skip > 0 {
			r.skip--
			return nil
		}
		r.add(string(c))
		return nil
	}
	switch word {
	case "par", "sect", "page":
		return r.endParagraph()
	case "cell", "nestcell":
		r.endCell()
	case "row":
		return r.endRow()
	case "pard":
		r.state.outline, r.state.inTable = -1, false
	case "intbl":
		r.state.inTable = true
	case "outlinelevel":
		r.state.outline = n
	case "plain":
		r.flush()
		r.state.font = -1
	case "u":
		r.unicode(n)
	case "uc":
		r.state.unicodeSkip = min(max(n, 0), 16)
	case "bin":
		r.flush()
		r.at += min(max(n, 0), len(r.b)-r.at)
	case "ansicpg", "f", "fcharset", "fonttbl", "mac", "pc", "pca":
		r.characterSet(word, n)
	case "title":
		r.state.destination = rtfTitle
	case "footnote":
		r.add(" ") // the note continues the sentence
	case "shpinst": // starred, but its groups hold text
	default:
		if starred || slices.Contains(rtfIgnored, word) {
			r.state.destination = rtfNothing
		}
	}
	return nil
}

// unicode adds a character that is followed by replacements for older programs.
func (r *rtf) unicode(n int) {
	if len(r.bytes) > 0 {
		r.flush()
	}
	if n < 0 {
		n += 1 << 16 // numbers are signed, with 16 bits
	}
	if n > 0 && n < 1<<16 {
		r.units = append(r.units, uint16(n))
	}
	r.skip = r.state.unicodeSkip
}

// characterSet handles words that choose how bytes are decoded.
func (r *rtf) characterSet(word string, n int) {
	r.flush()
	switch word {
	case "ansicpg":
		if e := codePage(n); e != nil {
			r.page = e
		}
	case "mac":
		r.page = charmap.Macintosh
	case "pc":
		r.page = charmap.CodePage437
	case "pca":
		r.page = charmap.CodePage850
	case "fonttbl":
		r.state.destination = rtfFonts
	case "f":
		r.state.font = n
	case "fcharset":
		if r.state.destination == rtfFonts && n > 1 { // 0 and 1 are the set of the document
			r.fonts[r.state.font] = codePage(fontSets[n])
		}
	}
}

// fontSets are the code pages of \fcharset.
var fontSets = map[int]int{77: 10000, 128: 932, 129: 949, 134: 936, 136: 950, 161: 1253, 162: 1254,
	163: 1258, 177: 1255, 178: 1256,
	186: 1257, 204: 1251, 222: 874, 238: 1250, 254: 437, 255: 850}

// codePage returns the encoding of a Windows code page, or nil if it is unknown.
func codePage(n int) encoding.Encoding {
	switch n {
	case 437:
		return charmap.CodePage437
	case 850:
		return charmap.CodePage850
	case 852:
		return charmap.CodePage852
	}
	names := map[int]string{866: "ibm866", 874: "windows-874", 932: "shift_jis", 936: "gbk", 949: "euc-kr",
		950: "big5", 10000: "macintosh", 65001: "utf-8"}
	name, ok := names[n]
	if !ok {
		name = "windows-" + strconv.Itoa(n)
	}
	e, _ := charset.Lookup(name)
	return e
}

// take returns the text of the paragraph, which begins again.
func (r *rtf) take() string {
	r.flush()
	s := r.paragraph.String()
	r.paragraph.Reset()
	return s
}

func (r *rtf) endParagraph() error {
	if r.state.destination != rtfBody {
		return nil
	}
	if r.flush(); r.state.inTable {
		r.paragraph.WriteByte(' ') // of a cell
		return nil
	}
	s := r.take()
	if strings.TrimSpace(s) == "" {
		return nil
	}
	if len(r.cells) == 0 && r.text.rows > 0 {
		r.text.endTable()
	}
	if r.state.outline >= 0 && r.state.outline < 9 {
		return r.text.heading(r.state.outline+1, s)
	}
	return r.text.paragraph("", s)
}

func (r *rtf) endCell() {
	if r.state.destination == rtfBody {
		r.cells = append(r.cells, oneLine(r.take()))
	}
}

func (r *rtf) endRow() error {
	if r.state.destination != rtfBody {
		return nil
	}
	cells := r.cells
	r.cells = nil
	return r.text.row(cells)
}
