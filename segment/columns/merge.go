package columns

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/vecbolt/vecbolt/internal/bitset"
)

// AddFrom adds the given rows of c, in ascending order, as the rows at, at+1, and so on, as if Add
// were given the metadata of each. Rows of several Columns may take turns, at the price of one pass
// over the fields of c in every call. c must stay usable until the last call of Bytes. When AddFrom
// fails, it has added nothing.
func (b *Builder) AddFrom(c *Columns, rows []int, at int) error {
	if err := b.checkRows(at, at+len(rows)); err != nil {
		return err
	}
	for i, row := range rows {
		if row < 0 || row >= c.rows || i > 0 && row <= rows[i-1] {
			return fmt.Errorf("columns: row %d of %d is out of order", row, c.rows)
		}
	}
	parts, err := b.source(c)
	if err != nil {
		return err
	}
	for _, p := range parts {
		p.from.visit(rows, func(i int, code uint32) {
			p.used.Set(int(code))
			p.to.add(at+i, p.firstID+code)
		})
	}
	b.next = at + len(rows)
	return nil
}

// source returns the parts that columns of b take from c.
func (b *Builder) source(c *Columns) ([]*part, error) {
	if parts, ok := b.sources[c]; ok {
		return parts, nil
	}
	parts := make([]*part, c.columns)
	for i := range parts {
		x := c.entry(i)
		to, from := b.column(string(c.path(&x)), x.role), c.column(&x)
		if from.top >= math.MaxUint32-to.nextID {
			return nil, fmt.Errorf("columns: field %q: more than 2^32 values in all sources", c.path(&x))
		}
		parts[i] = &part{to: to, from: from, firstID: to.nextID, used: bitset.New(int(from.top) + 1)}
		to.nextID += from.top + 1
		to.parts = append(to.parts, parts[i])
	}
	b.sources[c] = parts
	return parts, nil
}

// visit calls fn with every code of the given rows and the index in rows of its row.
func (v *column) visit(rows []int, fn func(i int, code uint32)) {
	if !v.sparse {
		for i, row := range rows {
			if code := v.codes.at(row); code != 0 {
				fn(i, code)
			}
		}
		return
	}
	if len(rows) == 0 {
		return
	}
	i := 0
	for k := v.search(rows[0]); k < len(v.rows); k++ {
		row := int(v.rows[k])
		i += leap(len(rows)-i, func(n int) bool { return rows[i+n] < row })
		if i == len(rows) {
			return
		}
		if rows[i] == row {
			fn(i, v.codes.at(k))
		}
	}
}

// leap returns how many of n elements, from the first on, are below something. It asks about few of
// them, which grow with the logarithm of the result: a column that one row has must not cost a look
// at all rows.
func leap(n int, below func(i int) bool) int {
	lo, hi := 0, 0 // all before lo are below
	for hi < n && below(hi) {
		lo, hi = hi+1, 2*hi+1
	}
	hi = min(hi, n)
	return lo + sort.Search(hi-lo, func(i int) bool { return !below(lo + i) })
}

// part holds what a columnBuilder took from one column of a source: its codes are ids from firstID
// on.
type part struct {
	to      *columnBuilder
	from    column
	firstID uint32
	used    bitset.Set // codes that occur
}

// ordered merges the values of a dictionary with the values that parts took from sources, in
// ascending order; an equal value appears once for each of its ids. first returns the first code of
// such values in a part, their number, and a function that returns each value.
func ordered[T cmp.Ordered](
	d *dictionary[T], parts []*part, first func(*part) (code uint32, n int, value func(i int) T),
) []pair[T] {
	compare := func(a, b pair[T]) int { return cmp.Compare(a.value, b.value) }
	own := d.values
	if !slices.IsSortedFunc(own, compare) {
		own = slices.Clone(own)
		slices.SortFunc(own, compare)
	}
	runs := [][]pair[T]{own}
	for _, p := range parts {
		code, n, value := first(p)
		run := make([]pair[T], 0, p.used.CountRange(int(code), int(code)+n))
		for c := p.used.NextSet(int(code)); c >= 0 && c < int(code)+n; c = p.used.NextSet(c + 1) {
			run = append(run, pair[T]{value(c - int(code)), p.firstID + uint32(c)})
		}
		runs = append(runs, run)
	}
	for len(runs) > 1 { // neighbours, so that each value moves a logarithmic number of times
		half := runs[:0]
		for i := 0; i < len(runs); i += 2 {
			if i+1 == len(runs) {
				half = append(half, runs[i])
			} else {
				half = append(half, merge(runs[i], runs[i+1]))
			}
		}
		runs = half
	}
	return runs[0]
}

func merge[T cmp.Ordered](a, b []pair[T]) []pair[T] {
	if len(a) == 0 {
		return b
	}
	out := make([]pair[T], 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if b[0].value < a[0].value {
			out, b = append(out, b[0]), b[1:]
		} else {
			out, a = append(out, a[0]), a[1:]
		}
	}
	return append(append(out, a...), b...)
}
