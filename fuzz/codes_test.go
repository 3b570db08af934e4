package fuzz_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/formattest"
	"github.com/vecbolt/vecbolt/segment/codes"
)

// The offsets of docs/format/codes.md.
const (
	codesHeader = 4096
	codesCRC    = 4092
	codesTable  = 68 // checksum of checksums
	codesHalves = 72 // whether there are nibbles
)

// sealCodes makes magic, size and all checksums of any bytes right, so that the fuzzer gets behind
// them.
func sealCodes(data []byte) []byte {
	b := append(slices.Clone(data), make([]byte, max(0, codesHeader+1-len(data)))...)
	le := binary.LittleEndian
	copy(b, "VECBOLTQ\x02\x00\x00\x00")
	dim, rows := uint64(le.Uint32(b[48:])), uint64(le.Uint32(b[52:]))
	align := func(n uint64) uint64 { return (n + 63) &^ 63 }
	if dim > 1<<16 || rows > 1<<16 {
		dim, rows = dim%100+1, rows%1000+1
		le.PutUint32(b[48:], uint32(dim))
		le.PutUint32(b[52:], uint32(rows))
	}
	table := align(codesHeader+dim*rows) + 64 + align(4*dim) + 4*align(4*rows)
	if le.Uint32(b[codesHalves:]) == 1 {
		nibbles := codesHeader + (table-codesHeader+65535)/65536*65536
		table = align(nibbles+(dim+1)/2*rows) + 64 + align(4*rows)
	}
	size := table + (table-codesHeader+65535)/65536*4
	if size > 1<<22 {
		return b
	}
	b = append(b, make([]byte, max(0, int(size)-len(b)))...)[:size]
	le.PutUint64(b[40:], size)
	sealBlocks(b, table, codesTable)
	return b
}

// sealBlocks makes the checksums of blocks right, which begin at table, their own, which stands at
// an offset of the header, and that of the header.
func sealBlocks(b []byte, table uint64, sum int) {
	le, at := binary.LittleEndian, table
	for start := uint64(codesHeader); start < table; start += 65536 {
		le.PutUint32(b[at:], codec.CRC(b[start:min(start+65536, table)]))
		at += 4
	}
	le.PutUint32(b[sum:], codec.CRC(b[table:]))
	le.PutUint32(b[codesCRC:], codec.CRC(b[:codesCRC]))
}

// codesIdent reads what docs/format/codes.md and graph.md say the file was made from.
func codesIdent(b []byte) (id codes.Ident) {
	if len(b) >= codesHeader {
		le := binary.LittleEndian
		id.Metric, _ = fileformat.MetricOf(le.Uint32(b[12:]))
		copy(id.DB[:], b[16:32])
		id.Segment = le.Uint64(b[32:])
		id.Dim, id.Rows = int(int32(le.Uint32(b[48:]))), int(int32(le.Uint32(b[52:])))
		id.CRC = le.Uint32(b[56:])
	}
	return id
}

func codesFile(f *testing.F, metric fileformat.Metric, dim, rows int) []byte {
	r := rand.New(rand.NewPCG(uint64(dim), uint64(rows)))
	vecs := make([]float32, dim*rows)
	for i := range vecs {
		vecs[i] = float32(r.NormFloat64())
	}
	b, err := codes.Build(codes.Ident{Segment: 3, Rows: rows, Dim: dim, Metric: metric},
		func(lo, hi int) ([]float32, error) { return vecs[lo*dim : hi*dim], nil })
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// FuzzCodes parses arbitrary bytes as they are and with size and checksums made right. What Parse
// accepts can be searched; nothing panics, and Parse allocates a fraction of its input.
func FuzzCodes(f *testing.F) {
	for i, dim := range []int{1, 7, 64, 100} {
		b := codesFile(f, fileformat.Metric(i%3), dim, 90*i+1)
		f.Add(b, false)
		for i := range 12 {
			bad := slices.Clone(b)
			bad[len(b)*i/12] ^= 1 << (i % 8)
			f.Add(bad, true)
		}
		f.Add(b[:len(b)-1], false)
		other := slices.Clone(b) // without nibbles, or with arbitrary ones
		other[codesHalves] ^= 1
		f.Add(other, true)
		for _, at := range []int{12, 48, 52, 60, 64, 72, 76, 80} {
			bad := slices.Clone(b)
			binary.LittleEndian.PutUint32(bad[at:], math.MaxUint32>>(at%7))
			f.Add(bad, true)
		}
	}
	f.Add([]byte{}, true)
	f.Add(bytes.Repeat([]byte{0xff}, 5000), true)
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		if seal {
			data = sealCodes(data)
		}
		ident := codesIdent(data)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c, err := codes.Parse(data, ident)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > uint64(64<<10+len(data)) {
			t.Fatalf("%d bytes allocated for %d bytes of input", got, len(data))
		}
		if err != nil {
			return
		}
		vec := make([]float32, c.Dim())
		for i := range vec {
			vec[i] = float32(i%5) - 1.5
		}
		q := c.Query(vec)
		var buf codes.Buffer
		for _, cut := range []float64{math.Inf(-1), 0, math.Inf(1), math.NaN()} {
			got, err := q.Candidates(nil, 0, c.Len(), nil, cut, &buf)
			if err != nil {
				if c.Verify() == nil {
					t.Fatalf("%v, but Verify finds nothing", err)
				}
				return
			}
			for _, cand := range got {
				q.Interval(cand)
			}
		}
	})
}

// FuzzCodesBounds takes any finite floats as a query and rows. The interval of every row holds its
// score, and no row whose score reaches a cut is left out.
func FuzzCodesBounds(f *testing.F) {
	f.Add(uint8(3), []byte("any bytes, as many as make a query and a few rows of three floats each"))
	f.Add(uint8(0), bytes.Repeat([]byte{0, 0, 0x80, 0x3f}, 9))
	f.Add(uint8(1), bytes.Repeat([]byte{1, 0, 0, 0, 0, 0, 0x80, 0x7f - 1}, 20))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range uint8(60) {
		dim := i % 20
		var b []byte
		for range 6 * (int(dim) + 1) {
			v := math.Ldexp(r.NormFloat64(), r.IntN(4)*int(dim)-30)
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		}
		f.Add(dim, b)
	}
	f.Fuzz(func(t *testing.T, d uint8, data []byte) {
		dim := int(d) + 1
		floats := make([]float32, min(len(data)/4, 1<<12))
		for i := range floats {
			v := math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
			if v-v == 0 {
				floats[i] = v
			}
		}
		rows := len(floats)/dim - 1
		if rows < 1 {
			return
		}
		vec, vecs := floats[:dim], floats[dim:]
		var buf codes.Buffer
		for m := fileformat.Cosine; m <= fileformat.L2; m++ {
			ident := codes.Ident{Rows: rows, Dim: dim, Metric: m}
			b, err := codes.Build(ident, func(lo, hi int) ([]float32, error) { return vecs[lo*dim : hi*dim], nil })
			if err != nil {
				t.Fatal(err)
			}
			c, err := codes.Parse(b, ident)
			if err != nil {
				t.Fatal(err)
			}
			q := c.Query(vec)
			for row := range rows {
				score := formattest.Score(m, vec, vecs[row*dim:(row+1)*dim])
				cand, err := q.Row(row)
				if err != nil {
					t.Fatal(err)
				}
				if lower, upper := q.Interval(cand); !(lower <= score && score <= upper) {
					t.Fatalf("metric %d, row %d: %g is not in [%g, %g]", m, row, score, lower, upper)
				}
				lo := row &^ 63
				got, err := q.Candidates(nil, lo, row+1, nil, score, &buf)
				if err != nil || len(got) == 0 || got[len(got)-1] != cand {
					t.Fatalf("metric %d, row %d with score %g: candidates %v, %v", m, row, score, got, err)
				}
			}
		}
	})
}
