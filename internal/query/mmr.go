package query

import (
	"cmp"

	"github.com/vecbolt/vecbolt/internal/mmr"
	"github.com/vecbolt/vecbolt/internal/score"
)

// fetch returns how many of the best rows compete for limit hits.
func (m *MMR) fetch(limit int) int { return cmp.Or(m.Fetch, 5*limit) }

// diversify chooses hits by maximal marginal relevance.
func (s *search) diversify(q *probe, best []Row) ([]Row, error) {
	clock := s.clock("mmr")
	vecs := make([][]float32, len(best))
	relevance := func(i int) float64 { return best[i].Score }
	if q.text != nil && len(best) > 0 && best[0].Score != 0 { // text and RRF scores have another scale
		relevance = func(i int) float64 { return best[i].Score / best[0].Score }
	}
	for i, h := range best {
		if h.Part.Dim == 0 {
			continue
		}
		var err error
		if vecs[i], err = h.Part.Source.Vectors(h.Row, h.Row+1); err != nil {
			return nil, err
		}
	}
	var taken []Row
	if q.limit() > 0 {
		order := mmr.Order(len(best), q.MMR.Lambda, relevance, func(chosen int) func(int) (float64, bool) {
			if vecs[chosen] == nil {
				return nil
			}
			similarity := score.New(s.view.Def.Schema.Metric, vecs[chosen])
			return func(i int) (float64, bool) {
				if vecs[i] == nil {
					return 0, false
				}
				return similarity.Score(vecs[i]), true
			}
		})
		for i := range order {
			if err := s.ctx.Err(); err != nil {
				return nil, err
			}
			if taken = append(taken, best[i]); len(taken) == q.limit() {
				break
			}
		}
	}
	clock.Done(len(best), len(taken), 0)
	return taken, nil
}
