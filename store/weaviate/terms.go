package weaviate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"strings"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

// The terms of a document, for each path of its metadata, escaped:
//
//	?path          it exists
//	=path:value    it has this scalar value
//	@path:value    it is a list with this element
//	>path:kind…    it is a number (kind n) or a string (s) whose sortable form
//	               begins with …
//
// Values are "0" for null, "f" and "t", n and a sortable form, or s and the
// escaped string. Terms are printable ASCII without spaces: the tokenization
// "field" trims, and Like has wildcards.
const (
	termExists  = '?'
	termEqual   = '='
	termElement = '@'
	termPrefix  = '>'

	kindNumber = 'n'
	kindString = 's'
)

const (
	// sortBytes is the number of sortable bytes of a string: enough for a date.
	sortBytes = 10
	// wholeBytes is the number of bytes of a string in its term; longer strings add a hash.
	wholeBytes = 120
)

// termsOf returns the terms of metadata.
func termsOf(m db.Metadata) []string {
	var terms []string
	seen := map[string]bool{}
	add := func(term string) {
		if !seen[term] {
			seen[term] = true
			terms = append(terms, term)
		}
	}
	filter.Flatten(m, func(path string, v any) bool {
		path = escapePath(path)
		add(string(termExists) + path)
		if list, ok := v.([]any); ok {
			for _, e := range list {
				if value, ok := valueTerm(e); ok {
					add(string(termElement) + path + ":" + value)
				}
			}
			return true
		}
		value, ok := valueTerm(v)
		if !ok {
			return true // a map
		}
		add(string(termEqual) + path + ":" + value)
		if kind, key := sortable(v); kind != 0 {
			for i := range len(key) + 1 {
				add(prefixTerm(path, kind, key[:i]))
			}
		}
		return true
	})
	return terms
}

func prefixTerm(path string, kind byte, key string) string {
	return string(termPrefix) + path + ":" + string(kind) + key
}

// valueTerm returns the form of a scalar.
func valueTerm(v any) (string, bool) {
	switch v := v.(type) {
	case nil:
		return "0", true
	case bool:
		return map[bool]string{false: "f", true: "t"}[v], true
	case string:
		if len(v) <= wholeBytes {
			return string(kindString) + escape(v), true
		}
		sum := sha256.Sum256([]byte(v))
		return string(kindString) + escape(v[:wholeBytes]) + "~" + hex.EncodeToString(sum[:]), true
	case int64, float64:
		return string(kindNumber) + sortableNumber(v), true
	}
	return "", false
}

// sortable returns the kind and the sortable form of a value that has an order; 0 for others. For a
// string it is its first sortBytes bytes in hexadecimal digits.
func sortable(v any) (kind byte, key string) {
	switch v := v.(type) {
	case string:
		return kindString, hex.EncodeToString([]byte(v[:min(sortBytes, len(v))]))
	case int64, float64:
		return kindNumber, sortableNumber(v)
	}
	return 0, ""
}

// sortableNumber returns hexadecimal digits in the order of the numbers: the bits of the nearest
// float64 that is not greater, mapped to an ascending order, and the remainder of an integer.
// Trailing zeros are removed, which keeps the order, and makes small numbers short.
func sortableNumber(v any) string {
	var f float64
	var rest uint64
	switch v := v.(type) {
	case float64:
		f = v
	case int64:
		f = float64(v)
		if c, _ := filter.Compare(f, v); c > 0 {
			f = math.Nextafter(f, math.Inf(-1))
		}
		rest = uint64(v) - uint64(int64(f)) // f is within int64: it is at most v
	}
	if f == 0 {
		f = 0 // not -0
	}
	bits := math.Float64bits(f)
	if bits>>63 == 0 {
		bits |= 1 << 63
	} else {
		bits = ^bits
	}
	return strings.TrimRight(fmt.Sprintf("%016x%03x", bits, rest), "0")
}

// escape returns s with every byte except letters, digits, - and _ as % and two hexadecimal digits.
// It preserves prefixes: one string is a prefix of another exactly if its escaped form is.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02x", c)
		}
	}
	return b.String()
}

// escapePath returns the form of a path; long ones are hashed.
func escapePath(path string) string {
	if e := escape(path); len(e) <= 400 {
		return e
	}
	sum := sha256.Sum256([]byte(path))
	return "~" + hex.EncodeToString(sum[:])
}
