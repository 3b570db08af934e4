package simd

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// randomRecords draws n records of stride bytes.
func randomRecords(r *rand.Rand, n, stride int) []uint8 {
	records := randomCodes(r, n*stride)
	for i := stride; i <= len(records); i += stride {
		tail := records[i-RecordTail : i]
		binary.LittleEndian.PutUint32(tail, math.Float32bits(float32(r.NormFloat64())))
		binary.LittleEndian.PutUint32(tail[4:], math.Float32bits(float32(r.ExpFloat64())))
		binary.LittleEndian.PutUint32(tail[8:], math.Float32bits(float32(r.NormFloat64())))
	}
	return records
}

func randomVector(r *rand.Rand, stride int) CodedVector {
	q := CodedVector{Codes: make([]uint8, stride), Scale: r.Float32(), Level: r.Float32(), Extra: r.Float32()}
	for i := range stride - RecordTail - r.IntN(40) {
		c := r.IntN(255) - 127
		q.Codes[i] = uint8(c)
		q.Sum += int32(c)
	}
	return q
}

func TestGatherL2(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		for stride := 64; stride <= 640; stride += 64 {
			const n = 50
			records := randomRecords(r, n, stride)
			q := randomVector(r, stride)
			for count := range 35 {
				ids := make([]uint32, count)
				for i := range ids {
					ids[i] = uint32(r.IntN(n))
				}
				out, cached := make([]float32, count+2), make([]float32, count)
				if got := GatherL2(out[1:count+1], &q, records, ids); got != count {
					t.Fatalf("%d of %d ids", got, count)
				}
				if got := GatherCachedL2(cached, &q, records, ids); got != count || !slices.Equal(cached, out[1:count+1]) {
					t.Fatalf("of cached records: %d of %d ids, %v, want %v", got, count, cached, out[1:count+1])
				}
				if out[0] != 0 || out[count+1] != 0 {
					t.Fatalf("stride %d, %d ids: wrote beside dst", stride, count)
				}
				for i, id := range ids {
					rec := records[int(id)*stride:][:stride]
					dot := int32(0)
					for j, w := range q.Codes {
						dot += int32(int8(w)) * (int32(rec[j]) - 128)
					}
					scale := math.Float32frombits(binary.LittleEndian.Uint32(rec[stride-16:]))
					level := math.Float32frombits(binary.LittleEndian.Uint32(rec[stride-12:]))
					extra := math.Float32frombits(binary.LittleEndian.Uint32(rec[stride-8:]))
					want := float32(float32(level+q.Level)+float32(-2*q.Extra*extra)) + float32(float32(-2*q.Scale*scale)*float32(dot))
					if got := out[i+1]; got != want {
						t.Fatalf("stride %d, id %d of %d: %g, want %g", stride, i, count, got, want)
					}
				}
			}
			for _, bad := range []uint32{n, 1 << 31, math.MaxUint32} {
				for _, gather := range []func([]float32, *CodedVector, []uint8, []uint32) int{GatherL2, GatherCachedL2} {
					if got := gather(make([]float32, 3), &q, records, []uint32{1, bad, 2}); got != 1 {
						t.Errorf("%d leading ids have a record, want 1", got)
					}
				}
			}
		}
	})
	Prefetch(nil)
	Prefetch(make([]uint8, 100))
}

// TestGatherSplitL2: records in two parts have the distances of whole ones, whatever follows the
// codes of a row.
func TestGatherSplitL2(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 10))
		for _, dim := range []int{1, 15, 48, 49, 63, 64, 65, 100, 128, 192, 200, 640} {
			const n = 50
			stride := (dim + RecordTail + RecordAlign - 1) / RecordAlign * RecordAlign
			long := (dim + RecordAlign - 1) / RecordAlign * RecordAlign
			records := randomRecords(r, n, stride)
			codes, tails := []uint8{}, []uint8{}
			for i := range n {
				record := records[i*stride:][:stride]
				for j := dim; j < stride-RecordTail; j++ {
					record[j] = 128
				}
				codes = append(codes, record[:dim]...)
				tails = append(tails, record[stride-RecordTail:]...)
			}
			codes = append(codes, randomCodes(r, long-dim)...)
			var whole, split CodedVector
			for i := range n {
				LoadVector(&whole, records[i*stride:][:stride])
				LoadSplitVector(&split, codes[i*dim:][:long], dim, tails[i*RecordTail:])
				if len(split.Codes) != long || !slices.Equal(split.Codes[:dim], whole.Codes[:dim]) ||
					slices.Max(append(split.Codes[dim:], 0)) != 0 || split.Sum != whole.Sum ||
					split.Scale != whole.Scale || split.Level != whole.Level || split.Extra != whole.Extra {
					t.Fatalf("dim %d, row %d: %+v, want %+v", dim, i, split, whole)
				}
			}
			for count := range 35 {
				ids := make([]uint32, count)
				for i := range ids {
					ids[i] = uint32(r.IntN(n))
				}
				want, out := make([]float32, count), make([]float32, count+2)
				GatherL2(want, &whole, records, ids)
				if got := GatherSplitL2(out[1:count+1], &split, codes, dim, tails, ids); got != count {
					t.Fatalf("%d of %d ids", got, count)
				}
				if out[0] != 0 || out[count+1] != 0 || !slices.Equal(out[1:count+1], want) {
					t.Fatalf("dim %d, %d ids: %v, want %v", dim, count, out, want)
				}
			}
			for _, short := range []struct{ codes, tails []uint8 }{
				{codes[:len(codes)-1], tails}, {codes, tails[:len(tails)-1]}, {codes[:long-1], tails},
			} {
				ids, want := []uint32{0, n - 2, n - 1}, 2
				if len(short.codes) < long {
					want = 0
				}
				if got := GatherSplitL2(make([]float32, 3), &split, short.codes, dim, short.tails, ids); got != want {
					t.Errorf("dim %d: %d leading ids have a record, want %d", dim, got, want)
				}
			}
		}
	})
}

// BenchmarkGatherL2 compares one point with 16 records at random places of 64 MiB.
func BenchmarkGatherL2(b *testing.B) {
	for _, stride := range []int{128, 448, 832} {
		b.Run(string(rune('0'+stride/100)), func(b *testing.B) {
			r := rand.New(rand.NewPCG(7, 8))
			n := 64 << 20 / stride
			records := make([]uint8, n*stride)
			for i := range records {
				records[i] = uint8(i)
			}
			q := randomVector(r, stride)
			ids := make([]uint32, 1<<16)
			for i := range ids {
				ids[i] = uint32(r.IntN(n))
			}
			dst := make([]float32, 16)
			at := 0
			for b.Loop() {
				GatherL2(dst, &q, records, ids[at:at+16])
				at = (at + 16) % len(ids)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/16, "ns/record")
		})
	}
}

func TestLoadVector(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(7, 8))
		var p CodedVector
		for _, size := range []int{64, 448, 832, 128} { // into memory that was used
			record := randomCodes(r, size)
			tail := size - RecordTail
			binary.LittleEndian.PutUint32(record[tail:], math.Float32bits(0.25))
			binary.LittleEndian.PutUint32(record[tail+4:], math.Float32bits(2))
			binary.LittleEndian.PutUint32(record[tail+8:], math.Float32bits(-1))
			binary.LittleEndian.PutUint32(record[tail+12:], uint32(0xfffffff0))
			LoadVector(&p, record)
			if p.Scale != 0.25 || p.Level != 2 || p.Extra != -1 || p.Sum != -16 || len(p.Codes) != size {
				t.Fatalf("%d bytes: %+v", size, p)
			}
			for i, c := range p.Codes {
				want := int8(0)
				if i < tail {
					want = int8(int(record[i]) - 128)
				}
				if int8(c) != want {
					t.Fatalf("%d bytes: code %d is %d, want %d", size, i, int8(c), want)
				}
			}
		}
	})
}
