package db

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// restore replaces the directory of a closed database by a copy of another.
func restore(t testing.TB, backup, dir string) {
	t.Helper()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
}

// overwrite puts some files into a directory.
func overwrite(t testing.TB, dir string, files map[string][]byte) {
	t.Helper()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// colored writes n documents of a color: in their texts, in metadata, and not
// in their vectors, nor in their number.
func colored(t testing.TB, c *Collection, n int, color string, vectors bool) {
	t.Helper()
	fill(t, c, n, func(i int) Document {
		d := Document{ID: fmt.Sprintf("d%02d", i), Text: color + " fruit", Metadata: Metadata{"color": color}}
		if vectors {
			d.Vector = []float32{1, float32(i), 3}
		}
		return d
	})
}

// hasColor wants all ways of asking to find n documents of a color.
func hasColor(t testing.TB, c *Collection, color string, n int) {
	t.Helper()
	ctx := context.Background()
	counted, err := c.Count(ctx, filter.Eq("color", color))
	if err != nil || counted != n {
		t.Errorf("%s: counted %d, want %d: %v", color, counted, n, err)
	}
	found := find(t, c, Query{Text: color, K: 1000})
	if len(found.Hits) != n {
		t.Errorf("%s: %d texts found, want %d", color, len(found.Hits), n)
	}
	page, err := c.List(ctx, ListQuery{Where: filter.Eq("color", color), Limit: 1000})
	if err != nil || len(page.Documents) != n {
		t.Errorf("%s: listed %d, want %d: %v", color, len(page.Documents), n, err)
	}
}

// TestPublishAfterRestore publishes, restores an earlier backup, and goes on
// publishing: segments then have the numbers and the vectors of other segments that
// the folder and its readers know.
func TestPublishAfterRestore(t *testing.T) {
	for _, vectors := range []bool{false, true} {
		for _, merged := range []bool{false, true} {
			t.Run(fmt.Sprintf("vectors %v, merged %v", vectors, merged), func(t *testing.T) {
				ctx := t.Context()
				root := t.TempDir()
				dir, backup, folder := filepath.Join(root, "a"), filepath.Join(root, "b"), filepath.Join(root, "p")
				opts := &Options{Compaction: Manual}
				vdb := open(t, dir, opts)
				collection(t, vdb, "c", Schema{Text: &TextIndex{}})
				if err := vdb.Backup(ctx, backup); err != nil {
					t.Fatal(err)
				}
				write := func(color string) {
					colored(t, collection(t, vdb, "c", Schema{}), 20, color, vectors)
					flush(t, vdb)
					if merged {
						colored(t, collection(t, vdb, "c", Schema{}), 10, color, vectors)
						compact(t, vdb)
					}
					p := publisher(t, vdb, folder, nil)
					publish(t, p)
					if err := errors.Join(p.Close(), vdb.Close()); err != nil {
						t.Fatal(err)
					}
				}
				write("red")
				follower := open(t, folder, &Options{ReadOnly: true, Follow: time.Hour})
				before, err := follower.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				defer before.Close()
				hasColor(t, collectionOf(t, follower, "c"), "red", 20)

				restore(t, backup, dir)
				vdb = open(t, dir, opts)
				write("blue")
				refresh(t, follower)
				for _, r := range []*DB{follower, open(t, folder, &Options{ReadOnly: true, Follow: time.Hour})} {
					c := collectionOf(t, r, "c")
					hasColor(t, c, "blue", 20)
					hasColor(t, c, "red", 0)
					check(t, r)
				}
			})
		}
	}
}

// TestRefreshAfterRestore has versions with the same meta.bolt and different
// batches of the same numbers after it.
func TestRefreshAfterRestore(t *testing.T) {
	ctx := t.Context()
	root := t.TempDir()
	dir, backup, folder := filepath.Join(root, "a"), filepath.Join(root, "b"), filepath.Join(root, "p")
	vdb := open(t, dir, nil)
	collection(t, vdb, "c", Schema{Text: &TextIndex{}})
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	restore(t, dir, backup)
	vdb = open(t, dir, nil)
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	write := func(color string, n int) {
		vdb := open(t, dir, nil)
		p := publisher(t, vdb, folder, nil)
		publish(t, p)
		c := collection(t, vdb, "c", Schema{})
		for i := range n {
			upsert(t, c, Document{ID: fmt.Sprint(color, i), Text: color, Metadata: Metadata{"color": color}})
		}
		publish(t, p)
		if err := errors.Join(p.Close(), vdb.Close()); err != nil {
			t.Fatal(err)
		}
	}
	write("red", 2)
	r := open(t, folder, &Options{ReadOnly: true, Follow: time.Hour})
	hasColor(t, collectionOf(t, r, "c"), "red", 2)
	metaPath := func() string {
		m, _, err := r.engine.Published(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return m.Find(engine.MetaName).Path
	}
	meta := metaPath()
	restore(t, backup, dir)
	write("blue", 3)
	refresh(t, r)
	if now := metaPath(); now != meta {
		t.Fatalf("meta.bolt is another one: %s, %s before", now, meta)
	}
	c := collectionOf(t, r, "c")
	hasColor(t, c, "blue", 3)
	hasColor(t, c, "red", 0)
	if _, err := r.Check(ctx, CheckBytes); err != nil {
		t.Fatal(err)
	}
}

// TestDerivedFilesOfOtherDocuments puts the derived files of one history beside the
// documents of another, whose segment has the same number and vectors.
func TestDerivedFilesOfOtherDocuments(t *testing.T) {
	root := t.TempDir()
	dir, backup := filepath.Join(root, "a"), filepath.Join(root, "b")
	vdb := open(t, dir, nil)
	collection(t, vdb, "c", Schema{Text: &TextIndex{}})
	if err := vdb.Backup(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	write := func(color string) {
		colored(t, collection(t, vdb, "c", Schema{}), 20, color, true)
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write("red")
	derived := map[string][]byte{}
	for name, b := range readFiles(t, dir) {
		if strings.HasPrefix(name, engine.SegDir) && filepath.Ext(name) != ".vec" {
			derived[name] = b
		}
	}
	if len(derived) < 2 {
		t.Fatal(derived)
	}
	restore(t, backup, dir)
	vdb = open(t, dir, nil)
	write("blue")
	overwrite(t, dir, derived)
	for _, o := range []*Options{{ReadOnly: true}, nil} {
		vdb := open(t, dir, o)
		c := collection(t, vdb, "c", Schema{})
		hasColor(t, c, "blue", 20)
		hasColor(t, c, "red", 0)
		if o == nil {
			check(t, vdb)
		}
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// staleRoot makes a database with the meta.bolt from before the last segment, and
// returns the directory and the right meta.bolt.
func staleRoot(t *testing.T) (dir string, right []byte) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "d")
	var old []byte
	for _, part := range []string{"old", "new"} {
		vdb := open(t, dir, nil)
		fill(t, collection(t, vdb, "c", Schema{}), 30, func(i int) Document {
			return Document{ID: fmt.Sprint(part, i), Vector: []float32{1, float32(i)}}
		})
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
		old, right = right, readFiles(t, dir)[engine.MetaName]
	}
	overwrite(t, dir, map[string][]byte{engine.MetaName: old})
	return dir, right
}

// TestStaleRoot opens a database whose meta.bolt is of yesterday. meta.sums,
// which is of today, tells; nothing is removed.
func TestStaleRoot(t *testing.T) {
	dir, right := staleRoot(t)
	before := readFiles(t, dir)
	for _, o := range []*Options{{ReadOnly: true}, nil} {
		vdb, err := Open(dir, o)
		if err == nil {
			vdb.Close()
		}
		var bad *CorruptError
		if !errors.Is(err, ErrCorrupt) || !errors.As(err, &bad) || bad.File != engine.MetaName || !strings.Contains(err.Error(), engine.SumsName) ||
			!strings.Contains(err.Error(), "repair") {
			t.Errorf("%+v: %v", o, err)
		}
	}
	r, err := CheckFiles(t.Context(), dir, CheckBytes)
	if err != nil || r.OK() {
		t.Errorf("check: %+v %v", r, err)
	}
	fixed, err := Repair(t.Context(), dir, filepath.Join(t.TempDir(), "fixed"))
	if err != nil || fixed.Documents != 30 || len(fixed.Problems) == 0 || len(fixed.Lost) == 0 {
		t.Errorf("repair: %+v %v", fixed, err)
	}
	after := readFiles(t, dir)
	for name, b := range before {
		if name != engine.LockName && string(after[name]) != string(b) {
			t.Errorf("%s has changed", name)
		}
	}
	overwrite(t, dir, map[string][]byte{engine.MetaName: right})
	vdb := open(t, dir, nil)
	if n := must(collection(t, vdb, "c", Schema{}).Info()).Documents; n != 60 {
		t.Errorf("with the right meta.bolt: %d documents", n)
	}
	check(t, vdb)
}

// TestUnexplainedSegment has no meta.sums to tell. The segment of today stays,
// over restarts, and Check reports it.
func TestUnexplainedSegment(t *testing.T) {
	dir, _ := staleRoot(t)
	if err := os.Remove(filepath.Join(dir, engine.SumsName)); err != nil {
		t.Fatal(err)
	}
	var lost []byte
	for name, b := range readFiles(t, dir) {
		if filepath.Ext(name) == ".vec" {
			lost = b // the last one, or one of them
			if !strings.HasSuffix(name, "00000001.vec") {
				break
			}
		}
	}
	reported := func(vdb *DB) {
		t.Helper()
		r, err := vdb.Check(t.Context(), CheckBytes)
		if err != nil || len(r.Problems) != 1 || !strings.HasPrefix(r.Problems[0].File, engine.SegDir+"/00000002.vec") {
			t.Errorf("%+v %v", r, err)
		}
	}
	vdb := open(t, dir, &Options{ReadOnly: true})
	reported(vdb)
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		vdb = open(t, dir, nil)
		reported(vdb)
		upsert(t, collection(t, vdb, "c", Schema{}), Document{ID: "later", Vector: []float32{1, 2}})
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
		if string(readFiles(t, dir)[engine.SegDir+"/00000002.vec"+engine.Unexplained]) != string(lost) {
			t.Error("the segment is gone")
		}
	}
}

// TestNoRoomToMap has no room to map new segments. None of their files stays,
// although they were finished, and even if no file can be removed at first.
func TestNoRoomToMap(t *testing.T) {
	dir := t.TempDir()
	failing, stuck := false, false
	vdb := open(t, dir, &Options{Compaction: Manual, tests: testOptions{hook: func(op vfs.Op) error {
		if failing && op.Kind == vfs.OpMap && strings.HasPrefix(op.Name, engine.SegDir+"/") {
			return syscall.ENOMEM
		}
		if stuck && op.Kind == vfs.OpRemove {
			return syscall.EMFILE
		}
		return nil
	}}})
	c := collection(t, vdb, "c", Schema{Text: &TextIndex{}})
	colored(t, c, 20, "red", true)
	flush(t, vdb)
	segments := func() []string {
		t.Helper()
		names, err := os.ReadDir(filepath.Join(dir, engine.SegDir))
		if err != nil {
			t.Fatal(err)
		}
		var vecs []string
		for _, e := range names {
			if filepath.Ext(e.Name()) == ".vec" {
				vecs = append(vecs, e.Name())
			}
		}
		return vecs
	}
	before := segments()
	colored(t, c, 10, "blue", true)
	for _, stuck = range []bool{false, true} {
		failing = true
		for range 5 {
			if err := vdb.Flush(t.Context()); !errors.Is(err, syscall.ENOMEM) {
				t.Fatal(err)
			}
		}
		if now := segments(); !stuck && !slices.Equal(now, before) {
			t.Errorf("flushes that failed left %v of %v", now, before)
		}
	}
	failing, stuck = false, false
	flush(t, vdb)
	if now := segments(); len(now) != 2 {
		t.Errorf("after a flush: %v", now)
	}
	before, failing = segments(), true
	for range 5 {
		if err := vdb.Compact(t.Context()); !errors.Is(err, syscall.ENOMEM) {
			t.Fatal(err)
		}
	}
	if now := segments(); !slices.Equal(now, before) {
		t.Errorf("compactions that failed left %v of %v", now, before)
	}
	failing = false
	compact(t, vdb)
	if now := segments(); len(now) != 1 {
		t.Errorf("after a compaction: %v", now)
	}
	hasColor(t, c, "blue", 10)
	hasColor(t, c, "red", 10)
}
