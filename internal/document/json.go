package document

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/vecbolt/vecbolt/internal/jsontext"
)

// MarshalMetadata writes metadata as JSON such that UnmarshalMetadata returns the same values and
// types: a float64 without a fraction has ".0".
func MarshalMetadata(m map[string]any) ([]byte, error) {
	if m == nil {
		return []byte("null"), nil
	}
	if len(m) == 0 {
		return []byte("{}"), nil
	}
	stored, err := Canonical(m)
	if err != nil {
		return nil, err
	}
	return json.Marshal(toJSON(stored))
}

// UnmarshalMetadata reads an object, or null, as metadata.
func UnmarshalMetadata(b []byte) (map[string]any, error) {
	if at := jsontext.Bad(b); at >= 0 {
		return nil, Invalidf("metadata with invalid UTF-8 or half a surrogate pair at byte %d", at)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	v, err := fromJSON(d, "", 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, Invalidf("text behind the metadata, at byte %d", d.InputOffset())
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return v, nil
	}
	return nil, Invalidf("metadata is %.40s, not an object", b)
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
		return nil, Invalidf("metadata field %q is nested deeper than %d", path, MaxMetadataDepth)
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
				return nil, Invalidf("metadata field %.40q is given twice", field)
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
			return nil, Invalidf("metadata field %q: integer %.40s does not fit int64", path, s)
		}
		return n, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) {
		return nil, Invalidf("metadata field %q: number %.40s does not fit float64", path, s)
	}
	return f, nil
}
