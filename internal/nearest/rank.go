package nearest

import (
	"cmp"
	"context"
	"slices"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/meta"
)

// A Place locates a row.
type Place struct {
	Part *engine.Part
	Row  int
}

// A Ranked is a row with its true score.
type Ranked struct {
	Place
	Score float64
	ID    string // read only to break ties
}

// Compare is the order of rows: by score, then by id.
func Compare(a, b Ranked) int {
	if a.Score != b.Score {
		return cmp.Compare(b.Score, a.Score)
	}
	return cmp.Compare(a.ID, b.ID)
}

// scoreEvery is how many rows are scored between two looks at the context.
const scoreEvery = 1024

// rank computes true scores of the rows found for a probe, and keeps the best, in order.
func (s *Search) rank(ctx context.Context, p *Probe) error {
	rows := slices.Grow(p.Best[:0], len(p.found))
	for i, c := range p.found {
		if i%scoreEvery == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		part, score := s.View.Parts[c.Part], c.Upper
		if !p.usesGraph(int(c.Part)) { // graph searches have computed true scores
			vec, err := part.Source.Vectors(int(c.Row), int(c.Row)+1)
			if err != nil {
				return err
			}
			score = p.Scorer.Score(vec)
		}
		if score >= p.Least {
			rows = append(rows, Ranked{Place: Place{part, int(c.Row)}, Score: score})
		}
	}
	var err error
	p.Best, err = Order(ctx, s.Version, s.View, rows, p.Need, Compare, func(r *Ranked) *Ranked { return r })
	return err
}

// Order returns the n best of hits, in order. compare compares their scores, then their ids; row
// returns the row of a hit. Order sets the ids of rows that tie.
func Order[H any](
	ctx context.Context, ver *engine.Version, view *engine.View, hits []H, n int,
	compare func(a, b H) int, row func(*H) *Ranked,
) ([]H, error) {
	slices.SortFunc(hits, compare)
	equal := func(i, j int) bool { return row(&hits[i]).Score == row(&hits[j]).Score }
	// Rows that tie with the last one wanted compete by id.
	if len(hits) > n {
		end := n
		for end < len(hits) && n > 0 && equal(end, n-1) {
			end++
		}
		hits = hits[:end]
	}
	tied := false
	for i := range hits[min(1, len(hits)):] {
		tied = tied || equal(i, i+1)
	}
	if !tied { // ids decide nothing
		return hits[:min(n, len(hits))], nil
	}
	err := ver.Read(func(tx *meta.Tx) (err error) {
		for i := range hits {
			r := row(&hits[i])
			tied := i > 0 && equal(i-1, i) || i+1 < len(hits) && equal(i, i+1)
			if !tied || r.Known(ver) {
				continue
			}
			if err = ctx.Err(); err != nil {
				return err
			}
			if r.ID, err = view.IDAt(tx, r.Part, r.Row); err != nil {
				return err
			}
			ver.Files.IDs.Put(r.Part.Nums[r.Row], r.ID)
		}
		return nil
	})
	return best(hits, n, compare), err
}

// best returns the n best of hits, in order, and forgets the others: many documents can have the
// score of the last one. A heap of the best so far has the worst of them first.
func best[H any](hits []H, n int, compare func(a, b H) int) []H {
	heap := hits[:min(n, len(hits))]
	if len(heap) > 0 && len(heap) < len(hits) {
		for i := len(heap)/2 - 1; i >= 0; i-- {
			sink(heap, i, compare)
		}
		for i := len(heap); i < len(hits); i++ {
			if compare(hits[i], heap[0]) < 0 {
				heap[0] = hits[i]
				sink(heap, 0, compare)
			}
		}
	}
	clear(hits[len(heap):])
	slices.SortFunc(heap, compare)
	return heap
}

// sink moves an element of a heap behind the worse ones below it.
func sink[H any](heap []H, i int, compare func(a, b H) int) {
	for {
		worst := i
		for child := 2*i + 1; child < min(2*i+3, len(heap)); child++ {
			if compare(heap[child], heap[worst]) > 0 {
				worst = child
			}
		}
		if worst == i {
			return
		}
		heap[i], heap[worst] = heap[worst], heap[i]
		i = worst
	}
}

// Known reports whether the id of a row is known without reading meta.bolt.
func (r *Ranked) Known(ver *engine.Version) bool {
	if r.ID == "" {
		r.ID = ver.Files.IDs.Get(r.Part.Nums[r.Row])
	}
	return r.ID != ""
}
