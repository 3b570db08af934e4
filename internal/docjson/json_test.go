package docjson

import (
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// TestVectorsSurviveText writes float32 of every magnitude and reads them again. 7.038531e-26 is
// the only one whose shortest decimal is nearest, as a float64, to the midpoint between it and its
// neighbour.
func TestVectorsSurviveText(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	v := []float32{7.038531e-26, -7.038531e-26, 0, negativeZero, math.MaxFloat32, math.SmallestNonzeroFloat32, 1, 1e-5, 1e21, 16777216}
	for len(v) < 200_000 {
		if f := math.Float32frombits(rng.Uint32()); !math.IsNaN(float64(f)) && !math.IsInf(float64(f), 0) {
			v = append(v, f)
		}
	}
	text, err := appendVector(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseVector(nil, text)
	if err != nil {
		t.Fatal(err)
	}
	if err := sameBits(got, v); err != nil {
		t.Error(err)
	}
}

// TestValuesAgainstEncodingJSON reads valid and invalid values. If both readers accept a value,
// they must agree.
func TestValuesAgainstEncodingJSON(t *testing.T) {
	for _, s := range []string{
		`{}`, `[]`, ` { } `, `{"a":1}`, `{"a":[1,2.5,"x",null,true,false,{"b":{}}]}`, `"\u00e9\n\t\"\\\/\b\f\r"`, `"\ud83d\ude00"`,
		`-0`, `-0.0`, `1e3`, `1E-3`, `9223372036854775807`, `-9223372036854775808`, `{"a":1,}`, `{,}`, `[1,]`, `[,]`, `{"a"}`, `{"a":}`,
		`{1:2}`, `{"a" 1}`, `nul`, `truex`, `tru`, `"`, `"\`, `"\x"`, `"\u12"`, "\"\n\"", "\"\x00\"", `1 2`, `{}}`, `[[]`, `]`, ``, ` `, `-`, `+1`, `01`, `1.`,
	} {
		r := jsonReader{b: []byte(s)}
		got, err := r.value(0)
		if err == nil {
			err = r.end()
		}
		dec := json.NewDecoder(strings.NewReader(s))
		dec.UseNumber()
		var want any
		jsonErr := dec.Decode(&want)
		if jsonErr == nil {
			if _, more := dec.Token(); more != io.EOF {
				jsonErr = io.ErrNoProgress // trailing text
			}
		}
		if (err == nil) != (jsonErr == nil) {
			t.Errorf("%s: %v, encoding/json says %v", s, err, jsonErr)
		}
		if err == nil && !reflect.DeepEqual(got, numbers(want)) {
			t.Errorf("%s: %#v, want %#v", s, got, numbers(want))
		}
		if r.at > len(s) {
			t.Errorf("%s: offset %d", s, r.at)
		}
	}
	for _, s := range []string{`{"a":1,"a":1}`, `9223372036854775808`, `1e400`, "\"\xff\"", `"\ud800"`, `{"\udfff":1}`, strings.Repeat("[", 100_000), strings.Repeat(`{"a":`, 100_000)} {
		r := jsonReader{b: []byte(s)}
		if v, err := r.value(0); err == nil {
			t.Errorf("%.40s: accepted as %v", s, v)
		}
	}
}

// TestHalfSurrogates: half of a pair is refused at its offset. encoding/json makes U+FFFD of it,
// and different ids become equal.
func TestHalfSurrogates(t *testing.T) {
	for text, at := range map[string]int64{`"ab\ud800"`: 3, `"\n\udfff\n"`: 3, `"\ud83d\ud83d\ude00"`: 1, `["x","\ude00\ud83d"]`: 6} {
		r := NewReader([]byte(text))
		if v, err := r.Value(); err == nil || !strings.Contains(err.Error(), "half a surrogate pair") || r.Offset() != at {
			t.Errorf("%s: %v, %v at %d, want %d", text, v, err, r.Offset(), at)
		}
	}
}

// numbers converts each json.Number in v to the types of metadata.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if !strings.ContainsAny(string(v), ".eE") {
			n, _ := v.Int64()
			return n
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}
