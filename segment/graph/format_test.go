package graph

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/formattest"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

var update = flag.Bool("update", false, "rewrite golden files")

// fixture is a small file with duplicates.
func fixture(t *testing.T, layout uint32) []byte {
	d := &data{vectors{Dim: 3, Vecs: []float32{1, 0, 0, 0.5, -0.5, 0.25, 0, 0, 0, -3, 0.5, 1, 0, 0, 0}}}
	id := codes.Ident{DB: [16]byte{1, 2, 3}, Segment: 42, Rows: 5, Dim: 3, Metric: fileformat.Dot, CRC: 0xcafe}
	var b memory
	opts := Options{Seed: 9, layout: layout}
	if (&header{layout: layout}).shares() {
		opts.Codes = fixtureCodes(t)
	}
	if _, err := Write(t.Context(), &b, id, d.Source, opts); err != nil {
		t.Fatal(err)
	}
	return b
}

// fixtureCodes are the codes of the fixture, from a file of their first version that graphs share.
func fixtureCodes(t *testing.T) *codes.Codes {
	const name = "testdata/v2.codes"
	id := codes.Ident{DB: [16]byte{1, 2, 3}, Segment: 42, Rows: 5, Dim: 3, Metric: fileformat.Dot, CRC: 0xcafe}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := codes.Parse(b, id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestFormatPage compares the hexdump in docs/format/graph.md with a file that Write makes now. A
// difference means that the format has changed: old files would be built again.
func TestFormatPage(t *testing.T) {
	got := dump(t, fixture(t, quick))
	formattest.Page(t, "../../docs/format/graph.md", got, *update)
}

// TestOldFile opens files that were written when the format was new, and files of earlier versions.
func TestOldFile(t *testing.T) {
	for name, layout := range map[string]uint32{
		"testdata/v2-plain.graph": 0, "testdata/v2-quick.graph": 0,
		"testdata/v3-plain.graph": 0, "testdata/v3-quick.graph": 0, "testdata/v4-shared.graph": 0,
		"testdata/v5-plain.graph": 0, "testdata/v5-quick.graph": 0, "testdata/v5-shared.graph": 0,
		"testdata/v6-plain.graph": 0, "testdata/v6-quick.graph": 0, "testdata/v6-shared.graph": 0,
		"testdata/v7-plain.graph": 0, "testdata/v7-quick.graph": 0, "testdata/v7-shared.graph": 0,
		"testdata/v7-quick-shared.graph": 0,
		"testdata/v8-plain.graph":        plain, "testdata/v8-quick.graph": quick, "testdata/v8-shared.graph": shared,
		"testdata/v8-quick-shared.graph": quickShared,
	} {
		if *update && layout > 0 {
			if err := os.WriteFile(name, fixture(t, layout), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		oldFile(t, b)
	}
}

// TestFirstVersion refuses files of the version that was never released: they are rebuilt.
func TestFirstVersion(t *testing.T) {
	for _, name := range []string{"testdata/v1-plain.graph", "testdata/v1-quick.graph"} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(b, codes.Ident{DB: [16]byte{1, 2, 3}, Segment: 42, Rows: 5, Dim: 3, Metric: fileformat.Dot, CRC: 0xcafe}, nil); !errors.Is(err, fileformat.ErrVersion) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func oldFile(t *testing.T, b []byte) {
	g, err := Parse(b, codes.Ident{DB: [16]byte{1, 2, 3}, Segment: 42, Rows: 5, Dim: 3, Metric: fileformat.Dot, CRC: 0xcafe}, fixtureCodes(t))
	if err != nil {
		t.Fatal(err)
	}
	var order []int
	hits, _, err := g.Query([]float32{1, 2, 3}).Search(5, levels.Setting{EF: 5}, nil, func(row int) (float64, error) {
		order = append(order, row)
		return 0, nil
	}, new(Buffer))
	if err != nil || len(hits) != 5 || len(order) != 5 || order[0] != 3 && order[0] != 0 {
		t.Errorf("%v, order %v, %v", hits, order, err)
	}
	if err := g.Verify(); err != nil {
		t.Error(err)
	}
}

// dump prints every byte of a graph file with its meaning. It reads by the words of the page, not
// with the code under test.
func dump(t *testing.T, b []byte) string {
	d := formattest.New(t, b)
	out, line, repeat, u32 := &d.Out, d.Line, d.Repeat, d.Int32
	f32 := func(name string) { d.Float32(name) }
	row := func(name string) {
		if v := d.U32(); v == math.MaxUint32 {
			line(4, name, "none")
		} else {
			line(4, name, "%d", v)
		}
	}
	pad := func() { repeat(-d.Offset()&63, 0, "padding") }

	line(8, "magic", "%q", d.Raw(8))
	u32("version")
	u32("metric")
	line(16, "database", "%x", d.Raw(16))
	line(8, "segment", "%d: the file is seg/%08[1]x.graph", d.U64())
	size := d.U64()
	line(8, "size of the file", "%d", size)
	dim := u32("dimension")
	rows := u32("rows")
	line(4, "checksum of the vectors", "%#08x", d.U32())
	table := d.U32()
	line(4, "checksum of checksums", "%#08x", table)
	layout := u32("layout")
	line(8, "seed", "%d", d.U64())
	line(8, "unit", "%v", d.F64())
	line(8, "radius", "%v", d.F64())
	entryPoints := u32("entry points")
	overflow := u32("rows of the overflow")
	levels := map[int]int{}
	for _, ks := range [][]int{{1, 10, 100}, {300, 1000}} {
		for _, k := range ks {
			levels[k] = u32(fmt.Sprintf("levels for %d", k))
		}
		for _, k := range ks {
			f32(fmt.Sprintf("margin for %d", k))
		}
	}
	for _, k := range []int{1, 10, 100, 300, 1000} {
		f32(fmt.Sprintf("horizon for %d", k))
	}
	u32("small")
	line(4, "checksum of shared codes", "%#08x", d.U32())
	u32("not shared")
	f32("shortest query")
	for i := range 4 {
		f32(fmt.Sprintf("walk %d: expansions", i))
		f32("rows met")
	}
	repeat(4092-d.Offset(), 0, "reserved")
	line(4, "checksum of 0 to 4091", "%#08x", d.U32())
	for r := range rows {
		values := make([]int, dim)
		for i, c := range d.Raw(dim) {
			values[i] = int(c) - 128
		}
		line(dim, fmt.Sprintf("codes of row %d", r), "%v", values)
		repeat(-(dim+16)&63, 128, "padding")
		f32("scale")
		f32("level")
		f32("extra component")
		line(4, "sum of the codes", "%d", int32(d.U32()))
	}
	// block prints the factors and the signs of n points, and checks that the others have none.
	block := func(n int, free float64) {
		for i, name := range []string{"first", "second"} {
			start := d.Offset()
			factors := make([]string, n)
			for j := range 32 {
				if v := math.Float32frombits(d.U32()); j < n {
					factors[j] = fmt.Sprint(v)
				} else if float64(v) != free*float64(1-i) && v != 0 {
					t.Errorf("%s factor %d is %g", name, j, v)
				}
			}
			fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("%06x  %-23s  %-24s %s", start, "(128 bytes)", name+" factors", strings.Join(factors, " ")), " "))
		}
		start := d.Offset()
		signs := make([]string, n)
		for e := range (dim + 15) / 16 * 4 { // components 4*e to 4*e+3
			for i, b := range d.Raw(16) {
				for half, nibble := range []byte{b & 15, b >> 4} {
					for bit := range 4 {
						if j := i + 16*half; j >= n {
							if nibble != 0 {
								t.Errorf("signs of point %d", j)
							}
						} else if 4*e+bit < dim {
							signs[j] += string("-+"[nibble>>bit&1])
						}
					}
				}
			}
		}
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("%06x  %-23s  %-24s %s", start, fmt.Sprintf("(%d bytes)", d.Offset()-start), "signs", strings.Join(signs, " ")), " "))
	}
	for r := range rows {
		ids := make([]string, 0, 32)
		start := d.Offset()
		for range 32 {
			if v := d.U32(); v != math.MaxUint32 {
				ids = append(ids, fmt.Sprint(v))
			}
		}
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("%06x  %-23s  neighbours of row %d      %s", start, "(128 bytes)", r, strings.Join(ids, " ")), " "))
		if layout == 1 {
			continue
		}
		block(len(ids), 0)
	}
	for at := 0; at < rows; at += 32 {
		n := min(32, rows-at)
		fmt.Fprintf(out, "%06x  %-23s  sketches of rows %d to %d\n", d.Offset(), fmt.Sprintf("(%d bytes)", 256+(dim+15)/16*64), at, at+n-1)
		block(n, math.Inf(1))
	}
	for r := range rows {
		row(fmt.Sprintf("duplicate of row %d", r))
	}
	pad()
	for i := range dim {
		f32(fmt.Sprintf("mean, component %d", i))
	}
	pad()
	for i := range entryPoints {
		row(fmt.Sprintf("entry point %d", i))
	}
	pad()
	for i := range overflow {
		row(fmt.Sprintf("overflow, row %d", i))
	}
	pad()
	for _, k := range []int{1, 10, 100, 300, 1000} {
		for j := range levels[k] {
			u32(fmt.Sprintf("level %d for %d: ef", j, k))
			f32("stopping ratio")
			f32("nodes")
			f32("recall")
			f32("without the ratio")
			for _, kind := range []string{"like rows", "means of few", "means of many", "perturbed", "sparse"} {
				f32("recall, " + kind)
			}
			f32("less than half found")
			f32("nodes, like rows")
			f32("within")
			u32("second stage: ef")
			f32("stopping ratio")
			f32("spread")
			f32("second stage: deviations")
		}
	}
	pad()
	d.Checksums(table)
	if size != uint64(len(b)) {
		t.Errorf("size %d of %d", size, len(b))
	}
	return out.String()
}
