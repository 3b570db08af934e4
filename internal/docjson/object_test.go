package docjson

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// read reads one member as the named kind.
func read(r *Reader, kind string) (v any, err error) {
	switch kind {
	case "string":
		v, err = r.String()
	case "strings":
		v, err = r.Strings(2)
	case "bool":
		v, err = r.Bool()
	case "int":
		v, err = r.Int(-1, 10)
	case "float":
		v, err = r.Float()
	case "vector":
		v, err = r.Vector()
	case "metadata":
		v, err = r.Metadata()
	case "value":
		v, err = r.Value()
	case "raw":
		var b []byte
		b, err = r.Raw()
		v = string(b)
	case "null":
		v = r.Null()
		if v == false {
			_, err = r.Value()
		}
	case "array":
		n := 0
		err = r.Array(func() error { n++; _, err := r.Value(); return err })
		v = n
	}
	return v, err
}

func TestReader(t *testing.T) {
	for _, tt := range []struct{ kind, json, want string }{
		{"string", `"a\u00e9"`, "aé"}, {"string", `""`, ""}, {"strings", `[ "a" , "b" ]`, "[a b]"}, {"strings", `[]`, "[]"},
		{"bool", "true", "true"}, {"bool", "false", "false"}, {"int", "10", "10"}, {"int", "-1", "-1"}, {"float", "1", "1"}, {"float", "-2.5e3", "-2500"},
		{"vector", "[1,2.5]", "[1 2.5]"}, {"vector", "[ ]", "[]"}, {"metadata", `{"a":1}`, "map[a:1]"}, {"value", `[1,"x",null]`, "[1 x <nil>]"},
		{"raw", ` {"a": [1, 2]} `, `{"a": [1, 2]}`}, {"null", "null", "true"}, {"null", "1", "false"}, {"array", "[[],{},1]", "3"},
	} {
		err := ReadObject([]byte(`{"x":`+tt.json+`,"y":0}`), func(key string, r *Reader) error {
			if key == "y" {
				_, err := r.Int(0, 0)
				return err
			}
			v, err := read(r, tt.kind)
			if got := fmt.Sprint(v); err == nil && got != tt.want {
				t.Errorf("%s %s: %s, want %s", tt.kind, tt.json, got, tt.want)
			}
			return err
		})
		if err != nil {
			t.Errorf("%s %s: %v", tt.kind, tt.json, err)
		}
	}
	for _, tt := range []struct{ kind, json string }{
		{"string", "1"}, {"string", `"a`}, {"string", "null"}, {"strings", `["a","b","c"]`}, {"strings", `"a"`}, {"strings", `["a"`}, {"strings", `["a",]`}, {"strings", `[1]`},
		{"bool", "1"}, {"bool", "tru"}, {"bool", ""}, {"int", "11"}, {"int", "-2"}, {"int", "1.0"}, {"int", "1e1"}, {"int", `"1"`}, {"int", "99999999999999999999"}, {"int", ""},
		{"float", "NaN"}, {"float", "1e999"}, {"float", "[]"}, {"vector", "[NaN]"}, {"vector", "1"}, {"vector", "[1"}, {"vector", ""}, {"vector", "null"}, {"metadata", "[]"}, {"metadata", `{"a":1,"a":2}`},
		{"value", strings.Repeat("[", 1000)}, {"raw", "{"}, {"array", "{}"}, {"array", "[1 2]"},
	} {
		err := ReadObject([]byte(`{"x":`+tt.json), func(_ string, r *Reader) error { _, err := read(r, tt.kind); return err })
		if !errors.Is(err, ErrFormat) {
			t.Errorf("%s %s: %v", tt.kind, tt.json, err)
		}
	}
	// A number that is no integer is shown as it is written.
	for _, number := range []string{"1.0", "-2.50", "1e1"} {
		err := ReadObject([]byte(`{"x": `+number+`}`), func(_ string, r *Reader) error { _, err := r.Int(-9, 9); return err })
		if err == nil || !strings.Contains(err.Error(), " "+number+" instead of an integer") {
			t.Errorf("%s: %v", number, err)
		}
	}
	var many []string
	for i := range 65 {
		many = append(many, fmt.Sprintf(`"%d":1`, i))
	}
	ignore := func(_ string, r *Reader) error { _, err := r.Value(); return err }
	for _, bad := range []string{"", "{", "[]", "{}}", "{} 1", `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, "{" + strings.Join(many, ",") + "}", `{"a" 1}`, `{1:1}`} {
		if err := ReadObject([]byte(bad), ignore); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	own := errors.New("own")
	if err := ReadObject([]byte(`{"a":1}`), func(string, *Reader) error { return own }); !errors.Is(err, own) {
		t.Error("the error of a member is lost")
	}
}

func TestAppend(t *testing.T) {
	b, err := AppendValue(nil, map[string]any{"b": 1.0, "a": int64(1), "c": []any{nil, "x"}})
	if err != nil || string(b) != `{"a":1,"b":1.0,"c":[null,"x"]}` {
		t.Errorf("%s, %v", b, err)
	}
	if got := string(AppendString(nil, "a\xffb\n")); got != "\"a\ufffdb\\n\"" {
		t.Errorf("%s", got)
	}
	if b, err := AppendVector(nil, []float32{1, 0.1}); err != nil || string(b) != "[1,0.1]" {
		t.Errorf("%s, %v", b, err)
	}
}

// Raw and Footprint do not decode values, whatever the text holds.
func TestRawMakesNoValues(t *testing.T) {
	text := `[` + strings.Repeat(`{"a":[1,"x\"]}",null,true,-2.5e3]}, `, 10_000) + `{}]`
	body := []byte(` {"k": ` + text + ` }`)
	allocs := testing.AllocsPerRun(5, func() {
		err := ReadObject(body, func(_ string, r *Reader) error {
			raw, err := r.Raw()
			if string(raw) != text {
				t.Errorf("%.50q", raw)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		if Footprint(body) < 10_000*300 {
			t.Error("objects weigh too little")
		}
	})
	if allocs > 10 {
		t.Errorf("%v allocations", allocs)
	}
	for _, bad := range []string{`{"k":`, `{"k":}`, `{"k":]}`, `{"k":,}`, `{"k":"x`, `{"k":[1}`, `{"k":` + strings.Repeat("[", 1000)} {
		if err := ReadObject([]byte(bad), func(_ string, r *Reader) error { _, err := r.Raw(); return err }); err == nil {
			t.Errorf("%.30q is read", bad)
		}
	}
}

// A text weighs the same in parts of any length; strings weigh their bytes.
func TestFootprintInParts(t *testing.T) {
	text := []byte(`{"a\\":[1,2,"[{,\"\\\\"],"b":{"c":[]}}`)
	want := int64(64 + len(text) + 2*320 + 2*40 + 3*24)
	if got := Footprint(text); got != want {
		t.Fatalf("%d, want %d", got, want)
	}
	for n := 1; n <= len(text); n++ {
		var m Meter
		for part := range slices.Chunk(text, n) {
			m.Add(part)
		}
		if got := m.Footprint(); got != want {
			t.Errorf("in parts of %d bytes: %d, want %d", n, got, want)
		}
	}
}
