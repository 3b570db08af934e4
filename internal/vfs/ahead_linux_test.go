package vfs

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// onDisk maps a new file, none of which is in memory. It skips the test where files are always in
// memory.
func onDisk(t *testing.T, size int) *Mapping {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	ok(t, os.WriteFile(name, make([]byte, size), 0o600))
	f := must[*os.File](t)(os.Open(name))
	defer f.Close()
	ok(t, f.Sync())
	ok(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	m := must[*Mapping](t)(MapFile(name))
	t.Cleanup(func() { ok(t, m.Close()) })
	m.Advise(Random) // or a fault brings its neighbours
	for at := 0; at < size; at += int(pageSize) {
		if Resident(m.Bytes()[at:]) {
			t.Skip("the file system keeps pages in memory")
		}
	}
	return m
}

// Pages come into memory ahead of their readers, and without the rest of the file.
func TestReadAhead(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	page := int(pageSize)
	m := onDisk(t, 64*page)
	before := DiskReads()
	ReadAhead(m.Bytes()[10*page+100 : 12*page+1])
	ReadAhead(nil)
	patience := time.Now().Add(time.Minute)
	for at := 10; at <= 12; at++ {
		for !Resident(m.Bytes()[at*page+5:]) {
			if time.Now().After(patience) {
				t.Fatalf("page %d does not come", at)
			}
			runtime.Gosched()
		}
	}
	all := 0
	for at := range 64 {
		if Resident(m.Bytes()[at*page:]) {
			all++
		}
	}
	if all > 32 { // the system may round
		t.Errorf("%d of 64 pages in memory", all)
	}
	ahead := DiskReads() - before
	if ahead < int64(3*page/512) {
		t.Errorf("%d x 512 bytes read ahead", ahead)
	}
	if m.Bytes()[40*page] != 0 || !Resident(m.Bytes()[40*page:]) {
		t.Error("a page that was read is not in memory")
	}
	if n := DiskReads() - before; n < ahead+int64(page/512) {
		t.Errorf("%d x 512 bytes read with one more page", n)
	}
}

// Hints about memory that no file backs do no harm.
func TestReadAheadOfTheHeap(t *testing.T) {
	b := make([]byte, 3*pageSize)
	b[pageSize] = 7
	ReadAhead(b[5:])
	if !Resident(b[pageSize:]) || !Resident(nil) || b[pageSize] != 7 {
		t.Error("memory of the heap is not in memory")
	}
}
