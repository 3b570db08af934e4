package columns

import (
	"bytes"
	"fmt"
	"math"
	"sort"

	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// Columns answer filters on the rows of one segment. They are immutable and safe for concurrent
// use.
type Columns struct {
	b       []byte
	rows    int
	columns int
}

// Parse opens the column file b for the segment ident. It verifies the checksum and the structure
// of all of b, which it keeps: b must stay readable and unchanged while the Columns are used. Views
// of b need an address that is a multiple of 8, as mappings have it; otherwise, and on big-endian
// machines, each use of a column copies it. The error wraps fileformat.ErrDamaged,
// fileformat.ErrVersion or fileformat.ErrMismatch.
func Parse(b []byte, ident Ident) (*Columns, error) {
	h, err := decodeHeader(b)
	if err != nil {
		return nil, err
	}
	if h.ident != ident {
		return nil, fmt.Errorf("columns: %w: have %+v, want %+v", fileformat.ErrMismatch, h.ident, ident)
	}
	room := uint64(len(b)-crcSize) - headerSize
	if uint64(h.columns) > room/entrySize || h.paths > room-entrySize*uint64(h.columns) {
		return nil, corrupt(52, "%d columns and %d bytes of paths in %d bytes", h.columns, h.paths, len(b))
	}
	c := &Columns{b: b, rows: ident.Rows, columns: int(h.columns)}
	path := headerSize + entrySize*uint64(h.columns)
	pathsEnd := path + h.paths
	data := align(pathsEnd)
	for i := range c.columns {
		x := c.entry(i)
		if x.path != path || uint64(x.pathLen) > pathsEnd-path {
			return nil, corrupt(c.entryOffset(i), "path at %d, %d bytes long", x.path, x.pathLen)
		}
		path += uint64(x.pathLen)
		if i > 0 {
			prev := c.entry(i - 1)
			if o := bytes.Compare(c.path(&prev), c.path(&x)); o > 0 || o == 0 && prev.role >= x.role {
				return nil, corrupt(c.entryOffset(i), "column %q out of order", c.path(&x))
			}
		}
		if x.data != data {
			return nil, corrupt(c.entryOffset(i), "column %q at %d instead of %d", c.path(&x), x.data, data)
		}
		if data, err = c.check(i, &x); err != nil {
			return nil, err
		}
	}
	if path != pathsEnd || data != uint64(len(b)-crcSize) {
		return nil, corrupt(data, "paths end at %d instead of %d, columns at %d instead of %d", path,
			pathsEnd, data, len(b)-crcSize)
	}
	return c, nil
}

// check verifies column i and returns the file offset of its end.
func (c *Columns) check(i int, x *entry) (end uint64, err error) {
	limit := uint64(len(c.b) - crcSize)
	bad := func(what string) (uint64, error) {
		return 0, corrupt(c.entryOffset(i), "column %q: %s", c.path(x), what)
	}
	switch {
	case x.role != roleValue && x.role != roleElement:
		return bad("role")
	case x.layout != layoutDense && x.layout != layoutSparse, x.layout == layoutDense && x.role != roleValue:
		return bad("layout")
	case x.specials >= 2*specialMap, x.role == roleElement && x.specials >= specialList:
		return bad("special values")
	case x.layout == layoutDense && x.codes != uint64(c.rows):
		return bad("number of codes")
	case x.codes > limit || x.text > limit || x.top() >= math.MaxUint32:
		return bad("longer than the file")
	}
	s := x.sections()
	if s.end > limit {
		return bad("longer than the file")
	}
	col := c.column(x)
	switch {
	case !ascending(len(col.ints), func(i int) bool { return int64(col.ints[i-1]) < int64(col.ints[i]) }):
		return bad("integers")
	case !ascending(len(col.floats), func(i int) bool { return col.float(i-1) < col.float(i) }):
		return bad("numbers")
	case !col.checkFloats():
		return bad("numbers")
	case !col.checkOffsets():
		return bad("offsets of strings")
	case !ascending(col.strings, func(i int) bool { return string(col.string(i-1)) < string(col.string(i)) }):
		return bad("strings")
	case !col.checkRows(c.rows, x.role == roleElement):
		return bad("rows")
	case !col.checkCodes():
		return bad("codes")
	}
	return s.end, nil
}

func ascending(n int, less func(i int) bool) bool {
	for i := 1; i < n; i++ {
		if !less(i) {
			return false
		}
	}
	return true
}

func (c *Columns) entryOffset(i int) uint64 { return headerSize + entrySize*uint64(i) }

func (c *Columns) entry(i int) entry { return decodeEntry(c.b[c.entryOffset(i):]) }

func (c *Columns) path(x *entry) []byte { return c.b[x.path : x.path+uint64(x.pathLen)] }

// find returns the column of a path and role.
func (c *Columns) find(path string, role uint8) (column, bool) {
	i, ok := sort.Find(c.columns, func(i int) int {
		x := c.entry(i)
		switch p := c.path(&x); {
		case path < string(p):
			return -1
		case path > string(p):
			return 1
		}
		return int(role) - int(x.role)
	})
	if !ok {
		return column{}, false
	}
	x := c.entry(i)
	return c.column(&x), true
}
