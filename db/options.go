package db

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"time"

	"github.com/vecbolt/vecbolt/internal/engine"
)

// A SyncPolicy says when an acknowledged write is safe from power loss. A
// write is safe from a killed process under every policy.
type SyncPolicy uint8

const (
	// SyncAlways makes a call that returned nil survive power loss. It is the
	// default. Writers that wait together share one fsync.
	SyncAlways SyncPolicy = iota
	// SyncInterval syncs every Options.SyncEvery. Power loss costs at most the
	// writes of that period: always the newest writes, in whole batches.
	SyncInterval
	// SyncNever leaves syncing to the operating system, Flush, and the Close of
	// the process that leads. Power loss costs the newest writes, in whole batches.
	SyncNever
)

// String returns "always", "interval" or "never".
func (p SyncPolicy) String() string {
	switch p {
	case SyncAlways:
		return "always"
	case SyncInterval:
		return "interval"
	case SyncNever:
		return "never"
	}
	return fmt.Sprintf("SyncPolicy(%d)", uint8(p))
}

// MarshalText implements encoding.TextMarshaler.
func (p SyncPolicy) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *SyncPolicy) UnmarshalText(b []byte) error {
	for _, known := range []SyncPolicy{SyncAlways, SyncInterval, SyncNever} {
		if string(b) == known.String() {
			*p = known
			return nil
		}
	}
	return invalidf("sync %q: want always, interval or never", b)
}

// An Upkeep says who starts work that no answer waits for.
type Upkeep uint8

const (
	// Automatic work runs in the background while the database is open. It is
	// the default.
	Automatic Upkeep = iota
	// Manual work runs when the program calls for it.
	Manual
)

// String returns "automatic" or "manual".
func (u Upkeep) String() string {
	switch u {
	case Automatic:
		return "automatic"
	case Manual:
		return "manual"
	}
	return fmt.Sprintf("Upkeep(%d)", uint8(u))
}

// Options tune a database. The zero value, like nil, is the default. Options
// are read by Open and never written to. A field outside its range makes Open
// fail with ErrInvalid.
type Options struct {
	// ReadOnly opens without writing a byte. It keeps no process from writing: calls
	// see the writes of a process that leads, and otherwise those in the files. A folder
	// that a Publisher fills can be opened read-only, too.
	ReadOnly bool
	// Follow, if positive, is the interval at which a database that is opened from a
	// published folder looks for a newer version, as Refresh does. Every file is
	// compared with its SHA-256 before its first use, in Open as well. Negative is
	// invalid, and so is Follow without ReadOnly.
	Follow time.Duration
	// Exclusive keeps other processes out: their Open fails with ErrLocked, and so does
	// this one while a process writes. With ReadOnly it keeps out those that write.
	Exclusive bool
	// MustExist makes Open fail with ErrNotFound instead of creating.
	MustExist bool
	// Sync says when the writes of this process reach the disk. If another process leads, and
	// asks for less, the writes of this one are synced before they are acknowledged.
	Sync SyncPolicy
	// SyncEvery is the period of SyncInterval, at most an hour; 0 means 100 ms.
	SyncEvery time.Duration
	// HeadSize is about how many bytes of new documents and vectors are kept
	// in memory, beside the log, before they are flushed to a segment; 0
	// means 64 MiB, MaxHeadSize is the most. Twice as much can be held while a
	// flush runs.
	HeadSize int64
	// Workers is the number of goroutines that one search may use, at most
	// MaxWorkers; 0 means GOMAXPROCS.
	Workers int
	// Compaction merges segments, and builds graphs and other derived files.
	// Manual leaves both to Compact.
	Compaction Upkeep
	// Recheck measures the recall of live queries: a few of those that a graph
	// answered are repeated, exactly, when a processor is idle, on one goroutine
	// and for about a hundredth of its time. See CollectionStats.Recall. Manual
	// leaves it to MeasureRecall.
	Recheck Upkeep
	// Logger receives one line per open, flush, compaction, repair of derived
	// data and close. nil is silent.
	Logger *slog.Logger

	tests testOptions
}

// The largest values of Options.
const (
	MaxHeadSize = 64 << 30 // bytes
	MaxWorkers  = 4096     // goroutines

	maxSyncEvery = time.Hour
)

// validate is the only check of Options.
func (o *Options) validate() error {
	return errors.Join(
		within("Sync", o.Sync, SyncAlways, SyncNever),
		within("SyncEvery", o.SyncEvery, 0, maxSyncEvery),
		within("HeadSize", o.HeadSize, 0, MaxHeadSize),
		within("Workers", o.Workers, 0, MaxWorkers),
		within("Compaction", o.Compaction, Automatic, Manual),
		within("Recheck", o.Recheck, Automatic, Manual),
		within("Follow", o.Follow, 0, math.MaxInt64),
		o.follows(),
	)
}

// follows returns an error if a database that may be written is to follow a folder.
func (o *Options) follows() error {
	if o.Follow > 0 && !o.ReadOnly {
		return invalidf("option Follow: only a database that is opened read-only follows a folder")
	}
	return nil
}

// within returns an error unless a field of options is in its range.
func within[T cmp.Ordered](field string, v, least, most T) error {
	if v < least || v > most {
		return invalidf("option %s: %v is outside %v..%v", field, v, least, most)
	}
	return nil
}

func (o Options) withDefaults() Options {
	o.SyncEvery = cmp.Or(o.SyncEvery, 100*time.Millisecond)
	o.HeadSize = cmp.Or(o.HeadSize, 64<<20)
	o.tests = o.tests.withDefaults()
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// settings are the options of the engine.
func (o Options) settings() engine.Options {
	s := engine.Options{
		ReadOnly: o.ReadOnly, MustExist: o.MustExist, Follow: o.Follow, SyncAlways: o.Sync == SyncAlways,
		Shared: !o.Exclusive, HeadSize: o.HeadSize, Workers: o.Workers, Compaction: o.Compaction == Automatic,
		Logger: o.Logger, Hook: o.tests.hook, Settle: o.tests.settle,
		CodedBytes: o.tests.codedBytes, GraphSize: o.tests.graphSize,
		QuickSize: o.tests.quickSize, WalkAlways: o.tests.walkAlways, Trials: o.tests.trials,
	}
	if o.Sync == SyncInterval {
		s.SyncEvery = o.SyncEvery
	}
	if s.Compaction {
		s.Settle = cmp.Or(s.Settle, engine.SettleTime)
	}
	return s
}
