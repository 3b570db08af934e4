package nearest

import (
	"context"
	"errors"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/graph"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

// Queries that share a scan begin with a short walk of a graph. The rows that it finds have true
// scores, and no row below the k-th of them can be among the k best. That is a floor: the answer
// stays exact, whatever the walk misses. Without one, a scan looks at each row that is among the
// best so far: some 280 for ten results among 100,000. In a batch every such look begins with
// memory that is in no cache, because the block of rows was compared with all queries.

const (
	// batchOffer is about how many times its price a candidate takes in a batch: see
	// codes.BestPrice.
	batchOffer = 2
	// besides is how many rows more than wanted the beam of such a walk holds. A few rows that it
	// misses lower the floor only a little.
	besides = 10
)

// A floorWalk looks for the floor of a probe in the graph of a part.
type floorWalk struct {
	probe *Probe
	part  int
	plan  graphPlan
}

// floorWalks chooses for each probe of the batches the largest part where such a walk pays.
func (s *Search) floorWalks(batches []queryBatch) []floorWalk {
	var walks []floorWalk
	at := make([]int, len(s.Probes)) // 1 + index in walks
	for i := range batches {
		part := s.View.Parts[i]
		if batches[i].codes == nil || part.Segment == nil || part.Segment.Graph == nil {
			continue
		}
		g := part.Segment.Graph.Get()
		if g == nil {
			continue
		}
		for _, j := range batches[i].queries {
			p := s.Probes[j]
			plan := graphPlan{graph: g, setting: levels.Setting{EF: p.Need + besides}, live: s.fewDead(p, i)}
			switch {
			case p.Parts[i].Set != nil && !plan.live, p.Need >= p.MatchedIn(s.View, i):
			case s.graphCost(p, i, plan) > batchOffer*codes.BestPrice(part.N, p.Need, part.Dim):
			case at[j] == 0:
				walks = append(walks, floorWalk{p, i, plan})
				at[j] = len(walks)
			case s.View.Parts[walks[at[j]-1].part].N < part.N:
				walks[at[j]-1] = floorWalk{p, i, plan}
			}
		}
	}
	return walks
}

// raiseFloors sets the floor of every probe, and raises it for probes that share a scan.
func (s *Search) raiseFloors(ctx context.Context, batches []queryBatch) error {
	for _, p := range s.Probes {
		p.floor = p.Least
	}
	walks := s.floorWalks(batches)
	if len(walks) == 0 {
		return nil
	}
	return s.share(len(walks), max(1, min(s.Workers, len(walks)/minBatch)), func(i int) error {
		return s.raiseFloor(ctx, walks[i])
	})
}

// raiseFloor raises the floor of one probe. It leaves the floor where a graph finds too little, is
// damaged, or would be read from disk. The caller is inside Engine.Guard.
func (s *Search) raiseFloor(ctx context.Context, w floorWalk) error {
	p, part := w.probe, s.View.Parts[w.part]
	memory := s.graphScratch()
	defer s.dropScratch(memory)
	watch := part.Segment.Watch(w.plan.graph)
	defer watch.End()
	if watch.Cold {
		return nil
	}
	memory.query.Reset(w.plan.graph, p.Scorer.Query)
	memory.query.Heed(ctx)
	job := graphJob{probe: p, part: w.part}
	rows, _, err := s.find(&job, memory, p.Need, w.plan)
	switch {
	case errors.Is(err, fileformat.ErrDamaged):
		part.Segment.DistrustGraph(w.plan.graph, err)
		return nil
	case err != nil && !errors.Is(err, graph.ErrFar) && !errors.Is(err, graph.ErrBetween) &&
		!errors.Is(err, graph.ErrBeyondHorizon):
		return err // these say that there may be better rows, which a floor allows
	}
	if memory.scored, err = p.score(ctx, part, w.part, rows, memory.scored[:0]); err != nil {
		return err
	}
	memory.scored = p.best(memory.scored)
	if len(memory.scored) >= p.Need {
		p.floor = max(p.floor, memory.scored[p.Need-1].Upper)
	}
	return nil
}
