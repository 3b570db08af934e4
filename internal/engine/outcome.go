package engine

import (
	"fmt"
	"sync"
)

// A RequestID tells a write from every other one, whoever leads. A follower keeps it when it sends
// the write again. A leader gives its own writes one while others follow it: it may be deposed
// before it knows whether the next leader has the write.
type RequestID struct {
	Writer [16]byte // random, of a process; zero if no other one followed
	Number uint64   // counted by the writer
}

// zero reports whether a write has no id.
func (id RequestID) zero() bool { return id.Writer == [16]byte{} }

// maxOutcomes is the number of writes whose outcomes are remembered, with 7 MB at most.
const maxOutcomes = 1 << 16

// outcomes tells which writes with an id are in the log: all in the batches above since, up to
// last, and some older ones. A follower fills it from the batches that it replays, so that it can
// answer for the leader before when it leads. Its methods are safe for concurrent use.
type outcomes struct {
	mu      sync.Mutex
	since   uint64
	last    uint64
	applied []outcome // by batch; from maxOutcomes on a ring, whose oldest is at next
	next    int
	// places finds an element of applied by its request. Only a process that is asked needs it: nil
	// until then.
	places map[RequestID]int
}

// An outcome is the effect of a request.
type outcome struct {
	id      RequestID
	lsn     uint64 // of the batch
	deleted int    // documents
}

// note adds a batch. Batches come in order, and some again, when a process that followed reads the
// log to lead.
func (t *outcomes) note(lsn uint64, id RequestID, deleted int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if lsn <= t.last {
		return
	}
	t.skip(lsn - 1)
	t.last = lsn
	if id.zero() {
		return
	}
	at := len(t.applied)
	if o := (outcome{id, lsn, deleted}); at < maxOutcomes {
		t.applied = append(doubled(t.applied), o)
	} else {
		at = t.next
		oldest := t.applied[at]
		t.since = max(t.since, oldest.lsn)
		delete(t.places, oldest.id)
		t.applied[at] = o
		t.next = (t.next + 1) % maxOutcomes
	}
	if t.places != nil {
		t.places[id] = at
	}
}

// known says that batches up to lsn are not read: meta.bolt has them.
func (t *outcomes) known(lsn uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.skip(lsn)
}

// skip passes over the batches up to lsn. mu is held.
func (t *outcomes) skip(lsn uint64) {
	if lsn > t.last {
		t.since, t.last = lsn, lsn
	}
}

// find returns the outcome of a request, if it was applied. Otherwise it was not applied by any
// batch above since.
func (t *outcomes) find(id RequestID) (o outcome, applied bool, since uint64) {
	if id.zero() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.places == nil {
		t.places = make(map[RequestID]int, len(t.applied))
		for at, o := range t.applied {
			t.places[o.id] = at
		}
	}
	at, applied := t.places[id]
	if applied {
		o = t.applied[at]
	}
	return o, applied, t.since
}

// Outcome tells the effect of a request that went to an earlier leader, or over a connection that
// has ended, after its writer had seen batch seen: the batch that applied it, with the number of
// documents that it deleted, or 0 if it was not applied. ErrUnknown says that this process does not
// know. The request must not be on its way any more.
func (e *Engine) Outcome(id RequestID, seen uint64) (lsn uint64, deleted int, err error) {
	// The observer has heard of a batch when its commit gives up commitMu. So followers get the
	// batch before the answer.
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	if !e.Leads() {
		return 0, 0, errDeposed
	}
	o, applied, since := e.outcomes.find(id)
	if applied {
		return o.lsn, o.deleted, nil
	}
	if err := e.Err(); err != nil {
		return 0, 0, err // the log may have it nevertheless
	}
	if seen < since {
		return 0, 0, fmt.Errorf("%w: it was sent after batch %d, and what became of writes is known from batch %d on",
			ErrUnknown, seen, since+1)
	}
	return 0, 0, nil
}

// Received looks for a request of this process, sent after batch seen, in the batches that it has
// received since. It returns the batch that applied it, with the number of documents that it
// deleted; or 0, and the newest batch up to which none has.
func (e *Engine) Received(id RequestID, seen uint64) (lsn uint64, deleted int, until uint64) {
	if err := e.CatchUp(); err != nil { // others may know
		return 0, 0, seen
	}
	e.mu.Lock()
	now := e.cur.LSN
	e.mu.Unlock()
	o, applied, since := e.outcomes.find(id)
	switch {
	case applied && o.lsn <= now:
		return o.lsn, o.deleted, now
	case applied || seen < since:
		return 0, 0, seen
	}
	return 0, 0, now
}

// Seen returns the number of the newest batch that this process has: the next call sees it.
func (e *Engine) Seen() uint64 {
	r := &e.shared.received
	r.mu.Lock()
	last := r.last
	r.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	return max(last, e.cur.LSN)
}
