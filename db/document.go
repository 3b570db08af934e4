package db

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/simd"
)

// Limits of one document. A document beyond them is refused with ErrInvalid.
const (
	MaxIDLen         = 1 << 10  // bytes of an id
	MaxTextLen       = 16 << 20 // bytes of a text
	MaxMetadataLen   = 1 << 20  // bytes of metadata, encoded as msgpack
	MaxMetadataDepth = 16       // nested maps and lists
	MaxKeyLen        = 256      // bytes of one metadata key
	MaxDim           = 1 << 16  // components of a vector
)

// A Document is what a collection stores and returns.
type Document struct {
	// ID is 1 to MaxIDLen bytes of UTF-8 without control characters, unique
	// in its collection. When empty on a write, a UUIDv7 is given.
	ID string `json:"id"`

	// Vector has the dimension of the collection and finite components. It
	// may be missing: the document is then found by filters and id only,
	// until Patch or Upsert gives it one. It is kept bit by bit.
	Vector []float32 `json:"vector,omitempty"`

	// Text is at most MaxTextLen bytes of UTF-8.
	Text string `json:"text,omitempty"`

	Metadata Metadata `json:"metadata,omitempty"`
}

// Metadata describes a document. Values are string, bool, int64, float64,
// nil, lists ([]any) of those, and nested maps (map[string]any), whose fields
// filters address by dotted path. Other integer, float, slice and map types
// are converted on the way in; NaN and infinity are refused. A key must not
// be empty nor start with "$". A key may contain dots: it is then the same
// path as the nesting it spells, and a document that has both is refused.
type Metadata map[string]any

// Select says which parts of a document a read returns beside its id.
type Select uint8

// The parts of a document. The zero Select means WithText | WithMetadata.
const (
	WithText     Select = 1
	WithMetadata Select = 2
	WithVector   Select = 4
	IDsOnly      Select = 8 // nothing but the id

	Everything = WithText | WithMetadata | WithVector
)

func (s Select) has(part Select) bool {
	if s == 0 {
		s = WithText | WithMetadata
	}
	return s&part != 0 && s&IDsOnly == 0
}

// validateID is the only judge of ids.
func validateID(id string) error {
	switch {
	case id == "":
		return invalidf("id is empty")
	case len(id) > MaxIDLen:
		return invalidf("id %.40q…: %d bytes long, the limit is %d", id, len(id), MaxIDLen)
	case !utf8.ValidString(id):
		return invalidf("id %q: not valid UTF-8", id)
	}
	if i := strings.IndexFunc(id, func(r rune) bool { return r < 0x20 || r == 0x7f }); i >= 0 {
		return invalidf("id %q: control character at byte %d", id, i)
	}
	return nil
}

// newID returns a UUIDv7: ascending in time, so that ids enter the id tree
// side by side.
func newID() (string, error) {
	u, err := uuid.NewV7()
	return u.String(), err
}

// validateVector checks what does not depend on the collection.
func validateVector(id string, v []float32) error {
	if len(v) > MaxDim {
		return invalidf("document %q: vector has %d components, the limit is %d", id, len(v), MaxDim)
	}
	if simd.Finite(v) {
		return nil
	}
	for i, x := range v {
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return invalidf("document %q: vector component %d is %v", id, i, x)
		}
	}
	return nil
}

func validateText(d *Document) error {
	if len(d.Text) > MaxTextLen {
		return invalidf("document %q: text has %d bytes, the limit is %d", d.ID, len(d.Text), MaxTextLen)
	}
	if !utf8.ValidString(d.Text) {
		return invalidf("document %q: text is not valid UTF-8", d.ID)
	}
	return nil
}

// A stored document is the msgpack array [id, metadata, text]; the vector
// lives in a segment. Text comes last so that reads which do not want it
// never look at it.
const documentFields = 3

// appendDocument validates d and appends its stored form to dst. This is the
// door: whatever passes here is trusted afterwards.
func appendDocument(dst []byte, d *Document) ([]byte, error) {
	if err := validateID(d.ID); err != nil {
		return dst, err
	}
	if err := validateText(d); err != nil {
		return dst, err
	}
	w := documentWriter{b: dst}
	w.head(0x90, 0xdc, documentFields)
	w.string(d.ID)
	w.metadata(d.Metadata)
	if n := len(w.b) - len(dst); w.err == nil && n > MaxMetadataLen+len(d.ID) {
		w.err = invalidf("metadata takes %d bytes, the limit is %d", n, MaxMetadataLen)
	}
	if w.err != nil {
		return dst, fmt.Errorf("document %q: %w", d.ID, w.err)
	}
	w.string(d.Text)
	return w.b, nil
}

// encodeMetadata validates m and returns its msgpack form.
func encodeMetadata(m Metadata) ([]byte, error) {
	var w documentWriter
	w.metadata(m)
	if w.err == nil && len(w.b) > MaxMetadataLen {
		w.err = invalidf("metadata takes %d bytes, the limit is %d", len(w.b), MaxMetadataLen)
	}
	return w.b, w.err
}

// canonical returns a valid copy of m in the types that are stored.
func (m Metadata) canonical() (Metadata, error) {
	b, err := encodeMetadata(m)
	if err != nil {
		return nil, err
	}
	return decodeBareMetadata(b)
}

// documentWriter encodes msgpack, every value as short as can be but floats,
// and keeps the first error. It is written out because every row that is
// written passes through it.
type documentWriter struct {
	b      []byte
	dotted bool // some key contains a dot
	err    error
}

func (w *documentWriter) check(err error) {
	if w.err == nil {
		w.err = err
	}
}

// head begins a list or a map: short is its code up to 15 elements, long that
// of one with a length of 16 bits; the next code has 32.
func (w *documentWriter) head(short, long byte, n int) {
	switch {
	case n < 16:
		w.b = append(w.b, short|byte(n))
	case n <= math.MaxUint16:
		w.b = binary.BigEndian.AppendUint16(append(w.b, long), uint16(n))
	default:
		w.b = binary.BigEndian.AppendUint32(append(w.b, long+1), uint32(n))
	}
}

func (w *documentWriter) string(s string) {
	n := len(s)
	switch {
	case n < 32:
		w.b = append(w.b, 0xa0|byte(n))
	case n <= math.MaxUint8:
		w.b = append(w.b, 0xd9, byte(n))
	case n <= math.MaxUint16:
		w.b = binary.BigEndian.AppendUint16(append(w.b, 0xda), uint16(n))
	default:
		w.b = binary.BigEndian.AppendUint32(append(w.b, 0xdb), uint32(n))
	}
	w.b = append(w.b, s...)
}

func (w *documentWriter) int(v int64) {
	switch {
	case v >= -32 && v <= math.MaxInt8:
		w.b = append(w.b, byte(v))
	case v >= 0 && v <= math.MaxUint8:
		w.b = append(w.b, 0xcc, byte(v))
	case v >= 0 && v <= math.MaxUint16:
		w.b = binary.BigEndian.AppendUint16(append(w.b, 0xcd), uint16(v))
	case v >= 0 && v <= math.MaxUint32:
		w.b = binary.BigEndian.AppendUint32(append(w.b, 0xce), uint32(v))
	case v >= 0:
		w.b = binary.BigEndian.AppendUint64(append(w.b, 0xcf), uint64(v))
	case v >= math.MinInt8:
		w.b = append(w.b, 0xd0, byte(v))
	case v >= math.MinInt16:
		w.b = binary.BigEndian.AppendUint16(append(w.b, 0xd1), uint16(v))
	case v >= math.MinInt32:
		w.b = binary.BigEndian.AppendUint32(append(w.b, 0xd2), uint32(v))
	default:
		w.b = binary.BigEndian.AppendUint64(append(w.b, 0xd3), uint64(v))
	}
}

func (w *documentWriter) metadata(m Metadata) {
	w.value("", map[string]any(m), 0)
	if w.dotted && w.err == nil {
		w.check(checkPaths(m))
	}
}

// checkPaths refuses metadata in which two values share a dotted path.
func checkPaths(m Metadata) error {
	seen := map[string]bool{}
	var twice string
	filter.Flatten(m, func(path string, v any) bool {
		if _, isMap := v.(map[string]any); isMap {
			return true
		}
		if seen[path] {
			twice = path
			return false
		}
		seen[path] = true
		return true
	})
	if twice != "" {
		return invalidf("metadata path %q is given twice, as a key with dots and as nesting", twice)
	}
	return nil
}

func (w *documentWriter) value(path string, v any, depth int) {
	if w.err != nil {
		return
	}
	if depth > MaxMetadataDepth {
		w.err = invalidf("metadata field %q is nested deeper than %d", path, MaxMetadataDepth)
		return
	}
	switch v := v.(type) {
	case nil:
		w.b = append(w.b, 0xc0)
	case bool:
		code := byte(0xc2)
		if v {
			code = 0xc3
		}
		w.b = append(w.b, code)
	case string:
		if !utf8.ValidString(v) {
			w.err = invalidf("metadata field %q is not valid UTF-8", path)
			return
		}
		w.string(v)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			w.err = invalidf("metadata field %q is %v", path, v)
			return
		}
		w.b = binary.BigEndian.AppendUint64(append(w.b, 0xcb), math.Float64bits(v))
	case float32:
		w.value(path, float64(v), depth)
	case int64:
		w.int(v)
	case int:
		w.int(int64(v))
	case int8:
		w.int(int64(v))
	case int16:
		w.int(int64(v))
	case int32:
		w.int(int64(v))
	case uint8:
		w.int(int64(v))
	case uint16:
		w.int(int64(v))
	case uint32:
		w.int(int64(v))
	case uint:
		w.value(path, uint64(v), depth)
	case uint64:
		if v > math.MaxInt64 {
			w.err = invalidf("metadata field %q is %d, beyond the range of int64", path, v)
			return
		}
		w.int(int64(v))
	case Metadata:
		w.value(path, map[string]any(v), depth)
	case map[string]any:
		w.object(path, v, depth)
	case []any:
		writeList(w, path, v, depth)
	case []string:
		writeList(w, path, v, depth)
	case []int:
		writeList(w, path, v, depth)
	case []int64:
		writeList(w, path, v, depth)
	case []float64:
		writeList(w, path, v, depth)
	case []float32:
		writeList(w, path, v, depth)
	case []bool:
		writeList(w, path, v, depth)
	default:
		w.err = invalidf("metadata field %q has type %T; values are string, bool, int64, float64, null, lists of those and maps", path, v)
	}
}

func (w *documentWriter) object(path string, m map[string]any, depth int) {
	w.head(0x80, 0xde, len(m))
	var few [16]string
	keys := few[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys) // equal metadata has equal bytes
	for _, k := range keys {
		field := k
		if path != "" {
			field = path + "." + k
		}
		switch {
		case k == "":
			w.check(invalidf("metadata has an empty key under %q", path))
		case len(k) > MaxKeyLen:
			w.check(invalidf("metadata key %.40q… has %d bytes, the limit is %d", field, len(k), MaxKeyLen))
		case k[0] == '$':
			w.check(invalidf("metadata key %q starts with $, which is for operators", field))
		case !utf8.ValidString(k):
			w.check(invalidf("metadata key %q is not valid UTF-8", field))
		}
		if w.err != nil {
			return
		}
		w.dotted = w.dotted || strings.Contains(k, ".")
		w.string(k)
		w.value(field, m[k], depth+1)
	}
}

func writeList[T any](w *documentWriter, path string, list []T, depth int) {
	w.head(0x90, 0xdc, len(list))
	for _, v := range list {
		switch any(v).(type) {
		case []any, map[string]any, Metadata, []string, []int, []int64, []float64, []float32, []bool:
			w.check(invalidf("metadata field %q holds a list or a map inside a list", path))
		default:
			w.value(path, v, depth+1)
		}
		if w.err != nil {
			return
		}
	}
}

// decodeDocument reads a stored document. The result shares no memory with b.
func decodeDocument(b []byte, want Select) (*Document, error) {
	d := &Document{}
	if err := d.decode(b, want); err != nil {
		return nil, err
	}
	return d, nil
}

// decode sets d to what is wanted of a stored document.
func (d *Document) decode(b []byte, want Select) error {
	r := documentReader{b: b}
	d.ID = r.id()
	if want.has(WithMetadata) || want.has(WithText) {
		if want.has(WithMetadata) {
			d.Metadata = r.metadata()
		} else {
			r.skip(0)
		}
		if want.has(WithText) {
			d.Text = r.string()
		}
	}
	if r.err != nil {
		return fmt.Errorf("decode document: %w", r.err)
	}
	return nil
}

// decodeID reads only the id of a stored document.
func decodeID(b []byte) (string, error) {
	r := documentReader{b: b}
	id := r.id()
	return id, r.err
}

// decodeMetadata reads only the metadata of a stored document.
func decodeMetadata(b []byte) (Metadata, error) {
	r := documentReader{b: b}
	r.id()
	m := r.metadata()
	return m, r.err
}

// decodeBareMetadata is the inverse of encodeMetadata.
func decodeBareMetadata(b []byte) (Metadata, error) {
	r := documentReader{b: b}
	m := r.metadata()
	return m, r.err
}

// documentReader decodes a stored document field by field and keeps the first
// error. It never allocates more than its input justifies. It reads what
// documentWriter writes of msgpack, which is most of it: no binary strings, no
// extensions. It is written out because every hit of a search passes through it.
type documentReader struct {
	b   []byte // what is left
	err error
}

// take returns the next n bytes, or nil if there are not so many.
func (r *documentReader) take(n int) []byte {
	if n > len(r.b) {
		r.fail(io.ErrUnexpectedEOF)
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *documentReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

// code returns the first byte of the next value, 0 at the end.
func (r *documentReader) code() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

// uint reads an integer of n bytes.
func (r *documentReader) uint(n int) (v uint64) {
	for _, c := range r.take(n) {
		v = v<<8 | uint64(c)
	}
	return v
}

// length reads that of a string, a list or a map, as code says.
func (r *documentReader) length(code byte) int {
	n := uint64(0)
	switch {
	case code >= 0xa0 && code <= 0xbf:
		n = uint64(code & 0x1f)
	case code >= 0x80 && code <= 0x9f:
		n = uint64(code & 0x0f)
	case code == 0xd9:
		n = r.uint(1)
	case code == 0xda || code == 0xdc || code == 0xde:
		n = r.uint(2)
	default:
		n = r.uint(4)
	}
	if n > uint64(len(r.b)) { // each element takes a byte at least
		r.fail(fmt.Errorf("length %d with %d bytes left", n, len(r.b)))
		return 0
	}
	return int(n)
}

func isString(code byte) bool { return code >= 0xa0 && code <= 0xbf || code >= 0xd9 && code <= 0xdb }

func isList(code byte) bool { return code >= 0x90 && code <= 0x9f || code == 0xdc || code == 0xdd }

func isMap(code byte) bool { return code >= 0x80 && code <= 0x8f || code == 0xde || code == 0xdf }

func (r *documentReader) id() string {
	code := r.code()
	if !isList(code) {
		r.fail(fmt.Errorf("msgpack code %#x instead of a list", code))
	}
	if n := r.length(code); r.err == nil && n != documentFields {
		r.fail(fmt.Errorf("%d fields instead of %d", n, documentFields))
	}
	return r.string()
}

func (r *documentReader) string() string {
	code := r.code()
	if !isString(code) {
		r.fail(fmt.Errorf("msgpack code %#x instead of a string", code))
		return ""
	}
	return string(r.take(r.length(code)))
}

func (r *documentReader) metadata() Metadata {
	m, _ := r.value(0).(map[string]any)
	if len(m) == 0 {
		return nil
	}
	return m
}

func (r *documentReader) value(depth int) any {
	if depth > MaxMetadataDepth+1 {
		r.fail(fmt.Errorf("nested deeper than %d", MaxMetadataDepth))
	}
	if r.err != nil {
		return nil
	}
	code := r.code()
	switch {
	case r.err != nil || code == 0xc0:
		return nil
	case code == 0xc2 || code == 0xc3:
		return code == 0xc3
	case code == 0xca:
		return float64(math.Float32frombits(uint32(r.uint(4))))
	case code == 0xcb:
		return math.Float64frombits(r.uint(8))
	case code <= 0x7f || code >= 0xe0:
		return int64(int8(code))
	case code >= 0xcc && code <= 0xcf:
		return int64(r.uint(1 << (code - 0xcc)))
	case code >= 0xd0 && code <= 0xd3:
		bits := 8 << (code - 0xd0)
		return int64(r.uint(bits/8)) << (64 - bits) >> (64 - bits)
	case isString(code):
		return string(r.take(r.length(code)))
	case isList(code):
		n := r.length(code)
		list := make([]any, 0, n)
		for range n {
			list = append(list, r.value(depth+1))
		}
		return list
	case isMap(code):
		n := r.length(code)
		m := make(map[string]any, n)
		for range n {
			k := r.string()
			m[k] = r.value(depth + 1)
		}
		return m
	}
	r.fail(fmt.Errorf("unexpected msgpack code %#x", code))
	return nil
}

// skip passes over what value reads.
func (r *documentReader) skip(depth int) {
	if depth > MaxMetadataDepth+1 {
		r.fail(fmt.Errorf("nested deeper than %d", MaxMetadataDepth))
	}
	code := r.code()
	values := 0
	switch {
	case r.err != nil || code <= 0x7f || code >= 0xe0 || code == 0xc0 || code == 0xc2 || code == 0xc3:
	case code == 0xca || code == 0xcb:
		r.take(4 << (code - 0xca))
	case code >= 0xcc && code <= 0xd3:
		r.take(1 << (code & 3))
	case isString(code):
		r.take(r.length(code))
	case isList(code):
		values = r.length(code)
	case isMap(code):
		values = 2 * r.length(code)
	default:
		r.fail(fmt.Errorf("unexpected msgpack code %#x", code))
	}
	for range values {
		if r.err != nil {
			return
		}
		r.skip(depth + 1)
	}
}
