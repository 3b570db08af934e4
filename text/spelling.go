package text

import (
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A text can be spelt in several ways that look the same. Before it is divided into words, all of
// them become one: without invisible characters, with composed characters, and with the vowel am of
// Thai and Lao in its parts. Later steps could not do that, because they see one word or one
// character at a time.

// A respelling is a text in the common spelling, and how that differs from the written one.
type respelling struct {
	text  string
	edits [][]edit // of each step, which changes the result of the one before; nil: nothing changed
}

// An edit says that bytes of a text stand for other bytes of the text before.
type edit struct{ at, size, from, was int } // offset and size, now and before

// respell returns the common spelling of a text, which may hold any bytes.
func respell(text string) respelling {
	r := respelling{text: text}
	if isASCII(text) {
		return r
	}
	if strings.IndexFunc(text, odd) >= 0 {
		r.rewrite(invisible, func(rune, string, rune) string { return "" })
		r.rewrite(isNoWidth, dropNoWidth)
		r.rewrite(isAm, func(_ rune, run string, _ rune) string { return amParts.Replace(run) })
		r.rewrite(isMark, func(_ rune, run string, _ rune) string { return tonesFirst(run) })
	}
	if !norm.NFC.IsNormalString(r.text) {
		r.compose()
	}
	return r
}

// odd reports whether any step but the last looks at a character.
func odd(c rune) bool { return invisible(c) || isNoWidth(c) || isAm(c) || isMark(c) }

// step adds a step that made text, unless it changed nothing.
func (r *respelling) step(text string, edits []edit) {
	if edits != nil {
		r.text, r.edits = text, append(r.edits, edits)
	}
}

// rewrite replaces each run of characters of a kind. by gets the run and the characters before and
// behind it, or utf8.RuneError.
func (r *respelling) rewrite(kind func(rune) bool, by func(last rune, run string, next rune) string) {
	var b strings.Builder
	var edits []edit
	done, text := 0, r.text
	for done < len(text) {
		at := strings.IndexFunc(text[done:], kind)
		if at < 0 {
			break
		}
		at += done
		end := len(text)
		if n := strings.IndexFunc(text[at:], func(c rune) bool { return !kind(c) }); n >= 0 {
			end = at + n
		}
		last, _ := utf8.DecodeLastRuneInString(text[:at])
		next, _ := utf8.DecodeRuneInString(text[end:])
		b.WriteString(text[done:at])
		run := by(last, text[at:end], next)
		if run != text[at:end] {
			edits = append(edits, edit{b.Len(), len(run), at, end - at})
		}
		b.WriteString(run)
		done = end
	}
	b.WriteString(text[done:])
	r.step(b.String(), edits)
}

// compose brings a text into normalization form C.
func (r *respelling) compose() {
	var b strings.Builder
	var edits []edit
	var iter norm.Iter
	for iter.InitString(norm.NFC, r.text); !iter.Done(); {
		at := iter.Pos()
		to := iter.Next()
		if was := r.text[at:iter.Pos()]; was != string(to) {
			edits = append(edits, edit{b.Len(), len(to), at, len(was)})
		}
		b.Write(to)
	}
	r.step(b.String(), edits)
}

// origin returns the range of the written text that a range of the common spelling stands for.
// Invisible characters belong to the one before them.
func (r *respelling) origin(start, end int) (int, int) {
	for _, edits := range slices.Backward(r.edits) {
		last := func(beyond func(e *edit) bool) (edit, bool) {
			n := sort.Search(len(edits), func(i int) bool { return beyond(&edits[i]) })
			if n == 0 {
				return edit{}, false
			}
			return edits[n-1], true
		}
		if e, ok := last(func(e *edit) bool { return e.at > start }); ok {
			if start < e.at+e.size {
				start = e.from
			} else {
				start += e.from + e.was - e.at - e.size
			}
		}
		if e, ok := last(func(e *edit) bool { return e.at > end || e.at == end && e.size > 0 }); ok {
			end = e.from + e.was + max(0, end-e.at-e.size)
		}
	}
	return start, end
}

// place gives tokens of r.text the offsets of the original text.
func (r *respelling) place(tokens []Token) {
	if r.edits == nil {
		return
	}
	for i := range tokens {
		t := &tokens[i]
		t.Start, t.End = r.origin(t.Start, t.End)
	}
}

// invisible reports whether a character is one that Unicode says to ignore: joiners, marks of
// direction, soft hyphens, variation selectors and the like.
func invisible(c rune) bool {
	switch {
	case c < 0x2000:
		return c == 0xAD || c == 0x34F || c == 0x61C || c == 0x115F || c == 0x1160 || c == 0x17B4 || c == 0x17B5 ||
			c >= 0x180B && c <= 0x180F
	case c < 0x3000:
		return c >= 0x200C && c <= 0x200F || c >= 0x202A && c <= 0x202E || c >= 0x2060 && c <= 0x206F
	case c < 0x10000:
		return c == 0x3164 || c >= 0xFE00 && c <= 0xFE0F || c == 0xFEFF || c == 0xFFA0 || c >= 0xFFF0 && c <= 0xFFF8
	}
	return c >= 0x1BCA0 && c <= 0x1BCA3 || c >= 0x1D173 && c <= 0x1D17A || c >= 0xE0000 && c <= 0xE0FFF
}

// isNoWidth reports whether a character is the space of no width.
func isNoWidth(c rune) bool { return c == '\u200b' }

// dropNoWidth removes spaces of no width within scripts without spaces: pairs of characters are
// terms wherever a word ends. Elsewhere they divide words.
func dropNoWidth(last rune, run string, next rune) string {
	if spaceless(last) && spaceless(next) {
		return ""
	}
	return run
}

// The vowel am of Thai and of Lao is a ring above the character before it and the vowel aa. A mark
// of tone is written before the ring or behind it.
var amParts = strings.NewReplacer("\u0e33", "\u0e4d\u0e32", "\u0eb3", "\u0ecd\u0eb2")

func isAm(c rune) bool { return c == 0xE33 || c == 0xEB3 }

func isRing(c rune) bool { return c == 0xE4D || c == 0xECD }

func isMark(c rune) bool { return isRing(c) || c >= 0xE48 && c <= 0xE4B || c >= 0xEC8 && c <= 0xECB }

// tonesFirst moves rings behind the marks of tone.
func tonesFirst(marks string) string {
	all := []rune(marks)
	slices.SortStableFunc(all, func(a, b rune) int {
		switch {
		case isRing(a) == isRing(b):
			return 0
		case isRing(b):
			return -1
		}
		return 1
	})
	return string(all)
}
