package torture

import (
	"context"
	"fmt"
	"syscall"
)

// faultProfiles are the workloads in which every operation fails in turn: short ones, that use everything.
var faultProfiles = []profile{
	{name: "fault-writes", steps: 16, head: 8 * kib, ids: 12, text: 600, docs: 3,
		weights: []weight{{stepBatch, 4}, {stepCross, 2}, {stepDelete, 1}, {stepFlush, 2}}},
	{name: "fault-compaction", steps: 18, head: 8 * kib, ids: 12, text: 400, docs: 3,
		weights: []weight{{stepBatch, 4}, {stepDelete, 2}, {stepFlush, 2}, {stepCompact, 1}}},
	{name: "fault-reopen", steps: 16, head: 8 * kib, ids: 12, text: 400, docs: 3,
		weights: []weight{{stepBatch, 4}, {stepReopen, 1}, {stepFlush, 1}, {stepBackup, 1}}},
	{name: "fault-collections", steps: 20, head: 8 * kib, ids: 8, text: 200, docs: 2, compact: true,
		weights: []weight{{stepBatch, 3}, {stepCreate, 2}, {stepDrop, 1}, {stepRename, 1}, {stepMeta, 1}, {stepFlush, 2}}},
	{name: "fault-rewrite", steps: 24, head: 256 * kib, ids: 20, text: 120 * kib, docs: 2,
		weights: []weight{{stepBatch, 4}, {stepWhere, 2}, {stepDelete, 1}, {stepCompact, 2}}},
}

// errnos are what a failing operation says.
var errnos = []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EROFS, syscall.EDQUOT, syscall.ENOMEM, syscall.EMFILE}

// A fault is one failing operation of a workload.
type fault struct {
	n      int // which one
	errno  syscall.Errno
	sticky bool // all later ones fail too
}

func (f fault) String() string {
	if f.sticky {
		return fmt.Sprintf("from operation %d on %v", f.n, f.errno)
	}
	return fmt.Sprintf("at operation %d %v", f.n, f.errno)
}

// faultAt returns the i-th fault of a workload of so many operations: each comes once, in an order in which any few in a
// row differ much.
func faultAt(i, operations int) fault {
	total := operations * len(errnos) * 2
	const stride = 7919 // a prime: it meets all of them unless it divides total
	k := i * stride % total
	return fault{n: 1 + k%operations, errno: errnos[k/operations%len(errnos)], sticky: k/operations/len(errnos) > 0}
}

// faultStates is how many states are looked at after a fault.
const faultStates = 6

// faults runs workloads with one fault each, as long as next says so.
func (w *worker) faults(ctx context.Context, next func() (job int, more bool)) error {
	operations := map[string]int{}
	for {
		job, more := next()
		if !more {
			return nil
		}
		p := &faultProfiles[job%len(faultProfiles)]
		seed := mix(w.o.Seed ^ uint64(job%len(faultProfiles)))
		if operations[p.name] == 0 {
			r, err := w.record(ctx, p, seed)
			if r == nil || err != nil {
				return err
			}
			for _, op := range r.ops {
				if op.Kind != Mark {
					operations[p.name]++
				}
			}
		}
		f := faultAt(job/len(faultProfiles), operations[p.name])
		if err := w.fault(ctx, p, seed, f); err != nil {
			return err
		}
	}
}

// fault runs one workload with one fault and looks at what it leaves.
func (w *worker) fault(ctx context.Context, p *profile, seed uint64, f fault) error {
	if err := w.rec.reset(); err != nil {
		return err
	}
	if err := w.rec.fault(0, f.n, f.errno, f.sticky); err != nil {
		return err
	}
	work := newWorkload(p, seed, w.rec.dir, w.rec.mark)
	work.faulty = true
	failed := work.run(ctx)
	ops, err := w.rec.take()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r := &recording{p: p, seed: mix(seed ^ uint64(f.n)), tracks: work.tracks, ops: ops}
	r.what = fmt.Sprintf("profile %s, seed %d, %v (the workload says: %v)", p.name, seed, f, failed)
	from := firstFailed(ops)
	if from < 0 {
		return nil // the order of operations varies: there were fewer
	}
	w.add(func(r *Report) { r.Faults++ })
	if work.wrong != nil {
		w.violation(r.what, work.wrong, nil, ops)
	}
	if err := writesAfterFailure(ops); err != nil {
		w.violation(r.what, err, nil, ops)
	}
	// What a process finds that starts now, and what a power cut may leave.
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
	for i, op := range ops {
		if op.Failed {
			return i
		}
	}
	return -1
}

// writesAfterFailure reports a write or sync of a file after one of them had failed, by the same process: it may succeed
// and mean nothing.
func writesAfterFailure(ops []Op) error {
	failed := map[uint64]int{}
	for i, op := range ops {
		switch op.Kind {
		case Mark:
			if op.Note == opened {
				clear(failed)
			}
		case Write, Truncate, Sync:
			if first, ok := failed[op.Ino]; ok {
				return fmt.Errorf("operation %d (%v) follows operation %d, which failed, on the same file", i, op, first)
			}
			if op.Failed {
				failed[op.Ino] = i
			}
		}
	}
	return nil
}
