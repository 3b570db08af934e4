package docjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/jsontext"
)

// jsonReader reads JSON into metadata values: integers become int64, numbers with a fraction or an
// exponent float64, both without loss. encoding/json has no such mode and reads vectors slowly.
// Reading stops at the first error; at is then its position.
type jsonReader struct {
	b      []byte
	at     int
	values int // decoded since the last start
}

// maxValues is the maximum number of values in metadata: each takes at least one byte of the stored
// form.
const maxValues = document.MaxMetadataLen

// maxNesting limits the depth of objects and arrays. It exceeds the limit of the database, so that
// the database reports metadata that is nested too deep.
const maxNesting = 4 * document.MaxMetadataDepth

// skip passes over white space and returns the byte that follows, 0 at the end.
func (r *jsonReader) skip() byte {
	r.at = skipSpace(r.b, r.at)
	if r.at == len(r.b) {
		return 0
	}
	return r.b[r.at]
}

// end returns an error unless only white space is left.
func (r *jsonReader) end() error {
	if r.skip(); r.at < len(r.b) {
		return fmt.Errorf("%s after the value", quoted(r.b[r.at]))
	}
	return nil
}

// want passes over the byte c.
func (r *jsonReader) want(c byte) error {
	switch r.skip() {
	case c:
		r.at++
		return nil
	case 0:
		if r.at == len(r.b) {
			return io.ErrUnexpectedEOF
		}
	}
	return fmt.Errorf("%s instead of %s", quoted(r.b[r.at]), quoted(c))
}

// members calls read with each key of an object, in its order; read must pass over the value.
func (r *jsonReader) members(read func(key string) error) error {
	if c := r.skip(); c != '{' && r.at < len(r.b) {
		return fmt.Errorf("%s instead of an object", describe(r.b[r.at:]))
	}
	if err := r.want('{'); err != nil {
		return err
	}
	if r.skip() == '}' {
		r.at++
		return nil
	}
	for {
		if c := r.skip(); c != '"' && r.at < len(r.b) {
			return fmt.Errorf("%s instead of a key", describe(r.b[r.at:]))
		}
		key, err := r.string()
		if err != nil {
			return err
		}
		if err := r.want(':'); err != nil {
			return err
		}
		if err := read(key); err != nil {
			return err
		}
		if r.skip() == '}' {
			r.at++
			return nil
		}
		if err := r.want(','); err != nil {
			return err
		}
	}
}

func (r *jsonReader) object(depth int) (map[string]any, error) {
	m := map[string]any{}
	err := r.members(func(key string) error {
		if _, ok := m[key]; ok {
			return fmt.Errorf("key %.40q is given twice", key)
		}
		v, err := r.value(depth + 1)
		m[key] = v
		return err
	})
	return m, err
}

func (r *jsonReader) array(depth int) ([]any, error) {
	if err := r.want('['); err != nil {
		return nil, err
	}
	list := []any{}
	if r.skip() == ']' {
		r.at++
		return list, nil
	}
	for {
		v, err := r.value(depth + 1)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
		if r.skip() == ']' {
			r.at++
			return list, nil
		}
		if err := r.want(','); err != nil {
			return nil, err
		}
	}
}

func (r *jsonReader) value(depth int) (any, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("nested deeper than %d", maxNesting)
	}
	if r.values++; r.values > maxValues {
		return nil, fmt.Errorf("%w: more than %d values", document.ErrInvalid, maxValues)
	}
	switch c := r.skip(); {
	case c == '"':
		return r.string()
	case c == '{':
		return r.object(depth)
	case c == '[':
		return r.array(depth)
	case c == 't' && r.word("true"):
		return true, nil
	case c == 'f' && r.word("false"):
		return false, nil
	case c == 'n' && r.word("null"):
		return nil, nil
	case r.at == len(r.b):
		return nil, io.ErrUnexpectedEOF
	case c == '-' || c-'0' <= 9 || c == 'N' || c == 'I': // number has its own error for NaN and Infinity
		return r.number()
	}
	return nil, fmt.Errorf("%s instead of a value", quoted(r.b[r.at]))
}

// pass skips a value; it looks at brackets and strings only.
func (r *jsonReader) pass() error {
	depth := 0
	for {
		switch c := r.skip(); {
		case r.at == len(r.b):
			return io.ErrUnexpectedEOF
		case c == '"':
			if err := r.passString(); err != nil {
				return err
			}
		case c == '{' || c == '[':
			if depth++; depth > maxNesting {
				return fmt.Errorf("nested deeper than %d", maxNesting)
			}
			r.at++
			continue
		case c == '}' || c == ']':
			if depth--; depth < 0 {
				return fmt.Errorf("%s instead of a value", quoted(c))
			}
			r.at++
		case c == ',' || c == ':':
			if depth == 0 {
				return fmt.Errorf("%s instead of a value", quoted(c))
			}
			r.at++
			continue
		default:
			start := r.at
			for r.at < len(r.b) && !strings.ContainsRune("\"{}[],: \t\r\n", rune(r.b[r.at])) {
				r.at++
			}
			if r.at == start {
				return fmt.Errorf("%s instead of a value", quoted(c))
			}
		}
		if depth == 0 {
			return nil
		}
	}
}

// passString passes over a string.
func (r *jsonReader) passString() error {
	for r.at++; r.at < len(r.b); r.at++ {
		switch r.b[r.at] {
		case '\\':
			r.at++
		case '"':
			r.at++
			return nil
		}
	}
	r.at = len(r.b)
	return io.ErrUnexpectedEOF
}

func (r *jsonReader) word(w string) bool {
	if !bytes.HasPrefix(r.b[r.at:], []byte(w)) {
		return false
	}
	r.at += len(w)
	return true
}

func (r *jsonReader) number() (any, error) {
	end, err := scanNumber(r.b, r.at)
	if err != nil {
		r.at = end
		return nil, err
	}
	token := string(r.b[r.at:end])
	if !strings.ContainsAny(token, ".eE") {
		n, err := strconv.ParseInt(token, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: integer %.40s does not fit int64", document.ErrInvalid, token)
		}
		r.at = end
		return n, nil
	}
	f, err := strconv.ParseFloat(token, 64)
	if err != nil {
		return nil, fmt.Errorf("%w: number %.40s does not fit float64", document.ErrInvalid, token)
	}
	r.at = end
	return f, nil
}

// string reads a string. It refuses invalid UTF-8 and half a surrogate pair, which no string of Go
// can hold: different ids would become equal.
func (r *jsonReader) string() (string, error) {
	if err := r.want('"'); err != nil {
		return "", err
	}
	start := r.at
	escaped := false
	for ; r.at < len(r.b); r.at++ {
		switch c := r.b[r.at]; {
		case c == '\\':
			escaped = true
			r.at++
		case c < 0x20:
			return "", fmt.Errorf("%s in a string", quoted(c))
		case c == '"':
			raw := r.b[start:r.at]
			if !utf8.Valid(raw) {
				r.at = start
				return "", fmt.Errorf("string is not valid UTF-8")
			}
			r.at++
			if !escaped {
				return string(raw), nil
			}
			if bad := jsontext.Bad(raw); bad >= 0 {
				r.at = start + bad
				return "", errors.New("string with half a surrogate pair")
			}
			var s string
			if err := json.Unmarshal(r.b[start-1:r.at], &s); err != nil {
				r.at = start
				return "", fmt.Errorf("string with an invalid escape")
			}
			return s, nil
		}
	}
	r.at = len(r.b) // a final backslash may have moved at beyond the end
	return "", io.ErrUnexpectedEOF
}

// appendString appends s as a JSON string with the minimum of escapes.
func appendString(dst []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return dst, fmt.Errorf("%w: string %.40q is not valid UTF-8, which JSON cannot carry", document.ErrInvalid, s)
	}
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	done := 0
	for i := range len(s) {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[done:i]...)
		done = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(dst, s[done:]...), '"'), nil
}

// appendValue appends a metadata value so that jsonReader.value returns the same value: keys in
// bytewise order, and a float64 without a fraction with ".0", to distinguish it from an int64.
func appendValue(dst []byte, v any) (_ []byte, err error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return appendString(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return dst, fmt.Errorf("%w: number %v, which JSON cannot carry", document.ErrInvalid, v)
		}
		start := len(dst)
		dst = strconv.AppendFloat(dst, v, 'g', -1, 64)
		if !bytes.ContainsAny(dst[start:], ".e") {
			dst = append(dst, ".0"...)
		}
		return dst, nil
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendValue(dst, e); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	case map[string]any:
		dst = append(dst, '{')
		for i, key := range sortedKeys(v) {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendString(dst, key); err != nil {
				return dst, err
			}
			if dst, err = appendValue(append(dst, ':'), v[key]); err != nil {
				return dst, err
			}
		}
		return append(dst, '}'), nil
	}
	return dst, fmt.Errorf("%w: a value of type %T in metadata", document.ErrInvalid, v)
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// doublyRounded is the magnitude of 7.038531e-26, the only float32 whose shortest decimal, parsed
// as float64 and rounded, gives another float32. All others were tested.
const doublyRounded = 0x15ae43fd

// appendVector appends v as a JSON array. Each element has the fewest digits from which ParseVector
// returns the same float32.
func appendVector(dst []byte, v []float32) ([]byte, error) {
	dst = append(dst, '[')
	for i, f := range v {
		if i > 0 {
			dst = append(dst, ',')
		}
		if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
			return dst, &VectorError{Index: i, Offset: len(dst), Err: fmt.Errorf("%w: %v", ErrNotFinite, f)}
		}
		bits := 32
		if math.Float32bits(f)&^(1<<31) == doublyRounded {
			bits = 64
		}
		dst = strconv.AppendFloat(dst, float64(f), 'g', -1, bits)
	}
	return append(dst, ']'), nil
}
