package document

import (
	"bytes"
	"errors"
	"runtime/metrics"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestVerify takes what Append writes, and of everything near it only what Append writes as well.
func TestVerify(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Document{ID: "an id", Text: rapid.StringN(0, 50, -1).Draw(t, "text"), Metadata: map[string]any{
			"n": rapid.Int64().Draw(t, "int"), "f": rapid.Float64().Draw(t, "float"), "list": []any{"x", nil, true},
			"map": map[string]any{"inner": rapid.StringN(0, 50, -1).Draw(t, "string")}}}
		b, err := Append(nil, &d)
		if err != nil {
			t.Fatal(err)
		}
		if id, err := Verify(b); id != d.ID || err != nil {
			t.Fatalf("%x: %q, %v", b, id, err)
		}
		bad := bytes.Clone(b)
		bad[rapid.IntRange(0, len(b)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		if bad = bad[:rapid.IntRange(0, len(b)).Draw(t, "length")]; len(bad) < len(b) {
			if id, err := Verify(bad); err == nil {
				t.Fatalf("%x, cut: taken as %q", bad, id)
			}
			return
		}
		id, err := Verify(bad)
		back, decoded := Decode(bad, All)
		again, appended := Append(nil, &back)
		if valid := decoded == nil && appended == nil && bytes.Equal(again, bad); (err == nil) != valid || valid && id != back.ID {
			t.Fatalf("%x: %q, %v; decoded %v, written again %x, %v", bad, id, err, decoded, again, appended)
		}
	})
}

// TestVerifyRefuses has bytes that Decode takes and Append does not write, and lengths that are not
// true, which cost no memory.
func TestVerifyRefuses(t *testing.T) {
	claim := "\xdf\x00\xff\xff\xff" // a map of 16,777,215
	for name, b := range map[string]string{
		"nothing":           "",
		"not a list":        "\xa1a",
		"four parts":        "\x94\xa1a\x80\xa0\xa0",
		"long list":         "\xdc\x00\x03\xa1a\x80\xa0",
		"long string":       "\x93\xd9\x01a\x80\xa0",
		"nil metadata":      "\x93\xa1a\xc0\xa0",
		"long integer":      "\x93\xa1a\x81\xa1n\xcc\x01\xa0",
		"short float":       "\x93\xa1a\x81\xa1f\xca\x3f\x80\x00\x00\xa0",
		"keys out of order": "\x93\xa1a\x82\xa1b\x01\xa1a\x01\xa0",
		"key twice":         "\x93\xa1a\x82\xa1b\x01\xa1b\x01\xa0",
		"list in a list":    "\x93\xa1a\x81\xa1b\x91\x90\xa0",
		"empty id":          "\x93\xa0\x80\xa0",
		"more":              "\x93\xa1a\x80\xa0\x00",
		"claims":            "\x93\xa1a" + strings.Repeat(claim+"\xa1a", 16) + strings.Repeat("\xc0", 1<<24),
		"deep":              "\x93\xa1a" + strings.Repeat("\x81\xa1a", 1<<20),
		"long":              "\x93\xa1a\x80\xdb\x01\x00\x00\x01" + strings.Repeat("x", MaxTextLen+1),
		"too long":          strings.Repeat("\xc0", maxStored+1),
	} {
		sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
		metrics.Read(sample)
		before := sample[0].Value.Uint64()
		id, err := Verify([]byte(b))
		metrics.Read(sample)
		if err == nil {
			t.Errorf("%s: taken as %q", name, id)
		}
		if used := sample[0].Value.Uint64() - before; used > 1<<20+3*uint64(len(b)) {
			t.Errorf("%s: %d bytes allocated for %d", name, used, len(b))
		}
	}
	for name, b := range map[string]string{
		"long integer": "\x81\xa1n\xcc\x01", "more": "\x80\x80", "cut": "\x81\xa1n", "operator": "\x81\xa1$\x01",
		"nothing": "", "nil": "\xc0", "too long": "\xdb\x00\x10\x00\x00" + strings.Repeat("x", 1<<20),
	} {
		if m, err := VerifyMetadata([]byte(b)); err == nil {
			t.Errorf("metadata, %s: taken as %v", name, m)
		}
	}
	if m, err := VerifyMetadata([]byte("\x81\xa1n\x01")); err != nil || m["n"] != int64(1) {
		t.Errorf("metadata: %v, %v", m, err)
	}
	if _, err := Verify([]byte("\x93\xa1\n\x80\xa0")); !errors.Is(err, ErrInvalid) {
		t.Errorf("a control character: %v", err)
	}
}
