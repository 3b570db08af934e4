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
	for i, h := range best {
		var err error
		if vecs[i], err = h.part.source.vectors(h.row, h.row+1); err != nil {
			return nil, err
		}
		nearest[i] = math.Inf(-1)
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
			value := q.MMR.Lambda * best[i].score
			if len(taken) > 0 {
				value -= (1 - q.MMR.Lambda) * nearest[i]
			}
			if value > most {
				at, most = j, value
			}
		}
		next := left[at]
		taken = append(taken, best[next])
		left = slices.Delete(left, at, at+1)
		similarity := newScorer(q.scorer.metric, vecs[next])
		for _, i := range left {
			nearest[i] = max(nearest[i], similarity.score(vecs[i]))
		}
	}
	clock.done(len(best), len(taken), 0)
	return taken, nil
}
