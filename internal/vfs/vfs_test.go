package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// open returns an FS on a fresh directory, closed at the end of the test.
func open(t *testing.T, hook Hook) *FS {
	t.Helper()
	f, err := Open(t.TempDir(), hook)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRemoved: a file that has another name, or was renamed, has not been removed, nor one in
// memory.
func TestRemoved(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows keeps the name of a file that is open")
	}
	f := open(t, nil)
	a := must[*File](t)(f.Create("a"))
	defer a.Close()
	removed := func(step string, want bool) {
		t.Helper()
		if got := a.Removed(); got != want {
			t.Errorf("%s: %v", step, got)
		}
	}
	removed("created", false)
	ok(t, os.Link(filepath.Join(f.Path(), "a"), filepath.Join(f.Path(), "b")))
	ok(t, f.Remove("a"))
	removed("under another name", false)
	ok(t, f.Remove("b"))
	removed("removed", true)
	b := must[*File](t)(f.Create("a"))
	defer b.Close()
	removed("with another file under its name", true)
	m := NewMemory(nil)
	defer m.Close()
	c := must[*File](t)(m.Create("a"))
	defer c.Close()
	if c.Removed() {
		t.Error("in memory")
	}
}

func TestFiles(t *testing.T) {
	f := open(t, nil)
	ok(t, f.Mkdir("seg"))
	ok(t, f.Mkdir("seg"))
	a := must[*File](t)(f.Create("seg/a"))
	defer a.Close()
	if _, err := f.Create("seg/a"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("create again: %v", err)
	}
	must[int](t)(a.WriteAt([]byte("hello"), 3))
	ok(t, a.Sync())
	ok(t, a.Truncate(10))
	_, err := a.Preallocate(1 << 16)
	ok(t, err)
	a.DropCache()
	if n := must[int64](t)(a.Size()); n != 10 {
		t.Errorf("size %d", n)
	}
	if n := must[int64](t)(f.Size("seg/a")); n != 10 {
		t.Errorf("size by name %d", n)
	}
	b := make([]byte, 12)
	if n, err := a.ReadAt(b, 0); n != 10 || err != io.EOF || string(b[:n]) != "\x00\x00\x00hello\x00\x00" {
		t.Errorf("read %d %v %q", n, err, b)
	}
	ok(t, f.Rename("seg/a", "seg/b"))
	ok(t, f.SyncDir("seg"))
	ok(t, f.SyncDir("."))
	if diff := cmp.Diff([]string{"b"}, must[[]string](t)(f.ReadDir("seg"))); diff != "" {
		t.Error(diff)
	}
	if _, err := f.ReadDir("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("readdir: %v", err)
	}
	if _, err := f.ReadFile("seg/b", 9); !errors.Is(err, ErrTooLarge) {
		t.Errorf("limit: %v", err)
	}
	if b := must[[]byte](t)(f.ReadFile("seg/b", 10)); len(b) != 10 {
		t.Errorf("read file %q", b)
	}
	ok(t, a.Close()) // an open file may keep its name on Windows
	ok(t, f.Remove("seg/b"))
	if _, err := f.Open("seg/b"); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "seg/b") {
		t.Errorf("open: %v", err)
	}
	if _, err := f.OpenRW("seg"); err == nil {
		t.Error("opened a directory for writing")
	}
	must[*File](t)(f.Create("file")).Close()
	if err := f.Mkdir("file"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("mkdir over a file: %v", err)
	}
	if _, err := f.ReadDir("file"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("readdir of a file: %v", err) // it is there
	}
	if _, err := ReadDir(filepath.Join(f.Dir(), "file")); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("readdir of the path of a file: %v", err)
	}
	if _, err := Open(filepath.Join(f.Dir(), "file"), nil); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("open in place of a directory: %v", err)
	}
}

func TestModes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes")
	}
	f := open(t, nil)
	ok(t, f.WriteFileAtomic("a", []byte("x")))
	for name, want := range map[string]fs.FileMode{"a": 0o600, "tmp": 0o700 | fs.ModeDir} {
		st := must[fs.FileInfo](t)(os.Stat(filepath.Join(f.Dir(), name)))
		if st.Mode() != want {
			t.Errorf("%s has mode %v", name, st.Mode())
		}
	}
}

func TestEscape(t *testing.T) {
	outside := t.TempDir()
	f := open(t, nil)
	if err := os.Symlink(outside, filepath.Join(f.Dir(), "link")); err != nil {
		t.Skip(err)
	}
	for _, name := range []string{"../x", "link/x", "/etc/passwd", "a/../../x"} {
		if _, err := f.Create(name); err == nil {
			t.Errorf("created %s", name)
		}
		if _, err := f.Open(name); err == nil {
			t.Errorf("opened %s", name)
		}
		if err := f.Rename(name, "y"); err == nil {
			t.Errorf("renamed %s", name)
		}
	}
}

func TestWriteFileAtomic(t *testing.T) {
	var trace []string
	fail := OpLock
	f := open(t, func(op Op) error {
		trace = append(trace, strings.TrimSpace(fmt.Sprint(op.Kind, " ", op.Name, " ", op.To)))
		if op.Kind == fail {
			return syscall.EIO
		}
		return nil
	})
	ok(t, f.Mkdir("d"))
	trace = nil
	ok(t, f.WriteFileAtomic("d/a", []byte("one")))
	want := []string{"mkdir tmp", "create tmp/a.1", "write tmp/a.1", "sync tmp/a.1", "rename tmp/a.1 d/a", "syncdir d"}
	if diff := cmp.Diff(want, trace); diff != "" {
		t.Error(diff)
	}
	for _, fail = range []Kind{OpMkdir, OpCreate, OpWrite, OpSync, OpRename} {
		if err := f.WriteFileAtomic("d/a", []byte("two")); !errors.Is(err, syscall.EIO) {
			t.Errorf("%v: %v", fail, err)
		}
		if b := must[[]byte](t)(os.ReadFile(filepath.Join(f.Dir(), "d/a"))); string(b) != "one" {
			t.Errorf("%v: content %q", fail, b)
		}
		if names := must[[]string](t)(f.ReadDir("tmp")); len(names) > 0 {
			t.Errorf("%v: left %v", fail, names)
		}
	}
	fail = OpLock
	must[*File](t)(f.Create("tmp/a.7")).Close() // a leftover does not matter
	for range 3 {
		ok(t, f.WriteFileAtomic("d/a", []byte("three")))
	}
	if b := must[[]byte](t)(f.ReadFile("d/a", 100)); string(b) != "three" {
		t.Errorf("content %q", b)
	}
}

// TestHook makes every operation fail in turn and checks that it was not performed.
func TestHook(t *testing.T) {
	var fail Kind
	var seen Op
	f := open(t, func(op Op) error {
		if op.Kind == fail {
			seen = op
			return syscall.ENOSPC
		}
		return nil
	})
	ok(t, f.Mkdir("d"))
	file := must[*File](t)(f.Create("d/f"))
	defer file.Close()
	ok(t, f.WriteFileAtomic("g", []byte("0123456789")))
	b := make([]byte, 4)
	for _, c := range []struct {
		op   Op
		call func() error
	}{
		{Op{Kind: OpOpen, Name: "g"}, func() error { _, err := f.Open("g"); return err }},
		{Op{Kind: OpOpen, Name: "g"}, func() error { _, err := f.OpenRW("g"); return err }},
		{Op{Kind: OpCreate, Name: "h"}, func() error { _, err := f.Create("h"); return err }},
		{Op{Kind: OpRead, Name: "d/f", Off: 2, Len: 4}, func() error { _, err := file.ReadAt(b, 2); return err }},
		{Op{Kind: OpRead, Name: "g", Len: 10}, func() error { _, err := f.ReadFile("g", 10); return err }},
		{Op{Kind: OpRename, Name: "g", To: "h"}, func() error { return f.Rename("g", "h") }},
		{Op{Kind: OpRemove, Name: "g"}, func() error { return f.Remove("g") }},
		{Op{Kind: OpMkdir, Name: "e"}, func() error { return f.Mkdir("e") }},
		{Op{Kind: OpSyncDir, Name: "d"}, func() error { return f.SyncDir("d") }},
		{Op{Kind: OpReadDir, Name: "d"}, func() error { _, err := f.ReadDir("d"); return err }},
		{Op{Kind: OpStat, Name: "g"}, func() error { _, err := f.Size("g"); return err }},
		{Op{Kind: OpStat, Name: "d/f"}, func() error { _, err := file.Size(); return err }},
		{Op{Kind: OpMap, Name: "d/f", Len: 9}, func() error { _, err := file.Map(9); return err }},
		{Op{Kind: OpPreallocate, Name: "d/f", Len: 9}, func() error { _, err := file.Preallocate(9); return err }},
		{Op{Kind: OpLock, Name: "LOCK"}, func() error { _, err := f.Lock("LOCK", true); return err }},
		{Op{Kind: OpWrite, Name: "d/f", Off: 7, Len: 4}, func() error { _, err := file.WriteAt(b, 7); return err }},
	} {
		fail = c.op.Kind
		if err := c.call(); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), c.op.Name) {
			t.Errorf("%v: %v", c.op.Kind, err)
		}
		if diff := cmp.Diff(c.op, seen); diff != "" {
			t.Errorf("%v: %s", c.op.Kind, diff)
		}
	}
	fail = 0
	if names := must[[]string](t)(f.ReadDir(".")); !cmp.Equal(names, []string{"d", "g", "tmp"}) {
		t.Errorf("directory holds %v", names)
	}
	if s := OpLock.String() + Kind(99).String(); s != "lockop99" {
		t.Error(s)
	}
}

func TestPoison(t *testing.T) {
	var fail error
	var ops int
	f := open(t, func(op Op) error {
		if op.Kind == OpWrite || op.Kind == OpSync || op.Kind == OpTruncate {
			ops++
			return fail
		}
		return nil
	})
	a := must[*File](t)(f.Create("a"))
	defer a.Close()
	must[int](t)(a.WriteAt([]byte("good"), 0))
	fail = &Short{N: 3, Err: syscall.EIO}
	if n, err := a.WriteAt([]byte("abcdef"), 4); n != 3 || !errors.Is(err, syscall.EIO) || errors.Is(err, ErrPoisoned) {
		t.Fatalf("short write: %d %v", n, err)
	}
	fail = nil
	before := ops
	_, err := a.WriteAt([]byte("more"), 7)
	for i, err := range []error{err, a.Sync(), a.Truncate(1)} {
		if !errors.Is(err, ErrPoisoned) || !errors.Is(err, syscall.EIO) {
			t.Errorf("%d after the failure: %v", i, err)
		}
	}
	if ops != before {
		t.Error("a poisoned file was touched")
	}
	if b := must[[]byte](t)(f.ReadFile("a", 100)); string(b) != "goodabc" {
		t.Errorf("content %q", b)
	}

	b := must[*File](t)(f.Create("b"))
	defer b.Close()
	fail = syscall.ENOSPC
	if err := b.Sync(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("sync: %v", err)
	}
	fail = nil
	if err := b.Sync(); !errors.Is(err, ErrPoisoned) {
		t.Errorf("sync was retried: %v", err)
	}

	// The system's own errors poison too.
	r := must[*File](t)(f.Open("a"))
	defer r.Close()
	if _, err := r.WriteAt([]byte("x"), 0); err == nil || errors.Is(err, ErrPoisoned) {
		t.Errorf("write to a read-only file: %v", err)
	}
	if err := r.Sync(); !errors.Is(err, ErrPoisoned) {
		t.Errorf("sync after it: %v", err)
	}
}

func TestShortRead(t *testing.T) {
	f := open(t, func(op Op) error {
		if op.Kind == OpRead {
			return &Short{N: 2, Err: syscall.EIO}
		}
		return nil
	})
	ok(t, f.WriteFileAtomic("a", []byte("abcd")))
	a := must[*File](t)(f.Open("a"))
	defer a.Close()
	b := make([]byte, 4)
	if n, err := a.ReadAt(b, 1); n != 2 || !errors.Is(err, syscall.EIO) || string(b) != "bc\x00\x00" {
		t.Errorf("%d %v %q", n, err, b)
	}
}

func TestMap(t *testing.T) {
	f := open(t, nil)
	want := bytes.Repeat([]byte("0123456789abcdef"), 1000)
	ok(t, f.WriteFileAtomic("a", want))
	ok(t, f.WriteFileAtomic("empty", nil))
	a := must[*File](t)(f.Open("a"))
	if _, err := a.Map(int64(len(want)) + 1); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("map beyond the end: %v", err)
	}
	if _, err := a.Map(-1); err == nil {
		t.Error("mapped -1 bytes")
	}
	m := must[*Mapping](t)(a.Map(int64(len(want)) - 5))
	ok(t, a.Close())
	for p := range WillNeed + 2 {
		m.Advise(p)
	}
	if !bytes.Equal(m.Bytes(), want[:len(want)-5]) {
		t.Error("mapping differs")
	}
	ok(t, m.Close())
	ok(t, m.Close())
	if m.Bytes() != nil {
		t.Error("bytes after close")
	}
	e := must[*File](t)(f.Open("empty"))
	defer e.Close()
	em := must[*Mapping](t)(e.Map(0))
	if len(em.Bytes()) != 0 {
		t.Error("empty mapping is not empty")
	}
	em.Advise(Random)
	ok(t, em.Close())
}

// TestGuard makes a mapped file shorter under its readers.
func TestGuard(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a mapped file cannot be made shorter")
	}
	f := open(t, nil)
	const size = 1 << 20
	ok(t, f.WriteFileAtomic("a", make([]byte, size)))
	a := must[*File](t)(f.OpenRW("a"))
	defer a.Close()
	m := must[*Mapping](t)(a.Map(size))
	defer m.Close()
	sum := func() error {
		var s byte
		for _, b := range m.Bytes() {
			s += b
		}
		if s != 0 {
			return errors.New("not zero")
		}
		return nil
	}
	ok(t, Guard("a", sum))
	ok(t, a.Truncate(size/2))
	for name, read := range map[string]func() error{
		"loop": sum,
		"copy": func() error { copy(make([]byte, size), m.Bytes()); return nil }, // faults inside assembly
	} {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				err := Guard("seg/a", read)
				var fault *FaultError
				if !errors.As(err, &fault) || fault.Name != "seg/a" || fault.Addr == 0 || !strings.Contains(err.Error(), "seg/a") {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		wg.Wait()
	}
}

func TestGuardPassesOn(t *testing.T) {
	want := errors.New("x")
	if err := Guard("a", func() error { return want }); err != want {
		t.Error(err)
	}
	recovered := func(fn func() error) (r any) {
		defer func() { r = recover() }()
		_ = Guard("a", fn)
		return nil
	}
	if r := recovered(func() error { panic("mine") }); r != "mine" {
		t.Errorf("panic became %v", r)
	}
	var p *[4]int
	if r := recovered(func() error { p[2]++; return nil }); r == nil {
		t.Error("nil dereference was swallowed")
	}
	// Nested: the inner Guard restores the outer one's protection.
	err := Guard("outer", func() error {
		if err := Guard("inner", func() error { return want }); err != want {
			return err
		}
		return fault(t)
	})
	var f *FaultError
	if runtime.GOOS != "windows" && (!errors.As(err, &f) || f.Name != "outer") {
		t.Errorf("nested: %v", err)
	}
}

// fault reads a page that its file has lost.
func fault(t *testing.T) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	fsys := open(t, nil)
	ok(t, fsys.WriteFileAtomic("a", make([]byte, 1<<16)))
	a := must[*File](t)(fsys.OpenRW("a"))
	defer a.Close()
	m := must[*Mapping](t)(a.Map(1 << 16))
	t.Cleanup(func() { m.Close() })
	ok(t, a.Truncate(0))
	if m.Bytes()[1<<15] != 0 {
		return errors.New("read a lost page")
	}
	return nil
}

// TestLockMark: the mark of a lock changes with each exclusive hold, also of those without a token,
// and with nothing else.
func TestLockMark(t *testing.T) {
	f := open(t, nil)
	seen := map[string]bool{}
	look := func(hold *Lock) {
		t.Helper()
		mark := must[string](t)(hold.Mark())
		if now := must[string](t)(f.LockMark("LOCK")); now != mark || seen[mark] {
			t.Errorf("%q, the holder has %q, before: %v", now, mark, seen)
		}
		seen[mark] = true
		ok(t, hold.Close())
		r := must[*Lock](t)(f.Lock("LOCK", false))
		if again := must[string](t)(r.Mark()); again != mark {
			t.Errorf("a reader has %q, not %q", again, mark)
		}
		ok(t, r.Close())
	}
	look(must[*Lock](t)(f.Lock("LOCK", false))) // there is no file
	for i := range 3 {
		look(must[*Lock](t)(f.Lock("LOCK", true)))
		hold := must[*Lock](t)(f.LockAlone("LOCK"))
		ok(t, os.Chtimes(filepath.Join(f.Dir(), "LOCK"), time.Time{}, time.Unix(int64(i), 0)))
		look(hold)
	}
}

func TestLock(t *testing.T) {
	f := open(t, nil)
	r := must[*Lock](t)(f.Lock("LOCK", false)) // absent: nothing to lock
	w := must[*Lock](t)(f.Lock("LOCK", true))
	ok(t, r.Close())
	for _, exclusive := range []bool{true, false} {
		_, err := f.Lock("LOCK", exclusive)
		if want := fmt.Sprintf("by process %d, %s, since 20", os.Getpid(), filepath.Base(os.Args[0])); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), "Z, this one") {
			t.Errorf("exclusive %v: %v", exclusive, err)
		}
	}
	ok(t, w.Close())
	ok(t, w.Close())
	if runtime.GOOS != "windows" {
		ok(t, os.Chmod(filepath.Join(f.Dir(), "LOCK"), 0o400))
	}
	r1 := must[*Lock](t)(f.Lock("LOCK", false))
	r2 := must[*Lock](t)(f.Lock("LOCK", false))
	ok(t, os.Chmod(filepath.Join(f.Dir(), "LOCK"), 0o600))
	for range 2 {
		_, err := f.Lock("LOCK", true)
		if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), "by readers") {
			t.Errorf("writer beside readers: %v", err)
		}
	}
	ok(t, r1.Close())
	ok(t, r2.Close())
	w = must[*Lock](t)(f.Lock("LOCK", true))
	for content, want := range map[string]string{
		"garbage":                "locked",
		"":                       "locked",
		"-1\ta\tb":               "locked",
		"7":                      "locked by process 7", // as earlier releases wrote it
		"7\n":                    "locked by process 7",
		"7\tserver":              "locked by process 7",
		"7\tserver\tyesterday\n": "locked by process 7, server",
		"7\ta\x1b[31mb\t2026-01-02T03:04:05Z\nmore\n":                   "locked by process 7, a[31mb, since 2026-01-02T03:04:05Z",
		"7\t" + strings.Repeat("ü", 100) + "\t2026-01-02T03:04:05Z\n":   "locked by process 7, " + strings.Repeat("ü", 32) + ", since 2026-01-02T03:04:05Z",
		"7\t" + strings.Repeat("x", 1<<16) + "\t2026-01-02T03:04:05Z\n": "locked by process 7",
	} {
		ok(t, os.WriteFile(filepath.Join(f.Dir(), "LOCK"), []byte(content), 0o600))
		if _, err := f.Lock("LOCK", true); !errors.Is(err, ErrLocked) || !strings.HasSuffix(err.Error(), ": "+want) {
			t.Errorf("%.40q: %v, want %s", content, err, want)
		}
	}
	ok(t, w.Close())
	ok(t, must[*Lock](t)(f.Lock("LOCK", true)).Close())
}

func BenchmarkGuard(b *testing.B) {
	for b.Loop() {
		_ = Guard("a", func() error { return nil })
	}
}

func TestNamed(t *testing.T) {
	f := open(t, nil)
	for _, name := range []string{"a-1", "a-2"} {
		if err := f.WriteFileAtomic(name, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	view := f.Named(map[string]string{"a": "a-1", "d/b": "a-2"})
	for name, want := range map[string]string{"a": "a-1", "d/b": "a-2"} {
		if b, err := view.ReadFile(name, 10); err != nil || string(b) != want {
			t.Errorf("%s is %q, %v", name, b, err)
		}
		if n, err := view.Size(name); err != nil || n != 3 {
			t.Errorf("%s has %d bytes, %v", name, n, err)
		}
	}
	for dir, want := range map[string]string{".": "a", "d": "b"} {
		if names, err := view.ReadDir(dir); err != nil || len(names) != 1 || names[0] != want {
			t.Errorf("%s holds %q, %v", dir, names, err)
		}
	}
	for _, err := range []error{
		func() error { _, err := view.Open("a-1"); return err }(),
		func() error { _, err := view.Size("a-1"); return err }(),
		func() error { _, err := view.ReadDir("tmp"); return err }(),
	} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("what the view does not name: %v", err)
		}
	}
}

// TestSyncDirFails: a directory whose sync has failed is not synced again; others are.
func TestSyncDirFails(t *testing.T) {
	broken, syncs := errors.New("broken"), 0
	f, err := Open(t.TempDir(), func(op Op) error {
		if op.Kind != OpSyncDir {
			return nil
		}
		if syncs++; op.Name == "d" {
			return broken
		}
		return nil
	})
	ok(t, err)
	defer f.Close()
	ok(t, f.Mkdir("d"))
	ok(t, f.SyncDir("."))
	ok(t, f.Failed())
	if err := f.SyncDir("d"); !errors.Is(err, broken) || errors.Is(err, ErrPoisoned) {
		t.Error(err)
	}
	for range 2 {
		if err := f.SyncDir("d"); !errors.Is(err, broken) || !errors.Is(err, ErrPoisoned) {
			t.Error(err)
		}
	}
	ok(t, f.SyncDir("."))
	if err := f.Failed(); !errors.Is(err, broken) || syncs != 3 {
		t.Errorf("%v after %d syncs", err, syncs)
	}
}

// A Group returns the failure of any of its goroutines, and the first one wins.
func TestGroup(t *testing.T) {
	f := open(t, nil)
	a := must[*File](t)(f.Create("a"))
	defer a.Close()
	must[int](t)(a.WriteAt(make([]byte, 8192), 0))
	m := must[*Mapping](t)(a.Map(8192))
	defer m.Close()
	want := errors.New("failed")
	sum := 0
	for name, c := range map[string]struct {
		fn   func() error
		fits func(error) bool
	}{
		"nothing": {func() error { return nil }, func(err error) bool { return err == nil }},
		"error":   {func() error { return want }, func(err error) bool { return err == want }},
		"panic": {func() error { panic("oh") }, func(err error) bool {
			p, ok := errors.AsType[*PanicError](err)
			return ok && p.Value == "oh" && bytes.Contains(p.Stack, []byte("TestGroup"))
		}},
		"panic with an error": {func() error { panic(want) }, func(err error) bool { return errors.Is(err, want) }},
		"nil dereference": {func() error { return (*PanicError)(nil).Value.(error) }, func(err error) bool {
			_, ok := errors.AsType[*PanicError](err)
			return ok
		}},
		"exit": {func() error { runtime.Goexit(); return nil }, func(err error) bool { return err == errExited }},
		"fault": {func() error {
			ok(t, a.Truncate(0))
			for _, b := range m.Bytes() {
				sum += int(b)
			}
			return nil
		}, func(err error) bool {
			fault, ok := errors.AsType[*FaultError](err)
			return ok && fault.Name == "the name"
		}},
	} {
		if name == "fault" && runtime.GOOS == "windows" {
			continue // a mapped file cannot be made shorter there
		}
		var g Group
		ended := make(chan struct{})
		g.Go("the name", func() error { close(ended); return nil })
		g.Go("the name", c.fn)
		if err := g.Wait(); !c.fits(err) {
			t.Errorf("%s: %v", name, err)
		}
		<-ended
		if name != "nothing" && name != "exit" {
			if err := Catch("the name", c.fn); !c.fits(err) && name != "fault" {
				t.Errorf("%s, caught: %v", name, err)
			}
		}
	}
	var g Group
	g.Go("a", func() error { return want })
	if err := g.Wait(); err != want {
		t.Error(err)
	}
	g.Go("b", func() error { return io.EOF })
	if err := g.Wait(); err != want {
		t.Errorf("the second error, %v, has taken the place of the first", err)
	}
}

// A large file goes to the disk while it is written: the system is told after each burst, and a
// sync begins anew.
func TestWritesInBursts(t *testing.T) {
	f := must[*File](t)(open(t, nil).Create("a"))
	defer f.Close()
	b := make([]byte, burst/2)
	for i, want := range []int64{burst / 2, 0, burst / 2} {
		must[int](t)(f.WriteAt(b, int64(i*len(b))))
		if got := f.cached.Load(); got != want {
			t.Errorf("after write %d: %d bytes, want %d", i, got, want)
		}
	}
	ok(t, f.Sync())
	if got := f.cached.Load(); got != 0 {
		t.Errorf("after a sync: %d bytes", got)
	}
}

// TestRing: the holder of a lock hears of another process, but not of one that rang for the holder
// before. Neither the map nor a file that was emptied gets in the way.
func TestRing(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("processes do not share here")
	}
	f := open(t, nil)
	name := filepath.Join(f.Dir(), "LOCK")
	other := must[*FS](t)(Open(f.Dir(), nil))
	defer other.Close()
	for range 2 {
		l := must[*Lock](t)(f.Lock("LOCK", true))
		for range 2 {
			if l.Rung() {
				t.Error("rung before anybody rang")
			}
			if h := must[string](t)(other.LockToken("LOCK")); h != l.Token() || h == "" {
				t.Errorf("token %q, want %q", h, l.Token())
			}
		}
		for range 2 {
			ok(t, other.Ring("LOCK"))
			if !l.Rung() {
				t.Error("not rung")
			}
		}
		if token := must[string](t)(other.LockToken("LOCK")); token != l.Token() {
			t.Errorf("token %q after Ring, want %q", token, l.Token())
		}
		ok(t, l.Close())
	}
	l := must[*Lock](t)(f.Lock("LOCK", true))
	defer l.Close()
	ok(t, os.Truncate(name, 0))
	if !l.Rung() {
		t.Error("silent after the file was emptied")
	}
	for _, content := range []string{"", "1", "1\tprogram\t\t\n", "1\tprogram\t\ttoken\nx"} {
		ok(t, os.WriteFile(name, []byte(content), 0o600))
		if err := other.Ring("LOCK"); err == nil {
			t.Errorf("rang in %q", content)
		}
	}
}

// TestInside: a path that leads into a directory through a link lies in it.
func TestInside(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "dir")
	for _, name := range []string{"dir/sub", "beside"} {
		if err := os.MkdirAll(filepath.Join(top, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"to-dir": "dir", "to-sub": "dir/sub", "to-file": "dir/file",
		"dir/out": "beside"} {
		if err := os.Symlink(filepath.Join(top, to), filepath.Join(top, name)); err != nil {
			t.Skip(err)
		}
	}
	for _, tt := range []struct {
		path, dir string
		want      bool
	}{
		{"dir", "dir", true},
		{"dir/file", "dir", true},
		{"dir/sub/new/new", "dir", true},
		{"beside/../dir/new", "dir", true},
		{"to-dir/new", "dir", true},
		{"to-sub", "dir", true},
		{"to-sub/new", "dir", true},
		{"to-file", "dir", true},
		{"dir/new", "to-dir", true},
		{"dir/out/new", "dir", true},
		{"missing/new", "missing", true},
		{".", "dir", false},
		{"beside/new", "dir", false},
		{"dir-2", "dir", false},
		{"missing-2", "missing", false},
	} {
		got, err := Inside(filepath.Join(top, tt.path), filepath.Join(top, tt.dir))
		if err != nil || got != tt.want {
			t.Errorf("Inside(%s, %s): %v, %v", tt.path, tt.dir, got, err)
		}
	}
}

// TestMakeDir: each directory is durable before the next one is made in it.
func TestMakeDir(t *testing.T) {
	var trace []string
	fail := ""
	hook := func(op Op) error {
		step := fmt.Sprint(op.Kind, " ", op.Name)
		trace = append(trace, step)
		if step == fail {
			return syscall.EIO
		}
		return nil
	}
	top := t.TempDir()
	dir := filepath.Join(top, "a", "b")
	ok(t, MakeDir(dir, hook))
	ok(t, MakeDir(dir, hook))
	if diff := cmp.Diff([]string{"mkdir a", "syncdir .", "mkdir b", "syncdir ."}, trace); diff != "" {
		t.Error(diff)
	}
	for _, fail = range []string{"mkdir c", "syncdir ."} {
		if err := MakeDir(filepath.Join(top, "c", "d"), hook); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v", fail, err)
		}
		if _, err := os.Stat(filepath.Join(top, "c")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the directory stays: %v", fail, err)
		}
	}
	ok(t, os.WriteFile(filepath.Join(top, "file"), nil, 0o600))
	if err := MakeDir(filepath.Join(top, "file", "d"), nil); err == nil {
		t.Error("a directory below a file")
	}
}

// TestWriteFileBy is TestWriteFileAtomic for a caller that names the new file.
func TestWriteFileBy(t *testing.T) {
	var trace []string
	fail := OpLock
	f := open(t, func(op Op) error {
		trace = append(trace, strings.TrimSpace(fmt.Sprint(op.Kind, " ", op.Name, " ", op.To)))
		if op.Kind == fail {
			return syscall.EIO
		}
		return nil
	})
	ok(t, os.WriteFile(filepath.Join(f.Dir(), "a.new"), []byte("left by a killed process"), 0o600))
	ok(t, f.WriteFileBy("a.new", "a", []byte("one")))
	want := []string{"remove a.new", "create a.new", "write a.new", "sync a.new", "rename a.new a", "syncdir ."}
	if diff := cmp.Diff(want, trace); diff != "" {
		t.Error(diff)
	}
	for _, fail = range []Kind{OpRemove, OpCreate, OpWrite, OpSync, OpRename} {
		if err := f.WriteFileBy("a.new", "a", []byte("two")); !errors.Is(err, syscall.EIO) {
			t.Errorf("%v: %v", fail, err)
		}
		if b := must[[]byte](t)(os.ReadFile(filepath.Join(f.Dir(), "a"))); string(b) != "one" {
			t.Errorf("%v: content %q", fail, b)
		}
		if names := must[[]string](t)(f.ReadDir(".")); len(names) != 1 {
			t.Errorf("%v: left %v", fail, names)
		}
	}
}
