package columns

import (
	"cmp"
	"context"
	"fmt"
	"math/bits"
	"slices"
	"sort"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
)

const (
	// scanBlock is the number of codes that are compared with all ranges before the next block: at
	// most 32 KiB, which stays in the L1 cache.
	scanBlock = 8192

	// scanBytes is the limit of ranges times bytes per code up to which comparing with one range
	// after the other is faster than a table look-up of every code (BenchmarkEval/in).
	scanBytes = 64
)

// Eval sets dst to the rows that match e; a nil e matches all. It panics if dst has no room for
// [Columns.Len] rows; bits beyond them become zero. e may be an expression that [filter.Validate]
// refuses.
func (c *Columns) Eval(e filter.Expr, dst bitset.Set) {
	_ = c.EvalContext(context.Background(), e, dst) // which does not end
}

// EvalContext is Eval that ends early with ctx, between two comparisons, and then returns its
// error: dst is of no use.
func (c *Columns) EvalContext(ctx context.Context, e filter.Expr, dst bitset.Set) error {
	if len(dst) < bitset.Words(c.rows) {
		panic(fmt.Sprintf("columns: a set of %d bits for %d rows", 64*len(dst), c.rows))
	}
	if e == nil {
		dst.Fill(c.rows)
		return nil
	}
	v := evaluator{Columns: c, ctx: ctx, words: len(dst)}
	v.eval(e, dst)
	return v.err
}

type evaluator struct {
	*Columns
	ctx   context.Context
	err   error // of ctx: nothing more is compared
	words int
	free  []bitset.Set // no longer used
}

// eval makes dst the set of rows that match e.
func (v *evaluator) eval(e filter.Expr, dst bitset.Set) {
	switch e := e.(type) {
	case *filter.Conjunction:
		v.and(e.Args, dst)
	case *filter.Negation:
		v.eval(e.Arg, dst)
		dst.Not(v.rows)
	default:
		dst.Reset()
		v.or(e, dst)
	}
}

func (v *evaluator) and(args []filter.Expr, dst bitset.Set) {
	if len(args) == 0 {
		dst.Fill(v.rows)
		return
	}
	v.eval(args[0], dst)
	for _, arg := range args[1:] {
		if dst.NextSet(0) < 0 {
			return
		}
		v.with(arg, dst.And)
	}
}

// or adds the rows that match e to dst.
func (v *evaluator) or(e filter.Expr, dst bitset.Set) {
	if v.err == nil {
		v.err = v.ctx.Err()
	}
	if v.err != nil {
		return
	}
	switch e := e.(type) {
	case *filter.Comparison:
		role := uint8(roleValue)
		if e.Op == filter.OpContains {
			role = roleElement
		}
		if col, ok := v.find(e.Field, role); ok {
			col.or(dst, col.compare(nil, e.Op, e.Value))
		}
	case *filter.Membership:
		if col, ok := v.find(e.Field, roleValue); ok {
			var spans []span
			for _, w := range e.Values {
				spans = col.compare(spans, filter.OpEq, w)
			}
			col.or(dst, join(spans))
		}
	case *filter.Existence:
		if col, ok := v.find(e.Field, roleValue); ok && col.top > 0 {
			col.or(dst, []span{{1, col.top}})
		}
	case *filter.Disjunction:
		for _, arg := range e.Args {
			v.or(arg, dst)
		}
	case *filter.Conjunction, *filter.Negation:
		v.with(e, dst.Or)
	}
}

// with gives the rows that match e to use.
func (v *evaluator) with(e filter.Expr, use func(bitset.Set)) {
	var set bitset.Set
	if n := len(v.free); n > 0 {
		set, v.free = v.free[n-1], v.free[:n-1]
	} else {
		set = make(bitset.Set, v.words)
	}
	v.eval(e, set)
	use(set)
	v.free = append(v.free, set)
}

// span is the range of codes from lo to hi, both included.
type span struct{ lo, hi uint32 }

// join sorts spans and merges those that overlap or touch.
func join(spans []span) []span {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && s.lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, s.hi)
		} else {
			out = append(out, s)
		}
	}
	return out
}

// compare appends the codes of the values that relate to x by op; for $contains, the values equal
// to x. The result may have touching spans.
func (v *column) compare(spans []span, op filter.Op, x any) []span {
	add := func(first uint32, n, below, upTo int) {
		from, to := 0, n
		switch op {
		case filter.OpEq, filter.OpContains:
			from, to = below, upTo
		case filter.OpGt:
			from = upTo
		case filter.OpGte:
			from = below
		case filter.OpLt:
			to = below
		case filter.OpLte:
			to = upTo
		default:
			return
		}
		if from < to {
			spans = append(spans, span{first + uint32(from), first + uint32(to) - 1})
		}
	}
	equal := op == filter.OpEq || op == filter.OpContains
	special := func(bit uint8) {
		if code := v.special(bit); equal && code != 0 {
			spans = append(spans, span{code, code})
		}
	}
	switch x := x.(type) {
	case nil:
		special(specialNull)
	case bool:
		if x {
			special(specialTrue)
		} else {
			special(specialFalse)
		}
	case int64, float64:
		if _, ok := filter.Compare(x, x); !ok {
			break // NaN
		}
		below, upTo := bounds(len(v.ints), func(i int) int { return compareNumbers(int64(v.ints[i]), x) })
		add(v.firstInt, len(v.ints), below, upTo)
		below, upTo = bounds(len(v.floats), func(i int) int { return compareNumbers(v.float(i), x) })
		add(v.firstFloat, len(v.floats), below, upTo)
	case string:
		order := func(i int) int { return compareString(v.string(i), x) }
		if op == filter.OpPrefix {
			op = filter.OpEq // of the beginning, in the same order
			order = func(i int) int { return compareString(head(v.string(i), len(x)), x) }
		}
		below, upTo := bounds(v.strings, order)
		add(v.firstString, v.strings, below, upTo)
	}
	return spans
}

// bounds returns how many of n ascending values are below, and how many are at most, what order
// compares them with.
func bounds(n int, order func(i int) int) (below, upTo int) {
	below = sort.Search(n, func(i int) bool { return order(i) >= 0 })
	upTo = below + sort.Search(n-below, func(i int) bool { return order(below+i) > 0 })
	return below, upTo
}

func compareNumbers[T int64 | float64](a T, b any) int {
	c, _ := filter.Compare(a, b)
	return c
}

// compareString compares bytewise; conversions within a comparison do not allocate.
func compareString(a []byte, b string) int {
	switch {
	case string(a) < b:
		return -1
	case string(a) > b:
		return 1
	}
	return 0
}

func head(b []byte, n int) []byte { return b[:min(n, len(b))] }

// or adds to dst the rows with a code in spans, which are disjoint.
func (v *column) or(dst bitset.Set, spans []span) {
	if len(spans) == 0 {
		return
	}
	var table bitset.Set
	if len(spans)*v.codes.width() > scanBytes {
		table = v.table(spans)
	}
	var block [scanBlock / 64]uint64
	for from := 0; from < v.codes.n; from += scanBlock {
		to := min(from+scanBlock, v.codes.n)
		marks := block[:]
		if v.sparse {
			clear(marks)
		} else {
			marks = dst[from/64:]
		}
		if table != nil {
			v.codes.lookup(marks, from, to, table)
		} else {
			for _, s := range spans {
				v.codes.mark(marks, from, to, s)
			}
		}
		if v.sparse {
			scatter(dst, marks, v.rows[from:to])
		}
	}
}

// scatter puts rows[i] into dst for each bit i of marks.
func scatter(dst bitset.Set, marks []uint64, rows []uint32) {
	for w, m := range marks {
		for ; m != 0; m &= m - 1 {
			row := rows[w*64+bits.TrailingZeros64(m)]
			dst[row/64] |= 1 << (row % 64)
		}
	}
}

// table returns the set of codes in spans.
func (v *column) table(spans []span) bitset.Set {
	table := bitset.New(int(v.top) + 1)
	for _, s := range spans {
		for code := s.lo; code <= s.hi; code++ {
			table.Set(int(code))
		}
	}
	return table
}

// lookup sets bit i-from of dst for each code i in [from, to) that is in table.
func (c *codes) lookup(dst []uint64, from, to int, table bitset.Set) {
	switch {
	case c.u8 != nil:
		lookup(dst, c.u8[from:to], table)
	case c.u16 != nil:
		lookup(dst, c.u16[from:to], table)
	default:
		lookup(dst, c.u32[from:to], table)
	}
}

func lookup[T uint8 | uint16 | uint32](dst []uint64, codes []T, table bitset.Set) {
	for w := 0; len(codes) > 0; w++ {
		word := codes[:min(64, len(codes))]
		for i, code := range word {
			dst[w] |= table[code/64] >> (code % 64) & 1 << i
		}
		codes = codes[len(word):]
	}
}
