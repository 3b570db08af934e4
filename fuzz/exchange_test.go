package fuzz_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/exchange"
	"github.com/vecbolt/vecbolt/internal/docjson"
)

// FuzzParseVector compares the parser of cached vectors with encoding/json.
func FuzzParseVector(f *testing.F) {
	for _, s := range []string{"[]", "[1]", "[-0]", "[1e400]", "[NaN]", "[-Infinity]", "[01]", "[1.]", "[.5]", "[+1]", "[1,]", "[1 2]", "[", "", "null", "{}", `["1"]`,
		"[0.1, 0.2]", "[1e-46]", "[1.1754943508222875e-38]", "[3.4028235677973366e38]", "[9007199254740993]", "[0.000000000000000000000000000000000000001]",
		"[123456789012345678901234567890]", "[1E+5,1e-5]", " [ 1 , 2 ] ", "[1]x", "[\x00]", "[1e]", "[--1]", "[1e99999999999]", "[0e99999999999]"} {
		f.Add(s)
	}
	for i := range 24 {
		f.Add("[" + strings.Repeat("0", i%3) + strings.Repeat("7", i+1) + "." + strings.Repeat("3", 2*i+1) + "e-" + strings.Repeat("1", i%3+1) + "]")
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := docjson.ParseVector(nil, []byte(s))
		var want []*float64
		jsonErr := json.Unmarshal([]byte(s), &want)
		isArray := strings.HasPrefix(strings.TrimLeft(s, " \t\r\n"), "[")
		if err == nil && (jsonErr != nil || !isArray) {
			t.Fatalf("%q: accepted, encoding/json says %v", s, jsonErr)
		}
		if err != nil {
			for _, x := range want {
				if x == nil || math.IsInf(float64(float32(*x)), 0) {
					return // null, or beyond float32
				}
			}
			if jsonErr == nil && isArray {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		for i, x := range want {
			if math.Float32bits(got[i]) != math.Float32bits(float32(*x)) {
				t.Fatalf("%q: element %d is %v, want %v", s, i, got[i], float32(*x))
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%q: %d elements, want %d", s, len(got), len(want))
		}
	})
}

// FuzzParseDocument reads lines of JSONL. What is read must survive being
// written and read again.
func FuzzParseDocument(f *testing.F) {
	for _, s := range []string{`{"id":"a"}`, `{"_id":7,"title":"t","text":"x"}`, `{"vector":[1,2],"metadata":{"a":{"b":[1,2.5,null,true,"x"]}}}`, `{`, `{"id":1.5}`,
		`{"id":"\ud800"}`, `{"text":"\u0041\n"}`, `{"metadata":{"":1}}`, `{"a":1,"a":2}`, `{"embedding":null}`, `{"id":"a"} x`, "\xef\xbb\xbf{}"} {
		f.Add([]byte(s))
	}
	for i := range 40 {
		f.Add([]byte(strings.Repeat(`{"metadata":{"m":`, i%5+1) + strings.Repeat("[", i) + "1" + strings.Repeat("]", i) + strings.Repeat("}}", i%5+1)))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		d, _, err := exchange.ParseDocument(line)
		if err != nil {
			return
		}
		b, err := exchange.AppendDocument(nil, &d, db.Everything)
		if err != nil {
			return // what the database would not hold
		}
		again, _, err := exchange.ParseDocument(b)
		if err != nil {
			t.Fatalf("%q written as %q: %v", line, b, err)
		}
		b2, err := exchange.AppendDocument(nil, &again, db.Everything)
		if err != nil || !slices.Equal(b, b2) {
			t.Fatalf("%q, then %q: %v", b, b2, err)
		}
	})
}

// FuzzVectorFiles reads any bytes as .fvecs, .bvecs and .npy.
func FuzzVectorFiles(f *testing.F) {
	npy := "\x93NUMPY\x01\x00\x3a\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2)} \x00\x00\x80\x3f\x00\x00\x00\x40"
	for i := range 30 {
		f.Add([]byte(npy[:len(npy)-i]))
		f.Add([]byte(strings.Repeat("\x02\x00\x00\x00\x00\x00\x80\x3f\x00\x00\x00\x40", 3)[:36-i]))
	}
	f.Add([]byte("\xff\xff\xff\x7f"))
	f.Add([]byte("\x00\x00\x00\x80"))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, ext := range []string{".fvecs", ".bvecs", ".npy"} {
			name := filepath.Join(dir, "x"+ext)
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
			total := 0
			for v, err := range exchange.ReadVectors(name) {
				if err != nil {
					break
				}
				if total += len(v); total > len(b) {
					t.Fatalf("%s: more components than bytes", ext)
				}
			}
		}
	})
}

// FuzzTextSources reads any bytes as CSV, as lines and as an array of documents.
func FuzzTextSources(f *testing.F) {
	for _, s := range []string{"id,text,vector,metadata\n1,a,\"[1,2]\",{}\n", "a;b\n1;2\n", "\xef\xbb\xbfa\n\"", ",\n,\n", "[{\"id\":\"a\"},{\"values\":[1]}]",
		" [ ] ", "[[", "[{\"a\":\"\\\"}\"}", "{\"content\":\"x\"}\n"} {
		f.Add([]byte(s))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, ext := range []string{".csv", ".tsv", ".json"} {
			name := filepath.Join(dir, "x"+ext)
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
			src, err := exchange.Open(name, nil)
			if err != nil {
				t.Fatal(err)
			}
			documents := 0
			for doc, err := range src.Documents(t.Context()) {
				if err != nil {
					break
				}
				if documents++; documents > len(b)+1 || doc.Done > int64(len(b)) || len(doc.Document.Vector) > len(b) {
					t.Fatalf("%s: more than the file holds", ext)
				}
			}
		}
	})
}
