package terms

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/topk"
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

// A unit is a term, phrase or prefix whose frequency in a row is counted.
type unit struct {
	kind   unitKind
	tokens []text.Token // one, or the tokens of a phrase
	count  float64
	n      int
	weight float64 // count · idf · (k1 + 1)
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

// part is a Part with the lists of all units.
type part struct {
	Part
	ctx   context.Context
	lens  []uint32
	lists []list
	rows  bitset.Set // that the required and excluded clauses leave; nil: all
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

// condition returns the test that a row must pass to meet a clause.
func condition(c *text.Clause) unit {
	switch phrase := words(c); {
	case c.Prefix:
		return unit{kind: aPrefix, tokens: c.Tokens}
	case len(phrase) > 1:
		return unit{kind: aPhrase, tokens: phrase}
	default:
		return unit{tokens: phrase}
	}
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
	for n, err := range p.from(tokens[0].Term) {
		if terms++; err == nil {
			err = p.stopped(terms)
		}
		if err != nil {
			return list{}, err
		}
		if !strings.HasPrefix(n.term, tokens[0].Term) {
			break
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

// meets returns the rows that meet a clause.
func (p *part) meets(c *text.Clause) (bitset.Set, error) {
	u := condition(c)
	var l list
	set := bitset.New(p.Rows())
	if err := p.list(&u, &l); err != nil {
		return nil, err
	}
	return set, p.union(l, set)
}

// restrict finds the rows that required and excluded clauses leave.
func (s *Search) restrict(p *part) error {
	for i := range s.query.Clauses {
		c := &s.query.Clauses[i]
		if c.Occur == text.Should {
			continue
		}
		set, err := p.meets(c)
		if err != nil {
			return err
		}
		if p.rows == nil {
			p.rows = bitset.New(p.Rows())
			p.rows.Fill(p.Rows())
		}
		if c.Occur == text.Must {
			p.rows.And(set)
		} else {
			p.rows.AndNot(set)
		}
	}
	return nil
}

// Fails returns the first required clause that a row of a part does not meet, or the first excluded
// clause that it meets; nil if there is no such clause.
func (s *Search) Fails(part, row int) (*text.Clause, error) {
	for i := range s.query.Clauses {
		c := &s.query.Clauses[i]
		if c.Occur == text.Should {
			continue
		}
		set, err := s.parts[part].meets(c)
		if err != nil {
			return nil, inPart(part, err)
		}
		if set.Has(row) != (c.Occur == text.Must) {
			return c, nil
		}
	}
	return nil, nil
}

// Restriction returns the rows of a part that meet all required and no excluded clauses; nil if
// there are no such clauses. The set must not be written to.
func (s *Search) Restriction(part int) bitset.Set { return s.parts[part].rows }

// Matches returns the rows of a part, dead ones included, that meet the query.
func (s *Search) Matches(part int) (bitset.Set, error) {
	p := s.parts[part]
	set := bitset.New(p.Rows())
	if !s.query.Ranks() {
		if p.rows != nil {
			copy(set, p.rows)
		}
		return set, nil
	}
	for i := range s.query.Clauses {
		// A clause of several words is met by a row that has all of them, but found by any.
		if s.query.Clauses[i].Occur == text.MustNot {
			continue
		}
		for _, u := range unitsOf(&s.query.Clauses[i]) {
			if err := p.union(p.lists[s.index[u.key()]], set); err != nil {
				return nil, inPart(part, err)
			}
		}
	}
	if p.rows != nil {
		set.And(p.rows)
	}
	return set, nil
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

// window is the number of rows that are scored together.
const window = 2048

// A Buffer is memory that Scan uses again. The zero value is ready.
type Buffer struct {
	cursors []unitCursor
	order   []*unitCursor
	scores  [window]float64
	seen    [window / 64]uint64
}

// A unitCursor walks forward over the rows of a part that have a unit.
type unitCursor struct {
	cursor
	weight float64 // of the unit
	ahead  int     // first block that may have rows from the present window on
	bound  float64 // of the share of any row in the window
	below  float64 // sum of the bounds of the cursors before it, in the order of bounds
}

// look computes the bound for rows from lo to hi-1.
func (g *unitCursor) look(s *Search, lo, hi int) {
	g.bound = 0
	for g.ahead < g.full() && int64(g.at(g.ahead).last) < int64(lo) {
		g.ahead++
	}
	for block := g.ahead; block < g.blocks(); block++ {
		last, freq, length := g.bounds(block)
		g.bound = max(g.bound, share(g.weight, freq, s.norm(length))*(1+0x1p-40))
		if int64(last) >= int64(hi)-1 {
			break
		}
	}
}

// Scan offers the rows lo to hi-1 of a part to c: the live rows in set, or all live rows if set is
// nil. It leaves out rows that cannot reach the floor of c, and rows that contain no unit of the
// query. Rows are offered with bounds that hold their Score. The scheme is block-max indexes by
// Ding and Suel (Faster top-k document retrieval using block-max indexes, 2011), with MaxScore for
// each window of rows.
func (s *Search) Scan(part, lo, hi int, set bitset.Set, c *topk.Collector, buf *Buffer) error {
	p := s.parts[part]
	buf.cursors = slices.Grow(buf.cursors[:0], len(s.units))[:0]
	for i := range s.units {
		if p.lists[i].df > 0 {
			buf.cursors = append(buf.cursors, unitCursor{weight: s.units[i].weight})
			buf.cursors[len(buf.cursors)-1].init(p.lists[i], p.Rows())
		}
	}
	for start := lo; start < hi && len(buf.cursors) > 0; start += window {
		end := min(start+window, hi)
		if err := s.ctx.Err(); err != nil {
			return err
		}
		if set != nil && set.CountRange(start, end) == 0 {
			continue
		}
		if err := s.window(p, int32(part), start, end, set, c, buf); err != nil {
			return inPart(part, err)
		}
	}
	return nil
}

// window offers the rows start to end-1 of a part, at most window rows: see Scan.
func (s *Search) window(p *part, number int32, start, end int, set bitset.Set, c *topk.Collector, buf *Buffer) error {
	cursors := buf.order[:0]
	total := 0.0
	for i := range buf.cursors {
		g := &buf.cursors[i]
		if g.look(s, start, end); g.bound > 0 {
			cursors = append(cursors, g)
			total += g.bound
		}
	}
	buf.order = cursors
	if total*(1+s.slack) < c.Floor() {
		return nil
	}
	// Rows that have only the units of the first, optional cursors cannot reach the floor.
	slices.SortStableFunc(cursors, func(a, b *unitCursor) int { return cmp.Compare(a.bound, b.bound) })
	optional, rest := 0, 0.0
	for _, g := range cursors {
		g.below = rest
		rest += g.bound
		if rest*(1+s.slack) < c.Floor() {
			optional++
		}
	}
	if optional < len(cursors) {
		rest = cursors[optional].below
	}
	clear(buf.seen[:])
	if wanted := end - start; set != nil && 64*set.CountRange(start, end) < wanted {
		// So few that each is looked up.
		for row := set.NextSet(start); row >= 0 && row < end; row = set.NextSet(row + 1) {
			buf.scores[row-start] = 0
			buf.seen[(row-start)/64] |= 1 << ((row - start) % 64)
		}
		optional, rest = len(cursors), total*(1+s.slack)
	} else {
		for _, g := range cursors[optional:] {
			if err := s.collect(p, g, start, end, set, buf); err != nil {
				return err
			}
		}
	}
	for i := bitset.Set(buf.seen[:]).NextSet(0); i >= 0; i = bitset.Set(buf.seen[:]).NextSet(i + 1) {
		score, norm := buf.scores[i], s.norm(p.lens[start+i])
		hopeless := (score+rest)*(1+s.slack) < c.Floor()
		for j := optional - 1; j >= 0 && !hopeless; j-- {
			g := cursors[j]
			f, err := g.frequency(uint32(start + i))
			if err != nil {
				return err
			}
			if f > 0 {
				score += share(g.weight, f, norm)
			}
			hopeless = (score+g.below)*(1+s.slack) < c.Floor()
		}
		if !hopeless && score > 0 {
			c.Offer(score*(1-s.slack), score*(1+s.slack), number, int32(start+i))
		}
	}
	return nil
}

// collect adds the shares of one unit to the scores of rows start to end-1.
func (s *Search) collect(p *part, g *unitCursor, start, end int, set bitset.Set, buf *Buffer) error {
	ok, err := g.seek(uint32(start))
	for ok && err == nil {
		i, n := g.i, g.n
		for ; i < n; i++ {
			row := int(g.rows[i])
			if row >= end {
				g.i = i
				return nil
			}
			if set != nil && !set.Has(row) {
				continue
			}
			at := row - start
			add := share(g.weight, g.freqs[i], s.norm(p.lens[row]))
			if bit := uint64(1) << (at % 64); buf.seen[at/64]&bit == 0 {
				buf.seen[at/64] |= bit
				buf.scores[at] = add
			} else {
				buf.scores[at] += add
			}
		}
		g.i = n - 1
		ok, err = g.seek(g.rows[n-1] + 1)
	}
	return err
}
