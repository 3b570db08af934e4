package simd

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
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
				out := make([]float32, count+2)
				if got := GatherL2(out[1:count+1], &q, records, ids); got != count {
					t.Fatalf("%d of %d ids", got, count)
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
				if got := GatherL2(make([]float32, 3), &q, records, []uint32{1, bad, 2}); got != 1 {
					t.Errorf("%d leading ids have a record, want 1", got)
				}
			}
		}
	})
	Prefetch(nil)
	Prefetch(make([]uint8, 100))
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
