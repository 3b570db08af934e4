package server_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// spec is the OpenAPI document, by which every request that succeeds and every answer of the tests
// is judged.
var spec = sync.OnceValue(func() map[string]any {
	b, err := os.ReadFile("openapi.json")
	if err != nil {
		panic(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		panic(err)
	}
	return m
})

// at follows keys into the document, and references on the way.
func at(v any, keys ...string) any {
	for _, key := range keys {
		m, _ := v.(map[string]any)
		v = resolve(m[key])
	}
	return v
}

func resolve(v any) any {
	if m, ok := v.(map[string]any); ok {
		if ref, ok := m["$ref"].(string); ok {
			return at(spec(), strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
	}
	return v
}

// described returns the operation of a request; nil if the document has none.
func described(method, path string) any {
	path, _, _ = strings.Cut(path, "?")
	segments := strings.Split(path, "/")
	var found any
	best := -1
	for template, methods := range at(spec(), "paths").(map[string]any) {
		parts := strings.Split(template, "/")
		literal := 0
		if len(parts) != len(segments) {
			continue
		}
		fits := true
		for i, part := range parts {
			if part == segments[i] {
				literal++
			} else if !strings.HasPrefix(part, "{") {
				fits = false
			}
		}
		if fits && literal > best {
			if op := at(methods, strings.ToLower(method)); op != nil {
				found, best = op, literal
			}
		}
	}
	return found
}

// conforms says what is wrong with a value by a schema of the document, as far as that uses JSON
// Schema.
func conforms(path string, schema, v any) error {
	s, _ := resolve(schema).(map[string]any)
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...))
	}
	for key := range s {
		if !slices.Contains([]string{"type", "description", "deprecated", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "minItems", "minLength",
			"minimum", "maximum", "default", "format"}, key) {
			return fail("the keyword %q is not looked at", key)
		}
	}
	if list, ok := s["anyOf"].([]any); ok {
		var errs []string
		for _, alternative := range list {
			err := conforms(path, alternative, v)
			if err == nil {
				return nil
			}
			errs = append(errs, err.Error())
		}
		return fail("none of: %s", strings.Join(errs, "; "))
	}
	if c, ok := s["const"]; ok && c != v {
		return fail("%v is not %v", v, c)
	}
	if list, ok := s["enum"].([]any); ok && !slices.Contains(list, v) {
		return fail("%v is none of %v", v, list)
	}
	types, _ := s["type"].([]any)
	if t, ok := s["type"].(string); ok {
		types = []any{t}
	}
	kind := map[bool]string{true: "null"}[v == nil]
	switch v := v.(type) {
	case bool:
		kind = "boolean"
	case string:
		kind = "string"
		if n, ok := s["minLength"].(float64); ok && float64(len(v)) < n {
			return fail("%q is too short", v)
		}
	case float64:
		if kind = "number"; v == math.Trunc(v) && !slices.Contains(types, any("number")) {
			kind = "integer"
		}
		if n, ok := s["minimum"].(float64); ok && v < n {
			return fail("%v is less than %v", v, n)
		}
		if n, ok := s["maximum"].(float64); ok && v > n {
			return fail("%v is more than %v", v, n)
		}
	case []any:
		kind = "array"
		if n, ok := s["minItems"].(float64); ok && float64(len(v)) < n {
			return fail("has %d items", len(v))
		}
		for i, e := range v {
			if err := conforms(fmt.Sprintf("%s[%d]", path, i), s["items"], e); err != nil {
				return err
			}
		}
	case map[string]any:
		kind = "object"
		required, _ := s["required"].([]any)
		properties, _ := s["properties"].(map[string]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				return fail("%v is missing", name)
			}
		}
		for name, e := range v {
			p, known := properties[name]
			if !known && s["additionalProperties"] == false {
				return fail("%q is not described", name)
			}
			if known {
				if err := conforms(path+"."+name, p, e); err != nil {
					return err
				}
			}
		}
	}
	if len(types) > 0 && !slices.Contains(types, any(kind)) {
		return fail("%s is none of %v", kind, types)
	}
	return nil
}

// judge compares a request and its answer with the document.
func (s *service) judge(method, path, body string, a answer) {
	s.Helper()
	op := described(method, path)
	if op == nil {
		return
	}
	if a.status < 300 && body != "" {
		if schema := at(op, "requestBody", "content", "application/json", "schema"); schema != nil {
			var v any
			if err := json.Unmarshal([]byte(body), &v); err != nil {
				s.Errorf("%s %s: accepted %.200s: %v", method, path, body, err)
			} else if err := conforms("request", schema, dropNull(v)); err != nil {
				s.Errorf("%s %s: accepted %.200s: %v", method, path, body, err)
			}
		}
	}
	response := at(op, "responses", fmt.Sprint(a.status))
	if response == nil {
		response = at(op, "responses", "default")
		if a.status < 300 {
			s.Errorf("%s %s: status %d is not in the document", method, path, a.status)
		}
	}
	schema := at(response, "content", "application/json", "schema")
	if media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";"); at(response, "content", media) == nil && method != "HEAD" {
		s.Errorf("%s %s: status %d: media type %q is not in the document", method, path, a.status, media)
	}
	if schema == nil || method == "HEAD" {
		return
	}
	var v any
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		s.Errorf("%s %s: %v: %s", method, path, err, a.body)
	} else if err := conforms("answer", schema, v); err != nil {
		s.Errorf("%s %s: status %d: %v: %s", method, path, a.status, err, a.body)
	}
}

// dropNull removes members that are null, which count as left out.
func dropNull(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = dropNull(v[i])
		}
	case map[string]any:
		for name, e := range v {
			if v[name] = dropNull(e); e == nil {
				delete(v, name)
			}
		}
	}
	return v
}

func TestConformsCanFail(t *testing.T) {
	for schema, values := range map[string][]string{
		`{"type":"integer"}`:         {`1.5`, `"1"`, `null`},
		`{"type":["string","null"]}`: {`1`},
		`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`: {`{}`, `{"a":1}`, `{"a":"x","b":1}`, `[]`},
		`{"$ref":"#/components/schemas/Error"}`:            {`{"message":"x"}`},
		`{"type":"array","items":{"enum":["a"]}}`:          {`["b"]`},
		`{"anyOf":[{"type":"string"},{"type":"boolean"}]}`: {`1`},
		`{"pattern":"x"}`: {`"x"`},
	} {
		for _, value := range values {
			var s, v any
			if err := errors.Join(json.Unmarshal([]byte(schema), &s), json.Unmarshal([]byte(value), &v)); err != nil {
				t.Fatal(err)
			}
			if conforms("value", s, v) == nil {
				t.Errorf("%s conforms to %s", value, schema)
			}
		}
	}
}
