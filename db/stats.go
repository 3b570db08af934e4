package db

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/segment/graph"
	"github.com/vecbolt/vecbolt/simd"
)

// Stats describes a database at one moment. Sizes are in bytes. None covers derived files:
// graphs, codes, columns and text indexes.
type Stats struct {
	Dir             string            `json:"dir"`
	ReadOnly        bool              `json:"read_only"`
	Sync            SyncPolicy        `json:"sync"`                       // Options.Sync; in JSON always, interval or never
	Kernels         string            `json:"kernels"`                    // instruction set of the vector kernels
	Batches         uint64            `json:"batches"`                    // ever applied
	Flushed         uint64            `json:"flushed"`                    // of them not only in the log
	HeadBytes       int64             `json:"head_bytes"`                 // documents in memory, not flushed yet
	LogBytes        int64             `json:"log_bytes"`                  // files of the log, allocated ahead
	MetaBytes       int64             `json:"meta_bytes"`                 // meta.bolt: ids, texts and metadata
	MetaFree        int64             `json:"meta_free_bytes"`            // free part of MetaBytes
	VectorBytes     int64             `json:"vector_bytes"`               // vectors of segments, no derived files
	Versions        int               `json:"versions"`                   // versions of the database in use
	Failed          string            `json:"failed,omitempty"`           // why writes are refused, or would be: see Check
	BackgroundError string            `json:"background_error,omitempty"` // why the last background work failed
	Replica         *ReplicaStats     `json:"replica,omitempty"`          // of a published folder only
	Collections     []CollectionStats `json:"collections"`
}

// ReplicaStats describe the served version of a published folder and the last look at the
// folder.
type ReplicaStats struct {
	Version   uint64    `json:"version"`         // number of the version
	Published time.Time `json:"published"`       // time of its publication
	Checked   time.Time `json:"checked"`         // time of the last look
	Error     string    `json:"error,omitempty"` // why the last look took no newer version, if it failed
}

// CollectionStats describes a collection at one moment.
type CollectionStats struct {
	CollectionInfo
	Vectors  int `json:"vectors"`   // documents that have one
	Segments int `json:"segments"`  // files
	DeadRows int `json:"dead_rows"` // of deleted or replaced documents, not reclaimed yet
	HeadRows int `json:"head_rows"` // in memory and in the log
	// Uncoded is the number of documents whose vectors a search compares in full,
	// because neither a graph nor codes have them yet: the newest ones, and those
	// of segments that are too small for codes to pay.
	Uncoded int `json:"uncoded_rows"`
	// Graphs is the number of segments with a graph. GraphsDue is the number of
	// segments that are large enough for a graph and have none yet: they are
	// scanned until it is built, in the background while the database is open,
	// or by Compact.
	Graphs    int `json:"graphs"`
	GraphsDue int `json:"graphs_due"`
	// Layouts are the layouts of the graphs, each with its reason, as in
	// "quick: from 512 dimensions".
	Layouts []string `json:"layouts,omitempty"`
	// Recall is the recall of live queries that graphs answered, by target,
	// since a search setting was raised, of earlier processes too. It is
	// measured on the few queries that were repeated exactly. See
	// Options.Recheck.
	Recall []MeasuredRecall `json:"recall"`
	// EFFactor is the factor on the calibrated beam width of a graph, the
	// largest of all segments: it is 1 until queries find less than promised.
	EFFactor float64 `json:"ef_factor"`
}

// Stats returns figures about the newest version of the database, at little
// cost; ErrClosed after Close. It waits for no write, not even for one that a
// disk holds up.
func (db *DB) Stats() (Stats, error) {
	ver, err := db.engine.Acquire(context.Background())
	if err != nil {
		return Stats{}, fmt.Errorf("db: stats: %w", err)
	}
	defer db.engine.Done(ver)
	s := Stats{
		Dir: db.engine.Dir, ReadOnly: db.opts.ReadOnly, Sync: db.opts.Sync, Kernels: simd.Name(),
		Batches: ver.LSN, Flushed: ver.Applied, HeadBytes: ver.HeadBytes, Versions: db.engine.VersionsInUse(),
		Collections: []CollectionStats{},
	}
	if err := cmp.Or(db.engine.Err(), db.member.Present()); err != nil {
		s.Failed = err.Error()
	}
	if err := db.engine.BackgroundErr(); err != nil {
		s.BackgroundError = err.Error()
	}
	s.MetaBytes, s.MetaFree = ver.Files.Store.Size()
	s.LogBytes = db.engine.LogBytes()
	if r, ok := db.engine.Replica(); ok {
		s.Replica = (*ReplicaStats)(&r)
	}
	for _, v := range ver.SortedViews() {
		for _, p := range v.Parts {
			if p.Segment != nil {
				s.VectorBytes += p.Segment.Info.Size
			}
		}
		s.Collections = append(s.Collections, db.collectionStats(v))
	}
	return s, nil
}

func (db *DB) collectionStats(v *engine.View) CollectionStats {
	c := CollectionStats{CollectionInfo: infoOf(v), Recall: db.rechecked(v.Def.ID), EFFactor: 1}
	for _, p := range v.Parts {
		if p.Dim > 0 {
			c.Vectors += p.Live()
		}
		c.DeadRows += p.Dead.Count()
		c.Uncoded += db.uncoded(v, p)
		if p.Segment == nil {
			c.HeadRows += p.Live()
			continue
		}
		c.Segments++
		c.EFFactor = max(c.EFFactor, p.Segment.Raise())
		if p.Segment.Graph == nil || v.Def.Schema.Index == IndexNone {
			continue
		}
		layout := db.layout(p.Segment.Graph)
		if layout == "" {
			c.GraphsDue++
			continue
		}
		c.Graphs++
		if !slices.Contains(c.Layouts, layout) {
			c.Layouts = append(c.Layouts, layout)
		}
	}
	return c
}

// layout describes the layout of a graph; it is empty if the graph is not built.
func (db *DB) layout(d *engine.Derived[graph.Graph]) (layout string) {
	err := db.engine.Guard(func() error {
		if g := d.Get(); g != nil {
			layout = g.Layout()
		}
		return nil
	})
	if err != nil {
		return ""
	}
	return layout
}

// uncoded returns how many live rows of a part a search compares in full.
func (db *DB) uncoded(v *engine.View, p *engine.Part) (n int) {
	err := db.engine.Guard(func() error {
		n = db.engine.Uncoded(v, p)
		return nil
	})
	if err != nil {
		return p.Live()
	}
	return n
}
