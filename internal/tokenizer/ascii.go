package tokenizer

import (
	"slices"
	"unicode/utf8"
)

// asciiBERT is the tokenizer of BERT for words of ASCII characters in one pass, without copies. It
// gives the ids of the general pipeline. BERT cleans, folds and splits each run of characters
// between white space by itself, so the pipeline needs to see only the runs with other characters.
type asciiBERT struct {
	lower   bool
	unknown int
	tokens  wordTable // that begin a word
	rest    wordTable // that continue a word
	general func(ids []int, text string) []int
}

// maxWord is the number of characters from which on BERT treats a word as unknown, minus 1.
const maxWord = 100

const continues = "##"

// newASCIIBERT returns nil for a vocabulary without ASCII tokens.
func newASCIIBERT(ids map[string]int, unknown int, lower bool, general func([]int, string) []int) *asciiBERT {
	a := &asciiBERT{lower: lower, unknown: unknown, general: general}
	var first, next []string
	for token := range ids {
		if !isASCII(token) {
			continue
		}
		if token != "" {
			first = append(first, token)
		}
		if len(token) > len(continues) && token[:len(continues)] == continues {
			next = append(next, token[len(continues):])
		}
	}
	a.tokens = newWordTable(first, func(s string) int { return ids[s] })
	a.rest = newWordTable(next, func(s string) int { return ids[continues+s] })
	return a
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Classes of ASCII characters, as BERT sees them.
const (
	other  = iota // control characters, and bytes of other characters
	blank         // white space
	letter        // letters and digits
	mark          // punctuation
)

var classes = func() (c [256]uint8) {
	for b := range c {
		switch {
		case b == ' ' || b == '\t' || b == '\n' || b == '\r':
			c[b] = blank
		case b < ' ' || b >= 0x7f:
		case isPunct(rune(b)):
			c[b] = mark
		default:
			c[b] = letter
		}
	}
	return c
}()

// append appends the ids of a text.
func (a *asciiBERT) append(ids []int, text string) []int {
	var word [maxWord]byte
	var hashes [maxWord]uint32
	for at := 0; at < len(text); {
		if classes[text[at]] == blank {
			at++
			continue
		}
		begin, before := at, len(ids)
		plain := true
		for at < len(text) && plain {
			switch classes[text[at]] {
			case blank:
			case mark:
				id, ok := a.tokens.find(text[at:at+1], &hashes)
				if !ok {
					id = a.unknown
				}
				ids = append(ids, id)
				at++
				continue
			case letter:
				n := 0
				for ; at < len(text) && classes[text[at]] == letter; at++ {
					if n < maxWord {
						b := text[at]
						if a.lower && b-'A' < 26 {
							b += 'a' - 'A'
						}
						word[n] = b
					}
					n++
				}
				if n > maxWord {
					ids = append(ids, a.unknown)
				} else {
					ids = a.word(ids, word[:n], &hashes)
				}
				continue
			default:
				plain = false
			}
			break
		}
		if plain {
			continue
		}
		for at < len(text) && classes[text[at]] != blank {
			at++
		}
		ids = a.general(ids[:before], text[begin:at])
	}
	return ids
}

// word appends the pieces of a word: the longest token that begins it, then the longest token that
// continues it, and so on.
func (a *asciiBERT) word(ids []int, word []byte, hashes *[maxWord]uint32) []int {
	begin := len(ids)
	table := &a.tokens
	for len(word) > 0 {
		id, n := table.longest(word, hashes)
		if n == 0 {
			return append(ids[:begin], a.unknown)
		}
		ids = append(ids, id)
		word = word[n:]
		table = &a.rest
	}
	return ids
}

// A wordTable finds the longest word of a set that begins a text. It is a hash table with open
// addressing.
type wordTable struct {
	words []string
	slots []slot
	most  int // bytes of the longest word
}

type slot struct {
	hash uint32
	word int32 // index in words, plus 1; 0: empty
	id   int
}

// The hash is FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv, with its bits mixed.
const (
	hashStart = 14695981039346656037
	hashPrime = 1099511628211
)

func mix(h uint64) uint32 { return uint32((h ^ h>>29) * 0x9e3779b97f4a7c15 >> 32) }

func newWordTable(words []string, id func(string) int) wordTable {
	slices.Sort(words)
	size := 4
	for size < 2*len(words) {
		size *= 2
	}
	t := wordTable{words: words, slots: make([]slot, size)}
	for i, w := range words {
		t.most = max(t.most, len(w))
		h := uint64(hashStart)
		for j := range len(w) {
			h = (h ^ uint64(w[j])) * hashPrime
		}
		at := mix(h)
		for t.slots[at&uint32(size-1)].word != 0 {
			at++
		}
		t.slots[at&uint32(size-1)] = slot{mix(h), int32(i + 1), id(w)}
	}
	return t
}

// find returns the id of a word of one character.
func (t *wordTable) find(word string, hashes *[maxWord]uint32) (id int, ok bool) {
	id, n := t.longest([]byte(word), hashes)
	return id, n == len(word)
}

// longest returns the id and length of the longest word that begins the text; length 0 if there is
// none. It overwrites hashes.
func (t *wordTable) longest(text []byte, hashes *[maxWord]uint32) (id, n int) {
	h := uint64(hashStart)
	text = text[:min(len(text), t.most, maxWord)]
	for i, b := range text {
		h = (h ^ uint64(b)) * hashPrime
		hashes[i] = mix(h)
	}
	last := uint32(len(t.slots) - 1)
	for n = len(text); n > 0; n-- {
		hash := hashes[n-1]
		for at := hash & last; t.slots[at].word != 0; at = (at + 1) & last {
			if s := t.slots[at]; s.hash == hash && t.words[s.word-1] == string(text[:n]) {
				return s.id, n
			}
		}
	}
	return 0, 0
}
