package simd

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// streamSum is the yardstick: it reads a the way a scan of rows does, from
// front to back, and adds up one element of every cache line.
func streamSum(a []float32) float32 {
	const line = 64 / 4
	var s0, s1, s2, s3 float32
	for len(a) >= 4*line {
		s0 += a[0]
		s1 += a[line]
		s2 += a[2*line]
		s3 += a[3*line]
		a = a[4*line:]
	}
	return s0 + s1 + s2 + s3
}

// A timer keeps the best time of a function, in nanoseconds. On a machine that
// does other things as well, the best is what can be compared.
type timer float64

func newTimer() timer { return timer(math.Inf(1)) }

func (m *timer) run(reps int, f func()) {
	start := time.Now()
	for range reps {
		f()
	}
	*m = min(*m, timer(time.Since(start))/timer(reps))
}

// sink keeps results alive.
var sink float32

// vekDot is vek32.Dot where there is vek.
var vekDot func(a, b []float32) float32

// BenchmarkRows scans rows in blocks of up to 64 KiB, as a database does: in
// set "memory" it goes round 256 MiB, far more than any cache, and times every
// 4 MiB, in set "cache" it scans one block again and again. Each scan alternates
// with streamSum over the next 4 MiB, or the same block. The metrics are the
// best rate of the scan, in bytes of rows, and its ratio to the best of
// streamSum; the latter means little in cache, where the number of instructions
// counts and not the memory.
func BenchmarkRows(b *testing.B) {
	const block, window = 64 << 10 / 4, 4 << 20 / 4
	all := make([]float32, 256<<20/4)
	for i := range all {
		all[i] = float32(i%7) - 3
	}
	for _, set := range []struct {
		name       string
		data       []float32
		size, reps int
	}{{"memory", all, window, 1}, {"cache", all[:block], block, 16}} {
		for _, dim := range []int{16, 32, 64, 100, 128, 384, 768, 1536} {
			n := block / dim // rows in a block
			q, dst := append(Make(dim)[:0], set.data[:dim]...), make([]float32, n)
			next := 0
			run := func(b *testing.B, kernel func(dst, q, rows []float32)) {
				scan, sum := newTimer(), newTimer()
				advance := func() []float32 {
					if next += set.size; next+set.size > len(set.data) {
						next = 0
					}
					return set.data[next:][:set.size/(n*dim)*n*dim]
				}
				for b.Loop() {
					rows := advance()
					scan.run(set.reps, func() {
						for rows := rows; len(rows) > 0; rows = rows[n*dim:] {
							kernel(dst, q, rows[:n*dim])
						}
					})
					rows = advance()
					sum.run(set.reps, func() { sink += streamSum(rows) })
				}
				b.ReportMetric(float64(4*(set.size/(n*dim)*n*dim))/float64(scan), "GB/s")
				b.ReportMetric(float64(sum/scan), "of-sum")
			}
			for _, l := range available() {
				b.Run(fmt.Sprintf("%s/%d/DotRows/%s", set.name, dim, l), func(b *testing.B) {
					use(b, l)
					run(b, DotRows)
				})
				b.Run(fmt.Sprintf("%s/%d/L2Rows/%s", set.name, dim, l), func(b *testing.B) {
					use(b, l)
					run(b, L2Rows)
				})
			}
			b.Run(fmt.Sprintf("%s/%d/Dot/vek", set.name, dim), func(b *testing.B) {
				if vekDot == nil {
					b.Skip("vek does not build here")
				}
				run(b, func(dst, q, rows []float32) {
					for i := range dst {
						dst[i] = vekDot(q, rows[i*dim:(i+1)*dim])
					}
				})
			})
		}
	}
}

// BenchmarkVectors measures the kernels for single vectors, in cache. The
// metric "best" is in nanoseconds.
func BenchmarkVectors(b *testing.B) {
	for _, dim := range []int{3, 16, 100, 384, 768, 1536} {
		s := newSource(kinds[0].draw)
		x, y := s.vector(dim, 0), s.vector(dim, 0)
		run := func(name string, l level, f func()) {
			b.Run(fmt.Sprintf("%d/%s", dim, name), func(b *testing.B) {
				use(b, l)
				best := newTimer()
				for b.Loop() {
					best.run(1000, f)
				}
				b.ReportMetric(float64(best), "best")
			})
		}
		if vekDot != nil {
			run("Dot/vek", active, func() { sink += vekDot(x, y) })
		}
		for _, l := range available() {
			run("Dot/"+l.String(), l, func() { sink += Dot(x, y) })
			run("DotRows/"+l.String(), l, func() {
				var dst [1]float32
				DotRows(dst[:], x, y)
				sink += dst[0]
			})
			run("L2/"+l.String(), l, func() { sink += L2(x, y) })
			run("Dot64/"+l.String(), l, func() { sink += float32(Dot64(x, y)) })
			run("L264/"+l.String(), l, func() { sink += float32(L264(x, y)) })
			run("DotSquare64/"+l.String(), l, func() {
				dot, square := DotSquare64(x, y, nil)
				sink += float32(dot + square)
			})
			run("Finite/"+l.String(), l, func() { Finite(x) })
		}
	}
}

// BenchmarkRange measures the range kernels on 64 KiB of codes.
func BenchmarkRange(b *testing.B) {
	const size = 64 << 10
	dst := make([]uint64, size/64)
	u8, u16, u32 := make([]uint8, size), make([]uint16, size/2), make([]uint32, size/4)
	for i := range u8 {
		u8[i], u16[i/2], u32[i/4] = uint8(i*7), uint16(i*7), uint32(i*7)
	}
	for _, l := range available() {
		run := func(name string, f func()) {
			b.Run(name+"/"+l.String(), func(b *testing.B) {
				use(b, l)
				best := newTimer()
				for b.Loop() {
					best.run(10, f)
				}
				b.ReportMetric(size/float64(best), "GB/s")
			})
		}
		run("RangeU8", func() { RangeU8(dst, u8, 10, 100) })
		run("RangeU16", func() { RangeU16(dst, u16, 10, 1000) })
		run("RangeU32", func() { RangeU32(dst, u32, 10, 1000) })
	}
}
