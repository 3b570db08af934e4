package columns

import (
	"cmp"
	"fmt"
	"math"

	"github.com/vecbolt/vecbolt/filter"
)

// Builder collects rows and makes a column file of them. It keeps each distinct value once, and 4
// or 8 bytes per value of a row beside. A Builder is not safe for concurrent use.
type Builder struct {
	columns map[columnKey]*columnBuilder
	sources map[*Columns][]*part // by column of the source
	next    int                  // first row that may be added
	fields  []field              // of the row being added
}

type columnKey struct {
	path string
	role uint8
}

type field struct {
	path  string
	col   *columnBuilder
	value any
}

// NewBuilder returns a Builder without rows.
func NewBuilder() *Builder {
	return &Builder{columns: map[columnKey]*columnBuilder{}, sources: map[*Columns][]*part{}}
}

// Add gives the row its metadata; meta may be changed afterwards. Rows must come in ascending
// order, below MaxRows; a row that is left out has no fields. Values are nil, bool, int64, float64
// but not NaN, string, []any and map[string]any; lists and maps within lists are skipped, because
// no filter finds them. When Add fails, it has added nothing.
func (b *Builder) Add(row int, meta map[string]any) error {
	if err := b.checkRows(row, row+1); err != nil {
		return err
	}
	b.fields = b.fields[:0]
	var err error
	filter.Flatten(meta, func(path string, value any) bool {
		col := b.column(path, roleValue)
		if i := col.pending; i < len(b.fields) && b.fields[i].col == col {
			// A key with dots and nested keys spell the same path.
			b.fields[i].value, _ = filter.Lookup(meta, path)
			return true
		}
		col.pending = len(b.fields)
		b.fields = append(b.fields, field{path, col, value})
		if err = check(value); err != nil {
			err = fmt.Errorf("columns: row %d: field %q: %w", row, path, err)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	for _, f := range b.fields {
		f.col.add(row, f.col.id(f.value))
		list, _ := f.value.([]any)
		for _, v := range list {
			if isScalar(v) {
				elements := b.column(f.path, roleElement)
				elements.add(row, elements.id(v))
			}
		}
	}
	clear(b.fields)
	b.next = row + 1
	return nil
}

// checkRows tells whether the rows [row, end) may be added.
func (b *Builder) checkRows(row, end int) error {
	if row < b.next || end > MaxRows || end < row {
		return fmt.Errorf("columns: rows %d to %d: want at least %d and at most %d", row, end-1, b.next, MaxRows-1)
	}
	return nil
}

// check refuses values that have no place in a column.
func check(v any) error {
	switch v := v.(type) {
	case nil, bool, int64, string, map[string]any:
		return nil
	case float64:
		if math.IsNaN(v) {
			return fmt.Errorf("a number that is NaN")
		}
		return nil
	case []any:
		for _, e := range v {
			if err := check(e); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("a value of type %T", v)
}

func isScalar(v any) bool {
	switch v.(type) {
	case []any, map[string]any:
		return false
	}
	return true
}

func (b *Builder) column(path string, role uint8) *columnBuilder {
	key := columnKey{path, role}
	col := b.columns[key]
	if col == nil {
		col = &columnBuilder{}
		b.columns[key] = col
	}
	return col
}

// A columnBuilder collects the values of a column. Values get ids while rows are added; codes are
// assigned once all values are known. Equal values share one id if they were added one by one, and
// one per source.
type columnBuilder struct {
	ids      []uint32 // of the values, in the order of the rows
	rows     []uint32 // of each value; nil as long as there is one for each row from 0 on
	nextID   uint32
	specials dictionary[uint8]
	ints     dictionary[int64]
	floats   dictionary[float64]
	strings  dictionary[string]
	parts    []*part
	pending  int // index in Builder.fields where this column was seen last
}

func (c *columnBuilder) add(row int, id uint32) {
	if c.rows == nil && row != len(c.ids) {
		c.rows = make([]uint32, len(c.ids), 2*len(c.ids)+1)
		for i := range c.rows {
			c.rows[i] = uint32(i)
		}
	}
	if c.rows != nil {
		c.rows = append(c.rows, uint32(row))
	}
	c.ids = append(c.ids, id)
}

// id returns the id of a value, and assigns one at its first use. Memory ends long before 32 bits
// of ids do.
func (c *columnBuilder) id(v any) uint32 {
	switch v := v.(type) {
	case nil:
		return c.specials.id(specialNull, &c.nextID)
	case bool:
		if v {
			return c.specials.id(specialTrue, &c.nextID)
		}
		return c.specials.id(specialFalse, &c.nextID)
	case int64:
		return c.ints.id(v, &c.nextID)
	case float64:
		if i, ok := integer(v); ok {
			return c.ints.id(i, &c.nextID)
		}
		return c.floats.id(v, &c.nextID)
	case string:
		return c.strings.id(v, &c.nextID)
	case []any:
		return c.specials.id(specialList, &c.nextID)
	}
	return c.specials.id(specialMap, &c.nextID)
}

// dictionary holds distinct values of one kind and their ids.
type dictionary[T cmp.Ordered] struct {
	index  map[T]uint32
	values []pair[T] // in the order of their first use
}

type pair[T cmp.Ordered] struct {
	value T
	id    uint32
}

func (d *dictionary[T]) id(v T, next *uint32) uint32 {
	id, ok := d.index[v]
	if !ok {
		if d.index == nil {
			d.index = map[T]uint32{}
		}
		id = *next
		*next++
		d.index[v] = id
		d.values = append(d.values, pair[T]{v, id})
	}
	return id
}
