package load

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/encoding/unicode/utf32"
)

// mark is the byte order mark of UTF-8.
const mark = "\xef\xbb\xbf"

// marked returns the encoding that a byte order mark tells, and whose decoder removes the mark. It
// is nil for text without a mark and for UTF-8.
func marked(b []byte) encoding.Encoding {
	switch {
	// UTF-32 comes first, because the mark of UTF-16 is the beginning of its mark.
	case bytes.HasPrefix(b, []byte("\xff\xfe\x00\x00")), bytes.HasPrefix(b, []byte("\x00\x00\xfe\xff")):
		return utf32.UTF32(utf32.LittleEndian, utf32.UseBOM)
	case bytes.HasPrefix(b, []byte("\xff\xfe")), bytes.HasPrefix(b, []byte("\xfe\xff")):
		return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM)
	}
	return nil
}

// decode detects the encoding of a text: a byte order mark, UTF-8, or UTF-16, which its zero bytes
// reveal. Anything else is Windows-1252, the most common other encoding on the web, or damaged
// UTF-8 if it has at least as many characters of several bytes as places that are invalid.
func decode(b []byte) (string, error) {
	if enc := marked(b); enc != nil {
		return decodeWide(b, enc)
	}
	b = bytes.TrimPrefix(b, []byte(mark))
	if zeros := bytes.Count(b, []byte{0}); zeros > 0 {
		// In Western text in UTF-16, every other byte is zero.
		even := 0
		for i := 0; i < len(b); i += 2 {
			if b[i] == 0 {
				even++
			}
		}
		if len(b)%2 == 0 && zeros > len(b)*2/5 && (even > zeros*19/20 || even < zeros/20) {
			e := unicode.LittleEndian
			if even > zeros/2 {
				e = unicode.BigEndian
			}
			return decodeWide(b, unicode.UTF16(e, unicode.IgnoreBOM))
		}
		return "", fmt.Errorf("%w: binary, zero byte at offset %d", ErrUnsupported, bytes.IndexByte(b, 0))
	}
	if bad, good := sequences(b); bad <= good {
		return newlines(repaired(b)), nil
	}
	out, err := charmap.Windows1252.NewDecoder().Bytes(b)
	return newlines(string(out)), err
}

// sequences counts the places where a text is not UTF-8, and its characters of several bytes. A
// letter of Windows-1252, such as é, is bad, because ASCII follows it. A character of several bytes
// would be a pair like Ã© in Windows-1252, which few texts have. A character that the end cuts off
// is neither.
func sequences(b []byte) (bad, good int) {
	for len(b) > 0 {
		if b[0] < utf8.RuneSelf {
			b = b[1:]
			continue
		}
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			if n = broken(b); n == 1 || n < len(b) {
				bad++
			}
		} else {
			good++
		}
		b = b[n:]
	}
	return bad, good
}

// broken returns the length of the broken character that b begins with: the longest part that could
// be the beginning of a character, such as at the end of a file that was cut.
func broken(b []byte) int {
	n := 1
	for n < min(len(b), utf8.UTFMax) && !utf8.FullRune(b[:n]) {
		n++
	}
	if n > 1 && utf8.FullRune(b[:n]) { // the last byte does not continue it
		n--
	}
	return n
}

// repaired returns a text in UTF-8 with U+FFFD in place of each broken character.
func repaired(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var text strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n = broken(b)
		}
		text.WriteRune(r)
		b = b[n:]
	}
	return text.String()
}

// decodeWide decodes UTF-16 or UTF-32. No text has zero characters, so they mean that the file is
// something else.
func decodeWide(b []byte, enc encoding.Encoding) (string, error) {
	out, err := enc.NewDecoder().Bytes(b)
	if i := bytes.IndexByte(out, 0); i >= 0 {
		return "", fmt.Errorf("%w: binary, zero character at offset %d of the decoded text", ErrUnsupported, i)
	}
	return newlines(string(out)), err
}

// frontMatter moves the YAML at the beginning of a Markdown file into the metadata. Invalid YAML
// stays in the text, and so does YAML that is nested too deep for metadata.
func frontMatter(doc *Document) error {
	const fence = "---\n"
	rest, ok := strings.CutPrefix(doc.Text, fence)
	if !ok {
		return nil
	}
	end := strings.Index("\n"+rest, "\n"+fence)
	if last := strings.TrimSuffix(fence, "\n"); end < 0 && strings.HasSuffix("\n"+rest, "\n"+last) {
		end = len(rest) - len(last)
	}
	if end < 0 {
		return nil
	}
	matter := rest[:end]
	long := len(matter) > maxMatter || len(lexer.Tokenize(matter)) > maxTokens
	if long { // the first lines show whether it is prose between two rules
		matter = matter[:strings.LastIndexByte(matter[:min(len(matter), 16<<10)], '\n')+1]
	}
	if nesting(lexer.Tokenize(matter)) > maxNesting {
		return nil
	}
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(matter), &fields); err != nil {
		return nil
	}
	if long && len(fields) == 0 { // headings are comments in YAML, and a first line may have no end here
		return nil
	}
	if long {
		return fmt.Errorf("%w: front matter of more than %d tokens of YAML, or %d bytes", ErrTooLarge, maxTokens, maxMatter)
	}
	if room := maxValues; !fits(fields, &room) {
		return fmt.Errorf("%w: front matter of more than %d values", ErrTooLarge, maxValues)
	}
	for k, v := range fields {
		doc.Metadata[k] = plain(v)
	}
	doc.Title, _ = fields["title"].(string)
	n := min(len(fence)+end+len(fence), len(doc.Text))
	doc.Base += n
	doc.line = strings.Count(doc.Text[:n], "\n")
	doc.Text = doc.Text[n:]
	return nil
}

// Limits of the front matter of a file. The time that YAML takes grows with the square of the
// fields of a map, and of the depth of lists: 10,000 fields take half a second. A field in a line
// of its own has three tokens.
const (
	maxMatter = 2 << 20 // bytes
	maxTokens = 30_000

	// maxNesting is more than metadata may have. 29,900 lists within each other took 1.4 GB.
	maxNesting = 64
)

// nesting returns how deep lists and maps are within each other. In blocks their columns tell.
func nesting(tokens token.Tokens) int {
	flow, deepest := 0, 0 // flow: within brackets and braces
	var block []int       // columns
	for _, t := range tokens {
		column := 0
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType:
			column = t.Position.Column
		case token.MappingValueType:
			if t.Prev != nil {
				column = t.Prev.Position.Column // of the key
			}
		}
		if column > 0 && flow <= 0 {
			for len(block) > 0 && block[len(block)-1] >= column {
				block = block[:len(block)-1]
			}
			block = append(block, column)
		}
		deepest = max(deepest, flow+len(block))
	}
	return deepest
}

// maxValues is the maximum number of values in the front matter of a file. Aliases of YAML can
// repeat each other, so that a few lines stand for billions of values.
const maxValues = 1 << 20

// fits reports whether v consists of at most room values, and takes them from room.
func fits(v any, room *int) bool {
	if *room--; *room < 0 {
		return false
	}
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			if !fits(x, room) {
				return false
			}
		}
	case map[string]any:
		for _, x := range v {
			if !fits(x, room) {
				return false
			}
		}
	}
	return true
}
