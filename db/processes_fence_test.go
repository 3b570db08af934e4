//go:build linux || darwin

package db

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// depose does what a process does when it finds that the leader is stopped.
func depose(t *testing.T, dir string) {
	t.Helper()
	for {
		token, err := inDir(t, dir).LockToken(engine.LockName)
		if err == nil {
			err = engine.Depose(dir, token)
		}
		if err == nil {
			return
		}
		if !errors.Is(err, engine.ErrLocked) { // another process begins to lead
			t.Fatal(err)
		}
	}
}

// alone fails the test if a directory holds other names than the given ones.
func alone(t *testing.T, dir string, names ...string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != len(names) {
		t.Errorf("%v, not %v", left, names)
	}
}

// TestDeposed takes the lead from a process that goes on: it follows, files of others stay, and
// nothing is left beside the database.
func TestDeposed(t *testing.T) {
	bounded(t)
	ctx, parent := t.Context(), t.TempDir()
	dir := filepath.Join(parent, "db")
	first, second := open(t, dir, nil), open(t, dir, nil)
	docs := collection(t, first, "c", Schema{Dim: 1})
	upsert(t, docs, Document{ID: "flushed", Vector: []float32{1}})
	if err := first.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	upsert(t, docs, Document{ID: "logged", Vector: []float32{2}})
	snap, err := first.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	depose(t, dir)
	upsert(t, docs, Document{ID: "after", Vector: []float32{3}})
	upsert(t, collectionOf(t, second, "c"), Document{ID: "beside", Vector: []float32{4}})
	if err := errors.Join(first.Barrier(ctx), second.Barrier(ctx)); err != nil {
		t.Fatal(err)
	}
	leaders := 0
	for _, vdb := range []*DB{first, second} {
		c := collectionOf(t, vdb, "c")
		for i, id := range []string{"flushed", "logged", "after", "beside"} {
			d, err := c.Get(ctx, id, WithVector)
			if err != nil || d.Vector[0] != float32(i+1) {
				t.Errorf("%s: %v, %v", id, d.Vector, err)
			}
		}
		if vdb.engine.Leads() {
			leaders++
		}
	}
	if leaders != 1 {
		t.Errorf("%d leaders", leaders)
	}
	before, err := snap.Collection("c")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := before.Count(ctx, nil); err != nil || n != 2 {
		t.Errorf("the snapshot has %d documents: %v", n, err)
	}
	if err := errors.Join(snap.Close(), first.Close(), second.Close()); err != nil {
		t.Fatal(err)
	}
	check(t, open(t, dir, nil))
	if b, err := os.ReadFile(filepath.Join(dir, "notes.txt")); string(b) != "mine" {
		t.Errorf("the file of another: %q, %v", b, err)
	}
	alone(t, parent, "db")
}

// TestDeposedInAWrite takes the lead from a process while it commits a write: before the write is
// in the log, so that the process asks the next leader and writes again; or after it.
func TestDeposedInAWrite(t *testing.T) {
	bounded(t)
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "db")
	first, second := open(t, dir, nil), open(t, dir, nil)
	docs := collection(t, first, "c", Schema{})
	if err := second.Barrier(ctx); err != nil {
		t.Fatal(err)
	}
	put := func(id string) []engine.Op {
		doc := Document{ID: id}
		b, err := document.Append(nil, doc.stored())
		if err != nil {
			t.Fatal(err)
		}
		return []engine.Op{{Kind: engine.OpPut, Collection: "c", ID: id, Doc: b}}
	}
	id, seen := first.member.OwnID(), first.engine.Seen()
	if _, err := writeFor(first, id, put("logged")); err != nil {
		t.Fatal(err)
	}
	decided := 0
	_, err := first.engine.Exclusively(ctx, func(*engine.Group) ([]engine.Op, error) {
		if decided++; decided == 1 {
			depose(t, dir)
		}
		return put("late"), nil
	})
	if err != nil || decided != 2 {
		t.Fatalf("decided %d times: %v", decided, err)
	}
	if _, applied, err := first.member.Outcome(ctx, id, seen); !applied || err != nil {
		t.Fatal(applied, err)
	}
	if n, err := docs.Count(ctx, nil); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		t.Fatal(err)
	}
	if id := first.member.OwnID(); id != (engine.RequestID{}) {
		t.Error("a process that nobody follows marks its writes")
	}
	vdb := open(t, dir, nil)
	check(t, vdb)
	if n := vdb.engine.Seen(); n != 3 { // the collection, and two writes
		t.Errorf("%d batches", n)
	}
}

// TestDeposedUnawares: a leader that is deposed and ends without having noticed gives its lock up
// in the directory that it had. The follower, which has had the same one open, leads in the other.
func TestDeposedUnawares(t *testing.T) {
	bounded(t)
	ctx, parent := t.Context(), t.TempDir()
	dir := filepath.Join(parent, "db")
	first, second := open(t, dir, nil), open(t, dir, nil)
	upsert(t, collection(t, first, "c", Schema{Dim: 1}), Document{ID: "a", Vector: []float32{1}})
	if err := second.Barrier(ctx); err != nil {
		t.Fatal(err)
	}
	depose(t, dir)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	upsert(t, collectionOf(t, second, "c"), Document{ID: "b", Vector: []float32{2}})
	third := open(t, dir, nil)
	for _, id := range []string{"a", "b"} {
		if _, err := collectionOf(t, third, "c").Get(ctx, id, WithText); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	depose(t, dir) // the one that is left to itself leads again
	if err := third.Close(); err != nil {
		t.Fatal(err)
	}
	upsert(t, collectionOf(t, second, "c"), Document{ID: "c", Vector: []float32{3}})
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	vdb := open(t, dir, nil)
	check(t, vdb)
	if n, err := collectionOf(t, vdb, "c").Count(ctx, nil); err != nil || n != 3 {
		t.Errorf("%d documents, %v", n, err)
	}
	alone(t, parent, "db")
}

// TestDeposedWhileWriting takes the lead away again and again while all processes write, flush and
// compact. All acknowledged documents are there, in every process and at the end.
func TestDeposedWhileWriting(t *testing.T) {
	bounded(t)
	ctx, parent := t.Context(), t.TempDir()
	dir := filepath.Join(parent, "db")
	var dbs []*DB
	for range 3 {
		dbs = append(dbs, open(t, dir, &Options{HeadSize: 16 << 10}))
	}
	collection(t, dbs[0], "c", Schema{Dim: 1})
	if err := errors.Join(dbs[1].Barrier(ctx), dbs[2].Barrier(ctx)); err != nil {
		t.Fatal(err)
	}
	stop, failed := make(chan struct{}), make(chan struct{}, 6)
	var writers sync.WaitGroup
	var mu sync.Mutex
	done, written := map[string]bool{}, make(chan struct{}, 1)
	for p, vdb := range dbs {
		docs := collectionOf(t, vdb, "c")
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("%d-%d", p, i)
				_, err := docs.Insert(ctx, Document{ID: id, Text: id, Vector: []float32{float32(i)}})
				if errors.Is(err, ErrUnknown) {
					continue
				}
				if err == nil {
					_, err = docs.Get(ctx, id, WithText)
				}
				if err != nil {
					t.Errorf("%s: %v", id, err)
					failed <- struct{}{}
					return
				}
				mu.Lock()
				done[id] = true
				mu.Unlock()
				select {
				case written <- struct{}{}:
				default:
				}
			}
		})
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-written:
				}
				if err := vdb.Compact(ctx); err != nil && !errors.Is(err, ErrLocked) && !errors.Is(err, ErrUnknown) {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		for range 3 {
			select {
			case <-written:
			case <-failed:
				t.FailNow()
			case <-time.After(time.Minute):
				t.Fatal("nothing was written for a minute")
			}
		}
		depose(t, dir)
	}
	close(stop)
	writers.Wait()
	for _, vdb := range dbs {
		if err := vdb.Barrier(ctx); err != nil {
			t.Fatal(err)
		}
		for id := range done {
			if _, err := collectionOf(t, vdb, "c").Get(ctx, id, WithText); err != nil {
				t.Fatalf("%s was acknowledged, and is not there: %v", id, err)
			}
		}
	}
	for _, vdb := range dbs {
		if err := vdb.Close(); err != nil {
			t.Error(err)
		}
	}
	vdb := open(t, dir, nil)
	check(t, vdb)
	for id := range done {
		if _, err := collectionOf(t, vdb, "c").Get(ctx, id, WithText); err != nil {
			t.Fatalf("%s was acknowledged, and is lost: %v", id, err)
		}
	}
	t.Logf("%d documents", len(done))
	alone(t, parent, "db")
}

// TestFence: a fence whose maker has ended is removed, nobody begins to lead while its maker is at
// work, and only the leader that was found stopped is replaced.
func TestFence(t *testing.T) {
	bounded(t)
	parent := t.TempDir()
	dir := filepath.Join(parent, "db")
	vdb := open(t, dir, nil)
	collection(t, vdb, "c", Schema{Dim: 1})
	if err := engine.Depose(dir, "of another leader"); !errors.Is(err, engine.ErrLocked) {
		t.Errorf("with another token: %v", err)
	}
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	files := inDir(t, dir)
	fence, err := files.LockAlone(engine.FenceName)
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan *DB)
	go func() {
		vdb, err := Open(dir, nil)
		if err != nil {
			t.Error(err)
		}
		opened <- vdb
	}()
	select {
	case <-opened:
		t.Fatal("opened while another process takes the lead")
	case <-time.After(50 * time.Millisecond): // it fails at once without the lock
	}
	if err := fence.Close(); err != nil {
		t.Fatal(err)
	}
	if vdb = <-opened; vdb == nil {
		t.FailNow()
	}
	defer vdb.Close()
	if _, err := files.Size(engine.FenceName); err == nil {
		t.Error("the fence is still there")
	}
	upsert(t, collectionOf(t, vdb, "c"), Document{ID: "a", Vector: []float32{1}})
	alone(t, parent, "db")
}

// onMessage calls a function before a message is logged.
type onMessage struct {
	slog.Handler
	text string
	call func()
}

func (o onMessage) Enabled(context.Context, slog.Level) bool { return true }

func (o onMessage) Handle(_ context.Context, r slog.Record) error {
	if r.Message == o.text {
		o.call()
	}
	return nil
}

// TestFencedLink: a symbolic link in the place of what a leader left leads to a database of its
// own, which stays.
func TestFencedLink(t *testing.T) {
	bounded(t)
	parent := t.TempDir()
	other := filepath.Join(parent, "other")
	vdb := open(t, other, nil)
	upsert(t, collection(t, vdb, "c", Schema{Dim: 1}), Document{ID: "a", Vector: []float32{1}})
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(other, filepath.Join(parent, ".db.fenced-0")); err != nil {
		t.Fatal(err)
	}
	open(t, filepath.Join(parent, "db"), nil)
	if n, err := collectionOf(t, open(t, other, nil), "c").Count(t.Context(), nil); err != nil || n != 1 {
		t.Errorf("%d documents, %v", n, err)
	}
}

// TestBarrierOfFormerLeader: a leader that was fenced and does not know answers no barrier. The
// process then asks the next leader, and sees every write that this one has acknowledged.
func TestBarrierOfFormerLeader(t *testing.T) {
	bounded(t)
	ctx := t.Context()
	dir := filepath.Join(t.TempDir(), "db")
	first, second := open(t, dir, nil), open(t, dir, nil)
	collection(t, first, "c", Schema{})
	if err := second.Barrier(ctx); err != nil {
		t.Fatal(err)
	}
	depose(t, dir)
	third := open(t, dir, nil)
	upsert(t, collectionOf(t, third, "c"), Document{ID: "a"})
	// A call of the database would look for the fence first, but not if another one just has.
	if err := second.member.Barrier(ctx); err != nil {
		t.Fatal(err)
	}
	if seen, want := second.engine.Seen(), third.engine.Seen(); seen < want {
		t.Errorf("batch %d behind the barrier, %d was acknowledged", seen, want)
	}
}

// TestBarrierCannotLook: a leader that cannot find out whether it has lost the lead returns the
// error of a barrier, and does not look again and again.
func TestBarrierCannotLook(t *testing.T) {
	bounded(t)
	dir := filepath.Join(t.TempDir(), "db")
	vdb, fence := open(t, dir, nil), filepath.Join(dir, engine.FenceName)
	err := inDir(t, dir).Ring(engine.LockName)
	if err == nil {
		err = os.Symlink(engine.FenceName, fence) // leads to itself
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := vdb.member.Barrier(t.Context()); !errors.Is(err, syscall.ELOOP) {
		t.Error(err)
	}
	if err := os.Remove(fence); err != nil {
		t.Fatal(err)
	}
	if err := vdb.Barrier(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestFormerLeaderNotices: a leader that was fenced and goes on without a call notices by the
// connections that end, and follows.
func TestFormerLeaderNotices(t *testing.T) {
	bounded(t)
	dir := filepath.Join(t.TempDir(), "db")
	noticed := make(chan struct{})
	first := open(t, dir, &Options{Logger: slog.New(onMessage{slog.DiscardHandler,
		"another process has taken the lead, because this one was stopped", func() { close(noticed) }})})
	second := open(t, dir, nil)
	collection(t, first, "c", Schema{})
	depose(t, dir)
	upsert(t, collectionOf(t, second, "c"), Document{ID: "a"})
	<-noticed
	if first.engine.Leads() {
		t.Error("it leads")
	}
}

// TestFormerLeaderReleasesFolder: a process that has lost the lead releases the folder that it
// published to, before its calls go on. It publishes again once it leads again.
func TestFormerLeaderReleasesFolder(t *testing.T) {
	bounded(t)
	ctx, parent := t.Context(), t.TempDir()
	dir, folder := filepath.Join(parent, "db"), filepath.Join(parent, "published")
	publishes := func(p *Publisher, version uint64) {
		t.Helper()
		if done := publish(t, p); done.Version != version {
			t.Fatalf("%+v, want version %d", done, version)
		}
	}
	first, second := open(t, dir, nil), open(t, dir, nil)
	collection(t, first, "c", Schema{})
	former := publisher(t, first, folder, nil)
	publishes(former, 1)
	depose(t, dir)
	upsert(t, collectionOf(t, second, "c"), Document{ID: "a"})
	if err := first.Barrier(ctx); err != nil {
		t.Fatal(err)
	}
	next := publisher(t, second, folder, nil)
	publishes(next, 2)
	if _, err := former.Publish(ctx); !errors.Is(err, ErrLocked) {
		t.Errorf("a process that follows publishes: %v", err)
	}
	if err := errors.Join(next.Close(), second.Close()); err != nil {
		t.Fatal(err)
	}
	upsert(t, collectionOf(t, first, "c"), Document{ID: "b"})
	publishes(former, 3)
}

// TestDeposedWhilePublishing: a Publish whose process loses the lead before it has chosen a version
// publishes nothing, and releases the folder at its end.
func TestDeposedWhilePublishing(t *testing.T) {
	bounded(t)
	ctx, parent := t.Context(), t.TempDir()
	dir, folder := filepath.Join(parent, "db"), filepath.Join(parent, "published")
	opts := &Options{Sync: SyncNever}
	first, second := open(t, dir, opts), open(t, dir, opts)
	collection(t, first, "c", Schema{})
	armed := false
	former, err := first.NewPublisher(folder, &PublishOptions{hook: func(vfs.Op) error {
		if !armed {
			return nil
		}
		armed = false
		depose(t, dir)
		upsert(t, collectionOf(t, second, "c"), Document{ID: "a"})
		return first.Barrier(ctx) // it follows
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer former.Close()
	armed = true
	if done, err := former.Publish(ctx); !errors.Is(err, ErrLocked) {
		t.Errorf("%+v, %v", done, err)
	}
	next, err := second.NewPublisher(folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

// TestCannotLead: a process that cannot begin to lead, because a fence appears after it has read
// the files, stays a follower that reads. Another process leads, and it follows.
func TestCannotLead(t *testing.T) {
	bounded(t)
	ctx, dir := t.Context(), t.TempDir()
	files, fences := inDir(t, dir), 0
	before := func() { // its first commit
		if fences++; fences > 1 {
			return
		}
		fence, err := files.LockAlone(engine.FenceName)
		if err = errors.Join(err, fence.Close(), files.Ring(engine.LockName)); err != nil {
			t.Error(err)
		}
	}
	first := open(t, dir, nil)
	second := open(t, dir, &Options{Logger: slog.New(onMessage{slog.DiscardHandler, "recovered", before})})
	upsert(t, collection(t, first, "c", Schema{Dim: 1}), Document{ID: "a", Vector: []float32{1}})
	if err := second.Barrier(ctx); err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	docs := collectionOf(t, second, "c")
	if _, err := docs.Get(ctx, "a", WithText); err != nil {
		t.Error(err)
	}
	upsert(t, docs, Document{ID: "b", Vector: []float32{2}}) // it waits for a leader
	if fences < 2 {
		t.Error("it leads beside a fence")
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	check(t, open(t, dir, nil))
}

// TestWorkingDirectory: a process that opened a database by a relative path, and has changed its
// working directory since, takes the lead, loses it, and makes a backup.
func TestWorkingDirectory(t *testing.T) {
	bounded(t)
	ctx, parent := t.Context(), t.TempDir()
	dir := filepath.Join(parent, "db")
	first := open(t, dir, nil)
	upsert(t, collection(t, first, "c", Schema{Dim: 1}), Document{ID: "a", Vector: []float32{1}})
	t.Chdir(parent)
	second := open(t, "db", nil)
	t.Chdir(t.TempDir())
	docs := collectionOf(t, second, "c")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	upsert(t, docs, Document{ID: "b", Vector: []float32{2}})
	if !second.engine.Leads() {
		t.Error("it does not lead")
	}
	if all, err := second.Processes(ctx); err != nil || len(all) != 1 {
		t.Error(all, err)
	}
	depose(t, dir)
	upsert(t, docs, Document{ID: "c", Vector: []float32{3}})
	copied := filepath.Join(parent, "copy")
	if err := second.Backup(ctx, copied); err != nil {
		t.Fatal(err)
	}
	if err := second.Backup(ctx, filepath.Join(dir, "inside")); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{dir, copied} {
		if n, err := collectionOf(t, open(t, at, nil), "c").Count(ctx, nil); err != nil || n != 3 {
			t.Errorf("%d documents in %s, %v", n, at, err)
		}
	}
	alone(t, parent, "db", "copy")
}

// TestDirectoryReplaced puts another database, or a backup of the same one, in the place of one
// that a process follows. When its leader ends, writes of that process fail with ErrReplaced, not
// with ErrCorrupt, and it still reads the documents that it had read before.
func TestDirectoryReplaced(t *testing.T) {
	bounded(t)
	for _, by := range []string{"another database", "a backup"} {
		for _, led := range []bool{false, true} {
			t.Run(fmt.Sprintf("by %s, led=%v", by, led), func(t *testing.T) {
				t.Parallel() // each waits for a second attempt to lead
				ctx, parent := t.Context(), t.TempDir()
				dir, other := filepath.Join(parent, "db"), filepath.Join(parent, "other")
				leader, follower := openBoth(t, dir)
				reader := open(t, dir, &Options{ReadOnly: true})
				docs := collection(t, leader, "c", Schema{Dim: 1})
				upsert(t, docs, Document{ID: "before", Vector: []float32{1}})
				if by == "a backup" {
					if err := leader.Backup(ctx, other); err != nil {
						t.Fatal(err)
					}
				} else {
					vdb := open(t, other, nil)
					collection(t, vdb, "c", Schema{Dim: 1})
					if err := vdb.Close(); err != nil {
						t.Fatal(err)
					}
				}
				upsert(t, docs, Document{ID: "since", Vector: []float32{1}})
				if err := errors.Join(follower.Barrier(ctx), reader.Barrier(ctx)); err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(os.Rename(dir, dir+".old"), os.Rename(other, dir)); err != nil {
					t.Fatal(err)
				}
				if led {
					open(t, dir, nil)
				}
				if err := leader.Close(); err != nil {
					t.Fatal(err)
				}
				c := collectionOf(t, follower, "c")
				_, err := c.Insert(ctx, Document{ID: "new", Vector: []float32{1}})
				for call, err := range map[string]error{"Insert": err, "Barrier": reader.Barrier(ctx)} {
					if !errors.Is(err, engine.ErrReplaced) || errors.Is(err, ErrCorrupt) { // which is ErrClosed
						t.Errorf("%s: %v", call, err)
					}
				}
				for _, vdb := range []*DB{follower, reader} {
					if s := must(vdb.Stats()); !strings.Contains(s.Failed, engine.ErrReplaced.Error()) {
						t.Errorf("failed: %q", s.Failed)
					}
					if _, err := collectionOf(t, vdb, "c").Get(ctx, "since", WithVector); err != nil {
						t.Error(err)
					}
					if err := vdb.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// TestDirectoryReplacedAndWritten: processes that have found a backup in the place of the directory
// do not go over to it once it has had more batches than they have seen.
func TestDirectoryReplacedAndWritten(t *testing.T) {
	bounded(t)
	ctx, parent := t.Context(), t.TempDir()
	dir, backup := filepath.Join(parent, "db"), filepath.Join(parent, "backup")
	leader, follower := openBoth(t, dir)
	reader := open(t, dir, &Options{ReadOnly: true})
	docs := collection(t, leader, "c", Schema{Dim: 1})
	upsert(t, docs, Document{ID: "before", Vector: []float32{1}})
	if err := leader.Backup(ctx, backup); err != nil {
		t.Fatal(err)
	}
	upsert(t, docs, Document{ID: "since", Vector: []float32{1}})
	if err := errors.Join(follower.Barrier(ctx), reader.Barrier(ctx)); err != nil {
		t.Fatal(err)
	}
	err := errors.Join(os.Rename(dir, dir+".old"), os.Rename(backup, dir), leader.Close())
	if err != nil {
		t.Fatal(err)
	}
	c := collectionOf(t, follower, "c")
	look := func(when string) {
		t.Helper()
		_, err := c.Insert(ctx, Document{ID: "new " + when, Vector: []float32{1}})
		for call, err := range map[string]error{"Insert": err, "Barrier": reader.Barrier(ctx)} {
			if !errors.Is(err, engine.ErrReplaced) {
				t.Errorf("%s, %s: %v", when, call, err)
			}
		}
		for name, vdb := range map[string]*DB{"follower": follower, "reader": reader} {
			if _, err := collectionOf(t, vdb, "c").Get(ctx, "since", WithVector); err != nil {
				t.Errorf("%s, %s: %v", when, name, err)
			}
			if _, err := collectionOf(t, vdb, "c").Get(ctx, "later 0", WithVector); !errors.Is(err, ErrNotFound) {
				t.Errorf("%s, %s has a document of the other history: %v", when, name, err)
			}
			if s := must(vdb.Stats()); !strings.Contains(s.Failed, engine.ErrReplaced.Error()) {
				t.Errorf("%s, %s failed: %q", when, name, s.Failed)
			}
		}
	}
	look("restored")
	next := open(t, dir, nil)
	for i := range 9 {
		upsert(t, collectionOf(t, next, "c"), Document{ID: fmt.Sprint("later ", i), Vector: []float32{1}})
	}
	look("written by another process")
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	look("led by nobody")
	last := open(t, dir, nil)
	if _, err := collectionOf(t, last, "c").Get(ctx, "later 8", WithVector); err != nil {
		t.Error(err)
	}
	err = errors.Join(last.Close(), os.Rename(dir, dir+".written"), os.Rename(dir+".old", dir))
	if err != nil {
		t.Fatal(err)
	}
	look("back in its place") // they opened this one, and have looked at the other
	if s := must(reader.Stats()); !strings.Contains(s.Failed, "had an earlier state") {
		t.Errorf("back in its place, failed: %q", s.Failed)
	}
}

// TestDirectoryGone removes or renames the directory of a database that processes follow. When its
// leader ends, they read on, and say that it is gone, not that something was not found.
func TestDirectoryGone(t *testing.T) {
	bounded(t)
	for _, tt := range []struct {
		name  string
		gone  func(t *testing.T, dir string) error
		reads bool // a process that only reads has the files, which nobody writes
	}{
		{"removed", func(_ *testing.T, dir string) error { return os.RemoveAll(dir) }, false},
		{"emptied", func(_ *testing.T, dir string) error {
			return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700))
		}, false},
		{"renamed", func(_ *testing.T, dir string) error { return os.Rename(dir, dir+".new") }, true},
		{"renamed, and led there", func(t *testing.T, dir string) error {
			err := os.Rename(dir, dir+".new")
			open(t, dir+".new", nil)
			return err
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, dir := t.Context(), filepath.Join(t.TempDir(), "db")
			leader, follower := openBoth(t, dir)
			upsert(t, collection(t, leader, "c", Schema{}), Document{ID: "a"})
			reader := open(t, dir, &Options{ReadOnly: true})
			if err := tt.gone(t, dir); err != nil {
				t.Fatal(err)
			}
			_ = leader.Close() // it may say that it cannot flush
			c := collectionOf(t, follower, "c")
			_, err := c.Insert(ctx, Document{ID: "new"})
			errs := map[string]error{"Insert": err}
			if err := reader.Barrier(ctx); !tt.reads || err != nil {
				errs["Barrier"] = err
			}
			for call, err := range errs {
				if !errors.Is(err, engine.ErrRemoved) || !errors.Is(err, ErrClosed) || errors.Is(err, ErrNotFound) ||
					errors.Is(err, ErrLocked) {
					t.Errorf("%s: %v", call, err)
				}
			}
			if _, err := c.Get(ctx, "a", WithText); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCheckDirectoryGone: a database whose directory was removed is not sound, whatever its open
// files hold.
func TestCheckDirectoryGone(t *testing.T) {
	bounded(t)
	gone := map[string]func(dir string) error{
		"removed":   os.RemoveAll,
		"emptied":   func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)) },
		"meta.bolt": func(dir string) error { return os.Remove(filepath.Join(dir, engine.MetaName)) },
		"renamed":   func(dir string) error { return os.Rename(dir, dir+".new") }, // nothing is lost
		"restored": func(dir string) error {
			name := filepath.Join(dir, engine.MetaName)
			content, err := os.ReadFile(name)
			return errors.Join(err, os.RemoveAll(dir), os.Mkdir(dir, 0o700), os.WriteFile(name, content, 0o600))
		},
	}
	wants := map[string]error{
		"removed": engine.ErrRemoved, "emptied": engine.ErrRemoved, "meta.bolt": engine.ErrRemoved,
		"restored": engine.ErrReplaced,
	}
	for name, gone := range gone {
		for _, flushed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/flushed=%v", name, flushed), func(t *testing.T) {
				ctx, dir := t.Context(), filepath.Join(t.TempDir(), "db")
				leader, follower := openBoth(t, dir)
				upsert(t, collection(t, leader, "c", Schema{}), Document{ID: "a", Vector: []float32{1}})
				if flushed {
					if err := leader.Flush(ctx); err != nil {
						t.Fatal(err)
					}
				}
				reader := open(t, dir, &Options{ReadOnly: true})
				all := map[string]*DB{"leader": leader, "follower": follower, "reader": reader}
				if err := gone(dir); err != nil {
					t.Fatal(err)
				}
				for who, vdb := range all {
					report, err := vdb.Check(ctx, CheckBytes)
					if err != nil {
						t.Errorf("%s: %v", who, err)
						continue
					}
					stats, err := vdb.Stats()
					want := wants[name]
					said := func(s string) bool {
						return strings.Contains(s, want.Error()) && strings.Contains(s, dir)
					}
					switch {
					case err != nil:
						t.Errorf("%s: %v", who, err)
					case want == nil && (len(report.Problems) > 0 || stats.Failed != ""),
						want != nil && (len(report.Problems) == 0 || !said(report.Problems[0].String()) || !said(stats.Failed)):
						t.Errorf("%s: %v, failed %q", who, report, stats.Failed)
					}
				}
			})
		}
	}
}

// TestMaintenanceOfFormerLeader: a process that finds in Flush, Compact or Backup that it has lost
// the lead asks the one that leads.
func TestMaintenanceOfFormerLeader(t *testing.T) {
	bounded(t)
	for name, call := range map[string]func(*DB) error{
		"Flush":   func(vdb *DB) error { return vdb.Flush(t.Context()) },
		"Compact": func(vdb *DB) error { return vdb.Compact(t.Context()) },
		"Backup":  func(vdb *DB) error { return vdb.Backup(t.Context(), filepath.Join(t.TempDir(), "copy")) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			first := open(t, dir, nil)
			upsert(t, collection(t, first, "c", Schema{}), Document{ID: "a"})
			second := open(t, dir, nil)
			depose(t, dir)
			if err := call(first); err != nil {
				t.Error(err)
			}
			if stats, err := second.Stats(); err != nil || stats.Flushed != stats.Batches {
				t.Errorf("%+v, %v", stats, err)
			}
		})
	}
}

// TestSnapshotsOfFormerLeader: snapshots before and after a flush of a process that led stay as
// they are once it follows, whichever is closed first.
func TestSnapshotsOfFormerLeader(t *testing.T) {
	bounded(t)
	for _, early := range []bool{false, true} {
		t.Run(fmt.Sprintf("early=%v", early), func(t *testing.T) {
			ctx, dir := t.Context(), filepath.Join(t.TempDir(), "db")
			first := open(t, dir, nil)
			docs := collection(t, first, "c", Schema{})
			open(t, dir, nil)
			var snaps []*Snapshot
			for n := range 3 {
				upsert(t, docs, Document{ID: fmt.Sprint(n)})
				if err := first.Flush(ctx); err != nil {
					t.Fatal(err)
				}
				s, err := first.Snapshot()
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				snaps = append(snaps, s)
			}
			depose(t, dir)
			if err := first.Barrier(ctx); err != nil {
				t.Fatal(err)
			}
			if early {
				slices.Reverse(snaps)
			}
			for len(snaps) > 0 {
				for _, s := range snaps {
					c, err := s.Collection("c")
					if err != nil {
						t.Fatal(err)
					}
					if _, err := c.Get(ctx, "0", WithText); err != nil {
						t.Error(err)
					}
				}
				if err := snaps[0].Close(); err != nil {
					t.Error(err)
				}
				snaps = snaps[1:]
			}
		})
	}
}

// TestReaderBetweenWriters: a process that only reads sees what others have written that opened the
// database, and closed it or were killed, while it made no call.
func TestReaderBetweenWriters(t *testing.T) {
	bounded(t)
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "db")
	put := func(id string, lead bool) {
		t.Helper()
		writer := open(t, dir, nil)
		upsert(t, collection(t, writer, "c", Schema{Dim: 1}), Document{ID: id, Vector: []float32{1}})
		if !lead {
			depose(t, dir) // Close does not change the new directory
		}
		if err := writer.Close(); err != nil {
			t.Fatal(err)
		}
	}
	put("0", true)
	if err := os.Remove(filepath.Join(dir, engine.LockName)); err != nil { // as in a copy
		t.Fatal(err)
	}
	reader := open(t, dir, &Options{ReadOnly: true})
	docs := collectionOf(t, reader, "c")
	for i, barrier := range []bool{true, false, true, false, true, true, false} {
		put(fmt.Sprint(i+1), i < 4)
		if barrier {
			if err := reader.Barrier(ctx); err != nil {
				t.Fatal(err)
			}
		}
		for want := i + 2; ; {
			n, err := docs.Count(ctx, nil)
			if err != nil || barrier && n != want {
				t.Fatalf("round %d: %d documents, want %d: %v", i, n, want, err)
			}
			if n == want {
				break
			}
		}
		if list, err := reader.Processes(ctx); err != nil || len(list) != 1 || list[0].Role != RoleReader {
			t.Fatal(list, err)
		}
	}
	check(t, reader)
}

// TestReaderOfReplacedDirectory puts another database in the place of one that a process only
// reads, and then the first one again. Meanwhile it reads on, Barrier says that it cannot know what
// others write, and Stats that the database is not there.
func TestReaderOfReplacedDirectory(t *testing.T) {
	bounded(t)
	move := func(t *testing.T, from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	for name, move := range map[string]func(t *testing.T, from, to string){
		"renamed": move,
		"emptied and filled": func(t *testing.T, from, to string) {
			if _, err := os.Stat(to); err != nil {
				if err := os.Mkdir(to, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			for _, e := range must(os.ReadDir(from)) {
				move(t, filepath.Join(from, e.Name()), filepath.Join(to, e.Name()))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, parent := t.Context(), t.TempDir()
			dir, other := filepath.Join(parent, "db"), filepath.Join(parent, "other")
			for _, at := range []string{dir, other} {
				vdb := open(t, at, nil)
				upsert(t, collection(t, vdb, "c", Schema{}), Document{ID: at})
				if err := vdb.Close(); err != nil {
					t.Fatal(err)
				}
			}
			reader := open(t, dir, &Options{ReadOnly: true})
			failed := func() string { return must(reader.Stats()).Failed }
			move(t, dir, dir+".old")
			move(t, other, dir)
			if err := reader.Barrier(ctx); !errors.Is(err, engine.ErrReplaced) {
				t.Error(err)
			}
			if got := failed(); !strings.Contains(got, engine.ErrReplaced.Error()) {
				t.Errorf("failed: %q", got)
			}
			if _, err := collectionOf(t, reader, "c").Get(ctx, dir, WithText); err != nil {
				t.Error(err)
			}
			move(t, dir, other)
			move(t, dir+".old", dir)
			if err := reader.Barrier(ctx); err != nil || failed() != "" {
				t.Errorf("restored: %v, failed: %q", err, failed())
			}
		})
	}
}

// TestDirectoryRemoved removes the directory of an open database: the next write fails, because
// nothing could find it again, and so do all further ones.
func TestDirectoryRemoved(t *testing.T) {
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "db")
	vdb, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close() // it says that it cannot flush
	c := collection(t, vdb, "c", Schema{})
	upsert(t, c, Document{ID: "before"})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := c.Insert(ctx, Document{ID: "after"})
		if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "was removed from "+dir) {
			t.Error(err)
		}
	}
	if _, err := c.Get(ctx, "before", WithText); err != nil {
		t.Error(err)
	}
}
