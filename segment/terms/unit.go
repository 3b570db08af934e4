package terms

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/text"
)

// A unit is a term, phrase or prefix whose frequency in a row is counted.
type unit struct {
	kind   unitKind
	tokens []text.Token // one, or the tokens of a phrase
	count  float64      // its frequency in the query
	n      int          // live rows that have it, in all parts
	weight float64      // count · idf · (k1 + 1)
}

type unitKind uint8

const (
	aTerm unitKind = iota
	aPhrase
	aPrefix
)

// key tells units apart: by their terms and the distances between them.
func (u *unit) key() string {
	b := []byte{byte(u.kind)}
	for _, t := range u.tokens {
		b = binary.AppendVarint(b, int64(t.Position-u.tokens[0].Position))
		b = binary.AppendUvarint(b, uint64(len(t.Term)))
		b = append(b, t.Term...)
	}
	return string(b)
}

// unitsOf returns the ranked units of a clause.
func unitsOf(c *text.Clause) []unit {
	switch phrase := words(c); {
	case c.Prefix:
		return []unit{{kind: aPrefix, tokens: c.Tokens}}
	case c.Quoted && len(phrase) > 1:
		return []unit{{kind: aPhrase, tokens: phrase}}
	case c.Quoted:
		return []unit{{tokens: phrase}}
	}
	units := make([]unit, len(c.Tokens))
	for i := range c.Tokens {
		units[i].tokens = c.Tokens[i : i+1]
	}
	return units
}

// words returns the tokens that must follow each other, without extra ones.
func words(c *text.Clause) []text.Token {
	phrase := slices.DeleteFunc(slices.Clone(c.Tokens), func(t text.Token) bool { return t.Extra })
	if len(phrase) == 0 {
		return c.Tokens[:1]
	}
	return phrase
}

// list finds or makes the list of a unit.
func (p *part) list(u *unit, dst *list) (err error) {
	switch u.kind {
	case aPhrase:
		*dst, err = p.phrase(u.tokens)
	case aPrefix:
		*dst, err = p.prefix(u.tokens)
	default:
		*dst, err = p.lookup(u.tokens[0].Term)
	}
	return err
}

// prefix returns the rows of all terms that begin with the first token or equal one of the others.
func (p *part) prefix(tokens []text.Token) (list, error) {
	freqs := make([]uint32, p.Rows())
	add := func(l list) error {
		return p.each(l, func(row, freq uint32) {
			freqs[row] = uint32(min(uint64(freqs[row])+uint64(freq), math.MaxUint32))
		})
	}
	terms := 0
	for n, err := range p.withPrefix(tokens[0].Term) {
		if terms++; err == nil {
			err = p.stopped(terms)
		}
		if err != nil {
			return list{}, err
		}
		if err := add(n.list); err != nil {
			return list{}, err
		}
	}
	for _, t := range tokens[1:] {
		l, err := p.lookup(t.Term)
		if err == nil {
			err = add(l)
		}
		if err != nil {
			return list{}, err
		}
	}
	out := newLister()
	for row, f := range freqs {
		if f > 0 {
			out.add(row, f, p.lens[row])
		}
	}
	return out.list, nil
}

// phrase returns the rows in which the tokens occur at the same distances from each other as here.
func (p *part) phrase(tokens []text.Token) (list, error) {
	out := newLister()
	cursors := make([]cursor, len(tokens))
	rarest := 0
	for i, t := range tokens {
		l, err := p.lookup(t.Term)
		if err != nil || l.df == 0 {
			return list{}, err
		}
		cursors[i].init(l, p.Rows())
		if l.df < cursors[rarest].df {
			rarest = i
		}
	}
	var starts, next []uint32
rows:
	for n := 0; ; n++ {
		ok, err := cursors[rarest].next()
		if err == nil {
			err = p.stopped(n)
		}
		if err != nil || !ok {
			return out.list, err
		}
		row := cursors[rarest].rows[cursors[rarest].i]
		for i := range cursors {
			f, err := cursors[i].frequency(row)
			if err != nil {
				return list{}, err
			}
			if f == 0 {
				continue rows
			}
		}
		// Where the phrase begins, by its first tokens: all lists ascend.
		if starts, err = cursors[0].positions(starts[:0]); err != nil {
			return list{}, err
		}
		for i := 1; i < len(tokens) && len(starts) > 0; i++ {
			if next, err = cursors[i].positions(next[:0]); err == nil && len(next) > checkEvery {
				err = p.ctx.Err()
			}
			if err != nil {
				return list{}, err
			}
			starts = follow(starts, next, uint64(tokens[i].Position-tokens[0].Position))
		}
		if freq := len(starts); freq > 0 {
			out.add(int(row), uint32(freq), p.lens[row])
		}
	}
}

// follow keeps the starts that have an element of next at a distance. Both ascend.
func follow(starts, next []uint32, distance uint64) []uint32 {
	kept := starts[:0]
	for _, start := range starts {
		at := uint64(start) + distance
		for len(next) > 0 && uint64(next[0]) < at {
			next = next[1:]
		}
		if len(next) == 0 {
			break
		}
		if uint64(next[0]) == at {
			kept = append(kept, start)
		}
	}
	return kept
}

// checkEvery is the number of postings, or of terms, between two looks at the context.
const checkEvery = 1 << 10

// stopped returns the error of the context, at every checkEvery-th n.
func (p *part) stopped(n int) error {
	if n%checkEvery != 0 {
		return nil
	}
	return p.ctx.Err()
}

// each calls f for every row of a list, with the frequency of the term in it.
func (p *part) each(l list, f func(row, freq uint32)) error {
	var c cursor
	c.init(l, p.Rows())
	for n := 0; ; n++ {
		ok, err := c.next()
		if err == nil {
			err = p.stopped(n)
		}
		if err != nil || !ok {
			return err
		}
		f(c.rows[c.i], c.freqs[c.i])
	}
}

// union adds the rows of a list to set.
func (p *part) union(l list, set bitset.Set) error {
	return p.each(l, func(row, _ uint32) { set.Set(int(row)) })
}
