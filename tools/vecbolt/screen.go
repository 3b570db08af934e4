package main

import (
	"io"
	"unicode"
	"unicode/utf8"
)

// A screen writes to a terminal. It replaces control characters: texts of documents must not clear
// it, set its title, or make it answer.
type screen struct {
	io.Writer
	rest []byte // the begin of a character
}

// Write implements io.Writer.
func (s *screen) Write(b []byte) (int, error) {
	in := append(s.rest, b...)
	out := make([]byte, 0, len(in))
	for utf8.FullRune(in) {
		r, n := utf8.DecodeRune(in)
		in = in[n:]
		switch {
		case r == '\r': // of line ends; alone, it could hide a line
		case r == '\n' || r == '\t' || !unicode.IsControl(r):
			out = utf8.AppendRune(out, r)
		default:
			out = utf8.AppendRune(out, utf8.RuneError)
		}
	}
	s.rest = in
	if _, err := s.Writer.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}
