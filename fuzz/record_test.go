package fuzz_test

import (
	"bytes"
	"slices"
	"testing"

	stored "github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// FuzzRecord reads any bytes as a record of the log. One that is taken is written as the same
// bytes, but for the definitions in it: a reader skips keys that it does not know.
func FuzzRecord(f *testing.F) {
	doc, err := stored.Append(nil, &stored.Document{ID: "a", Text: "Tea."})
	if err != nil {
		f.Fatal(err)
	}
	ops := []engine.Op{
		{Kind: engine.OpPut, Coll: 1, Doc: doc, Vec: []float32{1, -0.5}},
		{Kind: engine.OpPut, Coll: 1, Doc: doc},
		{Kind: engine.OpDelete, Coll: 2, ID: "b"},
		{Kind: engine.OpDrop, Coll: 3},
		{Kind: engine.OpDefine, Coll: 4, Def: &engine.Definition{ID: 4, Name: "notes",
			Schema: engine.Schema{Dim: 2, Metric: fileformat.L2}}},
	}
	for _, id := range []engine.RequestID{{}, {Writer: [16]byte{1, 2}, Number: 7}} {
		for n := range len(ops) + 1 {
			parts, err := engine.EncodeRecord(engine.Batch{First: 5, Ops: ops[:n], Request: id})
			if err != nil {
				f.Fatal(err)
			}
			record := bytes.Join(parts, nil)
			f.Add(record)
			for _, v := range variants(record, 20) {
				f.Add(v)
			}
		}
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		b, err := engine.DecodeRecord(record)
		if err != nil {
			return
		}
		again := encodeRecord(t, b)
		defines := slices.ContainsFunc(b.Ops, func(o engine.Op) bool { return o.Kind == engine.OpDefine })
		if !defines && !bytes.Equal(record, again) {
			t.Fatalf("%x is written as %x", record, again)
		}
		c, err := engine.DecodeRecord(again)
		if err != nil || c.Request != b.Request || c.First != b.First || c.Deleted() != b.Deleted() || len(c.Ops) != len(b.Ops) {
			t.Fatalf("%+v, read again %+v: %v", b, c, err)
		}
		if !bytes.Equal(encodeRecord(t, c), again) {
			t.Fatalf("%x is not written as it was", again)
		}
	})
}

func encodeRecord(t *testing.T, b engine.Batch) []byte {
	t.Helper()
	parts, err := engine.EncodeRecord(b)
	if err != nil {
		t.Fatalf("%+v cannot be written: %v", b, err)
	}
	return bytes.Join(parts, nil)
}
