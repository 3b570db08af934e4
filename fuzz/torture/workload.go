package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A workload is a profile that runs on a database.
type workload struct {
	p      *profile
	tracks []*track
	dir    string // contains the database and its backups
	mark   func(format string, args ...any) error
	faulty bool      // errors are expected
	blind  bool      // reads may fail, too
	scarce *shortage // of file handles; may be nil
	rec    *recorder // of a profile with members

	vdb      *db.DB
	name     string // of the database's directory
	snap     *db.Snapshot
	pub      *db.Publisher // opened on demand
	backups  int
	backedUp int // last batch of the newest backup
	restores int
	wrong    error // set if the database answered wrongly after a fault
}

func newWorkload(p *profile, seed uint64, dir string, mark func(string, ...any) error) *workload {
	w := &workload{p: p, dir: dir, mark: mark, name: databaseName}
	for i := range max(1, p.tracks) {
		w.tracks = append(w.tracks, newTrack(p, seed, i))
	}
	return w
}

const (
	databaseName  = "database"  // restored ones have a number appended
	publishedName = "published" // the folder of replicas
)

func (w *workload) open() (err error) {
	if err := w.mark(opened); err != nil {
		return err
	}
	w.vdb, err = db.Open(filepath.Join(w.dir, cmp.Or(w.name, databaseName)), w.p.options())
	return err
}

// run takes all steps, and closes the database in any case.
func (w *workload) run(ctx context.Context) (err error) {
	if w.p.members != nil {
		return w.runMembers(ctx)
	}
	if err := w.open(); err != nil {
		return err
	}
	if len(w.tracks) == 1 {
		err = w.follow(ctx, w.tracks[0])
	} else {
		errs := make([]error, len(w.tracks))
		var all sync.WaitGroup
		for i, t := range w.tracks {
			all.Go(func() { errs[i] = w.follow(ctx, t) })
		}
		all.Wait()
		err = errors.Join(errs...)
	}
	if err != nil && w.faulty && w.vdb != nil {
		w.wrong = errors.Join(w.wrong, w.answers(ctx))
	}
	return errors.Join(err, w.close())
}

// answers checks that a database which refuses writes still contains all acknowledged writes.
func (w *workload) answers(ctx context.Context) error {
	got, err := read(ctx, w.vdb, len(w.tracks))
	if err != nil && w.blind && !wrongAnswer(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read after a failed write: %w", err)
	}
	for i, t := range w.tracks {
		if sum := got[i].sum(); sum != t.history[t.acked].sum() && sum != t.now().sum() {
			return fmt.Errorf("read after a failed write: %s", difference(got[i], t.history[t.acked]))
		}
	}
	return nil
}

func (w *workload) close() (err error) {
	vdb := w.vdb
	w.vdb = nil
	if vdb == nil {
		return nil
	}
	if w.snap != nil {
		w.snap.Close()
		w.snap = nil
	}
	if w.pub != nil {
		err = w.pub.Close()
		w.pub = nil
	}
	stats, unknown := vdb.Stats()
	failed := stats.Failed != "" // if so, nothing is flushed
	if err := errors.Join(err, unknown, vdb.Close()); err != nil || failed {
		return err
	}
	for _, t := range w.tracks {
		err = errors.Join(err, w.safe(t))
	}
	return err
}

// safe marks that the acknowledged batches of a track survive a power cut.
func (w *workload) safe(t *track) error { return w.mark("safe %d %d", t.number, t.acked) }

// recover opens a database after a crash, marks its content, and closes it. Once it was read, the
// content must not change.
func (w *workload) recover(ctx context.Context, e *expectation) error {
	if err := w.open(); err != nil {
		return err
	}
	found, err := e.find(ctx, w.vdb)
	for i, n := range found {
		err = errors.Join(err, w.mark("begin %d %d", i, n), w.mark("safe %d %d", i, n))
	}
	return errors.Join(err, w.vdb.Close())
}

func (w *workload) follow(ctx context.Context, t *track) error {
	for w.p.steps == 0 || t.taken < w.p.steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		s := t.next()
		var err error
		if s.kind < lastWrite {
			err = w.write(ctx, t, &s)
		} else if err = w.maintain(ctx, t, &s); err != nil && w.faulty && s.kind != stepReopen {
			err = nil // the next step finds out whether writes continue
		} else if w.scarce != nil && errors.Is(err, errNoHandles) && !errors.Is(err, db.ErrUnknown) {
			err = nil
		}
		if err != nil {
			return fmt.Errorf("step %d of track %d: %w", t.taken, t.number, err)
		}
	}
	return nil
}

func (w *workload) write(ctx context.Context, t *track, s *step) error {
	batch := len(t.history) - 1
	if err := w.mark("begin %d %d", t.number, batch); err != nil {
		return err
	}
	err := s.write(ctx, w.vdb)
	for w.scarce != nil && errors.Is(err, errNoHandles) && !errors.Is(err, db.ErrUnknown) {
		// Nothing was written. With more handles the same process continues.
		w.scarce.end()
		if err := errors.Join(w.mark("undo %d %d", t.number, batch-1),
			w.mark("begin %d %d", t.number, batch)); err != nil {
			return err
		}
		err = s.write(ctx, w.vdb)
	}
	if w.scarce != nil {
		w.scarce.mark()
	}
	if err != nil && w.faulty && !errors.Is(err, db.ErrUnknown) {
		// Nothing was written, so the step can be repeated.
		if err := w.mark("undo %d %d", t.number, batch-1); err != nil {
			return err
		}
		if err := w.mark("begin %d %d", t.number, batch); err != nil {
			return err
		}
		again := s.write(ctx, w.vdb)
		if again != nil && !errors.Is(again, db.ErrUnknown) {
			return errors.Join(again, w.mark("undo %d %d", t.number, batch-1))
		}
		err = again
	}
	if err != nil {
		return err
	}
	t.acked = batch
	if w.p.sync == db.SyncAlways {
		return w.safe(t)
	}
	return w.mark("ack %d %d", t.number, batch)
}

func (w *workload) maintain(ctx context.Context, t *track, s *step) (err error) {
	switch s.kind {
	case stepFlush:
		err = w.vdb.Flush(ctx)
	case stepCompact:
		err = w.vdb.Compact(ctx)
	case stepReopen:
		if err := w.close(); err != nil {
			return err
		}
		return w.open()
	case stepSnapshot:
		old := w.snap
		w.snap, err = w.vdb.Snapshot()
		if old != nil {
			err = errors.Join(err, old.Close())
		}
		return err
	case stepRead:
		return w.look(ctx, t)
	case stepBackup:
		w.backups++
		name := fmt.Sprintf("backup-%d", w.backups)
		if err := w.mark("backup %s %d", name, len(t.history)-1); err != nil {
			return err
		}
		if err := w.vdb.Backup(ctx, filepath.Join(w.dir, name)); err != nil {
			return err
		}
		w.backedUp = len(t.history) - 1
		err = w.mark("copied %s %d", name, len(t.history)-1)
	case stepPublish:
		err = w.publish(ctx, t)
	case stepRestore:
		return w.restore(t)
	case stepDepose:
		if t.taken%2 == 0 {
			err = w.mark(dies)
		}
		if err == nil {
			err = deposeLeader(filepath.Join(w.dir, w.name))
		}
		if err == nil {
			err = w.vdb.Barrier(ctx) // it follows, and leads in the other directory
		}
	}
	if err != nil {
		return err
	}
	return w.safe(t)
}

// deposeLeader does what a process does that finds the leader stopped.
func deposeLeader(dir string) (err error) {
	files, err := vfs.Open(dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	token, err := files.LockToken(engine.LockName)
	if err != nil {
		return err
	}
	return engine.Depose(dir, token)
}

// publish publishes the database to the folder of replicas.
func (w *workload) publish(ctx context.Context, t *track) (err error) {
	if err := w.mark("publish %s %d", publishedName, len(t.history)-1); err != nil {
		return err
	}
	if w.pub == nil {
		if w.pub, err = w.vdb.NewPublisher(filepath.Join(w.dir, publishedName),
			&db.PublishOptions{Keep: 2}); err != nil {
			return err
		}
	}
	if _, err := w.pub.Publish(ctx); err != nil {
		return err
	}
	return w.mark("published %s %d", publishedName, len(t.history)-1)
}

// restore continues with a copy of the last backup, if there is one: all later batches are undone,
// as one more batch.
func (w *workload) restore(t *track) error {
	if w.backedUp == 0 {
		return nil
	}
	if err := w.close(); err != nil {
		return err
	}
	w.restores++
	name := fmt.Sprintf("%s-%d", databaseName, w.restores)
	if err := copyDurably(filepath.Join(w.dir, fmt.Sprintf("backup-%d", w.backups)),
		filepath.Join(w.dir, name)); err != nil {
		return err
	}
	t.history = append(t.history, t.history[w.backedUp])
	t.acked = len(t.history) - 1
	if err := w.mark("restored %s %d", name, t.acked); err != nil {
		return err
	}
	w.name = name
	return w.open()
}

// copyDurably copies a directory durably: the content is on disk before the name.
func copyDurably(from, to string) error {
	var dirs []string
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := to + strings.TrimPrefix(path, from)
		if d.IsDir() {
			dirs = append(dirs, name)
			return os.Mkdir(name, 0o700)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(b)
		return errors.Join(err, f.Sync(), f.Close())
	})
	for _, dir := range append(dirs, filepath.Dir(to)) {
		if err == nil {
			err = syncDirectory(dir)
		}
	}
	return err
}

func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// look reads in several ways. Errors are allowed if faults are expected; wrong answers never are.
func (w *workload) look(ctx context.Context, t *track) error {
	wrong := func(err error) error {
		w.wrong = errors.Join(w.wrong, fmt.Errorf("step %d of track %d: %w", t.taken, t.number, err))
		return nil
	}
	report, err := w.vdb.Check(ctx, db.CheckBytes)
	if err != nil {
		return err
	}
	if !report.OK() && !w.blind {
		return wrong(fmt.Errorf("check: %v", report.Problems))
	}
	got, err := read(ctx, w.vdb, len(w.tracks))
	if wrongAnswer(err) {
		return wrong(err)
	}
	if err != nil {
		return err
	}
	if want := t.history[t.acked]; got[t.number].sum() != want.sum() {
		return wrong(fmt.Errorf("%s", difference(got[t.number], want)))
	}
	err = search(ctx, w.vdb, got[t.number], rand.New(rand.NewPCG(t.seed, uint64(t.taken))))
	if wrongAnswer(err) {
		return wrong(err)
	}
	return err
}
