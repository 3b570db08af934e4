package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/exchange"
	"github.com/vecbolt/vecbolt/internal/docjson"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

const formatParquet exchange.Format = "parquet"

const parquetMagic = "PAR1"

// isParquet reports whether a file is Parquet, by its name or its first bytes.
func isParquet(path string) bool {
	if ext := strings.ToLower(filepath.Ext(path)); ext == ".parquet" || ext == ".pq" {
		return true
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false // to read a pipe would take its bytes
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, len(parquetMagic))
	_, err = io.ReadFull(f, head)
	return err == nil && string(head) == parquetMagic
}

// parquetSource reads the rows of a Parquet file as exchange.ParseDocument reads objects: columns
// are keys. See https://parquet.apache.org/docs/file-format.
type parquetSource struct {
	path string
	rows int64
}

func openParquet(path string) (*parquetSource, error) {
	s := &parquetSource{path: path}
	err := s.with(func(f *parquet.File, _ *os.File) error {
		s.rows = f.NumRows()
		return nil
	})
	return s, err
}

// Total implements exchange.Source. Progress is in rows.
func (s *parquetSource) Total() int64 { return s.rows }

// with calls fn with the open file. The library may panic for a damaged file: every panic becomes
// an error.
func (s *parquetSource) with(fn func(*parquet.File, *os.File) error) error {
	f, err := vfs.OpenFile(s.path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := checkFooter(f, info.Size()); err != nil {
		return s.failed(err)
	}
	var file *parquet.File
	err = guarded(func() (err error) {
		file, err = parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true),
			parquet.ReadBufferSize(64<<10))
		return err
	})
	if err != nil {
		return s.failed(err)
	}
	if err := s.unreadable(file.Metadata()); err != nil {
		return err
	}
	return fn(file, f)
}

// unreadable returns the error for a column in a codec that is not read. Version 0.32.0 of the
// library has no LZO and no LZ4 in frames, and of LZ4_RAW it returns wrong values.
func (s *parquetSource) unreadable(m *format.FileMetaData) error {
	for i := range m.RowGroups {
		for j := range m.RowGroups[i].Columns {
			c := &m.RowGroups[i].Columns[j].MetaData
			switch c.Codec {
			case format.LZO, format.Lz4, format.Lz4Raw:
				return fmt.Errorf("%w: %s: column %q is compressed with %v, which is not read: "+
					"write the file with zstd, snappy, gzip, brotli or without compression",
					db.ErrInvalid, s.path, strings.Join(c.PathInSchema, "."), c.Codec)
			}
		}
	}
	return nil
}

func (s *parquetSource) failed(err error) error {
	return fmt.Errorf("%s: %w: %w", s.path, exchange.ErrFormat, err)
}

// guarded calls fn, and returns its panics as errors, bad addresses in the assembly of the library
// too.
func guarded(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("damaged: %v", r)
		}
	}()
	return fn()
}

// Documents implements exchange.Source. It holds a page of each column, and a few rows.
func (s *parquetSource) Documents(ctx context.Context) iter.Seq2[*exchange.ImportedDocument, error] {
	return func(yield func(*exchange.ImportedDocument, error) bool) {
		err := s.with(func(f *parquet.File, in *os.File) error { return s.read(ctx, f, in, yield) })
		if err != nil && !errors.Is(err, errStopped) {
			yield(nil, err)
		}
	}
}

// errStopped ends a loop whose caller wants no more.
var errStopped = errors.New("stopped")

func (s *parquetSource) read(ctx context.Context, f *parquet.File, in io.ReaderAt,
	yield func(*exchange.ImportedDocument, error) bool) error {
	var t *parquetTable
	check := pageChecker{r: in, size: f.Size()}
	err := guarded(func() (err error) {
		check.columns = leaves(f.Root(), nil)
		t, err = newParquetTable(f.Metadata().Schema)
		return err
	})
	if err != nil {
		return s.failed(err)
	}
	row := int64(0)
	for i, g := range f.RowGroups() {
		if err := ctx.Err(); err != nil {
			return err
		}
		group := &f.Metadata().RowGroups[i]
		if group.NumRows == 0 { // nothing of it is read, and writers give its pages offsets of zero
			continue
		}
		if err := guarded(func() error { return check.rowGroup(group) }); err != nil {
			return s.failed(fmt.Errorf("rows from %d: %w", row, err))
		}
		end := row + group.NumRows
		var rows parquet.Rows
		buf := make([]parquet.Row, 8)
		for row < end {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := 0
			var docs []*exchange.ImportedDocument
			err := guarded(func() (err error) {
				if rows == nil {
					rows = g.Rows()
				}
				n, err = rows.ReadRows(buf[:min(int64(len(buf)), end-row)])
				for _, values := range buf[:n] {
					doc := t.document(values)
					doc.Position = exchange.Position{File: s.path, Unit: "row", N: row}
					row++
					doc.Done = row
					docs = append(docs, doc)
				}
				return err
			})
			for _, doc := range docs {
				if !yield(doc, nil) {
					return errors.Join(errStopped, closed(rows))
				}
			}
			if err == nil && n == 0 || errors.Is(err, io.EOF) && row < end {
				err = fmt.Errorf("the rows end, %d are missing: %w", end-row, io.ErrUnexpectedEOF)
			}
			if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				_ = closed(rows)
				return s.failed(fmt.Errorf("row %d: %w", row, err))
			}
		}
		if err := closed(rows); err != nil {
			return s.failed(err)
		}
	}
	return nil
}

func closed(rows parquet.Rows) error {
	if rows == nil {
		return nil
	}
	return guarded(rows.Close)
}

func leaves(c *parquet.Column, to []*parquet.Column) []*parquet.Column {
	if c.Leaf() {
		return append(to, c)
	}
	for _, child := range c.Columns() {
		to = leaves(child, to)
	}
	return to
}

// columnName is the path of a column.
func columnName(c *parquet.Column) string { return strings.Join(c.Path(), ".") }

// A parquetTable makes documents of rows.
type parquetTable struct {
	columns []*parquetNode
	leaves  int
	vector  int // the column that goes to the vector without a detour by JSON; -1: none
	values  [][]parquet.Value
	line    []byte
}

// A parquetNode is an element of the schema.
type parquetNode struct {
	*format.SchemaElement
	logical  format.LogicalTypeValue
	first    int // number of the first leaf
	end      int // number after the last leaf
	def, rep int // levels of a value that is there
	children []*parquetNode
}

func newParquetTable(schema []format.SchemaElement) (*parquetTable, error) {
	t := &parquetTable{vector: -1}
	at := 0
	var read func(def, rep int) (*parquetNode, error)
	read = func(def, rep int) (*parquetNode, error) {
		if at >= len(schema) {
			return nil, errors.New("the schema is cut off")
		}
		e := &schema[at]
		n := &parquetNode{SchemaElement: e, logical: e.LogicalType.Value, first: t.leaves}
		if at++; at > 1 {
			switch e.RepetitionType.V {
			case format.Optional:
				def++
			case format.Repeated:
				def++
				rep++
			}
		}
		n.def, n.rep = def, rep
		if e.Type.Valid {
			t.leaves++
		}
		for range e.NumChildren.V {
			child, err := read(def, rep)
			if err != nil {
				return nil, err
			}
			n.children = append(n.children, child)
		}
		if n.end = t.leaves; n.end == n.first {
			return nil, fmt.Errorf("column %q is empty", e.Name)
		}
		return n, nil
	}
	root, err := read(0, 0)
	if err != nil {
		return nil, err
	}
	t.columns = root.children
	t.values = make([][]parquet.Value, t.leaves)
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		if slices.Contains(names[:i], c.Name) {
			return nil, fmt.Errorf("two columns are named %.40q", c.Name)
		}
		names[i] = c.Name
	}
	for _, key := range []string{"vector", "embedding", "values"} {
		if i := slices.Index(names, key); i >= 0 {
			if t.columns[i].isVector() {
				t.vector = i
			}
			break
		}
	}
	return t, nil
}

// isID reports whether a column has the ids of documents.
func (n *parquetNode) isID() bool { return n.Name == "id" || n.Name == "_id" }

// isNull reports whether the next value of a column is null.
func (n *parquetNode) isNull(values [][]parquet.Value) bool {
	next := values[n.first]
	return len(next) == 0 || next[0].DefinitionLevel() < n.def
}

// isVector reports whether the values are lists of floating-point numbers.
func (n *parquetNode) isVector() bool {
	if n.end != n.first+1 {
		return false
	}
	repeated := 0
	for {
		if n.RepetitionType.V == format.Repeated {
			repeated++
		}
		if len(n.children) == 0 {
			return repeated == 1 && (n.Type.V == format.Float || n.Type.V == format.Double)
		}
		n = n.children[0]
	}
}

// document makes a document of a row. One that cannot be stored has Skip set, with its id if that
// can be read.
func (t *parquetTable) document(row parquet.Row) *exchange.ImportedDocument {
	doc := &exchange.ImportedDocument{}
	if doc.Skip = t.fill(doc, row); doc.Skip == nil {
		return doc
	}
	if id := t.id(row); id != "" {
		doc.Document.ID = id
		doc.Skip = fmt.Errorf("document %.40q: %w", id, doc.Skip)
	}
	return doc
}

// id returns the id of a row, or "".
func (t *parquetTable) id(row parquet.Row) string {
	t.start(row)
	for _, c := range t.columns {
		if !c.isID() {
			continue
		}
		v, err := c.value(t.values, false)
		if err != nil {
			continue
		}
		line, err := docjson.AppendValue([]byte(`{"`+c.Name+`":`), v)
		if err != nil {
			continue
		}
		if d, _, err := exchange.ParseDocument(append(line, '}')); err == nil && d.ID != "" {
			return d.ID
		}
	}
	return ""
}

// start makes the values of a row those that are read next. Reading a column takes its values.
func (t *parquetTable) start(row parquet.Row) {
	clear(t.values)
	row.Range(func(column int, values []parquet.Value) bool {
		t.values[column] = values
		return true
	})
}

func (t *parquetTable) fill(doc *exchange.ImportedDocument, row parquet.Row) error {
	t.start(row)
	line := append(t.line[:0], '{')
	var vec []float32
	for i, c := range t.columns {
		if i == t.vector {
			var err error
			if vec, err = c.floats(t.values[c.first]); err != nil {
				return fmt.Errorf("column %q: %w", c.Name, err)
			}
			continue
		}
		null := c.isNull(t.values)
		v, err := c.value(t.values, false)
		if v == nil && !null && err == nil && c.isID() { // a random id would stand for it
			err = fmt.Errorf("%w: the value is neither a text nor a number", db.ErrInvalid)
		}
		if text, ok := v.(string); ok && err == nil && c.Name == "metadata" {
			if v = nil; strings.TrimSpace(text) != "" {
				v, err = docjson.ReadMetadata([]byte(text))
			}
		}
		if err == nil && v != nil {
			if len(line) > 1 {
				line = append(line, ',')
			}
			if line, err = docjson.AppendValue(line, c.Name); err == nil {
				line, err = docjson.AppendValue(append(line, ':'), v)
			}
		}
		if err != nil {
			return fmt.Errorf("column %q: %w", c.Name, err)
		}
	}
	t.line = append(line, '}')
	d, carries, err := exchange.ParseDocument(t.line)
	if f, ok := errors.AsType[*exchange.FormatError](err); ok {
		err = f.Err // its offset is not one of the file
	}
	if err != nil {
		return err
	}
	if len(vec) > 0 {
		if carries&db.WithVector != 0 {
			return errors.New("two columns give a vector")
		}
		d.Vector = vec
	}
	if t.vector >= 0 {
		carries |= db.WithVector
	}
	doc.Document, doc.Carries = d, carries
	return nil
}

// floats returns a list of numbers; nil if it is null.
func (n *parquetNode) floats(values []parquet.Value) ([]float32, error) {
	leaf := n
	list := 0 // definition level of an element of the list
	for {
		if leaf.RepetitionType.V == format.Repeated {
			list = leaf.def
		}
		if len(leaf.children) == 0 {
			break
		}
		leaf = leaf.children[0]
	}
	if len(values) == 0 {
		return nil, errNoValue
	}
	if values[0].DefinitionLevel() < list {
		return nil, nil
	}
	vec := make([]float32, len(values))
	for i, v := range values {
		if v.IsNull() {
			return nil, fmt.Errorf("element %d is null", i)
		}
		if leaf.Type.V == format.Float {
			vec[i] = v.Float()
		} else {
			vec[i] = float32(v.Double())
		}
		if f := float64(vec[i]); math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, fmt.Errorf("element %d: %w", i, exchange.ErrNotFinite)
		}
	}
	return vec, nil
}

var errNoValue = errors.New("the row has no value")

// value takes the next value of the node from the leaves in values, as JSON has it; nil is null.
// With element, the node is repeated and only one of its elements is taken.
func (n *parquetNode) value(values [][]parquet.Value, element bool) (any, error) {
	if len(values[n.first]) == 0 {
		return nil, errNoValue
	}
	if values[n.first][0].DefinitionLevel() < n.def {
		for i := n.first; i < n.end; i++ {
			if len(values[i]) == 0 {
				return nil, errNoValue
			}
			values[i] = values[i][1:]
		}
		if n.RepetitionType.V == format.Repeated {
			return []any{}, nil
		}
		return nil, nil
	}
	if n.RepetitionType.V == format.Repeated && !element {
		list := []any{}
		for {
			v, err := n.value(values, true)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
			if rest := values[n.first]; len(rest) == 0 || rest[0].RepetitionLevel() != n.rep {
				return list, nil
			}
		}
	}
	if len(n.children) == 0 {
		v := values[n.first][0]
		values[n.first] = values[n.first][1:]
		if v.IsNull() {
			return nil, errNoValue
		}
		return n.scalar(v)
	}
	if n.is("LIST", deprecated.List) && len(n.children) == 1 {
		list, err := n.children[0].value(values, false)
		if elements, ok := list.([]any); ok && n.children[0].wraps(n.Name) {
			for i, e := range elements {
				if wrapped, ok := e.(map[string]any); ok {
					elements[i] = wrapped[n.children[0].children[0].Name]
				}
			}
		}
		return list, err
	}
	if (n.is("MAP", deprecated.Map) || n.is("MAP", deprecated.MapKeyValue)) &&
		len(n.children) == 1 && len(n.children[0].children) == 2 {
		pairs, err := n.children[0].value(values, false)
		if err != nil {
			return nil, err
		}
		return n.children[0].pairs(pairs)
	}
	m := map[string]any{}
	for _, c := range n.children {
		v, err := c.value(values, false)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		if v != nil {
			m[c.Name] = v
		}
	}
	return m, nil
}

func (n *parquetNode) is(logical string, converted deprecated.ConvertedType) bool {
	return n.logical != nil && n.logical.String() == logical || n.ConvertedType.Valid && n.ConvertedType.V == converted
}

// wraps reports whether the repeated node of a list is a group around its element, and not the
// element, as old writers have it.
func (n *parquetNode) wraps(list string) bool {
	return len(n.children) == 1 && n.RepetitionType.V == format.Repeated && n.Name != "array" && n.Name != list+"_tuple"
}

// pairs makes an object of the keys and values of a map. Nulls are left out.
func (n *parquetNode) pairs(pairs any) (any, error) {
	list, _ := pairs.([]any)
	m := map[string]any{}
	for _, p := range list {
		pair, _ := p.(map[string]any)
		var key string
		switch k := pair[n.children[0].Name].(type) {
		case string:
			key = k
		case int64:
			key = strconv.FormatInt(k, 10)
		default:
			return nil, errors.New("keys of a map are neither strings nor integers")
		}
		if v := pair[n.children[1].Name]; v != nil {
			m[key] = v
		}
	}
	return m, nil
}

// scalar returns a value of a leaf as metadata has it: times as text by RFC 3339. Binary values
// are nil.
func (n *parquetNode) scalar(v parquet.Value) (any, error) {
	switch n.Type.V {
	case format.Boolean:
		return v.Boolean(), nil
	case format.Int32:
		return n.integer(int64(v.Int32()), int64(v.Uint32())), nil
	case format.Int64:
		return n.integer(v.Int64(), v.Int64()), nil
	case format.Int96:
		return nanoTime(v.Int96()).Format(time.RFC3339Nano), nil
	case format.Float:
		return finite(float64(v.Float()))
	case format.Double:
		return finite(v.Double())
	}
	b := v.ByteArray()
	switch t := n.logical.(type) {
	case *format.UUIDType:
		id, err := uuid.FromBytes(b)
		return id.String(), err
	case *format.Float16Type:
		if len(b) != 2 {
			return nil, errors.New("not two bytes")
		}
		return finite(half(binary.LittleEndian.Uint16(b)))
	case *format.DecimalType:
		return decimal(signed(b), t.Scale), nil
	}
	switch {
	case n.is("DECIMAL", deprecated.Decimal):
		return decimal(signed(b), n.Scale.V), nil
	case n.is("JSON", deprecated.Json):
		return docjson.NewReader(b).Value()
	case utf8.Valid(b) && n.Type.V == format.ByteArray:
		return string(b), nil
	case n.is("STRING", deprecated.UTF8) || n.is("ENUM", deprecated.Enum):
		return nil, fmt.Errorf("%w: text that is not UTF-8", db.ErrInvalid)
	}
	return nil, nil
}

// integer returns the value of an integer; u is the same without a sign. What int64 cannot hold is
// text, as in CSV: float64 would round it.
func (n *parquetNode) integer(i, u int64) any {
	converted := deprecated.ConvertedType(-1)
	if n.ConvertedType.Valid {
		converted = n.ConvertedType.V
	}
	stamp := func(d time.Duration) any {
		perSecond := int64(time.Second / d)
		seconds := floorDiv(i, perSecond)
		return time.Unix(seconds, (i-seconds*perSecond)*int64(d)).UTC().Format(time.RFC3339Nano)
	}
	clock := func(d time.Duration) any {
		return time.Unix(0, 0).UTC().Add(time.Duration(i) * d).Format("15:04:05.999999999")
	}
	switch t := n.logical.(type) {
	case *format.TimestampType:
		return stamp(t.Unit.Value.Duration())
	case *format.TimeType:
		return clock(t.Unit.Value.Duration())
	case *format.DecimalType:
		return decimal(big.NewInt(i), t.Scale)
	case *format.DateType:
		converted = deprecated.Date
	case *format.IntType:
		if !t.IsSigned {
			converted = deprecated.Uint64
		}
	}
	switch converted {
	case deprecated.Date:
		return time.Unix(0, 0).UTC().AddDate(0, 0, int(i)).Format(time.DateOnly)
	case deprecated.TimestampMillis:
		return stamp(time.Millisecond)
	case deprecated.TimestampMicros:
		return stamp(time.Microsecond)
	case deprecated.TimeMillis:
		return clock(time.Millisecond)
	case deprecated.TimeMicros:
		return clock(time.Microsecond)
	case deprecated.Decimal:
		return decimal(big.NewInt(i), n.Scale.V)
	case deprecated.Uint8, deprecated.Uint16, deprecated.Uint32, deprecated.Uint64:
		if u < 0 {
			return strconv.FormatUint(uint64(u), 10)
		}
		return u
	}
	return i
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func finite(f float64) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("%w: number %v", db.ErrInvalid, f)
	}
	return f, nil
}

// signed returns the integer of big-endian bytes in two's complement.
func signed(b []byte) *big.Int {
	i := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		i.Sub(i, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return i
}

// decimal returns i / 10^scale: a whole number as integer does, one with a fraction as float64.
func decimal(i *big.Int, scale int32) any {
	switch {
	case scale == 0 && i.IsInt64():
		return i.Int64()
	case scale == 0:
		return i.String()
	}
	f, err := strconv.ParseFloat(i.String()+"e"+strconv.Itoa(-int(scale)), 64)
	if err != nil {
		return nil
	}
	return f
}

// half returns the value of a number of 16 bits.
func half(h uint16) float64 {
	sign, exponent, mantissa := 1.0, int(h>>10&31), float64(h&1023)
	if h>>15 != 0 {
		sign = -1
	}
	switch exponent {
	case 0:
		return sign * math.Ldexp(mantissa, -24)
	case 31:
		return math.Inf(int(sign)) // or no number: neither can be stored
	}
	return sign * math.Ldexp(1024+mantissa, exponent-25)
}

// nanoTime returns the time of a value of twelve bytes: nanoseconds of a day, and the Julian day.
func nanoTime(v deprecated.Int96) time.Time {
	const epoch = 2440588 // Julian day of 1970-01-01
	nanos := int64(v[1])<<32 | int64(v[0])
	return time.Unix((int64(v[2])-epoch)*86400, 0).Add(time.Duration(nanos)).UTC()
}
