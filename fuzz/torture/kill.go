package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vecbolt/vecbolt/db"
)

// killProfile is the workload of processes that are killed.
var killProfile = profile{name: "kill", tracks: 4, head: 16 * kib, compact: true, ids: 40, text: 600, docs: 4,
	weights: []weight{{stepBatch, 8}, {stepCross, 4}, {stepDelete, 2}, {stepWhere, 1}, {stepCreate, 1},
		{stepDrop, 1}, {stepRename, 1},
		{stepMeta, 1}, {stepFlush, 1}, {stepCompact, 1}}}

const (
	killsPerDatabase = 25 // then a new database: the model remembers every batch
	marksPerKill     = 80 // largest number of marks before a kill
	scarceShare      = 3  // one in this number of processes runs out of file handles
)

// killOrder is the instruction for a child process.
type killOrder struct {
	Seed   uint64
	Resume []int // last batch of each track in the database
	Scarce bool  // file handles run out now and then
}

// A shortage takes file handles away from a process at intervals, counted in marks.
type shortage struct {
	mu    sync.Mutex
	rng   *rand.Rand
	left  int    // marks until it starts or ends
	relax func() // ends it; nil while there is no shortage
}

// mark counts a mark.
func (s *shortage) mark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left--; s.left > 0 {
		return
	}
	s.left = 1 + s.rng.IntN(4)
	if s.relax != nil {
		s.relax()
		s.relax = nil
		return
	}
	if relax, err := limitFiles(s.rng.IntN(3)); err == nil {
		s.relax = relax
	}
}

// end gives the handles back to a process that cannot continue.
func (s *shortage) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.relax != nil {
		s.relax()
		s.relax = nil
	}
}

// killedProcess writes with several goroutines and reads with others until it is killed. It reports
// the start and the acknowledgement of each batch on out.
func killedProcess(dir string, in io.Reader, out io.Writer) {
	var mu sync.Mutex
	say := func(format string, args ...any) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := fmt.Fprintf(out, format+"\n", args...)
		return err
	}
	var order killOrder
	if err := json.NewDecoder(in).Decode(&order); err != nil {
		_ = say("error %v", err)
		return
	}
	w := newWorkload(&killProfile, order.Seed, dir, say)
	for i, t := range w.tracks {
		t.advance(order.Resume[i])
		t.acked = order.Resume[i]
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if err := w.open(); err != nil {
		_ = say("error %v", strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	if order.Scarce {
		w.scarce = &shortage{rng: rand.New(rand.NewPCG(order.Seed, uint64(order.Resume[0]))), left: 5}
	}
	var all sync.WaitGroup
	start := func(do func() error) {
		all.Go(func() {
			err := do()
			if err != nil && w.scarce != nil && errors.Is(err, db.ErrUnknown) && errors.Is(err, errNoHandles) {
				killMyself() // the next Open decides whether the write survives
			}
			if err != nil {
				_ = say("error %v", strings.ReplaceAll(err.Error(), "\n", " "))
				stop()
			}
		})
	}
	for _, t := range w.tracks {
		start(func() error { return w.follow(ctx, t) })
	}
	for i := range 2 {
		start(func() error { return w.keepReading(ctx, i) })
	}
	all.Wait()
}

// keepReading reads a permanent collection repeatedly.
func (w *workload) keepReading(ctx context.Context, track int) error {
	for ctx.Err() == nil {
		err := readOnce(ctx, w.vdb, track)
		switch {
		case errors.Is(err, db.ErrNotFound):
			time.Sleep(time.Millisecond) // the first batch may create it
		case err != nil && ctx.Err() == nil && !(w.scarce != nil && errors.Is(err, errNoHandles)):
			return err
		}
	}
	return nil
}

func readOnce(ctx context.Context, vdb *db.DB, track int) error {
	c, err := vdb.Collection(fmt.Sprintf("%d/a", track))
	if err != nil {
		return err
	}
	if _, err := c.Search(ctx, db.Query{Near: db.Vector(make([]float32, dim)), K: 3}); err != nil {
		return err
	}
	for _, err := range c.All(ctx, nil, db.Everything) {
		if err != nil {
			return err
		}
	}
	return nil
}

// advance takes steps until the track has this number of batches.
func (t *track) advance(batches int) {
	for len(t.history)-1 < batches {
		t.next()
	}
}

// A blow is a way to end processes that write to a database.
type blow struct {
	dir    string       // of the database; empty at first
	strike func() error // called before the process is killed; may be nil
	mend   func() error // makes the directory readable again; may be nil
	count  func(*Report)

	// Unsynced changes are lost. Writes acknowledged after the blow began may be lost too: in ext4
	// (Linux 6.18) an fdatasync that runs while the file system is shut down can return nil
	// although the extents that it wrote stay marked as unwritten. A process without power cannot
	// report anything, so these acknowledgements do not count.
	lost bool
}

// kills kills processes while more reports true.
func (r *run) kills(ctx context.Context, more func() bool) error {
	rng := rand.New(rand.NewPCG(r.o.Seed, 3))
	for more() {
		dir, err := os.MkdirTemp(r.dir, "kill-")
		if err != nil {
			return err
		}
		before := r.violations()
		err = r.killDatabase(ctx, rng, more, blow{dir: dir, count: func(r *Report) { r.Kills++ }})
		if r.violations() == before {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// killDatabase creates a database and strikes the processes that write to it.
func (r *run) killDatabase(ctx context.Context, rng *rand.Rand, more func() bool, how blow) error {
	order := killOrder{Seed: rng.Uint64(), Resume: make([]int, killProfile.tracks)}
	w := newWorkload(&killProfile, order.Seed, how.dir, nil)
	for range killsPerDatabase {
		if !more() {
			break
		}
		b := newBounds(len(w.tracks))
		copy(b.safe, order.Resume)
		copy(b.acked, order.Resume)
		copy(b.begun, order.Resume)
		what := fmt.Sprintf("profile kill in %s, seed %d, batches %v", how.dir, order.Seed, order.Resume)
		order.Scarce = !how.lost && rng.IntN(scarceShare) == 0
		if order.Scarce {
			what += ", out of file handles now and then"
		}
		if err := r.kill(ctx, how, order, rng, b); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r.violation(what, fmt.Errorf("%w (the database is kept)", err), nil, nil)
			return nil
		}
		r.add(how.count)
		for i, t := range w.tracks {
			t.advance(b.begun[i])
		}
		e := &expectation{p: &killProfile, tracks: w.tracks, bounds: b, kill: !how.lost}
		found, err := e.verify(context.WithoutCancel(ctx), how.dir, rng)
		if err != nil {
			r.violation(what, fmt.Errorf("%w (the database is kept)", err), nil, nil)
			return nil
		}
		order.Resume = slices.Clone(found)
	}
	return nil
}

// kill starts a process, ends it, and records its reports in b.
func (r *run) kill(ctx context.Context, how blow, order killOrder, rng *rand.Rand, b *bounds) error {
	cmd, err := command(r.o.Args, killEnv+"="+how.dir)
	if err != nil {
		return err
	}
	what, err := json.Marshal(order)
	if err != nil {
		return err
	}
	cmd.Stdin = strings.NewReader(string(what))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	kill := func() { _ = cmd.Process.Kill() }
	stop := context.AfterFunc(ctx, kill)
	defer stop()
	hang := time.AfterFunc(hangTime, kill)
	defer hang.Stop()
	var struck atomic.Bool // from then on errors of the process are expected
	var strikeErr error
	strike := sync.OnceFunc(func() {
		struck.Store(true)
		if how.strike != nil {
			strikeErr = how.strike()
		}
		kill()
	})
	left := 1 + rng.IntN(marksPerKill)
	if rng.IntN(4) == 0 { // soon, while it still opens the database
		left = marksPerKill
		soon := time.AfterFunc(time.Duration(rng.IntN(20))*time.Millisecond, strike)
		defer soon.Stop()
	}
	var failed error
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "error "):
			if !struck.Load() {
				failed = errors.Join(failed, errors.New(line))
			}
		case line == opened, how.lost && struck.Load() && !strings.HasPrefix(line, "begin "):
			// These acknowledgements do not count: see blow.lost.
		default:
			failed = errors.Join(failed, b.note(line))
		}
		if left--; left == 0 {
			strike()
		}
	}
	// A process without file handles may have killed itself.
	if err := cmd.Wait(); err == nil && failed == nil && !struck.Load() {
		failed = errors.New("the process ended by itself")
	}
	strike() // waits for a strike that has begun
	if !hang.Stop() {
		failed = errors.Join(failed, errHang)
	}
	if failed = errors.Join(failed, strikeErr, lines.Err()); failed == nil && how.mend != nil {
		failed = how.mend()
	}
	return failed
}
