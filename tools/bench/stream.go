package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sumFunc adds up memory; its result only keeps the compiler from removing the loads.
type sumFunc func(b []byte) uint64

// sumWords is the plain loop in Go, unrolled until it is bound by its loads.
func sumWords(b []byte) uint64 {
	w := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
	var s0, s1, s2, s3 uint64
	for ; len(w) >= 16; w = w[16:] {
		x := w[:16:16]
		s0, s1, s2, s3 = s0+x[0], s1+x[1], s2+x[2], s3+x[3]
		s0, s1, s2, s3 = s0+x[4], s1+x[5], s2+x[6], s3+x[7]
		s0, s1, s2, s3 = s0+x[8], s1+x[9], s2+x[10], s3+x[11]
		s0, s1, s2, s3 = s0+x[12], s1+x[13], s2+x[14], s3+x[15]
	}
	return s0 + s1 + s2 + s3
}

// stream is the yardstick of the scan figure: it maps the segment files of a database as Vecbolt
// does, and sums them with a plain Go loop and with vector instructions. The faster loop counts.
type stream struct {
	maps  [][]byte
	bytes int
	sums  map[string]sumFunc
	sink  uint64
}

// openStream maps the vector files of the database in dir.
func openStream(dir string) (*stream, error) {
	names, err := filepath.Glob(filepath.Join(dir, "seg", "*.vec"))
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("no segment files in %s", filepath.Base(dir))
	}
	s := &stream{sums: map[string]sumFunc{"go": sumWords}}
	for name, fn := range vectorSums() {
		s.sums[name] = fn
	}
	for _, name := range names {
		b, err := mapFile(name)
		if err != nil {
			s.close()
			return nil, err
		}
		s.maps = append(s.maps, b)
		s.bytes += len(b)
	}
	return s, nil
}

func mapFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return unix.Mmap(int(f.Fd()), 0, int(fi.Size()), unix.PROT_READ, unix.MAP_SHARED)
}

func (s *stream) close() {
	for _, b := range s.maps {
		unix.Munmap(b)
	}
}

// measure sums all files reps times on the given number of threads with each loop, and returns
// gigabytes per second of every pass.
func (s *stream) measure(threads, reps int) map[string][]float64 {
	speed := map[string][]float64{}
	for name, sum := range s.sums {
		s.pass(sum, threads) // touches every page
		for range reps {
			t := time.Now()
			s.pass(sum, threads)
			speed[name] = append(speed[name], float64(s.bytes)/time.Since(t).Seconds()/1e9)
		}
	}
	return speed
}

func (s *stream) pass(sum sumFunc, threads int) {
	totals := make([]uint64, threads)
	var wg sync.WaitGroup
	for t := range threads {
		work := func() {
			for _, b := range s.maps {
				pages := len(b) >> 12
				totals[t] += sum(b[pages*t/threads<<12 : pages*(t+1)/threads<<12])
			}
		}
		if t == threads-1 {
			work()
		} else {
			wg.Go(work)
		}
	}
	wg.Wait()
	for _, t := range totals {
		s.sink += t
	}
}
