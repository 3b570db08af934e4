package jsontext

import (
	"bytes"
	"strconv"
	"unicode/utf8"
)

// Bad returns the offset of the first byte that is not UTF-8, or of the first \u escape of half a
// surrogate pair, or -1. encoding/json replaces both by U+FFFD, so that different strings become
// equal. Escapes that JSON does not have are left to its decoder.
func Bad(text []byte) int {
	if utf8.Valid(text) && bytes.IndexByte(text, '\\') < 0 {
		return -1
	}
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		if r == '\\' {
			switch unit, ok := escapedUnit(text[i:]); {
			case !ok:
				n = 2 // another escape and its character
			case unit < 0xD800 || unit > 0xDFFF:
				n = 6
			default:
				low, ok := escapedUnit(text[i+6:])
				if unit > 0xDBFF || !ok || low < 0xDC00 || low > 0xDFFF {
					return i
				}
				n = 12
			}
		}
		i += n
	}
	return -1
}

// escapedUnit returns the UTF-16 unit if text begins with an escaped one: \u and four hexadecimal
// digits.
func escapedUnit(text []byte) (unit uint64, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return unit, err == nil
}
