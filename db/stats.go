package db

import (
	"github.com/vecbolt/vecbolt/segment/graph"
	"github.com/vecbolt/vecbolt/simd"
)

// Stats describes a database at one moment. Sizes are in bytes.
type Stats struct {
	Dir         string            `json:"dir"`
	ReadOnly    bool              `json:"read_only"`
	Sync        string            `json:"sync"`    // durability of writes: always, interval or never
	Kernels     string            `json:"kernels"` // instruction set of the vector kernels
	Batches     uint64            `json:"batches"` // ever applied
	Flushed     uint64            `json:"flushed"` // batches in segments and meta.bolt; the rest is in the log
	HeadBytes   int64             `json:"head_bytes"`
	LogBytes    int64             `json:"log_bytes"`
	MetaBytes   int64             `json:"meta_bytes"`
	MetaFree    int64             `json:"meta_free_bytes"`   // free part of MetaBytes
	VectorBytes int64             `json:"vector_bytes"`      // segment files
	Versions    int               `json:"versions"`          // versions of the database in use
	Failed      string            `json:"failed,omitempty"`  // why writes are refused, if they are
	Trouble     string            `json:"trouble,omitempty"` // why the last background work failed
	Replica     *ReplicaStats     `json:"replica,omitempty"` // of a published folder only
	Collections []CollectionStats `json:"collections"`
}

// CollectionStats describes a collection at one moment.
type CollectionStats struct {
	CollectionInfo
	Vectors  int `json:"vectors"`   // documents that have one
	Segments int `json:"segments"`  // files
	DeadRows int `json:"dead_rows"` // of deleted or replaced documents, not reclaimed yet
	HeadRows int `json:"head_rows"` // in memory and in the log
	// Graphs is the number of segments with a graph. GraphsDue is the number of
	// segments that are large enough for a graph and have none yet: they are
	// scanned until it is built, in the background while the database is open,
	// or by Compact.
	Graphs    int `json:"graphs"`
	GraphsDue int `json:"graphs_due"`
	// Recall is the recall of live queries that graphs answered, by target,
	// since the database was opened or a search setting was raised. It is
	// measured on the few queries that were repeated exactly. See
	// Options.NoRecheck.
	Recall []Rechecked `json:"recall"`
	// Effort is the factor on the calibrated setting of a graph, the largest of
	// all segments: it is raised when queries found less than promised.
	Effort float64 `json:"effort"`
}

// Stats returns figures about the newest version of the database, at little
// cost. It waits for no write, not even for one that a disk holds up.
func (db *DB) Stats() Stats {
	ver, err := db.acquire()
	if err != nil {
		return Stats{Dir: db.dir}
	}
	defer db.done(ver)
	s := Stats{
		Dir: db.dir, ReadOnly: db.opts.ReadOnly, Sync: db.opts.Sync.String(), Kernels: simd.Name(),
		Batches: ver.lsn, Flushed: ver.applied, HeadBytes: ver.headBytes,
		Collections: []CollectionStats{},
	}
	if err := db.err(); err != nil {
		s.Failed = err.Error()
	}
	if err := db.trouble(); err != nil {
		s.Trouble = err.Error()
	}
	s.MetaBytes, s.MetaFree = ver.files.store.Size()
	if db.log != nil {
		s.LogBytes = db.log.Size()
	}
	if f := db.following; f != nil {
		f.mu.Lock()
		stats := f.stats
		f.mu.Unlock()
		s.Replica = &stats
	}
	db.mu.Lock()
	s.Versions = len(db.live)
	db.mu.Unlock()
	for _, v := range ver.sortedViews() {
		c := CollectionStats{CollectionInfo: v.info(), Recall: db.rechecks.observed(v.def.id), Effort: 1}
		for _, p := range v.parts {
			if p.dim > 0 {
				c.Vectors += p.live()
			}
			c.DeadRows += p.dead.Count()
			if p.segment != nil {
				c.Segments++
				s.VectorBytes += p.segment.info.Size
				c.Effort = max(c.Effort, p.segment.raise())
				if g := p.segment.graph; g != nil && db.has(g) {
					c.Graphs++
				} else if g != nil {
					c.GraphsDue++
				}
			} else {
				c.HeadRows += p.live()
			}
		}
		s.Collections = append(s.Collections, c)
	}
	return s
}

// has reports whether a graph is built.
func (db *DB) has(g *derived[graph.Graph]) (found bool) {
	err := db.guard(func() error {
		found = g.get() != nil
		return nil
	})
	return found && err == nil
}
