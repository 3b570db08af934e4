package db

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// The tests in this file cover states in which the two roots, or the database and the
// disk, disagree. Each kills a mutant in fuzz/torture.

// rotNewestRoot damages the newest root of meta.bolt and returns its number.
func rotNewestRoot(t *testing.T, dir string) uint64 {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, engine.MetaName), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	roots, newest, err := boltcheck.Roots(f, st.Size())
	if err == nil {
		_, err = f.WriteAt([]byte{0xa5}, int64(newest)*boltcheck.PageSize+20)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return roots[newest].TxID
}

// newestRoot returns the number of the newest root of meta.bolt.
func newestRoot(t *testing.T, dir string) uint64 {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, engine.MetaName))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	roots, newest, err := boltcheck.Roots(f, st.Size())
	if err != nil || roots[0].Err != nil || roots[1].Err != nil {
		t.Fatal(roots, err)
	}
	return roots[newest].TxID
}

// retired makes a database of a killed process. Its newest root has retired segments that
// the older root needs. The log holds some batches that no root contains.
func retired(t *testing.T, batches int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	vdb := open(t, dir, &Options{Compaction: Manual})
	c := collection(t, vdb, "c", Schema{Dim: 1})
	for i := range 2 {
		upsert(t, c, Document{ID: fmt.Sprint(i), Vector: []float32{1}})
		flush(t, vdb)
	}
	if err := vdb.engine.Settle(); err != nil {
		t.Fatal(err)
	}
	merges := inspect(vdb).Merges()
	if len(merges) != 1 {
		t.Fatalf("%d merges", len(merges))
	}
	if err := merges[0](t.Context()); err != nil {
		t.Fatal(err)
	}
	if obsolete := inspect(vdb).State().Obsolete; len(obsolete) != 2 {
		t.Fatalf("obsolete: %v", obsolete)
	}
	for i := range batches {
		upsert(t, c, Document{ID: fmt.Sprint("new", i), Vector: []float32{1}})
	}
	lose(t, vdb)
	return dir
}

// Open must leave segments that the newest root has retired until another commit: the
// process may be killed again, and the newest root may be damaged by then. This holds with
// and without batches to recover.
func TestOlderRootAfterOpen(t *testing.T) {
	for batches := range 2 {
		dir := retired(t, batches)
		cut, swept := errors.New("cut"), false
		_, err := Open(dir, &Options{tests: testOptions{hook: func(op vfs.Op) error {
			swept = swept || op.Kind == vfs.OpReadDir && op.Name == engine.SegDir
			if swept && op.Kind == vfs.OpReadDir && op.Name == engine.WALDir { // before any commit
				return cut
			}
			return nil
		}}})
		if !errors.Is(err, cut) || !swept {
			t.Fatal(err)
		}
		rotNewestRoot(t, dir)
		vdb := open(t, dir, nil)
		if n := must(collection(t, vdb, "c", Schema{}).Info()).Documents; n != 2+batches {
			t.Errorf("%d batches to recover: %d documents", batches, n)
		}
		check(t, vdb)
	}
}

// An interrupted commit may have overwritten pages of the older root. So Open commits
// after an unclean end even without batches to recover, and either root works from then
// on.
func TestUncleanEndIsCommitted(t *testing.T) {
	dir := retired(t, 0)
	before := newestRoot(t, dir)
	vdb := open(t, dir, &Options{Compaction: Manual})
	if after := newestRoot(t, dir); after <= before {
		t.Errorf("root %d, %d before Open", after, before)
	}
	lose(t, vdb)
	rotNewestRoot(t, dir)
	vdb = open(t, dir, nil)
	if n := must(collection(t, vdb, "c", Schema{}).Info()).Documents; n != 2 {
		t.Errorf("%d documents", n)
	}
	check(t, vdb)
	// A clean end needs no commit.
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	before = newestRoot(t, dir)
	open(t, dir, nil)
	if after := newestRoot(t, dir); after != before {
		t.Errorf("root %d, %d before Open of a database that was closed", after, before)
	}
}

// A commit in doubt may be on disk: the segments that it names must stay.
func TestFlushInDoubtKeepsSegments(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	broken := false
	vdb := open(t, dir, &Options{Compaction: Manual, tests: testOptions{hook: func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		// Log files are released after the commit.
		if broken && (op.Kind == vfs.OpRename || op.Kind == vfs.OpRemove) && path.Dir(op.Name) == engine.WALDir {
			panic("after the commit")
		}
		return nil
	}}})
	c := collection(t, vdb, "c", Schema{Dim: 1})
	upsert(t, c, Document{ID: "a", Vector: []float32{1}})
	flush(t, vdb)
	upsert(t, c, Document{ID: "b", Vector: []float32{1}})
	mu.Lock()
	broken = true
	mu.Unlock()
	if err := vdb.Flush(t.Context()); !errors.Is(err, ErrUnknown) {
		t.Fatal(err)
	}
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	vdb = open(t, dir, nil)
	if n := must(collection(t, vdb, "c", Schema{}).Info()).Documents; n != 2 {
		t.Errorf("%d documents", n)
	}
	check(t, vdb)
}

// A log file that cannot be released after a commit stays, and nothing else happens. The next
// commit releases it.
func TestLogIsReleasedLater(t *testing.T) {
	dir := t.TempDir()
	var broken atomic.Bool
	vdb := open(t, dir, &Options{Compaction: Manual, tests: testOptions{hook: func(op vfs.Op) error {
		if broken.Load() && (op.Kind == vfs.OpRename || op.Kind == vfs.OpRemove) && path.Dir(op.Name) == engine.WALDir &&
			path.Ext(op.Name) == ".wal" {
			return syscall.EMFILE
		}
		return nil
	}}})
	c := collection(t, vdb, "c", Schema{Dim: 1})
	put := func(id string) {
		t.Helper()
		upsert(t, c, Document{ID: id, Vector: []float32{1}})
		flush(t, vdb)
	}
	put("a")
	broken.Store(true)
	put("b")
	put("c")
	logs := func() int { return len(must(filepath.Glob(filepath.Join(dir, engine.WALDir, "*.wal")))) }
	if s := must(vdb.Stats()); s.Failed != "" || !strings.Contains(s.BackgroundError, "release of the log") || logs() != 3 {
		t.Errorf("%d log files, failed %q, trouble %q", logs(), s.Failed, s.BackgroundError)
	}
	broken.Store(false)
	put("d")
	if s := must(vdb.Stats()); s.Failed != "" || s.BackgroundError != "" || logs() != 1 {
		t.Errorf("%d log files, failed %q, trouble %q", logs(), s.Failed, s.BackgroundError)
	}
	broken.Store(true)
	put("e")
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	vdb = open(t, dir, nil)
	if n := must(collectionOf(t, vdb, "c").Info()).Documents; n != 5 {
		t.Errorf("%d documents", n)
	}
	check(t, vdb)
}

// Without a free descriptor a commit fails, or the copy of meta.bolt that takes less space.
// meta.bolt is unchanged then, and both succeed later.
func TestNoDescriptorForMeta(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, at := range []vfs.Op{
		{Kind: vfs.OpRemove, Name: engine.SumsName},
		{Kind: vfs.OpCreate, Name: engine.TmpDir + "/" + engine.MetaName + ".rewrite"},
		{Kind: vfs.OpRename, Name: engine.TmpDir + "/" + engine.MetaName + ".rewrite"},
	} {
		var broken atomic.Bool
		hits := 0
		vdb := open(t, dir, &Options{Compaction: Manual, tests: testOptions{hook: func(op vfs.Op) error {
			if broken.Load() && op.Kind == at.Kind && op.Name == at.Name {
				hits++
				return syscall.EMFILE
			}
			return nil
		}}})
		c := collection(t, vdb, "c", Schema{})
		broken.Store(at.Kind == vfs.OpRemove)
		ids := make([]string, 400)
		for i := range ids {
			text := make([]byte, 6000)
			for j := range text {
				text[j] = byte('a' + rng.IntN(26))
			}
			ids[i] = fmt.Sprint(i)
			upsert(t, c, Document{ID: ids[i], Text: string(text)})
		}
		fails := func(err error) {
			t.Helper()
			if !errors.Is(err, syscall.EMFILE) || errors.Is(err, ErrUnknown) || hits == 0 {
				t.Errorf("%v %s: %v, met %d times", at.Kind, at.Name, err, hits)
			}
			upsert(t, c, Document{ID: "then"})
			broken.Store(false)
		}
		if broken.Load() {
			fails(vdb.Flush(ctx))
		}
		flush(t, vdb)
		if _, err := c.Delete(ctx, ids...); err != nil {
			t.Fatal(err)
		}
		flush(t, vdb)
		if at.Kind != vfs.OpRemove {
			broken.Store(true)
			fails(vdb.Compact(ctx))
		}
		if err := vdb.Compact(ctx); err != nil {
			t.Fatal(err)
		}
		if st := must(os.Stat(filepath.Join(dir, engine.MetaName))); st.Size() > 2<<20 {
			t.Errorf("meta.bolt has %d bytes", st.Size())
		}
		if n := must(c.Info()).Documents; n != 1 {
			t.Errorf("%d documents", n)
		}
		check(t, vdb)
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Rows that are deleted and flushed during the compaction of their segment stay deleted,
// also in the next process.
func TestCompactionKeepsDeletes(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	during := func() {}
	vdb := open(t, dir, &Options{Compaction: Manual, tests: testOptions{hook: func(op vfs.Op) error {
		if op.Kind == vfs.OpCreate && path.Dir(op.Name) == engine.TmpDir {
			do := during
			during = func() {}
			do()
		}
		return nil
	}}})
	c := collection(t, vdb, "c", Schema{Dim: 1})
	for i := range 4 {
		upsert(t, c, Document{ID: fmt.Sprint(i), Vector: []float32{1}})
		if i%2 == 1 {
			flush(t, vdb)
		}
	}
	merges := inspect(vdb).Merges()
	if len(merges) != 1 || len(segmentsOf(vdb)) != 2 {
		t.Fatalf("%d merges of %d segments", len(merges), len(segmentsOf(vdb)))
	}
	called := false
	during = func() {
		called = true
		if _, err := c.Delete(ctx, "0"); err != nil {
			t.Error(err)
		}
		flush(t, vdb)
		if _, err := c.Delete(ctx, "1"); err != nil { // not flushed
			t.Error(err)
		}
	}
	if err := merges[0](ctx); err != nil {
		t.Fatal(err)
	}
	if !called {
		t.Fatal("nothing happened during the compaction")
	}
	for _, again := range []bool{false, true} {
		if again {
			lose(t, vdb)
			vdb = open(t, dir, nil)
			c = collection(t, vdb, "c", Schema{})
		}
		res, err := c.Search(ctx, Query{Near: Vector{1}, K: 9})
		if err != nil {
			t.Fatal(err)
		}
		if got := ids(res.Hits); !slices.Equal(got, []string{"2", "3"}) || must(c.Info()).Documents != 2 {
			t.Errorf("opened again %t: %v of %d", again, got, must(c.Info()).Documents)
		}
		check(t, vdb)
	}
}

// A failed directory sync is not retried: the kernel may have dropped the changes, and a
// second sync would succeed without them. Writes are refused until the next Open. Reads
// go on, and the next Open finds everything.
func TestFailedDirectorySync(t *testing.T) {
	ctx := t.Context()
	for n := 0; ; n++ {
		dir := t.TempDir()
		var mu sync.Mutex
		seen, failed := 0, ""
		hook := func(op vfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if op.Kind != vfs.OpSyncDir {
				return nil
			}
			if failed == op.Name {
				t.Errorf("sync %d: %s is synced again", n, op.Name)
			}
			if seen++; seen-1 == n {
				failed = op.Name
				return syscall.EIO
			}
			return nil
		}
		acked, refused := []string{}, false
		vdb, err := Open(dir, &Options{HeadSize: 1 << 10, Compaction: Manual, tests: testOptions{hook: hook}})
		if err == nil {
			var c *Collection
			if c, err = vdb.OpenCollection(ctx, "c", Schema{Dim: 1}); err == nil {
				for i := range 40 {
					id := fmt.Sprintf("%03d", i)
					if _, err = c.Upsert(ctx, Document{ID: id, Vector: []float32{1}, Text: strings.Repeat("x", 200)}); err == nil {
						acked = append(acked, id)
					}
					if i%10 == 9 {
						err = errors.Join(err, vdb.Compact(ctx))
					}
				}
				for _, id := range acked {
					if _, err := c.Get(ctx, id, 0); err != nil {
						t.Errorf("sync %d of %s failed: %v", n, failed, err)
					}
				}
			}
			refused = errors.Is(err, ErrUnknown)
			if err := vdb.Close(); err != nil && failed == "" {
				t.Fatal(err)
			}
		}
		mu.Lock()
		which := failed
		mu.Unlock()
		if which == "" {
			if n < 10 {
				t.Errorf("only %d syncs of directories", n)
			}
			return
		}
		if len(acked) > 0 && len(acked) < 40 && !refused {
			t.Errorf("sync %d of %s failed: the last write says %v", n, which, err)
		}
		vdb = open(t, dir, nil)
		c := collection(t, vdb, "c", Schema{Dim: 1})
		for _, id := range acked {
			if _, err := c.Get(ctx, id, 0); err != nil {
				t.Errorf("sync %d of %s failed: %v", n, which, err)
			}
		}
		check(t, vdb)
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A write of a follower that syncs always is on disk before it is acknowledged, whatever the policy
// of the process that leads.
func TestSyncForAFollower(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncNever, SyncInterval, SyncAlways} {
		var dirty atomic.Bool // the log has unsynced writes
		note := func(op vfs.Op) error {
			if path.Dir(op.Name) == engine.WALDir && (op.Kind == vfs.OpWrite || op.Kind == vfs.OpSync) {
				dirty.Store(op.Kind == vfs.OpWrite)
			}
			return nil
		}
		vdb := open(t, t.TempDir(), &Options{Sync: policy, SyncEvery: time.Hour, Compaction: Manual, tests: testOptions{hook: note}})
		c := collection(t, vdb, "c", Schema{Dim: 1})
		upsert(t, c, Document{ID: "a"}, Document{ID: "b"}, Document{ID: "c"}, Document{ID: "d"})
		remove := func(id string) []engine.Op { return []engine.Op{{Kind: engine.OpDelete, Collection: "c", ID: id}} }
		for i, sync := range []bool{false, true} {
			id := engine.RequestID{Writer: [16]byte{1}, Number: uint64(2 * i)}
			if n, err := writeSynced(vdb, id, remove(string(rune('a'+2*i))), sync); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			if want := policy != SyncAlways && !sync; dirty.Load() != want {
				t.Errorf("policy %v, sync %t: the log is dirty: %t", policy, sync, dirty.Load())
			}
			id.Number++
			n, err := vdb.engine.ExclusivelyFor(t.Context(), id, sync, func(*engine.Group) ([]engine.Op, error) {
				return remove(string(rune('b' + 2*i))), nil
			})
			if n != 1 || err != nil {
				t.Fatal(n, err)
			}
			if want := policy != SyncAlways && !sync; dirty.Load() != want {
				t.Errorf("policy %v, sync %t: the log is dirty after a decision: %t", policy, sync, dirty.Load())
			}
		}
	}
}

// Published batches are durable in the database before a version names them, under every
// policy. The version is chosen before the sync, so batches written after that sync are not
// in it.
func TestPublishSyncsTheLog(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncNever, SyncInterval, SyncAlways} {
		var mu sync.Mutex
		var vdb *DB
		dirty := map[string]bool{} // files of the log with unsynced writes
		publishing, pinned, synced := false, false, false
		vdb = open(t, t.TempDir(), &Options{Sync: policy, SyncEvery: time.Hour, Compaction: Manual, tests: testOptions{hook: func(op vfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case path.Dir(op.Name) != engine.WALDir:
			case op.Kind == vfs.OpWrite:
				dirty[op.Name] = true
			case op.Kind == vfs.OpSync:
				delete(dirty, op.Name)
				if publishing {
					synced, pinned = true, inspect(vdb).Pinned()
				}
			}
			return nil
		}}})
		c := collection(t, vdb, "c", Schema{Dim: 1})
		versions := 0
		p := publisher(t, vdb, t.TempDir(), &PublishOptions{hook: func(op vfs.Op) error {
			if op.Kind == vfs.OpRename && path.Dir(op.To) == engine.ManifestDir {
				mu.Lock()
				defer mu.Unlock()
				if versions++; len(dirty) > 0 {
					t.Errorf("policy %v: published before %v was synced", policy, dirty)
				}
			}
			return nil
		}})
		publish(t, p)
		for i := range 3 { // each adds a log file
			upsert(t, c, Document{ID: fmt.Sprint(i), Vector: []float32{1}})
			mu.Lock()
			if policy != SyncAlways && len(dirty) == 0 {
				t.Fatalf("policy %v: the log was synced by a write", policy)
			}
			publishing, synced, pinned = true, false, false
			mu.Unlock()
			publish(t, p)
			mu.Lock()
			if policy != SyncAlways && !(synced && pinned) {
				t.Errorf("policy %v: the log was synced: %t, after the version was chosen: %t", policy, synced, pinned)
			}
			publishing = false
			mu.Unlock()
		}
		if versions != 4 {
			t.Errorf("policy %v: %d versions", policy, versions)
		}
	}
}
