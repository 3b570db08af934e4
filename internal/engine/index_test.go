package engine

import (
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// TestStoredIndex: definitions keep the index. The default is not stored, as in databases of
// earlier releases, and the name of a later release counts as the default.
func TestStoredIndex(t *testing.T) {
	encode := func(i Index) []byte {
		d := Definition{ID: 3, Name: "c", Schema: Schema{Dim: 2, Index: i}}
		b, err := d.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, i := range []Index{IndexFast, IndexSmall, IndexNone} {
		b := encode(i)
		if d, err := DecodeDefinition(3, b); err != nil || d.Schema.Index != i {
			t.Errorf("%v: %+v, %v", i, d, err)
		}
		if strings.Contains(string(b), "index") != (i != IndexFast) {
			t.Errorf("%v: %q", i, b)
		}
	}
	var m map[string]any
	if err := msgpack.Unmarshal(encode(IndexNone), &m); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tiny", ""} {
		m["index"] = name
		b, err := msgpack.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := DecodeDefinition(3, b); err != nil || d.Schema.Index != IndexFast || d.Name != "c" {
			t.Errorf("%q: %+v, %v", name, d, err)
		}
	}
}
