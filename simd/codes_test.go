package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// randomWeights draws weights whose sum is within the limit.
func randomWeights(r *rand.Rand, dim int) []int16 {
	w := make([]int16, dim)
	most := min(MaxWeight, MaxWeightSum/max(dim, 1))
	for i := range w {
		w[i] = int16(r.IntN(2*most+1) - most)
	}
	return w
}

func randomCodes(r *rand.Rand, n int) []uint8 {
	codes := make([]uint8, n)
	for i := range codes {
		codes[i] = uint8(r.Uint32())
	}
	return codes
}

// dotCode is the definition of DotCodes for one row.
func dotCode(w []int16, row []uint8) int32 {
	sum := 0
	for i, v := range w {
		sum += int(v) * (int(row[i]) - 128)
	}
	return int32(sum)
}

func TestDotCodes(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		for _, dim := range append(lengths, 65536) {
			w := randomWeights(r, dim)
			for n := range 7 {
				offset := r.IntN(64)
				codes := randomCodes(r, offset+CodesSize(n, dim))[offset:]
				out := make([]int32, n+2)
				DotCodes(out[1:n+1], NewWeights(w), codes)
				if out[0] != 0 || out[n+1] != 0 {
					t.Fatalf("dimension %d, %d rows: wrote beside dst", dim, n)
				}
				for i, got := range out[1 : n+1] {
					if want := dotCode(w, codes[i*dim:(i+1)*dim]); got != want {
						t.Fatalf("dimension %d, row %d of %d: %d, want %d", dim, i, n, got, want)
					}
				}
			}
		}
	})
}

// TestDotCodesLimits uses the largest weights against the extreme codes.
func TestDotCodesLimits(t *testing.T) {
	forEach(t, func(t *testing.T) {
		for _, dim := range []int{1, 4, 8, 257, 1024, 65536} {
			for _, sign := range []int16{1, -1} {
				most := int16(min(MaxWeight, MaxWeightSum/dim))
				w := slices.Repeat([]int16{sign * most}, dim)
				for _, c := range []uint8{0, 1, 127, 128, 255} {
					codes := slices.Repeat([]uint8{c}, CodesSize(1, dim))
					var dst [1]int32
					DotCodes(dst[:], NewWeights(w), codes)
					if want := dotCode(w, codes); dst[0] != want {
						t.Fatalf("dimension %d, weights %d, codes %d: %d, want %d", dim, w[0], c, dst[0], want)
					}
				}
			}
		}
	})
}

func TestDotNibbles(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(19, 20))
		for i, dim := range append(lengths, 65536) {
			w := make([]int8, dim)
			for j := range w {
				w[j] = int8(r.IntN(255) - 127)
				if i%7 == 0 {
					w[j] = 127
				}
			}
			for n := range 7 {
				offset, stride := r.IntN(64), (dim+1)/2
				nibbles := randomCodes(r, offset+NibblesSize(n, dim))[offset:]
				if i%14 == 0 {
					nibbles = slices.Repeat([]uint8{255}, len(nibbles))
				}
				out := make([]int32, n+2)
				DotNibbles(out[1:n+1], NewNibbleWeights(w), nibbles)
				if out[0] != 0 || out[n+1] != 0 {
					t.Fatalf("dimension %d, %d rows: wrote beside dst", dim, n)
				}
				for row, got := range out[1 : n+1] {
					want := 0
					for j, v := range w {
						want += int(v) * (2*int(nibbles[row*stride+j/2]>>(j%2*4)&15) - 15)
					}
					if got != int32(want) {
						t.Fatalf("dimension %d, row %d of %d: %d, want %d", dim, row, n, got, want)
					}
				}
			}
		}
	})
}

// TestDotNibblesMany crosses the limit of rows per call of the kernels.
func TestDotNibblesMany(t *testing.T) {
	const dim = 100
	n := 8*rowsPerCall(dim/2) + 5
	r := rand.New(rand.NewPCG(21, 22))
	w, nibbles := make([]int8, dim), randomCodes(r, NibblesSize(n, dim))
	for j := range w {
		w[j] = int8(r.IntN(255) - 127)
	}
	want := make([]int32, n)
	forEach(t, func(t *testing.T) {
		dst := make([]int32, n)
		DotNibbles(dst, NewNibbleWeights(w), nibbles)
		for i := range dst {
			var one [1]int32
			DotNibbles(one[:], NewNibbleWeights(w), nibbles[i*dim/2:])
			if dst[i] != one[0] || want[i] != 0 && want[i] != dst[i] {
				t.Fatalf("row %d: %d, alone %d, before %d", i, dst[i], one[0], want[i])
			}
		}
		want = dst
	})
}

func TestDotCodesAt(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(17, 18))
		for i, dim := range append(lengths, 1<<16) {
			n := 1 + r.IntN(20)
			codes := randomCodes(r, CodesSize(n, dim))
			w := randomWeights(r, dim)
			rows := make([]int32, i%40)
			for j := range rows {
				rows[j] = int32(r.IntN(n))
			}
			dst := make([]int32, len(rows)+1)
			dst[len(rows)] = 42
			DotCodesAt(dst[:len(rows)], NewWeights(w), codes, rows)
			for j, row := range rows {
				if want := dotCode(w, codes[int(row)*dim:int(row+1)*dim]); dst[j] != want {
					t.Fatalf("dimension %d, row %d: %d, want %d", dim, row, dst[j], want)
				}
			}
			if dst[len(rows)] != 42 {
				t.Fatalf("dimension %d, %d rows: wrote beside dst", dim, len(rows))
			}
		}
	})
}

// TestDotCodesMany crosses the limit of rows per call of the kernels.
func TestDotCodesMany(t *testing.T) {
	const dim = 100
	n := 8*rowsPerCall(dim) + 5
	r := rand.New(rand.NewPCG(7, 8))
	w, codes := randomWeights(r, dim), randomCodes(r, CodesSize(n, dim))
	forEach(t, func(t *testing.T) {
		dst := make([]int32, n)
		DotCodes(dst, NewWeights(w), codes)
		at, rows := make([]int32, n), make([]int32, n)
		for i := range rows {
			rows[i] = int32(n - 1 - i)
		}
		DotCodesAt(at, NewWeights(w), codes, rows)
		for i, got := range dst {
			if at[n-1-i] != got {
				t.Fatalf("row %d: %d, by number %d", i, got, at[n-1-i])
			}
			if want := dotCode(w, codes[i*dim:(i+1)*dim]); got != want {
				t.Fatalf("row %d: %d, want %d", i, got, want)
			}
		}
	})
}

func TestCodesAbove(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	odd := []float32{0, inf, -inf, nan, math.SmallestNonzeroFloat32, 0x1p100, 0x1p-100, -1}
	forEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 10))
		draw := func() float32 {
			if r.IntN(8) == 0 {
				return odd[r.IntN(len(odd))]
			}
			return r.Float32() - 0.5
		}
		for n := range 300 {
			offset := r.IntN(4)
			dots := make([]int32, n)
			scales, levels := make([]float32, offset+n+1)[offset:], make([]float32, offset+n+2)[offset:]
			for i := range n {
				dots[i] = int32(r.Uint32()) >> r.IntN(32)
				scales[i], levels[i] = draw(), draw()
			}
			mul, add, per, cut := draw()*0x1p-10, draw(), draw(), draw()
			if n%2 == 1 { // a tie, where the order of roundings counts
				i := r.IntN(n)
				cut = float32(scales[i]*float32(float32(mul*float32(dots[i]))+add)) + float32(per*levels[i])
			}
			words := (n + 63) / 64
			got, want := make([]uint64, words+1), make([]uint64, words+1)
			for i := range got {
				got[i], want[i] = math.MaxUint64, math.MaxUint64
			}
			CodesAbove(got, dots, scales, levels, mul, add, per, cut)
			codesAboveGeneric(want[:words], dots, scales, levels, mul, add, per, cut)
			if !slices.Equal(got, want) {
				t.Fatalf("%d rows: %x, want %x", n, got, want)
			}
		}
	})
}

func TestCodesLengths(t *testing.T) {
	w := NewWeights(make([]int16, 100))
	codes, floats := make([]uint8, 300), make([]float32, 65)
	for i, f := range []func(){
		func() { NewWeights([]int16{MaxWeight + 1}) },
		func() { NewWeights([]int16{-MaxWeight - 1}) },
		func() { NewWeights(slices.Repeat([]int16{MaxWeight}, 258)) },
		func() { DotCodes(make([]int32, 3), w, codes) }, // no padding
		func() { DotCodes(make([]int32, 4), w, codes) },
		func() { NewNibbleWeights([]int8{-128}) },
		func() { NewNibbleWeights(make([]int8, 1<<16+1)) },
		func() { DotNibbles(make([]int32, 6), NewNibbleWeights(make([]int8, 100)), codes) },
		func() { DotCodesAt(make([]int32, 1), w, codes, []int32{2}) },
		func() { DotCodesAt(make([]int32, 1), w, codes, []int32{-1}) },
		func() { DotCodesAt(make([]int32, 1), w, codes, []int32{0, 0}) },
		func() { CodesAbove(make([]uint64, 1), make([]int32, 65), floats, floats, 0, 0, 0, 0) },
		func() { CodesAbove(make([]uint64, 2), make([]int32, 65), floats[1:], floats, 0, 0, 0, 0) },
		func() { CodesAbove(make([]uint64, 2), make([]int32, 65), floats, floats[1:], 0, 0, 0, 0) },
	} {
		func() {
			defer func() {
				if msg := fmt.Sprint(recover()); !strings.HasPrefix(msg, "simd: ") {
					t.Errorf("call %d: panic %q", i, msg)
				}
			}()
			f()
		}()
	}
	DotCodes(make([]int32, 2), w, codes)
	DotCodes(nil, w, nil)
	dst := []int32{1, 2}
	if DotCodes(dst, NewWeights(nil), nil); dst[0] != 0 || dst[1] != 0 {
		t.Errorf("dimension 0: %v", dst)
	}
}

func TestCodesAllocations(t *testing.T) {
	w := NewWeights(make([]int16, 16))
	forEach(t, func(t *testing.T) {
		n := testing.AllocsPerRun(10, func() {
			var codes [64]uint8
			var dots [1]int32
			var bits [1]uint64
			var floats [1]float32
			DotCodes(dots[:], w, codes[:])
			CodesAbove(bits[:], dots[:], floats[:], floats[:], 1, 1, 1, 1)
		})
		if n != 0 {
			t.Errorf("%g allocations", n)
		}
	})
}

// BenchmarkCodes scans codes as BenchmarkRows does rows: round 256 MiB, every
// 4 MiB timed, in blocks of 64 KiB, alternating with the same number of rows
// of DotRows from memory of their own. The metrics are the best rate in bytes
// of codes and how many times as many rows per second that is.
func BenchmarkCodes(b *testing.B) {
	const block, window = 64 << 10, 4 << 20
	all := make([]uint8, 256<<20)
	for i := range all {
		all[i] = uint8(i * 7)
	}
	floats := make([]float32, 256<<20/4)
	for i := range floats {
		floats[i] = float32(i%7) - 3
	}
	for _, set := range []struct {
		name       string
		data       []uint8
		size, reps int
	}{{"memory", all, window, 1}, {"L3", all[:12<<20], window, 1}, {"cache", all[:block+64], block, 16}} {
		for _, dim := range []int{16, 64, 100, 128, 192, 384, 768, 1536} {
			n := block / dim
			for _, l := range available() {
				b.Run(fmt.Sprintf("%s/%d/%s", set.name, dim, l), func(b *testing.B) {
					use(b, l)
					w := NewWeights(randomWeights(rand.New(rand.NewPCG(1, 2)), dim))
					q := append(Make(dim)[:0], floats[:dim]...)
					dots, dst := make([]int32, n), make([]float32, n)
					narrow := NewNibbleWeights(make([]int8, dim))
					scan, rows, half := newTimer(), newTimer(), newTimer()
					next, nextRow := 0, 0
					calls := set.size / block
					for b.Loop() {
						if next += set.size; next+set.size > len(set.data)-64 {
							next = 0
						}
						scan.run(set.reps, func() {
							for i := range calls {
								DotCodes(dots, w, set.data[next+i*block:])
							}
						})
						half.run(set.reps, func() {
							for i := range calls {
								DotNibbles(dots, narrow, set.data[next+i*block/2:])
							}
						})
						if nextRow += calls * n * dim; nextRow+calls*n*dim > len(floats) {
							nextRow = 0
						}
						rows.run(1, func() {
							for i := range calls {
								DotRows(dst, q, floats[nextRow+i*n*dim:][:n*dim])
							}
						})
					}
					b.ReportMetric(float64(calls*n*dim)/float64(scan), "GB/s")
					b.ReportMetric(float64(rows/scan), "of-rows")
					b.ReportMetric(float64(scan/half), "nibbles-of-codes")
				})
			}
		}
	}
}
