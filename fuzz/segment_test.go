package fuzz_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
)

var segmentDB = [16]byte{1, 2, 3}

// segmentFS returns an empty database directory that lasts as long as the fuzzing process.
func segmentFS(f *testing.F) *vfs.FS {
	dir := f.TempDir()
	for _, name := range []string{"tmp", "seg"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			f.Fatal(err)
		}
	}
	fsys, err := vfs.Open(dir, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { fsys.Close() })
	return fsys
}

// segmentBase writes a segment and returns its bytes.
func segmentBase(f *testing.F, fsys *vfs.FS, id uint64, rows, dim int) (segment.Info, []byte) {
	w, err := segment.Create(fsys, segmentDB, id, 5, dim)
	if err != nil {
		f.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(uint64(rows), uint64(dim)))
	vec := make([]float32, dim)
	for i := range rows {
		for j := range vec {
			vec[j] = float32(rnd.NormFloat64())
		}
		if err := w.Append(uint64(i*3+1+i%2), vec); err != nil {
			f.Fatal(err)
		}
	}
	info, err := w.Finish()
	if err != nil {
		f.Fatal(err)
	}
	b, err := fsys.ReadFile(segment.FileName(id), 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	return info, b
}

// segmentParts is an own reading of docs/format/segment.md.
type segmentParts struct {
	vecs, docs, invs, table []byte
}

func parseSegment(b []byte) segmentParts {
	dim, rows := int(binary.LittleEndian.Uint32(b[48:])), int(binary.LittleEndian.Uint32(b[52:]))
	docs := (4096 + rows*dim*4 + 7) &^ 7
	invs := docs + rows*8
	return segmentParts{b[4096 : 4096+rows*dim*4], b[docs:invs], b[invs : invs+rows*4], b[invs+rows*4:]}
}

func castagnoli(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// sealSegment makes a file of the right size and with right checksums out of any bytes, so that the
// fuzzer gets behind them.
func sealSegment(data []byte) []byte {
	b := slices.Clone(data)
	if len(b) < 4096 {
		b = append(b, make([]byte, 4096-len(b))...)
	}
	le := binary.LittleEndian
	dim, rows := int(b[48]%32), int(b[52]%32)+1
	docs := (4096 + rows*dim*4 + 7) &^ 7
	table := docs + rows*12
	size := table + 4 // one block of document numbers
	if docs > 4096 {
		size += 4 // and one of vectors
	}
	b = append(b, make([]byte, max(0, size-len(b)))...)[:size]
	copy(b, "VECBOLTS")
	le.PutUint32(b[8:], 1)
	le.PutUint64(b[40:], uint64(size))
	le.PutUint32(b[48:], uint32(dim))
	le.PutUint32(b[52:], uint32(rows))
	le.PutUint32(b[size-4:], castagnoli(b[docs:table]))
	if docs > 4096 {
		le.PutUint32(b[table:], castagnoli(b[4096:docs]))
	}
	le.PutUint32(b[76:], castagnoli(b[table:]))
	le.PutUint32(b[4092:], castagnoli(b[:4092]))
	return b
}

// wantSegmentError fails unless err is a CorruptError for the file.
func wantSegmentError(t *testing.T, err error, name string) {
	t.Helper()
	if c, ok := errors.AsType[*fileformat.CorruptError](err); !ok || c.File != name || c.Offset < 0 {
		t.Fatalf("got %v, want a CorruptError of %s", err, name)
	}
}

// boundedSegment runs fn and fails if it allocates out of proportion to n bytes of input.
func boundedSegment(t *testing.T, n int, fn func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > uint64(1<<20+4*n) {
		t.Fatalf("%d bytes allocated for %d bytes of input", got, n)
	}
}

// FuzzSegmentOpen opens arbitrary bytes as they are and with their checksums made right. What opens
// must read back as the format page says; all else is a CorruptError. Nothing panics or allocates
// much.
func FuzzSegmentOpen(f *testing.F) {
	fsys := segmentFS(f)
	for i := range 20 {
		_, b := segmentBase(f, fsys, uint64(i), 1+i*3, i*5%32)
		f.Add(b, false)
		b = slices.Clone(b)
		b[8*i] ^= 0x40
		f.Add(b, false)
		b[len(b)-1-i*5] ^= 0x81
		f.Add(b, true)
	}
	f.Add([]byte{}, false)
	f.Add([]byte("VECBOLTS"), true)
	f.Add(bytes.Repeat([]byte{0xff}, 5000), true)
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		if seal {
			data = sealSegment(data)
		}
		var id uint64
		if len(data) >= 40 {
			id = binary.LittleEndian.Uint64(data[32:])
		}
		name := segment.FileName(id)
		path := filepath.Join(fsys.Dir(), name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path)
		boundedSegment(t, len(data), func() { openSegment(t, fsys, name, data) })
	})
}

func openSegment(t *testing.T, fsys *vfs.FS, name string, data []byte) {
	n := 0
	count := func(uint64, []float32) error { n++; return nil }
	db, info, err := segment.ReadHeader(fsys, name)
	if err != nil {
		wantSegmentError(t, err, name)
		hint := segment.Info{Rows: 3, Dim: 2}
		if got, err := segment.Salvage(t.Context(), fsys, name, hint, count); err != nil || got.Intact != n || n+got.Lost != 3 {
			t.Fatalf("salvaged %+v, %d rows, %v", got, n, err)
		}
		return
	}
	got, err := segment.Salvage(t.Context(), fsys, name, segment.Info{}, count)
	if err != nil || got.Info != info || got.Intact != n || n+got.Lost != info.Rows {
		t.Fatalf("salvaged %+v, %d rows, %v", got, n, err)
	}
	s, err := segment.Open(fsys, db, info)
	if err != nil {
		wantSegmentError(t, err, name)
		return
	}
	defer s.Close()
	want := parseSegment(data)
	last := uint64(0)
	for i, doc := range s.DocNums() {
		if doc != binary.LittleEndian.Uint64(want.docs[8*i:]) || doc <= last {
			t.Fatalf("row %d is document %d after %d", i, doc, last)
		}
		if row, ok := s.Find(doc); !ok || row != i {
			t.Fatalf("document %d of row %d found in %d, %v", doc, i, row, ok)
		}
		last = doc
	}
	for i, inv := range s.InvNorms() {
		if math.Float32bits(inv) != binary.LittleEndian.Uint32(want.invs[4*i:]) || !(inv >= 0) {
			t.Fatalf("inverse norm %d is %v", i, inv)
		}
	}
	damaged := false
	for row := range info.Rows {
		vec, err := s.Rows(row, row+1)
		if err != nil {
			wantSegmentError(t, err, name)
			damaged = true
			continue
		}
		for i, v := range vec {
			if math.Float32bits(v) != binary.LittleEndian.Uint32(want.vecs[(row*info.Dim+i)*4:]) {
				t.Fatalf("component %d of row %d is %v", i, row, v)
			}
		}
	}
	err = s.Verify(t.Context())
	if damaged != (err != nil) {
		t.Fatalf("Rows found damage: %v, Verify found %v", damaged, err)
	}
	if err != nil {
		wantSegmentError(t, err, name)
	}
	if err := s.VerifyRows(t.Context()); err != nil {
		wantSegmentError(t, err, name)
	}
}

// FuzzSegmentTail cuts, extends and overwrites a good file. Whoever opens and reads it gets an
// error or, if nothing has changed, the rows; Salvage finds no row that was not written.
func FuzzSegmentTail(f *testing.F) {
	fsys := segmentFS(f)
	type base struct {
		info segment.Info
		b    []byte
	}
	var bases []base
	for _, rows := range []int{1, 5, 700} {
		for _, dim := range []int{0, 3, 64} {
			info, b := segmentBase(f, fsys, uint64(len(bases)), rows, dim)
			bases = append(bases, base{info, b})
		}
	}
	for i := range 63 {
		n := len(bases[i%len(bases)].b)
		f.Add(uint8(i), int32(i%3-1)*int32(i), uint32(n*i/63), []byte{byte(i), 0}[:i%3])
	}
	f.Fuzz(func(t *testing.T, which uint8, grow int32, off uint32, patch []byte) {
		x := bases[int(which)%len(bases)]
		b := slices.Clone(x.b)
		if grow < 0 {
			b = b[:max(0, len(b)+int(grow))]
		} else {
			b = append(b, make([]byte, min(grow, 1<<16))...)
		}
		if len(b) > 0 {
			copy(b[int(off)%len(b):], patch)
		}
		name := segment.FileName(x.info.ID)
		if err := os.WriteFile(filepath.Join(fsys.Dir(), name), b, 0o600); err != nil {
			t.Fatal(err)
		}
		boundedSegment(t, len(x.b), func() { readSegment(t, fsys, x.info, b, x.b) })
	})
}

func readSegment(t *testing.T, fsys *vfs.FS, info segment.Info, b, good []byte) {
	name := segment.FileName(info.ID)
	err := func() error {
		s, err := segment.Open(fsys, segmentDB, info)
		if err != nil {
			return err
		}
		defer s.Close()
		_, err = s.Rows(0, s.Len())
		if verr := s.Verify(t.Context()); (verr == nil) != (err == nil) {
			t.Fatalf("Rows found %v, Verify found %v", err, verr)
		}
		return err
	}()
	if bytes.Equal(b, good) {
		if err != nil {
			t.Fatalf("an undamaged file gives %v", err)
		}
	} else {
		wantSegmentError(t, err, name)
	}
	want := parseSegment(good)
	n, row := 0, 0
	got, err := segment.Salvage(t.Context(), fsys, name, info, func(doc uint64, vec []float32) error {
		for row < info.Rows && binary.LittleEndian.Uint64(want.docs[8*row:]) < doc {
			row++
		}
		if row == info.Rows || binary.LittleEndian.Uint64(want.docs[8*row:]) != doc || len(vec) != info.Dim {
			t.Fatalf("salvaged document %d, which was never written", doc)
		}
		for i, v := range vec {
			if math.Float32bits(v) != binary.LittleEndian.Uint32(want.vecs[(row*info.Dim+i)*4:]) {
				t.Fatalf("salvaged a wrong vector of document %d", doc)
			}
		}
		n++
		return nil
	})
	if err != nil || got.Intact != n || n+got.Lost != info.Rows {
		t.Fatalf("salvaged %+v, %d rows, %v", got, n, err)
	}
}
