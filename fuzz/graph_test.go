package fuzz_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/graph"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

// sealGraph makes magic, size and all checksums of any bytes right, by docs/format/graph.md, so
// that the fuzzer gets behind them. A file that does not say version 7 becomes one of version 8. If
// the layout shares codes, sealGraph also returns these.
func sealGraph(data []byte) ([]byte, *codes.Codes) {
	const header, table = 4096, 60
	b := append(slices.Clone(data), make([]byte, max(0, header+1-len(data)))...)
	le := binary.LittleEndian
	version, level := uint32(8), uint64(68)
	if le.Uint32(b[8:]) == 7 {
		version, level = 7, 64
	}
	copy(b, "VECBOLTG")
	le.PutUint32(b[8:], version)
	limit := func(at int, most uint32) uint64 {
		if le.Uint32(b[at:]) > most {
			le.PutUint32(b[at:], le.Uint32(b[at:])%(most+1))
		}
		return uint64(le.Uint32(b[at:]))
	}
	layout := (le.Uint32(b[64:])-1)%4 + 1
	le.PutUint32(b[64:], layout)
	dim, rows := limit(48, 300), limit(52, 2000)
	pilots, overflow, levels := limit(92, uint32(min(1024, rows))), limit(96, uint32(rows)), uint64(0)
	for _, at := range []int{100, 104, 108, 124, 128} {
		levels += limit(at, 128)
	}
	align := func(n uint64) uint64 { return (n + 63) &^ 63 }
	record, node, mean := align(dim+16), uint64(128), dim*4
	var with *codes.Codes
	block, sketches := 256+4*((dim+15)&^15), uint64(0)
	if layout == 2 || layout == 4 {
		node += block
	}
	if version == 8 {
		sketches = (rows + 31) / 32 * block
	}
	if layout == 3 || layout == 4 {
		record, mean = 16, 0
		if with = graphCodes(codesIdent(b)); with != nil {
			sum, _ := with.Checksum()
			le.PutUint32(b[164:], sum)
		}
	}
	size := align(align(header+rows*record) + rows*node + sketches + rows*4)
	for _, n := range []uint64{mean, pilots * 4, overflow * 4, levels * level} {
		size = align(size + n)
	}
	end := size
	size += (end - header + 65535) / 65536 * 4
	b = append(b, make([]byte, max(0, int(size)-len(b)))...)[:size]
	le.PutUint64(b[40:], size)
	sealBlocks(b, end, table)
	return b, with
}

// graphCodes returns the codes of simple rows, or nil if there are none for ident.
func graphCodes(ident codes.Ident) *codes.Codes {
	b, err := codes.Build(ident, func(lo, hi int) ([]float32, error) {
		x := make([]float32, (hi-lo)*ident.Dim)
		for i := range x {
			x[i] = float32((lo*ident.Dim + i) % 7)
		}
		return x, nil
	})
	if err != nil {
		return nil
	}
	c, err := codes.Parse(b, ident)
	if err != nil {
		return nil
	}
	return c
}

// FuzzGraph parses arbitrary bytes as they are and with size and checksums made right. What Parse
// accepts can be searched; nothing panics or loops, every hit is a row, and Parse allocates a
// fraction of its input.
func FuzzGraph(f *testing.F) {
	for i, dim := range []int{1, 7, 200, 100, 50, 192} {
		r := rand.New(rand.NewPCG(uint64(dim), 1))
		rows := 70*i + 1
		vecs := make([]float32, dim*rows)
		for i := range vecs {
			vecs[i] = float32(r.IntN(3)) // with twins
		}
		var b blocks.Memory
		ident := codes.Ident{Segment: 3, Rows: rows, Dim: dim, Metric: fileformat.Metric(i % 3)}
		opts := graph.Options{Trials: 8}
		if dim == 50 || dim == 192 {
			opts.Small, opts.QuickSize, opts.Codes = dim == 50, 1, graphCodes(ident)
			for i := range vecs {
				vecs[i] = float32(i % 7)
			}
		}
		if _, err := graph.Write(f.Context(), &b, ident, func(lo, hi int) ([]float32, error) { return vecs[lo*dim : hi*dim], nil }, opts); err != nil {
			f.Fatal(err)
		}
		if sealed, _ := sealGraph(b); !bytes.Equal(sealed, b) {
			f.Fatalf("dimension %d: a sound file is sealed as another", dim)
		}
		f.Add([]byte(b), false)
		for i := range 16 {
			bad := slices.Clone(b)
			bad[4000+(len(b)-4000)*i/16] ^= 1 << (i % 8)
			f.Add([]byte(bad), true)
		}
		f.Add([]byte(b[:len(b)-1]), false)
		for _, at := range []int{12, 48, 52, 64, 76, 84, 92, 96, 100, 104, 108, 112, 120} {
			bad := slices.Clone(b)
			binary.LittleEndian.PutUint32(bad[at:], math.MaxUint32>>(at%7))
			f.Add([]byte(bad), true)
		}
	}
	f.Add([]byte{}, true)
	f.Add(bytes.Repeat([]byte{0xff}, 5000), true)
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		var with *codes.Codes
		if seal {
			data, with = sealGraph(data)
		}
		ident := codesIdent(data)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		g, err := graph.Parse(data, ident, with)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > uint64(64<<10+len(data)) {
			t.Fatalf("%d bytes allocated for %d bytes of input", got, len(data))
		}
		if err != nil {
			if seal && with != nil && errors.Is(err, fileformat.ErrMismatch) {
				t.Fatal("other codes: ", err)
			}
			return
		}
		vec := make([]float32, g.Dim())
		for i := range vec {
			vec[i] = float32(i%5) - 1.5
		}
		odd := bitset.New(g.Len())
		for i := 1; i < g.Len(); i += 2 {
			odd.Set(i)
		}
		promised, _ := g.Setting(0.9, 10, levels.NoFilter)
		filtered, _ := g.Setting(0.9, 10, levels.AnyFilter)
		var buf graph.Buffer
		staged := levels.Setting{EF: 5, Within: 1, Second: levels.Stage{EF: 50, StopRatio: 1.5}}
		sketched := levels.Setting{EF: 5, Within: 1e-9, Second: levels.Stage{Deviations: 2}}
		for i, s := range []levels.Setting{{EF: 100}, promised, staged, sketched, {EF: 100}, promised, staged, sketched, filtered} {
			allowed := bitset.Set(nil)
			if i >= 4 {
				allowed = odd
			}
			if work := g.Work(s, g.Len()); !(work >= 0 && work <= math.MaxInt32) {
				t.Fatalf("%v: %v distances expected", s, work)
			}
			hits, _, err := g.Query(vec).Search(10, s, allowed, func(row int) (float64, error) {
				if row < 0 || row >= g.Len() || allowed != nil && row%2 == 0 {
					t.Fatalf("row %d of %d", row, g.Len())
				}
				return 0, nil
			}, &buf)
			if err != nil && len(hits) > 0 {
				t.Fatalf("%v and %d hits", err, len(hits))
			}
		}
	})
}
