package share

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/formattest"
)

var update = flag.Bool("update", false, "rewrite the dump in docs/format")

// TestPage compares the example in docs/format/share.md with new frames.
func TestPage(t *testing.T) {
	hello := frame(t, Hello{Version, Process{PID: 4711, Program: "vecbolt",
		Since: time.Unix(1_700_000_000, 0), Role: "search", Version: "v1.0.0"}, false, [16]byte([]byte("follower 0123456")), 0})
	doc := stored(t, document.Document{ID: "a", Text: "Tea."})
	write := frame(t, WriteOps{Request: 7, Ops: []engine.Op{
		{Kind: engine.OpPut, Collection: "notes", ID: "a", Doc: doc, Vec: []float32{1, -0.5}},
		{Kind: engine.OpDelete, Bound: true, Coll: 3, ID: "b"},
	}})
	dumpOf := func(b []byte) *formattest.Dump {
		d := formattest.New(t, b)
		d.Int32("payload")
		d.Int8("kind")
		sum := d.U32()
		d.Line(4, "checksum", "%#08x", sum)
		if sum != codec.CRC(b[:5], b[9:]) {
			t.Errorf("checksum %#x", sum)
		}
		return d
	}
	text := func(d *formattest.Dump, name string) {
		s := d.String()
		d.Line(1+len(s), name, "%s", s)
	}
	number := func(d *formattest.Dump, name string) {
		d.Line(1, name, "%d", d.Uvarint())
	}

	d := dumpOf(hello)
	d.Int32("version")
	d.Int8("read-only")
	d.Line(16, "writer", "%s", d.Raw(16))
	d.Int64("sync within")
	d.Int32("process id")
	d.Int64("since")
	for _, name := range []string{"program", "role", "version"} {
		text(d, name)
	}

	w := dumpOf(write)
	w.Int64("request")
	for i := range w.Int32("components") {
		w.Line(4, fmt.Sprint("component ", i), "%v", math.Float32frombits(w.U32()))
	}
	docs := w.Decoder.Bytes()
	w.Line(1+len(docs), "documents", "%d bytes", len(docs))
	number(w, "names")
	text(w, "name")
	number(w, "writes")
	w.Int8("write 0")
	w.Int8("flags")
	number(w, "name")
	number(w, "dimension")
	number(w, "document")
	w.Int8("write 1")
	w.Int8("flags")
	w.Int32("collection")
	text(w, "id")
	for _, d := range []*formattest.Dump{d, w} {
		if d.Err() != nil || d.Len() > 0 {
			t.Errorf("%v, %d bytes left over", d.Err(), d.Len())
		}
	}
	formattest.Page(t, "../../docs/format/share.md", d.Out.String()+"\n"+w.Out.String(), *update)
}

// TestPageOfErrors compares the bits of errors with the page, whose other tables end earlier.
func TestPageOfErrors(t *testing.T) {
	page, err := os.ReadFile("../../docs/format/share.md")
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[error]string{syscall.ENOSPC: "ENOSPC", syscall.EDQUOT: "EDQUOT", syscall.EIO: "EIO"}
	for i, s := range sentinels {
		row := fmt.Sprintf("\n| %d | %s |\n", i, cmp.Or(numbers[s], s.Error()))
		if !strings.Contains(string(page), row) {
			t.Errorf("the page has no row %q", row)
		}
	}
	if next := fmt.Sprintf("\n| %d | ", len(sentinels)); strings.Contains(string(page), next) {
		t.Errorf("the page has more errors than %d", len(sentinels))
	}
}
