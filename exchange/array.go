package exchange

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// startsArray reports whether the input begins with an array. It passes over white space and a byte
// order mark.
func startsArray(r *bufio.Reader) bool {
	if head, _ := r.Peek(len(byteOrderMark)); string(head) == byteOrderMark {
		_, _ = r.Discard(len(byteOrderMark))
	}
	const most = 1024
	for n := 1; n < most; n++ {
		head, err := r.Peek(n)
		if err != nil {
			return false
		}
		if !bytes.ContainsRune([]byte(" \t\r\n"), rune(head[n-1])) {
			return head[n-1] == '['
		}
	}
	return false
}

const byteOrderMark = "\xef\xbb\xbf"

// inUTF16 reports whether a text begins with a byte order mark of UTF-16. Windows writes the output
// of commands so.
func inUTF16(head []byte) bool {
	return bytes.HasPrefix(head, []byte("\xff\xfe")) || bytes.HasPrefix(head, []byte("\xfe\xff"))
}

var errUTF16 = errors.New("the text is in UTF-16, and has to be in UTF-8")

// An arrayReader divides an array of objects into its elements, without parsing them.
type arrayReader struct {
	r      *bufio.Reader
	offset int64 // bytes read
	n      int64 // elements read
	buf    []byte
}

// space returns the next byte that is not white space.
func (a *arrayReader) space() (byte, error) {
	for {
		c, err := a.r.ReadByte()
		if err != nil {
			return 0, err
		}
		if a.offset++; c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c, nil
		}
	}
}

// next returns the next element, which is valid until the next call, and its offset; io.EOF at the
// end of the array.
func (a *arrayReader) next() (element []byte, offset int64, err error) {
	c, err := a.space()
	if err == nil && a.n == 0 && c == '[' {
		c, err = a.space()
		if err == nil && c == ']' {
			return nil, a.offset, a.end()
		}
	} else if err == nil && c == ']' {
		return nil, a.offset, a.end()
	} else if err == nil && c == ',' {
		c, err = a.space()
	} else if err == nil {
		err = fmt.Errorf("%q instead of a comma or the end of the array", c)
	}
	offset = a.offset - 1
	if err == nil && c != '{' {
		err = fmt.Errorf("%q instead of an object: an array to import has objects", c)
	}
	if err != nil {
		return nil, offset, unexpectedEnd(err)
	}
	a.n++
	return a.object(offset)
}

// object reads the rest of an object.
func (a *arrayReader) object(offset int64) ([]byte, int64, error) {
	a.buf = append(a.buf[:0], '{')
	depth, inString, escaped := 1, false, false
	for depth > 0 {
		c, err := a.r.ReadByte()
		if err == nil && len(a.buf) >= maxLine {
			err = errors.New("object too long")
		}
		if err != nil {
			return nil, a.offset, unexpectedEnd(err)
		}
		a.offset++
		a.buf = append(a.buf, c)
		switch {
		case escaped:
			escaped = false
		case inString:
			escaped, inString = c == '\\', c != '"'
		case c == '"':
			inString = true
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
	}
	return a.buf, offset, nil
}

// end returns io.EOF if only white space follows the array.
func (a *arrayReader) end() error {
	c, err := a.space()
	if err == nil {
		err = fmt.Errorf("%q after the array", c)
	}
	return err
}

func unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// array yields the documents of an array of objects. Its positions are elements, from 0.
func (s *jsonlSource) array(ctx context.Context, in *bufio.Reader, yield func(*ImportedDocument, error) bool) {
	a := arrayReader{r: in}
	parser := documentParser{scratch: new([]float32)}
	for {
		if err := ctx.Err(); err != nil {
			yield(nil, err)
			return
		}
		element, offset, err := a.next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			yield(nil, &FormatError{Name: s.in.path, Offset: offset, Err: err})
			return
		}
		doc, err := parser.document(element, Position{File: s.in.path, Unit: "element", N: a.n - 1})
		if f, ok := errors.AsType[*FormatError](err); ok {
			f.Line, f.Offset = 0, f.Offset+offset
		}
		if err != nil {
			yield(nil, err)
			return
		}
		if doc.Done = a.offset; !yield(doc, nil) {
			return
		}
	}
}
