package pgvector

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/vecbolt/vecbolt/db"
)

// PostgreSQL's text cannot hold U+0000. It is stored as U+0001 U+0001, and U+0001 as U+0001 U+0002;
// all other strings are stored unchanged. Byte order, equality and prefixes stay as in the
// original strings.
var (
	escaper   = strings.NewReplacer("\x00", "\x01\x01", "\x01", "\x01\x02")
	unescaper = strings.NewReplacer("\x01\x01", "\x00", "\x01\x02", "\x01")
)

func escape(s string) string   { return escaper.Replace(s) }
func unescape(s string) string { return unescaper.Replace(s) }

// appendJSON appends v, of the types in db.Metadata, as JSON for a jsonb column. Every float64 has
// a decimal point, which distinguishes it from an int64, because jsonb keeps trailing zeros; -0 is
// "0.00".
func appendJSON(b []byte, v any) ([]byte, error) {
	var err error
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case int64:
		return strconv.AppendInt(b, v, 10), nil
	case float64:
		return appendFloat(b, v), nil
	case string:
		return appendString(b, v)
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendJSON(b, e); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case db.Metadata:
		return appendJSON(b, map[string]any(v))
	case map[string]any:
		b = append(b, '{')
		for i, k := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendString(b, k); err != nil {
				return nil, err
			}
			if b, err = appendJSON(append(b, ':'), v[k]); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	}
	return nil, fmt.Errorf("%w: metadata of type %T", db.ErrInvalid, v)
}

// appendString appends a JSON string; encoding/json escapes as the format requires.
func appendString(b []byte, s string) ([]byte, error) {
	quoted, err := json.Marshal(escape(s))
	return append(b, quoted...), err
}

// appendFloat appends integers exactly, and other numbers as the shortest decimal that reads as f.
// Both order like f among all int64 and float64.
func appendFloat(b []byte, f float64) []byte {
	switch {
	case f == 0 && math.Signbit(f):
		return append(b, "0.00"...)
	case f == math.Trunc(f):
		return strconv.AppendFloat(b, f, 'f', 1, 64)
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64)
}

// decodeMetadata is the inverse of appendJSON for metadata; {} gives nil. Numbers written by other
// programs that are not int64 become the nearest float64.
func decodeMetadata(b []byte) (db.Metadata, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		return nil, fmt.Errorf("decode metadata: %w", err)
	}
	if len(m) == 0 {
		return nil, nil
	}
	v, err := decodeValue(m)
	if err != nil {
		return nil, fmt.Errorf("decode metadata: %w", err)
	}
	return v.(map[string]any), nil
}

func decodeValue(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		return decodeNumber(string(v))
	case string:
		return unescape(v), nil
	case []any:
		for i := range v {
			if v[i], err = decodeValue(v[i]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			if out[unescape(k)], err = decodeValue(e); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

func decodeNumber(s string) (any, error) {
	if s == "0.00" {
		return math.Copysign(0, -1), nil
	}
	if !strings.ContainsAny(s, ".eE") {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return i, nil
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, fmt.Errorf("number %s: %w", s, err)
	}
	return f, nil
}
