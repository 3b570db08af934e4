package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// Options bound the work of Run. The zero value is a run of one minute.
type Options struct {
	// Duration bounds the run; 0 means one minute, unless States is set.
	Duration time.Duration
	// Seed determines the workloads and, for equal recordings, the states. It does not determine
	// the order in which the goroutines of a database access files.
	Seed uint64
	// States is the number of crash states after which a run ends; 0 leaves it to Duration, and a
	// negative number means no states.
	States int
	// Kills and Faults are numbers of killed processes and of failed operations; 0 leaves them to
	// Duration, or means none if States is set.
	Kills, Faults int
	// Ext4Cuts and XFSCuts are numbers of power cuts on these file systems, like Kills.
	Ext4Cuts, XFSCuts int
	// Workers is the number of databases that are tested concurrently; 0 means GOMAXPROCS.
	Workers int
	// Profiles are the names of the workloads to run; empty means all.
	Profiles []string
	// FailFast ends the run at the first violation.
	FailFast bool
	// Args start this program again such that it calls Child.
	Args []string
	// Log receives progress and violations as text. nil is silent.
	Log io.Writer
}

// A Report counts tests and violations.
type Report struct {
	CrashStates int     `json:"crash_states"` // distinct states that were opened and compared
	Kills       int     `json:"kills"`
	Faults      int     `json:"faults"`
	Violations  int     `json:"violations"`
	Seconds     float64 `json:"seconds"`

	FaultKinds map[string]int `json:"-"` // Faults, by error
	Cuts       map[string]int `json:"-"` // power cuts, by file system
	Recoveries int            `json:"-"` // of CrashStates: states after a crash during recovery
	Recorded   int            `json:"-"` // operations
	Details    []Violation    `json:"-"` // the first few violations
	Skipped    []string       `json:"-"` // tests that cannot run here, with the reason
}

// A Violation is a promise that was broken.
type Violation struct {
	What string // the situation: profile, seed, operation, policy
	Err  error
	Path string // directory with the state and the log of operations; may be empty
}

func (v Violation) String() string {
	return fmt.Sprintf("%s: %v (kept in %s)", v.What, v.Err, v.Path)
}

const (
	keptViolations = 20 // later ones are only counted
	hangTime       = 2 * time.Minute
	progressTime   = 15 * time.Second
	gcPercent      = 600
)

// errNoCuts means that the power of a file system cannot be cut on this machine.
var errNoCuts = errors.New("power cuts")

// errHang ends a run: a goroutine that hangs cannot be stopped.
var errHang = errors.New("hangs")

// inTime returns fn's error, or errHang when fn takes too long. fn then keeps running.
func inTime(fn func() error) error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	hang := time.NewTimer(hangTime)
	defer hang.Stop()
	select {
	case err := <-done:
		return err
	case <-hang.C:
		return errHang
	}
}

// Run tests databases below dir, which must exist. The report includes violations; the error means
// that the run could not continue. States that violate a guarantee are kept below dir.
func Run(ctx context.Context, dir string, o Options) (Report, error) {
	start := time.Now()
	if o.Duration == 0 && o.States == 0 {
		o.Duration = time.Minute
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	r := &run{o: o, dir: dir, start: start, report: Report{FaultKinds: map[string]int{}, Cuts: map[string]int{}}}
	wanted := func(name string) bool { return len(o.Profiles) == 0 || slices.Contains(o.Profiles, name) }
	for i := range profiles {
		if wanted(profiles[i].name) {
			r.profiles = append(r.profiles, &profiles[i])
		}
	}
	for _, plan := range faultPlans() {
		if wanted(plan.p.name) {
			r.faultPlans = append(r.faultPlans, plan)
		}
	}
	if len(r.profiles)+len(r.faultPlans) == 0 {
		return Report{}, fmt.Errorf("torture: no profile of these names: %v", o.Profiles)
	}
	// There are many small states: with the default setting the garbage collector would run
	// constantly.
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	stop := r.progress()
	ctx, r.cancel = context.WithCancel(ctx)
	defer r.cancel()
	err := r.run(ctx)
	stop()
	if o.FailFast && r.report.Violations > 0 && errors.Is(err, context.Canceled) {
		err = nil
	}
	r.report.Seconds = time.Since(start).Seconds()
	return r.report, err
}

// progress writes a line at intervals, until stop is called.
func (r *run) progress() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(progressTime)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				r.mu.Lock()
				fmt.Fprintf(r.o.Log, "%4.0f s: %d crash states, %d faults, %d kills, %d violations\n",
					time.Since(r.start).Seconds(),
					r.report.CrashStates, r.report.Faults, r.report.Kills, r.report.Violations)
				r.mu.Unlock()
			}
		}
	}()
	return func() { close(done); <-ended }
}

type run struct {
	o          Options
	dir        string
	start      time.Time
	profiles   []*profile
	faultPlans []faultPlan

	mu     sync.Mutex
	report Report
	jobs   int // started recordings

	faultJobs int // started faults

	cancel context.CancelFunc
}

// Shares of a run that is bounded by time.
const (
	crashShare = 0.6
	faultShare = 0.15
	cutShare   = 0.05 // of each file system; the rest is for kills
)

func (r *run) run(ctx context.Context) error {
	errs := make([]error, r.o.Workers)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = r.work(ctx) })
	}
	all.Wait()
	err := errors.Join(errs...)
	if errors.Is(err, ErrUnavailable) {
		r.skip("crash states and faults: %v", errs[0])
		err = nil
	}
	if err != nil {
		return err
	}
	for i, fs := range []string{"ext4", "xfs"} {
		wanted := []int{r.o.Ext4Cuts, r.o.XFSCuts}[i]
		err := r.bounded(ctx, crashShare+faultShare+float64(i+1)*cutShare, func(ctx context.Context) error {
			return r.cuts(ctx, fs, func() bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				return ctx.Err() == nil && r.wanted(wanted, r.report.Cuts[fs])
			})
		})
		if errors.Is(err, errNoCuts) {
			if wanted > 0 || r.o.States == 0 {
				r.skip("%v", err)
			}
			err = nil
		}
		if err != nil {
			return err
		}
	}
	return r.bounded(ctx, 1, func(ctx context.Context) error {
		return r.kills(ctx, func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return ctx.Err() == nil && r.wanted(r.o.Kills, r.report.Kills)
		})
	})
}

// wanted reports whether to continue a part that a count or the time bounds. mu is held.
func (r *run) wanted(most, done int) bool {
	return most > done || most == 0 && r.o.States == 0
}

// bounded runs fn until its share of the run has passed.
func (r *run) bounded(ctx context.Context, until float64, fn func(context.Context) error) error {
	if r.o.Duration == 0 {
		return fn(ctx)
	}
	part, cancel := context.WithDeadline(ctx, r.start.Add(time.Duration(until*float64(r.o.Duration))))
	defer cancel()
	err := fn(part)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}

// work is the loop of one worker goroutine.
func (r *run) work(ctx context.Context) (err error) {
	w := &worker{run: r, buf: make([]byte, 256*kib)}
	if w.tmp, err = scratch(r.dir); err != nil {
		return err
	}
	defer os.RemoveAll(w.tmp)
	if w.rec, err = startRecorder(r.o.Args, w.tmp); err != nil {
		return err
	}
	defer w.rec.close()
	if err := r.bounded(ctx, crashShare, w.crash); err != nil {
		return err
	}
	if err := os.RemoveAll(w.state()); err != nil {
		return err
	}
	return r.bounded(ctx, crashShare+faultShare, func(ctx context.Context) error {
		return w.faults(ctx, func() (int, bool) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.faultJobs++
			return r.faultJobs - 1, ctx.Err() == nil && r.wanted(r.o.Faults, r.report.Faults)
		})
	})
}

func (r *run) skip(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	what := fmt.Sprintf(format, args...)
	r.report.Skipped = append(r.report.Skipped, what)
	fmt.Fprintln(r.o.Log, "skipped:", what)
}

// add updates the report.
func (r *run) add(fn func(*Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fn(&r.report)
}

func (r *run) violations() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.report.Violations
}

// violation records a violation and keeps the data to reproduce it.
func (r *run) violation(what string, err error, s state, ops []Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Violations++
	if len(r.report.Details) >= keptViolations {
		return
	}
	v := Violation{What: what, Err: err}
	if path, kerr := os.MkdirTemp(r.dir, "violation-"); kerr == nil {
		v.Path = path
		if kerr := keep(path, v, s, ops); kerr != nil {
			fmt.Fprintln(r.o.Log, "cannot keep a violation:", kerr)
		}
	}
	r.report.Details = append(r.report.Details, v)
	fmt.Fprintln(r.o.Log, "VIOLATION:", v)
	if r.o.FailFast {
		r.cancel()
	}
}

// failed records a violation, and ends the run if the database hangs.
func (w *worker) failed(what string, err error, s state, ops []Op) error {
	w.violation(what, err, s, ops)
	if errors.Is(err, errHang) {
		return fmt.Errorf("torture: %s: %w", what, err)
	}
	return nil
}

func keep(path string, v Violation, s state, ops []Op) error {
	log, err := os.Create(filepath.Join(path, "operations"))
	if err != nil {
		return err
	}
	at := filepath.Join(path, "state")
	return errors.Join(writeLog(log, ops), log.Close(), os.Mkdir(at, 0o700), s.write(at, make([]byte, 256*kib)),
		os.WriteFile(filepath.Join(path, "what"), []byte(v.What+"\n"+v.Err.Error()+"\n"), 0o600))
}

// A worker makes recordings and verifies their states, one after the other.
type worker struct {
	*run
	rec *recorder
	tmp string // in memory if possible
	buf []byte
}

// scratch creates a directory for temporary files: in memory if possible, because millions of them
// are created and removed.
func scratch(dir string) (string, error) {
	if tmp, err := os.MkdirTemp("/dev/shm", "vecbolt-torture-"); err == nil {
		return tmp, nil
	}
	return os.MkdirTemp(dir, "states-")
}

// state is the directory of the current state.
func (w *worker) state() string { return filepath.Join(w.tmp, "state") }

// crash records and explores workloads until the run has enough states.
func (w *worker) crash(ctx context.Context) error {
	for {
		w.mu.Lock()
		job, left := w.jobs, w.o.States-w.report.CrashStates
		w.jobs++
		w.mu.Unlock()
		if w.o.States != 0 && left <= 0 || len(w.profiles) == 0 {
			return nil
		}
		// All profiles take turns. In later turns more states of each are verified.
		p := w.profiles[job%len(w.profiles)]
		round := job / len(w.profiles)
		quota := 100 << min(round, 5)
		if w.o.States > 0 {
			quota = min(max(quota, w.o.States/(2*len(w.profiles))), left)
		}
		quota = max(1, quota/max(1, p.cost))
		if err := w.explore(ctx, p, mix(w.o.Seed^uint64(round)<<8), quota); err != nil {
			return err
		}
	}
}

// A recording is the operations of a workload.
type recording struct {
	p      *profile
	seed   uint64
	tracks []*track
	ops    []Op
	what   string // how it came about, unless it is a plain workload

	recovery bool // it shows a database being opened after a crash
}

func (r *recording) String() string {
	if r.what != "" {
		return r.what
	}
	return fmt.Sprintf("profile %s, seed %d", r.p.name, r.seed)
}

// record runs a workload on the recording file system. Operations that change nothing are recorded
// if they are of this kind.
func (w *worker) record(ctx context.Context, p *profile, seed uint64, kind Kind) (*recording, error) {
	if err := w.rec.reset(); err != nil {
		return nil, err
	}
	if err := w.rec.fault(kind, 0, 0, false); err != nil {
		return nil, err
	}
	work := newWorkload(p, seed, w.rec.dir, w.rec.mark)
	work.rec = w.rec
	err := inTime(func() error {
		err := work.run(ctx)
		return errors.Join(err, work.wrong)
	})
	ops, terr := w.rec.take()
	if terr != nil {
		return nil, terr
	}
	w.add(func(r *Report) { r.Recorded += len(ops) })
	r := &recording{p: p, seed: seed, tracks: work.tracks, ops: ops}
	if err != nil && ctx.Err() == nil {
		return nil, w.failed(r.String()+": without any fault", err, nil, ops)
	}
	return r, err
}

// A candidate is a state that may be verified.
type candidate struct {
	op, policy int
}

// rng returns the random source of one candidate.
func (r *recording) rng(c candidate) *rand.Rand {
	return rand.New(rand.NewPCG(r.seed, uint64(c.op)<<8|uint64(c.policy)))
}

// follow replays a recording and calls fn after each operation.
func (r *recording) follow(b *bounds, fn func(i int, d *Disk) error) error {
	d := newDisk(rand.New(rand.NewPCG(r.seed, 0)))
	for i := range r.ops {
		op := &r.ops[i]
		switch {
		case op.Kind != Mark:
			d.apply(op)
		case op.Note == settled:
			d.settle()
		case op.Note == opened:
			d.reopened()
		case op.Note == dies:
		default:
			if err := b.note(op.Note); err != nil {
				return err
			}
		}
		if err := fn(i, d); err != nil {
			return err
		}
	}
	return nil
}

// Marks without a track.
const (
	settled = "settled" // everything recorded before is durable
	opened  = "opened"  // the database is about to be opened
	dies    = "dies"    // a process ends before it syncs the directory of the database's directory
)

// candidates lists the distinct states of a recording: distinct in content or in expectation. from
// is the first operation to consider, b the bounds at the start.
func (r *recording) candidates(from int, b *bounds) (all []candidate, err error) {
	seen := map[[3]uint64]bool{}
	b = b.clone()
	err = r.follow(b, func(i int, d *Disk) error {
		if i < from {
			return nil
		}
		expected := b.sum()
		for p := range policies {
			if p > 1 && policies[p].data != dataRot && !policies[p].lies() && !d.unsynced() {
				continue
			}
			if policies[p].lies() && r.ops[i].Kind != SyncDir && r.ops[i].Kind != Sync {
				continue
			}
			c := candidate{i, p}
			kind := uint64(0) // of expectation
			switch {
			case policies[p].kill():
				kind = 1
			case policies[p].lies():
				kind = 2
			}
			key := [3]uint64{d.state(policies[p], r.rng(c)).sum(), expected, kind}
			if !seen[key] {
				seen[key] = true
				all = append(all, c)
			}
		}
		return nil
	})
	return all, err
}

// kill reports whether the policy gives the state after a killed process.
func (p policy) kill() bool { return p.data == dataAll && p.dirs == dirsAll }

// explore records a workload and verifies up to quota of its states.
func (w *worker) explore(ctx context.Context, p *profile, seed uint64, quota int) error {
	r, err := w.record(ctx, p, seed, 0)
	if r == nil || err != nil {
		return err
	}
	return w.look(ctx, r, 0, quota, newBounds(len(r.tracks)), 0)
}

const (
	recoveryShare  = 100 // for one in this number of states the recovery is recorded
	recoveryStates = 10  // states of a recovery that are verified
	recoveryDepth  = 2   // nesting of crashes during recovery
)

// look verifies up to quota random states of a recording. b are the bounds at its start, depth is
// the number of crashes before.
func (w *worker) look(ctx context.Context, rec *recording, from, quota int, b *bounds, depth int) error {
	all, err := rec.candidates(from, b)
	if err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(rec.seed, 1))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:min(quota, len(all))]
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Or(a.op-b.op, a.policy-b.policy) })
	// One in recoveryShare states is also verified during its recovery; of a recovery, one state.
	chosen := func(i int) bool { return depth == 0 && rng.IntN(recoveryShare) == 0 || depth > 0 && i == len(all)/2 }
	var again []scene
	done := 0
	err = rec.follow(b, func(i int, d *Disk) error {
		for done < len(all) && all[done].op == i {
			c := all[done]
			s := rec.scene(c, d, b)
			if err := w.verify(ctx, s); err != nil {
				return err
			}
			w.add(func(r *Report) {
				r.CrashStates++
				if rec.recovery {
					r.Recoveries++
				}
			})
			if depth < recoveryDepth && !s.lied && chosen(done) {
				s.state = s.state.clone()
				again = append(again, s)
			}
			done++
		}
		return nil
	})
	for _, s := range again {
		if err == nil {
			err = w.recover(ctx, s, depth+1)
		}
	}
	return err
}

// A scene is a state, its expectation, and its history.
type scene struct {
	*expectation
	what  string
	seed  uint64
	state state
	ops   []Op
}

func (r *recording) scene(c candidate, d *Disk, b *bounds) scene {
	p := policies[c.policy]
	return scene{
		expectation: &expectation{p: r.p, tracks: r.tracks, bounds: b.clone(), kill: p.kill(), lied: p.lies()},
		what:        fmt.Sprintf("%s, after operation %d (%v), %s", r, c.op, r.ops[c.op], p.name),
		seed:        r.seed ^ uint64(c.op)<<8 ^ uint64(c.policy),
		state:       d.state(p, r.rng(c)),
		ops:         r.ops[:c.op+1],
	}
}

// verify opens and compares one state.
func (w *worker) verify(ctx context.Context, s scene) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	dir := w.state()
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := s.state.write(dir, w.buf); err != nil {
		return err
	}
	err := inTime(func() error {
		// Do not cancel this at the end of the run: that would look like an error.
		_, err := s.expectation.verify(context.WithoutCancel(ctx), dir, rand.New(rand.NewPCG(s.seed, 2)))
		return err
	})
	if err != nil {
		if err := w.failed(s.what, err, s.state, s.ops); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// recover records the recovery from a state and verifies states after a crash during it.
func (w *worker) recover(ctx context.Context, s scene, depth int) error {
	if err := w.rec.reset(); err != nil {
		return err
	}
	if err := s.state.write(w.rec.dir, w.buf); err != nil {
		return err
	}
	if err := w.rec.mark(settled); err != nil {
		return err
	}
	work := &workload{p: s.p, tracks: s.tracks, dir: w.rec.dir, mark: w.rec.mark, name: s.bounds.database}
	err := inTime(func() error { return work.recover(ctx, s.expectation) })
	ops, terr := w.rec.take()
	if terr != nil {
		return terr
	}
	what := "crash while recovering from " + s.what
	if ctx.Err() != nil {
		return ctx.Err() // the time is up, which is fine
	}
	if err != nil {
		return w.failed(what, err, s.state, ops)
	}
	from := slices.IndexFunc(ops, func(op Op) bool { return op.Kind == Mark })
	b := s.bounds.clone()
	for i := range b.safe {
		b.safe[i], b.acked[i] = s.lower(i), s.lower(i)
	}
	r := &recording{p: s.p, seed: mix(s.seed), tracks: s.tracks, ops: ops, what: what, recovery: true}
	return w.look(ctx, r, from+1, recoveryStates, b, depth)
}
