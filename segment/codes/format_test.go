package codes

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/formattest"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestFormatPage compares the hexdump in docs/format/codes.md with a file that Build makes now. A
// difference means that the format has changed: old files would be built again.
func TestFormatPage(t *testing.T) {
	d := &data{vectors{Dim: 3, Vecs: []float32{1, 0, 0, 0.5, -0.5, 0.25, 0, 0, 0, -3, 0.5, 1}}}
	id := Ident{DB: [16]byte{1, 2, 3}, Segment: 42, Rows: 4, Dim: 3, Metric: fileformat.Dot, CRC: 0xcafe}
	file, err := build(id, d.Source, true)
	if err != nil {
		t.Fatal(err)
	}
	got := dump(t, file)
	formattest.Page(t, "../../docs/format/codes.md", got, *update)
}

// dump prints every byte of a code file with its meaning. It reads by the words of the page, not
// with the code under test.
func dump(t *testing.T, b []byte) string {
	d := formattest.New(t, b)
	line, zeros, u32, f32 := d.Line, d.Zeros, d.Int32, d.Float32
	pad := func() { zeros(-d.Offset()&63, "padding") }

	line(8, "magic", "%q", d.Raw(8))
	u32("version")
	u32("metric")
	line(16, "database", "%x", d.Raw(16))
	line(8, "segment", "%d: the file is seg/%08[1]x.codes", d.U64())
	size := d.U64()
	line(8, "size of the file", "%d", size)
	dim := u32("dimension")
	rows := u32("rows")
	line(4, "checksum of the vectors", "%#08x", d.U32())
	u32("largest square")
	f32("slope")
	table := d.U32()
	line(4, "checksum of checksums", "%#08x", table)
	nibbles := u32("nibbles")
	u32("largest square of them")
	f32("slope of them")
	u32("small")
	zeros(4092-d.Offset(), "reserved")
	line(4, "checksum of 0 to 4091", "%#08x", d.U32())
	for row := range rows {
		values := make([]int, dim)
		for i, c := range d.Raw(dim) {
			values[i] = int(c) - 128
		}
		line(dim, fmt.Sprintf("codes of row %d", row), "%v", values)
	}
	pad()
	zeros(64, "padding")
	for i := range dim {
		f32(fmt.Sprintf("mean, component %d", i))
	}
	pad()
	for _, name := range []string{"scale", "level", "residual"} {
		for row := range rows {
			f32(fmt.Sprintf("%s of row %d", name, row))
		}
		pad()
	}
	for row := range rows {
		u32(fmt.Sprintf("square of row %d", row))
	}
	pad()
	if nibbles == 1 {
		zeros(65536-(d.Offset()-4096)%65536, "padding")
		for row := range rows {
			values, raw := make([]int, dim), d.Raw((dim+1)/2)
			for i := range values {
				values[i] = 2*int(raw[i/2]>>(i%2*4)&15) - 15
			}
			line(len(raw), fmt.Sprintf("nibbles of row %d", row), "%v", values)
		}
		pad()
		zeros(64, "padding")
		for row := range rows {
			f32(fmt.Sprintf("coarse scale of row %d", row))
		}
		pad()
	}
	d.Checksums(table)
	if size != uint64(len(b)) {
		t.Errorf("size %d of %d", size, len(b))
	}
	return d.Out.String()
}

// TestVersion1 opens a file of the first version, which had no nibbles: it is left alone, to be
// replaced.
func TestVersion1(t *testing.T) {
	file, err := os.ReadFile("testdata/v1.codes")
	if err != nil {
		t.Fatal(err)
	}
	id := Ident{DB: [16]byte{1, 2, 3}, Segment: 42, Rows: 4, Dim: 3, Metric: fileformat.Dot, CRC: 0xcafe}
	if _, err := Parse(file, id); !errors.Is(err, fileformat.ErrVersion) {
		t.Errorf("version 1: %v", err)
	}
}

// TestNibblesPay: they do for vectors of a model, but not where every row is as good as any other.
func TestNibblesPay(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	near, far := &data{vectors{Dim: 64, Vecs: make([]float32, 64*3000)}}, &data{vectors{Dim: 1000, Vecs: make([]float32, 1000*400)}}
	for i := range near.Vecs {
		centre := float64(1 + i/64%100) // of a cluster
		near.Vecs[i] = float32(math.Sin(centre*float64(i%64+1)) + 0.3*r.NormFloat64())
	}
	for i := range far.Vecs {
		far.Vecs[i] = float32(r.NormFloat64()) // all at right angles, nearly
	}
	for _, d := range []*data{near, far} {
		for _, m := range metrics {
			b, err := Build(d.ident(m), d.Source)
			if err != nil {
				t.Fatal(err)
			}
			c, err := Parse(b, d.ident(m))
			if err != nil {
				t.Fatal(err)
			}
			if got := c.nibbles != nil; got != (d == near) {
				t.Errorf("metric %d, clusters %v: nibbles %v", m, d == near, got)
			}
			small := d.small(t, m)
			if c.Outdated(false) || small.Outdated(true) {
				t.Errorf("metric %d, clusters %v: a new file is outdated", m, d == near)
			}
			if got := c.Outdated(true); got != (d == near) || small.Outdated(false) != got || small.HasNibbles() {
				t.Errorf("metric %d, clusters %v: outdated for small files: %v, for others: %v", m, d == near,
					got, small.Outdated(false))
			}
			if small.lay.size > c.lay.size || (small.lay.size < c.lay.size) != (d == near) {
				t.Errorf("metric %d, clusters %v: %d bytes, %d with nibbles", m, d == near, small.lay.size, c.lay.size)
			}
		}
	}
}

// small parses the file that WriteSmall writes.
func (d *data) small(t *testing.T, m fileformat.Metric) *Codes {
	t.Helper()
	var b blocks.Memory
	size, err := WriteSmall(&b, d.ident(m), d.Source)
	if err != nil || size != int64(len(b)) {
		t.Fatalf("%d bytes, wrote %d: %v", len(b), size, err)
	}
	c, err := Parse(b, d.ident(m))
	if err == nil {
		err = c.Verify()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}
