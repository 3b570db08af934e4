package embed

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/internal/errtext"
)

// A Schema describes a value of a configuration. Its JSON is JSON Schema, draft 2020-12. Validate
// supports the keywords that have a field here. The zero value allows everything.
type Schema struct {
	Title       string             `json:"title,omitempty"`
	Description string             `json:"description,omitempty"`
	Type        string             `json:"type,omitempty"` // object, string, integer, number or boolean
	Default     any                `json:"default,omitempty"`
	Enum        []string           `json:"enum,omitempty"`
	Format      string             `json:"format,omitempty"` // "uri": absolute, with the scheme http or https
	Minimum     *float64           `json:"minimum,omitempty"`
	Maximum     *float64           `json:"maximum,omitempty"`
	Properties  map[string]*Schema `json:"properties,omitempty"`
	Required    []string           `json:"required,omitempty"`

	// Closed refuses properties that are not listed.
	Closed bool `json:"-"`
}

// MarshalJSON writes Closed as the keyword "additionalProperties".
func (s *Schema) MarshalJSON() ([]byte, error) {
	type plain Schema
	out := struct {
		*plain
		Additional *bool `json:"additionalProperties,omitempty"`
	}{plain: (*plain)(s)}
	if s.Closed {
		out.Additional = new(bool)
	}
	return json.Marshal(out)
}

// Validate reports the first violation, with its path. Errors contain values of numbers and
// enumerations only, because other values may be misplaced secrets.
func (s *Schema) Validate(value any) error { return s.validate("", value) }

func (s *Schema) validate(path string, value any) error {
	fail := func(format string, args ...any) error {
		if path == "" {
			path = "configuration"
		}
		return fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...))
	}
	switch s.Type {
	case "object":
		m, ok := value.(map[string]any)
		if !ok {
			return fail("want an object")
		}
		for _, name := range s.Required {
			if _, ok := m[name]; !ok {
				return fail("%q is missing", name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(m)) {
			p := s.Properties[name]
			if p == nil && s.Closed {
				return fail("unknown field %q%s", name, errtext.Instead(name, slices.Collect(maps.Keys(s.Properties))))
			}
			if p != nil {
				if err := p.validate(strings.TrimPrefix(path+"."+name, "."), m[name]); err != nil {
					return err
				}
			}
		}
	case "string":
		v, ok := value.(string)
		if !ok {
			return fail("want a string")
		}
		if len(s.Enum) > 0 && !slices.Contains(s.Enum, v) {
			return fail("want one of %s", strings.Join(s.Enum, ", "))
		}
		if s.Format == "uri" {
			if u, err := url.Parse(v); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
				return fail("want a URL that begins with http:// or https://")
			}
		}
	case "boolean":
		if _, ok := value.(bool); !ok {
			return fail("want true or false")
		}
	case "integer", "number":
		v, ok := number(value)
		if !ok || math.IsNaN(v) || s.Type == "integer" && v != math.Trunc(v) {
			return fail("want %s", map[string]string{"integer": "an integer", "number": "a number"}[s.Type])
		}
		if s.Minimum != nil && v < *s.Minimum {
			return fail("%v is less than %v", v, *s.Minimum)
		}
		if s.Maximum != nil && v > *s.Maximum {
			return fail("%v is more than %v", v, *s.Maximum)
		}
	}
	return nil
}

// number returns a number of a configuration from Go, JSON or YAML.
func number(value any) (float64, bool) {
	switch v := value.(type) {
	case int:
		return float64(v), true
	case int64:
		return float64(v), true
	case uint64:
		return float64(v), true
	case float64:
		return v, true
	case json.Number:
		f, err := v.Float64()
		return f, err == nil
	}
	return 0, false
}

func limit(v float64) *float64 { return &v }
