package share

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
)

// BenchmarkWriteOps sends batches of documents with 384 components and five fields.
func BenchmarkWriteOps(b *testing.B) {
	for _, n := range []int{1, 100} {
		m := WriteOps{Request: 1}
		for i := range n {
			id := fmt.Sprint("document ", i)
			m.Ops = append(m.Ops, engine.Op{Kind: engine.OpPut, Bound: true, Coll: 1, ID: id, Vec: make([]float32, 384),
				Doc: stored(b, document.Document{ID: id, Text: "A text of about a hundred bytes, as a chunk of a page has, or somewhat shorter than that.",
					Metadata: map[string]any{"page": int64(i), "title": "Title", "tags": []any{"a", "b"}, "score": 0.5, "draft": false}})})
		}
		sent := frame(b, m)
		b.Run(fmt.Sprintf("append/%d", n), func(b *testing.B) {
			b.SetBytes(int64(len(sent)))
			b.ReportAllocs()
			var buf []byte
			for b.Loop() {
				var err error
				if buf, err = Append(buf[:0], m); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("read/%d", n), func(b *testing.B) {
			b.SetBytes(int64(len(sent)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Read(bytes.NewReader(sent)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRecords sends the records of six documents, as a commit of many processes has.
func BenchmarkRecords(b *testing.B) {
	m := Records{First: 1}
	for range 6 {
		m.Records = append(m.Records, make([]byte, 1800))
		m.Replaced = append(m.Replaced, []byte{0})
	}
	sent := frame(b, m)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Append(nil, m); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		var in bytes.Reader
		r := newReader(&in, true)
		for b.Loop() {
			in.Reset(sent)
			m, err := r.next()
			if err != nil {
				b.Fatal(err)
			}
			n := 0
			for _, r := range m.(Records).records() {
				n += len(r.Data)
			}
			if n != 6*1800 {
				b.Fatal(n)
			}
		}
	})
}
