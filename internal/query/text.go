package query

import (
	"cmp"
	"slices"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/match"
	"github.com/vecbolt/vecbolt/internal/nearest"
	"github.com/vecbolt/vecbolt/internal/topk"
	"github.com/vecbolt/vecbolt/segment/terms"
	"github.com/vecbolt/vecbolt/text"
)

// A textLeg is the prepared text of a query.
type textLeg struct {
	*match.Text
	query   text.Query
	scanner *text.Scanner
}

// textLeg prepares the text of a query; nil if it has none. It must be called inside
// Guard.
func (s *search) textLeg(q *Query) (*textLeg, error) {
	if q.Text == "" {
		return nil, nil
	}
	a := s.view.Def.Analysis
	if a == nil {
		return nil, engine.NoText(s.view.Def.Name)
	}
	parsed, err := match.Parse(a, "text", q.Text)
	if err != nil {
		return nil, err
	}
	prepared, err := match.Prepare(s.ctx, s.view, a, parsed)
	return &textLeg{Text: prepared, query: parsed, scanner: a.Analyzer.Scanner()}, err
}

// textRows is the number of rows that are searched between two checks of the context.
const textRows = 1 << 16

// bestTexts returns the best documents by text with at least the score least, at most
// need of them, in order.
func (s *search) bestTexts(p *probe, need int, least float64) ([]Row, error) {
	hits, err := s.textsAbove(p, need, least)
	if err != nil {
		return nil, err
	}
	return s.order(hits, need)
}

// textsAbove finds the documents with at least the score least by text, in no order. If
// there are more than need, it finds at least the best need of them.
func (s *search) textsAbove(p *probe, need int, least float64) ([]Row, error) {
	clock := s.clock("text")
	c := topk.New(min(need, max(1, p.Matched)), least)
	var buf terms.Buffer
	for i, part := range s.view.Parts {
		for lo := 0; lo < part.N; lo += textRows {
			if err := s.ctx.Err(); err != nil {
				return nil, err
			}
			if err := p.text.Scan(i, lo, min(lo+textRows, part.N), p.Parts[i].Set, c, &buf); err != nil {
				return nil, p.text.Damaged(err)
			}
		}
	}
	hits, err := s.textScores(p, topk.Merge(c))
	if err != nil {
		return nil, err
	}
	hits = slices.DeleteFunc(hits, func(h Row) bool { return h.Score < least })
	clock.Done(p.Matched, min(need, len(hits)), 0)
	return hits, nil
}

// textScores computes the text scores of candidates.
func (s *search) textScores(p *probe, found []topk.Candidate) ([]Row, error) {
	slices.SortFunc(found, func(a, b topk.Candidate) int {
		return cmp.Or(cmp.Compare(a.Part, b.Part), cmp.Compare(a.Row, b.Row))
	})
	hits := make([]Row, 0, len(found))
	var rows []uint32
	var scores []float64
	for len(found) > 0 {
		part := int(found[0].Part)
		rows = rows[:0]
		for len(found) > 0 && int(found[0].Part) == part {
			rows = append(rows, uint32(found[0].Row))
			found = found[1:]
		}
		var err error
		if scores, err = p.text.Scores(scores[:0], part, rows); err != nil {
			return nil, p.text.Damaged(err)
		}
		for i, row := range rows {
			at := nearest.Place{Part: s.view.Parts[part], Row: int(row)}
			hits = append(hits, Row{Ranked: nearest.Ranked{Place: at, Score: scores[i]}})
		}
	}
	return hits, nil
}
