package db

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/boltcheck"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/manifest"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// byHand makes a reader follow, and leaves it to Refresh when.
const byHand = 1000 * time.Hour

func publisher(t testing.TB, vdb *DB, dir string, opts *PublishOptions) *Publisher {
	t.Helper()
	p, err := vdb.NewPublisher(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func publish(t testing.TB, p *Publisher) Publication {
	t.Helper()
	done, err := p.Publish(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func refresh(t testing.TB, vdb *DB) bool {
	t.Helper()
	swapped, err := vdb.Refresh(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return swapped
}

// all returns the documents of all collections.
func all(t testing.TB, vdb interface {
	Collections() ([]CollectionInfo, error)
	Collection(string) (*Collection, error)
}) map[string]map[string]Document {
	t.Helper()
	state := map[string]map[string]Document{}
	for _, info := range must(vdb.Collections()) {
		c, err := vdb.Collection(info.Name)
		if err != nil {
			t.Fatal(err)
		}
		state[info.Name] = dump(t, c)
	}
	return state
}

func TestPublish(t *testing.T) {
	dir, folder := t.TempDir(), t.TempDir()
	vdb := open(t, dir, nil)
	p := publisher(t, vdb, folder, &PublishOptions{Keep: 2})
	first := publish(t, p)
	if !first.New || first.Version != 1 || first.Files != 2 {
		t.Errorf("an empty database: %+v", first)
	}
	var failures bytes.Buffer // a folder has no leader, and that is no failure
	replica := open(t, folder, &Options{ReadOnly: true, Follow: byHand,
		Logger: slog.New(slog.NewTextHandler(&failures, &slog.HandlerOptions{Level: slog.LevelError}))})
	defer func() {
		if failures.Len() > 0 {
			t.Errorf("logged: %s", &failures)
		}
	}()
	if n := len(must(replica.Collections())); n != 0 {
		t.Errorf("%d collections", n)
	}
	c := collection(t, vdb, "c", Schema{Dim: 2})
	upsert(t, c, Document{ID: "a", Vector: []float32{1, 0}, Text: "one", Metadata: Metadata{"n": int64(1)}})
	second := publish(t, p)
	if !second.New || second.Version != 2 || second.NewFiles != 1 || second.NewBytes > 10_000 {
		t.Errorf("a small batch: %+v", second)
	}
	if again := publish(t, p); again.New || again.Version != 2 || again.NewFiles != 0 {
		t.Errorf("nothing new: %+v", again)
	}
	if len(must(replica.Collections())) != 0 {
		t.Error("the reader did not keep its version")
	}
	old, err := replica.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if !refresh(t, replica) || refresh(t, replica) {
		t.Error("not one newer version")
	}
	rc, err := replica.Collection("c")
	if err != nil {
		t.Fatal(err)
	}
	// The handle stays good over all that follows.
	for i := range 5 {
		switch i {
		case 1:
			flush(t, vdb)
		case 3:
			if err := vdb.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		upsert(t, c, Document{ID: "a", Vector: []float32{1, float32(i)}}, Document{ID: fmt.Sprint(i), Text: "more"})
		publish(t, p)
		if !refresh(t, replica) {
			t.Fatalf("round %d: no newer version", i)
		}
		if diff := gocmp.Diff(dump(t, c), dump(t, rc)); diff != "" {
			t.Fatalf("round %d: %s", i, diff)
		}
		if n := len(must(old.Collections())); n != 0 {
			t.Errorf("round %d: the snapshot has %d collections", i, n)
		}
	}
	st := must(replica.Stats())
	if st.Replica == nil || st.Replica.Version != 7 || st.Replica.Error != "" || st.Batches != must(vdb.Stats()).Batches || st.Versions != 2 {
		t.Errorf("%+v, %+v", st, st.Replica)
	}
	if _, err := rc.Upsert(t.Context(), Document{ID: "x"}); !errors.Is(err, ErrReadOnly) {
		t.Errorf("write: %v", err)
	}
	check(t, replica)
	if names := files(t, folder, engine.ManifestDir); len(names) != 2 {
		t.Errorf("kept %q", names)
	}
	if stray := strays(t, folder); len(stray) > 0 && runtime.GOOS != "windows" { // where files stay that are mapped
		t.Errorf("no version has %q", stray)
	}
	// A compaction changes no document, and which files a version consists of.
	flush(t, vdb)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p = publisher(t, vdb, folder, &PublishOptions{Keep: 2}) // begins with a copy of meta.bolt, which names segments
	publish(t, p)
	upsert(t, c, Document{ID: "a", Vector: []float32{1, 7}})
	flush(t, vdb)
	publish(t, p)
	if err := vdb.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if done := publish(t, p); !done.New || done.Batch != must(vdb.Stats()).Batches {
		t.Errorf("after a compaction: %+v", done)
	}
	late := open(t, folder, &Options{ReadOnly: true, Follow: byHand})
	check(t, late)
	if !refresh(t, replica) {
		t.Error("no newer version")
	}
	check(t, replica)
	for i, vdb := range []*DB{replica, late} {
		if diff := gocmp.Diff(dump(t, c), dump(t, collectionOf(t, vdb, "c"))); diff != "" {
			t.Errorf("reader %d: %s", i, diff)
		}
	}
	if n := openStores(t, folder); n > 3 { // of both readers, and of the snapshot
		t.Errorf("%d copies of meta.bolt are open", n)
	}
	// A backup of a replica is a database.
	restored := filepath.Join(t.TempDir(), "restored")
	if err := replica.Backup(t.Context(), restored); err != nil {
		t.Fatal(err)
	}
	back := open(t, restored, nil)
	check(t, back)
	if diff := gocmp.Diff(all(t, vdb), all(t, back)); diff != "" {
		t.Error(diff)
	}
}

func collectionOf(t testing.TB, vdb *DB, name string) *Collection {
	t.Helper()
	c, err := vdb.Collection(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// openStores returns how many copies of meta.bolt this process has open, 0 where the system does
// not say.
func openStores(t testing.TB, folder string) int {
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir("/proc/self/fd")
	names := map[string]int{}
	for _, e := range entries {
		to, _ := os.Readlink("/proc/self/fd/" + e.Name())
		to = strings.TrimSuffix(to, " (deleted)")
		if strings.HasPrefix(to, filepath.Join(folder, engine.MetaDir)) && strings.HasSuffix(to, ".bolt") {
			names[to]++
		}
	}
	return len(names)
}

// TestRefreshFails has each operation of Refresh fail, for a version with another
// meta.bolt and for a version with new batches only. The reader stays on its
// version, whole, and takes the new one the next time.
func TestRefreshFails(t *testing.T) {
	vdb := open(t, t.TempDir(), &Options{tests: testOptions{codedBytes: 1}, Compaction: Manual})
	folder := t.TempDir()
	p := publisher(t, vdb, folder, nil)
	c := collection(t, vdb, "c", Schema{Dim: 2})
	publish(t, p)
	count, at := 0, 1<<30
	replica := open(t, folder, &Options{ReadOnly: true, Follow: byHand, tests: testOptions{codedBytes: 1, hook: func(vfs.Op) error {
		if count++; count == at {
			return syscall.EIO
		}
		return nil
	}}})
	round, failed, stride := 0, 0, 7
	if *everyStep {
		stride = 1
	}
	for _, flushed := range []bool{false, true} {
		for step := 1; ; step += stride {
			before := all(t, replica)
			for range 2 {
				round++
				upsert(t, c, Document{ID: fmt.Sprint(round % 20), Vector: []float32{1, float32(round)}})
				if !flushed {
					publish(t, p) // a file of the log each
				}
			}
			if flushed {
				flush(t, vdb)
				upsert(t, c, Document{ID: "n", Text: fmt.Sprint(round)})
				publish(t, p)
			}
			count, at = 0, step
			swapped, err := replica.Refresh(t.Context())
			ended := count < at
			at = 1 << 30
			if err != nil {
				failed++
				if swapped || !errors.Is(err, syscall.EIO) {
					t.Fatalf("step %d: %v, %v", step, swapped, err)
				}
				if diff := gocmp.Diff(before, all(t, replica)); diff != "" {
					t.Fatalf("step %d, %v: %s", step, err, diff)
				}
			}
			if _, err := replica.Refresh(t.Context()); err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			if diff := gocmp.Diff(all(t, vdb), all(t, replica)); diff != "" {
				t.Fatalf("step %d: %s", step, diff)
			}
			if ended {
				break
			}
			if round%20 == 0 { // or the log grows
				flush(t, vdb)
			}
		}
	}
	if failed < 10 {
		t.Errorf("%d failures only", failed)
	}
	if n := openStores(t, folder); n > 1 {
		t.Errorf("%d copies of meta.bolt are open", n)
	}
}

// TestRefreshCutShort has the log of a version fail behind its first batches, which the reader has
// replayed by then. They must not be there twice when it tries again.
func TestRefreshCutShort(t *testing.T) {
	vdb := open(t, t.TempDir(), &Options{Compaction: Manual})
	folder := t.TempDir()
	p := publisher(t, vdb, folder, nil)
	c := collection(t, vdb, "c", Schema{Dim: 2})
	publish(t, p)
	frames, at := 0, 0
	replica := open(t, folder, &Options{ReadOnly: true, Follow: byHand, tests: testOptions{hook: func(op vfs.Op) error {
		if op.Kind == vfs.OpRead && strings.HasPrefix(op.Name, engine.WALDir+"/") && op.Off == 4096 { // behind the header
			if frames++; frames == at {
				return syscall.EIO
			}
		}
		return nil
	}}})
	for i := range 3 {
		before := all(t, replica)
		for j := range 3 {
			upsert(t, c, Document{ID: fmt.Sprint(i, j), Vector: []float32{1, 2}, Text: "new"}, Document{ID: "same", Vector: []float32{float32(i), float32(j)}})
			publish(t, p)
		}
		frames, at = 0, 3
		if _, err := replica.Refresh(t.Context()); !errors.Is(err, syscall.EIO) {
			t.Fatalf("round %d: %v", i, err)
		}
		if diff := gocmp.Diff(before, all(t, replica)); diff != "" {
			t.Fatalf("round %d: %s", i, diff)
		}
		at = 0
		if !refresh(t, replica) {
			t.Fatalf("round %d: no newer version", i)
		}
		if diff := gocmp.Diff(all(t, vdb), all(t, replica)); diff != "" {
			t.Fatalf("round %d: %s", i, diff)
		}
		check(t, replica)
	}
}

// files lists a directory of a folder, as paths.
func files(t testing.TB, folder, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(folder, dir))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	return names
}

// strays lists the files that belong to no version.
func strays(t testing.TB, folder string) []string {
	t.Helper()
	named := map[string]bool{}
	for _, m := range versions(t, folder) {
		for _, f := range m.Files {
			named[f.Path] = true
		}
	}
	var out []string
	for _, dir := range []string{engine.MetaDir, engine.SegDir, engine.WALDir, engine.TmpDir, engine.TmpDir + "/" + engine.SegDir, engine.TmpDir + "/" + engine.WALDir} {
		for _, name := range files(t, folder, dir) {
			if !named[name] {
				out = append(out, name)
			}
		}
	}
	return out
}

// versions reads all manifests, and compares the files of each with it.
func versions(t testing.TB, folder string) []*manifest.Manifest {
	t.Helper()
	fsys, err := vfs.Open(folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer fsys.Close()
	numbers, err := engine.Manifests(fsys)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var out []*manifest.Manifest
	for _, number := range numbers {
		m, err := engine.ReadManifest(fsys, number)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range m.Files {
			if err := engine.Compare(t.Context(), fsys, f); err != nil {
				t.Errorf("version %d: %v", number, err)
			}
		}
		out = append(out, m)
	}
	return out
}

// A copier carries files from one folder to another, as badly as the rules allow.
type copier struct {
	t        *testing.T
	rng      *rand.Rand
	from, to string
	whole    map[string]bool
}

// step copies some files, in any order. Of a file it may copy a part, or make it
// as long as it will be before it has content.
func (c *copier) step(all bool) {
	c.t.Helper()
	var names []string
	for _, dir := range []string{".", engine.ManifestDir, engine.MetaDir, engine.SegDir, engine.WALDir, engine.TmpDir} {
		names = append(names, files(c.t, c.from, dir)...)
		if err := os.MkdirAll(filepath.Join(c.to, dir), 0o700); err != nil {
			c.t.Fatal(err)
		}
	}
	c.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	if !all {
		names = names[:c.rng.IntN(len(names)+1)]
	}
	for _, name := range names {
		if c.whole[name] {
			continue
		}
		b, err := os.ReadFile(filepath.Join(c.from, name))
		if err != nil {
			c.t.Fatal(err)
		}
		original, part := slices.Clone(b), c.rng.IntN(len(b)+1)
		switch way := c.rng.IntN(5); {
		case all || way > 1:
		case way == 0:
			b = b[:part]
		case way == 1:
			clear(b[part:])
		}
		// The file may be whole although bytes are left out, if they are zeros:
		// then a replica may have opened it, and it is not written again.
		c.whole[name] = bytes.Equal(b, original)
		if err := os.WriteFile(filepath.Join(c.to, name), b, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	if all || c.rng.IntN(3) == 0 { // delete the documents that are gone
		for _, dir := range []string{engine.ManifestDir, engine.MetaDir, engine.SegDir, engine.WALDir} {
			for _, name := range files(c.t, c.to, dir) {
				if _, err := os.Stat(filepath.Join(c.from, name)); errors.Is(err, fs.ErrNotExist) {
					if err := os.Remove(filepath.Join(c.to, name)); err != nil && filepath.Separator == '/' {
						c.t.Fatal(err)
					}
					delete(c.whole, name)
				}
			}
		}
	}
}

// someAnswers searches all collections, by vector and by text.
func someAnswers(t testing.TB, vdb *DB) map[string][]Hit {
	t.Helper()
	hits := map[string][]Hit{}
	for _, info := range must(vdb.Collections()) {
		c, err := vdb.Collection(info.Name)
		if err != nil {
			t.Fatal(err)
		}
		for i, q := range []Query{
			{Near: Vector{1, 2, 3}, K: 5, Where: filter.Gte("n", 3)},
			{Near: Vector{-1, 0, 1}, K: 100, Select: IDsOnly},
			{Text: strings.Join(textWords[:4], " "), K: 10},
		} {
			res, err := c.Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			hits[fmt.Sprint(info.Name, i)] = res.Hits
		}
	}
	return hits
}

// TestReplicaModel has a database that changes, its published folder, a second
// folder to which a careless copier carries the first, and a reader of the second.
// The reader only ever shows published versions, in order.
func TestReplicaModel(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed", seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			ctx := t.Context()
			vdb := open(t, t.TempDir(), &Options{HeadSize: 20_000, tests: testOptions{codedBytes: 1}, Sync: SyncPolicy(seed % 3)})
			folder, copied := t.TempDir(), t.TempDir()
			p := publisher(t, vdb, folder, &PublishOptions{Keep: 1 + rng.IntN(4)})
			c := &copier{t: t, rng: rng, from: folder, to: copied, whole: map[string]bool{}}
			published := map[uint64]map[string]map[string]Document{}
			answered := map[uint64]map[string][]Hit{}
			type kept struct {
				snap    *Snapshot
				version uint64
			}
			var replica *DB
			var snaps []kept
			defer func() {
				for _, k := range snaps {
					k.snap.Close()
				}
				if replica != nil {
					replica.Close()
				}
			}()
			last, seen := uint64(0), 0
			compareWith := func(version uint64, got map[string]map[string]Document) {
				t.Helper()
				if diff := gocmp.Diff(published[version], got); diff != "" {
					t.Fatalf("version %d: %s", version, diff)
				}
			}
			look := func() {
				t.Helper()
				if replica == nil {
					r, err := Open(copied, &Options{ReadOnly: true, Follow: byHand, tests: testOptions{codedBytes: 1}})
					if err != nil {
						return
					}
					replica = r
				} else if _, err := replica.Refresh(ctx); err != nil && must(replica.Stats()).Replica.Error == "" {
					t.Fatalf("%v is not in the stats", err)
				}
				version := must(replica.Stats()).Replica.Version
				if version < last {
					t.Fatalf("version %d after %d", version, last)
				}
				if version > last {
					seen++
				}
				last = version
				compareWith(version, all(t, replica))
				if diff := gocmp.Diff(answered[version], someAnswers(t, replica)); diff != "" {
					t.Fatalf("version %d: %s", version, diff)
				}
				if k := rng.IntN(4); k == 0 && len(snaps) < 3 {
					s, err := replica.Snapshot()
					if err != nil {
						t.Fatal(err)
					}
					snaps = append(snaps, kept{s, version})
				} else if k == 1 && len(snaps) > 0 {
					compareWith(snaps[0].version, all(t, snaps[0].snap))
					snaps[0].snap.Close()
					snaps = snaps[1:]
				}
			}
			stop := func() { // the next look starts it again
				t.Helper()
				for _, k := range snaps {
					k.snap.Close()
				}
				snaps = nil
				if replica != nil {
					if err := replica.Close(); err != nil {
						t.Fatal(err)
					}
				}
				replica, last = nil, 0 // a removal may not have come yet
			}
			names := []string{"a", "b"}
			schema := Schema{Dim: 3, Text: &TextIndex{Language: "none"}}
			for step := range 120 {
				name := names[rng.IntN(2)]
				switch k := rng.IntN(20); {
				case k < 10:
					c := collection(t, vdb, name, schema)
					var docs []Document
					for range 1 + rng.IntN(8) {
						d := Document{ID: fmt.Sprint(rng.IntN(60)), Text: randomText(rng, 12), Metadata: Metadata{"n": int64(rng.IntN(6))}}
						if rng.IntN(4) > 0 {
							d.Vector = randomVectors(rng, 1, 3)[0]
						}
						docs = append(docs, d)
					}
					slices.SortFunc(docs, func(a, b Document) int { return cmp.Compare(a.ID, b.ID) })
					docs = slices.CompactFunc(docs, func(a, b Document) bool { return a.ID == b.ID })
					upsert(t, c, docs...)
				case k < 12:
					c := collection(t, vdb, name, schema)
					if _, err := c.DeleteWhere(ctx, filter.Eq("n", rng.IntN(6))); err != nil {
						t.Fatal(err)
					}
				case k == 12:
					flush(t, vdb)
				case k == 13:
					if err := vdb.Compact(ctx); err != nil {
						t.Fatal(err)
					}
				case k == 14 && rng.IntN(3) == 0:
					if err := vdb.Drop(ctx, name); err != nil && !errors.Is(err, ErrNotFound) {
						t.Fatal(err)
					}
				case k == 15 && rng.IntN(2) == 0: // the process that publishes is started again
					if err := p.Close(); err != nil {
						t.Fatal(err)
					}
					vdb = reopen(t, vdb, &Options{HeadSize: 20_000, tests: testOptions{codedBytes: 1}})
					p = publisher(t, vdb, folder, nil)
				}
				if rng.IntN(3) == 0 {
					done := publish(t, p)
					published[done.Version], answered[done.Version] = all(t, vdb), someAnswers(t, vdb)
				}
				if rng.IntN(2) == 0 && len(published) > 0 {
					c.step(rng.IntN(6) == 0)
					look()
					if rng.IntN(12) == 0 {
						stop()
					}
				}
				if t.Failed() {
					t.Fatalf("step %d", step)
				}
			}
			done := publish(t, p)
			published[done.Version], answered[done.Version] = all(t, vdb), someAnswers(t, vdb)
			c.step(true)
			look()
			if replica == nil {
				t.Fatal("the copy does not open")
			}
			if v := must(replica.Stats()).Replica.Version; v != done.Version {
				t.Errorf("ends with version %d, want %d", v, done.Version)
			}
			check(t, replica)
			if seen < 3 {
				t.Errorf("saw %d versions only", seen)
			}
		})
	}
}

// TestPublishCrash ends publications at each of their operations, as if the process
// were killed there, and has each operation fail alone, once because the disk is
// full. The folder holds the previous version or the new one, and the next
// publication succeeds.
func TestPublishCrash(t *testing.T) {
	for _, how := range []string{"killed", "failed", "full"} {
		t.Run(how, func(t *testing.T) {
			ctx := t.Context()
			vdb := open(t, t.TempDir(), &Options{tests: testOptions{codedBytes: 1}, Compaction: Manual})
			c := collection(t, vdb, "c", Schema{Dim: 2})
			folder := t.TempDir()
			count, at := 0, 1<<30
			reads := []vfs.Kind{vfs.OpOpen, vfs.OpRead, vfs.OpStat, vfs.OpMap, vfs.OpReadDir, vfs.OpDropCache, vfs.OpLock}
			hook := func(op vfs.Op) error {
				if how == "full" && slices.Contains(reads, op.Kind) {
					return nil
				}
				if count++; count == at || how == "killed" && count > at {
					return map[string]error{"full": syscall.ENOSPC, "failed": syscall.EIO, "killed": syscall.EIO}[how]
				}
				return nil
			}
			states := map[uint64]map[string]map[string]Document{}
			round, ended := 0, false
			change := func() {
				round++
				upsert(t, c, Document{ID: fmt.Sprint(round % 7), Vector: []float32{1, float32(round)}, Text: fmt.Sprint(round)})
				switch round % 4 {
				case 1:
					flush(t, vdb)
				case 2:
					if err := vdb.Compact(ctx); err != nil {
						t.Fatal(err)
					}
				}
			}
			number := uint64(0)
			stride := 3
			if *everyStep {
				stride = 1
			}
			for step := 1; !ended; step += stride {
				change()
				count, at = 0, step
				p, err := vdb.NewPublisher(folder, &PublishOptions{Keep: 2, hook: hook})
				if err == nil {
					if how == "failed" || how == "full" {
						at = 1 << 30
						states[number+1] = all(t, vdb)
						number = publish(t, p).Version
						change()
						count, at = 0, step
					}
					states[number+1] = all(t, vdb)
					var done Publication
					if done, err = p.Publish(ctx); err == nil {
						number = done.Version
						ended = count < at
					}
					if how != "killed" { // it goes on with the same one
						at = 1 << 30
						again := publish(t, p)
						if again.Version < number || again.Version > number+2 { // one may have come to its name and not known it
							t.Fatalf("step %d: version %d after %d", step, again.Version, number)
						}
						number = again.Version
						states[number] = all(t, vdb)
					}
					p.Close()
				}
				if err != nil && !errors.Is(err, syscall.EIO) && !errors.Is(err, ErrNoSpace) {
					t.Fatalf("step %d: %v", step, err)
				}
				ms := versions(t, folder)
				if len(ms) == 0 {
					continue
				}
				if newest := ms[len(ms)-1].Number; newest != number && newest != number+1 {
					t.Fatalf("step %d: version %d, want %d or one more", step, newest, number)
				} else {
					number = newest
				}
				replica, err := Open(folder, &Options{ReadOnly: true, Follow: byHand})
				if err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
				if diff := gocmp.Diff(states[number], all(t, replica)); diff != "" {
					t.Fatalf("step %d, version %d: %s", step, number, diff)
				}
				if err := replica.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if round < 20 {
				t.Errorf("%d rounds only", round)
			}
			p := publisher(t, vdb, folder, nil)
			publish(t, p)
			if stray := strays(t, folder); len(stray) > 0 {
				t.Errorf("no version has %q", stray)
			}
		})
	}
}

// TestPublishOrder holds the operations of publications to the rule that makes them survive power
// cuts: when a manifest gets its name, all that it names is synced, under its name, and nothing of
// it is written later.
func TestPublishOrder(t *testing.T) {
	vdb := open(t, t.TempDir(), &Options{tests: testOptions{codedBytes: 1}, Compaction: Manual})
	c := collection(t, vdb, "c", Schema{Dim: 2})
	folder := t.TempDir()
	dirty := map[string]bool{}       // written and not synced
	unnamed := map[string][]string{} // by directory: names that are not durable
	named := map[string]bool{}       // what any manifest names
	manifests := 0
	hook := func(op vfs.Op) error {
		switch op.Kind {
		case vfs.OpWrite, vfs.OpTruncate, vfs.OpCreate:
			if named[op.Name] {
				t.Errorf("%v of %s, which a manifest names", op.Kind, op.Name)
			}
			dirty[op.Name] = true
		case vfs.OpSync:
			delete(dirty, op.Name)
		case vfs.OpSyncDir:
			delete(unnamed, op.Name)
		case vfs.OpRename:
			if strings.HasPrefix(op.To, engine.TmpDir+"/") {
				break
			}
			if dirty[op.Name] {
				t.Errorf("%s gets its name %s before it is synced", op.Name, op.To)
			}
			dir := path.Dir(op.To)
			if dir != engine.ManifestDir {
				unnamed[dir] = append(unnamed[dir], op.To)
				break
			}
			manifests++
			b, err := os.ReadFile(filepath.Join(folder, op.Name))
			if err != nil {
				t.Error(err)
				break
			}
			m, err := manifest.Decode(b)
			if err != nil {
				t.Error(err)
				break
			}
			for _, f := range m.Files {
				if slices.Contains(unnamed[path.Dir(f.Path)], f.Path) {
					t.Errorf("the directory entry of %s is not durable", f.Path)
				}
				named[f.Path] = true
			}
		case vfs.OpRemove:
			delete(named, op.Name)
		}
		return nil
	}
	p := publisher(t, vdb, folder, &PublishOptions{Keep: 2, hook: hook})
	for i := range 12 {
		upsert(t, c, Document{ID: fmt.Sprint(i), Vector: []float32{1, float32(i)}, Text: "text"})
		if i%3 == 2 {
			flush(t, vdb)
		}
		publish(t, p)
	}
	if manifests != 12 {
		t.Errorf("%d manifests", manifests)
	}
}

// TestReplicaDamage changes files of the next version of a reader, and of the only
// version.
func TestReplicaDamage(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a file that is mapped cannot be written anew")
	}
	vdb := open(t, t.TempDir(), &Options{tests: testOptions{codedBytes: 1}, Compaction: Manual})
	c := collection(t, vdb, "c", Schema{Dim: 2})
	upsert(t, c, Document{ID: "a", Vector: []float32{1, 2}, Text: "first"})
	folder := t.TempDir()
	p := publisher(t, vdb, folder, nil)
	publish(t, p)
	replica := open(t, folder, &Options{ReadOnly: true, Follow: byHand})
	before := all(t, replica)
	upsert(t, c, Document{ID: "b", Vector: []float32{3, 4}, Text: "second"})
	flush(t, vdb)
	upsert(t, c, Document{ID: "c", Vector: []float32{5, 6}, Text: "third"})
	done := publish(t, p)
	ms := versions(t, folder)
	m := ms[len(ms)-1]
	names := []string{engine.ManifestName(done.Version)}
	for _, f := range m.Files {
		if !slices.Contains(ms[0].Files, f) {
			names = append(names, f.Path)
		}
	}
	if len(names) < 6 {
		t.Fatalf("%q is all that is new", names)
	}
	for _, name := range names {
		file := filepath.Join(folder, name)
		good, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		flipped, cut := slices.Clone(good), good[:len(good)-1]
		flipped[len(flipped)/2] ^= 1
		for what, b := range map[string][]byte{"flipped": flipped, "cut": cut, "empty": nil, "longer": append(slices.Clone(good), 0), "missing": nil} {
			err := os.WriteFile(file, b, 0o600)
			if what == "missing" {
				err = os.Remove(file)
			}
			if err != nil {
				t.Fatal(err)
			}
			if name == names[0] && what == "missing" {
				if refresh(t, replica) {
					t.Error("took a version without manifest")
				}
			} else if swapped, err := replica.Refresh(t.Context()); err == nil || swapped {
				t.Errorf("%s %s: taken, %v", name, what, err)
			} else if !strings.Contains(must(replica.Stats()).Replica.Error, path.Base(name)) {
				t.Errorf("%s %s: %s does not name it", name, what, must(replica.Stats()).Replica.Error)
			}
			if diff := gocmp.Diff(before, all(t, replica)); diff != "" {
				t.Fatalf("%s %s: %s", name, what, diff)
			}
			// Who comes now takes the version before.
			late, err := Open(folder, &Options{ReadOnly: true, Follow: byHand})
			if err != nil {
				t.Fatalf("%s %s: %v", name, what, err)
			}
			if v := must(late.Stats()).Replica.Version; v != done.Version-1 {
				t.Errorf("%s %s: opened version %d", name, what, v)
			}
			// Check tells of the version that is passed over, unless nothing of it is there.
			r, err := late.Check(t.Context(), CheckBytes)
			if gone := name == names[0] && what == "missing"; err != nil || r.OK() != gone ||
				!gone && (r.Problems[0].File != name || !strings.HasPrefix(r.Problems[0].Detail, "version 2: ") ||
					!strings.HasSuffix(r.Problems[0].Detail, "; version 1 is examined instead")) {
				t.Errorf("%s %s: %+v, %v", name, what, r, err)
			}
			late.Close()
			if err := os.WriteFile(file, good, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	// A reader that does not follow looks at the sizes, and Check at everything.
	rotten := filepath.Join(folder, m.Find("seg/00000001.vec").Path)
	b, err := os.ReadFile(rotten)
	if err != nil {
		t.Fatal(err)
	}
	b[4100] ^= 1
	if err := os.WriteFile(rotten, b, 0o600); err != nil {
		t.Fatal(err)
	}
	once := open(t, folder, &Options{ReadOnly: true})
	if r, err := once.Check(t.Context(), CheckBytes); err != nil || r.OK() {
		t.Errorf("Check: %+v, %v", r, err)
	}
	b[4100] ^= 1
	if err := os.WriteFile(rotten, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if !refresh(t, replica) {
		t.Error("did not take the whole version")
	}
	if diff := gocmp.Diff(all(t, vdb), all(t, replica)); diff != "" {
		t.Error(diff)
	}
}

// TestRepairFolder damages a folder of three versions: two of them with a segment more than the one
// before, and the third with a batch in the log.
func TestRepairFolder(t *testing.T) {
	vdb := open(t, t.TempDir(), &Options{tests: testOptions{codedBytes: 1}, Compaction: Manual})
	c := collection(t, vdb, "c", Schema{Dim: 2})
	whole := t.TempDir()
	p := publisher(t, vdb, whole, nil)
	for i, id := range []string{"a", "b", "c"} {
		upsert(t, c, Document{ID: id, Vector: []float32{1, float32(i)}})
		if i < 2 {
			flush(t, vdb)
		}
		publish(t, p)
	}
	ms := versions(t, whole)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	pathOf := func(version int, prefix string) string {
		for _, f := range ms[version-1].Files {
			if strings.HasPrefix(f.Name, prefix) {
				return f.Path
			}
		}
		t.Fatalf("version %d has no %s", version, prefix)
		return ""
	}
	newest, log := pathOf(3, engine.MetaName), pathOf(3, "wal/")
	for _, tc := range []struct {
		what               string
		flip, cut, remove  []string
		version            uint64
		documents, vectors int
		lost               int
		damaged            string // file with a problem
	}{
		{what: "nothing", version: 3, documents: 3, vectors: 3},
		{what: "manifest", flip: []string{engine.ManifestName(3)}, version: 2, documents: 2, vectors: 2,
			damaged: engine.ManifestName(3)},
		{what: "log cut", cut: []string{log}, version: 3, documents: 2, vectors: 2, lost: 1, damaged: log},
		{what: "log missing", remove: []string{log}, version: 3, documents: 2, vectors: 2, lost: 1, damaged: log},
		{what: "segment", remove: []string{pathOf(3, "seg/00000002.vec")}, version: 3, documents: 3, vectors: 2, lost: 1,
			damaged: pathOf(3, "seg/00000002.vec")},
		{what: "meta.bolt", flip: []string{newest}, version: 1, documents: 1, vectors: 1, damaged: newest},
		{what: "each meta.bolt", flip: []string{newest, pathOf(1, engine.MetaName)}, version: 3, documents: 3, vectors: 3,
			damaged: newest},
		{what: "each manifest", flip: []string{engine.ManifestName(1), engine.ManifestName(2), engine.ManifestName(3)},
			damaged: engine.ManifestName(1)},
	} {
		folder := t.TempDir()
		restore(t, whole, folder)
		for _, name := range tc.flip {
			for _, off := range []int64{40, boltcheck.PageSize + 40} { // both roots of a meta.bolt
				if strings.HasSuffix(name, ".bolt") || off == 40 {
					flip(t, filepath.Join(folder, name), off)
				}
			}
		}
		for _, name := range tc.cut {
			b, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil {
				t.Fatal(err)
			}
			overwrite(t, folder, map[string][]byte{name: b[:4096]})
		}
		for _, name := range tc.remove {
			if err := os.Remove(filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
		}
		names := func(all []Problem) bool {
			return slices.ContainsFunc(all, func(p Problem) bool {
				return p.File == tc.damaged || p.File == engine.WALDir && tc.damaged == log // which end is missing
			})
		}
		found, err := CheckFiles(t.Context(), folder, CheckBytes)
		if err != nil || found.OK() != (tc.damaged == "") || tc.damaged != "" && !names(found.Problems) ||
			slices.ContainsFunc(found.Problems, func(p Problem) bool { return p.File == engine.MetaName }) {
			t.Errorf("%s: check: %+v, %v", tc.what, found, err)
		}
		to := filepath.Join(t.TempDir(), "new")
		r, err := Repair(t.Context(), folder, to)
		if tc.version == 0 {
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), tc.damaged) ||
				!strings.Contains(err.Error(), "publish the database again") {
				t.Errorf("%s: repair: %+v, %v", tc.what, r, err)
			}
			continue
		}
		if err != nil || r.Version != tc.version || r.Documents != tc.documents || r.Vectors != tc.vectors ||
			len(r.Lost) != tc.lost || tc.damaged == "" != (len(r.Problems) == 0) || tc.damaged != "" && !names(r.Problems) {
			t.Errorf("%s: repair: %+v, %v", tc.what, r, err)
			continue
		}
		check(t, open(t, to, nil))
	}
}

// TestRepairOfAPublishedLog damages one of the batches that a version has beside its meta.bolt. The
// manifest says which one is the last, so the batches behind the damage are saved.
func TestRepairOfAPublishedLog(t *testing.T) {
	vdb := open(t, t.TempDir(), &Options{Compaction: Manual})
	c := collection(t, vdb, "c", Schema{})
	flush(t, vdb)
	for _, id := range []string{"a", "b", "c", "d"} {
		upsert(t, c, Document{ID: id, Text: "text of " + id})
	}
	folder := t.TempDir()
	publish(t, publisher(t, vdb, folder, nil))
	var log string
	for _, f := range versions(t, folder)[0].Files {
		if strings.HasPrefix(f.Name, engine.WALDir) {
			log = f.Path
		}
	}
	b, err := os.ReadFile(filepath.Join(folder, log))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"b", "d"} {
		flip(t, filepath.Join(folder, log), int64(bytes.Index(b, []byte("text of "+id))))
	}
	report, err := CheckFiles(t.Context(), folder, CheckBytes)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "new")
	r, err := Repair(t.Context(), folder, to)
	if err != nil || r.Documents != 2 || len(r.Lost) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, number := range []string{"number 3 is lost", "number 5 is lost"} {
		if !strings.Contains(r.Lost[i].Reason, number) || r.Problems[i].File != log {
			t.Errorf("%+v, %+v", r.Lost[i], r.Problems[i])
		}
		if !slices.ContainsFunc(report.Problems, func(p Problem) bool { return p.File == log && strings.Contains(p.Detail, number) }) {
			t.Errorf("check: no %q in %+v", number, report.Problems)
		}
	}
	fixed := open(t, to, nil)
	check(t, fixed)
	if got := dump(t, existing(t, fixed, "c")); len(got) != 2 || got["a"].Text == "" || got["c"].Text == "" {
		t.Errorf("saved %v", got)
	}
}

func TestPublishRefusals(t *testing.T) {
	vdb := open(t, t.TempDir(), nil)
	folder := t.TempDir()
	p := publisher(t, vdb, folder, nil)
	publish(t, p)
	is := func(want error, err error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	another := func(vdb *DB, dir string, opts *PublishOptions) error {
		p, err := vdb.NewPublisher(dir, opts)
		if err == nil {
			p.Close()
		}
		return err
	}
	is(ErrLocked, another(vdb, folder, nil))
	is(ErrInvalid, another(vdb, t.TempDir(), &PublishOptions{Keep: -1}))
	other := open(t, t.TempDir(), nil)
	is(ErrExists, another(vdb, other.engine.Dir, nil))
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := p.Publish(t.Context())
	is(ErrClosed, err)
	is(ErrExists, another(other, folder, nil))
	for _, opts := range []*Options{nil, {MustExist: true}} {
		_, err := Open(folder, opts)
		is(ErrReadOnly, err)
	}
	reader := open(t, folder, &Options{ReadOnly: true})
	is(ErrReadOnly, another(reader, t.TempDir(), nil))
	_, err = vdb.Refresh(t.Context())
	is(ErrInvalid, err)
	_, err = Open(vdb.engine.Dir, &Options{ReadOnly: true, Follow: byHand})
	is(ErrInvalid, err)
	_, err = Open(t.TempDir(), &Options{ReadOnly: true, Follow: byHand})
	is(ErrNotFound, err)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	p = publisher(t, vdb, folder, nil)
	_, err = p.Publish(cancelled)
	is(context.Canceled, err)

	// The folder is emptied below the publisher, which notices and writes all again.
	collection(t, vdb, "c", Schema{Dim: 2})
	publish(t, p)
	for _, name := range files(t, folder, engine.MetaDir) {
		if err := os.Remove(filepath.Join(folder, name)); err != nil {
			t.Skip("cannot remove a file that is open here")
		}
	}
	_, err = p.Publish(t.Context())
	is(ErrNotFound, err)
	if done := publish(t, p); done.NewFiles != 3 {
		t.Errorf("%+v", done)
	}
	if _, err := reader.Refresh(t.Context()); err != nil {
		t.Error(err)
	}
	if len(must(reader.Collections())) != 1 {
		t.Error("the reader does not see it")
	}
	// And by another folder.
	if err := os.RemoveAll(filepath.Join(folder, engine.ManifestDir)); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Refresh(t.Context()); err == nil {
		t.Error("no error without manifests")
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = reader.Refresh(t.Context())
	is(ErrClosed, err)
}

// TestReplicaGraph has a segment with codes, a graph and a text index: all of it is published, and
// the reader walks.
func TestReplicaGraph(t *testing.T) {
	folder := t.TempDir()
	opts := walking
	vdb := open(t, t.TempDir(), &opts)
	c := collection(t, vdb, "c", Schema{Dim: 4, Text: &TextIndex{}})
	rng := rand.New(rand.NewPCG(1, 0))
	vector := func() []float32 {
		v := make([]float32, 4)
		for i := range v {
			v[i] = float32(rng.NormFloat64())
		}
		return v
	}
	for i := range 300 {
		upsert(t, c, Document{ID: fmt.Sprint(i), Vector: vector(), Text: fmt.Sprintf("number %d", i)})
	}
	p := publisher(t, vdb, folder, nil)
	replicaOpts := walking
	replicaOpts.ReadOnly, replicaOpts.Follow = true, byHand
	publish(t, p)
	replica := open(t, folder, &replicaOpts)
	rc, err := replica.Collection("c")
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		if err := vdb.Compact(t.Context()); err != nil { // which builds the graph
			t.Fatal(err)
		}
		publish(t, p)
		if refresh(t, replica); round == 0 {
			for _, ext := range []string{"vec", "cols", "codes", "graph", "terms"} {
				if files, err := filepath.Glob(filepath.Join(folder, engine.SegDir, "*."+ext)); err != nil || len(files) != 1 {
					t.Errorf("published %s files: %v %v", ext, files, err)
				}
			}
		}
		for range 20 {
			q := Query{Near: Vector(vector()), K: 5}
			got, err := rc.Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			want, err := c.Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if got.Exact || got.Plan != want.Plan {
				t.Fatalf("round %d: exact %t, plan %q, at the writer %q", round, got.Exact, got.Plan, want.Plan)
			}
			if diff := gocmp.Diff(want.Hits, got.Hits); diff != "" {
				t.Fatalf("round %d: %s", round, diff)
			}
		}
		upsert(t, c, Document{ID: "7", Vector: vector()}, Document{ID: fmt.Sprint("new ", round), Vector: vector()})
	}
}

// TestPublishWhileAFileIsReplaced has a derived file replaced by a shorter one, as after SetText,
// when the Publisher is about to copy it. The version is published, without that file at most.
func TestPublishWhileAFileIsReplaced(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a file that is mapped cannot be replaced")
	}
	dir, swapped := t.TempDir(), 0
	publishing := false
	opts := &Options{Compaction: Manual, tests: testOptions{hook: func(op vfs.Op) error {
		if publishing && op.Kind == vfs.OpOpen && strings.HasSuffix(op.Name, ".terms") {
			swapped++
			name := filepath.Join(dir, filepath.FromSlash(op.Name))
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if err := os.WriteFile(name+".new", b[:len(b)/2], 0o600); err != nil {
				return err
			}
			return os.Rename(name+".new", name)
		}
		return nil
	}}}
	vdb := open(t, dir, opts)
	c := collection(t, vdb, "c", Schema{Dim: 1, Text: &TextIndex{}})
	upsert(t, c, Document{ID: "a", Vector: []float32{1}, Text: "red fish"}, Document{ID: "b", Vector: []float32{2}, Text: "blue fish"})
	if err := vdb.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	p := publisher(t, vdb, folder, nil)
	publishing = true
	publish(t, p)
	publishing = false
	if swapped == 0 {
		t.Fatal("no file was replaced")
	}
	replica := open(t, folder, &Options{ReadOnly: true})
	r, err := collection(t, replica, "c", Schema{}).Search(t.Context(), Query{Text: "fish"})
	if err != nil || len(r.Hits) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestReplicaFolderGone: a replica whose folder was removed or replaced gets no newer versions, and
// says so. It answers from its own version.
func TestReplicaFolderGone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("open files cannot be removed")
	}
	for _, tt := range []struct {
		name string
		gone func(dir string) error
		want error
	}{
		{"there", func(string) error { return nil }, nil},
		{"removed", os.RemoveAll, engine.ErrRemoved},
		{"emptied", func(dir string) error { return os.RemoveAll(filepath.Join(dir, engine.ManifestDir)) }, engine.ErrRemoved},
		{"renamed", func(dir string) error { return os.Rename(dir, dir+".new") }, nil}, // nothing is lost
		{"replaced", func(dir string) error {
			return errors.Join(os.CopyFS(dir+".new", os.DirFS(dir)), os.RemoveAll(dir), os.Rename(dir+".new", dir))
		}, engine.ErrReplaced},
	} {
		for _, follow := range []time.Duration{0, byHand} {
			t.Run(fmt.Sprintf("%s/follow=%v", tt.name, follow), func(t *testing.T) {
				vdb, folder := open(t, t.TempDir(), nil), filepath.Join(t.TempDir(), "published")
				upsert(t, collection(t, vdb, "c", Schema{}), Document{ID: "a", Vector: []float32{1}})
				publish(t, publisher(t, vdb, folder, nil))
				replica := open(t, folder, &Options{ReadOnly: true, Follow: follow})
				if err := tt.gone(folder); err != nil {
					t.Fatal(err)
				}
				stats, err := replica.Stats()
				switch {
				case err != nil:
					t.Error(err)
				case tt.want == nil && stats.Failed != "",
					tt.want != nil && (!strings.Contains(stats.Failed, tt.want.Error()) || !strings.Contains(stats.Failed, folder)):
					t.Errorf("failed %q, want %v", stats.Failed, tt.want)
				}
				if report, err := replica.Check(t.Context(), CheckBytes); err != nil || report.OK() != (tt.want == nil) {
					t.Errorf("check: %+v, %v", report, err)
				}
				if _, err := collectionOf(t, replica, "c").Get(t.Context(), "a", WithText); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestVersionAfterRestore: a folder goes on with a database that was restored and has written as
// many batches again. Collection.Version, by which answers are cached, still tells the documents
// apart.
func TestVersionAfterRestore(t *testing.T) {
	dirs := []string{t.TempDir(), filepath.Join(t.TempDir(), "saved"), t.TempDir()}
	lost, saved, folder := dirs[0], dirs[1], dirs[2]
	vdb := open(t, lost, nil)
	c := collection(t, vdb, "c", Schema{Dim: 1})
	upsert(t, c, Document{ID: "first", Vector: []float32{1}})
	if err := vdb.Backup(t.Context(), saved); err != nil {
		t.Fatal(err)
	}
	upsert(t, c, Document{ID: "lost", Vector: []float32{1}})
	p := publisher(t, vdb, folder, nil)
	publish(t, p)
	replica := open(t, folder, &Options{ReadOnly: true})
	seen := must(replica.Collection("c"))
	numbers := []uint64{must(seen.Version())}
	snapshot := must(replica.Snapshot())
	defer snapshot.Close()
	if err := errors.Join(p.Close(), vdb.Close()); err != nil {
		t.Fatal(err)
	}
	restored := open(t, saved, nil)
	c = collection(t, restored, "c", Schema{Dim: 1})
	p = publisher(t, restored, folder, nil)
	for _, id := range []string{"other", "next"} {
		upsert(t, c, Document{ID: id, Vector: []float32{2}})
		publish(t, p)
		if !must(replica.Refresh(t.Context())) {
			t.Fatal("there is no newer version")
		}
		if _, ok := dump(t, seen)[id]; !ok {
			t.Fatalf("the replica lacks %q", id)
		}
		numbers = append(numbers, must(seen.Version()))
	}
	if numbers[0] >= numbers[1] || numbers[1] >= numbers[2] {
		t.Errorf("the versions have the numbers %d", numbers)
	}
	if n := must(must(snapshot.Collection("c")).Version()); n != numbers[0] {
		t.Errorf("the snapshot has the number %d now, not %d", n, numbers[0])
	}
}

// TestFailedPublicationsLeaveLittle publishes in vain, each time after a write: what a failed
// publication has copied of meta.bolt and of the log goes with it.
func TestFailedPublicationsLeaveLittle(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	vdb := open(t, t.TempDir(), nil)
	c := collection(t, vdb, "c", Schema{Dim: 1})
	failing := false
	broken := errors.New("no segment can be copied")
	p := publisher(t, vdb, dir, &PublishOptions{hook: func(op vfs.Op) error {
		if failing && op.Kind == vfs.OpCreate && strings.HasPrefix(op.Name, engine.TmpDir+"/"+engine.SegDir+"/") {
			return broken
		}
		return nil
	}})
	names := func() (all []string) {
		for _, sub := range []string{engine.MetaDir, engine.WALDir} {
			entries, err := os.ReadDir(filepath.Join(dir, sub))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				all = append(all, sub+"/"+e.Name())
			}
		}
		return all
	}
	var before []string
	for i := range 5 {
		upsert(t, c, Document{ID: fmt.Sprint(i), Vector: []float32{1}})
		if err := vdb.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		_, err := p.Publish(ctx)
		switch {
		case failing && !errors.Is(err, broken):
			t.Fatalf("publication %d: %v", i, err)
		case !failing && err != nil:
			t.Fatal(err)
		case !failing:
			before, failing = names(), true
		}
		if diff := gocmp.Diff(before, names()); diff != "" {
			t.Fatalf("publication %d: %s", i, diff)
		}
	}
	failing = false
	if _, err := p.Publish(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestFailedPublicationKeepsVersions: a version whose name may not be durable is no reason to
// remove the version before.
func TestFailedPublicationKeepsVersions(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	vdb := open(t, t.TempDir(), nil)
	c := collection(t, vdb, "c", Schema{Dim: 1})
	failing := false
	p := publisher(t, vdb, dir, &PublishOptions{Keep: 1, hook: func(op vfs.Op) error {
		if failing && op.Kind == vfs.OpSyncDir && op.Name == engine.ManifestDir {
			return syscall.EIO
		}
		return nil
	}})
	for round := range 3 {
		upsert(t, c, Document{ID: fmt.Sprint(round), Vector: []float32{1}})
		failing = round == 1
		if _, err := p.Publish(ctx); (err != nil) != failing {
			t.Fatalf("publication %d: %v", round, err)
		}
		numbers, err := engine.Manifests(inDir(t, dir))
		if err != nil {
			t.Fatal(err)
		}
		if want := [][]uint64{{1}, {1, 2}, {3}}[round]; !slices.Equal(numbers, want) {
			t.Errorf("publication %d: versions %v, want %v", round, numbers, want)
		}
	}
}

// TestFileThatStays: a file of an earlier version that cannot be removed, as on Windows while a
// reader has it mapped, keeps no other file.
func TestFileThatStays(t *testing.T) {
	dir, stays := t.TempDir(), ""
	vdb := open(t, t.TempDir(), nil)
	c := collection(t, vdb, "c", Schema{Dim: 1})
	p := publisher(t, vdb, dir, &PublishOptions{Keep: 1, hook: func(op vfs.Op) error {
		if op.Kind == vfs.OpRemove && strings.HasPrefix(op.Name, engine.MetaDir+"/") {
			if stays == "" {
				stays = op.Name
			}
			if op.Name == stays {
				return syscall.EACCES
			}
		}
		return nil
	}})
	for round := range 4 {
		upsert(t, c, Document{ID: fmt.Sprint(round), Vector: []float32{1}})
		compact(t, vdb) // other files in each directory
		publish(t, p)
	}
	if stray := strays(t, dir); !slices.Equal(stray, []string{stays}) {
		t.Errorf("no version has %q, want %q alone", stray, stays)
	}
}

// TestBackupsIntoOneDirectory has one backup begin and end in a directory that another one has just
// found empty. The other one fails, and leaves the first as it is.
func TestBackupsIntoOneDirectory(t *testing.T) {
	ctx, to := t.Context(), filepath.Join(t.TempDir(), "copy")
	first := open(t, t.TempDir(), nil)
	upsert(t, collection(t, first, "c", Schema{Dim: 1}), Document{ID: "first", Vector: []float32{1}})
	begun := false
	second := open(t, t.TempDir(), &Options{tests: testOptions{hook: func(op vfs.Op) error {
		if op.Kind == vfs.OpCreate && op.Name == engine.Unfinished && !begun {
			begun = true
			return first.Backup(ctx, to)
		}
		return nil
	}}})
	upsert(t, collection(t, second, "c", Schema{Dim: 1}), Document{ID: "second", Vector: []float32{1}})
	if err := second.Backup(ctx, to); !errors.Is(err, ErrExists) || !begun {
		t.Errorf("the second backup: %v", err)
	}
	copied := open(t, to, nil)
	check(t, copied)
	if _, err := collectionOf(t, copied, "c").Get(ctx, "first", IDsOnly); err != nil {
		t.Error(err)
	}
}
