package nearest

import (
	"fmt"

	"github.com/vecbolt/vecbolt/segment/codes"
)

// Explain says how a part with vectors was searched for a probe, and why.
func (s *Search) Explain(q *Probe, part int) (plan, reason string) {
	p, share := s.View.Parts[part], q.share(part, s.View.Parts[part].N)
	switch {
	case q.MatchedIn(s.View, part) == 0:
		plan, reason = "nothing", "no row matches"
	case q.usesGraph(part):
		plan = "graph"
	case share < s.sparse(part):
		plan, reason = "row by row", fmt.Sprintf("only %.3g %% of the rows match", 100*share)
	case q.Parts[part].codes != nil && q.Parts[part].codes.Estimates():
		plan, reason = "scan of sketches", fmt.Sprintf("the answer is approximate anyway, and sketches, which rule "+
			"out most rows, promise a recall of %v", codes.SketchRecall)
	case p.Segment == nil && q.Parts[part].codes != nil:
		plan, reason = "scan of codes", fmt.Sprintf("codes rule out most rows; the newest %d have none yet",
			p.N-s.heads[part].Len())
	case q.Parts[part].codes != nil:
		plan, reason = "scan of codes", "codes rule out most rows, from a quarter of the bytes"
	case p.Segment == nil:
		plan, reason = "scan of vectors", "rows in memory get codes in blocks, and there is none yet"
	case p.Segment.Codes != nil:
		plan, reason = "scan of vectors", "the codes are not built yet"
	default:
		plan, reason = "scan of vectors", "the segment is too small for codes to pay"
	}
	if why := q.Parts[part].reason; why != "" && reason != "" {
		reason += "; " + why
	} else if why != "" {
		reason = why
	}
	return plan, reason
}
