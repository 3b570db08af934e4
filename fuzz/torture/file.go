package torture

import (
	"bytes"
	"hash/maphash"
)

const (
	pageSize   = 4096
	sectorSize = 512
)

// A page is a piece of a file. It is immutable once it belongs to a file, so that files can share
// pages.
type page struct {
	b   [pageSize]byte
	sum uint64 // of b, computed on demand; never 0
}

var (
	zeroPage page
	hashSeed = maphash.MakeSeed() // states are compared within one process only
)

// A file is the content of a file. Files are mostly zeros: a nil page is all zero. Copies made by
// clone are independent.
type file struct {
	size  int64
	pages []*page // pages beyond its length are zero
	hash  uint64  // cached result of sum; 0: unknown
}

func (f *file) clone() *file {
	return &file{f.size, append([]*page(nil), f.pages...), f.hash}
}

// write writes n bytes of b, or zeros if b is nil, at off.
func (f *file) write(off, n int64, b []byte) {
	f.size, f.hash = max(f.size, off+n), 0
	for n > 0 {
		i, at := int(off/pageSize), off%pageSize
		m := min(n, pageSize-at)
		var piece []byte
		if b != nil {
			piece, b = b[:m], b[m:]
		}
		f.writePage(i, int(at), int(m), piece)
		off, n = off+m, n-m
	}
}

func (f *file) writePage(i, at, n int, b []byte) {
	if b == nil && (i >= len(f.pages) || f.pages[i] == nil) {
		return
	}
	for i >= len(f.pages) {
		f.pages = append(f.pages, nil)
	}
	fresh := &page{}
	if old := f.pages[i]; old != nil {
		fresh.b = old.b
	}
	if b == nil {
		clear(fresh.b[at : at+n])
	} else {
		copy(fresh.b[at:], b)
	}
	if fresh.b == zeroPage.b {
		fresh = nil
	}
	f.pages[i] = fresh
}

func (f *file) truncate(size int64) {
	if size < f.size {
		whole := int((size + pageSize - 1) / pageSize)
		if whole < len(f.pages) {
			f.pages = f.pages[:whole:whole]
		}
		if at := size % pageSize; at > 0 && whole-1 < len(f.pages) {
			f.writePage(whole-1, int(at), int(pageSize-at), nil)
		}
	}
	f.size, f.hash = size, 0
}

// readAt reads like io.ReaderAt, but returns no error at the end.
func (f *file) readAt(b []byte, off int64) int {
	if off >= f.size {
		return 0
	}
	b = b[:min(int64(len(b)), f.size-off)]
	for done := 0; done < len(b); {
		i, at := int((off+int64(done))/pageSize), int((off+int64(done))%pageSize)
		src := &zeroPage
		if i < len(f.pages) && f.pages[i] != nil {
			src = f.pages[i]
		}
		done += copy(b[done:], src.b[at:])
	}
	return len(b)
}

// sum is equal for files with equal content.
func (f *file) sum() uint64 {
	if f.hash != 0 {
		return f.hash
	}
	h := uint64(f.size) * 0x9e3779b97f4a7c15
	for i, p := range f.pages {
		if p == nil {
			continue
		}
		if p.sum == 0 {
			p.sum = maphash.Bytes(hashSeed, p.b[:]) | 1
		}
		h += mix(p.sum ^ uint64(i)*0xbf58476d1ce4e5b9)
	}
	f.hash = h
	return h
}

// mix spreads the bits of x (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// allZero reports whether all bytes of b are zero.
func allZero(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), pageSize)
		if !bytes.Equal(b[:n], zeroPage.b[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}
