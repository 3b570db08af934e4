package db

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// fetch returns from how many of the best rows limit are chosen.
func (m *MMR) fetch(limit int) int { return cmp.Or(m.Fetch, 5*limit) }

// diversify chooses hits by maximal marginal relevance.
func (s *search) diversify(ctx context.Context, q *probe, best []ranked) ([]ranked, error) {
	clock := s.clock("mmr")
	vecs := make([][]float32, len(best))
	nearest := make([]float64, len(best)) // similarity to the nearest that was taken
	relevance := func(h ranked) float64 { return h.score }
	if q.text != nil && len(best) > 0 { // no similarity is near a sum of BM25 or of fractions of ranks
		relevance = func(h ranked) float64 { return h.score / best[0].score }
	}
	for i, h := range best {
		var err error
		nearest[i] = math.Inf(-1)
		if h.part.dim == 0 {
			continue
		}
		if vecs[i], err = h.part.source.vectors(h.row, h.row+1); err != nil {
			return nil, err
		}
	}
	left := make([]int, len(best)) // indexes of best, in order
	for i := range left {
		left[i] = i
	}
	var taken []ranked
	for len(taken) < q.limit() && len(left) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		at, most := 0, math.Inf(-1)
		for j, i := range left {
			value := q.MMR.Lambda * relevance(best[i])
			if !math.IsInf(nearest[i], -1) {
				value -= (1 - q.MMR.Lambda) * nearest[i]
			}
			if value > most {
				at, most = j, value
			}
		}
		next := left[at]
		taken = append(taken, best[next])
		left = slices.Delete(left, at, at+1)
		if vecs[next] == nil {
			continue
		}
		similarity := newScorer(s.view.def.schema.Metric, vecs[next])
		for _, i := range left {
			if vecs[i] == nil {
				continue
			}
			nearest[i] = max(nearest[i], similarity.score(vecs[i]))
		}
	}
	clock.done(len(best), len(taken), 0)
	return taken, nil
}
