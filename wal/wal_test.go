package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/internal/vfs"
)

var testDB = [16]byte([]byte("0123456789abcdef"))

// options returns options for a log of small files in dir.
func options(t testing.TB, dir string, hook vfs.Hook) Options {
	t.Helper()
	fsys, err := vfs.Open(dir, hook)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fsys.Close() })
	return Options{FS: fsys, DB: testDB, FileSize: 16 << 10}
}

// memDir returns a temporary directory, in memory if possible: syncs are free there, and the tests
// that use it simulate crashes themselves.
func memDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "wal")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t testing.TB, o Options, next, durable uint64) *Log {
	t.Helper()
	l, err := Create(o, next, durable)
	ok(t, err)
	return l
}

// payload returns the n bytes of record lsn in tests.
func payload(lsn uint64, n int) []byte {
	b := bytes.Repeat([]byte{byte(lsn), 0xee, byte(lsn >> 8)}, n/3+1)
	return b[:n]
}

// add appends records of the given sizes as one group, each in two parts, and returns the last LSN.
func add(t testing.TB, l *Log, next uint64, sizes ...int) uint64 {
	t.Helper()
	last, err := l.Append(group(next, sizes...))
	ok(t, err)
	if want := next + uint64(len(sizes)) - 1; last != want {
		t.Fatalf("last LSN %d, want %d", last, want)
	}
	return last
}

func group(next uint64, sizes ...int) []Record {
	var rs []Record
	for i, n := range sizes {
		p := payload(next+uint64(i), n)
		rs = append(rs, Record{Parts: [][]byte{p[:n/3], nil, p[n/3:]}})
	}
	return rs
}

// replay returns the sizes of the records above after, whose bytes it checks.
func replay(t testing.TB, o Options, after uint64) (sizes []int, tail Tail, err error) {
	t.Helper()
	next := after
	tail, err = Replay(o, after, func(lsn uint64, b []byte) error {
		if next++; lsn != next {
			t.Errorf("record %d after %d", lsn, next-1)
		}
		if !bytes.Equal(b, payload(lsn, len(b))) {
			t.Errorf("record %d has other bytes", lsn)
		}
		sizes = append(sizes, len(b))
		return nil
	})
	if tail.Last != next {
		t.Errorf("tail says %d, replayed up to %d", tail.Last, next)
	}
	return sizes, tail, err
}

func names(t testing.TB, o Options) []string {
	t.Helper()
	names, err := o.FS.ReadDir("wal")
	if !errors.Is(err, fs.ErrNotExist) {
		ok(t, err)
	}
	return names
}

func TestEmpty(t *testing.T) {
	o := options(t, t.TempDir(), nil)
	sizes, tail, err := replay(t, o, 7)
	if err != nil || sizes != nil || tail != (Tail{Last: 7}) {
		t.Errorf("%v %+v %v", sizes, tail, err)
	}
	l := create(t, o, 8, 7)
	ok(t, l.Sync())
	ok(t, l.Rotate())
	ok(t, l.Release(100))
	if last, err := l.Append(nil); last != 7 || err != nil {
		t.Errorf("empty append: %d %v", last, err)
	}
	ok(t, l.Close())
	ok(t, l.Close())
	if _, err := l.Append(group(8, 1)); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	for _, err := range []error{l.Sync(), l.Rotate(), l.Release(1)} {
		if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
	if _, err := o.FS.ReadDir("wal"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an unused log left something: %v", err)
	}
	o.ReadOnly = true
	if _, err := Create(o, 1, 0); !errors.Is(err, ErrReadOnly) {
		t.Error(err)
	}
	o.ReadOnly = false
	for _, c := range [][2]uint64{{0, 0}, {5, 5}, {5, 6}} {
		if _, err := Create(o, c[0], c[1]); err == nil {
			t.Errorf("created with next %d, durable %d", c[0], c[1])
		}
	}
}

func TestAppendReplay(t *testing.T) {
	o := options(t, t.TempDir(), nil)
	l := create(t, o, 1, 0)
	sizes := []int{0, 1, 471, 472, 473, 100, 8, 3000}
	add(t, l, 1, sizes[:1]...)
	add(t, l, 2, sizes[1:5]...)
	ok(t, l.Sync())
	add(t, l, 6, sizes[5:]...)
	ok(t, l.Close())
	for after := range uint64(len(sizes)) {
		got, tail, err := replay(t, o, after)
		if err != nil || !slices.Equal(got, sizes[after:]) || tail != (Tail{Last: 8, Files: 1}) {
			t.Errorf("after %d: %v %+v %v", after, got, tail, err)
		}
	}
	if got, tail, err := replay(t, o, 50); got != nil || err != nil || tail.Last != 50 {
		t.Errorf("%v %+v %v", got, tail, err)
	}

	// The next log begins a new file.
	l = create(t, o, 9, 8)
	add(t, l, 9, 5)
	want := []File{{"wal/00000001.wal", 16 << 10, 1, 8}, {"wal/00000002.wal", 16 << 10, 9, 9}}
	if diff := cmp.Diff(want, l.Files()); diff != "" {
		t.Error(diff)
	}
	if l.Size() != 32<<10 {
		t.Errorf("size %d", l.Size())
	}
	ok(t, l.Close())
	if got, tail, err := replay(t, o, 7); err != nil || !slices.Equal(got, []int{3000, 5}) || tail.Files != 2 {
		t.Errorf("%v %+v %v", got, tail, err)
	}

	stop := errors.New("stop")
	tail, err := Replay(o, 0, func(lsn uint64, _ []byte) error {
		if lsn == 3 {
			return stop
		}
		return nil
	})
	if err != stop || tail.Last != 2 {
		t.Errorf("%v, last %d", err, tail.Last)
	}
}

// TestFull fills files: groups never span two files, and a group above the file size gets its own
// file.
func TestFull(t *testing.T) {
	o := options(t, t.TempDir(), nil)
	l := create(t, o, 1, 0)
	sizes := []int{12<<10 - frameSize, 1, 5 << 20, 3 << 20, 100, 8<<10 - 200, 2000}
	for i, n := range sizes {
		add(t, l, uint64(i+1), n)
	}
	want := []File{
		{"wal/00000001.wal", 16 << 10, 1, 1}, // filled to the last byte
		{"wal/00000002.wal", 16 << 10, 2, 2},
		{"wal/00000003.wal", 4096 + 5<<20 + 4096, 3, 3},
		{"wal/00000004.wal", 4096 + 3<<20 + 4096, 4, 4},
		{"wal/00000005.wal", 16 << 10, 5, 6},
		{"wal/00000006.wal", 16 << 10, 7, 7},
	}
	if diff := cmp.Diff(want, l.Files()); diff != "" {
		t.Error(diff)
	}
	ok(t, l.Close())
	for after := range uint64(len(sizes)) {
		if got, _, err := replay(t, o, after); err != nil || !slices.Equal(got, sizes[after:]) {
			t.Errorf("after %d: %v %v", after, got, err)
		}
	}

	// One file becomes the spare, which the next log finds and uses.
	l = create(t, o, 8, 7)
	ok(t, l.Release(6))
	if diff := cmp.Diff([]string{"00000006.wal", "spare"}, names(t, o)); diff != "" {
		t.Error(diff)
	}
	ok(t, l.Close())
	l = create(t, o, 8, 7)
	if l.Size() != 32<<10 {
		t.Errorf("size with spare %d", l.Size())
	}
	add(t, l, 8, 700)
	if diff := cmp.Diff([]string{"00000006.wal", "00000007.wal"}, names(t, o)); diff != "" {
		t.Error(diff)
	}
	ok(t, l.Release(8)) // the current file stays
	ok(t, l.Close())
	if got, tail, err := replay(t, o, 7); err != nil || !slices.Equal(got, []int{700}) || tail.Torn {
		t.Errorf("recycled: %v %+v %v", got, tail, err)
	}
}

func TestSpareOfOtherSize(t *testing.T) {
	o := options(t, t.TempDir(), nil)
	l := create(t, o, 1, 0)
	add(t, l, 1, 10)
	ok(t, l.Rotate())
	add(t, l, 2, 10)
	ok(t, l.Rotate())
	ok(t, l.Release(1))
	ok(t, l.Close())
	o.FileSize = 32 << 10
	l = create(t, o, 3, 2)
	add(t, l, 3, 20<<10)
	if diff := cmp.Diff([]string{"00000002.wal", "00000003.wal"}, names(t, o)); diff != "" {
		t.Error(diff)
	}
	ok(t, l.Rotate())
	ok(t, l.Release(3))
	if n, err := o.FS.Size("wal/spare"); n != 32<<10 || err != nil || l.Size() != n {
		t.Errorf("spare of %d bytes, %v", n, err)
	}
	ok(t, l.Close())
	if got := names(t, o); len(got) != 0 {
		t.Errorf("left by a log that was released: %v", got)
	}
}

// A log removes the spares that it cannot use, and no file of another name: nothing else would, and
// Size does not count them.
func TestUselessSpares(t *testing.T) {
	o := options(t, t.TempDir(), nil)
	ok(t, o.FS.Mkdir("wal"))
	put := func(name string, size int64) {
		f, err := o.FS.Create("wal/" + name)
		ok(t, err)
		ok(t, f.Truncate(size))
		ok(t, f.Close())
	}
	others := []string{"Spare", "spare-2", "spare01", "spares", "spare4.txt"}
	for _, name := range others {
		put(name, o.fileSize())
	}
	put("spare", o.fileSize())
	put("spare1", o.fileSize()/2) // of another size
	put("spare2", o.fileSize())
	put("spare17", 10)
	ok(t, o.FS.Mkdir("wal/spare3"))
	l := create(t, o, 1, 0)
	want := append(others, "spare")
	slices.Sort(want)
	if diff := cmp.Diff(want, names(t, o)); diff != "" {
		t.Error(diff)
	}
	if got := l.Size(); got != o.fileSize() {
		t.Errorf("size %d, want one spare of %d", got, o.fileSize())
	}
	ok(t, l.Close())
	slices.Sort(others)
	if diff := cmp.Diff(others, names(t, o)); diff != "" {
		t.Errorf("after Close: %s", diff)
	}
}

func TestSpares(t *testing.T) {
	o := options(t, t.TempDir(), nil)
	o.Spares = 2
	l := create(t, o, 1, 0)
	for i := range 4 {
		add(t, l, uint64(i+1), 10)
		ok(t, l.Rotate())
	}
	ok(t, l.Release(3))
	if diff := cmp.Diff([]string{"00000004.wal", "spare", "spare1"}, names(t, o)); diff != "" {
		t.Error(diff)
	}
	ok(t, l.Close())
	l = create(t, o, 5, 4)
	for i := range 3 {
		add(t, l, uint64(i+5), 10)
		ok(t, l.Rotate())
	}
	if diff := cmp.Diff([]string{"00000004.wal", "00000005.wal", "00000006.wal", "00000007.wal"}, names(t, o)); diff != "" {
		t.Error(diff)
	}
	ok(t, l.Close())
	if _, tail, err := replay(t, o, 3); err != nil || tail.Last != 7 {
		t.Errorf("%+v %v", tail, err)
	}
}

func TestTooLarge(t *testing.T) {
	o := options(t, t.TempDir(), nil)
	l := create(t, o, 1, 0)
	mb := make([]byte, 1<<20)
	big := Record{Parts: slices.Repeat([][]byte{mb}, MaxRecord>>20)}
	big.Parts = append(big.Parts, mb[:1])
	if _, err := l.Append([]Record{{}, big}); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	big.Parts = big.Parts[:len(big.Parts)-1]
	if _, err := l.Append([]Record{big, big, big, big}); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if len(names(t, o)) > 0 {
		t.Error("something was written")
	}
	add(t, l, 1, 5)
	ok(t, l.Close())
}

// TestForeign: unknown names are ignored (a stray temporary file must not prevent opening).
func TestForeign(t *testing.T) {
	dir := t.TempDir()
	o := options(t, dir, nil)
	l := create(t, o, 1, 0)
	add(t, l, 1, 5)
	ok(t, l.Close())
	for _, name := range []string{"tmp123", "1.wal", "0000000A.wal", "00000002.wal.bak", ".wal", "new", "spare", "000000001.wal", "+0000003.wal"} {
		ok(t, os.WriteFile(filepath.Join(dir, "wal", name), []byte("x"), 0o600))
	}
	if got, tail, err := replay(t, o, 0); err != nil || len(got) != 1 || tail.Files != 1 {
		t.Errorf("%v %+v %v", got, tail, err)
	}
	l = create(t, o, 2, 1)
	add(t, l, 2, 5)
	ok(t, l.Close())
	if got, _, err := replay(t, o, 0); err != nil || len(got) != 2 {
		t.Errorf("%v %v", got, err)
	}
	// Names of more than 8 digits sort last.
	for _, name := range []string{"00000003.wal", "100000000.wal"} {
		ok(t, os.WriteFile(filepath.Join(dir, "wal", name), nil, 0o600))
	}
	files, _, err := list(&o)
	ok(t, err)
	if f := files[len(files)-1]; f.name != "wal/100000000.wal" {
		t.Errorf("last is %s", f.name)
	}
}

func TestNoSpace(t *testing.T) {
	var full bool
	o := options(t, t.TempDir(), func(op vfs.Op) error {
		if full && (op.Kind == vfs.OpWrite && op.Name == newName) {
			return &vfs.Short{N: 1000, Err: syscall.ENOSPC}
		}
		return nil
	})
	l := create(t, o, 1, 0)
	add(t, l, 1, 11<<10)
	full = true
	for range 2 {
		if _, err := l.Append(group(2, 2000)); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("full disk: %v", err)
		}
		if diff := cmp.Diff([]string{"00000001.wal"}, names(t, o)); diff != "" {
			t.Error(diff)
		}
	}
	ok(t, l.Sync())
	ok(t, l.Release(1)) // now there is a spare, so that writing continues on a full disk
	add(t, l, 2, 2000)
	ok(t, l.Sync())
	full = false
	add(t, l, 3, 11<<10)
	ok(t, l.Close())
	if got, _, err := replay(t, o, 1); err != nil || !slices.Equal(got, []int{2000, 11 << 10}) {
		t.Errorf("%v %v", got, err)
	}
}

func TestConcurrent(t *testing.T) {
	o := options(t, t.TempDir(), nil)
	l := create(t, o, 1, 0)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				if _, err := l.Append([]Record{{Parts: [][]byte{make([]byte, 700)}}}); err != nil {
					t.Error(err)
				}
				if err := l.Sync(); err != nil {
					t.Error(err)
				}
				l.Files()
			}
		})
	}
	wg.Wait()
	ok(t, l.Close())
	n := 0
	_, err := Replay(o, 0, func(uint64, []byte) error { n++; return nil })
	if err != nil || n != 80 {
		t.Errorf("%d records, %v", n, err)
	}
}

// TestTrace fixes the order of file operations: the order in which changes become durable.
func TestTrace(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the operations are those of Linux: elsewhere the log writes zeros instead of reserving space")
	}
	var trace strings.Builder
	o := options(t, t.TempDir(), func(op vfs.Op) error {
		fmt.Fprintf(&trace, "  %v %s", op.Kind, op.Name)
		switch op.Kind {
		case vfs.OpRename:
			fmt.Fprintf(&trace, " %s", op.To)
		case vfs.OpRead, vfs.OpWrite:
			fmt.Fprintf(&trace, " %d+%d", op.Off, op.Len)
		}
		trace.WriteByte('\n')
		return nil
	})
	o.FileSize = 2 << 20
	step := func(name string, err error) {
		t.Helper()
		ok(t, err)
		fmt.Fprintf(&trace, "%s\n", name)
	}
	l, err := Create(o, 1, 0)
	step("^ create", err)
	_, err = l.Append(group(1, 100, 500))
	step("^ append 1, 2", err)
	step("^ sync", l.Sync())
	step("^ sync again", l.Sync())
	_, err = l.Append(group(3, 1500<<10))
	step("^ append 3, of 1500 KiB", err)
	step("^ rotate", l.Rotate())
	_, err = l.Append(group(4, 10))
	step("^ append 4", err)
	step("^ release 3", l.Release(3))
	step("^ rotate", l.Rotate())
	_, err = l.Append(group(5, 10))
	step("^ append 5", err)
	step("^ release 4", l.Release(4))
	step("^ close", l.Close())
	_, err = Replay(o, 4, func(uint64, []byte) error { return nil })
	step("^ replay after 4", err)
	l, err = Create(o, 6, 4)
	step("^ create, 5 not known durable", err)
	_, err = l.Append(group(6, 10))
	step("^ append 6", err)
	step("^ release 6", l.Release(6))
	step("^ close", l.Close())
	golden(t, "testdata/trace.txt", trace.String())
}

// golden compares got with a file; VECBOLT_UPDATE=1 rewrites it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if os.Getenv("VECBOLT_UPDATE") != "" {
		ok(t, os.MkdirAll(filepath.Dir(name), 0o755))
		ok(t, os.WriteFile(name, []byte(got), 0o644))
	}
	want, err := os.ReadFile(name)
	ok(t, err)
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (VECBOLT_UPDATE=1 rewrites it):\n%s", name, diff)
	}
}

// BenchmarkAppendSync releases often enough that files are recycled, except in "new files".
func BenchmarkAppendSync(b *testing.B) {
	for _, c := range []struct {
		name    string
		size    int
		release uint64
	}{
		{"200 B", 200, 64},
		{"4 KiB", 4 << 10, 64},
		{"3 MiB", 3 << 20, 5},
		{"3 MiB, new files", 3 << 20, 50},
	} {
		b.Run(c.name, func(b *testing.B) {
			o := options(b, b.TempDir(), nil)
			o.FileSize = 0
			l := create(b, o, 1, 0)
			part := bytes.Repeat([]byte{1, 2, 3, 4}, c.size/4)
			rs := []Record{{Parts: [][]byte{part[:16], part[16:]}}}
			b.SetBytes(int64(c.size))
			b.ReportAllocs()
			for b.Loop() {
				last, err := l.Append(rs)
				ok(b, err)
				ok(b, l.Sync())
				if last%c.release == 0 {
					ok(b, l.Release(last-1))
				}
			}
			ok(b, l.Close())
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{200, 3 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			o := options(b, b.TempDir(), nil)
			o.FileSize = 64 << 20
			l := create(b, o, 1, 0)
			rs := []Record{{Parts: [][]byte{bytes.Repeat([]byte{1, 2, 3, 4}, n/4)}}}
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				last, err := l.Append(rs)
				ok(b, err)
				if n > 1000 && last%20 == 0 {
					ok(b, l.Release(last-1))
				}
			}
			ok(b, l.Close())
		})
	}
}

func BenchmarkReplay(b *testing.B) {
	o := options(b, b.TempDir(), nil)
	o.FileSize = 0
	l := create(b, o, 1, 0)
	for range 1000 {
		_, err := l.Append([]Record{{Parts: [][]byte{make([]byte, 15<<10)}}})
		ok(b, err)
	}
	ok(b, l.Close())
	b.SetBytes(16 << 20)
	for b.Loop() {
		_, err := Replay(o, 0, func(uint64, []byte) error { return nil })
		ok(b, err)
	}
}

// TestCopy copies parts of a log of several files to consecutive files of another log.
func TestCopy(t *testing.T) {
	from, to := options(t, memDir(t), nil), options(t, memDir(t), nil)
	l := create(t, from, 1, 0)
	next := uint64(1)
	for _, n := range []int{100, 9000, 0, 5000, 12000, 70000, 1, 300} {
		next = add(t, l, next, n, n/2) + 1
	}
	last := next - 1
	for i, end := range []uint64{3, 4, 11, last} {
		after := []uint64{0, 3, 4, 11}[i]
		name, err := Copy(from, after, end, to, uint64(i+1))
		ok(t, err)
		if name != fileName(uint64(i+1)) {
			t.Errorf("copied to %s", name)
		}
	}
	want, _, err := replay(t, from, 0)
	ok(t, err)
	got, tail, err := replay(t, to, 0)
	ok(t, err)
	if diff := cmp.Diff(want, got); diff != "" || tail.Last != last || tail.Torn {
		t.Errorf("copies end with %+v: %s", tail, diff)
	}
	for _, bad := range [][2]uint64{{last, last + 1}, {3, 3}, {3, 2}} {
		if _, err := Copy(from, bad[0], bad[1], to, 9); err == nil {
			t.Errorf("copied %d to %d", bad[0]+1, bad[1])
		}
	}
	ok(t, l.Close())
	if got, _, err := replay(t, to, 0); err != nil || len(got) != len(want) {
		t.Errorf("%d records, %v", len(got), err)
	}
}
