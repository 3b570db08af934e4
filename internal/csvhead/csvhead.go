// Package csvhead reads from the first line of a CSV file how its cells are separated.
package csvhead

import (
	"strings"
	"unicode/utf8"
)

// Separator returns the separator of the cells of a file that begins with head: the one that a
// first line sep=; states, a tab if the name of the file says so, or else a semicolon or a comma,
// whichever is more frequent in the first line. Programs write semicolons where the comma is a
// decimal point. It also reports whether the first line states the separator, as Excel writes it,
// and so holds no names.
func Separator(head string, tabs bool) (separator rune, stated bool) {
	line, _, _ := strings.Cut(head, "\n")
	line = strings.TrimSuffix(line, "\r")
	const key = "sep="
	if len(line) > len(key) && strings.EqualFold(line[:len(key)], key) {
		r, n := utf8.DecodeRuneInString(line[len(key):])
		if len(key)+n == len(line) && r != utf8.RuneError && r != '"' && r != '\r' {
			return r, true
		}
	}
	switch {
	case tabs:
		return '\t', false
	case strings.Count(line, ";") > strings.Count(line, ","):
		return ';', false
	}
	return ',', false
}
