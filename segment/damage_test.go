package segment

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// useAll opens the segment and reads everything, as a database does that never calls Verify.
func useAll(fsys *vfs.FS, info Info, d *data) error {
	s, err := Open(fsys, testDB, info)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Guard(func() error {
		got, err := s.Rows(0, s.Len())
		if err == nil && (!same(got, d.vecs) || !slices.Equal(s.DocNums(), d.docs) || !same(s.InvNorms(), d.invs)) {
			return errors.New("wrong rows, and no error")
		}
		return err
	})
}

// salvage collects what Salvage finds and fails on rows that were never written.
func salvage(t *testing.T, fsys *vfs.FS, info Info, d *data) Salvaged {
	t.Helper()
	var last uint64
	n := 0
	got, err := Salvage(t.Context(), fsys, FileName(info.ID), info, func(doc uint64, vec []float32) error {
		row, ok := slices.BinarySearch(d.docs, doc)
		if !ok || doc <= last || !same(vec, d.row(row)) {
			t.Errorf("salvaged row of document %d is wrong", doc)
		}
		last = doc
		n++
		return nil
	})
	if err != nil || got.Intact != n || got.Intact+got.Lost != len(d.docs) {
		t.Errorf("salvaged %d rows: %+v, %v", n, got, err)
	}
	return got
}

// damaged is a written segment whose bytes a test changes in place.
type damaged struct {
	*vfs.FS
	f    *os.File
	info Info
	d    *data
	orig []byte
}

func newDamaged(t *testing.T, d *data) *damaged {
	fsys := newFS(t, nil)
	info := d.write(t, fsys, 7)
	f, err := os.OpenFile(filepath.Join(fsys.Dir(), FileName(7)), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &damaged{fsys, f, info, d, readFile(t, fsys, FileName(7))}
}

func (x *damaged) writeAt(t *testing.T, b []byte, off int) {
	t.Helper()
	if _, err := x.f.WriteAt(b, int64(off)); err != nil {
		t.Fatal(err)
	}
}

// checkFlip damages the byte at off and expects that reading, Verify and Salvage see it, each
// naming the place.
func (x *damaged) checkFlip(t *testing.T, s *Segment, off int, mask byte) {
	t.Helper()
	x.writeAt(t, []byte{x.orig[off] ^ mask}, off)
	defer x.writeAt(t, x.orig[off:off+1], off)

	c := wantCorrupt(t, useAll(x.FS, x.info, x.d), x.info.ID)
	// The offset is that of the part that the checksum covers: a byte can be blamed on its block or
	// on its checksum.
	part := func(of int64) int64 {
		switch {
		case of < headerSize:
			return 0
		case of < s.lay.table:
			from, _ := s.lay.block(s.lay.blockAt(of))
			return from
		}
		return s.lay.table
	}
	if part(c.Offset) != part(int64(off)) {
		t.Fatalf("flip at %d was reported at %d: %v", off, c.Offset, c)
	}
	if off < headerSize || int64(off) >= s.lay.docs {
		if opened, err := Open(x.FS, testDB, x.info); err == nil {
			opened.Close()
			t.Fatalf("flip at %d: opened", off)
		}
	}
	bad, err := s.BadBlocks(t.Context())
	if err != nil || !ranges(bad).overlap(int64(off), 1) {
		t.Fatalf("flip at %d: bad blocks %+v, %v", off, bad, err)
	}
	wantCorrupt(t, s.Verify(t.Context()), x.info.ID)
	got := salvage(t, x.FS, x.info, x.d)
	if off < headerSize && got.Lost > 0 {
		t.Fatalf("flip at %d in the header loses %d rows", off, got.Lost)
	}
}

func TestEveryByteFlipped(t *testing.T) {
	x := newDamaged(t, makeData(3, 5))
	s := open(t, x.FS, x.info)
	for off := range x.orig {
		x.checkFlip(t, s, off, 0xff)
		x.checkFlip(t, s, off, 1<<(off%8))
	}
	if err := useAll(x.FS, x.info, x.d); err != nil {
		t.Errorf("after undoing all flips: %v", err)
	}
}

func TestFlipsOfManyBlocks(t *testing.T) {
	x := newDamaged(t, makeData(100, 1000))
	s := open(t, x.FS, x.info)
	for off := headerSize; off < len(x.orig); off += 4099 {
		x.checkFlip(t, s, off, 0x10)
	}
	for off := int(s.lay.table); off < len(x.orig); off++ {
		x.checkFlip(t, s, off, 0x10)
	}
}

func TestEveryTruncation(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a file that is mapped cannot be cut")
	}
	x := newDamaged(t, makeData(3, 5))
	s := open(t, x.FS, x.info)
	for n := len(x.orig) - 1; n >= 0; n-- {
		if err := x.f.Truncate(int64(n)); err != nil {
			t.Fatal(err)
		}
		c := wantCorrupt(t, useAll(x.FS, x.info, x.d), x.info.ID)
		if !errors.Is(c, fileformat.ErrDamaged) || !strings.Contains(c.Error(), "cut short") || c.Offset != int64(n) {
			t.Fatalf("cut at %d: %v", n, c)
		}
		wantCorrupt(t, s.Verify(t.Context()), x.info.ID)
		if got := salvage(t, x.FS, x.info, x.d); got.Intact > 0 {
			t.Fatalf("cut at %d: %d rows without a checksum were salvaged", n, got.Intact)
		}
	}
	longer := append(slices.Clone(x.orig), 0)
	x.writeAt(t, longer, 0)
	wantCorrupt(t, useAll(x.FS, x.info, x.d), x.info.ID)
	wantCorrupt(t, s.Verify(t.Context()), x.info.ID)
	if got := salvage(t, x.FS, x.info, x.d); got.Lost > 0 || len(got.Bad) != 1 {
		t.Errorf("a byte too many: %+v", got)
	}
}

func TestSalvage(t *testing.T) {
	d := makeData(128, 1000) // 512 bytes per row, 128 rows per block
	x := newDamaged(t, d)
	l, err := layoutOf(1000, 128)
	if err != nil {
		t.Fatal(err)
	}
	if got := salvage(t, x.FS, x.info, d); got.Lost > 0 || got.Bad != nil || got.Info != x.info || got.DB != testDB {
		t.Errorf("undamaged: %+v", got)
	}

	zero := make([]byte, 700)
	x.writeAt(t, zero, int(l.vec(128*2)))
	x.writeAt(t, zero, int(l.vec(128*3)))
	got := salvage(t, x.FS, x.info, d)
	if got.Lost != 256 || len(got.Bad) != 1 || got.Bad[0] != (BlockRange{l.vec(256), 2 * blockSize, fileformat.ErrChecksum}) {
		t.Errorf("two blocks of vectors: %+v", got)
	}
	x.writeAt(t, zero[:1], 20) // the header too
	if got := salvage(t, x.FS, x.info, d); got.Lost != 256 || len(got.Bad) != 2 || got.DB != [16]byte{} {
		t.Errorf("header: %+v", got)
	}
	if _, err := Salvage(t.Context(), x.FS, FileName(7), Info{}, nil); !errors.Is(err, fileformat.ErrChecksum) {
		t.Errorf("damaged header and no hint: %v", err)
	}
	if _, err := Salvage(t.Context(), x.FS, FileName(7), Info{Rows: 1, Dim: -1}, nil); !errors.Is(err, fileformat.ErrFormat) {
		t.Errorf("damaged header and a bad hint: %v", err)
	}
	x.writeAt(t, x.orig, 0)

	// Document numbers share no block with vectors. With theirs, all is lost.
	x.writeAt(t, zero[:1], int(l.vec(999)))
	if got := salvage(t, x.FS, x.info, d); got.Lost != 1000-7*128 {
		t.Errorf("the last vectors: %+v", got)
	}
	x.writeAt(t, x.orig, 0)
	x.writeAt(t, zero[:1], int(l.doc(500)))
	if got := salvage(t, x.FS, x.info, d); got.Intact != 0 {
		t.Errorf("documents: %+v", got)
	}
	x.writeAt(t, x.orig, 0)

	// One wrong checksum costs the rows of its block.
	x.writeAt(t, []byte{x.orig[l.table] + 1}, int(l.table))
	if got := salvage(t, x.FS, x.info, d); got.Lost != 128 || len(got.Bad) != 2 {
		t.Errorf("a checksum: %+v", got)
	}
	x.writeAt(t, x.orig, 0)

	errStop := errors.New("stop")
	if got, err := Salvage(t.Context(), x.FS, FileName(7), Info{}, func(uint64, []float32) error { return errStop }); err != errStop || got.Intact != 0 {
		t.Errorf("stopped: %+v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Salvage(ctx, x.FS, FileName(7), Info{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Unreadable sectors are damage of their block and nothing else.
func TestUnreadableSectors(t *testing.T) {
	errMedia := errors.New("medium error")
	badLo, badHi := int64(-1), int64(-1)
	fsys := newFS(t, func(op vfs.Op) error {
		if op.Kind == vfs.OpRead && op.Off < badHi && badLo < op.Off+int64(op.Len) {
			return errMedia
		}
		return nil
	})
	d := makeData(128, 1000)
	info := d.write(t, fsys, 7)
	s := open(t, fsys, info)
	l := &s.lay

	badLo, badHi = l.vec(200), l.vec(201)
	err := s.Verify(t.Context())
	if c := wantCorrupt(t, err, 7); !errors.Is(err, errMedia) || c.Offset != l.vec(128) {
		t.Errorf("Verify: %v", err)
	}
	err = s.VerifyRows(t.Context())
	if wantCorrupt(t, err, 7); !errors.Is(err, errMedia) {
		t.Errorf("VerifyRows: %v", err)
	}
	if got := salvage(t, fsys, info, d); got.Lost != 128 {
		t.Errorf("salvaged %+v", got)
	}
	badLo, badHi = l.table, l.table+1
	if got := salvage(t, fsys, info, d); got.Intact != 0 || !errors.Is(got.Bad[len(got.Bad)-1].Err, errMedia) {
		t.Errorf("salvaged without checksums: %+v", got)
	}
	badLo, badHi = 0, 1
	if got := salvage(t, fsys, info, d); got.Lost != 0 {
		t.Errorf("salvaged without header: %+v", got)
	}
	wantCorrupt(t, s.Verify(t.Context()), 7)
}

func TestVerifyRows(t *testing.T) {
	nan := float32(math.NaN())
	for name, c := range map[string]struct {
		change func(d *data)
		bad    int
	}{
		"right":           {func(*data) {}, 0},
		"one ulp":         {func(d *data) { d.invs[4] = math.Nextafter32(d.invs[4], 1) }, 0},
		"two ulps":        {func(d *data) { d.invs[4] += 2 * (math.Nextafter32(d.invs[4], 1e9) - d.invs[4]) }, 1},
		"not finite":      {func(d *data) { d.row(699)[2] = nan }, 1},
		"all of them":     {func(d *data) { clear(d.invs) }, maxProblems},
		"zero and a half": {func(d *data) { d.invs[2] = 0.5 }, 1},
	} {
		fsys := newFS(t, nil)
		d := makeData(100, 700)
		c.change(d)
		s := open(t, fsys, d.write(t, fsys, 7))
		if err := s.Verify(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		err := s.VerifyRows(t.Context())
		n := 0
		if err != nil {
			wantCorrupt(t, err, 7)
			n = len(err.(interface{ Unwrap() []error }).Unwrap())
		}
		if n != c.bad {
			t.Errorf("%s: %d problems, want %d: %v", name, n, c.bad, err)
		}
	}

	fsys := newFS(t, nil)
	s := open(t, fsys, makeData(3, 5).write(t, fsys, 7))
	s.head.info.MaxNorm = 1
	if err := s.VerifyRows(t.Context()); !errors.Is(err, fileformat.ErrFormat) {
		t.Errorf("largest norm: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.VerifyRows(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("VerifyRows cancelled: %v", err)
	}
	if err := s.Verify(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Verify cancelled: %v", err)
	}
	if err := readError(io.EOF); err != io.ErrUnexpectedEOF {
		t.Error(err)
	}
}
