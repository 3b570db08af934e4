package nearest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// load restores what an earlier process has learnt. A file that is damaged, of a later version or
// of another database is left out: everything in it can be learnt again.
func (r *Rechecks) load() {
	ver, err := r.engine.Acquire(context.Background())
	if err != nil {
		return
	}
	defer r.engine.Done(ver)
	b, err := r.engine.FS.ReadFile(engine.TallyName, tallyLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var old *records
	if err == nil {
		old, err = decodeRecords(b)
	}
	if err == nil && old.db != r.engine.Identity {
		err = fmt.Errorf("%w: it is of another database", fileformat.ErrFormat)
	}
	if err != nil {
		r.engine.Opts.Logger.Warn("measured recalls are lost and will be measured again",
			"file", engine.TallyName, "error", err)
		return
	}
	r.stored = b
	r.restore(ver, old)
}

// restore applies records to the segments and collections of a version. A segment that was made
// after the file was written takes over the widest beam of those that are gone, because it was
// compacted from them.
func (r *Rechecks) restore(ver *engine.Version, old *records) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := map[uint64]*graphRecord{}
	for i := range old.graphs {
		known[old.graphs[i].segment] = &old.graphs[i]
	}
	for coll, view := range ver.Views {
		gone, fresh := map[uint64]*graphRecord{}, []*engine.OpenSegment{}
		for id, g := range known {
			if g.coll == coll {
				gone[id] = g
			}
		}
		for _, p := range view.Parts {
			if p.Segment == nil {
				continue
			}
			g := gone[p.Segment.Info.ID]
			if g == nil || g.crc != p.Segment.Info.CRC {
				fresh = append(fresh, p.Segment)
				continue
			}
			delete(gone, g.segment)
			p.Segment.Raised.Store(g.raised)
			if g.queries > 0 {
				r.graphs[p.Segment] = &graphTally{Tally: g.Tally, promised: g.promised}
			}
		}
		for _, g := range gone {
			for _, s := range fresh {
				s.Raised.Store(max(s.Raised.Load(), g.raised))
			}
		}
	}
	for _, t := range old.targets {
		if ver.Views[t.coll] == nil {
			continue
		}
		if r.tallies[t.coll] == nil {
			r.tallies[t.coll] = map[float64]*Tally{}
		}
		if tally := t.Tally; len(r.tallies[t.coll]) < recheckTargets {
			r.tallies[t.coll][t.target] = &tally
		}
	}
}

// save writes the file if there is something new to keep. Failing to is no error of the database:
// the next process measures again. It is not called concurrently.
func (r *Rechecks) save() {
	e := r.engine
	if !e.Leads() || e.Dir == engine.Memory || e.Err() != nil {
		return
	}
	ver, err := e.Acquire(context.Background())
	if err != nil {
		return
	}
	defer e.Done(ver)
	now := r.records(ver)
	b := now.encode()
	if bytes.Equal(b, r.stored) || r.stored == nil && len(now.graphs) == 0 && len(now.targets) == 0 {
		return
	}
	if err := e.KeepFile(engine.TallyName, b); err != nil {
		e.Opts.Logger.Warn("measured recalls cannot be kept", "file", engine.TallyName, "error", err)
		return
	}
	r.stored = b
}

// records returns the knowledge about the segments and collections of a version, in order.
func (r *Rechecks) records(ver *engine.Version) *records {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := &records{db: r.engine.Identity}
	for _, coll := range slices.Sorted(maps.Keys(ver.Views)) {
		for _, p := range ver.Views[coll].Parts {
			s := p.Segment
			if s == nil {
				continue
			}
			rec := graphRecord{segment: s.Info.ID, crc: s.Info.CRC, coll: coll, raised: s.Raised.Load()}
			if g := r.graphs[s]; g != nil {
				rec.graphTally = *g
			}
			if rec.raised > 0 || rec.queries > 0 {
				now.graphs = append(now.graphs, rec)
			}
		}
		for _, target := range slices.Sorted(maps.Keys(r.tallies[coll])) {
			now.targets = append(now.targets, targetRecord{coll, target, *r.tallies[coll][target]})
		}
	}
	slices.SortFunc(now.graphs, func(a, b graphRecord) int { return cmp.Compare(a.segment, b.segment) })
	return now
}
