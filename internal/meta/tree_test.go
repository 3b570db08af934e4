package meta

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

// TestTree compares lookups with bbolt's, in buckets of all shapes: keys, and others near them.
func TestTree(t *testing.T) {
	number := func(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }
	shapes := map[string]func(i int) (key, value []byte){
		"documents":    func(i int) ([]byte, []byte) { return number(uint64(100 + i)), make([]byte, 150) },
		"gaps":         func(i int) ([]byte, []byte) { return number(uint64(i * i)), []byte{byte(i)} },
		"far numbers":  func(i int) ([]byte, []byte) { return number(uint64(i) << (i % 2 * 40)), []byte{byte(i)} },
		"long values":  func(i int) ([]byte, []byte) { return number(uint64(i)), make([]byte, i*97%20_000) },
		"names":        func(i int) ([]byte, []byte) { return fmt.Appendf(nil, "%d", i*i*7919), []byte("value") },
		"long names":   func(i int) ([]byte, []byte) { return []byte(strings.Repeat(fmt.Sprint(i), 1+i%300)), nil },
		"some numbers": func(i int) ([]byte, []byte) { return number(uint64(i))[i%5:], []byte{byte(i)} },
	}
	for name, shape := range shapes {
		for _, n := range []int{0, 1, 3, 40, 5000} {
			if name == "long values" && n > 500 {
				n = 500
			}
			t.Run(fmt.Sprint(name, "/", n), func(t *testing.T) {
				db := boltOf(t, func(tx *bbolt.Tx) error {
					b, err := tx.CreateBucketIfNotExists([]byte("b"))
					if err != nil {
						return err
					}
					for i := range n {
						if k, v := shape(i); len(k) > 0 {
							if err := b.Put(k, v); err != nil {
								return err
							}
						}
					}
					_, err = b.CreateBucketIfNotExists([]byte("\x00\x01"))
					return err
				})
				var keys [][]byte
				for i := range n {
					k, _ := shape(i)
					keys = append(keys, k, append(slices.Clone(k), 0), k[:len(k)/2])
					if len(k) == 8 {
						v := binary.BigEndian.Uint64(k)
						keys = append(keys, number(v-1), number(v+1), number(v+1<<32))
					}
				}
				keys = append(keys, nil, []byte{0}, []byte{255}, bytes.Repeat([]byte{255}, 9), number(0), []byte("\x00\x01"))
				compareTree(t, db, keys)
			})
		}
	}
}

// boltOf returns a file of bbolt after a change.
func boltOf(t testing.TB, change func(tx *bbolt.Tx) error) *bbolt.DB {
	t.Helper()
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "file"), 0o600, &bbolt.Options{PageSize: pageSize, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	if err := db.Update(change); err != nil {
		t.Fatal(err)
	}
	return db
}

func compareTree(t *testing.T, db *bbolt.DB, keys [][]byte) {
	t.Helper()
	err := db.View(func(tx *bbolt.Tx) error {
		at := pagesOf(tx, "file", nil)
		all := tree{pages: &at, root: uint64(tx.Cursor().Bucket().Root())}
		if _, ok, err := all.bucket([]byte("none")); ok || err != nil {
			t.Errorf("a bucket that does not exist: %v, %v", ok, err)
		}
		b, ok, err := all.bucket([]byte("b"))
		if !ok || err != nil {
			return fmt.Errorf("the bucket: %v, %w", ok, err)
		}
		theirs := tx.Bucket([]byte("b"))
		for _, key := range keys {
			got, bucket, err := b.get(key)
			if err != nil {
				return err
			}
			if want := theirs.Bucket(key) != nil; bucket != want {
				t.Errorf("%x: is a bucket: %v, want %v", key, bucket, want)
			}
			if want := theirs.Get(key); !bucket && (!bytes.Equal(got, want) || (got == nil) != (want == nil)) {
				t.Errorf("%x: %d bytes, want %d", key, len(got), len(want))
			}
			if err := nextLeaf(&b, theirs, key); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// nextLeaf checks that the next leaf begins behind the last key of the leaf of a key, and not
// behind the key after that.
func nextLeaf(b *tree, theirs *bbolt.Bucket, key []byte) error {
	leaf, next, err := b.leaf(key)
	if err != nil || leaf.count() == 0 {
		return err
	}
	last := leaf.key(leaf.count() - 1)
	c := theirs.Cursor()
	c.Seek(last)
	after, _ := c.Next()
	if (next == nil) != (after == nil) || next != nil && (bytes.Compare(next, last) <= 0 || bytes.Compare(next, after) > 0) {
		return fmt.Errorf("%x: the leaf ends with %x, the next one begins with %x; the key after it is %x", key, last, next, after)
	}
	return nil
}

// fields makes a field of all elements too large.
func fields(n node, at int) {
	for i := range n.count() {
		binary.NativeEndian.PutUint32(n[pageHeader+elementSize*i+at:], 1<<31)
	}
}

// TestTreeDamage damages the leaf of a document. The error names its page.
func TestTreeDamage(t *testing.T) {
	key := func(i int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(100+i)) }
	db := boltOf(t, func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("b"))
		for i := 0; i < 1000 && err == nil; i++ {
			err = b.Put(key(i), make([]byte, 150))
		}
		return err
	})
	err := db.View(func(tx *bbolt.Tx) error {
		at := pagesOf(tx, name, nil)
		at.mem = slices.Clone(at.mem)
		b := tree{pages: &at, root: uint64(tx.Bucket([]byte("b")).Root())}
		leaf, _, err := b.leaf(key(500))
		if err != nil {
			return err
		}
		page, good := leaf.page(), slices.Clone(leaf)
		for what, damage := range map[string]func(){
			"number":    func() { leaf[0]++ },
			"flags":     func() { leaf[8] = 16 },
			"elements":  func() { leaf[11] = 255 },
			"overflow":  func() { leaf[15] = 255 },
			"positions": func() { fields(leaf, 4) },
			"key sizes": func() { fields(leaf, 8) },
			"values":    func() { fields(leaf, 12) },
		} {
			damage()
			_, _, err := b.get(key(500))
			wantCorrupt(t, what, err, fmt.Sprintf("page %d:", page))
			copy(leaf, good)
		}
		_, _, err = b.get(key(500))
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestPayloads reads documents together and one by one, from a store with gaps among their numbers.
func TestPayloads(t *testing.T) {
	s := small(t)
	update(t, s, func(tx *Tx) error {
		for doc := uint64(10); doc < 4000; doc++ {
			if doc%7 == 0 || doc/500 == 3 {
				continue
			}
			if err := tx.PutDocument(1, doc, bytes.Repeat([]byte{byte(doc)}, int(doc*31%700))); err != nil {
				return err
			}
		}
		st, err := tx.State()
		if err != nil {
			return err
		}
		st.NextDoc = 4000
		return tx.SetState(st)
	})
	check := func(t *testing.T, s *Store) {
		rapid.Check(t, func(t *rapid.T) {
			docs := rapid.SliceOfN(rapid.Uint64Range(0, 4010), 0, 50).Draw(t, "docs")
			coll := rapid.SampledFrom([]uint32{1, 1, 1, 2, 3}).Draw(t, "collection")
			err := s.View(func(tx *Tx) error {
				got := make([][]byte, len(docs))
				for i := range got {
					got[i] = []byte("old")
				}
				if err := tx.Payloads(coll, docs, got); err != nil {
					return err
				}
				for i, doc := range docs {
					want, ok, err := tx.Document(coll, doc)
					if err != nil {
						return err
					}
					if !bytes.Equal(got[i], want) || (got[i] != nil) != ok {
						t.Errorf("document %d: %d bytes, want %d", doc, len(got[i]), len(want))
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("written", func(t *testing.T) { check(t, s) })
	if err := s.Seal(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, s.fs, Options{})
	if !again.Sealed() {
		t.Error("not sealed")
	}
	t.Run("sealed", func(t *testing.T) { check(t, again) })
}

// FuzzTree looks keys up in bytes that no check has seen: pages of a store, changed.
func FuzzTree(f *testing.F) {
	s := small(f)
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(s.fs.Dir(), s.name))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b[:8*pageSize], []byte("documents/00000001"), uint64(3))
	f.Fuzz(func(t *testing.T, mem, name []byte, doc uint64) {
		rng := rand.New(rand.NewPCG(doc, uint64(len(mem))))
		at := pages{name: "file", mem: mem}
		var leaves [together]node
		for page := range uint64(len(mem)/pageSize) + 1 {
			all := tree{pages: &at, root: page}
			if page == 0 {
				all.inline = node(mem)
				if all.inline.check() != nil || !all.inline.leaf() {
					continue
				}
			}
			b, ok, _ := all.bucket(name)
			if !ok {
				b = all
			}
			docs := []uint64{doc, doc + 1, rng.Uint64(), 0}
			for _, doc := range docs {
				if v, _, err := b.get(binary.BigEndian.AppendUint64(nil, doc)); err == nil && len(v) > len(mem) {
					t.Errorf("a value of %d bytes among %d", len(v), len(mem))
				}
			}
			_ = b.leaves(docs, &leaves)
		}
	})
}
