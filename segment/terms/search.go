package terms

import (
	"context"
	"errors"
	"math"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/text"
)

// A PartError is an error in one part of a Search.
type PartError struct {
	Part int
	Err  error
}

// Error names the part and the error.
func (e *PartError) Error() string { return e.Err.Error() }

// Unwrap returns what went wrong.
func (e *PartError) Unwrap() error { return e.Err }

func inPart(part int, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &PartError{part, err}
}

// Params are the parameters of BM25 (Robertson, Zaragoza: The Probabilistic Relevance Framework,
// 2009).
type Params struct {
	K1 float64 // how much repetition counts, >= 0
	B  float64 // how much the length of a text counts, 0 to 1
}

// A Part is a source with its live rows; nil: all are.
type Part struct {
	Source
	Live bitset.Set
}

// A Search is a query on all parts of a collection.
//
// The score of a row is the sum, over the units of the query in their order, of
//
//	count · idf · (k1 + 1) · f / (f + k1·(1 - b + b·length/average))
//	idf = ln(1 + (N - n + 0.5) / (n + 0.5))
//
// A unit is a term, a phrase or a prefix. count is its frequency in the query, f its frequency in
// the row, n the number of live rows that have it, N the number of live rows that have any terms,
// and average their mean length.
type Search struct {
	ctx        context.Context // of the query: a Search lives no longer
	query      text.Query
	units      []unit
	index      map[string]int // of units, by key
	parts      []*part
	base, rate float64   // k1·(1-b) and k1·b/average
	norms      []float64 // by length, for short texts
	slack      float64   // relative error of a sum in any order
}

// part is a Part with the lists of all units.
type part struct {
	Part
	ctx   context.Context
	lens  []uint32
	lists []list
	rows  bitset.Set // that the required and excluded clauses leave; nil: all
}

// Prepare makes a Search of a query. It reads the dictionaries, the postings of phrases and
// prefixes, and, in parts that have dead rows, the postings of terms. Prepare and the methods of a
// Search return a PartError, or the error of ctx, which ends them early.
func Prepare(ctx context.Context, q text.Query, p Params, parts []Part) (*Search, error) {
	s := &Search{ctx: ctx, query: q, index: map[string]int{}}
	for i := range q.Clauses {
		if c := &q.Clauses[i]; c.Occur != text.MustNot {
			for _, u := range unitsOf(c) {
				key := u.key()
				if at, ok := s.index[key]; ok {
					s.units[at].count++
					continue
				}
				u.count = 1
				s.index[key] = len(s.units)
				s.units = append(s.units, u)
			}
		}
	}
	var texts, tokens uint64
	for i, in := range parts {
		pt := &part{Part: in, ctx: ctx, lists: make([]list, len(s.units))}
		s.parts = append(s.parts, pt)
		if err := s.look(pt); err != nil {
			return nil, inPart(i, err)
		}
		n, length := pt.live()
		texts, tokens = texts+n, tokens+length
	}
	for i := range s.units {
		u := &s.units[i]
		u.weight = float64(u.count*idf(texts, uint64(u.n))) * (p.K1 + 1)
	}
	s.base = float64(p.K1 * (1 - p.B))
	if tokens > 0 {
		s.rate = float64(p.K1*p.B) * float64(texts) / float64(tokens)
	}
	s.norms = make([]float64, 1024)
	for n := range s.norms {
		s.norms[n] = s.exactNorm(uint32(n))
	}
	s.slack = float64(2*len(s.units)+8) * 0x1p-53
	return s, nil
}

// look looks up the units of the query in a part.
func (s *Search) look(p *part) (err error) {
	if p.lens, err = p.lengths(); err != nil {
		return err
	}
	for i := range s.units {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		u := &s.units[i]
		if err := p.list(u, &p.lists[i]); err != nil {
			return err
		}
		n, err := p.lists[i].count(p.Rows(), u.kind != aTerm || p.whole(), p.Live)
		if err != nil {
			return err
		}
		u.n += n
	}
	return s.restrict(p)
}

// idf is the inverse document frequency of a term that n of all rows have.
func idf(all, n uint64) float64 {
	return logarithm(1 + (float64(all)-float64(n)+0.5)/(float64(n)+0.5))
}

// logarithm returns the natural logarithm of x >= 1 with the same bits on every machine, which
// math.Log does not promise: as 2·artanh((m-1)/(m+1)) of the mantissa. The conversions forbid the
// compiler to fuse operations.
func logarithm(x float64) float64 {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = 2*m, e-1
	}
	t := (m - 1) / (m + 1)
	sq := float64(t * t)
	sum := 0.0
	for i := 23; i > 0; i -= 2 {
		sum = float64(sum*sq) + 1/float64(i)
	}
	return float64(float64(e)*math.Ln2) + float64(float64(2*t)*sum)
}

func (s *Search) exactNorm(length uint32) float64 { return s.base + float64(s.rate*float64(length)) }

func (s *Search) norm(length uint32) float64 {
	if int64(length) < int64(len(s.norms)) {
		return s.norms[length]
	}
	return s.exactNorm(length)
}

// share returns the contribution of a unit of that weight to the score of a row.
func share(weight float64, freq uint32, norm float64) float64 {
	f := float64(freq)
	return float64(weight*f) / (f + norm)
}

// live returns the number of live rows that have terms, and their length.
func (p *part) live() (texts, tokens uint64) {
	texts, tokens, known := p.totals()
	if !known {
		texts, tokens = 0, 0
		for row, n := range p.lens {
			if n > 0 && (p.Live == nil || p.Live.Has(row)) {
				texts, tokens = texts+1, tokens+uint64(n)
			}
		}
		return texts, tokens
	}
	if p.Live == nil {
		return texts, tokens
	}
	for i, word := range p.Live {
		if word == math.MaxUint64 {
			continue
		}
		for row := 64 * i; row < min(64*i+64, len(p.lens)); row++ {
			if n := p.lens[row]; n > 0 && !p.Live.Has(row) {
				texts, tokens = texts-1, tokens-uint64(n)
			}
		}
	}
	return texts, tokens
}

// Weight returns the weight of a term of the query, for text.Scanner.Highlight.
func (s *Search) Weight(term string) float64 {
	w := 0.0
	for i := range s.units {
		for _, t := range s.units[i].tokens {
			if t.Term == term {
				w = max(w, s.units[i].weight)
			}
		}
	}
	return w
}

// Score returns the score of a row; 0 if it has nothing that the query ranks by.
func (s *Search) Score(part, row int) (float64, error) {
	scores, err := s.Scores(nil, part, []uint32{uint32(row)})
	return scores[0], err
}

// Scores appends to dst the scores of rows of a part, which ascend.
func (s *Search) Scores(dst []float64, part int, rows []uint32) ([]float64, error) {
	p := s.parts[part]
	first := len(dst)
	dst = append(dst, make([]float64, len(rows))...)
	var c cursor
	for i := range s.units { // in this order for every row
		if p.lists[i].df == 0 {
			continue
		}
		if err := s.ctx.Err(); err != nil {
			return dst, err
		}
		c.init(p.lists[i], p.Rows())
		for j, row := range rows {
			f, err := c.frequency(row)
			if err != nil {
				return dst, inPart(part, err)
			}
			if f > 0 {
				dst[first+j] += share(s.units[i].weight, f, s.norm(p.lens[row]))
			}
		}
	}
	return dst, nil
}
