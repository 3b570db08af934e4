package meta

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
)

const name = "meta.bolt"

var identity = [16]byte{0xd0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}

func newFS(t testing.TB, hook vfs.Hook) *vfs.FS {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	fsys, err := vfs.Open(dir, hook)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fsys.Close() })
	return fsys
}

func open(t testing.TB, fsys *vfs.FS, opts Options) *Store {
	t.Helper()
	s, err := Open(fsys, name, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newStore(t testing.TB) *Store {
	t.Helper()
	return open(t, newFS(t, nil), Options{Create: true, DB: identity})
}

// reopen closes a store and opens its file again, with verification of the whole file.
func reopen(t testing.TB, s *Store) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, s.fs, Options{Verify: true})
}

func update(t testing.TB, s *Store, fn func(tx *Tx) error) {
	t.Helper()
	if err := s.Update(fn); err != nil {
		t.Fatal(err)
	}
}

func view(t testing.TB, s *Store, fn func(tx *Tx) error) {
	t.Helper()
	if err := s.View(fn); err != nil {
		t.Fatal(err)
	}
}

// problemsOf returns the reports of Check.
func problemsOf(t testing.TB, s *Store) []string {
	t.Helper()
	var problems []string
	err := s.Check(t.Context(), func(file string, _ int64, bucket, key, detail string) {
		if file != s.name {
			t.Errorf("Check reports file %q", file)
		}
		problems = append(problems, fmt.Sprintf("%s %s: %s", bucket, key, detail))
	})
	if err != nil {
		t.Fatal(err)
	}
	return problems
}

func wantIntact(t testing.TB, s *Store) {
	t.Helper()
	if problems := problemsOf(t, s); len(problems) > 0 {
		t.Fatalf("Check reports:\n%s", strings.Join(problems, "\n"))
	}
}

// dump returns the whole content of a store as lines of text.
func dump(s *Store) (lines []string, err error) {
	err = s.View(func(tx *Tx) error {
		lines, err = dumpTx(tx)
		return err
	})
	return lines, err
}

func dumpTx(tx *Tx) (lines []string, err error) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	state, err := tx.State()
	if err != nil {
		return nil, err
	}
	add("state %v", state)
	colls, err := tx.Collections()
	if err != nil {
		return nil, err
	}
	for _, c := range colls {
		add("collection %d %q %q %d documents %d ids", c.ID, c.Name, c.Schema, c.Documents, c.IDs)
		err := tx.Documents(c.ID, 0, func(doc uint64, payload []byte) (bool, error) {
			add("document %d %q", doc, payload)
			return true, nil
		})
		if err != nil {
			return nil, err
		}
		err = tx.IDs(c.ID, "", true, func(id string, doc uint64) (bool, error) {
			add("id %q %d", id, doc)
			old, ok, err := tx.History(c.ID, id, 0)
			if ok {
				add("id %q was %d", id, old)
			}
			return true, err
		})
		if err != nil {
			return nil, err
		}
	}
	infos, err := tx.Segments()
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		add("segment %+v", info)
		chunks, err := tx.DeadChunks(info.ID)
		if err != nil {
			return nil, err
		}
		for _, c := range slices.Sorted(maps.Keys(chunks)) {
			add("chunk %d %x", c, chunks[c])
		}
	}
	return lines, nil
}

// A model is the expected content of a store. Its operations are the operations of a database:
// every document is named by one id, or by one note of the history.
type model struct {
	state State
	colls map[uint32]*modelCollection
	segs  map[uint64]*modelSegment
}

type modelCollection struct {
	name, schema string
	docs         map[uint64]string
	ids          map[string]uint64
	notes        []note // by LSN
}

type note struct {
	id       string
	lsn, old uint64
}

type modelSegment struct {
	info segment.Info
	dead map[int][]uint64
}

func (m *model) dump() (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	add("state %v", m.state)
	for _, id := range slices.Sorted(maps.Keys(m.colls)) {
		c := m.colls[id]
		add("collection %d %q %q %d documents %d ids", id, c.name, c.schema, len(c.docs), len(c.ids))
		for _, doc := range slices.Sorted(maps.Keys(c.docs)) {
			add("document %d %q", doc, c.docs[doc])
		}
		for _, id := range slices.Sorted(maps.Keys(c.ids)) {
			add("id %q %d", id, c.ids[id])
			if i := slices.IndexFunc(c.notes, func(n note) bool { return n.id == id }); i >= 0 {
				add("id %q was %d", id, c.notes[i].old)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.segs)) {
		add("segment %+v", m.segs[id].info)
		for _, c := range slices.Sorted(maps.Keys(m.segs[id].dead)) {
			add("chunk %d %x", c, m.segs[id].dead[c])
		}
	}
	return lines
}

// step makes some random changes in a transaction and in the model.
func (m *model) step(rng *rand.Rand, tx *Tx) error {
	pick := func() (id uint32, c *modelCollection) {
		if len(m.colls) == 0 {
			return 0, nil
		}
		ids := slices.Sorted(maps.Keys(m.colls))
		id = ids[rng.IntN(len(ids))]
		return id, m.colls[id]
	}
	for range 1 + rng.IntN(3) {
		m.state.Applied++
		lsn := m.state.Applied
		coll, c := pick()
		switch op := rng.IntN(10); {
		case c == nil || op == 0 && len(m.colls) < 4:
			coll = m.state.NextCollection
			m.state.NextCollection++
			m.colls[coll] = &modelCollection{name: "new", docs: map[uint64]string{}, ids: map[string]uint64{}}
			if err := tx.PutCollection(coll, "new", nil); err != nil {
				return err
			}
		case op == 1:
			c.name, c.schema = fmt.Sprint("c", rng.IntN(100)), strings.Repeat("s", rng.IntN(3000))
			if err := tx.PutCollection(coll, c.name, []byte(c.schema)); err != nil {
				return err
			}
		case op == 2 && rng.IntN(4) == 0:
			delete(m.colls, coll)
			for id, s := range m.segs {
				if s.info.Collection == coll {
					delete(m.segs, id)
					m.state.Obsolete = append(m.state.Obsolete, id)
					if err := tx.DeleteSegment(id); err != nil {
						return err
					}
				}
			}
			if err := tx.DropCollection(coll); err != nil {
				return err
			}
		case op == 3:
			upTo := lsn - uint64(rng.IntN(5))
			want := 0
			for _, c := range m.colls {
				c.notes = slices.DeleteFunc(c.notes, func(n note) bool {
					if n.lsn <= upTo {
						want++
						delete(c.docs, n.old)
					}
					return n.lsn <= upTo
				})
			}
			if n, err := tx.PurgeHistory(upTo); err != nil || n != want {
				return fmt.Errorf("PurgeHistory(%d) = %d, want %d: %w", upTo, n, want, err)
			}
		case op == 4:
			if err := m.stepSegments(rng, tx, coll); err != nil {
				return err
			}
		default:
			seen := map[string]bool{}
			for range rng.IntN(120) {
				id := fmt.Sprintf("%0*d", 1+rng.IntN(3), rng.IntN(300))
				if seen[id] {
					continue // one change per id and LSN
				}
				seen[id] = true
				if err := m.write(rng, tx, coll, c, id, lsn); err != nil {
					return err
				}
			}
		}
	}
	return tx.SetState(m.state)
}

// write puts or deletes an id.
func (m *model) write(rng *rand.Rand, tx *Tx, coll uint32, c *modelCollection, id string, lsn uint64) error {
	old, had, err := tx.ID(coll, id)
	if err != nil {
		return err
	}
	if want, ok := c.ids[id]; ok != had || want != old {
		return fmt.Errorf("id %q is %d, %v, want %d, %v", id, old, had, want, ok)
	}
	switch {
	case had && rng.IntN(2) == 0:
		c.notes = append(c.notes, note{id, lsn, old})
		err = tx.PutHistory(coll, id, lsn, old)
	case had:
		delete(c.docs, old)
		err = tx.DeleteDocument(coll, old)
	}
	if err != nil {
		return err
	}
	if rng.IntN(3) == 0 {
		delete(c.ids, id)
		return tx.DeleteID(coll, id)
	}
	doc := m.state.NextDoc
	m.state.NextDoc++
	size := rng.IntN(300)
	if rng.IntN(40) == 0 {
		size = rng.IntN(50_000)
	}
	c.ids[id], c.docs[doc] = doc, strings.Repeat("d", size)
	payload := []byte(c.docs[doc])
	if err := tx.PutDocument(coll, doc, payload); err != nil {
		return err
	}
	clear(payload) // the store has its own copy
	return tx.PutID(coll, id, doc)
}

func (m *model) stepSegments(rng *rand.Rand, tx *Tx, coll uint32) error {
	if len(m.segs) > 0 && rng.IntN(2) == 0 {
		ids := slices.Sorted(maps.Keys(m.segs))
		id := ids[rng.IntN(len(ids))]
		if rng.IntN(3) == 0 {
			delete(m.segs, id)
			return tx.DeleteSegment(id)
		}
		s := m.segs[id]
		chunk := rng.IntN(3)
		words := make([]uint64, chunkWords)
		for range []int{0, 1, 100, 30_000}[rng.IntN(4)] {
			if row := rng.IntN(chunkRows); chunk*chunkRows+row < s.info.Rows {
				words[row/64] |= 1 << (row % 64)
			}
		}
		if s.dead[chunk] = words; len(encodeChunk(words)) == 0 {
			delete(s.dead, chunk)
			words = words[:rng.IntN(chunkWords)]
		}
		return tx.PutDeadChunk(id, chunk, words)
	}
	if m.state.NextDoc < 2 {
		return nil
	}
	info := segment.Info{ID: m.state.NextSegment, Collection: coll, Dim: rng.IntN(100), Rows: 1 + rng.IntN(90_000),
		Size: rng.Int64(), CRC: rng.Uint32(), MinDoc: 1, MaxDoc: m.state.NextDoc - 1, MaxNorm: rng.Float32()}
	m.state.NextSegment++
	m.segs[info.ID] = &modelSegment{info, map[int][]uint64{}}
	return tx.PutSegment(info)
}

func wantLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("%s (-want +got):\n%s", what, gocmp.Diff(want, got))
	}
}

// TestModel compares a store with a model through random transactions, rollbacks, reopening and
// rewriting.
func TestModel(t *testing.T) {
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			s := newStore(t)
			m := &model{state: State{DB: identity, NextDoc: 1, NextSegment: 1, NextCollection: 1},
				colls: map[uint32]*modelCollection{}, segs: map[uint64]*modelSegment{}}
			for i := range 60 {
				update(t, s, func(tx *Tx) error {
					if err := m.step(rng, tx); err != nil {
						return err
					}
					got, err := dumpTx(tx) // an Update sees its own changes
					wantLines(t, "in the transaction", got, m.dump())
					return err
				})
				got, err := dump(s)
				if err != nil {
					t.Fatal(err)
				}
				wantLines(t, fmt.Sprintf("step %d", i), got, m.dump())
				switch rng.IntN(12) {
				case 0:
					s = reopen(t, s)
				case 1:
					if err := s.Rewrite(); err != nil {
						t.Fatal(err)
					}
				case 2:
					copied := newFS(t, nil)
					if err := s.CopyTo(t.Context(), copied, name); err != nil {
						t.Fatal(err)
					}
					c := open(t, copied, Options{ReadOnly: true, Verify: true})
					wantIntact(t, c)
					if got, err := dump(c); err != nil || !slices.Equal(got, m.dump()) {
						t.Fatalf("the copy differs: %v", err)
					}
				case 3:
					err := s.Update(func(tx *Tx) error {
						_, err := tx.PurgeHistory(m.state.Applied)
						for id := range m.colls {
							if err == nil {
								err = tx.DropCollection(id)
							}
						}
						if err == nil {
							err = tx.SetState(State{DB: identity})
						}
						return cmp.Or(err, os.ErrDeadlineExceeded)
					})
					if err != os.ErrDeadlineExceeded {
						t.Fatal(err)
					}
				}
				if i%4 == 0 {
					wantIntact(t, s)
				}
			}
		})
	}
}

// TestHistory follows two ids, one the beginning of the other, through their versions.
func TestHistory(t *testing.T) {
	s := newStore(t)
	update(t, s, func(tx *Tx) error {
		if err := tx.PutCollection(1, "c", nil); err != nil {
			return err
		}
		for _, n := range []note{{"a", 10, 1}, {"a", 20, 2}, {"a", 30, 0}, {"a\x00", 15, 9}, {"ab", 20, 8}} {
			if n.old != 0 {
				if err := tx.PutDocument(1, n.old, []byte("x")); err != nil {
					return err
				}
			}
			if err := tx.PutHistory(1, n.id, n.lsn, n.old); err != nil {
				return err
			}
		}
		st, err := tx.State()
		if err != nil {
			return err
		}
		st.NextDoc, st.NextCollection = 10, 2
		return tx.SetState(st)
	})
	wantIntact(t, s)
	type answer struct {
		id    string
		after uint64
		old   uint64
		ok    bool
	}
	check := func(want ...answer) {
		t.Helper()
		view(t, s, func(tx *Tx) error {
			for _, w := range want {
				if old, ok, err := tx.History(1, w.id, w.after); old != w.old || ok != w.ok || err != nil {
					t.Errorf("History(%q, %d) = %d, %v, %v; want %d, %v", w.id, w.after, old, ok, err, w.old, w.ok)
				}
			}
			return nil
		})
	}
	check(answer{"a", 0, 1, true}, answer{"a", 9, 1, true}, answer{"a", 10, 2, true}, answer{"a", 19, 2, true},
		answer{"a", 20, 0, true}, answer{"a", 30, 0, false}, answer{"a", ^uint64(0), 0, false},
		answer{"a\x00", 14, 9, true}, answer{"a\x00", 15, 0, false}, answer{"ab", 0, 8, true},
		answer{"", 0, 0, false}, answer{"b", 0, 0, false}, answer{"a\x00\x00\x00\x00\x00\x00\x00\x00", 0, 0, false})
	purge := func(upTo uint64, want int, left ...uint64) {
		t.Helper()
		update(t, s, func(tx *Tx) error {
			if n, err := tx.PurgeHistory(upTo); n != want || err != nil {
				t.Errorf("PurgeHistory(%d) = %d, %v; want %d", upTo, n, err, want)
			}
			var docs []uint64
			err := tx.Documents(1, 0, func(doc uint64, _ []byte) (bool, error) {
				docs = append(docs, doc)
				return true, nil
			})
			if !slices.Equal(docs, left) {
				t.Errorf("PurgeHistory(%d) leaves documents %d, want %d", upTo, docs, left)
			}
			return err
		})
		wantIntact(t, s)
	}
	purge(9, 0, 1, 2, 8, 9)
	purge(15, 2, 2, 8)
	check(answer{"a", 0, 2, true}, answer{"a\x00", 0, 0, false})
	purge(100, 3)
}

func TestIteration(t *testing.T) {
	s := newStore(t)
	update(t, s, func(tx *Tx) error {
		if err := tx.PutCollection(7, "c", nil); err != nil {
			return err
		}
		for i, id := range []string{"a", "aa", "b", "c"} {
			if err := tx.PutID(7, id, uint64(i)); err != nil {
				return err
			}
			if err := tx.PutDocument(7, uint64(10*i), []byte(id)); err != nil {
				return err
			}
		}
		return nil
	})
	view(t, s, func(tx *Tx) error {
		ids := func(from string, inclusive bool, most int) (got []string) {
			err := tx.IDs(7, from, inclusive, func(id string, doc uint64) (bool, error) {
				got = append(got, id)
				if n, ok, err := tx.ID(7, id); n != doc || !ok || err != nil { // lookups inside are allowed
					t.Errorf("ID(%q) = %d, %v, %v", id, n, ok, err)
				}
				return len(got) < most, nil
			})
			if err != nil {
				t.Error(err)
			}
			return got
		}
		for _, tc := range []struct {
			from      string
			inclusive bool
			most      int
			want      string
		}{
			{"", false, 9, "a aa b c"}, {"", true, 2, "a aa"}, {"a", true, 9, "a aa b c"}, {"a", false, 9, "aa b c"},
			{"ab", false, 9, "b c"}, {"c", false, 9, ""}, {"d", true, 9, ""},
		} {
			if got := strings.Join(ids(tc.from, tc.inclusive, tc.most), " "); got != tc.want {
				t.Errorf("IDs(%q, %v) gives %q, want %q", tc.from, tc.inclusive, got, tc.want)
			}
		}
		var docs []uint64
		err := tx.Documents(7, 10, func(doc uint64, payload []byte) (bool, error) {
			docs = append(docs, doc)
			return doc < 20, nil
		})
		if !slices.Equal(docs, []uint64{10, 20}) {
			t.Errorf("Documents gives %d", docs)
		}
		if err != nil {
			return err
		}
		err = tx.IDs(7, "", true, func(string, uint64) (bool, error) { return true, os.ErrDeadlineExceeded })
		if err != os.ErrDeadlineExceeded {
			t.Errorf("the error of the callback became %v", err)
		}
		return nil
	})
}

// TestUnknownCollection: reading an unknown collection returns nothing, changing it is an error.
func TestUnknownCollection(t *testing.T) {
	s := newStore(t)
	update(t, s, func(tx *Tx) error {
		if _, ok, err := tx.Document(3, 1); ok || err != nil {
			t.Errorf("Document: %v, %v", ok, err)
		}
		if _, ok, err := tx.ID(3, "x"); ok || err != nil {
			t.Errorf("ID: %v, %v", ok, err)
		}
		if err := tx.IDs(3, "", true, nil); err != nil {
			t.Errorf("IDs: %v", err)
		}
		if err := tx.Documents(3, 0, nil); err != nil {
			t.Errorf("Documents: %v", err)
		}
		for call, err := range map[string]error{
			"PutDocument": tx.PutDocument(3, 1, nil), "DeleteDocument": tx.DeleteDocument(3, 1),
			"PutID": tx.PutID(3, "x", 1), "DeleteID": tx.DeleteID(3, "x"),
			"PutHistory": tx.PutHistory(3, "x", 1, 1), "DropCollection": tx.DropCollection(3),
		} {
			wantError(t, call, err, errNoCollection)
		}
		if err := tx.PutCollection(3, "c", nil); err != nil {
			return err
		}
		wantError(t, "empty id", tx.PutID(3, "", 1), errTooLong)
		wantError(t, "long id", tx.PutID(3, strings.Repeat("x", maxID+1), 1), errTooLong)
		wantError(t, "long id", tx.PutHistory(3, strings.Repeat("x", maxID+1), 1, 1), errTooLong)
		wantError(t, "chunk", tx.PutDeadChunk(1, maxChunks, []uint64{1}), fileformat.ErrFormat)
		wantError(t, "chunk", tx.PutDeadChunk(1, 0, make([]uint64, chunkWords+1)), fileformat.ErrFormat)
		st, err := tx.State()
		if err != nil {
			return err
		}
		st.DB[0]++
		if tx.SetState(st) == nil {
			t.Error("the identity can be changed")
		}
		if err := tx.PutID(3, strings.Repeat("x", maxID), 1); err != nil {
			return err
		}
		return tx.PutHistory(3, strings.Repeat("x", maxID), 1, 1)
	})
	view(t, s, func(tx *Tx) error {
		if _, ok, err := tx.Document(4, 1); ok || err != nil {
			t.Errorf("Document: %v, %v", ok, err)
		}
		for call, err := range map[string]error{
			"PutDocument": tx.PutDocument(3, 1, nil), "PutID": tx.PutID(3, "x", 1), "PutCollection": tx.PutCollection(3, "", nil),
			"PutSegment": tx.PutSegment(segment.Info{}), "DeleteSegment": tx.DeleteSegment(1),
			"PutDeadChunk": tx.PutDeadChunk(1, 1, []uint64{1}), "SetState": tx.SetState(State{}),
			"DropCollection": tx.DropCollection(3), "DeleteID": tx.DeleteID(3, "x"),
		} {
			wantError(t, call+" in View", err, errReadOnly)
		}
		_, err := tx.PurgeHistory(1)
		wantError(t, "PurgeHistory in View", err, errReadOnly)
		return nil
	})
}

// TestRewriteShrinks also reads during the swap of the files.
func TestRewriteShrinks(t *testing.T) {
	s := newStore(t)
	fill := func(from, to uint64, del bool) {
		update(t, s, func(tx *Tx) error {
			if err := tx.PutCollection(1, "c", nil); err != nil {
				return err
			}
			for doc := from; doc < to; doc++ {
				var err error
				if del {
					err = tx.DeleteDocument(1, doc)
				} else {
					err = tx.PutDocument(1, doc, make([]byte, 1000))
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	fill(0, 5000, false)
	fill(100, 5000, true)
	fill(0, 1, false)
	want, err := dump(s)
	if err != nil {
		t.Fatal(err)
	}
	size, free := s.Size()
	if size < 5_000_000 || free < 4_500_000 || free > size {
		t.Errorf("Size() = %d, %d before", size, free)
	}
	done := make(chan error)
	go func() {
		for range 200 {
			if err := s.View(func(tx *Tx) error { _, err := tx.Collections(); return err }); err != nil {
				done <- err
			}
		}
		close(done)
	}()
	if err := s.Rewrite(); err != nil {
		t.Fatal(err)
	}
	if err, failed := <-done; failed {
		t.Error(err)
	}
	if got, err := dump(s); err != nil || !slices.Equal(got, want) {
		t.Errorf("Rewrite changed the content: %v", err)
	}
	if size, free := s.Size(); size > 2<<20 || free > 1<<20 {
		t.Errorf("Size() = %d, %d after", size, free)
	}
	fill(5000, 5010, false)
	s = reopen(t, s)
	if names, err := s.fs.ReadDir("tmp"); err != nil || len(names) > 0 {
		t.Errorf("tmp holds %v, %v", names, err)
	}
}

// TestRewriteLarge copies more than one transaction of the rewrite holds, in order and in pieces.
func TestRewriteLarge(t *testing.T) {
	s := newStore(t)
	const docs, size = 40, rewriteTx / 30
	update(t, s, func(tx *Tx) error {
		if err := tx.PutCollection(1, "c", nil); err != nil {
			return err
		}
		for doc := range uint64(docs) {
			if err := tx.PutDocument(1, doc+1, bytes.Repeat([]byte{byte(doc)}, size)); err != nil {
				return err
			}
			if err := tx.PutID(1, fmt.Sprintf("%03d", doc), doc+1); err != nil {
				return err
			}
		}
		return tx.SetState(State{DB: identity, NextDoc: docs + 1, NextCollection: 2})
	})
	if err := s.Rewrite(); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, s)
	wantIntact(t, s)
	view(t, s, func(tx *Tx) error {
		for doc := range uint64(docs) {
			if b, ok, err := tx.Document(1, doc+1); len(b) != size || b[0] != byte(doc) || !ok || err != nil {
				t.Errorf("document %d: %d bytes, %v, %v", doc+1, len(b), ok, err)
			}
		}
		return nil
	})
}

// TestChunkForms has chunks on both sides of the boundary between the two forms.
func TestChunkForms(t *testing.T) {
	for _, n := range []int{0, 1, 2047, 2048, chunkRows} {
		words := make([]uint64, chunkWords)
		for i := range n {
			row := i * 7919 % chunkRows // 7919 is prime: all different
			words[row/64] |= 1 << (row % 64)
		}
		b := encodeChunk(words)
		if n == 0 {
			if b != nil {
				t.Errorf("no rows become %d bytes", len(b))
			}
			continue
		}
		if len(b) != 1+min(2*n, 4096) {
			t.Errorf("%d rows take %d bytes", n, len(b))
		}
		if got, err := decodeChunk(b); err != nil || !slices.Equal(got, words) {
			t.Errorf("%d rows do not come back: %v", n, err)
		}
		if _, err := decodeChunk(b[:len(b)-1]); err == nil {
			t.Errorf("%d rows: short chunk accepted", n)
		}
	}
}

// fileOf returns the used pages of a closed store.
func fileOf(t testing.TB, s *Store) []byte {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(s.fs.Dir(), s.name))
	if err != nil {
		t.Fatal(err)
	}
	roots, newest, err := boltcheck.Roots(strings.NewReader(string(b)), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return b[:roots[newest].Pages*boltcheck.PageSize]
}
