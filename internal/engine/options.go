package engine

import (
	"cmp"
	"log/slog"
	"math"
	"time"

	"github.com/vecbolt/vecbolt/internal/vfs"
)

// Options are the settings of an engine, validated and with every default filled in.
type Options struct {
	ReadOnly   bool
	MustExist  bool
	Follow     time.Duration
	SyncAlways bool          // sync the log before a write is acknowledged
	SyncEvery  time.Duration // otherwise this often; 0: never
	HeadSize   int64
	Workers    int
	Compaction bool // in the background
	Shared     bool // other processes may follow this one
	// OnLead is called when the lock is held, before anything is read. OnAbandon is called after it
	// if the database cannot be led, before the lock is given up.
	OnLead    func(*Engine) (serves bool)
	OnAbandon func()
	// OnDeposed is called when this process finds that it has lost the lead. It must not block, and
	// has StepDown called.
	OnDeposed func()
	Upstream  Upstream // of a process that shares the database with others
	Logger    *slog.Logger

	Hook       vfs.Hook      // faults and traces, for tests
	Settle     time.Duration // see SettleTime; 0: flushes make no codes
	CodedBytes int64         // vectors from which a segment gets codes
	GraphSize  int64         // vector components from which a segment gets a graph
	QuickSize  int64         // see graph.Options
	WalkAlways bool          // calibrate graphs for searches that cost more than scans; for tests
	Trials     int           // see graph.Options
}

// neverSynced is the SyncWithin of a process that leaves syncing to the system.
const neverSynced time.Duration = math.MaxInt64

// SyncWithin returns how long after its acknowledgement a write may be lost with the power.
func (o *Options) SyncWithin() time.Duration {
	if o.SyncAlways {
		return 0
	}
	return cmp.Or(o.SyncEvery, neverSynced)
}
