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
			s = stripMarks(norm.NFD.String(s))
		}
		if lower {
			s = strings.ToLower(s)
		}
		return s
	}
}

// isControl reports whether BERT treats a character as control: category C, except unassigned
// characters and white space.
func isControl(c rune) bool {
	return c != '\t' && c != '\n' && c != '\r' && unicode.In(c, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs)
}

// isCJK reports whether a character is in one of BERT's blocks of CJK ideographs.
func isCJK(c rune) bool {
	return c >= 0x4e00 && c <= 0x9fff || c >= 0x3400 && c <= 0x4dbf || c >= 0x20000 && c <= 0x2a6df || c >= 0x2a700 && c <= 0x2b73f ||
		c >= 0x2b740 && c <= 0x2b81f || c >= 0x2b920 && c <= 0x2ceaf || c >= 0xf900 && c <= 0xfaff || c >= 0x2f800 && c <= 0x2fa1f
}

// stripMarks removes the combining marks that decomposition leaves.
func stripMarks(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.Is(unicode.Mn, c) {
			return -1
		}
		return c
	}, s)
}

// isPunct reports whether BERT treats a character as punctuation: the Unicode category, and all
// ASCII characters except letters, digits and space.
func isPunct(c rune) bool {
	return c > ' ' && c < 0x7f && (c < '0' || c > '9' && c < 'A' || c > 'Z' && c < 'a' || c > 'z') || unicode.IsPunct(c)
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
			} else if unicode.IsLetter(c) || unicode.IsMark(c) || unicode.IsDigit(c) || unicode.Is(unicode.Pc, c) {
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
