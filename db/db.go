package db

import (
	"context"
	"fmt"

	"github.com/vecbolt/vecbolt/internal/query"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/nearest"
)

// A DB is an open database. Its methods are safe for concurrent use. Readers never wait
// for writers, flushes or compactions, nor do these wait for readers.
type DB struct {
	engine   *engine.Engine
	opts     Options
	searcher *query.Searcher
}

// Memory is the directory of a database in memory; see Open. A directory of that name is
// "./:memory:".
const Memory = engine.Memory // ":memory:"

// Open opens the database in directory dir and creates it if it does not exist. It fails
// at once with ErrLocked when another process excludes this one. After a crash, Open
// recovers every acknowledged write.
//
// Memory as dir opens a new, empty database in memory, with the same engine: every such database is
// one of its own, and Close discards it. Backup can save it. Its files have no names and vanish
// with the process. On Linux they are memory; elsewhere they are unlinked temporary files, which
// the system may write to disk when memory is short.
func Open(dir string, opts *Options) (*DB, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("db: open %q: %w", dir, err)
	}
	o = o.withDefaults()
	e, err := engine.Open(dir, o.settings())
	if err != nil {
		return nil, fmt.Errorf("db: open %q: %w", dir, engine.Translate(err))
	}
	every := o.recheckEvery
	if o.Recheck == Manual {
		every = 0
	}
	db := &DB{engine: e, opts: o, searcher: &query.Searcher{
		Engine: e, Nearest: nearest.NewSearcher(e, o.worthHelp), Rechecks: nearest.NewRechecks(e, every),
		Workers: o.Workers, CheapFusion: o.cheapFusion, ConvexTexts: o.convexTexts,
	}}
	db.searcher.Nearest.GraphAlways = o.walkAlways
	if !o.recheckByHand {
		db.searcher.Rechecks.Start()
	}
	return db, nil
}

// Close flushes, so that the next Open is quick, and releases every resource. It waits
// for running calls; later calls fail with ErrClosed. A second Close does nothing. Close
// snapshots first: afterwards they fail.
func (db *DB) Close() error {
	db.searcher.Rechecks.Stop()
	if err := db.engine.Close(); err != nil {
		return fmt.Errorf("db: close %q: %w", db.engine.Dir, engine.Translate(err))
	}
	return nil
}

// Flush moves everything written so far from the log to segments and meta.bolt. Calling
// it is optional: it bounds the recovery work of the next Open after a crash, and makes
// writes durable under every SyncPolicy.
func (db *DB) Flush(ctx context.Context) error {
	return db.maintenance(ctx, "flush", db.engine.Flush)
}

// maintenance runs a call that changes files but no documents.
func (db *DB) maintenance(ctx context.Context, call string, work func() error) error {
	err := db.engine.Usable(ctx)
	if err == nil {
		defer db.engine.End()
		err = work()
	}
	if err != nil {
		return fmt.Errorf("db: %s: %w", call, engine.Translate(err))
	}
	return nil
}

// Compact reclaims all space of deleted and replaced documents at once. It flushes,
// rewrites segments with dead rows, merges small segments, and rewrites meta.bolt if much
// of it is free. Readers and writers go on. Calling it is optional: the database compacts
// in the background.
func (db *DB) Compact(ctx context.Context) error {
	return db.maintenance(ctx, "compact", func() error { return db.engine.Compact(ctx) })
}

// Apply makes all writes of b take effect, across collections, or none. When it returns
// nil, the writes survive power loss (see SyncPolicy). An error means that nothing was
// written, except ErrUnknown: the disk failed during the write.
//
// The context is honoured until the batch is queued for the log; from then on Apply waits
// for the outcome. Concurrent calls share one fsync.
func (db *DB) Apply(ctx context.Context, b *Batch) error {
	if _, err := db.apply(ctx, b); err != nil {
		return fmt.Errorf("db: apply: %w", err)
	}
	return nil
}

// apply is Apply; it returns how many documents the deletes removed.
func (db *DB) apply(ctx context.Context, b *Batch) (deleted int, err error) {
	if b.err != nil {
		return 0, b.err
	}
	ops := make([]engine.Op, len(b.ops))
	for i, o := range b.ops {
		o.Doc = b.buf[o.Start:o.End:o.End]
		ops[i] = o
	}
	return db.engine.Write(ctx, ops, b.len)
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
