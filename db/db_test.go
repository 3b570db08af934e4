package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, dir string, opts *Options) *DB {
	t.Helper()
	vdb, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := vdb.Close(); err != nil {
			t.Error(err)
		}
	})
	return vdb
}

func reopen(t testing.TB, vdb *DB, opts *Options) *DB {
	t.Helper()
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, vdb.engine.Dir, opts)
}

// inspect opens the inside of the engine of a database to a test.
func inspect(vdb *DB) engine.Inspector { return engine.Inspect(vdb.engine) }

// segmentsOf returns the segments of the current version.
func segmentsOf(vdb *DB) []*engine.OpenSegment {
	ver := vdb.engine.Current()
	defer vdb.engine.Drop(ver)
	return ver.Files.Segments
}

// storeOf returns the store of the current version.
func storeOf(vdb *DB) *meta.Store {
	ver := vdb.engine.Current()
	defer vdb.engine.Drop(ver)
	return ver.Files.Store
}

func collection(t testing.TB, vdb *DB, name string, s Schema) *Collection {
	t.Helper()
	c, err := vdb.OpenCollection(t.Context(), name, s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// must returns what a call gave that cannot fail here.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// writeFor writes ops as the leader does for a follower.
func writeFor(vdb *DB, id engine.RequestID, ops []engine.Op) (deleted int, err error) {
	return writeSynced(vdb, id, ops, false)
}

// writeSynced is writeFor for a follower that may have its writes synced.
func writeSynced(vdb *DB, id engine.RequestID, ops []engine.Op, sync bool) (deleted int, err error) {
	vdb.engine.Submit(id, ops, 1, sync, func(n int, failed error) { deleted, err = n, failed })
	vdb.engine.CommitSubmitted()
	return deleted, err
}

// bounded ends the tests, with the stacks of all goroutines, if one takes far longer than it can:
// its processes wait for each other for ever then.
func bounded(t testing.TB) {
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	go func() {
		second := time.NewTicker(time.Second)
		defer second.Stop()
		const most = 120
		for range most { // single seconds: the time does not count in which all goroutines are stopped
			select {
			case <-ended:
				return
			case <-second.C:
			}
		}
		debug.SetTraceback("all")
		panic(fmt.Sprintf("%s has not ended for %d seconds: who waits for whom?", t.Name(), most))
	}()
}

// openBoth opens a database twice, as two processes do.
func openBoth(t *testing.T, dir string) (first, second *DB) {
	t.Helper()
	if !engine.CanShare {
		t.Skip("processes do not share a database here")
	}
	var dbs [2]*DB
	for i := range dbs {
		d, err := Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		dbs[i] = d
	}
	return dbs[0], dbs[1]
}

// inDir opens a directory of files.
func inDir(t *testing.T, dir string) *vfs.FS {
	t.Helper()
	f, err := vfs.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func upsert(t testing.TB, c *Collection, docs ...Document) {
	t.Helper()
	if _, err := c.Upsert(t.Context(), docs...); err != nil {
		t.Fatal(err)
	}
}

// check fails the test unless the database is sound.
func check(t testing.TB, vdb *DB) {
	t.Helper()
	r, err := vdb.Check(t.Context(), CheckBytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Problems {
		t.Error(p)
	}
}

func randomVectors(rng *rand.Rand, n, dim int) [][]float32 {
	vecs := make([][]float32, n)
	for i := range vecs {
		vecs[i] = make([]float32, dim)
		for j := range vecs[i] {
			vecs[i][j] = float32(rng.NormFloat64())
		}
	}
	return vecs
}

func ids(hits []Hit) []string {
	out := make([]string, len(hits))
	for i, h := range hits {
		out[i] = h.ID
	}
	return out
}

func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "notes.vdb")
	vdb := open(t, dir, nil)
	c := collection(t, vdb, "notes", Schema{Dim: 3, Metric: Dot})
	want := []*Document{
		{ID: "a", Vector: []float32{1, 2, 3}, Text: "first", Metadata: Metadata{
			"s": "x", "b": true, "i": int64(math.MaxInt64), "f": 1.5, "whole": 2.0, "null": nil,
			"list": []any{"a", int64(1), 2.5, nil, false}, "nested": map[string]any{"deep": map[string]any{"n": int64(-1)}},
			"dotted.key": "v", "empty": map[string]any{}, "none": []any{}}},
		{ID: "b", Text: "no vector yet"},
		{ID: "ç/ü 漢", Vector: []float32{0, 0, 0}},
		{ID: "neg", Vector: []float32{float32(math.Copysign(0, -1)), math.SmallestNonzeroFloat32, -math.MaxFloat32}},
	}
	for _, d := range want {
		upsert(t, c, *d)
	}
	verify := func(c *Collection) {
		t.Helper()
		for _, d := range want {
			got, err := c.Get(t.Context(), d.ID, Everything)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(d, got); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", d.ID, diff)
			}
			for i := range d.Vector {
				if math.Float32bits(d.Vector[i]) != math.Float32bits(got.Vector[i]) {
					t.Errorf("%s: component %d changed its bits", d.ID, i)
				}
			}
		}
		if must(c.Info()).Documents != len(want) {
			t.Errorf("%d documents, want %d", must(c.Info()).Documents, len(want))
		}
	}
	verify(c)
	check(t, vdb)
	vdb = reopen(t, vdb, nil)
	c = collection(t, vdb, "notes", Schema{Metric: Dot})
	verify(c)
	if err := vdb.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	verify(c)
	check(t, vdb)

	got, err := c.Get(t.Context(), "a", IDsOnly)
	if err != nil || got.Text != "" || got.Metadata != nil || got.Vector != nil {
		t.Errorf("IDsOnly gives %+v, %v", got, err)
	}
	got, err = c.Get(t.Context(), "a", 0)
	if err != nil || got.Text != "first" || got.Metadata == nil || got.Vector != nil {
		t.Errorf("the zero Select gives %+v, %v", got, err)
	}
}

// Every way of writing refuses every invalid document with the same error and writes
// nothing.
func TestInvalidDocumentsAreRefused(t *testing.T) {
	vdb := open(t, t.TempDir(), nil)
	c := collection(t, vdb, "c", Schema{Dim: 2})
	upsert(t, c, Document{ID: "there", Vector: []float32{1, 0}})
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	deep := any("x")
	for range MaxMetadataDepth + 1 {
		deep = map[string]any{"d": deep}
	}
	for _, tt := range []struct {
		name string
		d    Document
		want error
		say  string
	}{
		{"id too long", Document{ID: strings.Repeat("x", MaxIDLen+1)}, ErrInvalid, "limit is 1024"},
		{"id not UTF-8", Document{ID: "a\xff"}, ErrInvalid, "UTF-8"},
		{"id with newline", Document{ID: "a\nb"}, ErrInvalid, `"a\nb"`},
		{"NaN", Document{ID: "x", Vector: []float32{0, nan}}, ErrInvalid, "component 1 is NaN"},
		{"infinity", Document{ID: "x", Vector: []float32{inf, 0}}, ErrInvalid, "component 0 is -Inf"},
		{"dimension", Document{ID: "x", Vector: []float32{1, 2, 3}}, ErrDimensionMismatch, "expected 2, got 3"},
		{"too many dimensions", Document{ID: "x", Vector: make([]float32, MaxDim+1)}, ErrInvalid, "65537"},
		{"text not UTF-8", Document{ID: "x", Text: "\xc0"}, ErrInvalid, "UTF-8"},
		{"text too long", Document{ID: "x", Text: strings.Repeat("x", MaxTextLen+1)}, ErrInvalid, "limit"},
		{"metadata NaN", Document{ID: "x", Metadata: Metadata{"f": math.NaN()}}, ErrInvalid, `"f" is NaN`},
		{"metadata infinity", Document{ID: "x", Metadata: Metadata{"a": map[string]any{"f": math.Inf(1)}}}, ErrInvalid, `"a.f"`},
		{"metadata type", Document{ID: "x", Metadata: Metadata{"f": struct{}{}}}, ErrInvalid, "struct {}"},
		{"metadata uint64", Document{ID: "x", Metadata: Metadata{"f": uint64(math.MaxUint64)}}, ErrInvalid, "range of int64"},
		{"metadata list of lists", Document{ID: "x", Metadata: Metadata{"f": []any{[]any{}}}}, ErrInvalid, "inside a list"},
		{"metadata operator", Document{ID: "x", Metadata: Metadata{"$f": 1}}, ErrInvalid, `"$f"`},
		{"metadata empty key", Document{ID: "x", Metadata: Metadata{"": 1}}, ErrInvalid, "empty key"},
		{"metadata ambiguous", Document{ID: "x", Metadata: Metadata{"a.b": 1, "a": map[string]any{"b": 2}}}, ErrInvalid, `"a.b"`},
		{"metadata too deep", Document{ID: "x", Metadata: Metadata{"f": deep}}, ErrInvalid, "deeper"},
		{"metadata too large", Document{ID: "x", Metadata: Metadata{"f": strings.Repeat("x", MaxMetadataLen)}}, ErrInvalid, "limit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			good := Document{ID: "good", Vector: []float32{1, 1}}
			batch := &Batch{}
			batch.Upsert("c", good)
			batch.Upsert("c", tt.d)
			ways := map[string]error{"Apply": vdb.Apply(t.Context(), batch)}
			_, ways["Upsert"] = c.Upsert(t.Context(), good, tt.d)
			_, ways["Insert"] = c.Insert(t.Context(), good, tt.d)
			_, ways["Load"] = c.Load(t.Context(), func(yield func(Document, error) bool) { _ = yield(good, nil) && yield(tt.d, nil) }, nil)
			for way, err := range ways {
				if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.say) {
					t.Errorf("%s: %v", way, err)
				}
			}
			if must(c.Info()).Documents != 1 {
				t.Fatalf("%d documents after a refused write", must(c.Info()).Documents)
			}
		})
	}
	var dim *DimensionError
	_, err := c.Upsert(t.Context(), Document{ID: "x", Vector: make([]float32, 5)})
	if !errors.As(err, &dim) || dim.Expected != 2 || dim.Got != 5 || dim.ID != "x" {
		t.Errorf("%v", err)
	}
}

func TestIDsAreGiven(t *testing.T) {
	vdb := open(t, t.TempDir(), nil)
	c := collection(t, vdb, "c", Schema{})
	got, err := c.Insert(t.Context(), Document{Text: "a"}, Document{ID: "own"}, Document{Text: "b"})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[1] != "own" || len(got[0]) != 36 || got[0] >= got[2] {
		t.Fatalf("ids %q", got)
	}
	d, err := c.Get(t.Context(), got[2], 0)
	if err != nil || d.Text != "b" {
		t.Fatalf("%+v, %v", d, err)
	}
}

func TestInsertUpsertPatchDelete(t *testing.T) {
	ctx := t.Context()
	for _, flush := range []bool{false, true} {
		t.Run(fmt.Sprintf("flush=%v", flush), func(t *testing.T) {
			vdb := open(t, t.TempDir(), nil)
			c := collection(t, vdb, "c", Schema{Dim: 2})
			step := func() {
				if flush {
					if err := vdb.Flush(ctx); err != nil {
						t.Fatal(err)
					}
				}
			}
			upsert(t, c, Document{ID: "a", Vector: []float32{1, 0}, Text: "one", Metadata: Metadata{"x": 1, "y": "z"}})
			step()
			if _, err := c.Insert(ctx, Document{ID: "new"}, Document{ID: "a"}); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), `"a"`) {
				t.Fatalf("insert of a taken id: %v", err)
			}
			if _, err := c.Insert(ctx, Document{ID: "twice"}, Document{ID: "twice"}); !errors.Is(err, ErrExists) ||
				!strings.HasSuffix(err.Error(), "the batch has this id twice") {
				t.Fatalf("insert of the same id twice: %v", err)
			}
			if must(c.Info()).Documents != 1 {
				t.Fatalf("a refused insert wrote something")
			}
			text := "two"
			if err := c.Patch(ctx, Patch{ID: "a", Text: &text, Set: Metadata{"x": 2, "n": nil}, Unset: []string{"y"}}); err != nil {
				t.Fatal(err)
			}
			step()
			got, err := c.Get(ctx, "a", Everything)
			want := &Document{ID: "a", Vector: []float32{1, 0}, Text: "two", Metadata: Metadata{"x": int64(2), "n": nil}}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Fatalf("%v (-want +got)\n%s", err, diff)
			}
			if err := c.Patch(ctx, Patch{ID: "none", Text: &text}); !errors.Is(err, ErrNotFound) {
				t.Fatalf("patch of nothing: %v", err)
			}
			// The document comes first, its vector later.
			upsert(t, c, Document{ID: "late", Text: "t"})
			step()
			if err := c.Patch(ctx, Patch{ID: "late", Vector: []float32{0, 1}}); err != nil {
				t.Fatal(err)
			}
			step()
			res, err := c.Search(ctx, Query{Near: Vector{0, 1}})
			if err != nil || !slices.Equal(ids(res.Hits), []string{"late", "a"}) {
				t.Fatalf("%v %v", res, err)
			}
			if n, err := c.Delete(ctx, "a", "none", "a"); n != 1 || err != nil {
				t.Fatalf("deleted %d, %v", n, err)
			}
			step()
			if n, err := c.Delete(ctx, "a"); n != 0 || err != nil {
				t.Fatalf("deleted %d, %v", n, err)
			}
			if _, err := c.Get(ctx, "a", 0); !errors.Is(err, ErrNotFound) {
				t.Fatalf("get of a deleted document: %v", err)
			}
			check(t, vdb)
		})
	}
}

func TestDeleteWhere(t *testing.T) {
	ctx := t.Context()
	vdb := open(t, t.TempDir(), nil)
	c := collection(t, vdb, "c", Schema{})
	for i := range 3000 {
		if i == 1500 {
			if err := vdb.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		}
		upsert(t, c, Document{ID: fmt.Sprint(i), Metadata: Metadata{"i": i}})
	}
	if _, err := c.DeleteWhere(ctx, nil); !errors.Is(err, ErrInvalid) || must(c.Info()).Documents != 3000 {
		t.Fatalf("a nil filter: %v, %d left", err, must(c.Info()).Documents)
	}
	n, err := c.DeleteWhere(ctx, filter.And(filter.Gte("i", 1000), filter.Lt("i", 2000)))
	if err != nil || n != 1000 || must(c.Info()).Documents != 2000 {
		t.Fatalf("%d, %v, %d left", n, err, must(c.Info()).Documents)
	}
	n, err = c.DeleteWhere(ctx, filter.And())
	if err != nil || n != 2000 || must(c.Info()).Documents != 0 {
		t.Fatalf("%d, %v, %d left", n, err, must(c.Info()).Documents)
	}
	upsert(t, c, Document{ID: "again"})
	check(t, reopen(t, vdb, nil))
}

// TestDeleteFunc deletes by the text of documents in memory and in a segment. What the function
// decides on is the state that is written to, and its error deletes nothing.
func TestDeleteFunc(t *testing.T) {
	ctx := t.Context()
	vdb := open(t, t.TempDir(), nil)
	c := collection(t, vdb, "c", Schema{})
	for i := range 400 {
		if i == 200 {
			flush(t, vdb)
		}
		upsert(t, c, Document{ID: fmt.Sprint(i), Text: fmt.Sprint("number ", i%4), Metadata: Metadata{"even": i%2 == 0}})
	}
	refused := errors.New("refused")
	seen := 0
	_, err := c.DeleteFunc(ctx, nil, func(*Document) (bool, error) {
		if seen++; seen == 300 {
			return false, refused
		}
		return true, nil
	})
	if !errors.Is(err, refused) || must(c.Info()).Documents != 400 {
		t.Fatalf("%v, %d left", err, must(c.Info()).Documents)
	}
	n, err := c.DeleteFunc(ctx, filter.Eq("even", true), func(d *Document) (bool, error) {
		if d.Metadata["even"] != true {
			t.Errorf("%+v does not match", d)
		}
		return d.Text == "number 2", nil
	})
	if err != nil || n != 100 || must(c.Info()).Documents != 300 {
		t.Fatalf("%d, %v, %d left", n, err, must(c.Info()).Documents)
	}
	for _, d := range dump(t, c) {
		if d.Text == "number 2" {
			t.Errorf("%+v is left", d)
		}
	}
	check(t, reopen(t, vdb, nil))
}

// TestErrorsOfCallers has functions and a sequence that fail for reasons of their own: the error is
// theirs, whatever the database calls such a one.
func TestErrorsOfCallers(t *testing.T) {
	c := collection(t, open(t, t.TempDir(), nil), "c", Schema{Dim: 2})
	fill(t, c, 1, func(int) Document { return Document{ID: "a", Vector: []float32{1, 2}} })
	for _, cause := range []error{fs.ErrNotExist, syscall.ENOSPC, vfs.ErrLocked} {
		fails := func(*Document) (bool, error) { return false, cause }
		_, loaded := c.Load(t.Context(), func(yield func(Document, error) bool) { yield(Document{}, cause) }, nil)
		_, deleted := c.DeleteFunc(t.Context(), nil, fails)
		_, chosen := c.DeleteIf(t.Context(), []string{"a"}, 0, fails)
		for call, err := range map[string]error{
			"Load": loaded, "DeleteFunc": deleted, "DeleteIf": chosen,
			"Update": c.Update(t.Context(), func(*CollectionInfo) error { return cause }),
			"UpdateMetadata": c.UpdateMetadata(t.Context(), func(CollectionInfo) (Metadata, error) {
				return nil, cause
			}),
		} {
			if !errors.Is(err, cause) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrNoSpace) || errors.Is(err, ErrLocked) {
				t.Errorf("%s: %v", call, err)
			}
		}
	}
}

// TestUpdateOfOtherFields changes what Update does not store.
func TestUpdateOfOtherFields(t *testing.T) {
	c := collection(t, open(t, t.TempDir(), nil), "c", Schema{Dim: 2, Text: &TextIndex{}})
	for name, update := range map[string]func(*CollectionInfo){
		"metric":    func(i *CollectionInfo) { i.Schema.Metric = L2 },
		"language":  func(i *CollectionInfo) { i.Schema.Text.Language = "german" },
		"documents": func(i *CollectionInfo) { i.Documents++ },
	} {
		err := c.Update(t.Context(), func(info *CollectionInfo) error {
			info.Metadata = Metadata{"a": 1}
			update(info)
			return nil
		})
		if info, _ := c.Info(); !errors.Is(err, ErrInvalid) || len(info.Metadata) > 0 || info.Schema.Text.Language == "german" {
			t.Errorf("%s: %v, %+v", name, err, info)
		}
	}
}

// TestUpdateMetadata counts in the metadata of a collection, from the leading process and from
// another one: no change is lost.
func TestUpdateMetadata(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	leader := open(t, dir, nil)
	c := collection(t, leader, "c", Schema{})
	upsert(t, c, Document{ID: "1"})
	count := func(info CollectionInfo) (Metadata, error) {
		n, _ := info.Metadata["n"].(int64)
		return Metadata{"n": n + 1, "documents": info.Documents}, nil
	}
	var counting sync.WaitGroup
	for _, vdb := range []*DB{leader, open(t, dir, nil)} {
		c := collectionOf(t, vdb, "c")
		for range 3 {
			counting.Go(func() {
				for range 20 {
					if err := c.UpdateMetadata(ctx, count); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	counting.Wait()
	refused := errors.New("refused")
	for want, update := range map[string]func(CollectionInfo) (Metadata, error){
		"refused":        func(CollectionInfo) (Metadata, error) { return Metadata{"n": 0}, refused },
		"panic: misused": func(CollectionInfo) (Metadata, error) { panic("misused") },
		"empty key":      func(CollectionInfo) (Metadata, error) { return Metadata{"": 1}, nil },
		"called within the function of UpdateMetadata": func(CollectionInfo) (Metadata, error) {
			_, err := c.Delete(ctx, "1")
			return nil, err
		},
		"no function": nil,
	} {
		if err := c.UpdateMetadata(ctx, update); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	want := Metadata{"n": int64(120), "documents": int64(1)}
	if diff := cmp.Diff(want, must(c.Info()).Metadata); diff != "" {
		t.Error(diff)
	}
	snap := must(leader.Snapshot())
	defer snap.Close()
	if err := must(snap.Collection("c")).UpdateMetadata(ctx, count); !errors.Is(err, ErrReadOnly) {
		t.Errorf("in a snapshot: %v", err)
	}
	if err := leader.Drop(ctx, "c"); err != nil {
		t.Fatal(err)
	}
	if err := c.UpdateMetadata(ctx, count); !errors.Is(err, ErrNotFound) {
		t.Errorf("of a collection that was dropped: %v", err)
	}
}

// TestDeleteIf decides on the newest state of documents that are named, in the leading process and
// in another one.
func TestDeleteIf(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	leader := open(t, dir, nil)
	c := collection(t, leader, "c", Schema{})
	for i := range 400 {
		if i == 200 {
			flush(t, leader)
		}
		upsert(t, c, Document{ID: fmt.Sprint(i), Text: "old"})
	}
	upsert(t, c, Document{ID: "3", Text: "new"}, Document{ID: "399", Text: "new"})
	for i, vdb := range []*DB{open(t, dir, nil), leader} {
		c := collectionOf(t, vdb, "c")
		var all []string
		for i := range 401 { // one more than there are
			all = append(all, fmt.Sprint(400-i))
		}
		for name, last := range map[string]func() (bool, error){
			"an error": func() (bool, error) { return true, errors.New("refused") },
			"a panic":  func() (bool, error) { panic("misused") },
		} {
			_, err := c.DeleteIf(ctx, all, 0, func(d *Document) (bool, error) {
				if d.ID == "1" {
					return last()
				}
				return true, nil
			})
			if n := must(c.Count(ctx, nil)); err == nil || n != 400-i {
				t.Fatalf("%s: %v, %d left", name, err, n)
			}
		}
		none := func(*Document) (bool, error) { return false, nil }
		if n, err := c.DeleteIf(ctx, all, 2, none); n != 0 || err != nil {
			t.Fatalf("%d of none, %v", n, err)
		}
		gone := fmt.Sprint(5 + i)
		var seen []string
		n, err := c.DeleteIf(ctx, []string{"399", gone, "none", gone, "3"}, 0, func(d *Document) (bool, error) {
			seen = append(seen, d.ID)
			read, err := c.Get(ctx, d.ID, WithText) // the function may read
			return err == nil && read.Text == "old" && d.Text == "old", err
		})
		if err != nil || n != 1 || !slices.Equal(seen, []string{"399", gone, "3"}) {
			t.Fatalf("%d, %v, saw %q", n, err, seen)
		}
		if _, err := c.Get(ctx, gone, IDsOnly); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", gone, err)
		}
	}
	check(t, leader)
}

func TestCollections(t *testing.T) {
	ctx := t.Context()
	vdb := open(t, t.TempDir(), nil)
	lineage := Lineage{Provider: "p", Model: "m", Normalized: true, Chunker: "c"}
	c, err := vdb.CreateCollection(ctx, "one", Schema{Dim: 4, Metric: L2, Lineage: lineage}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := vdb.CreateCollection(ctx, "one", Schema{}, nil); !errors.Is(err, ErrExists) {
		t.Errorf("create twice: %v", err)
	}
	for _, tt := range []struct {
		s    Schema
		want error
		say  string
	}{
		{Schema{Dim: 4, Metric: L2, Lineage: lineage}, nil, ""},
		{Schema{Metric: L2}, nil, ""},
		{Schema{Dim: 5, Metric: L2}, ErrDimensionMismatch, "expected 4, got 5"},
		{Schema{Dim: 4}, ErrSchema, "has metric l2, opened with cosine"},
		{Schema{Dim: 4, Metric: L2, Lineage: Lineage{Model: "other"}}, ErrSchema, `has model "m", opened with "other"`},
		{Schema{Dim: -1}, ErrDimensionMismatch, "-1"},
	} {
		_, err := vdb.OpenCollection(ctx, "one", tt.s)
		if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%+v: %v", tt.s, err)
		}
	}
	for _, name := range []string{"", ".", "..", "/", "a\x00", "\xff", strings.Repeat("n", 256)} {
		if _, err := vdb.CreateCollection(ctx, name, Schema{}, nil); !errors.Is(err, ErrInvalid) {
			t.Errorf("name %q: %v", name, err)
		}
	}
	if err := c.SetMetadata(ctx, Metadata{"note": "hello", "n": 1}); err != nil {
		t.Fatal(err)
	}
	upsert(t, c, Document{ID: "a", Vector: []float32{1, 2, 3, 4}})
	collection(t, vdb, "../etc/passwd", Schema{}) // a name is not a path
	if err := vdb.Rename(ctx, "one", ".."); !errors.Is(err, ErrInvalid) {
		t.Errorf("rename to ..: %v", err)
	}
	if err := vdb.Rename(ctx, "one", "../etc/passwd"); !errors.Is(err, ErrExists) {
		t.Errorf("rename to a taken name: %v", err)
	}
	if err := vdb.Rename(ctx, "one", "two"); err != nil {
		t.Fatal(err)
	}
	if must(c.Info()).Name != "two" || must(c.Info()).Documents != 1 {
		t.Errorf("handle lost by rename: %+v", must(c.Info()))
	}
	upsert(t, c, Document{ID: "b", Vector: []float32{1, 2, 3, 4}})
	vdb = reopen(t, vdb, nil)
	want := []CollectionInfo{
		{Name: "../etc/passwd"},
		{Name: "two", Schema: Schema{Dim: 4, Metric: L2, Lineage: lineage}, Metadata: Metadata{"note": "hello", "n": int64(1)}, Documents: 2},
	}
	if diff := cmp.Diff(want, must(vdb.Collections())); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	c, err = vdb.Collection("two")
	if err != nil {
		t.Fatal(err)
	}
	if err := vdb.Drop(ctx, "two"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get(ctx, "a", 0); !errors.Is(err, ErrNotFound) {
		t.Errorf("get from a dropped collection: %v", err)
	}
	if _, err := c.Upsert(ctx, Document{ID: "a"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("upsert to a dropped collection: %v", err)
	}
	if err := vdb.Drop(ctx, "two"); !errors.Is(err, ErrNotFound) {
		t.Errorf("drop twice: %v", err)
	}
	// The same name starts over, with another schema.
	c = collection(t, vdb, "two", Schema{Dim: 1})
	if must(c.Info()).Documents != 0 {
		t.Errorf("%d documents in a new collection", must(c.Info()).Documents)
	}
	vdb = reopen(t, vdb, nil)
	check(t, vdb)
	if infos := must(vdb.Collections()); len(infos) != 2 || infos[1].Documents != 0 || infos[1].Schema.Dim != 1 {
		t.Errorf("%+v", infos)
	}
}

// A collection without a dimension takes the dimension of its first vector.
func TestOpenDimension(t *testing.T) {
	vdb := open(t, t.TempDir(), nil)
	c := collection(t, vdb, "c", Schema{})
	upsert(t, c, Document{ID: "text"}, Document{ID: "a", Vector: []float32{1, 2}}, Document{ID: "b", Vector: []float32{3, 4}})
	if _, err := c.Upsert(t.Context(), Document{ID: "x", Vector: []float32{1}}); !errors.Is(err, ErrDimensionMismatch) {
		t.Fatal(err)
	}
	if must(c.Info()).Schema.Dim != 2 || must(c.Info()).Documents != 3 {
		t.Fatalf("%+v", must(c.Info()))
	}
	vdb = reopen(t, vdb, nil)
	if got := must(collection(t, vdb, "c", Schema{}).Info()).Schema.Dim; got != 2 {
		t.Fatalf("dimension %d after reopening", got)
	}
}

func TestBatchIsAtomicAcrossCollections(t *testing.T) {
	ctx := t.Context()
	vdb := open(t, t.TempDir(), nil)
	a, b := collection(t, vdb, "a", Schema{Dim: 1}), collection(t, vdb, "b", Schema{Dim: 2})
	upsert(t, b, Document{ID: "old"})
	batch := &Batch{}
	batch.Upsert("a", Document{ID: "1", Vector: []float32{1}})
	batch.Delete("b", "old")
	batch.Insert("b", Document{ID: "1", Vector: []float32{1, 2, 3}}) // wrong dimension
	if err := vdb.Apply(ctx, batch); !errors.Is(err, ErrDimensionMismatch) {
		t.Fatal(err)
	}
	if must(a.Info()).Documents != 0 || must(b.Info()).Documents != 1 {
		t.Fatalf("part of a failed batch is visible: %d, %d", must(a.Info()).Documents, must(b.Info()).Documents)
	}
	batch.Reset()
	batch.Upsert("a", Document{ID: "1", Vector: []float32{1}})
	batch.Delete("b", "old")
	batch.Insert("b", Document{ID: "1"})
	batch.Patch("b", Patch{ID: "1", Set: Metadata{"n": 1}})
	batch.Delete("a", "1")
	batch.Upsert("a", Document{ID: "1", Vector: []float32{2}})
	if err := vdb.Apply(ctx, batch); err != nil {
		t.Fatal(err)
	}
	d, err := a.Get(ctx, "1", Everything)
	if err != nil || d.Vector[0] != 2 || must(a.Info()).Documents != 1 || must(b.Info()).Documents != 1 {
		t.Fatalf("%+v %v, %d, %d", d, err, must(a.Info()).Documents, must(b.Info()).Documents)
	}
	d, err = b.Get(ctx, "1", 0)
	if err != nil || d.Metadata["n"] != int64(1) {
		t.Fatalf("%+v %v", d, err)
	}
	batch.Reset()
	batch.Upsert("none", Document{ID: "1"})
	if err := vdb.Apply(ctx, batch); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	check(t, reopen(t, vdb, nil))
}

// TestSnapshotCloseBesideFailures: calls that fail ask the snapshot for the name of their
// collection, also while Close waits for them.
func TestSnapshotCloseBesideFailures(t *testing.T) {
	bounded(t)
	ctx := t.Context()
	vdb := open(t, t.TempDir(), nil)
	upsert(t, collection(t, vdb, "c", Schema{}), Document{ID: "1"})
	for range 50 {
		snap := must(vdb.Snapshot())
		c := must(snap.Collection("c"))
		var wait sync.WaitGroup
		begun := make(chan struct{}, 4)
		for range cap(begun) {
			wait.Go(func() {
				for first := true; ; first = false {
					_, err := c.Count(ctx, filter.And(nil))
					if first {
						begun <- struct{}{}
					}
					if errors.Is(err, ErrClosed) {
						return
					}
					if !errors.Is(err, ErrInvalid) {
						t.Error(err)
						return
					}
				}
			})
		}
		for range cap(begun) {
			<-begun
		}
		for range 2 {
			if err := snap.Close(); err != nil {
				t.Error(err)
			}
		}
		wait.Wait()
	}
}

func TestSnapshot(t *testing.T) {
	ctx := t.Context()
	vdb := open(t, t.TempDir(), &Options{HeadSize: 1 << 16})
	c := collection(t, vdb, "c", Schema{Dim: 2})
	for i := range 500 {
		upsert(t, c, Document{ID: fmt.Sprint(i), Vector: []float32{float32(i), 1}, Metadata: Metadata{"i": i}})
	}
	snap, err := vdb.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	frozen, err := snap.Collection("c")
	if err != nil {
		t.Fatal(err)
	}
	before := dump(t, frozen)
	// Change everything: updates, deletes, new documents and a drop, with flushes and a
	// compaction in between.
	for round := range 3 {
		for i := range 500 {
			switch {
			case i%3 == round:
				upsert(t, c, Document{ID: fmt.Sprint(i), Vector: []float32{-1, float32(round)}, Text: "changed"})
			case i%7 == round:
				if _, err := c.Delete(ctx, fmt.Sprint(i)); err != nil {
					t.Fatal(err)
				}
			}
			upsert(t, c, Document{ID: fmt.Sprint("new", round, i), Vector: []float32{1, 1}})
		}
		if err := vdb.Compact(ctx); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, dump(t, frozen)); diff != "" {
			t.Fatalf("round %d: the snapshot changed (-want +got)\n%s", round, diff)
		}
		check(t, vdb)
	}
	if err := vdb.Drop(ctx, "c"); err != nil {
		t.Fatal(err)
	}
	if err := vdb.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, dump(t, frozen)); diff != "" {
		t.Fatalf("after a drop: (-want +got)\n%s", diff)
	}
	if _, err := frozen.Upsert(ctx, Document{ID: "x"}); !errors.Is(err, ErrReadOnly) {
		t.Errorf("write to a snapshot: %v", err)
	}
	if err := snap.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := frozen.Get(ctx, "1", 0); !errors.Is(err, ErrClosed) {
		t.Errorf("read from a closed snapshot: %v", err)
	}
	if err := vdb.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir(filepath.Join(vdb.engine.Dir, engine.SegDir))
	if err != nil || len(names) != 0 {
		t.Errorf("files of a dropped collection are left: %v %v", names, err)
	}
	check(t, vdb)
}

// dump reads a collection in every way and returns its content.
func dump(t testing.TB, c *Collection) map[string]Document {
	t.Helper()
	ctx := t.Context()
	all := map[string]Document{}
	for d, err := range c.All(ctx, nil, Everything) {
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := all[d.ID]; twice {
			t.Fatalf("%q twice", d.ID)
		}
		all[d.ID] = *d
	}
	if must(c.Info()).Documents != len(all) {
		t.Fatalf("Len %d, All %d", must(c.Info()).Documents, len(all))
	}
	listed, after := []string{}, ""
	for {
		page, err := c.List(ctx, ListQuery{After: after, Limit: 77, Select: IDsOnly})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range page.Documents {
			listed = append(listed, d.ID)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	want := []string{}
	for id := range all {
		want = append(want, id)
	}
	slices.Sort(want)
	i := 0
	for d, err := range c.ListSeq(ctx, ListQuery{Select: Everything}) {
		if err != nil || i == len(want) || d.ID != want[i] {
			t.Fatalf("ListSeq: document %d of %d is %v, error %v", i, len(want), d, err)
		}
		if diff := cmp.Diff(all[d.ID], *d); diff != "" {
			t.Fatalf("ListSeq differs from All: %s", diff)
		}
		i++
	}
	if i != len(want) {
		t.Fatalf("ListSeq yields %d of %d documents", i, len(want))
	}
	if !slices.Equal(listed, want) {
		t.Fatalf("List gives %d ids, All %d", len(listed), len(want))
	}
	docs, err := c.GetMany(ctx, want, Everything)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range docs {
		if d == nil {
			t.Fatalf("GetMany misses %q", want[i])
		}
		if diff := cmp.Diff(all[d.ID], *d); diff != "" {
			t.Fatalf("GetMany differs from All: %s", diff)
		}
	}
	i = 0
	for d, err := range c.GetSeq(ctx, want, Everything) {
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(docs[i], d); diff != "" {
			t.Fatalf("GetSeq differs from GetMany: %s", diff)
		}
		i++
	}
	if i != len(want) {
		t.Fatalf("GetSeq yields %d of %d documents", i, len(want))
	}
	return all
}

func TestReadOnly(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	if _, err := Open(dir, &Options{ReadOnly: true}); !errors.Is(err, ErrNotFound) {
		t.Fatalf("read-only open of nothing: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "none"), &Options{MustExist: true}); !errors.Is(err, ErrNotFound) {
		t.Fatalf("open of nothing with MustExist: %v", err)
	}
	vdb := open(t, dir, &Options{Exclusive: true})
	c := collection(t, vdb, "c", Schema{Dim: 1})
	upsert(t, c, Document{ID: "a", Vector: []float32{1}, Metadata: Metadata{"x": 1}})
	if _, err := Open(dir, nil); !errors.Is(err, ErrLocked) {
		t.Fatalf("second writer: %v", err)
	}
	if _, err := Open(dir, &Options{ReadOnly: true}); !errors.Is(err, ErrLocked) {
		t.Fatalf("reader beside a writer: %v", err)
	}
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	before := snapshotDir(t, dir)
	one := open(t, dir, &Options{ReadOnly: true, Exclusive: true})
	two := open(t, dir, &Options{ReadOnly: true, Exclusive: true})
	if _, err := Open(dir, nil); !errors.Is(err, ErrLocked) {
		t.Fatalf("writer beside readers: %v", err)
	}
	for _, r := range []*DB{one, two} {
		c, err := r.OpenCollection(ctx, "c", Schema{Dim: 1})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := c.Count(ctx, filter.Eq("x", 1)); n != 1 || err != nil {
			t.Fatalf("%d %v", n, err)
		}
		if _, err := c.Upsert(ctx, Document{ID: "b"}); !errors.Is(err, ErrReadOnly) {
			t.Fatalf("upsert: %v", err)
		}
		for name, err := range map[string]error{
			"Drop": r.Drop(ctx, "c"), "Compact": r.Compact(ctx), "Flush": r.Flush(ctx),
		} {
			if !errors.Is(err, ErrReadOnly) {
				t.Errorf("%s: %v", name, err)
			}
		}
		check(t, r)
	}
	if diff := cmp.Diff(before, snapshotDir(t, dir)); diff != "" {
		t.Errorf("reading changed files: %s", diff)
	}
}

// snapshotDir returns the bytes of every file below dir.
func snapshotDir(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		files[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestClosed(t *testing.T) {
	ctx := t.Context()
	vdb := open(t, t.TempDir(), nil)
	c := collection(t, vdb, "c", Schema{Dim: 1})
	upsert(t, c, Document{ID: "a", Vector: []float32{1}})
	snap, err := vdb.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	frozen, err := snap.Collection("c")
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range c.All(ctx, nil, 0) { // a running iteration does not block Close
		if err != nil {
			t.Fatal(err)
		}
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
		break
	}
	if err := vdb.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	errs := map[string]error{"Apply": vdb.Apply(ctx, &Batch{}), "Flush": vdb.Flush(ctx), "Compact": vdb.Compact(ctx),
		"Backup": vdb.Backup(ctx, t.TempDir()), "Drop": vdb.Drop(ctx, "c")}
	_, errs["Get"] = c.Get(ctx, "a", 0)
	_, errs["Upsert"] = c.Upsert(ctx, Document{ID: "a"})
	_, errs["Search"] = c.Search(ctx, Query{Near: Vector{1}})
	_, errs["Count"] = c.Count(ctx, nil)
	_, errs["frozen Get"] = frozen.Get(ctx, "a", 0)
	_, errs["Collection"] = vdb.Collection("c")
	_, errs["Check"] = vdb.Check(ctx, CheckBytes)
	_, errs["Snapshot"] = vdb.Snapshot()
	_, errs["Processes"] = vdb.Processes(ctx)
	_, errs["NewPublisher"] = vdb.NewPublisher(t.TempDir(), nil)
	errs["Barrier"] = vdb.Barrier(ctx)
	for name, err := range errs {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := snap.Close(); err != nil {
		t.Error(err)
	}
}

func TestContext(t *testing.T) {
	vdb := open(t, t.TempDir(), nil)
	c := collection(t, vdb, "c", Schema{Dim: 1})
	upsert(t, c, Document{ID: "a", Vector: []float32{1}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, upserted := c.Upsert(ctx, Document{ID: "b"})
	_, searched := c.Search(ctx, Query{Near: Vector{1}})
	_, listed := c.List(ctx, ListQuery{})
	for name, err := range map[string]error{"Upsert": upserted, "Search": searched, "List": listed, "Compact": vdb.Compact(ctx)} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if must(c.Info()).Documents != 1 {
		t.Error("a cancelled write took effect")
	}
}

// Many writers and readers at once: every acknowledged document is there, a
// reader never sees half a batch.
func TestConcurrent(t *testing.T) {
	ctx := t.Context()
	vdb := open(t, t.TempDir(), &Options{HeadSize: 64 << 10, Sync: SyncNever})
	a, b := collection(t, vdb, "a", Schema{Dim: 4}), collection(t, vdb, "b", Schema{Dim: 4})
	const writers, rounds = 4, 150
	var writing, reading sync.WaitGroup
	stop := make(chan struct{})
	for w := range writers {
		writing.Go(func() {
			for i := range rounds {
				v := []float32{float32(w), float32(i), 1, 0}
				batch := &Batch{}
				batch.Upsert("a", Document{ID: fmt.Sprintf("%d-%d", w, i), Vector: v, Metadata: Metadata{"w": w}})
				batch.Upsert("b", Document{ID: fmt.Sprintf("%d-%d", w, i), Vector: v})
				if i%10 == 9 {
					batch.Delete("a", fmt.Sprintf("%d-%d", w, i-5))
					batch.Delete("b", fmt.Sprintf("%d-%d", w, i-5))
				}
				if err := vdb.Apply(ctx, batch); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 2 {
		reading.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				snap, err := vdb.Snapshot()
				if err != nil {
					t.Error(err)
					return
				}
				fa, err1 := snap.Collection("a")
				fb, err2 := snap.Collection("b")
				if err := errors.Join(err1, err2); err != nil {
					t.Error(err)
					return
				}
				if must(fa.Info()).Documents != must(fb.Info()).Documents {
					t.Errorf("half a batch is visible: %d, %d", must(fa.Info()).Documents, must(fb.Info()).Documents)
				}
				res, err := fa.Search(ctx, Query{Near: Vector{1, 2, 3, 4}, K: 3, Where: filter.Eq("w", 1), Select: Everything})
				if err != nil {
					t.Error(err)
				} else if want := min(3, res.Matched); len(res.Hits) != want {
					t.Errorf("%d hits, want %d", len(res.Hits), want)
				}
				if _, err := fb.List(ctx, ListQuery{Limit: 10}); err != nil {
					t.Error(err)
				}
				if err := snap.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	close(stop)
	reading.Wait()
	want := writers * (rounds - rounds/10)
	if must(a.Info()).Documents != want || must(b.Info()).Documents != want {
		t.Errorf("%d and %d documents, want %d", must(a.Info()).Documents, must(b.Info()).Documents, want)
	}
	check(t, vdb)
	vdb = reopen(t, vdb, nil)
	if c := collection(t, vdb, "a", Schema{}); len(dump(t, c)) != want {
		t.Errorf("%d documents after reopening, want %d", must(c.Info()).Documents, want)
	}
}

// Equal versions mean equal answers.
func TestVersionGrows(t *testing.T) {
	vdb := open(t, t.TempDir(), quick)
	c := collection(t, vdb, "c", Schema{Dim: 2})
	before := must(c.Version())
	snap, err := vdb.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	frozen, err := snap.Collection("c")
	if err != nil {
		t.Fatal(err)
	}
	if must(c.Version()) != before || before == 0 {
		t.Errorf("%d, then %d without a write", before, must(c.Version()))
	}
	upsert(t, c, Document{ID: "a", Vector: []float32{1, 2}})
	if must(c.Version()) <= before || must(frozen.Version()) != before {
		t.Errorf("after a write %d, in the snapshot %d, before %d", must(c.Version()), must(frozen.Version()), before)
	}
	now := must(c.Version())
	flush(t, vdb)
	compact(t, vdb)
	if must(c.Version()) != now {
		t.Error("a compaction changes no answer")
	}
	if err := vdb.Drop(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	if v, err := c.Version(); !errors.Is(err, ErrNotFound) {
		t.Errorf("version %d after Drop: %v", v, err)
	}
	if info, err := c.Info(); !errors.Is(err, ErrNotFound) {
		t.Errorf("%+v after Drop: %v", info, err)
	}
}

func TestCreateCollection(t *testing.T) {
	vdb := open(t, t.TempDir(), nil)
	if _, err := vdb.CreateCollection(t.Context(), "c", Schema{}, Metadata{"$x": 1}); !errors.Is(err, ErrInvalid) {
		t.Errorf("metadata with an operator: %v", err)
	}
	c, err := vdb.CreateCollection(t.Context(), "c", Schema{Dim: 2}, Metadata{"n": 1})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Metadata{"n": int64(1)}, must(c.Info()).Metadata); diff != "" {
		t.Error(diff)
	}
	if n := must(vdb.Stats()).Batches; n != 1 {
		t.Errorf("%d batches, want 1", n)
	}
	if _, err := vdb.CreateCollection(t.Context(), "c", Schema{}, nil); !errors.Is(err, ErrExists) {
		t.Errorf("second time: %v", err)
	}
}
