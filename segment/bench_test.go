package segment

import (
	"fmt"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/simd"
)

// benchData is 128 MiB of vectors: more than the caches hold.
func benchData() *data { return makeData(768, 128<<20/(768*4)) }

func BenchmarkWrite(b *testing.B) {
	d := benchData()
	for name, step := range map[string]int{"append": 1, "rows": 1024} {
		b.Run(name, func(b *testing.B) {
			fsys := newFS(b, nil)
			b.SetBytes(int64(len(d.vecs)) * 4)
			for b.Loop() {
				w, err := Create(fsys, testDB, 1, 9, d.dim)
				if err != nil {
					b.Fatal(err)
				}
				for lo := 0; lo < len(d.docs) && err == nil; lo += step {
					hi := min(lo+step, len(d.docs))
					if step == 1 {
						err = w.Append(d.docs[lo], d.row(lo))
					} else {
						err = w.AppendRows(d.docs[lo:hi], d.invs[lo:hi], d.vecs[lo*d.dim:hi*d.dim])
					}
				}
				if err != nil {
					b.Fatal(err)
				}
				// Abort instead of Finish: the speed of the disk is not ours.
				if err := w.Abort(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("finish", func(b *testing.B) {
		fsys := newFS(b, nil)
		b.SetBytes(int64(len(d.vecs)) * 4)
		for b.Loop() {
			d.write(b, fsys, 1)
			b.StopTimer()
			if err := fsys.Remove(FileName(1)); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	for _, rows := range []int{1000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("rows %d", rows), func(b *testing.B) {
			fsys := newFS(b, nil)
			info := makeData(8, rows).write(b, fsys, 1)
			for b.Loop() {
				s, err := Open(fsys, testDB, info)
				if err != nil {
					b.Fatal(err)
				}
				s.Close()
			}
		})
	}
}

// The first touch maps, faults in and verifies; the file is in the page cache.
func BenchmarkFirstTouch(b *testing.B) {
	fsys := newFS(b, nil)
	d := benchData()
	info := d.write(b, fsys, 1)
	b.SetBytes(int64(len(d.vecs)) * 4)
	for b.Loop() {
		s, err := Open(fsys, testDB, info)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Rows(0, s.Len()); err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

// Verification alone: the pages are mapped already.
func BenchmarkVerifyMapped(b *testing.B) {
	fsys := newFS(b, nil)
	d := benchData()
	s := open(b, fsys, d.write(b, fsys, 1))
	b.SetBytes(int64(len(d.vecs)) * 4)
	for b.Loop() {
		clear(s.seen)
		if _, err := s.Rows(0, s.Len()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	fsys := newFS(b, nil)
	d := benchData()
	s := open(b, fsys, d.write(b, fsys, 1))
	b.SetBytes(int64(len(d.vecs)) * 4)
	for b.Loop() {
		if err := s.Verify(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// What a call costs once the blocks are verified.
func BenchmarkRows(b *testing.B) {
	fsys := newFS(b, nil)
	s := open(b, fsys, benchData().write(b, fsys, 1))
	if _, err := s.Rows(0, s.Len()); err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{1, 256, 4096} {
		b.Run(fmt.Sprintf("rows %d", n), func(b *testing.B) {
			lo := 0
			for b.Loop() {
				if _, err := s.Rows(lo, lo+n); err != nil {
					b.Fatal(err)
				}
				if lo += n; lo+n > s.Len() {
					lo = 0
				}
			}
		})
	}
}

func BenchmarkFind(b *testing.B) {
	fsys := newFS(b, nil)
	d := makeData(1, 1_000_000)
	s := open(b, fsys, d.write(b, fsys, 1))
	i := 0
	for b.Loop() {
		if _, ok := s.Find(d.docs[i]); !ok {
			b.Fatal("not found")
		}
		i = (i + 7919) % len(d.docs)
	}
}

// BenchmarkChecksums scans 20,000 × 768 floats three ways in turn: without a look at checksums,
// with blocks that were verified before, and with blocks that are verified on the way, as by the
// first search after opening. It reports the best round of each as a multiple of the first.
func BenchmarkChecksums(b *testing.B) {
	const rows, dim, step = 20_000, 768, 64
	fsys := newFS(b, nil)
	s := open(b, fsys, makeData(dim, rows).write(b, fsys, 7))
	query, out := make([]float32, dim), make([]float32, step)
	query[0] = 1
	all := codec.F32sFromBytes(s.vecs)
	scan := func(get func(lo, hi int) ([]float32, error)) time.Duration {
		start := time.Now()
		for lo := 0; lo < rows; lo += step {
			hi := min(lo+step, rows)
			vecs, err := get(lo, hi)
			if err != nil {
				b.Fatal(err)
			}
			simd.DotRows(out[:hi-lo], query, vecs)
		}
		return time.Since(start)
	}
	ways := []func() time.Duration{
		func() time.Duration {
			return scan(func(lo, hi int) ([]float32, error) { return all[lo*dim : hi*dim], nil })
		},
		func() time.Duration { return scan(s.Rows) },
		func() time.Duration {
			for i := range s.seen {
				s.seen[i].Store(0)
			}
			return scan(s.Rows)
		},
	}
	best := make([]time.Duration, len(ways))
	for b.Loop() {
		for i, way := range ways {
			if d := way(); best[i] == 0 || d < best[i] {
				best[i] = d
			}
		}
	}
	b.ReportMetric(float64(best[1])/float64(best[0]), "warm/none")
	b.ReportMetric(float64(best[2])/float64(best[0]), "first/none")
	b.ReportMetric(float64(4*rows*dim)/best[0].Seconds()/1e9, "GB/s")
}
