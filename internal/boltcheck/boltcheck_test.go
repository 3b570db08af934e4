package boltcheck_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
)

func open(t testing.TB, path string, noSync bool) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		PageSize: boltcheck.PageSize, FreelistType: bbolt.FreelistMapType, NoSync: noSync, NoGrowSync: noSync,
	})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func check(b []byte) error { return boltcheck.Check(bytes.NewReader(b), int64(len(b))) }

// mutate runs one random transaction.
func mutate(rng *rand.Rand, db *bbolt.DB) error {
	return db.Update(func(tx *bbolt.Tx) error {
		name := fmt.Appendf(nil, "bucket %d", rng.IntN(4))
		if rng.IntN(12) == 0 {
			if err := tx.DeleteBucket(name); !errors.Is(err, berrors.ErrBucketNotFound) {
				return err
			}
		}
		b, err := tx.CreateBucketIfNotExists(name)
		if err != nil {
			return err
		}
		for range rng.IntN(4) {
			if b, err = b.CreateBucketIfNotExists(fmt.Appendf(nil, "nested %d", rng.IntN(3))); err != nil {
				return err
			}
		}
		b.FillPercent = 0.2 + 0.8*rng.Float64()
		keys := 1 + rng.IntN(2000)
		for range rng.IntN(400) {
			key := fmt.Appendf(nil, "%0*d", 1+rng.IntN(30), rng.IntN(keys))
			switch rng.IntN(5) {
			case 0:
				key = append(key, make([]byte, rng.IntN(200))...)
				err = b.Put(key, make([]byte, rng.IntN(30000)))
			case 1:
				err = b.Delete(key)
			default:
				err = b.Put(key, make([]byte, rng.IntN(300)))
			}
			if err != nil && !errors.Is(err, berrors.ErrIncompatibleValue) {
				return err
			}
		}
		if rng.IntN(4) == 0 { // empty most of it again
			c := b.Cursor()
			for k, v := c.First(); k != nil; k, v = c.Next() {
				if v != nil && rng.IntN(10) > 0 {
					if err := c.Delete(); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

func TestRealFiles(t *testing.T) {
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 1))
		path := filepath.Join(t.TempDir(), "bolt")
		db := open(t, path, true)
		for i := range 60 {
			if err := mutate(rng, db); err != nil {
				t.Fatal(err)
			}
			if i%5 == 0 {
				b, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := check(b); err != nil {
					t.Fatalf("seed %d, transaction %d: %v", seed, i, err)
				}
			}
		}
		copied := filepath.Join(t.TempDir(), "copy")
		dst := open(t, copied, true)
		if err := bbolt.Compact(dst, db, 1<<20); err != nil {
			t.Fatal(err)
		}
		if err := dst.Close(); err != nil {
			t.Fatal(err)
		}
		var stream bytes.Buffer
		err := db.View(func(tx *bbolt.Tx) error {
			_, err := tx.WriteTo(&stream)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := check(stream.Bytes()); err != nil {
			t.Fatalf("seed %d, WriteTo: %v", seed, err)
		}
		b, err := os.ReadFile(copied)
		if err != nil {
			t.Fatal(err)
		}
		if err := check(b); err != nil {
			t.Fatalf("seed %d, Compact: %v", seed, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLongFreelist has more free pages than the count of a page can hold, and than fit into the
// read-ahead buffer.
func TestLongFreelist(t *testing.T) {
	const pages, listPages = 70_000, 137
	put := binary.NativeEndian
	b := make([]byte, (3+listPages)*4096)
	meta := func(page uint64) {
		m := b[page*4096:]
		put.PutUint64(m, page)
		put.PutUint16(m[8:], 4)
		m = m[16:]
		for at, v := range map[int]uint32{0: 0xED0CDAED, 4: 2, 8: 4096} {
			put.PutUint32(m[at:], v)
		}
		for at, v := range map[int]uint64{16: 2, 32: 3, 40: pages, 48: page} {
			put.PutUint64(m[at:], v)
		}
		sum := fnv.New64a()
		sum.Write(m[:56])
		put.PutUint64(m[56:], sum.Sum64())
	}
	meta(0)
	meta(1)
	root := b[2*4096:]
	put.PutUint64(root, 2)
	put.PutUint16(root[8:], 2)
	list := b[3*4096:]
	put.PutUint64(list, 3)
	put.PutUint16(list[8:], 16)
	put.PutUint16(list[10:], 0xFFFF)
	put.PutUint32(list[12:], listPages-1)
	put.PutUint64(list[16:], pages-3-listPages)
	for i := range uint64(pages - 3 - listPages) {
		put.PutUint64(list[24+8*i:], 3+listPages+i)
	}
	path := filepath.Join(t.TempDir(), "bolt")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, pages*4096); err != nil { // free pages are never read
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	verify := func(free int64) {
		t.Helper()
		if err := boltcheck.Check(f, pages*4096); err != nil {
			t.Fatal(err)
		}
		roots, newest, err := boltcheck.Roots(f, pages*4096)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := boltcheck.Free(f, roots[newest]); err != nil || n != free {
			t.Fatalf("Free() = %d, %v; want %d", n, err, free)
		}
	}
	verify(pages - 3 - listPages)

	db := open(t, path, true)
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("b"))
		return err
	})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	verify(pages - 3 - listPages) // as bbolt writes it: the old root and list are free, the new ones are not

	put.PutUint64(b[3*4096+24+8*60_000:], 5)
	if err := check(append(b, make([]byte, pages*4096-len(b))...)); err == nil {
		t.Error("a free page out of order is accepted")
	}
	allocs := testing.AllocsPerRun(1, func() {
		if err := boltcheck.Check(f, pages*4096); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 100 {
		t.Errorf("%v allocations for few pages in use", allocs)
	}
}

// small returns a file of a few pages with every kind of page.
func small(t testing.TB) []byte {
	path := filepath.Join(t.TempDir(), "bolt")
	db := open(t, path, true)
	for round := range 3 {
		err := db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("outer"))
			if err != nil {
				return err
			}
			inline, err := b.CreateBucketIfNotExists([]byte("inline"))
			if err != nil {
				return err
			}
			if err := inline.Put([]byte("key"), []byte("value")); err != nil {
				return err
			}
			own, err := b.CreateBucketIfNotExists([]byte("own"))
			if err != nil {
				return err
			}
			for i := range 100 {
				if err := own.Put(fmt.Appendf(nil, "%03d", i*(1+round)), make([]byte, 100)); err != nil {
					return err
				}
			}
			return own.Put([]byte("big"), make([]byte, 9000))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	roots, newest, err := boltcheck.Roots(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return b[:roots[newest].Pages*boltcheck.PageSize]
}

// TestDamage patches one place of a good file at a time.
func TestDamage(t *testing.T) {
	good := small(t)
	if err := check(good); err != nil {
		t.Fatal(err)
	}
	roots, newest, err := boltcheck.Roots(bytes.NewReader(good), int64(len(good)))
	if err != nil {
		t.Fatal(err)
	}
	root, list := int(roots[newest].Root)*4096, int(roots[newest].Freelist)*4096
	hwm := roots[newest].Pages
	u32 := func(v uint32) []byte { return binary.NativeEndian.AppendUint32(nil, v) }
	u64 := func(v uint64) []byte { return binary.NativeEndian.AppendUint64(nil, v) }
	u16 := func(v uint16) []byte { return binary.NativeEndian.AppendUint16(nil, v) }
	for _, tc := range []struct {
		name string
		at   int
		with []byte
	}{
		{"page id", root, u64(77)},
		{"flags", root + 8, u16(16)},
		{"two flags", root + 8, u16(3)},
		{"count", root + 10, u16(900)},
		{"no elements", root + 10, u16(0)},
		{"overflow", root + 12, u32(1 << 30)},
		{"element flags", root + 16, u32(0)},
		{"element flags", root + 16, u32(3)},
		{"pos", root + 20, u32(17)},
		{"pos", root + 20, u32(1 << 31)},
		{"key size", root + 24, u32(0)},
		{"key size", root + 24, u32(40000)},
		{"key size", root + 24, u32(4)},
		{"value size", root + 28, u32(15)},
		{"value size", root + 28, u32(1 << 31)},
		{"nested root", root + 16 + 16 + 5, u64(0)},
		{"nested root", root + 16 + 16 + 5, u64(1)},
		{"nested root", root + 16 + 16 + 5, u64(hwm)},
		{"nested root is itself", root + 16 + 16 + 5, u64(uint64(root / 4096))},
		{"nested root is the freelist", root + 16 + 16 + 5, u64(uint64(list / 4096))},
		{"freelist flags", list + 8, u16(2)},
		{"freelist count", list + 10, u16(2000)},
		{"freelist count", list + 10, u16(0xFFFF)},
		{"freelist count", list + 10, u16(0)},
		{"free page 1", list + 16, u64(1)},
		{"free page in use", list + 16, u64(uint64(root / 4096))},
		{"free page beyond the file", list + 16, u64(hwm)},
		{"meta page id", 4096 * newest, u64(5)},
		{"meta page flags", 4096*newest + 8, u16(2)},
	} {
		bad := bytes.Clone(good)
		copy(bad[tc.at:], tc.with)
		err := check(bad)
		var damage *boltcheck.Error
		if !errors.As(err, &damage) {
			t.Errorf("%s, offset %d set to %x: %v, want *Error", tc.name, tc.at, tc.with, err)
		}
		if bytes.Equal(bad, good) {
			t.Errorf("%s, offset %d: not a change", tc.name, tc.at)
		}
	}
	for n := range len(good) {
		if n%512 == 0 && check(good[:n]) == nil {
			t.Errorf("cut to %d bytes: accepted", n)
		}
	}
}

// TestRotten damages one meta page: the other is used, and no other bytes pass as a meta page.
func TestRotten(t *testing.T) {
	good := small(t)
	for page := range 2 {
		bad := bytes.Clone(good)
		bad[page*4096+20]++
		roots, newest, err := boltcheck.Roots(bytes.NewReader(bad), int64(len(bad)))
		if err != nil {
			t.Fatal(err)
		}
		if newest == page || roots[page].Err == nil || roots[1-page].Err != nil {
			t.Errorf("page %d rotten: %+v in force, %+v", page, newest, roots)
		}
		if err := check(bad); err != nil {
			t.Errorf("page %d rotten: %v", page, err)
		}
		if page == 0 {
			copy(bad[2048:2148], bad[4096:]) // bbolt would accept it as the second page of a file with pages of 2 KiB
			if err := check(bad); err == nil {
				t.Error("a meta page inside page 0 is accepted")
			}
		}
	}
	bad := bytes.Clone(good)
	bad[20]++
	bad[4096+20]++
	if err := check(bad); err == nil {
		t.Error("two rotten meta pages are accepted")
	}
	if err := check(nil); err == nil {
		t.Error("an empty file is accepted")
	}
}

type brokenReader struct{}

func (brokenReader) ReadAt([]byte, int64) (int, error) { return 0, os.ErrDeadlineExceeded }

func TestReadError(t *testing.T) {
	err := boltcheck.Check(brokenReader{}, 1<<20)
	var damage *boltcheck.Error
	if errors.As(err, &damage) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want the reader's error", err)
	}
}

func BenchmarkCheck(b *testing.B) {
	path := filepath.Join(b.TempDir(), "bolt")
	db := open(b, path, true)
	err := db.Update(func(tx *bbolt.Tx) error {
		bucket, err := tx.CreateBucket([]byte("b"))
		if err != nil {
			return err
		}
		for i := range uint64(100_000) {
			if err := bucket.Put(binary.BigEndian.AppendUint64(nil, i), make([]byte, 200)); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		b.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(st.Size())
	for b.Loop() {
		if err := boltcheck.Check(f, st.Size()); err != nil {
			b.Fatal(err)
		}
	}
}
