package segment

import (
	"errors"
	"fmt"
	"testing"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/formattest"
)

// TestFormatPage compares the hexdump in docs/format/segment.md with a file that the writer makes
// now. A difference means that the format has changed: old files would not open any more.
func TestFormatPage(t *testing.T) {
	fsys := newFS(t, nil)
	d := &data{dim: 3, docs: []uint64{10, 11, 15}, vecs: []float32{1, 0, 0, 0.5, -0.5, 0.25, 0, 0, 0}}
	for i := range d.docs {
		d.invs = append(d.invs, InvNorm(d.row(i)))
	}
	d.write(t, fsys, 42)
	got := dump(t, readFile(t, fsys, FileName(42)))
	formattest.Page(t, "../docs/format/segment.md", got, *update)
}

// dump prints every byte of a segment file with its meaning. It reads by the words of the page, not
// with the code under test.
func dump(t *testing.T, b []byte) string {
	d := formattest.New(t, b)
	line, zeros := d.Line, d.Zeros
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
	zeros(fileformat.HeaderCRC-d.Offset(), "reserved")
	line(4, "checksum of 0 to 4091", "%#08x", d.U32())
	for row := range rows {
		for i, v := range d.F32s(dim) {
			n := d.Offset() - (dim-1-i)*4 // the decoder is behind the whole row
			d.Bytes(n-4, 4, fmt.Sprintf("vector %d, component %d", row, i), fmt.Sprint(v))
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
	return d.Out.String()
}
