package columns

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

var testIdent = Ident{DB: [16]byte{1, 2, 3}, Segment: 42, CRC: 0xcafe, Docs: [16]byte{0xd0, 0xc5}}

func identOf(rows int) Ident {
	id := testIdent
	id.Rows = rows
	return id
}

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// build makes the columns of rows, where nil stands for a row that is left out.
func build(t fataler, rows []map[string]any) ([]byte, *Columns) {
	t.Helper()
	b := NewBuilder()
	for i, m := range rows {
		if m == nil {
			continue
		}
		if err := b.Add(i, m); err != nil {
			t.Fatal(err)
		}
	}
	return finish(t, b, len(rows))
}

func finish(t fataler, b *Builder, rows int) ([]byte, *Columns) {
	t.Helper()
	file := b.Bytes(rows, identOf(rows))
	c, err := Parse(file, identOf(rows))
	if err != nil {
		t.Fatal(err)
	}
	return file, c
}

// Generators. The values are few, so that rows and conditions meet, and near to each other where
// that is hard.

var numbers = []any{
	int64(0), 0.0, math.Copysign(0, -1), int64(1), 1.0, 1.5, -0.5, int64(-7), 1e300, -1e300, 0x1p63, -0x1p63, -0x1.8p63,
	int64(math.MaxInt64), int64(math.MinInt64), int64(1<<53 + 1), float64(1 << 53), int64(1<<53 - 1), float64(1<<53 - 1),
	math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1),
}

var stringValues = []any{"", "a", "ab", "abc", "b", "ab\xff", "ab\xff\xff", "\xff", "é", "ab\x00"}

var scalars = rapid.SampledFrom(slices.Concat([]any{nil, true, false}, numbers, stringValues))

var paths = []string{"a", "b", "a.b", "a.b.c", "a.c", "", "é"}

var value = rapid.Custom(func(t *rapid.T) any {
	if rapid.IntRange(0, 3).Draw(t, "list") > 0 {
		return scalars.Draw(t, "scalar")
	}
	list := rapid.SliceOfN(scalars, 0, 3).Draw(t, "list")
	if rapid.IntRange(0, 9).Draw(t, "nested") == 0 {
		list = append(list, []any{int64(1)}, map[string]any{"a": "b"})
	}
	return list
})

func metadata(depth int) *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		m := map[string]any{}
		for _, key := range rapid.SliceOfN(rapid.SampledFrom(paths), 0, 4).Draw(t, "keys") {
			if depth > 0 && rapid.IntRange(0, 3).Draw(t, "map") == 0 {
				m[key] = metadata(depth-1).Draw(t, "inner")
			} else {
				m[key] = value.Draw(t, "value")
			}
		}
		return m
	})
}

var tables = rapid.SliceOfN(rapid.OneOf(metadata(2), rapid.Just(map[string]any(nil))), 0, 140)

func expression(depth int) *rapid.Generator[filter.Expr] {
	return rapid.Custom(func(t *rapid.T) filter.Expr {
		kinds := 6
		if depth == 0 {
			kinds = 2
		}
		field := rapid.SampledFrom(append(paths, "none")).Draw(t, "field")
		args := func() []filter.Expr {
			return rapid.SliceOfN(expression(depth-1), 0, 4).Draw(t, "args")
		}
		switch rapid.IntRange(0, kinds).Draw(t, "kind") {
		case 0:
			return &filter.Membership{Field: field, Values: rapid.SliceOfN(scalars, 0, 12).Draw(t, "values")}
		case 1:
			return filter.Exists(field)
		case 2:
			return &filter.Comparison{
				Field: field,
				Op: rapid.SampledFrom([]filter.Op{filter.OpEq, filter.OpGt, filter.OpGte, filter.OpLt, filter.OpLte,
					filter.OpContains, filter.OpPrefix, "$odd"}).Draw(t, "op"),
				Value: rapid.OneOf(scalars, rapid.SampledFrom([]any{math.NaN(), 7, []any{}})).Draw(t, "value"),
			}
		case 3:
			return filter.And(args()...)
		case 4:
			return filter.Or(args()...)
		case 5:
			return filter.Not(expression(depth-1).Draw(t, "arg"))
		}
		return nil
	})
}

// checkEval compares Eval with the reference in every row.
func checkEval(t *rapid.T, c *Columns, rows []map[string]any, e filter.Expr) {
	t.Helper()
	dst := bitset.New(len(rows) + rapid.IntRange(0, 130).Draw(t, "room"))
	dst.Fill(len(dst) * 64) // to be overwritten
	c.Eval(e, dst)
	for i := range len(dst) * 64 {
		want := i < len(rows) && filter.Match(e, func(path string) (any, bool) { return filter.Lookup(rows[i], path) })
		if dst.Has(i) != want {
			t.Fatalf("row %d: %v, want %v", i, dst.Has(i), want)
		}
	}
}

func TestEval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := tables.Draw(t, "rows")
		_, c := build(t, rows)
		for range 8 {
			checkEval(t, c, rows, expression(3).Draw(t, "expr"))
		}
	})
}

// TestEvalWide covers codes of 2 and 4 bytes and lists of values that are too long for ranges.
func TestEvalWide(t *testing.T) {
	for _, distinct := range []int{254, 255, 256, 65534, 65535, 65536} {
		b := NewBuilder()
		rows := distinct + 50
		for row := range rows {
			v := row * 7919 % distinct
			meta := map[string]any{"n": int64(row % distinct), "s": fmt.Sprint(v), "tags": []any{int64(v), int64(v + 1)}}
			if row%10 == 9 {
				meta["sparse"] = int64(v)
			}
			if err := b.Add(row, meta); err != nil {
				t.Fatal(err)
			}
		}
		_, c := finish(t, b, rows)
		var many []any
		for i := range 200 {
			many = append(many, int64(i*i), fmt.Sprint(i*3))
		}
		for _, e := range []filter.Expr{
			filter.Eq("n", distinct-2), filter.Range("n", 100, 200), filter.Gt("s", "77"), filter.Eq("s", "100"),
			filter.Prefix("s", "12"), filter.In("n", many...), filter.In("s", many...), filter.In("sparse", many...),
			filter.Contains("tags", 121), filter.Gte("sparse", 200), filter.Exists("sparse"), filter.Ne("sparse", 3),
		} {
			dst := bitset.New(rows)
			c.Eval(e, dst)
			for row := 0; row < rows; row += rows/3000 | 1 { // some rows of the large tables
				if want := filter.Match(e, func(path string) (any, bool) { return c.Value(row, path) }); dst.Has(row) != want {
					t.Fatalf("%d values: %v: row %d: %v, want %v", distinct, e, row, !want, want)
				}
			}
		}
	}
}

func TestMisuse(t *testing.T) {
	_, c := build(t, make([]map[string]any, 65))
	for name, call := range map[string]func(){
		"no room":      func() { c.Eval(nil, bitset.New(64)) },
		"negative row": func() { c.Value(-1, "a") },
		"row 65":       func() { c.Value(65, "a") },
		"too few rows": func() {
			b := NewBuilder()
			if err := b.Add(3, nil); err != nil {
				t.Error(err)
			}
			b.Bytes(3, identOf(3))
		},
		"other rows": func() { NewBuilder().Bytes(3, identOf(4)) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			call()
		}()
	}
}

// normal returns a value as Columns give it back.
func normal(v any) any {
	switch v := v.(type) {
	case float64:
		if i, ok := integer(v); ok {
			return i
		}
	case map[string]any:
		return map[string]any{}
	case []any:
		list := []any{}
		for _, e := range v {
			if isScalar(e) {
				list = append(list, normal(e))
			}
		}
		return list
	}
	return v
}

func TestValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := tables.Draw(t, "rows")
		_, c := build(t, rows)
		if c.Len() != len(rows) {
			t.Fatalf("Len = %d", c.Len())
		}
		type stats struct {
			FieldStats
			distinct map[any]bool
		}
		fields := map[string]*stats{}
		for i, m := range rows {
			seen := map[string]bool{}
			filter.Flatten(m, func(path string, _ any) bool { seen[path] = true; return true })
			for _, path := range append(paths, "a.b.c.a", "none") {
				want, wantOK := filter.Lookup(m, path)
				got, ok := c.Value(i, path)
				if ok != wantOK || ok != seen[path] && (ok || seen[path]) || !cmp.Equal(got, normal(want)) {
					t.Fatalf("row %d %q: %#v %v, want %#v %v", i, path, got, ok, want, wantOK)
				}
			}
			for path := range seen {
				f := fields[path]
				if f == nil {
					f = &stats{FieldStats{Path: path}, map[any]bool{}}
					fields[path] = f
				}
				f.Rows++
				v, _ := filter.Lookup(m, path)
				switch v := normal(v).(type) {
				case nil:
					f.Kinds |= Null
				case bool:
					f.Kinds |= Bool
				case int64, float64:
					f.Kinds |= Number
				case string:
					f.Kinds |= String
				case []any:
					f.Kinds |= List
					f.Elements += len(v)
					continue
				case map[string]any:
					f.Kinds |= Map
					continue
				}
				f.distinct[normal(v)] = true
			}
		}
		for _, path := range append(paths, "none") {
			var want []int
			for i, m := range rows {
				if _, ok := filter.Lookup(m, path); ok {
					want = append(want, i)
				}
			}
			if got := slices.Collect(c.Rows(path)); !slices.Equal(got, want) {
				t.Fatalf("rows with %q: %v, want %v", path, got, want)
			}
		}
		want := []FieldStats{}
		for _, f := range fields {
			f.Distinct = len(f.distinct)
			want = append(want, f.FieldStats)
		}
		slices.SortFunc(want, func(a, b FieldStats) int { return strings.Compare(a.Path, b.Path) })
		if d := cmp.Diff(want, c.Fields()); d != "" {
			t.Fatalf("fields (-want +got):\n%s", d)
		}
	})
}

func TestKindsString(t *testing.T) {
	if got := (Null | Number | Map).String(); got != "null|number|map" {
		t.Error(got)
	}
	if got := Kinds(0).String(); got != "" {
		t.Error(got)
	}
}

// TestAddFrom merges tables with rows dropped, in runs that take turns, and expects the file that
// Add makes.
func TestAddFrom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type part struct {
			cols *Columns
			meta []map[string]any
			rows []int // still to be copied
		}
		var parts []*part
		for range rapid.IntRange(1, 3).Draw(t, "parts") {
			meta := tables.Draw(t, "rows")
			_, c := build(t, meta)
			p := &part{cols: c, meta: meta}
			keep := rapid.SampledFrom([]int{1, 2, 10}).Draw(t, "keep one of")
			for i := range meta {
				if rapid.IntRange(1, keep).Draw(t, "keep") == 1 {
					p.rows = append(p.rows, i)
				}
			}
			parts = append(parts, p)
		}
		merged := NewBuilder()
		var rows []map[string]any
		turns := rapid.Bool().Draw(t, "turns")
		for len(parts) > 0 {
			i := rapid.IntRange(0, len(parts)-1).Draw(t, "part")
			p := parts[i]
			n := len(p.rows)
			if turns {
				n = rapid.IntRange(0, n).Draw(t, "run")
			}
			if err := merged.AddFrom(p.cols, p.rows[:n], len(rows)); err != nil {
				t.Fatal(err)
			}
			for _, row := range p.rows[:n] {
				rows = append(rows, p.meta[row])
			}
			if p.rows = p.rows[n:]; len(p.rows) == 0 {
				parts = slices.Delete(parts, i, i+1)
			}
		}
		last := metadata(2).Draw(t, "last") // a builder may go on with Add
		if err := merged.Add(len(rows), last); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, last)
		file, c := finish(t, merged, len(rows))
		if direct, _ := build(t, rows); !bytes.Equal(file, direct) {
			t.Fatal("merging and adding give different files")
		}
		for range 4 {
			checkEval(t, c, rows, expression(3).Draw(t, "expr"))
		}
	})
}

// To merge columns that few rows have does not cost a look at each row.
func TestLeap(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 100, 1 << 20} {
		for _, want := range []int{0, 1, 2, 3, 7, 8, 99, 100, n / 2, n - 1, n} {
			if want < 0 || want > n {
				continue
			}
			looks := 0
			got := leap(n, func(i int) bool {
				if i < 0 || i >= n {
					t.Fatalf("looks at %d of %d", i, n)
				}
				looks++
				return i < want
			})
			if most := 2*bits.Len(uint(want)) + 1; got != want || looks > most {
				t.Errorf("%d of %d are below, want %d; %d looks, want %d at most", got, n, want, looks, most)
			}
		}
	}
}

func TestBuilderRefuses(t *testing.T) {
	b := NewBuilder()
	if err := b.Add(3, map[string]any{"a": int64(1)}); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"row again":    b.Add(3, nil),
		"row beyond":   b.Add(MaxRows, nil),
		"row negative": b.Add(-1, nil),
		"int":          b.Add(4, map[string]any{"a": "x", "b": map[string]any{"c": 1}}),
		"NaN":          b.Add(4, map[string]any{"new": math.NaN()}),
		"in list":      b.Add(4, map[string]any{"new": []any{"a", []string{"b"}}}),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	_, c := build(t, []map[string]any{{"a": int64(5)}, {"b": "x"}})
	for name, err := range map[string]error{
		"row":        b.AddFrom(c, []int{0}, 3),
		"descending": b.AddFrom(c, []int{1, 0}, 4),
		"twice":      b.AddFrom(c, []int{1, 1}, 4),
		"negative":   b.AddFrom(c, []int{-1}, 4),
		"beyond":     b.AddFrom(c, []int{2}, 4),
	} {
		if err == nil {
			t.Errorf("AddFrom: %s: no error", name)
		}
	}
	b.column("b", roleValue).nextID = math.MaxUint32 - 1
	if err := b.AddFrom(c, []int{0, 1}, 4); err == nil {
		t.Error("AddFrom: no error where the ids end")
	}
	got, _ := finish(t, b, 4)
	if want, _ := build(t, []map[string]any{nil, nil, nil, {"a": int64(1)}}); !bytes.Equal(got, want) {
		t.Error("refused rows left something behind")
	}
}

// small is a table with every feature of the format.
var small = []map[string]any{
	{"lang": "go", "year": int64(2024), "draft": false, "tags": []any{"db", "go"}, "score": 0.5},
	{"lang": "c", "year": int64(1999), "draft": true, "by": map[string]any{"name": "kr"}},
	{"lang": nil, "year": 2020.0, "tags": []any{"db"}},
	{"lang": "go", "year": int64(2020), "draft": false},
	nil, nil, nil, nil,
	{"lang": "rust", "year": int64(2015)},
}

func TestDamage(t *testing.T) {
	file, _ := build(t, small)
	ident := identOf(len(small))
	for i := range file {
		for _, flip := range []byte{1, 0x80, 0xff} {
			bad := slices.Clone(file)
			bad[i] ^= flip
			if _, err := Parse(bad, ident); !errors.Is(err, fileformat.ErrDamaged) {
				t.Fatalf("byte %d ^ %#x: %v", i, flip, err)
			}
		}
	}
	for n := range file {
		if _, err := Parse(file[:n:n], ident); !errors.Is(err, fileformat.ErrDamaged) {
			t.Fatalf("first %d bytes: %v", n, err)
		}
	}
	if _, err := Parse(append(slices.Clone(file), 0), ident); !errors.Is(err, fileformat.ErrDamaged) {
		t.Errorf("a byte too many: %v", err)
	}
	later := slices.Clone(file)
	later[8]++
	fixCRC(later)
	if _, err := Parse(later, ident); !errors.Is(err, fileformat.ErrVersion) {
		t.Errorf("version: %v", err)
	}
	for _, change := range []func(*Ident){
		func(id *Ident) { id.DB[15]++ }, func(id *Ident) { id.Segment++ },
		func(id *Ident) { id.Rows++ }, func(id *Ident) { id.CRC++ }, func(id *Ident) { id.Docs[15]++ },
	} {
		other := ident
		change(&other)
		if _, err := Parse(file, other); !errors.Is(err, fileformat.ErrMismatch) {
			t.Errorf("%+v: %v", other, err)
		}
	}
}

// TestImpossible changes bytes and corrects the checksum: Parse must see what the dictionary, rows
// and codes must not be, or the file must work.
func TestImpossible(t *testing.T) {
	file, _ := build(t, small)
	bad, ident := slices.Clone(file), identOf(len(small))
	end := len(file) - crcSize
	refused := 0
	for i := range end {
		for _, v := range []byte{0, 1, 2, file[i] - 1, file[i] + 1, 0x7f, 0x80, 0xff} {
			bad[i] = v
			fixCRC(bad)
			if c, err := Parse(bad, ident); err == nil {
				useAll(c)
			} else if refused++; !errors.Is(err, fileformat.ErrDamaged) && !errors.Is(err, fileformat.ErrVersion) && !errors.Is(err, fileformat.ErrMismatch) {
				t.Fatalf("byte %d = %#x: %v", i, v, err)
			}
		}
		bad[i] = file[i]
	}
	if refused < end {
		t.Errorf("only %d changes refused", refused)
	}
}

// TestRefused gives Parse what would do no harm but give wrong answers.
func TestRefused(t *testing.T) {
	file, _ := build(t, []map[string]any{{"a": 0.5, "b": 0.5}})
	for name, change := range map[string]func(b []byte){
		"equal paths":        func(b []byte) { copy(b[headerSize+2*entrySize:], "aa") },
		"descending paths":   func(b []byte) { copy(b[headerSize+2*entrySize:], "ba") },
		"unknown special":    func(b []byte) { b[headerSize+14] = 32 },
		"integer as a float": func(b []byte) { copy(b[bytes.Index(b, []byte("\xe0\x3f"))-6:], "\x00\x00\x00\x00\x00\x00\x00\x40") },
		"dense elements":     func(b []byte) { b[headerSize+12] = roleElement },
	} {
		bad := slices.Clone(file)
		change(bad)
		fixCRC(bad)
		if _, err := Parse(bad, identOf(1)); !errors.Is(err, fileformat.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDottedKeys has values that share a path: the one that a filter finds counts.
func TestDottedKeys(t *testing.T) {
	rows := []map[string]any{
		{"a": map[string]any{"b": []any{int64(1)}}, "a.b": int64(2)},
		{"a": map[string]any{"b": int64(3)}, "a.b": map[string]any{}},
		{"a": map[string]any{"b.c": true}, "a.b": map[string]any{"c": false}},
	}
	_, c := build(t, rows)
	for row, m := range rows {
		for _, path := range []string{"a", "a.b", "a.b.c"} {
			want, wantOK := filter.Lookup(m, path)
			if got, ok := c.Value(row, path); ok != wantOK || !cmp.Equal(got, normal(want)) {
				t.Errorf("row %d %q: %v %v, want %v", row, path, got, ok, want)
			}
		}
	}
	dst := bitset.New(len(rows))
	if c.Eval(filter.Contains("a.b", 1), dst); dst.Count() != 0 {
		t.Error("found an element of a hidden list")
	}
}

func fixCRC(file []byte) {
	end := len(file) - crcSize
	binary.LittleEndian.PutUint32(file[end:], codec.CRC(file[:end]))
}

// useAll calls everything that reads the file.
func useAll(c *Columns) {
	dst := bitset.New(c.Len())
	for _, f := range c.Fields() {
		for row := range c.Len() {
			c.Value(row, f.Path)
		}
		for _, v := range []any{nil, true, int64(2020), 0.25, "go"} {
			for _, op := range []filter.Op{filter.OpEq, filter.OpGte, filter.OpLt, filter.OpContains, filter.OpPrefix} {
				c.Eval(&filter.Comparison{Field: f.Path, Op: op, Value: v}, dst)
			}
		}
		c.Eval(filter.Not(filter.Exists(f.Path)), dst)
	}
	all := make([]int, c.Len())
	for i := range all {
		all[i] = i
	}
	b := NewBuilder()
	if err := b.AddFrom(c, all, 0); err != nil {
		panic(err)
	}
	b.Bytes(c.Len(), Ident{Rows: c.Len()})
}

func TestEmpty(t *testing.T) {
	for _, rows := range [][]map[string]any{nil, {nil}, {{}, {}}} {
		_, c := build(t, rows)
		if f := c.Fields(); len(f) != 0 {
			t.Errorf("fields %v", f)
		}
		dst := bitset.New(len(rows))
		c.Eval(filter.Ne("a", 1), dst)
		if dst.Count() != len(rows) {
			t.Errorf("%d of %d rows lack the field", dst.Count(), len(rows))
		}
	}
}

// TestRareFields holds memory down when every row has a field of its own.
func TestRareFields(t *testing.T) {
	const rows = 2000
	b := NewBuilder()
	for row := range rows {
		if err := b.Add(row, map[string]any{fmt.Sprint("key", row): int64(row)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(b.Bytes(rows, identOf(rows))); n > 100*rows {
		t.Errorf("%d bytes for %d values", n, rows)
	}
}

// TestUnaligned parses at an address that allows no views.
func TestUnaligned(t *testing.T) {
	file, c := build(t, small)
	moved := append(make([]byte, 1, len(file)+1), file...)[1:]
	m, err := Parse(moved, identOf(len(small)))
	if err != nil {
		t.Fatal(err)
	}
	for row := range small {
		for _, f := range c.Fields() {
			want, _ := c.Value(row, f.Path)
			if got, _ := m.Value(row, f.Path); !cmp.Equal(got, want) {
				t.Errorf("row %d %q: %v, want %v", row, f.Path, got, want)
			}
		}
	}
}
