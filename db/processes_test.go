//go:build linux || darwin

package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/replica"
)

func TestTwoProcesses(t *testing.T) {
	bounded(t)
	ctx := context.Background()
	dir := t.TempDir()
	one, two := openBoth(t, dir)
	c1, err := one.OpenCollection(ctx, "docs", Schema{Dim: 2})
	if err != nil {
		t.Fatal(err)
	}
	c2, err := two.OpenCollection(ctx, "docs", Schema{Dim: 2})
	if err != nil {
		t.Fatal(err)
	}
	write := func(c *Collection, id string) {
		t.Helper()
		if _, err := c.Upsert(ctx, Document{ID: id, Vector: []float32{1, 2}, Metadata: Metadata{"n": 1}}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(c *Collection, id string) {
		t.Helper()
		if _, err := c.Get(ctx, id, WithText); err != nil {
			t.Fatal(err)
		}
	}
	write(c1, "a")
	write(c2, "b")
	read(c2, "b")
	read(c1, "b")
	if err := two.Barrier(ctx); err != nil {
		t.Fatal(err)
	}
	read(c2, "a")
	if _, err := c2.Insert(ctx, Document{ID: "a", Vector: []float32{1, 2}}); !errors.Is(err, ErrExists) {
		t.Fatal(err)
	}
	if err := two.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	write(c2, "c")
	for i := range 100 {
		write(c2, fmt.Sprint(i))
		write(c1, fmt.Sprint(i, "x"))
		if i%10 == 0 {
			if err := one.Compact(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := two.Barrier(ctx); err != nil {
		t.Fatal(err)
	}
	if n, err := c2.Count(ctx, nil); err != nil || n != 203 {
		t.Fatal(n, err)
	}
	if n, err := c2.DeleteWhere(ctx, filter.Eq("n", 1)); err != nil || n != 203 {
		t.Fatal(n, err)
	}
	if n, err := c1.Count(ctx, nil); err != nil || n != 0 {
		t.Fatal(n, err)
	}
	for i, vdb := range []*DB{two, one, two, one} { // each takes a number of its own
		if _, err := vdb.OpenCollection(ctx, fmt.Sprint("new", i), Schema{}); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := one.Collections(); err != nil || len(list) != 5 {
		t.Fatal(list, err)
	}
	write(c1, "d")
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	write(c2, "e")
	read(c2, "d")
	read(c2, "e")
	list, err := two.Processes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(list)
}

// TestOpenTogether: of processes that open a database at the same time, before it exists, one makes
// it, and all have it.
func TestOpenTogether(t *testing.T) {
	bounded(t)
	for range 30 {
		dir := filepath.Join(t.TempDir(), "db")
		var all sync.WaitGroup
		for range 6 {
			all.Go(func() {
				vdb, err := Open(dir, nil)
				if err != nil {
					t.Error(err)
					return
				}
				_, err = vdb.OpenCollection(t.Context(), "c", Schema{})
				if err := errors.Join(err, vdb.Close()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		check(t, open(t, dir, nil))
	}
}

// TestReaderBesideWriter opens a database for reading first. The process that writes later does not
// wait for it, and the reader sees its writes.
func TestReaderBesideWriter(t *testing.T) {
	bounded(t)
	ctx := context.Background()
	dir := t.TempDir()
	writer, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	put := func(vdb *DB, id string) {
		t.Helper()
		c, err := vdb.OpenCollection(ctx, "docs", Schema{Dim: 2})
		if err == nil {
			_, err = c.Upsert(ctx, Document{ID: id, Text: id, Vector: []float32{1, 2}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put(writer, "a")
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	reader := open(t, dir, &Options{ReadOnly: true, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	docs, err := reader.Collection("docs")
	if err != nil {
		t.Fatal(err)
	}
	count := func(want int) {
		t.Helper()
		if err := reader.Barrier(ctx); err != nil {
			t.Fatal(err)
		}
		if n, err := docs.Count(ctx, nil); err != nil || n != want {
			t.Fatalf("%d documents, want %d: %v", n, want, err)
		}
	}
	count(1)
	old, err := reader.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	for round := range 5 {
		writer := open(t, dir, &Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
		for i := range 20 {
			put(writer, fmt.Sprint(round, "-", i))
			if i%8 == 0 {
				if err := writer.Compact(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		count(1 + 20*(round+1))
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
		count(1 + 20*(round+1))
		check(t, reader)
	}
	c, err := old.Collection("docs")
	if err != nil {
		t.Fatal(err)
	}
	if d, err := c.Get(ctx, "a", WithText); err != nil || d.Text != "a" {
		t.Fatal(d, err)
	}
	if n, err := c.Count(ctx, nil); err != nil || n != 1 {
		t.Fatal(n, err)
	}
}

// sharedHistory records a history as linearHistory does, of clients of several processes. One
// process after the other closes the database and opens it again. Reads of a member begin with a
// Barrier.
func sharedHistory(t *testing.T, seed uint64, members, calls int) []porcupine.Operation {
	t.Helper()
	bounded(t)
	dir := memDir(t)
	opts := &Options{Sync: SyncNever, HeadSize: []int64{1, 4 << 10, 64 << 20}[seed%3], tests: testOptions{codedBytes: 1}, Workers: 2}
	var locks [8]sync.RWMutex // held by calls of a member, and while it is opened again
	var clients [8]*client
	for i := range members {
		clients[i] = newClient(t, open(t, dir, opts))
	}
	r := &recorder{}
	var values atomic.Int64
	var work, upkeep sync.WaitGroup
	stop := make(chan struct{})
	upkeep.Go(func() {
		for i := 0; ; i = (i + 1) % members {
			select {
			case <-stop:
				return
			default:
			}
			locks[i].RLock()
			vdb := clients[i].db
			err := errors.Join(vdb.Flush(t.Context()), vdb.Compact(t.Context()))
			locks[i].RUnlock()
			locks[i].Lock()
			err = errors.Join(err, vdb.Close())
			clients[i] = newClient(t, open(t, dir, opts))
			locks[i].Unlock()
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for who := range 2 * members {
		work.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(who)))
			for range calls {
				in := drawCall(rng, func() int { return int(values.Add(1)) })
				err := r.record(who, in, func(in call) (answer, error) {
					at := who % members
					locks[at].RLock()
					defer locks[at].RUnlock()
					if err := clients[at].db.Barrier(t.Context()); err != nil {
						return answer{}, err
					}
					return clients[at].do(t.Context(), in)
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
	close(stop)
	upkeep.Wait()
	for _, c := range clients[:members] {
		if err := c.db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return r.ops
}

// TestLinearizableProcesses is TestLinearizable over several members, each as in a process of its
// own, while the lead goes from one to the other.
func TestLinearizableProcesses(t *testing.T) {
	n := max(3, *histories/8)
	total := 0
	for seed := range uint64(n) {
		ops := sharedHistory(t, seed, 2+int(seed%3), 30)
		if judge(t, ops) != porcupine.Ok {
			t.Fatalf("history %d is not linearizable", seed)
		}
		total += len(ops)
	}
	t.Logf("%d histories, %d operations, all linearizable", n, total)
}

// TestSharedSnapshots holds snapshots in a member that follows, while the leader flushes and
// compacts: the pages and files that they read must not change.
func TestSharedSnapshots(t *testing.T) {
	bounded(t)
	ctx := t.Context()
	dir := t.TempDir()
	opts := &Options{Sync: SyncNever, HeadSize: 16 << 10}
	leader, member := open(t, dir, opts), open(t, dir, opts)
	c := collection(t, leader, "c", Schema{Dim: 4})
	rng := rand.New(rand.NewPCG(7, 8))
	type held struct {
		snap *Snapshot
		want map[string]string // text by id
	}
	now := map[string]string{}
	var all []held
	for round := range 60 {
		for range 40 {
			id := fmt.Sprint(rng.IntN(150))
			if rng.IntN(4) == 0 {
				if _, err := c.Delete(ctx, id); err != nil {
					t.Fatal(err)
				}
				delete(now, id)
				continue
			}
			now[id] = strings.Repeat(fmt.Sprint(round, " "), 10+rng.IntN(100))
			upsert(t, c, Document{ID: id, Text: now[id], Vector: []float32{1, 2, 3, rng.Float32()}})
		}
		if round%7 == 6 {
			compact(t, leader)
		}
		if err := member.Barrier(ctx); err != nil {
			t.Fatal(err)
		}
		snap, err := member.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, held{snap, maps.Clone(now)})
		if len(all) > 8 {
			i := rng.IntN(len(all))
			if err := all[i].snap.Close(); err != nil {
				t.Fatal(err)
			}
			all = slices.Delete(all, i, i+1)
		}
		if round == 40 { // the member leads from here on
			if err := leader.Close(); err != nil {
				t.Fatal(err)
			}
			leader = open(t, dir, opts)
			c = collection(t, leader, "c", Schema{Dim: 4})
		}
		for _, h := range all {
			docs, err := h.snap.Collection("c")
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for d, err := range docs.All(ctx, nil, WithText) {
				if err != nil {
					t.Fatal(err)
				}
				got[d.ID] = d.Text
			}
			if !maps.Equal(got, h.want) {
				t.Fatalf("round %d: a snapshot of %d documents has changed", round, len(h.want))
			}
		}
	}
	for _, h := range all {
		if err := h.snap.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDeletesOfAnotherLeader compacts a segment from which the leader before has deleted. The
// second leader has had the segment open since before the delete.
func TestDeletesOfAnotherLeader(t *testing.T) {
	bounded(t)
	ctx := t.Context()
	dir := t.TempDir()
	first, second := open(t, dir, nil), open(t, dir, nil)
	docs := collection(t, first, "c", Schema{Dim: 1})
	for i := range 10 {
		upsert(t, docs, Document{ID: fmt.Sprint(i), Vector: []float32{float32(i + 1)}})
	}
	if err := errors.Join(first.Flush(ctx), second.Barrier(ctx)); err != nil { // it has the segment
		t.Fatal(err)
	}
	upsert(t, docs, Document{ID: "10", Vector: []float32{11}}) // of another segment, to be merged
	if n, err := docs.Delete(ctx, "1"); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	if err := errors.Join(first.Flush(ctx), second.Barrier(ctx), first.Close()); err != nil {
		t.Fatal(err)
	}
	compact(t, second)
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	vdb := open(t, dir, nil)
	check(t, vdb)
	r, err := collection(t, vdb, "c", Schema{Dim: 1}).Search(ctx, Query{Near: Vector{1}, K: 20, Accuracy: Exact})
	if err != nil || len(r.Hits) != 10 {
		t.Fatalf("%d hits of 10: %v", len(r.Hits), err)
	}
}

// TestExclusiveBesideReader: an exclusive process is refused while another one reads, and no copy
// of meta.bolt is made for it.
func TestExclusiveBesideReader(t *testing.T) {
	bounded(t)
	dir := t.TempDir()
	writer := open(t, dir, nil)
	upsert(t, collection(t, writer, "c", Schema{}), Document{ID: "a"})
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	reader := open(t, dir, &Options{ReadOnly: true})
	if _, err := Open(dir, &Options{Exclusive: true}); !errors.Is(err, ErrLocked) {
		t.Fatalf("beside a reader: %v", err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir, &Options{Exclusive: true})
}

// TestBackupBesideALeader makes backups in processes that follow, also one that only reads, while
// another one writes. Each has all that was acknowledged before.
func TestBackupBesideALeader(t *testing.T) {
	bounded(t)
	ctx, dir := t.Context(), t.TempDir()
	leader, follower := open(t, dir, nil), open(t, dir, nil)
	reader := open(t, dir, &Options{ReadOnly: true})
	docs := collection(t, leader, "c", Schema{Dim: 1})
	stop := make(chan struct{})
	var acknowledged atomic.Int64
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := docs.Insert(ctx, Document{ID: fmt.Sprint(i), Vector: []float32{float32(i)}}); err != nil {
				t.Error(err)
				return
			}
			acknowledged.Add(1)
		}
	})
	for i := range 10 {
		for name, vdb := range map[string]*DB{"follower": follower, "reader": reader} {
			to := filepath.Join(t.TempDir(), fmt.Sprint(name, i))
			want := acknowledged.Load()
			if err := vdb.Backup(ctx, to); err != nil {
				t.Fatal(name, err)
			}
			copied := open(t, to, nil)
			check(t, copied)
			n, err := collectionOf(t, copied, "c").Count(ctx, nil)
			if err != nil || int64(n) < want {
				t.Errorf("%s: %d documents of %d: %v", name, n, want, err)
			}
			for id := range n { // no gap
				if _, err := collectionOf(t, copied, "c").Get(ctx, fmt.Sprint(id), WithText); err != nil {
					t.Fatal(name, err)
				}
			}
		}
	}
	close(stop)
	writer.Wait()
	if follower.engine.Leads() || !leader.engine.Leads() {
		t.Error("the lead has changed")
	}
	if err := reader.Flush(ctx); !errors.Is(err, ErrReadOnly) {
		t.Error(err)
	}
}

// A moments is a context that calls a function whenever somebody looks whether it has ended.
type moments struct {
	context.Context
	look func()
}

func (m moments) Err() error {
	m.look()
	return m.Context.Err()
}

// TestBackupBesideWritersThatCome has a process come, lead and write at each moment of a backup by
// a process that only reads, once that knows that nobody leads, and end at a later moment. The copy
// has at least what was acknowledged before.
func TestBackupBesideWritersThatCome(t *testing.T) {
	bounded(t)
	ctx, backups := t.Context(), 0
	for from, met := 0, true; met; from++ {
		for lasting := range 3 {
			dir, to := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "copy")
			var writer *DB
			begin := func(id string) {
				writer = open(t, dir, nil)
				upsert(t, collection(t, writer, "c", Schema{Dim: 1}), Document{ID: id, Vector: []float32{1}})
			}
			end := func() {
				if writer != nil {
					if err := writer.Close(); err != nil {
						t.Error(err)
					}
					writer = nil
				}
			}
			begin("before")
			end()
			r := open(t, dir, &Options{ReadOnly: true})
			moment := -1
			look := func() {
				switch moment {
				case -1: // nobody knows yet that nobody leads
					return
				case from:
					begin("meanwhile")
					if lasting > 0 { // so that the log begins with a later batch
						if err := writer.Flush(ctx); err != nil {
							t.Error(err)
						}
						upsert(t, collection(t, writer, "c", Schema{Dim: 1}), Document{ID: "later", Vector: []float32{1}})
					}
				case from + lasting:
					end()
				}
				moment++
			}
			flush := func() (lsn uint64, led bool, err error) {
				lsn, led, err = r.member.Flush(ctx)
				moment = max(moment, 0)
				look()
				return lsn, led, err
			}
			if err := replica.Backup(moments{ctx, look}, r.engine, to, flush); err != nil {
				t.Fatalf("a writer from moment %d on, for %d: %v", from, lasting, err)
			}
			met = moment > from
			end()
			backups++
			copied := open(t, to, nil)
			check(t, copied)
			if _, err := collectionOf(t, copied, "c").Get(ctx, "before", IDsOnly); err != nil {
				t.Errorf("a writer from moment %d on, for %d: %v", from, lasting, err)
			}
		}
	}
	if backups < 9 {
		t.Errorf("%d backups: they have hardly a moment", backups)
	}
}

// TestBackupOfRemovedSegments removes the names of the segments that a process has open, as a
// leader may after it has compacted them: a backup needs the names no more than a search does.
func TestBackupOfRemovedSegments(t *testing.T) {
	bounded(t)
	ctx, dir := t.Context(), t.TempDir()
	leader, follower := open(t, dir, nil), open(t, dir, nil)
	reader := open(t, dir, &Options{ReadOnly: true})
	upsert(t, collection(t, leader, "c", Schema{Dim: 1}), Document{ID: "a", Vector: []float32{1}})
	if err := leader.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	others := map[string]*DB{"follower": follower, "reader": reader}
	for name, vdb := range others { // which have the segment open then
		if err := vdb.Backup(ctx, filepath.Join(t.TempDir(), "before")); err != nil {
			t.Fatal(name, err)
		}
	}
	segments, err := filepath.Glob(filepath.Join(dir, "seg", "*.vec"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	if err := os.Remove(segments[0]); err != nil {
		t.Fatal(err)
	}
	for name, vdb := range others {
		to := filepath.Join(t.TempDir(), "copy")
		if err := vdb.Backup(ctx, to); err != nil {
			t.Error(name, err)
			continue
		}
		copied := open(t, to, nil)
		check(t, copied)
		hits, err := collectionOf(t, copied, "c").Search(ctx, Query{Near: Vector{1}})
		if err != nil || len(hits.Hits) != 1 {
			t.Errorf("%s: %v, %v", name, hits, err)
		}
	}
}

// TestDeleteIfAgain: the next leader has a delete decided anew. Its limit begins anew as well.
func TestDeleteIfAgain(t *testing.T) {
	bounded(t)
	ctx, dir := t.Context(), t.TempDir()
	leader := open(t, dir, nil)
	c := collection(t, leader, "c", Schema{})
	upsert(t, c, Document{ID: "1"}, Document{ID: "2"}, Document{ID: "3"})
	follower := open(t, dir, nil)
	var seen []string
	n, err := collectionOf(t, follower, "c").DeleteIf(ctx, []string{"1", "2", "3"}, 2, func(d *Document) (bool, error) {
		if seen = append(seen, d.ID); len(seen) == 2 {
			return true, leader.Close()
		}
		return true, nil
	})
	if n != 2 || err != nil || !slices.Equal(seen, []string{"1", "2", "1", "2"}) {
		t.Errorf("%d deleted, %v, saw %q", n, err, seen)
	}
	check(t, follower)
}

// TestDeleteFuncMisused: the function of DeleteFunc may read, also while meta.bolt is rewritten. If
// it panics or ends its goroutine, as t.Fatal does, nothing is deleted and all processes go on.
func TestDeleteFuncMisused(t *testing.T) {
	bounded(t)
	ctx, dir := t.Context(), t.TempDir()
	leader := open(t, dir, nil)
	upsert(t, collection(t, leader, "c", Schema{}), Document{ID: "1", Text: "one"}, Document{ID: "2"})
	flush(t, leader)
	follower := open(t, dir, nil)
	for i, vdb := range []*DB{follower, leader} {
		c := collectionOf(t, vdb, "c")
		_, err := c.DeleteFunc(ctx, nil, func(*Document) (bool, error) { panic("misused") })
		if err == nil || !strings.Contains(err.Error(), "panic: misused") || errors.Is(err, ErrCorrupt) {
			t.Errorf("a panic: %v", err)
		}
		var wait sync.WaitGroup
		wait.Go(func() {
			_, err = c.DeleteFunc(ctx, nil, func(*Document) (bool, error) { runtime.Goexit(); return true, nil })
		})
		if wait.Wait(); err == nil {
			t.Error("no error of an ended goroutine")
		}
		if n := must(c.Count(ctx, nil)); n != 2-i {
			t.Fatalf("%d documents after failed deletes", n)
		}
		n, err := c.DeleteFunc(ctx, nil, func(d *Document) (bool, error) {
			if vdb == leader {
				if err := storeOf(vdb).Rewrite(); err != nil {
					return false, err
				}
			}
			read, err := c.Get(ctx, d.ID, WithText)
			return err == nil && (read.Text == "") == (i == 0), err
		})
		if n != 1 || err != nil {
			t.Errorf("%d deleted: %v", n, err)
		}
	}
	check(t, leader)
}

// TestCallsWithinDelete: within the function of a delete, calls that would wait for it fail at
// once, and say so. Reads go on, and so do calls of another database.
func TestCallsWithinDelete(t *testing.T) {
	bounded(t)
	ctx, dir := t.Context(), t.TempDir()
	leader, other := open(t, dir, nil), open(t, t.TempDir(), nil)
	upsert(t, collection(t, leader, "c", Schema{}), Document{ID: "1", Text: "one"}, Document{ID: "2"})
	collection(t, other, "c", Schema{})
	publisher := must(leader.NewPublisher(t.TempDir(), nil))
	t.Cleanup(func() { _ = publisher.Close() })
	var batch Batch
	batch.Delete("c", "2")
	var replacing Batch
	replacing.DeleteWhere("c", filter.And())
	one := func(yield func(Document, error) bool) { yield(Document{ID: "3"}, nil) }
	follower := open(t, dir, nil)
	for role, vdb := range map[string]*DB{"leader": leader, "follower": follower} {
		c := collectionOf(t, vdb, "c")
		never := func(*Document) (bool, error) { return true, nil }
		calls := map[string]func() error{
			"upsert":        func() error { return failed(c.Upsert(ctx, Document{ID: "3"})) },
			"insert":        func() error { return failed(c.Insert(ctx, Document{ID: "3"})) },
			"patch":         func() error { return c.Patch(ctx, Patch{ID: "2", Unset: []string{"a"}}) },
			"delete":        func() error { return failed(c.Delete(ctx, "2")) },
			"delete where":  func() error { return failed(c.DeleteWhere(ctx, filter.And())) },
			"delete func":   func() error { return failed(c.DeleteFunc(ctx, nil, never)) },
			"delete if":     func() error { return failed(c.DeleteIf(ctx, []string{"2"}, 0, never)) },
			"apply":         func() error { return vdb.Apply(ctx, &batch) },
			"apply where":   func() error { return vdb.Apply(ctx, &replacing) },
			"load":          func() error { return failed(c.Load(ctx, one, nil)) },
			"set metadata":  func() error { return c.SetMetadata(ctx, Metadata{"a": 1}) },
			"set text":      func() error { return c.SetText(ctx, &TextIndex{}) },
			"set index":     func() error { return c.SetIndex(ctx, IndexSmall) },
			"create":        func() error { return failed(vdb.CreateCollection(ctx, "d", Schema{}, nil)) },
			"open":          func() error { return failed(vdb.OpenCollection(ctx, "d", Schema{})) },
			"rename":        func() error { return vdb.Rename(ctx, "c", "d") },
			"drop":          func() error { return vdb.Drop(ctx, "c") },
			"flush":         func() error { return vdb.Flush(ctx) },
			"compact":       func() error { return vdb.Compact(ctx) },
			"check":         func() error { return failed(vdb.Check(ctx, CheckBytes)) },
			"barrier":       func() error { return vdb.Barrier(ctx) },
			"processes":     func() error { return failed(vdb.Processes(ctx)) },
			"backup":        func() error { return vdb.Backup(ctx, t.TempDir()) },
			"new publisher": func() error { return failed(vdb.NewPublisher(t.TempDir(), nil)) },
			"close":         vdb.Close,
		}
		if vdb == leader {
			calls["publish"] = func() error { return failed(publisher.Publish(ctx)) }
			calls["close publisher"] = publisher.Close
		}
		within := map[string]func(del func(*Document) (bool, error)) error{
			"DeleteFunc": func(del func(*Document) (bool, error)) error { return failed(c.DeleteFunc(ctx, nil, del)) },
			"DeleteIf": func(del func(*Document) (bool, error)) error {
				return failed(c.DeleteIf(ctx, []string{"1"}, 0, del))
			},
		}
		for caller, run := range within {
			for name, call := range calls {
				if err := run(func(*Document) (bool, error) { return true, call() }); !errors.Is(err, ErrInvalid) ||
					!strings.Contains(err.Error(), "called within the function of "+caller) {
					t.Errorf("%s within %s, in the %s: %v", name, caller, role, err)
				}
			}
			if err := run(func(*Document) (bool, error) { // reads, and the other database
				_, err := vdb.Stats()
				_, listed := c.List(ctx, ListQuery{})
				_, wrote := collectionOf(t, other, "c").Upsert(ctx, Document{ID: "1"})
				return false, errors.Join(err, listed, wrote, other.Flush(ctx))
			}); err != nil {
				t.Errorf("%s in the %s: %v", caller, role, err)
			}
		}
		if n := must(c.Count(ctx, nil)); n != 2 {
			t.Errorf("%d documents behind the %s", n, role)
		}
		upsert(t, c, Document{ID: "2"}) // the goroutine of the functions may write again
	}
	check(t, leader)
}

func failed[T any](_ T, err error) error { return err }
