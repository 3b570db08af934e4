package fuzz_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
)

const boltPage = 4096

// boltOptions are those of the engine, without its syncs.
func boltOptions() *bbolt.Options {
	return &bbolt.Options{PageSize: boltPage, FreelistType: bbolt.FreelistMapType, NoSync: true, NoGrowSync: true,
		Timeout: time.Second}
}

// boltPages returns the pages in use of a file.
func boltPages(f *testing.F, path string) []byte {
	b, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	roots, newest, err := boltcheck.Roots(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		f.Fatal(err)
	}
	return b[:roots[newest].Pages*boltPage]
}

// boltBases returns small real files: an empty one, one with inline and nested buckets and overflow
// pages, one of several levels, one with many free pages.
func boltBases(f *testing.F) (bases [][]byte) {
	for kind := range 4 {
		path := filepath.Join(f.TempDir(), "base")
		db, err := bbolt.Open(path, 0o600, boltOptions())
		if err != nil {
			f.Fatal(err)
		}
		for round := range 3 {
			err = errors.Join(err, db.Update(func(tx *bbolt.Tx) error {
				if kind == 0 {
					return nil
				}
				b, err := tx.CreateBucketIfNotExists([]byte("bucket"))
				if err != nil {
					return err
				}
				if kind == 1 {
					inline, err := b.CreateBucketIfNotExists([]byte("inline"))
					if err != nil {
						return err
					}
					own, err := b.CreateBucketIfNotExists([]byte("own"))
					if err != nil {
						return err
					}
					return errors.Join(inline.Put([]byte("key"), []byte("value")),
						own.Put([]byte("big"), make([]byte, 9000)), own.Put([]byte("small"), []byte{byte(round)}))
				}
				for i := range 60 {
					key := fmt.Appendf(make([]byte, 0, 400), "%03d", i)
					if kind == 3 && i < 20*round {
						err = errors.Join(err, b.Delete(key[:400]))
					} else {
						err = errors.Join(err, b.Put(key[:400], make([]byte, 100)))
					}
				}
				return err
			}))
		}
		if err := errors.Join(err, db.Close()); err != nil {
			f.Fatal(err)
		}
		bases = append(bases, boltPages(f, path))
	}
	return bases
}

// sealRoots gives both meta pages the checksum they need, so that the fuzzer gets behind it.
func sealRoots(b []byte) {
	for page := range 2 {
		if len(b) < (page+1)*boltPage {
			return
		}
		m := b[page*boltPage+16:]
		sum := fnv.New64a()
		sum.Write(m[:56])
		binary.NativeEndian.PutUint64(m[56:], sum.Sum64())
	}
}

// damage changes a copy of base as told: the first byte says whether to seal the roots, then come
// changes of 6 bytes each: what to do, page, offset, value.
func damage(base, data []byte) []byte {
	b := bytes.Clone(base)
	seal := len(data) > 0 && data[0]&1 != 0
	for data = data[min(1, len(data)):]; len(data) >= 6 && len(b) > 0; data = data[6:] {
		pages := len(b) / boltPage
		page := b[int(data[1])%pages*boltPage:][:boltPage]
		off := int(binary.LittleEndian.Uint16(data[2:])) % (boltPage - 8)
		value := binary.LittleEndian.Uint16(data[4:])
		switch data[0] % 7 {
		case 0:
			page[off] = byte(value)
		case 1:
			page[off] ^= 1 << (value % 8)
		case 2:
			binary.NativeEndian.PutUint16(page[off:], value)
		case 3:
			binary.NativeEndian.PutUint32(page[off&^3:], uint32(value))
		case 4:
			binary.NativeEndian.PutUint64(page[off&^7:], uint64(value))
		case 5:
			keep := off % 2 * 8 // of the page's number
			from := int(value) % pages * boltPage
			copy(page[keep:], b[from+keep:from+boltPage])
		case 6:
			b = b[:int(data[1])%pages*boltPage]
		}
	}
	if seal {
		sealRoots(b)
	}
	return b
}

// boltSeeds are random changes, most of them at the headers of pages and elements.
func boltSeeds(n int, add func(data []byte)) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range n {
		data := []byte{byte(rng.Uint32())}
		for range 1 + rng.IntN(4) {
			off := rng.IntN(200)
			if rng.IntN(4) == 0 {
				off = rng.IntN(boltPage)
			}
			data = append(data, byte(rng.Uint32()), byte(rng.IntN(40)), byte(off), byte(off>>8), byte(rng.IntN(70)), byte(rng.IntN(2)))
		}
		add(data)
	}
}

// withinTime fails when fn hangs.
func withinTime(t *testing.T, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("hangs")
	}
}

// FuzzBoltValidate: what boltcheck accepts, bbolt opens, reads and checks without panic, fault or
// hang, and its own check finds nothing. From what it refuses, Salvage gives no more than there is.
func FuzzBoltValidate(f *testing.F) {
	bases := boltBases(f)
	for i := range bases {
		f.Add(uint8(i), []byte{})
		boltSeeds(40, func(data []byte) { f.Add(uint8(i), data) })
	}
	path := filepath.Join(f.TempDir(), "bolt")
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		b := damage(bases[int(which)%len(bases)], data)
		if err := boltcheck.Check(bytes.NewReader(b), int64(len(b))); err != nil {
			var bad *boltcheck.Error
			if !errors.As(err, &bad) || len(data) == 0 {
				t.Fatalf("got error %v", err)
			}
			total := 0
			_, _, err := boltcheck.Salvage(bytes.NewReader(b), int64(len(b)), func(_ boltcheck.Origin, bucket, key, value []byte) error {
				total += len(key) + len(value)
				return nil
			})
			if err != nil || total > 32*len(b) {
				t.Fatalf("salvage: %d bytes from %d, %v", total, len(b), err)
			}
			return
		}
		roots, _, err := boltcheck.Roots(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		withinTime(t, func() {
			defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("accepted, but bbolt panics: %v", r)
				}
			}()
			if err := boltWalk(path, roots[0].Err == nil && roots[1].Err == nil); err != nil {
				t.Errorf("accepted, but bbolt says: %v", err)
			}
		})
	})
}

// boltWalk reads all of a file through bbolt. With a bad root bbolt's check complains about that
// page.
func boltWalk(path string, strict bool) (err error) {
	db, err := bbolt.Open(path, 0o600, boltOptions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.View(func(tx *bbolt.Tx) error {
		var walk func(b *bbolt.Bucket) error
		read := 0
		walk = func(b *bbolt.Bucket) error {
			return b.ForEach(func(k, v []byte) error {
				if v == nil {
					return walk(b.Bucket(k))
				}
				if b.Get(k) == nil {
					return fmt.Errorf("key %q cannot be found", k)
				}
				for _, c := range slices.Concat(k, v) {
					read += int(c)
				}
				return nil
			})
		}
		errs := []error{tx.ForEach(func(_ []byte, b *bbolt.Bucket) error { return walk(b) })}
		for err := range tx.Check() {
			if strict {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	})
}

// metaBase makes a store of a few pages and returns it with its content and that of the commit
// before.
func metaBase(f *testing.F, fsys *vfs.FS) (base []byte, before, after string) {
	s, err := meta.Open(fsys, "base", meta.Options{Create: true, DB: segmentDB})
	if err != nil {
		f.Fatal(err)
	}
	err = s.Update(func(tx *meta.Tx) error {
		errs := []error{tx.PutCollection(1, "notes", []byte("schema")), tx.PutCollection(2, "", nil)}
		for doc := range uint64(60) {
			errs = append(errs, tx.PutDocument(1, doc+1, make([]byte, doc*5)), tx.PutID(1, fmt.Sprint("id ", doc), doc+1))
		}
		errs = append(errs, tx.PutSegment(segment.Info{ID: 1, Collection: 1, Dim: 3, Rows: 60, MinDoc: 1, MaxDoc: 60}),
			tx.PutDeadChunk(1, 0, []uint64{5}),
			tx.SetState(meta.State{DB: segmentDB, Applied: 5, NextDoc: 70, NextSegment: 2, NextCollection: 3}))
		return errors.Join(errs...)
	})
	if err != nil {
		f.Fatal(err)
	}
	if before, err = metaDump(s); err != nil {
		f.Fatal(err)
	}
	err = s.Update(func(tx *meta.Tx) error {
		return errors.Join(tx.PutHistory(1, "id 7", 6, 8), tx.PutDocument(1, 61, []byte("new")), tx.PutID(1, "id 7", 61),
			tx.PutDeadChunk(1, 0, []uint64{5 | 1<<7}))
	})
	if err != nil {
		f.Fatal(err)
	}
	if after, err = metaDump(s); err != nil {
		f.Fatal(err)
	}
	if problems, err := metaProblems(s); len(problems) > 0 || err != nil {
		f.Fatal(problems, err)
	}
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	return boltPages(f, filepath.Join(fsys.Dir(), "base")), before, after
}

// metaDump returns all that a store says.
func metaDump(s *meta.Store) (string, error) {
	var out strings.Builder
	err := s.View(func(tx *meta.Tx) error {
		state, err := tx.State()
		if err != nil {
			return err
		}
		colls, err := tx.Collections()
		if err != nil {
			return err
		}
		fmt.Fprintln(&out, state, colls)
		for _, c := range colls {
			err := tx.Documents(c.ID, 0, func(doc uint64, payload []byte) (bool, error) {
				_, err := fmt.Fprintf(&out, "%d %x\n", doc, payload)
				return true, err
			})
			if err != nil {
				return err
			}
			err = tx.IDs(c.ID, "", true, func(id string, doc uint64) (bool, error) {
				old, ok, err := tx.History(c.ID, id, 0)
				fmt.Fprintf(&out, "%q %d %d %v\n", id, doc, old, ok)
				return true, err
			})
			if err != nil {
				return err
			}
		}
		infos, err := tx.Segments()
		if err != nil {
			return err
		}
		for _, info := range infos {
			chunks, err := tx.DeadChunks(info.ID)
			if err != nil {
				return err
			}
			fmt.Fprintln(&out, info, chunks)
		}
		return nil
	})
	return out.String(), err
}

func metaProblems(s *meta.Store) (problems []string, err error) {
	err = s.Check(context.Background(), func(file string, _ int64, bucket, key, detail string) {
		problems = append(problems, fmt.Sprintf("%s %s %s: %s", file, bucket, key, detail))
	})
	return problems, err
}

// metaRecord stores a payload under its right checksum, behind the back of the store, by
// docs/format/meta.md.
func metaRecord(path string, which uint8, data []byte) error {
	buckets := []struct {
		name string
		tag  byte
		coll uint32
		key  string
	}{
		{"system", 1, 0, "state"}, {"system", 1, 0, "format"}, {"collections", 2, 0, "\x00\x00\x00\x01"},
		{"documents/00000001", 3, 1, "\x00\x00\x00\x00\x00\x00\x00\x02"}, {"ids/00000001", 4, 1, "id 7"},
		{"history", 5, 0, "\x00\x00\x00\x01\x00\x04id 7\x00\x00\x00\x00\x00\x00\x00\x06"},
		{"purge", 6, 0, "\x00\x00\x00\x00\x00\x00\x00\x06\x00\x00\x00\x01\x00\x04id 7"},
		{"segments", 7, 0, "\x00\x00\x00\x00\x00\x00\x00\x01"}, {"dead", 8, 0, "\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00"},
	}
	b := buckets[int(which/2)%len(buckets)]
	key, payload := []byte(b.key), data
	if which%2 == 1 && len(data) > 0 { // any key, payload as it is
		n := min(1+int(data[0]), len(data))
		key, payload = data[:n], nil
	}
	db, err := bbolt.Open(path, 0o600, boltOptions())
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket([]byte(b.name))
		if payload == nil {
			if v := bucket.Get([]byte(b.key)); len(v) > 5 {
				payload = bytes.Clone(v[1 : len(v)-4])
			}
		}
		covered := binary.LittleEndian.AppendUint32([]byte{b.tag}, b.coll)
		covered = slices.Concat(covered, key, []byte{1}, payload)
		return bucket.Put(key, binary.LittleEndian.AppendUint32(append([]byte{1}, payload...), castagnoli(covered)))
	})
	return errors.Join(err, db.Close())
}

// errUndo ends an Update without the sync of a commit.
var errUndo = errors.New("undo")

// FuzzMetaOpen: a damaged store does not open, or Check reports it, or its content is one of the
// last two committed. With records that carry right checksums and anything else, nothing panics or
// hangs.
func FuzzMetaOpen(f *testing.F) {
	fsys := segmentFS(f)
	base, before, after := metaBase(f, fsys)
	path := filepath.Join(fsys.Dir(), "meta.bolt")
	f.Add(uint8(0), []byte{})
	boltSeeds(60, func(data []byte) { f.Add(uint8(0), data) })
	for which := range uint8(18) {
		f.Add(which+1, []byte{})
		f.Add(which+1, []byte("VECBOLTM\x01\x00\x00\x00"))
		f.Add(which+1, bytes.Repeat([]byte{0xFF}, 60))
		f.Add(which+1, append(make([]byte, 164), 1, 2, 3))
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		b := base
		if which == 0 {
			b = damage(base, data)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if which > 0 {
			if err := metaRecord(path, which-1, data); err != nil {
				return // a key that bbolt does not take
			}
		}
		withinTime(t, func() {
			s, err := meta.Open(fsys, "meta.bolt", meta.Options{Verify: true, ReadOnly: len(data)%2 == 0})
			if err != nil {
				metaError(t, err)
				metaWreck(t, fsys)
				return
			}
			defer s.Close()
			problems, err := metaProblems(s)
			if err != nil {
				t.Errorf("Check: %v", err)
			}
			if p := strings.Join(problems, "\n"); strings.Contains(p, "panic") {
				t.Error(p)
			}
			got, err := metaDump(s)
			if err != nil {
				metaError(t, err)
				if len(problems) == 0 {
					t.Errorf("Check reports nothing, but reading gives %v", err)
				}
			}
			if which == 0 && len(problems) == 0 && got != before && got != after {
				t.Errorf("not noticed: content is\n%s\nwas\n%s", got, after)
			}
			err = s.Update(func(tx *meta.Tx) error {
				_, err := tx.PurgeHistory(100)
				return cmp.Or(errors.Join(err, tx.DeleteSegment(1), tx.DropCollection(1)), errUndo)
			})
			if len(problems) == 0 && len(data)%2 == 1 && err != errUndo && which == 0 {
				t.Errorf("Check reports nothing, but Update gives %v", err)
			}
		})
	})
}

// metaError wants an error that names the file, and no panic behind it.
func metaError(t *testing.T, err error) {
	var bad *fileformat.CorruptError
	if !errors.As(err, &bad) || bad.File != "meta.bolt" || strings.Contains(err.Error(), "panic") {
		t.Errorf("got error %v, want a CorruptError", err)
	}
}

// metaWreck saves the rest of a store that does not open.
func metaWreck(t *testing.T, fsys *vfs.FS) {
	w, err := meta.Examine(t.Context(), fsys, "meta.bolt")
	if err != nil {
		metaError(t, err)
		return
	}
	const name = "saved.bolt"
	if err := w.WriteTo(t.Context(), fsys, name); err != nil {
		t.Fatalf("write: %v", err)
	}
	defer fsys.Remove(name)
	s, err := meta.Open(fsys, name, meta.Options{ReadOnly: true, Verify: true, Lenient: true})
	if err != nil {
		t.Fatalf("what was saved: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
