package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// ErrFormat is matched by errors about files that are malformed or describe an unsupported
// tokenizer.
var ErrFormat = errors.New("tokenizer cannot be read")

func formatf(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrFormat, fmt.Errorf(format, args...))
}

// A Tokenizer turns texts into token ids. It is safe for concurrent use.
type Tokenizer struct {
	ids       map[string]int
	unknown   int // -1: no such token
	special   []string
	normalize []func(string) string
	split     []func([]string) []string
	model     func(dst []int, piece string) []int
	ascii     *asciiBERT // nil: not the tokenizer of BERT
	before    []int      // of the template for a single text
	after     []int
}

// Len returns the size of the vocabulary.
func (t *Tokenizer) Len() int { return len(t.ids) }

// ID returns the id of a token.
func (t *Tokenizer) ID(token string) (int, bool) {
	id, ok := t.ids[token]
	return id, ok
}

// Tokens yields all tokens with their ids, in no order.
func (t *Tokenizer) Tokens() func(yield func(token string, id int) bool) {
	return func(yield func(string, int) bool) {
		for token, id := range t.ids {
			if !yield(token, id) {
				return
			}
		}
	}
}

// Unknown returns the id of the token that stands for unknown text.
func (t *Tokenizer) Unknown() (int, bool) { return t.unknown, t.unknown >= 0 }

// Count returns the number of tokens in a text, without surrounding special tokens.
func (t *Tokenizer) Count(text string) int { return len(t.EncodePlain(text)) }

// Encode returns the token ids of a text, between the special tokens that the model expects around
// it, such as [CLS] and [SEP]. Special tokens inside the text count as such.
func (t *Tokenizer) Encode(text string) []int {
	ids := make([]int, 0, len(text)/4+8)
	return append(t.encode(append(ids, t.before...), text), t.after...)
}

// EncodePlain returns the token ids of a text without special tokens around it.
func (t *Tokenizer) EncodePlain(text string) []int {
	return t.encode(make([]int, 0, len(text)/4+8), text)
}

// EncodeMax is Encode for at most a number of tokens, special ones included; the rest of the text
// is cut off.
func (t *Tokenizer) EncodeMax(text string, most int) []int {
	ids := t.Encode(text)
	if len(ids) <= most {
		return ids
	}
	room := max(0, most-len(t.after))
	return append(ids[:room:room], t.after...)
}

// EncodePair returns the token ids of two texts as BERT expects them, [CLS] a [SEP] b [SEP], and
// the index at which b begins. The result has at most most tokens, if that leaves room for the
// special ones. If necessary the longer text is cut, and both are if each has more than half of the
// room, as the strategy longest_first of Hugging Face does.
func (t *Tokenizer) EncodePair(a, b string, most int) (ids []int, second int) {
	first, rest := t.EncodePlain(a), t.EncodePlain(b)
	room := max(0, most-len(t.before)-2*len(t.after))
	if len(first)+len(rest) > room {
		half := room / 2
		if len(first) > len(rest) {
			half += room % 2 // the longer one gets the odd token
		}
		first = first[:min(len(first), max(half, room-len(rest)))]
		rest = rest[:min(len(rest), room-len(first))]
	}
	ids = slices.Concat(t.before, first, t.after)
	second = len(ids)
	return append(append(ids, rest...), t.after...), second
}

func (t *Tokenizer) encode(ids []int, text string) []int {
	next := make([]int, len(t.special)) // next occurrence of each, from begin on
	for begin := 0; begin < len(text); {
		at, token := len(text), ""
		for i, s := range t.special {
			if next[i] < begin || begin == 0 {
				next[i] = len(text)
				if n := strings.Index(text[begin:], s); n >= 0 {
					next[i] = begin + n
				}
			}
			if next[i] < at || next[i] == at && len(s) > len(token) && at < len(text) {
				at, token = next[i], s
			}
		}
		if at > begin {
			ids = t.plain(ids, text[begin:at])
		}
		if token != "" {
			ids = append(ids, t.ids[token])
		}
		begin = at + len(token)
	}
	return ids
}

// plain appends the ids of a text without special tokens.
func (t *Tokenizer) plain(ids []int, text string) []int {
	if t.ascii != nil {
		return t.ascii.append(ids, text)
	}
	return t.pipeline(ids, text)
}

// pipeline normalizes and splits a text, and looks its pieces up.
func (t *Tokenizer) pipeline(ids []int, text string) []int {
	for _, f := range t.normalize {
		text = f(text)
	}
	pieces := []string{text}
	for _, f := range t.split {
		pieces = f(pieces)
	}
	for _, p := range pieces {
		if p != "" {
			ids = t.model(ids, p)
		}
	}
	return ids
}

// wordPiece returns the model WordPiece: it takes the longest token that begins the word, then the
// longest token with the prefix that begins the rest, and so on. If that fails, the whole word is
// unknown.
func wordPiece(ids map[string]int, unknown int, prefix string, most int) func([]int, string) []int {
	longest := 0
	for token := range ids {
		longest = max(longest, len(token))
	}
	return func(dst []int, word string) []int {
		begin := len(dst)
		if utf8.RuneCountInString(word) > most {
			return append(dst, unknown)
		}
		var buf []byte
		for at := 0; at < len(word); {
			buf = buf[:0]
			if at > 0 {
				buf = append(buf, prefix...)
			}
			lead := len(buf)
			buf = append(buf, word[at:min(len(word), at+longest)]...)
			id, ok := 0, false
			for len(buf) > lead {
				if id, ok = ids[string(buf)]; ok {
					break
				}
				_, n := utf8.DecodeLastRune(buf[lead:])
				buf = buf[:len(buf)-n]
			}
			if !ok {
				return append(dst[:begin], unknown)
			}
			dst = append(dst, id)
			at += len(buf) - lead
		}
		return dst
	}
}

// A scored is a token of the model Unigram.
type scored struct {
	id    int
	score float64
}

// unigram returns the model Unigram: it chooses the tokens with the greatest sum of scores. A
// character without a token is unknown, with a score far below all others; adjacent unknowns become
// one.
func unigram(tokens map[string]scored, unknown int) func([]int, string) []int {
	longest, least := 0, 0.0
	for token, s := range tokens {
		longest, least = max(longest, len(token)), min(least, s.score)
	}
	const penalty = 10
	type step struct {
		from, id int
		score    float64
		reached  bool
	}
	return func(dst []int, text string) []int {
		best := make([]step, len(text)+1)
		best[0].reached = true
		for at := 0; at < len(text); {
			_, width := utf8.DecodeRuneInString(text[at:])
			single := false
			// Longer tokens are tried later and win only if they are better, as in the original.
			for end := at + width; end <= min(len(text), at+longest); {
				if s, ok := tokens[text[at:end]]; ok {
					single = single || end == at+width
					if score := best[at].score + s.score; !best[end].reached || score > best[end].score {
						best[end] = step{at, s.id, score, true}
					}
				}
				_, n := utf8.DecodeRuneInString(text[end:])
				end += max(1, n)
			}
			if !single {
				end := at + width
				if score := best[at].score + least - penalty; !best[end].reached || score > best[end].score {
					best[end] = step{at, unknown, score, true}
				}
			}
			at += width
		}
		begin := len(dst)
		for end := len(text); end > 0; end = best[end].from {
			if id := best[end].id; id != unknown || len(dst) == begin || dst[len(dst)-1] != unknown {
				dst = append(dst, id)
			}
		}
		slices.Reverse(dst[begin:])
		return dst
	}
}
