package meta

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment"
)

func contextWithCancel(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// fillSmall fills a store with every kind of record: two collections, one renamed, history, two
// segments, dead rows.
func fillSmall(tx *Tx) error {
	for _, c := range []struct {
		id   uint32
		name string
	}{{1, "notes"}, {2, "mail"}} {
		if err := tx.PutCollection(c.id, c.name, []byte("{\"dim\":3}")); err != nil {
			return err
		}
	}
	for _, d := range []struct {
		coll uint32
		doc  uint64
		id   string
	}{{1, 1, "a"}, {1, 2, "b"}, {2, 3, "a"}, {1, 4, "a"}} {
		old, had, err := tx.ID(d.coll, d.id)
		if err != nil {
			return err
		}
		if had {
			if err := tx.PutHistory(d.coll, d.id, 12, old); err != nil {
				return err
			}
		}
		if err := tx.PutDocument(d.coll, d.doc, fmt.Appendf(nil, "document %d", d.doc)); err != nil {
			return err
		}
		if err := tx.PutID(d.coll, d.id, d.doc); err != nil {
			return err
		}
	}
	for id, coll := range map[uint64]uint32{1: 1, 2: 2} {
		info := segment.Info{ID: id, Collection: coll, Dim: 3, Rows: 3, Size: 4176, CRC: 0x8b82224d, MinDoc: 1, MaxDoc: 4, MaxNorm: 1, Docs: [16]byte{0xd0, 0xc5, byte(id)}}
		if err := tx.PutSegment(info); err != nil {
			return err
		}
	}
	if err := tx.PutDeadChunk(1, 0, []uint64{1}); err != nil {
		return err
	}
	st, err := tx.State()
	if err != nil {
		return err
	}
	st.Applied, st.NextDoc, st.NextSegment, st.NextCollection, st.Obsolete = 12, 5, 4, 3, []uint64{3}
	return tx.SetState(st)
}

// TestFlippedValue flips each bit of one document's value.
func TestFlippedValue(t *testing.T) {
	s := small(t)
	good := fileOf(t, s)
	key := appendU64(nil, 2)
	value := appendValue(nil, seedOf(tagDocuments, 1), key, []byte("document 2"))
	at := bytes.LastIndex(good, append(slices.Clone(key), value...))
	if at < 0 {
		t.Fatal("document 2 is not in the file")
	}
	for bit := range 8 * len(value) {
		bad := bytes.Clone(good)
		bad[at+len(key)+bit/8] ^= 1 << (bit % 8)
		s := openBytes(t, s, bad)
		view(t, s, func(tx *Tx) error {
			_, ok, err := tx.Document(1, 2)
			wantCorrupt(t, "Document", err, "documents/00000001", "key 2", "checksum")
			wantError(t, "Document", err, fileformat.ErrChecksum)
			if ok {
				t.Error("damaged document found")
			}
			if b, ok, err := tx.Document(1, 4); string(b) != "document 4" || !ok || err != nil {
				t.Errorf("its neighbour: %q, %v, %v", b, ok, err)
			}
			wantCorrupt(t, "Documents", tx.Documents(1, 0, func(uint64, []byte) (bool, error) { return true, nil }))
			return nil
		})
		wantProblem(t, s, "documents/00000001 2: checksum")
		if bit%8 == 0 {
			// A damaged document can be replaced, and the digest is right again unless the checksum
			// of the document was damaged.
			update(t, s, func(tx *Tx) error { return tx.PutDocument(1, 2, []byte("document 2")) })
			if problems := problemsOf(t, s); len(problems) > 0 != (bit/8 >= len(value)-4) {
				t.Errorf("bit %d, replaced: %v", bit, problems)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCopyOfDamage copies a store without page checksums in which one record is damaged: there is
// no copy, and the error says whose record it is. The copy of a trusted file is not verified.
func TestCopyOfDamage(t *testing.T) {
	s := small(t)
	good := fileOf(t, s)
	for _, test := range []struct {
		name, owner string
		tag         uint8
		coll        uint32
		key         []byte
		payload     []byte
	}{
		{"a document", `document "b" of collection "notes"`, tagDocuments, 1, appendU64(nil, 2), []byte("document 2")},
		{"a document of another collection", `document "a" of collection "mail"`, tagDocuments, 2, appendU64(nil, 3), []byte("document 3")},
		{"an earlier version", `an earlier version of document "a" of collection "notes"`, tagDocuments, 1, appendU64(nil, 1), []byte("document 1")},
		{"an id", `id "b" of collection "notes"`, tagIDs, 1, []byte("b"), binary.LittleEndian.AppendUint64(nil, 2)},
		{"dead rows", "bucket dead, key 1/0", tagDead, 0, appendU32(appendU64(nil, 1), 0), []byte{chunkList, 0, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			value := appendValue(nil, seedOf(test.tag, test.coll), test.key, test.payload)
			at := bytes.LastIndex(good, append(slices.Clone(test.key), value...))
			if at < 0 {
				t.Fatal("the record is not in the file")
			}
			for _, off := range []int{len(test.key) + 1, len(test.key) + len(value) - 1} { // the payload, the checksum
				bad := bytes.Clone(good)
				bad[at+off] ^= 1
				hurt := openBytes(t, s, bad)
				wantCorrupt(t, "CopyTo", hurt.CopyTo(t.Context(), s.fs, "copy"), test.owner, "checksum")
				if _, err := s.fs.Size("copy"); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("a copy is left: %v", err)
				}
				if err := hurt.Close(); err != nil {
					t.Fatal(err)
				}
				if err := CopyTo(s.fs, s.name, newFS(t, nil)); err != nil {
					t.Errorf("a trusted file: %v", err)
				}
			}
		})
	}
}

// TestSalvage continues after damage.
func TestSalvage(t *testing.T) {
	s := small(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	rawUpdate(t, s.fs, func(tx *bbolt.Tx) error {
		value := appendValue(nil, seedOf(tagDocuments, 1), appendU64(nil, 3), []byte("document 2"))
		docs, ids := tx.Bucket([]byte("documents/00000001")), tx.Bucket([]byte("ids/00000001"))
		return errors.Join(docs.Put(appendU64(nil, 2), value), docs.Put([]byte("key"), value), ids.Put([]byte("a"), value),
			ids.Put([]byte("c"), appendValue(nil, seedOf(tagIDs, 1), []byte("c"), []byte("short"))))
	})
	s = open(t, s.fs, Options{Lenient: true})
	var docs, badDocs []uint64
	var ids, badIDs []string
	view(t, s, func(tx *Tx) error {
		err := tx.SalvageDocuments(1, func(doc uint64, payload []byte) error {
			docs = append(docs, doc)
			return nil
		}, func(doc uint64, err error) {
			wantCorrupt(t, "document", err)
			badDocs = append(badDocs, doc)
		})
		if err != nil {
			return err
		}
		return tx.SalvageIDs(1, func(id string, doc uint64) error {
			ids = append(ids, id)
			return nil
		}, func(id string, err error) { badIDs = append(badIDs, id) })
	})
	if !slices.Equal(docs, []uint64{1, 4}) || !slices.Equal(badDocs, []uint64{2, 0}) ||
		!slices.Equal(ids, []string{"b"}) || !slices.Equal(badIDs, []string{"a", "c"}) {
		t.Errorf("documents %d, bad %d, ids %q, bad %q", docs, badDocs, ids, badIDs)
	}
}

// openBytes replaces the bytes of a closed store and opens it.
func openBytes(t testing.TB, s *Store, b []byte) *Store {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.fs.Dir(), s.name), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return open(t, s.fs, Options{Lenient: true})
}

func wantProblem(t testing.TB, s *Store, want string) {
	t.Helper()
	problems := problemsOf(t, s)
	if !slices.ContainsFunc(problems, func(p string) bool { return strings.Contains(p, want) }) {
		t.Errorf("Check does not report %q, but %q", want, problems)
	}
}

// TestBehindOurBack changes records with bbolt, with valid checksums. Missing, extra and misplaced
// records must be reported.
func TestBehindOurBack(t *testing.T) {
	raw := func(tag uint8, coll uint32, key, payload []byte) []byte {
		return appendValue(nil, seedOf(tag, coll), key, payload)
	}
	put := func(tag uint8, coll uint32, key, payload []byte) func(tx *bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(bucketName(tag, coll))).Put(key, raw(tag, coll, key, payload))
		}
	}
	del := func(tag uint8, coll uint32, key []byte) func(tx *bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			b := tx.Bucket([]byte(bucketName(tag, coll)))
			if b.Get(key) == nil {
				t.Errorf("bucket %s has no %x", b.Inspect().Name, key)
			}
			return b.Delete(key)
		}
	}
	u64 := func(v uint64) []byte { return appendU64(nil, v) }
	le := func(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }
	note := appendU64(appendOwner(nil, 1, "a"), 12)
	mirror := appendOwner(u64(12), 1, "a")
	info := segment.Info{Collection: 9, Rows: 1, MinDoc: 1, MaxDoc: 1}
	for _, tc := range []struct {
		what string
		do   func(tx *bbolt.Tx) error
		want string
	}{
		{"document missing", del(tagDocuments, 1, u64(2)), "documents/00000001 : 2 records, want 3"},
		{"document missing", del(tagDocuments, 1, u64(2)), `ids/00000001 "b": invalid value: names document 2`},
		{"document added", put(tagDocuments, 2, u64(1), nil), "documents/00000002 : 2 records, want 1"},
		{"document replaced", put(tagDocuments, 2, u64(3), nil), "documents/00000002 : records are not those"},
		{"document beyond the last", put(tagDocuments, 2, u64(5), nil), "documents/00000002 5: invalid value: the next unused"},
		{"key of another size", put(tagDocuments, 2, []byte("k"), nil), `documents/00000002 "k": invalid value: unknown key`},
		{"of another bucket", func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte(bucketName(tagDocuments, 2))).Put(u64(3), raw(tagDocuments, 1, u64(3), []byte("document 3")))
		}, "documents/00000002 3: checksum"},
		{"id missing", del(tagIDs, 1, []byte("b")), "ids/00000001 : 1 records, want 2"},
		{"id missing", del(tagIDs, 1, []byte("b")), "documents/00000001 : 3 documents, but ids and history name 2"},
		{"id added", put(tagIDs, 1, []byte("c"), le(2)), "ids/00000001 : 3 records, want 2"},
		{"id of another document", put(tagIDs, 1, []byte("b"), le(4)), "documents/00000001 : 3 documents, but"},
		{"id with a short value", put(tagIDs, 1, []byte("b"), []byte("x")), `ids/00000001 "b": `},
		{"collection missing", del(tagCollections, 0, appendU32(nil, 2)), "collections : 1 records, want 2"},
		{"collection missing", del(tagCollections, 0, appendU32(nil, 2)), "documents/00000002 : unknown bucket"},
		{"collection beyond the last", put(tagCollections, 0, appendU32(nil, 3), (&Collection{}).encode()), "collections 3: invalid value: the next"},
		{"bucket missing", func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("ids/00000002")) }, "bucket ids/00000002 is missing"},
		{"bucket missing", func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("dead")) }, "bucket dead is missing"},
		{"nested bucket", func(tx *bbolt.Tx) error {
			_, err := tx.Bucket([]byte("dead")).CreateBucket([]byte("x"))
			return err
		}, `dead "x": a bucket`},
		{"segment missing", del(tagSegments, 0, u64(2)), "segments : 1 records, want 2"},
		{"segment missing", del(tagSegments, 0, u64(1)), "dead 1/0: invalid value: segment 1 does not exist"},
		{"segment without collection", put(tagSegments, 0, u64(2), encodeSegment(&info)), "segments 2: invalid value: of collection 9"},
		{"segment beyond the last", put(tagSegments, 0, u64(4), encodeSegment(&segment.Info{Collection: 1})), "segments 4: invalid value: the next"},
		{"dead rows missing", del(tagDead, 0, appendU32(u64(1), 0)), "dead : 0 records, want 1"},
		{"dead row out of range", put(tagDead, 0, appendU32(u64(1), 0), encodeChunk([]uint64{8})), "dead 1/0: invalid value: row 3 of 3"},
		{"note missing", del(tagHistory, 0, note), "history : 0 records, want 1"},
		{"note missing", del(tagPurge, 0, mirror), "history \"\\x00\\x00\\x00\\x01"},
		{"note changed", put(tagPurge, 0, mirror, le(2)), "differs from its mirror"},
		{"note of no id", put(tagHistory, 0, []byte("x"), le(2)), `history "x": invalid value: unknown key`},
		{"state missing", del(tagSystem, 0, keyState), `bucket system, key "state": invalid value: missing`},
		{"unknown system key", put(tagSystem, 0, []byte("x"), nil), `system "x": invalid value: unknown key`},
	} {
		s := small(t)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		rawUpdate(t, s.fs, tc.do)
		again, err := Open(s.fs, name, Options{Verify: true})
		if err == nil {
			if tc.what != "unknown system key" {
				t.Errorf("%s: opened", tc.what)
			}
			again.Close()
		}
		again, err = Open(s.fs, name, Options{Verify: true, Lenient: true})
		if err != nil {
			if tc.what != "state missing" {
				t.Errorf("%s: %v", tc.what, err)
			}
			continue
		}
		t.Run(tc.what, func(t *testing.T) { wantProblem(t, again, tc.want) })
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// judge opens a damaged file and classifies the outcome: an error or a report, unchanged content,
// or changed content, which must not happen.
func judge(t *testing.T, s *Store, bad []byte, contents ...[]string) (detected, ok bool) {
	if err := os.WriteFile(filepath.Join(s.fs.Dir(), s.name), bad, 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := Open(s.fs, name, Options{Verify: true})
	if err != nil {
		wantCorrupt(t, "Open", err)
		return true, true
	}
	defer again.Close()
	if len(problemsOf(t, again)) > 0 {
		return true, true
	}
	got, err := dump(again)
	if err != nil {
		return true, true
	}
	return false, slices.ContainsFunc(contents, func(want []string) bool { return slices.Equal(got, want) })
}

// TestEveryRootBit flips every bit of the two meta pages that bbolt reads, and some of the others.
func TestEveryRootBit(t *testing.T) {
	s := small(t)
	before, err := dump(s)
	if err != nil {
		t.Fatal(err)
	}
	update(t, s, func(tx *Tx) error { return tx.PutDocument(1, 2, []byte("new")) })
	after, err := dump(s)
	if err != nil {
		t.Fatal(err)
	}
	good := fileOf(t, s)
	for page := range 2 {
		for off := 0; off < 4096; off++ {
			for bit := range 8 {
				if off >= 80 && (off%64 != 0 || bit != off/64%8) {
					continue
				}
				bad := bytes.Clone(good)
				bad[4096*page+off] ^= 1 << bit
				detected, ok := judge(t, s, bad, before, after)
				unused := off >= 80 || off >= 10 && off < 16 // counts, which meta pages do not have
				if !ok || !detected && !unused {
					t.Errorf("page %d, offset %d, bit %d: detected %v, content right %v", page, off, bit, detected, ok)
				}
				// Without verification of the whole file: an error, or one of the two versions.
				if again, err := Open(s.fs, name, Options{}); err == nil {
					if got, err := dump(again); err != nil || !slices.Equal(got, before) && !slices.Equal(got, after) {
						t.Errorf("page %d, offset %d, bit %d: other content: %v", page, off, bit, err)
					}
					again.Close()
				}
			}
		}
	}
}

var everyByte = flag.Bool("everybyte", false, "TestEveryByte: do not pass over most of the unused space")

// TestEveryByte damages every byte of a small file in turn.
func TestEveryByte(t *testing.T) {
	s := small(t)
	want, err := dump(s)
	if err != nil {
		t.Fatal(err)
	}
	good := fileOf(t, s)
	var refused, reported, unused int
	for at := range good {
		bad := bytes.Clone(good)
		if bad[at] ^= 0xFF; at%2 == 0 {
			bad[at] = good[at] ^ 1<<(at/2%8)
		}
		if boltcheck.Check(bytes.NewReader(bad), int64(len(bad))) != nil {
			refused++ // by Open with Verify, before bbolt opens the file
			continue
		}
		if good[at] == 0 && at%37 != 0 && !*everyByte {
			continue // most of the file is unused
		}
		detected, ok := judge(t, s, bad, want)
		switch {
		case !ok:
			t.Errorf("offset %d, %#x to %#x: not detected", at, good[at], bad[at])
		case detected:
			reported++
		default:
			unused++
		}
	}
	t.Logf("%d bytes: %d refused, %d reported, %d without influence", len(good), refused, reported, unused)
	if refused < 500 || reported < 300 {
		t.Errorf("only %d refused, %d reported", refused, reported)
	}
}
