package columns

import (
	"fmt"
	"iter"
	"strings"
)

// Len returns the number of rows.
func (c *Columns) Len() int { return c.rows }

// Value returns the value of a field in a row and whether the row has one. It equals the result of
// [filter.Lookup] in the metadata of the row, with three exceptions: a number that is an integer
// within int64 is an int64, a list has its scalar elements only, and an empty map stands for any
// map. It panics if row is not in [0, Len).
func (c *Columns) Value(row int, path string) (any, bool) {
	if row < 0 || row >= c.rows {
		panic(fmt.Sprintf("columns: row %d of %d", row, c.rows))
	}
	v, ok := c.find(path, roleValue)
	if !ok {
		return nil, false
	}
	i := row
	if v.sparse {
		if i = v.search(row); i == len(v.rows) || v.rows[i] != uint32(row) {
			return nil, false
		}
	}
	code := v.codes.at(i)
	if code == 0 {
		return nil, false
	}
	value := v.value(code)
	if list, ok := value.([]any); ok {
		if e, ok := c.find(path, roleElement); ok {
			for i := e.search(row); i < len(e.rows) && e.rows[i] == uint32(row); i++ {
				list = append(list, e.value(e.codes.at(i)))
			}
		}
		value = list
	}
	return value, true
}

// Rows yields the rows that have a field, ascending. It reads the codes that the field has in the
// file, which are few if few rows have it.
func (c *Columns) Rows(path string) iter.Seq[int] {
	return func(yield func(row int) bool) {
		v, ok := c.find(path, roleValue)
		if !ok {
			return
		}
		for i := range v.codes.n {
			row := i
			if v.sparse {
				row = int(v.rows[i])
			}
			if v.codes.at(i) != 0 && !yield(row) {
				return
			}
		}
	}
}

// Kinds is a set of kinds of values.
type Kinds uint8

// The kinds of values.
const (
	Null   Kinds = 1
	Bool   Kinds = 2
	Number Kinds = 4
	String Kinds = 8
	List   Kinds = 16
	Map    Kinds = 32
)

// String names the kinds, joined by "|".
func (k Kinds) String() string {
	var names []string
	for i, name := range []string{"null", "bool", "number", "string", "list", "map"} {
		if k&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, "|")
}

// FieldStats describes the values of one field.
type FieldStats struct {
	Path     string // dotted
	Kinds    Kinds  // of the values
	Distinct int    // different scalar values
	Rows     int    // rows that have the field
	Elements int    // scalar elements of all lists
}

// Fields describes all fields, in the order of their paths. It reads every column once.
func (c *Columns) Fields() []FieldStats {
	fields := []FieldStats{}
	for i := range c.columns {
		x := c.entry(i)
		v := c.column(&x)
		if x.role == roleElement {
			// Behind the value column of the path, which every list has; but any file may be
			// parsed.
			if n := len(fields); n > 0 && fields[n-1].Path == string(c.path(&x)) {
				fields[n-1].Elements = v.codes.n
			}
			continue
		}
		f := FieldStats{Path: string(c.path(&x)), Rows: v.count()}
		f.Distinct = int(v.top) - int(specialCount(x.specials&(specialList|specialMap)))
		for _, k := range []struct {
			kind   Kinds
			occurs bool
		}{
			{Null, x.specials&specialNull != 0},
			{Bool, x.specials&(specialFalse|specialTrue) != 0},
			{Number, x.ints+x.floats > 0},
			{String, x.strings > 0},
			{List, x.specials&specialList != 0},
			{Map, x.specials&specialMap != 0},
		} {
			if k.occurs {
				f.Kinds |= k.kind
			}
		}
		fields = append(fields, f)
	}
	return fields
}
