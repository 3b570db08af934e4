package segment

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/internal/codec"
)

// TestFormatPage compares the hexdump in docs/format/segment.md with a file that the writer makes now. A difference means
// that the format has changed: old files would not open any more.
func TestFormatPage(t *testing.T) {
	fsys := newFS(t, nil)
	d := &data{dim: 3, docs: []uint64{10, 11, 15}, vecs: []float32{1, 0, 0, 0.5, -0.5, 0.25, 0, 0, 0}}
	for i := range d.docs {
		d.invs = append(d.invs, InvNorm(d.row(i)))
	}
	d.write(t, fsys, 42)
	got := dump(t, readFile(t, fsys, FileName(42)))

	const page, begin, end = "../docs/format/segment.md", "```hexdump\n", "```"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok1 := strings.Cut(string(text), begin)
	want, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no hexdump", page)
	}
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+got+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-update rewrites it):\n%s", page, diff)
	}
}

// dump prints every byte of a segment file with its meaning. It reads by the words of the page, not with the code under
// test.
func dump(t *testing.T, b []byte) string {
	var out strings.Builder
	d := codec.NewDecoder(b)
	line := func(n int, name, format string, args ...any) {
		off := d.Offset() - n
		value := fmt.Sprintf(format, args...)
		for i := 0; i < n; i += 8 {
			hex := fmt.Sprintf("% x", b[off+i:off+min(i+8, n)])
			fmt.Fprintln(&out, strings.TrimRight(fmt.Sprintf("%06x  %-23s  %-22s %s", off+i, hex, name, value), " "))
			name, value = "", ""
		}
	}
	zeros := func(n int, name string) {
		if strings.Trim(string(d.Raw(n)), "\x00") != "" {
			t.Errorf("%s are not zero", name)
		}
		fmt.Fprintf(&out, "%06x  %-23s  %s\n", d.Offset()-n, fmt.Sprintf("00 (%d times)", n), name)
	}
	line(8, "magic", "%q", d.Raw(8))
	line(4, "version", "%d", d.U32())
	line(4, "collection", "%d", d.U32())
	line(16, "database", "%x", d.Raw(16))
	line(8, "segment", "%d: the file is seg/%08[1]x.vec", d.U64())
	line(8, "size of the file", "%d", d.U64())
	dim := int(d.U32())
	line(4, "dimension", "%d", dim)
	rows := int(d.U32())
	line(4, "rows", "%d", rows)
	line(8, "first docnum", "%d", d.U64())
	line(8, "last docnum", "%d", d.U64())
	line(4, "largest norm", "at most %v", d.F32s(1)[0])
	table := d.U32()
	line(4, "checksum of checksums", "%#08x", table)
	zeros(crcOffset-d.Offset(), "reserved")
	line(4, "checksum of 0 to 4091", "%#08x", d.U32())
	for row := range rows {
		for i, v := range d.F32s(dim) {
			n := d.Offset() - (dim-1-i)*4 // the decoder is behind the whole row
			fmt.Fprintf(&out, "%06x  % -23x  %-22s %v\n", n-4, b[n-4:n], fmt.Sprintf("vector %d, element %d", row, i), v)
		}
	}
	zeros((8-d.Offset()%8)%8, "padding to 8")
	for row := range rows {
		line(8, fmt.Sprintf("docnum %d", row), "%d", d.U64())
	}
	for row := range rows {
		line(4, fmt.Sprintf("inverse norm %d", row), "%v", d.F32s(1)[0])
	}
	start := d.Offset()
	l, err := layoutOf(rows, dim)
	for block := int64(0); err == nil && d.Len() > 0; block++ {
		from, to := l.block(block)
		line(4, fmt.Sprintf("checksum of block %d", block), "%#08x: %d to %d", d.U32(), from, to-1)
	}
	if err := errors.Join(err, d.Err()); err != nil || codec.CRC(b[start:]) != table {
		t.Errorf("err %v, checksum of checksums %#x, want %#x", err, codec.CRC(b[start:]), table)
	}
	return out.String()
}
