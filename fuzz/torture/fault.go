package torture

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// faultProfiles are the workloads in which every operation fails in turn. They are short and use
// every feature.
var faultProfiles = []profile{
	{name: "fault-writes", steps: 16, head: 8 * kib, ids: 12, text: 600, docs: 3,
		weights: []weight{{stepBatch, 4}, {stepCross, 2}, {stepDelete, 1}, {stepFlush, 2}}},
	{name: "fault-compaction", steps: 18, head: 8 * kib, ids: 12, text: 400, docs: 3,
		weights: []weight{{stepBatch, 4}, {stepDelete, 2}, {stepFlush, 2}, {stepCompact, 1}}},
	{name: "fault-reopen", steps: 16, head: 8 * kib, ids: 12, text: 400, docs: 3,
		weights: []weight{{stepBatch, 4}, {stepReopen, 1}, {stepFlush, 1}, {stepBackup, 1}}},
	{name: "fault-collections", steps: 20, head: 8 * kib, ids: 8, text: 200, docs: 2, compact: true,
		weights: []weight{{stepBatch, 3}, {stepCreate, 2}, {stepDrop, 1}, {stepRename, 1},
			{stepMeta, 1}, {stepFlush, 2}}},
	{name: "fault-rewrite", steps: 24, head: 256 * kib, ids: 20, text: 120 * kib, docs: 2,
		weights: []weight{{stepBatch, 4}, {stepWhere, 2}, {stepDelete, 1}, {stepCompact, 2}}},
}

// readProfile is the workload in which reads, including page faults of mapped files, and opens
// fail.
var readProfile = profile{name: "fault-reads", steps: 24, head: 8 * kib, ids: 12, text: 500, docs: 3,
	weights: []weight{{stepBatch, 3}, {stepCross, 1}, {stepDelete, 1}, {stepWhere, 1}, {stepFlush, 2},
		{stepCompact, 1}, {stepText, 1}, {stepReopen, 2}, {stepRead, 4}}}

// shortWrite is not an error number: the system writes half of the bytes and reports it.
const shortWrite = syscall.Errno(4096)

// A faultPlan is a workload and the kind of fault in it.
type faultPlan struct {
	p      *profile
	kind   Kind // of the operations that fail; 0: all modifying operations
	errnos []syscall.Errno
	once   bool // never permanently
}

// faultPlans returns all plans.
func faultPlans() (all []faultPlan) {
	changes := []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EROFS, syscall.EDQUOT,
		syscall.ENOMEM, syscall.EMFILE}
	for i := range faultProfiles {
		all = append(all, faultPlan{p: &faultProfiles[i], errnos: changes})
	}
	compaction := &faultProfiles[1]
	return append(all,
		faultPlan{p: &faultProfiles[4], kind: Write, errnos: []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT}},
		faultPlan{p: compaction, errnos: []syscall.Errno{syscall.EINTR}, once: true},
		faultPlan{p: compaction, kind: Write, errnos: []syscall.Errno{shortWrite}},
		faultPlan{p: compaction, kind: SyncDir, errnos: []syscall.Errno{syscall.EIO, syscall.ENOSPC}},
		faultPlan{p: &faultProfiles[3], kind: SyncDir, errnos: []syscall.Errno{syscall.EIO}, once: true},
		faultPlan{p: &readProfile, kind: Read, errnos: []syscall.Errno{syscall.EIO, syscall.ENOMEM}},
		faultPlan{p: &readProfile, kind: Open, errnos: []syscall.Errno{syscall.EIO, syscall.EMFILE, syscall.ENOMEM}})
}

// A fault is one failing operation of a workload.
type fault struct {
	kind   Kind
	n      int // number of the failing operation
	errno  syscall.Errno
	sticky bool // all later ones fail too
}

func (f fault) String() string {
	kind := "operation"
	if f.kind != 0 {
		kind = f.kind.String()
	}
	if f.sticky {
		return fmt.Sprintf("from %s %d on: %s", kind, f.n, f.what())
	}
	return fmt.Sprintf("at %s %d: %s", kind, f.n, f.what())
}

func (f fault) what() string {
	switch {
	case f.errno == shortWrite:
		return "short write"
	case f.kind == 0:
		return f.errno.Error()
	}
	return fmt.Sprintf("%s: %v", f.kind, f.errno)
}

// at returns the i-th fault of a workload with this number of operations. Each fault occurs once,
// and neighbours in this order differ much.
func (p faultPlan) at(i, operations int) fault {
	total := operations * len(p.errnos)
	if !p.once {
		total *= 2
	}
	const stride = 7919 // a prime: it visits all faults unless it divides total
	k := i * stride % total
	return fault{kind: p.kind, n: 1 + k%operations, errno: p.errnos[k/operations%len(p.errnos)],
		sticky: k/operations >= len(p.errnos)}
}

// faultStates is the number of states that are verified after a fault.
const faultStates = 6

// faults runs workloads with one fault each, while next reports more.
func (w *worker) faults(ctx context.Context, next func() (job int, more bool)) error {
	plans := w.faultPlans
	operations := make([]int, len(plans))
	for {
		job, more := next()
		if !more || len(plans) == 0 {
			return nil
		}
		i := job % len(plans)
		plan := plans[i]
		seed := mix(w.o.Seed ^ uint64(i))
		if operations[i] == 0 {
			r, err := w.record(ctx, plan.p, seed, plan.kind)
			if r == nil || err != nil {
				return err
			}
			for _, op := range r.ops {
				if op.Kind == plan.kind || plan.kind == 0 && op.Kind != Mark {
					operations[i]++
				}
			}
		}
		if err := w.fault(ctx, plan.p, seed, plan.at(job/len(plans), operations[i])); err != nil {
			return err
		}
	}
}

// fault runs one workload with one fault and verifies the states after it.
func (w *worker) fault(ctx context.Context, p *profile, seed uint64, f fault) error {
	if err := w.rec.reset(); err != nil {
		return err
	}
	if err := w.rec.fault(f.kind, f.n, f.errno, f.sticky); err != nil {
		return err
	}
	work := newWorkload(p, seed, w.rec.dir, w.rec.mark)
	work.faulty, work.blind = true, f.kind == Read || f.kind == Open
	failed := inTime(func() error { return work.run(ctx) })
	ops, err := w.rec.take()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r := &recording{p: p, seed: mix(seed ^ uint64(f.n)), tracks: work.tracks, ops: ops}
	r.what = fmt.Sprintf("profile %s, seed %d, %v (the workload says: %v)", p.name, seed, f, failed)
	if errors.Is(failed, errHang) {
		return w.failed(r.what, failed, nil, ops)
	}
	from := firstFailed(ops)
	if from < 0 {
		return nil // the number of operations varies: this run had fewer
	}
	w.add(func(r *Report) {
		r.Faults++
		r.FaultKinds[f.what()]++
	})
	if work.wrong != nil {
		w.violation(r.what, work.wrong, nil, ops)
	}
	if err := writesAfterFailure(ops); err != nil {
		w.violation(r.what, err, nil, ops)
	}
	// The states that a new process finds now, and that a power cut may leave.
	last := candidate{len(ops) - 1, 1}
	b := newBounds(len(r.tracks))
	err = r.follow(b, func(i int, d *Disk) error {
		if i != last.op {
			return nil
		}
		w.add(func(r *Report) { r.CrashStates++ })
		return w.verify(ctx, r.scene(last, d, b))
	})
	if err != nil {
		return err
	}
	return w.look(ctx, r, from, faultStates, newBounds(len(r.tracks)), recoveryDepth)
}

func firstFailed(ops []Op) int {
	return slices.IndexFunc(ops, func(op Op) bool { return op.Failed || op.Short })
}

// writesAfterFailure returns an error for a write or sync of a file after a failed one by the same
// process, and for a sync of a directory after a failed one: it may succeed without effect.
//
// The kernel splits a large write. If a later piece fails, it reports a short write, and the rest
// is written again: no error was returned before the second attempt fails too. And meta.bolt may be
// used after a write that failed for lack of space: it has been checked since (meta.Store.Update).
func writesAfterFailure(ops []Op) error {
	type past struct {
		failed int // number of the operation; 0 if none has failed
		again  *Op // may be repeated
		end    int64
	}
	files := map[uint64]*past{}
	dirs := map[uint64]int{}    // directories with a failed sync, and the number of the sync
	stores := map[uint64]bool{} // files of bbolt
	for i := range ops {
		op := &ops[i]
		switch op.Kind {
		case Create:
			stores[op.Ino] = strings.HasPrefix(op.Name, "meta.bolt")
		case Mark:
			if op.Note == opened {
				clear(files)
				clear(dirs)
			}
		case SyncDir:
			// The parent directory is shared: each backup in it syncs its own name.
			if f := dirs[op.Dir]; f > 0 && op.Dir != rootIno {
				return fmt.Errorf("operation %d (%v) follows operation %d, which failed, on the same directory", i,
					op, f)
			}
			if op.Failed && !op.Interrupted {
				dirs[op.Dir] = i
			}
		case Write, Truncate, Sync:
			f := files[op.Ino]
			if f == nil {
				f = &past{}
				files[op.Ino] = f
			}
			repeated := f.again != nil && op.Kind == Write && op.Off == f.again.Off && op.Len == f.again.Len
			switch {
			case op.Interrupted, op.Full && op.Kind == Write && stores[op.Ino]:
				continue
			case f.failed > 0 && !repeated:
				return fmt.Errorf("operation %d (%v) follows operation %d, which failed, on the same file", i, op,
					f.failed)
			case op.Failed:
				f.failed = i
				if f.again = nil; op.Kind == Write && op.Off > 0 && op.Off == f.end && !repeated {
					f.again = op
				}
			default:
				*f = past{}
			}
			if op.Kind == Write && !op.Failed {
				f.end = op.Off + op.Len
			}
		}
	}
	return nil
}
