package torture

import (
	"github.com/vecbolt/vecbolt/db"
)

// A profile describes a kind of workload.
type profile struct {
	name    string
	steps   int // per track; 0: no end
	tracks  int // concurrent writers
	head    int64
	sync    db.SyncPolicy
	compact bool // in the background
	ids     int  // number of ids: few make updates
	text    int  // largest text, in bytes
	docs    int  // most documents of a batch
	cost    int  // divisor of the number of verified states, for large states; 0 is 1
	weights []weight
	members []db.SyncPolicy // of processes that share the database, one for each track; nil: the workload opens it
}

// A weight is the relative frequency of a kind of step.
type weight struct {
	kind stepKind
	n    int
}

type stepKind uint8

const (
	stepBatch  stepKind = iota // puts to one collection
	stepCross                  // puts, patches and deletes over two collections, as one batch
	stepDelete                 // deletes by id
	stepWhere                  // deletes by condition
	stepCreate
	stepDrop
	stepRename
	stepMeta // metadata of a collection
	stepText // makes or drops its full-text index
	lastWrite
	stepFlush
	stepCompact
	stepBackup
	stepReopen
	stepSnapshot // opens a snapshot, and closes the previous one
	stepRead     // reads everything, and compares
	stepPublish  // to the folder of replicas
	stepRestore  // restores the last backup: the database continues from there
	stepDepose   // takes the lead away, as from a process that is stopped
	stepKill     // kills a member; another one takes its place
)

const (
	kib = 1 << 10
	dim = 8

	mostCollections = 12 // per track; then one is dropped instead
)

// memberWeights flush seldom: a flush syncs the writes of all members.
var memberWeights = []weight{{stepBatch, 8}, {stepCross, 3}, {stepDelete, 2}, {stepWhere, 2}, {stepMeta, 1},
	{stepText, 1}, {stepCreate, 1}, {stepRename, 1}, {stepKill, 2}, {stepFlush, 1}}

// profiles are the workloads, each about one feature of a database.
var profiles = []profile{
	{name: "puts", steps: 40, head: 64 * kib, ids: 1000, text: 3000, docs: 4, weights: []weight{{stepBatch, 1}}},
	{name: "batches", steps: 40, head: 64 * kib, ids: 60, text: 1500, docs: 4,
		weights: []weight{{stepCross, 4}, {stepBatch, 1}}},
	{name: "updates", steps: 50, head: 16 * kib, ids: 12, text: 700, docs: 3,
		weights: []weight{{stepBatch, 5}, {stepCross, 2}}},
	{name: "deletes", steps: 50, head: 12 * kib, ids: 40, text: 400, docs: 5,
		weights: []weight{{stepBatch, 3}, {stepDelete, 3}, {stepFlush, 1}}},
	{name: "deletes-where", steps: 50, head: 12 * kib, ids: 60, text: 300, docs: 6,
		weights: []weight{{stepBatch, 4}, {stepWhere, 2}, {stepFlush, 1}}},
	{name: "collections", steps: 60, head: 16 * kib, ids: 20, text: 300, docs: 3,
		weights: []weight{{stepBatch, 4}, {stepCreate, 3}, {stepDrop, 2}, {stepRename, 2},
			{stepMeta, 2}, {stepFlush, 1}}},
	{name: "flushes", steps: 50, head: 8 * kib, ids: 40, text: 900, docs: 4,
		weights: []weight{{stepBatch, 4}, {stepCross, 2}, {stepFlush, 3}}},
	{name: "compaction", steps: 50, head: 16 * kib, ids: 30, text: 300, docs: 5,
		weights: []weight{{stepBatch, 4}, {stepDelete, 2}, {stepWhere, 1}, {stepFlush, 2}, {stepCompact, 1}}},
	{name: "background", steps: 60, head: 8 * kib, compact: true, ids: 30, text: 500, docs: 4,
		weights: []weight{{stepBatch, 4}, {stepCross, 2}, {stepDelete, 1}, {stepFlush, 2}}},
	{name: "backup", steps: 30, head: 16 * kib, ids: 30, text: 400, docs: 3,
		weights: []weight{{stepBatch, 4}, {stepDelete, 1}, {stepBackup, 1}}},
	{name: "restore", steps: 30, head: 16 * kib, ids: 30, text: 400, docs: 3,
		weights: []weight{{stepBatch, 5}, {stepDelete, 1}, {stepBackup, 1}, {stepRestore, 1},
			{stepFlush, 1}, {stepPublish, 2}, {stepText, 1}}},
	{name: "publish", steps: 24, head: 16 * kib, compact: true, ids: 20, text: 400, docs: 3,
		weights: []weight{{stepBatch, 4}, {stepCross, 1}, {stepDelete, 1}, {stepPublish, 2},
			{stepCompact, 1}, {stepText, 1}}},
	{name: "publish-unsynced", steps: 30, head: 64 * kib, sync: db.SyncNever, ids: 20, text: 400, docs: 3,
		weights: []weight{{stepBatch, 6}, {stepCross, 2}, {stepDelete, 1}, {stepPublish, 2}}},
	{name: "reopen", steps: 40, head: 16 * kib, ids: 30, text: 600, docs: 3,
		weights: []weight{{stepBatch, 4}, {stepDelete, 1}, {stepReopen, 1}}},
	{name: "snapshots", steps: 60, head: 12 * kib, ids: 12, text: 300, docs: 3,
		weights: []weight{{stepBatch, 4}, {stepDelete, 1}, {stepSnapshot, 2}, {stepFlush, 1},
			{stepCompact, 1}, {stepDrop, 1}, {stepCreate, 1}}},
	{name: "deposed", steps: 24, head: 16 * kib, compact: true, ids: 20, text: 400, docs: 3,
		weights: []weight{{stepBatch, 4}, {stepDelete, 1}, {stepDepose, 2}, {stepFlush, 1}, {stepCompact, 1}}},
	{name: "policies", steps: 12, tracks: 3, cost: 2, head: 32 * kib, ids: 20, text: 400, docs: 3,
		members: []db.SyncPolicy{db.SyncNever, db.SyncAlways, db.SyncNever}, weights: memberWeights},
	{name: "policies-interval", steps: 12, tracks: 3, cost: 2, head: 32 * kib, ids: 20, text: 400, docs: 3,
		members: []db.SyncPolicy{db.SyncAlways, db.SyncInterval, db.SyncInterval}, weights: memberWeights},
	{name: "words", steps: 40, head: 12 * kib, compact: true, ids: 30, text: 400, docs: 4,
		weights: []weight{{stepBatch, 4}, {stepCross, 2}, {stepDelete, 1}, {stepText, 2},
			{stepFlush, 2}, {stepCompact, 1}}},
	{name: "writers", steps: 16, tracks: 4, cost: 3, head: 16 * kib, compact: true, ids: 20, text: 900, docs: 3,
		weights: []weight{{stepBatch, 4}, {stepCross, 2}, {stepDelete, 1}, {stepWhere, 1}, {stepFlush, 1}}},
	{name: "unsynced", steps: 50, head: 16 * kib, sync: db.SyncNever, ids: 30, text: 900, docs: 3,
		weights: []weight{{stepBatch, 6}, {stepCross, 2}, {stepDelete, 1}, {stepFlush, 1}}},
	{name: "rotation", steps: 12, cost: 6, head: 16 << 20, ids: 12, text: 900 * kib, docs: 1,
		weights: []weight{{stepBatch, 1}}},
	{name: "rewrite", steps: 36, head: 256 * kib, ids: 30, text: 120 * kib, docs: 2,
		weights: []weight{{stepBatch, 4}, {stepWhere, 2}, {stepDelete, 1}, {stepCompact, 2}}},
	{name: "mixed", steps: 60, head: 12 * kib, compact: true, ids: 40, text: 600, docs: 4,
		weights: []weight{{stepBatch, 6}, {stepCross, 4}, {stepDelete, 2}, {stepWhere, 1},
			{stepCreate, 1}, {stepDrop, 1}, {stepRename, 1},
			{stepMeta, 1}, {stepFlush, 1}, {stepCompact, 1}, {stepReopen, 1}, {stepSnapshot, 1}}},
}

func (p *profile) options() *db.Options {
	o := &db.Options{HeadSize: p.head, Sync: p.sync, Compaction: db.Manual, Workers: 1}
	if p.compact {
		o.Compaction = db.Automatic
	}
	return o
}
