package engine

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// received holds the batches of the leader that are in no version yet. They are applied together
// when a call needs the newest version: a process that only writes, or waits, spends little on the
// writes of others.
type received struct {
	waiting atomic.Bool // there are records, or err

	mu      sync.Mutex // taken after commitMu
	records []Record
	bytes   int
	memory  []byte       // of the records; when it is full, another one takes its place
	last    uint64       // number of the last batch that was received
	err     error        // why batches could not be applied; until Adopt
	since   [][]logBatch // after the root, applied

	// Guarded by commitMu.
	applied uint64 // last batch in the root: the head begins after it
	frozen  *head  // the older part of the head, which ends where the leader froze its own; or nil
	split   uint64 // last batch in frozen
}

// maxReceived is the size of records that wait. It takes a millisecond to apply as much.
const maxReceived = 1 << 20

// leastReceived is the size of the first memory for records.
const leastReceived = 16 << 10

// A Record is one batch of the log.
type Record struct {
	LSN  uint64
	Data []byte
	// Replaced are the DocNums that its puts and deletes replace, a uvarint for each, 0 for none,
	// if Resolved is set. Otherwise they are looked up.
	Replaced []byte
	Resolved bool
}

// restart forgets the records: a version has been loaded that has all of them, those since its root
// as batches.
func (r *received) restart(since []logBatch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records, r.bytes, r.memory, r.err, r.since = nil, 0, nil, nil, nil
	if len(since) > 0 {
		r.since = [][]logBatch{since}
	}
	r.waiting.Store(false)
}

// Receive takes the next batches of the leader. They are in the version that a later call gets. The
// memory of the records stays with the caller.
func (e *Engine) Receive(records []Record) error {
	r := &e.shared.received
	r.mu.Lock()
	for _, record := range records {
		record.Data, record.Replaced = r.copied(record.Data), r.copied(record.Replaced)
		r.records = append(r.records, record)
		r.bytes += len(record.Data)
		r.last = record.LSN
	}
	r.waiting.Store(true)
	full := r.bytes > maxReceived
	r.mu.Unlock()
	if full {
		return e.CatchUp()
	}
	return nil
}

// copied returns a copy of b. mu is held.
func (r *received) copied(b []byte) []byte {
	if cap(r.memory)-len(r.memory) < len(b) {
		r.memory = make([]byte, 0, max(len(b), min(2*cap(r.memory), maxReceived), leastReceived))
	}
	at := len(r.memory)
	r.memory = append(r.memory, b...)
	return r.memory[at:len(r.memory):len(r.memory)]
}

// take returns the records that wait and their memory, or the reason why they cannot be applied.
func (r *received) take() (records []Record, memory []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	records, memory = r.records, r.memory
	r.records, r.bytes, r.memory = nil, 0, nil
	return records, memory, r.err
}

// done notes that the records of take are in the version, as batches, or why they are not. Their
// memory is used again.
func (r *received) done(batches []logBatch, records []Record, memory []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err = err; len(batches) > 0 {
		r.since = append(r.since, batches)
	}
	if err == nil && r.records == nil && cap(memory) <= maxReceived {
		clear(records)
		r.records, r.memory = records[:0], memory[:0]
	}
	r.waiting.Store(err != nil || len(r.records) > 0)
}

// CatchUp makes all batches visible that were received. Once the database closes and no call runs,
// it drops them.
func (e *Engine) CatchUp() error {
	r := &e.shared.received
	if !r.waiting.Load() {
		return nil
	}
	if err := e.beginStep(); err != nil {
		_, _, _ = r.take()
		r.done(nil, nil, nil, err)
		return err
	}
	defer e.endStep()
	e.commitMu.Lock()
	defer e.commitMu.Unlock()
	records, memory, err := r.take()
	var batches []logBatch
	if err == nil && len(records) > 0 {
		if batches, err = readRecords(records); err == nil {
			batches, err = e.replayAll(batches, false)
		}
		if err != nil {
			batches = nil
			e.Opts.Upstream.Broken(err)
		}
	}
	r.done(batches, records, memory, err)
	return err
}

// replayAll replays batches and returns them without those that this process has: a root came after
// them. kept says that the head has them. commitMu is held.
func (e *Engine) replayAll(batches []logBatch, kept bool) ([]logBatch, error) {
	last := e.tip().LSN
	for len(batches) > 0 && batches[0].lsn <= last {
		batches = batches[1:]
	}
	for i := range batches {
		if lsn := batches[i].lsn; lsn != last+1 {
			return nil, BadBatch(lsn, fmt.Errorf("comes after batch %d", last))
		}
		last++
	}
	for rest := batches; len(rest) > 0; {
		var err error
		if rest, err = e.replayTogether(rest, kept); err != nil {
			return nil, err
		}
	}
	return batches, nil
}
