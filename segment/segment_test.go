package segment

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

var update = flag.Bool("update", false, "rewrite golden files")

var testDB = [16]byte{0xd0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

// newFS returns an empty database directory.
func newFS(t testing.TB, hook vfs.Hook) *vfs.FS {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"tmp", "seg"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	fsys, err := vfs.Open(dir, hook)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fsys.Close() })
	return fsys
}

// data is what a test puts into a segment.
type data struct {
	dim  int
	docs []uint64
	invs []float32
	vecs []float32
}

func (d *data) row(i int) []float32 { return d.vecs[i*d.dim : (i+1)*d.dim] }

// makeData returns random rows with gaps in the document numbers, one zero vector, and odd bits in
// between.
func makeData(dim, rows int) *data {
	rnd := rand.New(rand.NewPCG(uint64(dim), uint64(rows)))
	d := &data{dim: dim, vecs: make([]float32, dim*rows)}
	for i := range d.vecs {
		d.vecs[i] = float32(rnd.NormFloat64())
	}
	for i := range rows {
		if i == 2 {
			clear(d.row(i))
		}
		if i == 3 {
			for j := range d.row(i) {
				d.row(i)[j] = []float32{float32(math.Copysign(0, -1)), math.SmallestNonzeroFloat32, math.MaxFloat32}[j%3]
			}
		}
		d.docs = append(d.docs, uint64(10+3*i+rnd.IntN(3)))
		d.invs = append(d.invs, InvNorm(d.row(i)))
	}
	return d
}

func (d *data) write(t testing.TB, fsys *vfs.FS, id uint64) Info {
	t.Helper()
	w, err := Create(fsys, testDB, id, 9, d.dim)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.AppendRows(d.docs, d.invs, d.vecs); err != nil {
		t.Fatal(err)
	}
	info, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func open(t testing.TB, fsys *vfs.FS, info Info) *Segment {
	t.Helper()
	s, err := Open(fsys, testDB, info)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// same compares bits, so that -0 is not 0.
func same(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// wantCorrupt returns the fileformat.CorruptError that err must contain, for the file of segment
// id.
func wantCorrupt(t testing.TB, err error, id uint64) *fileformat.CorruptError {
	t.Helper()
	c, ok := errors.AsType[*fileformat.CorruptError](err)
	if !ok || c.File != FileName(id) {
		t.Fatalf("got %v, want a fileformat.CorruptError of %s", err, FileName(id))
	}
	return c
}

func TestRoundTrip(t *testing.T) {
	for _, dim := range []int{0, 1, 3, 100, 768} {
		for _, rows := range []int{1, 2, 7, 64, 1000} {
			t.Run(fmt.Sprintf("dim %d rows %d", dim, rows), func(t *testing.T) {
				fsys := newFS(t, nil)
				d := makeData(dim, rows)
				info := d.write(t, fsys, 42)
				want := Info{ID: 42, Collection: 9, Dim: dim, Rows: rows, MinDoc: d.docs[0], MaxDoc: d.docs[rows-1],
					Size: info.Size, CRC: info.CRC, MaxNorm: maxNorm(d.invs)}
				if diff := cmp.Diff(want, info); diff != "" {
					t.Error(diff)
				}
				s := open(t, fsys, info)
				if s.Len() != rows || s.Dim() != dim || s.Info() != info || s.Name() != "seg/0000002a.vec" {
					t.Errorf("Len %d, Dim %d, Info %+v, Name %s", s.Len(), s.Dim(), s.Info(), s.Name())
				}
				if !slices.Equal(s.DocNums(), d.docs) || !same(s.InvNorms(), d.invs) {
					t.Error("documents or inverse norms differ")
				}
				for lo := 0; lo <= rows; lo += max(1, rows/5) {
					for hi := lo; hi <= rows; hi += max(1, rows/7) {
						got, err := s.Rows(lo, hi)
						if err != nil || !same(got, d.vecs[lo*dim:hi*dim]) {
							t.Fatalf("Rows(%d, %d): %v, or they differ", lo, hi, err)
						}
					}
				}
				for doc := range d.docs[rows-1] + 2 {
					wantRow, want := slices.BinarySearch(d.docs, doc)
					if row, ok := s.Find(doc); ok != want || ok && row != wantRow {
						t.Fatalf("Find(%d) = %d, %v", doc, row, ok)
					}
				}
				if err := errors.Join(s.Verify(t.Context()), s.VerifyRows(t.Context())); err != nil {
					t.Error(err)
				}
				db, head, err := ReadHeader(fsys, s.Name())
				if err != nil || db != testDB || head != info {
					t.Errorf("ReadHeader = %x, %+v, %v", db, head, err)
				}
			})
		}
	}
}

func TestAppendEqualsAppendRows(t *testing.T) {
	fsys := newFS(t, nil)
	d := makeData(100, 1500)
	d.write(t, fsys, 1)
	w, err := Create(fsys, testDB, 1001, 9, d.dim)
	if err != nil {
		t.Fatal(err)
	}
	w.head.info.ID = 1 // the header should not differ either
	for i, doc := range d.docs {
		if err := w.Append(doc, d.row(i)); err != nil || w.Len() != i+1 {
			t.Fatalf("row %d: %v, Len %d", i, err, w.Len())
		}
	}
	w.head.info.ID = 1001
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	a, b := readFile(t, fsys, FileName(1)), readFile(t, fsys, FileName(1001))
	if !slices.Equal(a[headerSize:], b[headerSize:]) {
		t.Error("the files differ")
	}
}

func readFile(t testing.TB, fsys *vfs.FS, name string) []byte {
	t.Helper()
	b, err := fsys.ReadFile(name, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func writeFile(t testing.TB, fsys *vfs.FS, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(fsys.Dir(), name), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// reseal recomputes all checksums of a file for the given number of rows.
func reseal(b []byte) {
	dim, rows := int64(u32(b[48:])), int64(u32(b[52:]))
	docs := (headerSize + rows*dim*4 + 7) &^ 7
	table := docs + rows*12
	i := table
	for _, section := range [][]byte{b[headerSize:docs], b[docs:table]} {
		for block := range slices.Chunk(section, blockSize) {
			putU32(b[i:], codec.CRC(block))
			i += 4
		}
	}
	putU32(b[76:], codec.CRC(b[table:]))
	putU32(b[fileformat.HeaderCRC:], codec.CRC(b[:fileformat.HeaderCRC]))
}

func u32(b []byte) uint32       { return codec.NewDecoder(b).U32() }
func putU32(b []byte, v uint32) { e := codec.Encoder{B: b[:0]}; e.U32(v) }
func putU64(b []byte, v uint64) { e := codec.Encoder{B: b[:0]}; e.U64(v) }

func TestOpenRefuses(t *testing.T) {
	fsys := newFS(t, nil)
	d := makeData(3, 5)
	info := d.write(t, fsys, 7)
	file := readFile(t, fsys, FileName(7))
	l, err := layoutOf(5, 3)
	if err != nil {
		t.Fatal(err)
	}
	otherDB := testDB
	otherDB[15]++
	if _, err := Open(fsys, otherDB, info); !errors.Is(err, fileformat.ErrMismatch) {
		t.Errorf("other database: %v", err)
	}
	d.write(t, fsys, 8)
	for name, change := range map[string]func(*Info){
		"id":         func(i *Info) { i.ID = 8 },
		"collection": func(i *Info) { i.Collection++ },
		"checksum":   func(i *Info) { i.CRC++ },
		"min doc":    func(i *Info) { i.MinDoc++ },
		"max doc":    func(i *Info) { i.MaxDoc-- },
		"max norm":   func(i *Info) { i.MaxNorm = 1 },
		"size":       func(i *Info) { i.Size++ },
		"rows":       func(i *Info) { i.Rows-- },
		"dim":        func(i *Info) { i.Dim = 1 },
	} {
		i := info
		change(&i)
		_, err := Open(fsys, testDB, i)
		if c := wantCorrupt(t, err, i.ID); !errors.Is(c, fileformat.ErrMismatch) {
			t.Errorf("manifest with another %s: %v", name, err)
		}
	}
	tooMany := int64(MaxRows) + 1 // negative where an int has 32 bits, and just as wrong
	for name, change := range map[string]func(*Info){
		"negative dim": func(i *Info) { i.Dim = -1 },
		"huge dim":     func(i *Info) { i.Dim = MaxDim + 1 },
		"no rows":      func(i *Info) { i.Rows = 0 },
		"huge rows":    func(i *Info) { i.Rows = int(tooMany) },
	} {
		i := info
		change(&i)
		if _, err := Open(fsys, testDB, i); !errors.Is(err, fileformat.ErrFormat) {
			t.Errorf("manifest with %s: %v", name, err)
		}
	}
	missing := info
	missing.ID = 9
	_, err = Open(fsys, testDB, missing)
	if wantCorrupt(t, err, 9); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}

	// Files with right checksums that no Writer makes.
	for name, c := range map[string]struct {
		change func(b []byte)
		err    error
		offset int64
	}{
		"version":      {func(b []byte) { putU32(b[8:], 2) }, fileformat.ErrVersion, 8},
		"magic":        {func(b []byte) { b[0]++ }, fileformat.ErrFormat, 0},
		"order":        {func(b []byte) { putU64(b[l.doc(3):], d.docs[2]) }, fileformat.ErrFormat, l.doc(3)},
		"min doc":      {func(b []byte) { putU64(b[l.docs:], 1) }, fileformat.ErrFormat, l.docs},
		"max doc":      {func(b []byte) { putU64(b[l.doc(4):], 1e6) }, fileformat.ErrFormat, l.docs},
		"NaN":          {func(b []byte) { putU32(b[l.inv(1):], 0x7fc00000) }, fileformat.ErrFormat, l.inv(1)},
		"negative inv": {func(b []byte) { putU32(b[l.inv(4):], 0xbf800000) }, fileformat.ErrFormat, l.inv(4)},
		"size":         {func(b []byte) { b[40]++ }, fileformat.ErrFormat, 0},
		"largest norm": {func(b []byte) { putU32(b[72:], 0x7fc00000) }, fileformat.ErrFormat, 0},
	} {
		b := slices.Clone(file)
		c.change(b)
		reseal(b)
		writeFile(t, fsys, FileName(7), b)
		i := info
		i.CRC = u32(b[fileformat.HeaderCRC:])
		_, err := Open(fsys, testDB, i)
		if got := wantCorrupt(t, err, 7); !errors.Is(got, c.err) || got.Offset != c.offset {
			t.Errorf("%s: %v, want %v at %d", name, err, c.err, c.offset)
		}
	}
	// Document 0 does not exist.
	b := slices.Clone(file)
	putU64(b[l.docs:], 0)
	putU64(b[56:], 0)
	reseal(b)
	writeFile(t, fsys, FileName(7), b)
	i := info
	i.MinDoc, i.CRC = 0, u32(b[fileformat.HeaderCRC:])
	if _, err := Open(fsys, testDB, i); !errors.Is(err, fileformat.ErrFormat) {
		t.Errorf("document 0: %v", err)
	}
}

// Headers that claim more than any file can hold must not cost memory or time.
func TestHugeClaims(t *testing.T) {
	fsys := newFS(t, nil)
	info := makeData(3, 5).write(t, fsys, 7)
	file := readFile(t, fsys, FileName(7))
	for _, c := range [][2]uint32{{MaxDim, MaxRows}, {0, MaxRows}, {math.MaxUint32, math.MaxUint32}, {3, 1 << 31}} {
		b := slices.Clone(file)
		putU32(b[48:], c[0])
		putU32(b[52:], c[1])
		if l, err := layoutOf(int(c[1]), int(c[0])); err == nil {
			putU64(b[40:], uint64(l.size))
		}
		putU32(b[fileformat.HeaderCRC:], codec.CRC(b[:fileformat.HeaderCRC]))
		writeFile(t, fsys, FileName(7), b)
		if _, err := Open(fsys, testDB, info); err == nil {
			t.Errorf("dim %d, rows %d: opened", c[0], c[1])
		}
		_, head, err := ReadHeader(fsys, FileName(7))
		if err != nil {
			continue // beyond the limits
		}
		if _, err := Open(fsys, testDB, head); !errors.Is(err, fileformat.ErrDamaged) {
			t.Errorf("dim %d, rows %d: %v", c[0], c[1], err)
		}
		got, err := Salvage(t.Context(), fsys, FileName(7), Info{}, nil)
		if err != nil || got.Intact != 0 || got.Lost != int(c[1]) {
			t.Errorf("dim %d, rows %d: salvaged %+v, %v", c[0], c[1], got, err)
		}
	}
}

func TestConcurrentRows(t *testing.T) {
	fsys := newFS(t, nil)
	d := makeData(64, 5000)
	s := open(t, fsys, d.write(t, fsys, 1))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			err := s.Guard(func() error {
				for i := range s.Len() {
					row := (i*37 + g*611) % s.Len()
					got, err := s.Rows(row, row+1)
					if err != nil {
						return err
					}
					if !same(got, d.row(row)) {
						return fmt.Errorf("row %d differs", row)
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestRowsOutOfRange(t *testing.T) {
	fsys := newFS(t, nil)
	s := open(t, fsys, makeData(3, 5).write(t, fsys, 1))
	for _, c := range [][2]int{{0, 6}, {-1, 2}, {3, 2}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Rows(%d, %d) does not panic", c[0], c[1])
				}
			}()
			_, _ = s.Rows(c[0], c[1])
		}()
	}
}

// A file that another program cuts while it is mapped is an error, not the end of the process.
func TestTruncatedWhileMapped(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a file that is mapped cannot be cut")
	}
	for _, touched := range []bool{false, true} {
		fsys := newFS(t, nil)
		d := makeData(768, 100)
		s := open(t, fsys, d.write(t, fsys, 1))
		if touched {
			if _, err := s.Rows(0, 100); err != nil {
				t.Fatal(err)
			}
		}
		const cut = 2 * headerSize
		if err := os.Truncate(filepath.Join(fsys.Dir(), s.Name()), cut); err != nil {
			t.Fatal(err)
		}
		var sum float32
		reads := map[string]func() error{
			"documents": func() error { s.Find(d.docs[50]); return nil },
			"norms":     func() error { sum += s.InvNorms()[99]; return nil },
			"vectors": func() error {
				vecs, err := s.Rows(0, 100)
				for _, v := range vecs {
					sum += v
				}
				return err
			},
		}
		for name, read := range reads {
			if c := wantCorrupt(t, s.Guard(read), 1); c.Offset < cut || c.Offset >= s.Info().Size {
				t.Errorf("%s: offset %d", name, c.Offset)
			} else if _, ok := errors.AsType[*vfs.FaultError](c); !ok {
				t.Errorf("%s: %v", name, c)
			}
		}
		wantCorrupt(t, s.Verify(t.Context()), 1)
		wantCorrupt(t, s.VerifyRows(t.Context()), 1)
	}
}

func TestFaultElsewhere(t *testing.T) {
	fsys := newFS(t, nil)
	s := open(t, fsys, makeData(3, 5).write(t, fsys, 1))
	other := &vfs.FaultError{Name: "meta.bolt", Addr: 8}
	if err := s.Fault(other); err != error(other) {
		t.Errorf("a fault elsewhere became %v", err)
	}
	if err := s.Fault(nil); err != nil {
		t.Errorf("no fault became %v", err)
	}
}

// With every operation of Open failing in turn, the error is passed on.
func TestOpenFaults(t *testing.T) {
	errDisk := errors.New("disk is on fire")
	ops, failAt := 0, 0
	fsys := newFS(t, func(vfs.Op) error {
		if ops++; ops == failAt {
			return errDisk
		}
		return nil
	})
	info := makeData(3, 5).write(t, fsys, 1)
	for failAt = 1; ; failAt++ {
		ops = 0
		s, err := Open(fsys, testDB, info)
		if err == nil {
			if failAt != ops+1 {
				t.Errorf("opened although operation %d of %d failed", failAt, ops)
			}
			s.Close()
			return
		}
		if !errors.Is(err, errDisk) || !strings.Contains(err.Error(), FileName(1)) {
			t.Errorf("operation %d: %v", failAt, err)
		}
		if _, ok := errors.AsType[*fileformat.CorruptError](err); ok {
			t.Errorf("operation %d: a failing operation is taken for damage: %v", failAt, err)
		}
	}
}

func TestMaxNorm(t *testing.T) {
	for _, c := range []struct {
		invs []float32
		want float32
	}{
		{nil, 0},
		{[]float32{0, 0}, 0},
		{[]float32{math.SmallestNonzeroFloat32, 1}, float32(math.Inf(1))},
	} {
		if got := maxNorm(c.invs); got != c.want {
			t.Errorf("maxNorm(%v) = %v, want %v", c.invs, got, c.want)
		}
	}
	inf := InvNorm([]float32{math.SmallestNonzeroFloat32})
	if n := maxNorm([]float32{inf}); !math.IsInf(float64(inf), 1) || n < math.SmallestNonzeroFloat32 || n > 3e-39 {
		t.Errorf("inverse norm %v, bound %v", inf, n)
	}
	rapid.Check(t, func(t *rapid.T) {
		vec := rapid.SliceOfN(rapid.Float32(), 1, 9).Draw(t, "vec")
		var square float64
		for _, v := range vec {
			square += float64(v) * float64(v)
		}
		norm := math.Sqrt(square)
		bound := float64(maxNorm([]float32{InvNorm(vec)}))
		if bound < norm {
			t.Fatalf("bound %v, norm %v", bound, norm)
		}
		if norm > 1e-37 && norm < 1e37 && bound > norm*(1+1e-6) {
			t.Fatalf("bound %v for norm %v", bound, norm)
		}
	})
}
