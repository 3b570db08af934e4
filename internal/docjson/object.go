package docjson

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/internal/document"
)

// A Reader reads the next value of a JSON text, strictly and with the number types of metadata:
// keys of an object are unique, strings are UTF-8, integers keep their value, and nesting is
// limited. Its methods fail if the next value is of another kind.
type Reader struct {
	json jsonReader
	// whole says that the limit of values holds for the whole text, not for each value.
	whole bool
}

// NewReader returns a reader of one text, such as a document. The limit of decoded values holds for
// the whole text.
func NewReader(b []byte) *Reader { return &Reader{json: jsonReader{b: b}, whole: true} }

// start begins a value that the caller keeps.
func (r *Reader) start() {
	if !r.whole {
		r.json.values = 0
	}
}

// Offset returns the position of the reader in its text, after an error the position of the error.
func (r *Reader) Offset() int64 { return int64(r.json.at) }

// End returns an error unless only white space is left.
func (r *Reader) End() error { return r.json.end() }

// Members calls member with each key of an object, in order; member must read the value. Unlike
// Object, it accepts any number of keys, and leaves repeated keys to the caller.
func (r *Reader) Members(member func(key string) error) error { return r.json.members(member) }

// ReadObject calls member with each key of the object in b, in order; member must read the value. A
// duplicate key and any text after the object are errors. Every error is a *FormatError around the
// error of member.
func ReadObject(b []byte, member func(key string, r *Reader) error) error {
	r := Reader{json: jsonReader{b: b}}
	err := r.Object(func(key string) error { return member(key, &r) })
	if err == nil {
		err = r.json.end()
	}
	if err != nil {
		return &FormatError{Offset: int64(r.json.at), Err: err}
	}
	return nil
}

// Object calls member with each key of an object, which may have at most 64.
func (r *Reader) Object(member func(key string) error) error {
	const most = 64
	var keys []string
	return r.json.members(func(key string) error {
		switch {
		case slices.Contains(keys, key):
			return fmt.Errorf("key %.40q is given twice", key)
		case len(keys) == most:
			return fmt.Errorf("more than %d keys", most)
		}
		keys = append(keys, key)
		return member(key)
	})
}

// Array calls element for each element of an array.
func (r *Reader) Array(element func() error) error {
	if err := r.want('[', "an array"); err != nil {
		return err
	}
	r.json.at++
	if r.json.skip() == ']' {
		r.json.at++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if r.json.skip() == ']' {
			r.json.at++
			return nil
		}
		if err := r.json.want(','); err != nil {
			return err
		}
	}
}

func (r *Reader) want(c byte, what string) error {
	switch got := r.json.skip(); {
	case r.json.at == len(r.json.b):
		return io.ErrUnexpectedEOF
	case got != c:
		return fmt.Errorf("%s instead of %s", describe(r.json.b[r.json.at:]), what)
	}
	return nil
}

// Null passes over null, and reports whether it was next.
func (r *Reader) Null() bool { return r.json.skip() == 'n' && r.json.word("null") }

// Is reports whether a value that begins with c is next: '{', '[' or '"'.
func (r *Reader) Is(c byte) bool { return r.json.skip() == c }

// String reads a string.
func (r *Reader) String() (string, error) {
	if err := r.want('"', "a string"); err != nil {
		return "", err
	}
	return r.json.string()
}

// Strings reads an array of at most limit strings.
func (r *Reader) Strings(limit int) (list []string, err error) {
	err = r.Array(func() error {
		if len(list) == limit {
			return fmt.Errorf("%w: more than %d strings", document.ErrInvalid, limit)
		}
		s, err := r.String()
		list = append(list, s)
		return err
	})
	return list, err
}

// Bool reads true or false.
func (r *Reader) Bool() (bool, error) {
	switch c := r.json.skip(); {
	case c == 't' && r.json.word("true"):
		return true, nil
	case c == 'f' && r.json.word("false"):
		return false, nil
	case r.json.at == len(r.json.b):
		return false, io.ErrUnexpectedEOF
	default:
		return false, fmt.Errorf("%s instead of true or false", describe(r.json.b[r.json.at:]))
	}
}

func (r *Reader) number(what string) (any, error) {
	switch c := r.json.skip(); {
	case r.json.at == len(r.json.b):
		return nil, io.ErrUnexpectedEOF
	case c != '-' && c-'0' > 9 && c != 'N' && c != 'I':
		return nil, fmt.Errorf("%s instead of %s", describe(r.json.b[r.json.at:]), what)
	}
	return r.json.number()
}

// Int reads an integer, written without fraction and exponent, from low to high.
func (r *Reader) Int(low, high int) (int, error) {
	r.json.skip()
	start := r.json.at
	v, err := r.number("an integer")
	if err != nil {
		return 0, err
	}
	n, ok := v.(int64)
	if !ok { // as it is written: 1.0 would print as 1
		return 0, fmt.Errorf("%.40s instead of an integer", r.json.b[start:r.json.at])
	}
	if n < int64(low) || n > int64(high) {
		return 0, fmt.Errorf("%w: %d, want %d to %d", document.ErrInvalid, n, low, high)
	}
	return int(n), nil
}

// Float reads a number.
func (r *Reader) Float() (float64, error) {
	switch v, err := r.number("a number"); v := v.(type) {
	case int64:
		return float64(v), err
	case float64:
		return v, err
	default:
		return 0, err
	}
}

// Vector reads an array of numbers as ParseVector does. The result of an empty array is not nil.
func (r *Reader) Vector() ([]float32, error) {
	if r.json.skip(); r.json.at == len(r.json.b) {
		return nil, io.ErrUnexpectedEOF
	}
	v, end, err := appendArray([]float32{}, r.json.b, r.json.at)
	r.json.at = end
	return v, err
}

// Metadata reads an object as metadata.
func (r *Reader) Metadata() (map[string]any, error) {
	if err := r.want('{', "an object"); err != nil {
		return nil, err
	}
	r.start()
	return r.json.object(0)
}

// ReadMetadata reads a text that is one object of metadata. null gives a nil map. Every error is a
// *FormatError.
func ReadMetadata(b []byte) (m map[string]any, err error) {
	r := Reader{json: jsonReader{b: b}}
	if !r.Null() {
		m, err = r.json.object(0)
	}
	if err == nil {
		err = r.json.end()
	}
	if err != nil {
		return nil, &FormatError{Offset: int64(r.json.at), Err: err}
	}
	return m, nil
}

// OptionalString reads a string or null, which is the empty string.
func (r *Reader) OptionalString() (string, error) {
	if r.Null() {
		return "", nil
	}
	return r.String()
}

// ID reads the id of a document: a string, null, or the digits of an integer.
func (r *Reader) ID() (string, error) {
	if c := r.json.skip(); c != '-' && c-'0' > 9 {
		return r.OptionalString()
	}
	start := r.json.at
	v, err := r.json.number()
	if err != nil {
		return "", err
	}
	text := r.json.b[start:r.json.at]
	if _, ok := v.(int64); !ok {
		return "", fmt.Errorf("%w: id %.40s is neither a string nor an integer", document.ErrInvalid, text)
	}
	return string(text), nil
}

// OptionalVector reads an array of numbers, or null, into a new slice of exact size; it grows only
// scratch. The result of an empty array is nil.
func (r *Reader) OptionalVector(scratch *[]float32) ([]float32, error) {
	if r.Null() {
		return nil, nil
	}
	v, end, err := appendArray((*scratch)[:0], r.json.b, r.json.at)
	*scratch, r.json.at = v, end
	if err != nil || len(v) == 0 {
		return nil, err
	}
	return slices.Clone(v), nil
}

// First returns the first byte of b that is not white space, and whether there is one.
func First(b []byte) (c byte, ok bool) {
	if i := skipSpace(b, 0); i < len(b) {
		return b[i], true
	}
	return 0, false
}

// Footprint returns an upper bound for the memory, in bytes, of the decoded values of a JSON text,
// whether this package or encoding/json decodes them. The text itself is not included. It counts
// without decoding.
func Footprint(b []byte) int64 {
	var m Meter
	m.Add(b)
	return m.Footprint()
}

// A Meter computes the Footprint of a text that arrives in parts.
type Meter struct {
	n                 int64
	inString, escaped bool
}

// Footprint returns the Footprint of the parts so far.
func (m *Meter) Footprint() int64 { return m.n + 64 }

// Add adds the next part of the text.
func (m *Meter) Add(b []byte) {
	const each, list, object = 24, 40, 320 // an element with its box; a slice; a map with its first group
	m.n += int64(len(b))
	for _, c := range b {
		switch {
		case m.escaped:
			m.escaped = false
		case c == '"':
			m.inString = !m.inString
		case m.inString:
			m.escaped = c == '\\'
		case c == ',':
			m.n += each
		case c == '[':
			m.n += list
		case c == '{':
			m.n += object
		}
	}
}

// Value reads any value.
func (r *Reader) Value() (any, error) {
	r.start()
	return r.json.value(0)
}

// Raw skips any value and returns its text. It looks only for the end of the text; errors inside
// are left to the decoder of that text.
func (r *Reader) Raw() ([]byte, error) {
	r.json.skip()
	start := r.json.at
	err := r.json.pass()
	return r.json.b[start:r.json.at], err
}

// AppendValue appends a metadata value as JSON: string, bool, int64, float64, nil, and lists and
// maps of them. A float64 without a fraction has ".0", keys are sorted.
func AppendValue(dst []byte, v any) ([]byte, error) { return appendValue(dst, v) }

// AppendString appends s as a JSON string; invalid UTF-8 becomes U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst, err := appendString(dst, s)
	if err != nil {
		dst, _ = appendString(dst, strings.ToValidUTF8(s, "\ufffd"))
	}
	return dst
}

// AppendVector appends v as a JSON array that ParseVector reads back bit by bit.
func AppendVector(dst []byte, v []float32) ([]byte, error) { return appendVector(dst, v) }
