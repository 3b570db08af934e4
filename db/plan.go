package db

import (
	"fmt"
)

// A PartPlan says how a query searches one part of a collection: a segment, or
// the rows in memory.
type PartPlan struct {
	Name    string `json:"name"` // of the file; "memory" for rows that are not flushed yet
	Rows    int    `json:"rows"` // live rows; only rows with a vector, unless the query has a text
	Matched int    `json:"matched"`
	Plan    string `json:"plan"`
	Reason  string `json:"reason"`
}

// plan says how a query was answered.
func (q *probe) plan() string {
	if q.text != nil {
		if !q.vector {
			return "text index"
		}
		return q.ledger.plan() + " and text index, fused by " + q.Fusion.Method.String()
	}
	return q.ledger.plan()
}

// partPlans explains the plan part by part.
func (s *search) partPlans(q *probe) []PartPlan {
	plans := []PartPlan{}
	for i, p := range s.view.Parts {
		if p.Live() == 0 || p.Dim == 0 && q.text == nil {
			continue
		}
		plan := PartPlan{Name: "memory", Rows: p.Live(), Matched: q.matchedIn(s.view, i)}
		if p.Segment != nil {
			plan.Name = p.Segment.Name()
		}
		share := q.share(i, p.N)
		switch {
		case !q.vector:
			plan.Plan, plan.Reason = "text index", "the query has no vector"
		case p.Dim == 0:
			plan.Plan, plan.Reason = "text index", "no row has a vector"
		case plan.Matched == 0:
			plan.Plan, plan.Reason = "nothing", "no row matches"
		case q.walks(i):
			plan.Plan = "graph"
		case share < s.sparse(i):
			plan.Plan, plan.Reason = "row by row", fmt.Sprintf("only %.3g %% of the rows match", 100*share)
		case q.parts[i].codes != nil:
			plan.Plan, plan.Reason = "scan of codes", "codes rule out most rows, from a quarter of the bytes"
		case p.Segment == nil:
			plan.Plan, plan.Reason = "scan of vectors", "rows in memory have no codes"
		case p.Segment.Codes != nil:
			plan.Plan, plan.Reason = "scan of vectors", "the codes are not built yet"
		default:
			plan.Plan, plan.Reason = "scan of vectors", "the segment is too small for codes to pay"
		}
		if q.vector && q.parts[i].reason != "" {
			if plan.Reason != "" {
				plan.Reason += "; "
			}
			plan.Reason += q.parts[i].reason
		}
		plans = append(plans, plan)
	}
	return plans
}
