package tokenizer

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// bertNormalizer cleans text, separates CJK characters, strips accents and folds case, each if
// requested.
func bertNormalizer(clean, cjk, accents, lower bool) func(string) string {
	return func(s string) string {
		if clean || cjk {
			var b strings.Builder
			b.Grow(len(s))
			for _, c := range s {
				switch {
				case clean && (c == 0 || c == 0xfffd || isControl(c)):
				case clean && isSpace(c):
					b.WriteByte(' ')
				case cjk && isCJK(c):
					b.WriteByte(' ')
					b.WriteRune(c)
					b.WriteByte(' ')
				default:
					b.WriteRune(c)
				}
			}
			s = b.String()
		}
		if accents {
			s = strip(norm.NFD.String(s), isAccent)
		}
		if lower {
			s = toLower(s)
		}
		return s
	}
}

// toLower folds case character by character, as the original does. Go maps U+0130 to one
// character, Unicode to two.
func toLower(s string) string {
	return strings.ToLower(strings.ReplaceAll(s, "\u0130", "i\u0307"))
}

// later covers the characters that the original treats as unassigned, because its tables of
// punctuation, marks and control characters are those of Unicode 8. Ranges also cover characters
// between them that are in none of these categories. Found by comparing the two for each character.
var later = &unicode.RangeTable{
	R16: []unicode.Range16{
		{0x061d, 0x061d, 1}, {0x07fd, 0x07fd, 1}, {0x0890, 0x08e2, 1}, {0x09fd, 0x09fe, 1}, {0x0a76, 0x0a76, 1},
		{0x0afa, 0x0aff, 1}, {0x0b55, 0x0b55, 1}, {0x0c04, 0x0c3c, 1}, {0x0c77, 0x0c77, 1}, {0x0c84, 0x0c84, 1},
		{0x0d00, 0x0d00, 1}, {0x0d3b, 0x0d3c, 1}, {0x0d81, 0x0d81, 1}, {0x0eba, 0x0eba, 1}, {0x0ece, 0x0ece, 1},
		{0x180f, 0x1886, 1}, {0x1abf, 0x1ace, 1}, {0x1b7d, 0x1b7e, 1}, {0x1df6, 0x1dfb, 1}, {0x2e43, 0x2e5d, 1},
		{0xa82c, 0xa82c, 1}, {0xa8c5, 0xa8c5, 1}, {0xa8ff, 0xa8ff, 1}, {0xa9bd, 0xa9bd, 1},
	},
	R32: []unicode.Range32{
		{0x10d24, 0x10f89, 1}, {0x11070, 0x11074, 1}, {0x110c2, 0x110cd, 1}, {0x111c9, 0x111c9, 1}, {0x111cf, 0x111cf, 1},
		{0x1123e, 0x11241, 1}, {0x1133b, 0x1133b, 1}, {0x11438, 0x1145e, 1}, {0x11660, 0x1166c, 1}, {0x116b9, 0x116b9, 1},
		{0x1182f, 0x11fff, 1}, {0x12ff1, 0x13455, 1}, {0x16e97, 0x16f4f, 1}, {0x16fe2, 0x16fe4, 1}, {0x1cf00, 0x1cf46, 1},
		{0x1e000, 0x1e4ef, 1}, {0x1e944, 0x1e95f, 1},
	},
}

// isControl reports whether BERT treats a character as control: category C, except unassigned
// characters and white space.
func isControl(c rune) bool {
	return c != '\t' && c != '\n' && c != '\r' && unicode.In(c, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs) && !unicode.Is(later, c)
}

// isCJK reports whether a character is in one of BERT's blocks of CJK ideographs.
func isCJK(c rune) bool {
	return c >= 0x4e00 && c <= 0x9fff || c >= 0x3400 && c <= 0x4dbf || c >= 0x20000 && c <= 0x2a6df || c >= 0x2a700 && c <= 0x2b73f ||
		c >= 0x2b740 && c <= 0x2b81f || c >= 0x2b920 && c <= 0x2ceaf || c >= 0xf900 && c <= 0xfaff || c >= 0x2f800 && c <= 0x2fa1f
}

// isAccent reports whether BERT drops a character after decomposition: a mark without width of its
// own. U+1734 was one in Unicode 8.
func isAccent(c rune) bool { return unicode.Is(unicode.Mn, c) && !unicode.Is(later, c) || c == 0x1734 }

// isMark reports whether the normalizer StripAccents drops a character.
func isMark(c rune) bool { return unicode.IsMark(c) && !unicode.Is(later, c) }

// strip removes the characters for which drop is true.
func strip(s string, drop func(rune) bool) string {
	return strings.Map(func(c rune) rune {
		if drop(c) {
			return -1
		}
		return c
	}, s)
}

// isPunct reports whether BERT treats a character as punctuation: the Unicode category, and all
// ASCII characters except letters, digits and space. U+166D and U+111C9 were punctuation in Unicode
// 8.
func isPunct(c rune) bool {
	if c < 0x80 {
		return c > ' ' && c < 0x7f && (c < '0' || c > '9' && c < 'A' || c > 'Z' && c < 'a' || c > 'z')
	}
	return unicode.IsPunct(c) && !unicode.Is(later, c) || c == 0x166d || c == 0x111c9
}

// cut splits pieces at characters to drop, and around characters that stand alone.
func cut(dropped, alone func(rune) bool) func([]string) []string {
	return func(pieces []string) []string {
		var out []string
		for _, p := range pieces {
			begin := 0
			flush := func(end int) {
				if end > begin {
					out = append(out, p[begin:end])
				}
			}
			for i, c := range p {
				width := len(string(c))
				if c == 0xfffd && !strings.HasPrefix(p[i:], "\ufffd") {
					width = 1 // not UTF-8
				}
				switch {
				case dropped(c):
					flush(i)
				case alone(c):
					flush(i)
					out = append(out, p[i:i+width])
				default:
					continue
				}
				begin = i + width
			}
			flush(len(p))
		}
		return out
	}
}

func never(rune) bool { return false }

// words splits into runs of letters, digits and underscores, and runs of other characters except
// white space.
func words(pieces []string) []string {
	var out []string
	for _, p := range pieces {
		begin, last := 0, 0
		for i, c := range p + " " {
			kind := 2
			if isSpace(c) {
				kind = 0
			} else if isWord(c) {
				kind = 1
			}
			if kind != last {
				if last != 0 {
					out = append(out, p[begin:i])
				}
				begin, last = i, kind
			}
		}
	}
	return out
}

// isWord reports whether a character belongs to \w as Unicode Technical Standard 18 defines it.
func isWord(c rune) bool {
	return unicode.In(c, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}

// metaspace makes spaces visible, puts one in front, and cuts before them.
func metaspace(replacement, prepend string, split bool) func([]string) []string {
	return func(pieces []string) []string {
		var out []string
		for i, p := range pieces {
			if p == "" {
				continue
			}
			p = strings.ReplaceAll(p, " ", replacement)
			if (prepend == "always" || prepend == "first" && i == 0) && !strings.HasPrefix(p, replacement) {
				p = replacement + p
			}
			if !split {
				out = append(out, p)
				continue
			}
			for p != "" {
				next := strings.Index(p[1:], replacement) + 1
				if next == 0 {
					next = len(p)
				}
				out = append(out, p[:next])
				p = p[next:]
			}
		}
		return out
	}
}

// isSpace reports whether a character has the property White_Space, as in Go and in the original.
func isSpace(c rune) bool { return unicode.IsSpace(c) }
