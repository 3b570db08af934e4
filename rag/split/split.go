package split

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/words"
)

// ErrInvalid is matched by errors about options out of range and about texts that cannot be split.
var ErrInvalid = errors.New("split: invalid")

// A Chunk is a piece of a text.
type Chunk struct {
	Text   string // without white space at its ends
	Offset int    // byte offset of Text in the whole text
	Tokens int    // of Text
	// Header locates the chunk in its document: the headings above it, from the title down, joined
	// by " › ". It is not part of Text: embed both, store them apart. Only Markdown sets it.
	Header string
}

// Defaults of Options.
const (
	DefaultMaxTokens = 512
	DefaultOverlap   = 64
)

// minTokens is the lowest limit, because one character may take several tokens.
const minTokens = 8

// Options tune a Splitter. The zero value means a limit of 512 tokens, an overlap of 64 and
// estimated tokens.
type Options struct {
	// MaxTokens is the maximum size of a chunk, at least 8; 0 means DefaultMaxTokens.
	MaxTokens int
	// Overlap is the maximum number of tokens that a chunk repeats from the previous chunk. 0 means
	// DefaultOverlap, or an eighth of MaxTokens if that is less; a negative value means no overlap.
	// It must be less than MaxTokens.
	Overlap int
	// Count returns the number of tokens in a text; nil means Estimate. It must be safe for
	// concurrent use.
	Count func(text string) int
}

// A Splitter divides texts. It is safe for concurrent use.
type Splitter struct {
	strategy     Strategy
	max, overlap int
	count        func(string) int
	ahead        int // units that are kept before chunks are made of them
}

// unitsAhead is so much more than a chunk holds that little is measured twice.
const unitsAhead = 1 << 14

// New returns a Splitter. The error matches ErrInvalid.
func New(s Strategy, o Options) (*Splitter, error) {
	if s.divide == nil {
		return nil, fmt.Errorf("%w: no strategy", ErrInvalid)
	}
	if s.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, s.err)
	}
	limit := cmp.Or(o.MaxTokens, DefaultMaxTokens)
	if limit < minTokens {
		return nil, fmt.Errorf("%w: limit of %d tokens is below %d", ErrInvalid, limit, minTokens)
	}
	overlap := max(0, cmp.Or(o.Overlap, min(DefaultOverlap, limit/8)))
	if overlap >= limit {
		return nil, fmt.Errorf("%w: overlap of %d tokens in chunks of %d", ErrInvalid, overlap, limit)
	}
	count := o.Count
	if count == nil {
		count = Estimate
	}
	return &Splitter{strategy: s, max: limit, overlap: overlap, count: count, ahead: unitsAhead}, nil
}

// Name identifies the settings of the splitter in the lineage of a collection: equal names give
// equal chunks if Count is the same.
func (s *Splitter) Name() string {
	return fmt.Sprintf("%s/%d/%d", s.strategy.name, s.max, s.overlap)
}

// Split divides a text, which must be UTF-8. A text of white space has no chunks. The context is
// for strategies that call a model.
func (s *Splitter) Split(ctx context.Context, text string) ([]Chunk, error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("%w: text is not UTF-8", ErrInvalid)
	}
	groups, err := s.strategy.divide(ctx, text)
	if err != nil {
		return nil, err
	}
	var chunks []Chunk
	for _, g := range groups {
		p := packer{Splitter: s, text: text, header: g.header, room: s.ahead}
		for _, piece := range g.pieces {
			p.piece++
			if err := p.divide(piece, s.strategy.levels); err != nil {
				return nil, err
			}
			if !s.strategy.join {
				p.pack(false)
			}
		}
		p.pack(false)
		chunks = append(chunks, p.chunks...)
	}
	return chunks, nil
}

// A span is the bytes [lo, hi) of a text.
type span struct{ lo, hi int }

// A group is a range of the text that chunks do not cross, divided into pieces.
type group struct {
	header string
	pieces []span
	bare   bool // only a heading
}

// A level returns the offsets at which a text may be divided, ascending, without 0 and the end.
type level func(text string) []int

// A unit is a span that is not divided further, with its token count, measured alone and without
// surrounding white space.
type unit struct {
	span
	tokens int
	piece  int // number of the piece of the group that it is of
}

// packer makes the chunks of one group.
type packer struct {
	*Splitter
	text   string
	header string
	units  []unit
	piece  int  // number of pieces so far
	room   int  // number of units at which chunks are made of the first ones
	atEnd  bool // chunkEnd has come to the last unit
	chunks []Chunk
}

// divide adds a span as a unit, or divides it at the next level if it is too large.
func (p *packer) divide(s span, levels []level) error {
	piece := p.text[s.lo:s.hi]
	if blank(piece) {
		if n := len(p.units); n > 0 {
			p.units[n-1].hi = s.hi
		}
		return nil
	}
	if len(levels) == 0 || p.strategy.whole {
		tokens := p.count(strings.TrimSpace(piece))
		if tokens <= p.max {
			p.units = append(p.units, unit{s, tokens, p.piece})
			if len(p.units) >= p.room {
				p.pack(true)
				p.room = max(p.ahead, 2*len(p.units))
			}
			return nil
		}
		if utf8.RuneCountInString(piece) == 1 {
			return fmt.Errorf("%w: character %q at offset %d takes %d tokens of %d", ErrInvalid, piece,
				s.lo, tokens, p.max)
		}
	}
	if len(levels) == 0 { // into characters, whose offsets could take more memory than the text
		for i, r := range piece {
			lo := s.lo + i
			if err := p.divide(span{lo, lo + utf8.RuneLen(r)}, nil); err != nil {
				return err
			}
		}
		return nil
	}
	lo := s.lo
	for _, cut := range append(levels[0](piece), len(piece)) {
		if hi := s.lo + cut; hi > lo {
			if err := p.divide(span{lo, hi}, levels[1:]); err != nil {
				return err
			}
			lo = hi
		}
	}
	return nil
}

// pack joins consecutive units to chunks as large as the limits allow. If more units will come, it
// keeps those at the end whose chunks they may change.
func (p *packer) pack(more bool) {
	units, start := p.units, 0
	for start < len(units) {
		p.atEnd = false
		end := p.chunkEnd(start)
		if end == len(units) && !more { // the last chunk: no other overlaps with it
			p.emit(units[start].lo, units[end-1].hi)
			start = end
			break
		}
		next, tokens := end, 0
		for next-1 > start && tokens+units[next-1].tokens <= p.overlap {
			next--
			tokens += units[next].tokens
		}
		for next < end && p.chunkEnd(next) <= end { // a chunk must contain something new
			next++
		}
		if more && p.atEnd {
			break
		}
		p.emit(units[start].lo, units[end-1].hi)
		start = next
	}
	p.units = append(units[:0], units[start:]...)
}

// chunkEnd returns the end of the longest chunk that begins with unit start.
func (p *packer) chunkEnd(start int) int {
	end, tokens := start, 0
	for end < len(p.units) && tokens+p.units[end].tokens <= p.max &&
		(p.strategy.pieces == 0 || p.units[end].piece-p.units[start].piece < p.strategy.pieces) {
		tokens += p.units[end].tokens
		end++
	}
	p.atEnd = p.atEnd || end == len(p.units)
	// The token counts of pieces need not add up to the count of the whole.
	for end > start+1 && p.count(trim(p.text, p.units[start].lo, p.units[end-1].hi)) > p.max {
		end--
	}
	return max(end, start+1)
}

func trim(text string, lo, hi int) string { return strings.TrimSpace(text[lo:hi]) }

func (p *packer) emit(lo, hi int) {
	text := p.text[lo:hi]
	trimmed := strings.TrimLeftFunc(text, unicode.IsSpace)
	lo += len(text) - len(trimmed)
	if trimmed = strings.TrimRightFunc(trimmed, unicode.IsSpace); trimmed != "" {
		p.chunks = append(p.chunks, Chunk{Text: trimmed, Offset: lo, Tokens: p.count(trimmed), Header: p.header})
	}
}

// Estimate returns about as many tokens as the tokenizers of current models produce: one for each
// word, number or sign, and one more for every six letters of a long word. It needs no vocabulary.
func Estimate(text string) int {
	n := 0
	for it := words.FromString(text); it.Next(); {
		word := it.Value()
		if r, _ := utf8.DecodeRuneInString(word); unicode.IsSpace(r) {
			continue
		}
		n += (utf8.RuneCountInString(word) + 5) / 6
	}
	return n
}
