package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/nearest"
	"github.com/vecbolt/vecbolt/internal/query"
	"github.com/vecbolt/vecbolt/internal/share"
)

// A DB is an open database. Its methods are safe for concurrent use. Readers never wait
// for writers, flushes or compactions, nor do these wait for readers.
type DB struct {
	engine   *engine.Engine
	member   *share.Member
	opts     Options
	searcher *query.Searcher
}

// Memory is the directory of a database in memory; see Open. A directory of that name is
// "./:memory:".
const Memory = engine.Memory // ":memory:"

// Open opens the database in directory dir and creates it if it does not exist. After a
// crash, Open recovers every acknowledged write.
//
// Any number of processes can have a database open, for reading and writing. One of them
// leads: it writes the files, and the others send their writes to it, through the socket
// leader.sock in the directory, and read the files themselves. When it ends, another one
// leads. Open fails with ErrLocked when a process excludes this one, and on Windows, where
// one process writes or any number read. See Options.Exclusive.
//
// Memory as dir opens a new, empty database in memory, with the same engine. Every call opens
// another one, and Close discards it. Backup can save it. As there is nothing in it,
// Options.ReadOnly and MustExist are ErrNotFound. Its files have no names and vanish with the
// process. On Linux they are memory; elsewhere they are unlinked temporary files, which the system
// may write to disk when memory is short.
func Open(dir string, opts *Options) (*DB, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("db: open %q: %w", dir, err)
	}
	o = o.withDefaults()
	member, err := share.Open(dir, o.settings(), share.Self())
	if err != nil {
		return nil, fmt.Errorf("db: open %q: %w", dir, engine.Translate(err))
	}
	e := member.Engine()
	every := o.tests.recheckEvery
	if o.Recheck == Manual {
		every = 0
	}
	searcher := &query.Searcher{
		Engine: e, Nearest: nearest.NewSearcher(e, o.tests.worthHelp), Rechecks: nearest.NewRechecks(e, every),
		Workers: o.Workers, CheapFusion: o.tests.cheapFusion, ConvexTexts: o.tests.convexTexts,
	}
	db := &DB{engine: e, member: member, opts: o, searcher: searcher.Init()}
	db.searcher.Nearest.GraphAlways = o.tests.walkAlways
	if !o.tests.recheckByHand {
		db.searcher.Rechecks.Start()
	}
	return db, nil
}

// Close releases every resource. In the process that leads it flushes first, so that the
// next Open is quick. It waits for running calls; later calls fail with ErrClosed. It waits
// 10 seconds at most for answers of the leading process: a write without one then fails
// with ErrUnknown. Compact ends early, with ErrClosed. A second Close does nothing. Close
// snapshots first: afterwards they fail.
func (db *DB) Close() error {
	if err := db.engine.MayWait(); err != nil {
		return fmt.Errorf("db: close %q: %w", db.engine.Dir, err)
	}
	db.searcher.Rechecks.Stop()
	if err := db.member.Close(); err != nil {
		return fmt.Errorf("db: close %q: %w", db.engine.Dir, engine.Translate(err))
	}
	return nil
}

// Flush moves everything written so far from the log to segments and meta.bolt. Calling
// it is optional: it bounds the recovery work of the next Open after a crash, and makes
// writes durable under every SyncPolicy.
func (db *DB) Flush(ctx context.Context) error {
	return db.maintenance(ctx, "flush", share.CallFlush, db.engine.Flush)
}

// maintenance runs a call that changes files but no documents, in the process that leads.
func (db *DB) maintenance(ctx context.Context, call string, kind uint8, work func() error) error {
	if err := db.engine.MayWait(); err != nil {
		return fmt.Errorf("db: %s: %w", call, err)
	}
	done, err := db.delegate(ctx, kind)
	for !done {
		if err = db.engine.Usable(ctx); err == nil {
			err = work()
			db.engine.End()
		}
		if !errors.Is(err, engine.ErrLocked) || db.engine.CheckLead() == nil { // otherwise another process leads now
			break
		}
		done, err = db.delegate(ctx, kind)
	}
	if err != nil {
		return fmt.Errorf("db: %s: %w", call, engine.Translate(err))
	}
	return nil
}

// Compact reclaims all space of deleted and replaced documents at once. It flushes,
// rewrites segments with dead rows, merges small segments, and rewrites meta.bolt if much
// of it is free. It reads all derived files and builds those that are missing or damaged.
// Readers and writers go on. Calling it is optional: the database compacts in the
// background.
func (db *DB) Compact(ctx context.Context) error {
	return db.maintenance(ctx, "compact", share.CallCompact, func() error { return db.engine.Compact(ctx) })
}

// delegate has the leading process do a call; done is false if this process leads or only reads.
func (db *DB) delegate(ctx context.Context, kind uint8) (done bool, err error) {
	if db.opts.ReadOnly || db.engine.Role() != engine.Follower {
		return false, nil
	}
	if err := db.engine.Begin(); err != nil {
		return true, err
	}
	defer db.engine.End()
	_, done, err = db.member.Call(ctx, kind)
	return done, err
}

// Apply makes all writes of b take effect, across collections, or none. When it returns
// nil, the writes survive power loss (see SyncPolicy). An error means that nothing was
// written, except ErrUnknown: the disk failed during the write, or the leading process
// ended before it answered and no other one knows its outcome.
//
// The context is honoured while the batch waits for other writes. Once it is begun, Apply
// waits for the outcome, also for a flush that makes room in memory. Concurrent calls
// share one fsync.
func (db *DB) Apply(ctx context.Context, b *Batch) error {
	if _, err := db.apply(ctx, b); err != nil {
		return fmt.Errorf("db: apply: %w", err)
	}
	return nil
}

var errNoBatch = invalidf("no batch is given")

// apply is Apply; it returns how many documents the deletes removed.
func (db *DB) apply(ctx context.Context, b *Batch) (deleted int, err error) {
	if b == nil {
		return 0, errNoBatch
	}
	if b.err != nil {
		return 0, b.err
	}
	ops := make([]engine.Op, len(b.ops))
	for i, o := range b.ops {
		o.Doc = b.buf[o.Start:o.End:o.End]
		ops[i] = o
	}
	if len(b.wheres) == 0 {
		return db.engine.Write(ctx, ops, b.len)
	}
	return db.engine.Exclusively(ctx, func(g *engine.Group) (all []engine.Op, err error) {
		for _, d := range b.wheres {
			if all, err = d.appendTo(ctx, all, g.Base); err != nil {
				return nil, err
			}
		}
		return append(all, ops...), nil // a copy: the engine changes it, and may call again
	})
}

// Refresh looks for a newer version of a published folder that was opened read-only. It
// reports whether later reads see one. An incomplete or damaged version is an error, and
// the previous version stays. Earlier reads and snapshots keep their version. Reads do
// not wait for Refresh. See Options.Follow.
func (db *DB) Refresh(ctx context.Context) (bool, error) {
	newer, err := db.engine.Refresh(ctx)
	if err != nil {
		return false, fmt.Errorf("db: refresh: %w", engine.Translate(err))
	}
	return newer, nil
}

// Barrier waits until every write that any process had acknowledged before the call is visible in
// this one. Without Barrier a write of another process is visible within milliseconds, and a write
// of this one at once.
func (db *DB) Barrier(ctx context.Context) error {
	err := db.beginAsking()
	if err == nil {
		defer db.engine.End()
		err = db.member.Barrier(ctx)
	}
	if err != nil {
		return fmt.Errorf("db: barrier: %w", engine.Translate(err))
	}
	return nil
}

// beginAsking begins a call that may wait for the process that leads; engine.End must follow.
func (db *DB) beginAsking() error {
	if err := db.engine.MayWait(); err != nil {
		return err
	}
	return db.engine.Begin()
}
