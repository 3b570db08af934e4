package fuzz_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"reflect"
	"runtime"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/segment/columns"
)

// sealColumns makes length and checksum of any bytes right, so that the fuzzer gets behind them.
func sealColumns(data []byte) []byte {
	b := append(slices.Clone(data), make([]byte, max(0, 68-len(data)))...)
	copy(b, "VECBOLTC\x01\x00\x00\x00")
	binary.LittleEndian.PutUint64(b[16:], uint64(len(b)))
	binary.LittleEndian.PutUint32(b[len(b)-4:], codec.CRC(b[:len(b)-4]))
	return b
}

// columnsIdent reads what docs/format/columns.md says the file was made from.
func columnsIdent(b []byte) (id columns.Ident) {
	if len(b) >= 52 {
		id.Rows = int(int32(binary.LittleEndian.Uint32(b[12:])))
		copy(id.DB[:], b[24:40])
		id.Segment = binary.LittleEndian.Uint64(b[40:])
		id.CRC = binary.LittleEndian.Uint32(b[48:])
	}
	return id
}

// columnsFile is a file of many kinds of columns.
func columnsFile(f *testing.F, rows int) []byte {
	b := columns.NewBuilder()
	for row := range rows {
		m := map[string]any{"s": string(rune('a' + row%7)), "n": int64(row * row), "b": row%2 == 0}
		switch row % 4 {
		case 0:
			m["list"] = []any{int64(row % 5), "x", 0.5, nil, true}
		case 1:
			m["n"] = float64(row) / 4
			m["map"] = map[string]any{"k": nil}
		case 2:
			delete(m, "s")
			m["list"] = []any{}
		}
		if row%50 == 7 {
			m["rare"] = math.MaxFloat64
		}
		if err := b.Add(row, m); err != nil {
			f.Fatal(err)
		}
	}
	return b.Bytes(rows, columns.Ident{Segment: 3, Rows: rows})
}

// FuzzColumns parses arbitrary bytes as they are and with length and checksum made right. What
// Parse accepts can be used in every way, and Eval agrees with Value; nothing panics, and Parse
// allocates in proportion to its input.
func FuzzColumns(f *testing.F) {
	for _, rows := range []int{0, 1, 9, 100, 300} {
		b := columnsFile(f, rows)
		f.Add(b, false)
		for i := range 12 {
			bad := slices.Clone(b)
			bad[len(b)*i/12] ^= 1 << (i % 8)
			f.Add(bad, true)
		}
	}
	f.Add([]byte{}, true)
	f.Add(bytes.Repeat([]byte{0xff}, 500), true)
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		if seal {
			data = sealColumns(data)
		}
		ident := columnsIdent(data)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c, err := columns.Parse(data, ident)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > uint64(64<<10+4*len(data)) {
			t.Fatalf("%d bytes allocated for %d bytes of input", got, len(data))
		}
		if err != nil || ident.Rows > 1<<12 { // the set of a huge segment without columns is large
			return
		}
		checkColumns(t, c)

		all := make([]int, c.Len())
		for i := range all {
			all[i] = i
		}
		b := columns.NewBuilder()
		if err := b.AddFrom(c, all, 0); err != nil {
			t.Fatal(err)
		}
		again, err := columns.Parse(b.Bytes(c.Len(), ident), ident)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range c.Fields() {
			for row := range c.Len() {
				want, wantOK := c.Value(row, field.Path)
				if got, ok := again.Value(row, field.Path); ok != wantOK || !reflect.DeepEqual(got, want) {
					t.Fatalf("row %d %q: %v after a merge, %v before", row, field.Path, got, want)
				}
			}
		}
	})
}

func checkColumns(t *testing.T, c *columns.Columns) {
	dst := bitset.New(c.Len())
	fields := c.Fields()
	for _, field := range fields[:min(len(fields), 8)] {
		for _, v := range []any{nil, true, false, int64(0), int64(4), 0.5, -1e300, "", "b", "x"} {
			exprs := []filter.Expr{filter.Eq(field.Path, v), filter.Not(filter.In(field.Path, v, int64(9), "a"))}
			for _, op := range []filter.Op{filter.OpGt, filter.OpGte, filter.OpLt, filter.OpLte, filter.OpPrefix} {
				exprs = append(exprs, filter.And(filter.Exists(field.Path), &filter.Comparison{Field: field.Path, Op: op, Value: v}))
			}
			for _, e := range exprs {
				c.Eval(e, dst)
				for row := range c.Len() {
					want := filter.Match(e, func(path string) (any, bool) { return c.Value(row, path) })
					if dst.Has(row) != want {
						t.Fatalf("row %d, %v: %v, want %v", row, e, !want, want)
					}
				}
			}
			// The elements of a file that no Builder made may belong to rows without a list.
			c.Eval(filter.Contains(field.Path, v), dst)
		}
	}
}
