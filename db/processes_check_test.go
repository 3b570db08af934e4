//go:build linux || darwin

package db

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// checksOf returns what checks at both levels find.
func checksOf(t *testing.T, vdb *DB) (found []Problem) {
	t.Helper()
	for _, level := range []CheckLevel{CheckBytes, CheckDeep} {
		report, err := vdb.Check(t.Context(), level)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, report.Problems...)
	}
	return found
}

// TestCheckBesideALeader checks a database in other processes than the one that leads, while that
// writes, flushes and compacts all the time: nothing is damaged.
func TestCheckBesideALeader(t *testing.T) {
	bounded(t)
	ctx, dir := t.Context(), t.TempDir()
	leader := open(t, dir, &Options{HeadSize: 1 << 14, Sync: SyncNever})
	docs := collection(t, leader, "c", Schema{Dim: 4})
	others := map[string]*DB{"follower": open(t, dir, nil), "reader": open(t, dir, &Options{ReadOnly: true})}
	stop := make(chan struct{})
	var busy sync.WaitGroup
	always := func(do func(n int) error) {
		busy.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := do(n); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(1, 2))
	always(func(n int) error {
		v := []float32{rng.Float32(), rng.Float32(), rng.Float32(), rng.Float32()}
		_, err := docs.Upsert(ctx, Document{ID: fmt.Sprint(n % 300), Vector: v, Text: "text"})
		return err
	})
	always(func(int) error { return leader.Compact(ctx) })
	for range 40 {
		for name, vdb := range others {
			for _, p := range checksOf(t, vdb) {
				t.Error(name, p)
			}
		}
	}
	close(stop)
	busy.Wait()
	if others["follower"].engine.Leads() || !leader.engine.Leads() {
		t.Error("the lead has changed")
	}
}

// TestDamageBesideALeader damages files of a database while a process leads and writes: the others
// find it.
func TestDamageBesideALeader(t *testing.T) {
	bounded(t)
	ctx, dir := t.Context(), t.TempDir()
	leader := open(t, dir, &Options{Compaction: Manual})
	docs := collection(t, leader, "c", Schema{Dim: 2})
	upsert(t, docs, Document{ID: "a", Vector: []float32{1, 2}, Text: "a flushed document"})
	if err := leader.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"the first document in the log", "the second", "the last"} {
		upsert(t, docs, Document{ID: text[4:], Vector: []float32{3, 4}, Text: text})
	}
	others := map[string]*DB{"follower": open(t, dir, nil), "reader": open(t, dir, &Options{ReadOnly: true})}
	stop := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() {
		for n := 0; n < 100_000; n++ { // the head takes them
			select {
			case <-stop:
				return
			default:
			}
			if _, err := docs.Upsert(ctx, Document{ID: "busy", Vector: []float32{5, float32(n)}}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer busy.Wait()
	defer close(stop)

	vector := []byte{0, 0, 128, 63, 0, 0, 0, 64} // of a
	for _, damage := range []struct{ pattern, content string }{
		{"seg/*.vec", string(vector)},
		{"wal/*.wal", "the second"},
		{"meta.bolt", "a flushed document"},
	} {
		for name, vdb := range others {
			if found := checksOf(t, vdb); len(found) > 0 {
				t.Fatalf("%s, before %s is damaged: %v", name, damage.pattern, found)
			}
		}
		file, at := place(t, filepath.Join(dir, damage.pattern), damage.content)
		for name, vdb := range others {
			flip(t, file, at)
			found := checksOf(t, vdb)
			flip(t, file, at) // as it was
			if !slices.ContainsFunc(found, func(p Problem) bool { return strings.HasSuffix(file, filepath.FromSlash(p.File)) }) {
				t.Errorf("%s: %s is damaged, found: %v", name, file, found)
			}
		}
	}
}

// place returns the place of some content, which one file of a pattern holds once.
func place(t *testing.T, pattern, content string) (file string, at int64) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	times := 0
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(b, []byte(content)); n > 0 {
			times += n
			file, at = name, int64(bytes.Index(b, []byte(content)))
		}
	}
	if times != 1 {
		t.Fatalf("%s: %q is there %d times", pattern, content, times)
	}
	return file, at
}

// TestCheckOfAnEarlierState checks a database in a process that reads, after another one has
// written and was killed: the log is of a state that the reader does not have.
func TestCheckOfAnEarlierState(t *testing.T) {
	bounded(t)
	ctx, dir, log := t.Context(), t.TempDir(), t.TempDir()
	vdb := open(t, dir, nil)
	upsert(t, collection(t, vdb, "c", Schema{Dim: 1}), Document{ID: "a", Vector: []float32{1}})
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	reader := open(t, dir, &Options{ReadOnly: true})
	vdb = open(t, dir, nil)
	for n := range 3 {
		upsert(t, collectionOf(t, vdb, "c"), Document{ID: "a", Vector: []float32{float32(n)}})
		if err := vdb.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	wal := filepath.Join(dir, "wal")
	if err := os.CopyFS(log, os.DirFS(wal)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(vdb.Close(), os.CopyFS(wal, os.DirFS(log))); err != nil { // as if it was killed
		t.Fatal(err)
	}
	for _, p := range checksOf(t, reader) {
		t.Error(p)
	}
}
