package db

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
		return q.Ledger.Plan() + " and text index, fused by " + q.Fusion.Method.String()
	}
	return q.Ledger.Plan()
}

// partPlans explains the plan part by part.
func (s *search) partPlans(q *probe) []PartPlan {
	plans := []PartPlan{}
	for i, p := range s.view.Parts {
		if p.Live() == 0 || p.Dim == 0 && q.text == nil {
			continue
		}
		plan := PartPlan{Name: "memory", Rows: p.Live(), Matched: q.MatchedIn(s.view, i)}
		if p.Segment != nil {
			plan.Name = p.Segment.Name()
		}
		switch {
		case !q.vector:
			plan.Plan, plan.Reason = "text index", "the query has no vector"
		case p.Dim == 0:
			plan.Plan, plan.Reason = "text index", "no row has a vector"
		default:
			plan.Plan, plan.Reason = s.near.Explain(&q.Probe, i)
		}
		plans = append(plans, plan)
	}
	return plans
}
