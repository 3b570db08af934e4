package db

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/formattest"
	"github.com/vecbolt/vecbolt/wal"
)

// TestBatchPage compares the example in docs/format/batch.md with the log of a new
// database. A difference means that the format has changed and older logs and documents
// could not be read.
func TestBatchPage(t *testing.T) {
	ctx := t.Context()
	vdb := open(t, t.TempDir(), nil)
	c := collection(t, vdb, "notes", Schema{Metric: L2, Lineage: Lineage{Model: "m", Normalized: true}})
	if err := c.SetMetadata(ctx, Metadata{"by": "us"}); err != nil {
		t.Fatal(err)
	}
	upsert(t, c, Document{ID: "b"})
	batch := &Batch{}
	batch.Upsert("notes", Document{ID: "a", Vector: []float32{1, -0.5}, Text: "Tea.", Metadata: Metadata{
		"f": 1.0, "i": 1, "list": []any{"x", nil, true}, "map": map[string]any{"n": -300}}})
	batch.Delete("notes", "b")
	batch.Insert("notes", Document{ID: "b", Text: "again"})
	if err := vdb.Apply(ctx, batch); err != nil {
		t.Fatal(err)
	}
	follower := engine.RequestID{Writer: [16]byte([]byte("follower 0123456")), Number: 7}
	if n, err := writeFor(vdb, follower, []engine.Op{{Kind: engine.OpDelete, Collection: "notes", ID: "b"}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := vdb.Drop(ctx, "notes"); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	_, err := wal.Replay(wal.Options{FS: vdb.engine.FS, DB: vdb.engine.Identity}, 0, func(lsn uint64, record []byte) error {
		p := &recordPrinter{out: &got, b: record}
		fmt.Fprintf(&got, "record %d\n", lsn)
		p.record()
		if p.off != len(record) {
			return fmt.Errorf("%d of %d bytes printed", p.off, len(record))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	formattest.Page(t, "../docs/format/batch.md", got.String(), *update)
}

// A recordPrinter prints a record. It follows the words of the page, not the code under
// test.
type recordPrinter struct {
	out *strings.Builder
	b   []byte
	off int
}

// field prints n bytes, eight to a line, and returns them.
func (p *recordPrinter) field(n int, name string, show func(b []byte) string) []byte {
	b := p.b[p.off : p.off+n]
	for i := 0; i < n; i += 8 {
		note := ""
		if i == 0 {
			note = fmt.Sprintf("%-18s %s", name, show(b))
		}
		line := fmt.Sprintf("%06x  %-23s  %s", p.off+i, fmt.Sprintf("% x", b[i:min(i+8, n)]), note)
		fmt.Fprintln(p.out, strings.TrimRight(line, " "))
	}
	p.off += n
	return b
}

func (p *recordPrinter) u8(name string) uint8 {
	return p.field(1, name, func(b []byte) string { return fmt.Sprint(b[0]) })[0]
}

func (p *recordPrinter) u32(name string) int {
	le := binary.LittleEndian
	return int(le.Uint32(p.field(4, name, func(b []byte) string { return fmt.Sprint(le.Uint32(b)) })))
}

func quoted(b []byte) string { return fmt.Sprintf("%q", b) }

func (p *recordPrinter) record() {
	if p.u8("version") == 2 {
		p.field(16, "writer", quoted)
		p.field(8, "request", func(b []byte) string { return fmt.Sprint(binary.LittleEndian.Uint64(b)) })
	}
	p.field(8, "first docnum", func(b []byte) string { return fmt.Sprint(binary.LittleEndian.Uint64(b)) })
	for i := range p.u32("writes") {
		switch kind := p.b[p.off]; kind {
		case 1:
			p.field(1, fmt.Sprintf("write %d", i), func([]byte) string { return "1: put" })
			p.u32("collection")
			end := p.u32("document")
			dim := p.u32("dimension")
			end += p.off
			p.msgpack("")
			if p.off != end {
				panic("the document is not one msgpack value")
			}
			for j := range dim {
				p.field(4, fmt.Sprintf("component %d", j), func(b []byte) string {
					return fmt.Sprint(math.Float32frombits(binary.LittleEndian.Uint32(b)))
				})
			}
		case 2:
			p.field(1, fmt.Sprintf("write %d", i), func([]byte) string { return "2: delete" })
			p.u32("collection")
			p.field(p.u32("id"), "", quoted)
		case 3:
			p.field(1, fmt.Sprintf("write %d", i), func([]byte) string { return "3: define" })
			p.u32("collection")
			end := p.u32("definition")
			end += p.off
			p.msgpack("")
			if p.off != end {
				panic("the definition is not one msgpack value")
			}
		case 4:
			p.field(1, fmt.Sprintf("write %d", i), func([]byte) string { return "4: drop" })
			p.u32("collection")
		default:
			panic(fmt.Sprintf("kind %d", kind))
		}
	}
}

// msgpack prints one value of the subset that the page allows.
func (p *recordPrinter) msgpack(indent string) {
	value := func(head, n int, what string) {
		p.field(head+n, indent+what, func(b []byte) string {
			switch b = b[head:]; what {
			case "string":
				return quoted(b)
			case "float":
				return fmt.Sprint(math.Float64frombits(binary.BigEndian.Uint64(b)))
			}
			v := uint64(0)
			for _, x := range b {
				v = v<<8 | uint64(x)
			}
			if what == "int" && p.b[p.off]&0xfc == 0xd0 { // sign
				v = uint64(int64(v<<(64-8*n)) >> (64 - 8*n))
			}
			return fmt.Sprint(int64(v))
		})
	}
	one := func(what, v string) {
		p.field(1, indent+what, func([]byte) string { return v })
	}
	switch c := p.b[p.off]; {
	case c <= 0x7f:
		one("int", fmt.Sprint(c))
	case c >= 0xe0:
		one("int", fmt.Sprint(int8(c)))
	case c == 0xc0:
		one("null", "")
	case c == 0xc2 || c == 0xc3:
		one("bool", fmt.Sprint(c == 0xc3))
	case c == 0xcb:
		value(1, 8, "float")
	case c >= 0xcc && c <= 0xcf:
		value(1, 1<<(c-0xcc), "int")
	case c >= 0xd0 && c <= 0xd3:
		value(1, 1<<(c-0xd0), "int")
	case c&0xe0 == 0xa0:
		value(1, int(c&0x1f), "string")
	case c == 0xd9:
		value(2, int(p.b[p.off+1]), "string")
	case c&0xf0 == 0x90:
		one("list", fmt.Sprint(c&0xf))
		for range c & 0xf {
			p.msgpack(indent + "  ")
		}
	case c&0xf0 == 0x80:
		one("map", fmt.Sprint(c&0xf))
		for range c & 0xf {
			p.msgpack(indent + "  ")
			p.msgpack(indent + "    ")
		}
	default:
		panic(fmt.Sprintf("msgpack %#x", c))
	}
}
