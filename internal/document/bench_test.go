package document

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

// chunk is a document as a base of texts stores it: 900 bytes of text and eight fields.
func chunk() *Document {
	return &Document{
		ID:   "handbook/chapter-07.md#12",
		Text: strings.Repeat("The quick brown fox jumps over it. ", 26),
		Metadata: map[string]any{
			"source": "handbook/chapter-07.md", "title": "Backups", "lang": "en", "page": int64(117),
			"updated": int64(1763769600), "score": 0.25, "public": true, "tags": []any{"ops", "disk", "restore"},
		},
	}
}

func BenchmarkAppend(b *testing.B) {
	d, buf := chunk(), []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if buf, err = Append(buf[:0], d); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(buf)))
}

// BenchmarkDecode compares the reader of this package with the decoder of msgpack: the whole
// document, and its id alone.
func BenchmarkDecode(b *testing.B) {
	stored, err := Append(nil, chunk())
	if err != nil {
		b.Fatal(err)
	}
	theirs := msgpack.NewDecoder(nil)
	in := bytes.NewReader(nil)
	array := func() error {
		in.Reset(stored)
		theirs.Reset(in)
		if n, err := theirs.DecodeArrayLen(); err != nil || n != fields {
			return fmt.Errorf("%d fields, %w", n, err)
		}
		return nil
	}
	for _, c := range []struct {
		name string
		read func() error
	}{
		{"all/reader", func() error { _, err := Decode(stored, All); return err }},
		{"all/msgpack", func() error {
			if err := array(); err != nil {
				return err
			}
			var d Document
			var err error
			if d.ID, err = theirs.DecodeString(); err != nil {
				return err
			}
			if d.Metadata, err = theirs.DecodeMap(); err != nil {
				return err
			}
			d.Text, err = theirs.DecodeString()
			return err
		}},
		{"id/reader", func() error { _, err := DecodeID(stored); return err }},
		{"id/msgpack", func() error {
			if err := array(); err != nil {
				return err
			}
			_, err := theirs.DecodeString()
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
