package document

import (
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/vecbolt/vecbolt/filter"
)

// A writer encodes msgpack, each value except floats in its shortest form, and keeps the first
// error.
type writer struct {
	buffer
	enc    *msgpack.Encoder // writes to the buffer
	dotted bool             // some key contains a dot
	err    error
}

var writers = sync.Pool{New: func() any {
	w := new(writer)
	w.enc = msgpack.NewEncoder(&w.buffer)
	return w
}}

// newWriter returns a writer that appends to b. The caller releases it.
func newWriter(b []byte) *writer {
	w := writers.Get().(*writer)
	w.b, w.dotted, w.err = b, false, nil
	return w
}

func (w *writer) release() {
	w.b = nil
	writers.Put(w)
}

// A buffer is the memory that an Encoder writes to.
type buffer struct{ b []byte }

func (f *buffer) Write(p []byte) (int, error) {
	f.b = append(f.b, p...)
	return len(p), nil
}

func (f *buffer) WriteByte(c byte) error {
	f.b = append(f.b, c)
	return nil
}

func (w *writer) check(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *writer) metadata(m map[string]any) {
	w.value("", m, 0)
	if w.dotted && w.err == nil {
		w.check(checkPaths(m))
	}
}

// checkPaths refuses metadata with two values of the same dotted path, or a value and a map. Two
// maps of one path are like one with the fields of both.
func checkPaths(m map[string]any) error {
	seen := map[string]bool{} // whether the path leads to a map
	twice := ""
	filter.Flatten(plain(m), func(path string, v any) bool {
		_, isMap := v.(map[string]any)
		if wasMap, known := seen[path]; known && !(wasMap && isMap) {
			twice = path
			return false
		}
		seen[path] = isMap
		return true
	})
	if twice != "" {
		return Invalidf("metadata path %q is given twice, as a key with dots and as nesting", twice)
	}
	return nil
}

// plain returns m as a read gives it, as far as nested maps of other types go.
func plain(m map[string]any) map[string]any {
	m = maps.Clone(m)
	for k, v := range m {
		if child, ok := plainMap(v); ok {
			m[k] = plain(child)
		}
	}
	return m
}

func (w *writer) value(path string, v any, depth int) {
	if w.err != nil {
		return
	}
	if depth > MaxMetadataDepth {
		w.err = Invalidf("metadata field %q is nested deeper than %d", path, MaxMetadataDepth)
		return
	}
	switch v := v.(type) {
	case nil:
		w.check(w.enc.EncodeNil())
	case bool:
		w.check(w.enc.EncodeBool(v))
	case string:
		if !utf8.ValidString(v) {
			w.err = Invalidf("metadata field %q is not valid UTF-8", path)
			return
		}
		w.check(w.enc.EncodeString(v))
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			w.err = Invalidf("metadata field %q is %v", path, v)
			return
		}
		w.check(w.enc.EncodeFloat64(v))
	case float32:
		w.value(path, float64(v), depth)
	case int64:
		w.check(w.enc.EncodeInt(v))
	case int:
		w.check(w.enc.EncodeInt(int64(v)))
	case int8:
		w.check(w.enc.EncodeInt(int64(v)))
	case int16:
		w.check(w.enc.EncodeInt(int64(v)))
	case int32:
		w.check(w.enc.EncodeInt(int64(v)))
	case uint8:
		w.check(w.enc.EncodeInt(int64(v)))
	case uint16:
		w.check(w.enc.EncodeInt(int64(v)))
	case uint32:
		w.check(w.enc.EncodeInt(int64(v)))
	case uint:
		w.value(path, uint64(v), depth)
	case uint64:
		if v > math.MaxInt64 {
			w.err = Invalidf("metadata field %q is %d, beyond the range of int64", path, v)
			return
		}
		w.check(w.enc.EncodeInt(int64(v)))
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
		if m, ok := plainMap(v); ok { // such as db.Metadata
			w.object(path, m, depth)
			return
		}
		if plain, ok := plainValue(v); ok {
			w.value(path, plain, depth)
			return
		}
		w.err = Invalidf("metadata field %q has type %T; values are string, bool, int64, float64, null, "+
			"lists of these and maps", path, v)
	}
}

func (w *writer) object(path string, m map[string]any, depth int) {
	w.check(w.enc.EncodeMapLen(len(m)))
	var few [16]string
	keys := few[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys) // so that equal metadata has equal bytes
	for _, k := range keys {
		field := k
		if path != "" {
			field = path + "." + k
		}
		switch {
		case k == "":
			w.check(Invalidf("metadata has an empty key under %q", path))
		case len(k) > MaxKeyLen:
			w.check(Invalidf("metadata key %.40q… has %d bytes, the limit is %d", field, len(k), MaxKeyLen))
		case k[0] == '$':
			w.check(Invalidf("metadata key %q starts with $, which is for operators", field))
		case !utf8.ValidString(k):
			w.check(Invalidf("metadata key %q is not valid UTF-8", field))
		}
		if w.err != nil {
			return
		}
		w.dotted = w.dotted || strings.Contains(k, ".")
		w.check(w.enc.EncodeString(k))
		w.value(field, m[k], depth+1)
	}
}

func writeList[T any](w *writer, path string, list []T, depth int) {
	w.check(w.enc.EncodeArrayLen(len(list)))
	for _, v := range list {
		switch kind := reflect.ValueOf(v).Kind(); kind {
		case reflect.Slice, reflect.Map:
			w.check(Invalidf("metadata field %q holds a list or a map inside a list", path))
		default:
			w.value(path, v, depth+1)
		}
		if w.err != nil {
			return
		}
	}
}

// plainMap converts a map of another type with strings as keys to map[string]any.
func plainMap(v any) (map[string]any, bool) {
	m := reflect.ValueOf(v)
	if m.Kind() != reflect.Map || m.Type().Key().Kind() != reflect.String {
		return nil, false
	}
	plain := make(map[string]any, m.Len())
	for k, v := range m.Seq2() {
		plain[k.String()] = v.Interface()
	}
	return plain, true
}

// plainValue converts a number or a list of another type. Bytes are no list, and a string of a
// named type may be no text, such as json.Number.
func plainValue(v any) (any, bool) {
	switch x := reflect.ValueOf(v); {
	case x.Kind() == reflect.Slice && x.Type().Elem().Kind() != reflect.Uint8:
		list := make([]any, x.Len())
		for i := range list {
			list[i] = x.Index(i).Interface()
		}
		return list, true
	case x.CanInt():
		return x.Int(), true
	case x.CanUint():
		return x.Uint(), true
	case x.CanFloat():
		return x.Float(), true
	}
	return nil, false
}

// A reader decodes a stored document field by field and keeps the first error. It never allocates
// more than its input justifies. It reads the subset of msgpack that writer produces: no binary
// strings, no extensions. It is hand-written because every search result passes through it.
type reader struct {
	b   []byte // unread bytes
	err error
}

// take returns the next n bytes, or nil if fewer are left.
func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.fail(io.ErrUnexpectedEOF)
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

// code returns the first byte of the next value, 0 at the end.
func (r *reader) code() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

// uint reads an integer of n bytes.
func (r *reader) uint(n int) (v uint64) {
	for _, c := range r.take(n) {
		v = v<<8 | uint64(c)
	}
	return v
}

// length reads the length of a string, a list or a map with the given code.
func (r *reader) length(code byte) int {
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

func (r *reader) id() string {
	code := r.code()
	if !isList(code) {
		r.fail(fmt.Errorf("msgpack code %#x instead of a list", code))
	}
	if n := r.length(code); r.err == nil && n != fields {
		r.fail(fmt.Errorf("%d fields instead of %d", n, fields))
	}
	return r.string()
}

func (r *reader) string() string {
	code := r.code()
	if !isString(code) {
		r.fail(fmt.Errorf("msgpack code %#x instead of a string", code))
		return ""
	}
	return string(r.take(r.length(code)))
}

func (r *reader) metadata() map[string]any {
	m, _ := r.value(0).(map[string]any)
	if len(m) == 0 {
		return nil
	}
	return m
}

func (r *reader) value(depth int) any {
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

// skip skips a value that value would read.
func (r *reader) skip(depth int) {
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
