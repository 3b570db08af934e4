package db

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MarshalJSON writes m such that UnmarshalJSON returns the same values and
// types: a float64 without a fraction has ".0". It fails with ErrInvalid where a
// write of m would.
func (m Metadata) MarshalJSON() ([]byte, error) {
	if m == nil {
		return []byte("null"), nil
	}
	if len(m) == 0 {
		return []byte("{}"), nil
	}
	stored, err := m.canonical()
	if err != nil {
		return nil, err
	}
	return json.Marshal(toJSON(map[string]any(stored)))
}

// UnmarshalJSON reads numbers by the rules of a JSONL import: a number without
// fraction and exponent is an int64, any other number a float64. It fails with
// ErrInvalid for an integer that int64 cannot hold, a number beyond the range
// of float64, a duplicate key, text that is not UTF-8, and nesting deeper than
// MaxMetadataDepth.
func (m *Metadata) UnmarshalJSON(b []byte) error {
	if !utf8.Valid(b) {
		return invalidf("metadata is not valid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	v, err := fromJSON(d, "", 0)
	if err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		*m = nil
	case map[string]any:
		*m = v
	default:
		return invalidf("metadata is %.40s, not an object", b)
	}
	return nil
}

// toJSON replaces every float64 in canonical metadata by a number that decodes
// as float64 again.
func toJSON(v any) any {
	switch v := v.(type) {
	case float64:
		s := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(s, ".e") {
			s += ".0"
		}
		return json.Number(s)
	case []any:
		for i := range v {
			v[i] = toJSON(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = toJSON(v[k])
		}
	}
	return v
}

// fromJSON reads the next value; path names it in errors.
func fromJSON(d *json.Decoder, path string, depth int) (any, error) {
	if depth > MaxMetadataDepth {
		return nil, invalidf("metadata field %q is nested deeper than %d", path, MaxMetadataDepth)
	}
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Number:
		return jsonNumber(string(token), path)
	case json.Delim:
		if token == '[' {
			list := []any{}
			for d.More() {
				v, err := fromJSON(d, path, depth+1)
				if err != nil {
					return nil, err
				}
				list = append(list, v)
			}
			_, err = d.Token()
			return list, err
		}
		object := map[string]any{}
		for d.More() {
			token, err := d.Token()
			if err != nil {
				return nil, err
			}
			key, _ := token.(string)
			field := key
			if path != "" {
				field = path + "." + key
			}
			if _, twice := object[key]; twice {
				return nil, invalidf("metadata field %.40q is given twice", field)
			}
			if object[key], err = fromJSON(d, field, depth+1); err != nil {
				return nil, err
			}
		}
		_, err = d.Token()
		return object, err
	}
	return token, nil // a string, a bool or nil
}

func jsonNumber(s, path string) (any, error) {
	if !strings.ContainsAny(s, ".eE") {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return nil, invalidf("metadata field %q: integer %.40s does not fit int64", path, s)
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, invalidf("metadata field %q: number %.40s does not fit float64", path, s)
	}
	return f, nil
}
