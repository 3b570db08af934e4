package db

import "fmt"

// A PartPlan says how a query looks for rows in one part of a collection: a
// segment, or what is in memory.
type PartPlan struct {
	Name    string `json:"name"` // of the file; "memory" for what is not flushed yet
	Rows    int    `json:"rows"` // with a vector, not deleted
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
		vectors := *q
		vectors.text = nil
		return vectors.plan() + " and text index, fused by " + q.Fusion.Method.String()
	}
	for _, c := range q.codes {
		if c != nil {
			return "exact scan of codes"
		}
	}
	return "exact scan"
}

// partPlans explains the plan part by part.
func (s *search) partPlans(q *probe) []PartPlan {
	plans := []PartPlan{}
	for i, p := range s.view.parts {
		if !q.vector && p.live() > 0 {
			plan := PartPlan{Name: "memory", Rows: p.live(), Matched: p.live(), Plan: "text index", Reason: "the query has no vector"}
			if p.segment != nil {
				plan.Name = p.segment.Name()
			}
			if q.sets[i] != nil {
				plan.Matched = q.sets[i].Count()
			}
			plans = append(plans, plan)
			continue
		}
		if p.dim == 0 || p.live() == 0 {
			continue
		}
		plan := PartPlan{Name: "memory", Rows: p.live(), Matched: p.live()}
		if p.segment != nil {
			plan.Name = p.segment.Name()
		}
		if q.sets[i] != nil {
			plan.Matched = q.sets[i].Count()
		}
		share := float64(plan.Matched) / float64(p.n)
		switch coded := p.segment != nil && p.segment.codes != nil; {
		case plan.Matched == 0:
			plan.Plan, plan.Reason = "nothing", "no row matches"
		case share < s.sparse(i):
			plan.Plan = "row by row"
			plan.Reason = fmt.Sprintf("only %.3g %% of the rows match", 100*share)
		case q.codes[i] != nil:
			plan.Plan, plan.Reason = "scan of codes", "codes rule out most rows, from a quarter of the bytes"
		case p.segment == nil:
			plan.Plan, plan.Reason = "scan of vectors", "rows in memory have no codes"
		case coded:
			plan.Plan, plan.Reason = "scan of vectors", "the codes are not built yet"
		default:
			plan.Plan, plan.Reason = "scan of vectors", "the segment is too small for codes to pay"
		}
		plans = append(plans, plan)
	}
	return plans
}
