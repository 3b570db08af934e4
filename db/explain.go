package db

import (
	"context"
	"time"

	"github.com/vecbolt/vecbolt/internal/engine"
)

// An Explanation is a Result together with the steps that led to it.
type Explanation struct {
	Result *Result `json:"result"`
	// Plan has one element for each part that was searched: each part with vectors or, if
	// the query has a text, every part.
	Plan []PartPlan `json:"plan"`
	// Stages are the steps of the search, in order. Their times do not overlap.
	Stages []Stage `json:"stages"`
	// WhyNot has one element for each id of the call, in that order.
	WhyNot []WhyNot `json:"why_not,omitempty"`
}

// A PartPlan says how a query searches one part of a collection: a segment, or the rows in memory.
// If a longer search or a scan followed the search of a graph, Reason names each and the cause.
type PartPlan struct {
	Name    string `json:"name"` // of the file; "memory" for rows that are not flushed yet
	Rows    int    `json:"rows"` // live rows; only rows with a vector, unless the query has a text
	Matched int    `json:"matched"`
	Plan    string `json:"plan"`
	Reason  string `json:"reason"`
}

// A Stage is one step of a search.
type Stage struct {
	// Name is "filter", "graph", "scan", "score" (true scores of candidates), "text",
	// "fuse", "mmr", "group" or "fetch".
	Name string `json:"name"`
	// Rows is the number of rows that the stage considered, and Kept the number it left.
	Rows int `json:"rows"`
	Kept int `json:"kept"`
	// Bytes is the approximate size of the vectors and codes that were read.
	Bytes int64         `json:"bytes"`
	Time  time.Duration `json:"ns"`
}

// A WhyNot says where one document ranks in the answer, or why it is missing from it.
type WhyNot struct {
	ID string `json:"id"`
	// Hit is its position among the hits, from 1; 0 if it is not a hit.
	Hit int `json:"hit"`
	// Exists reports whether the document exists, and HasVector whether it has a vector.
	Exists    bool `json:"exists"`
	HasVector bool `json:"has_vector"`
	// Score is its true score.
	Score *float64 `json:"score,omitempty"`
	// Rank is its exact rank, from 1, among all documents that match Where. For a
	// document that does not match, it is the rank it would have. Offset, Threshold,
	// Group and MMR are not considered.
	Rank int `json:"rank,omitempty"`
	// Legs has its place in each ranking, if the query has a text. Score and Rank are
	// then those after fusion; both are missing if no list has the document.
	Legs []Leg `json:"legs,omitempty"`
	// Clause is the innermost part of Where that the document fails, as JSON, and Path is
	// the JSON pointer of that part; see filter.Why.
	Clause string `json:"clause,omitempty"`
	Path   string `json:"path,omitempty"`
	// Beyond is the number of ranks between it and the last rank that could have been a
	// hit.
	Beyond int `json:"beyond,omitempty"`
	// Stage is the stage that lost it: "missing", "vector", "text" (the text does not
	// match it, or excludes it), "depth" (no list is long enough to include it),
	// "example", "where", "field" (it has no group), "threshold", "k", "offset", "group",
	// "mmr" or "graph" (an approximate search did not find it, or not the best documents of
	// its group, although they rank high enough); empty for a hit.
	Stage string `json:"stage,omitempty"`
	// Reason says the same in words.
	Reason string `json:"reason"`
}

// Explain answers a query as Search does and reports how: the work of each stage, and
// where the documents whyNot rank, whether they are hits or not. The latter takes one
// exact scan of all vectors that match, and for an approximate answer with groups the
// exact answer as well.
func (c *Collection) Explain(ctx context.Context, q Query, whyNot ...string) (*Explanation, error) {
	ver, v, done, err := c.begin(ctx, "explain")
	if err != nil {
		return nil, err
	}
	defer done()
	e, err := c.db.explain(ctx, ver, v, q, whyNot)
	if err != nil {
		return nil, c.wrap("explain", err)
	}
	return e, nil
}

func (db *DB) explain(
	ctx context.Context, ver *engine.Version, v *engine.View, q Query, whyNot []string,
) (*Explanation, error) {
	resolved, err := q.resolve()
	if err != nil {
		return nil, err
	}
	found, err := db.searcher.Explain(ctx, ver, v, resolved, whyNot)
	if err != nil {
		return nil, err
	}
	r, err := db.result(ctx, ver, v, &q, found.Answer)
	if err != nil {
		return nil, err
	}
	e := &Explanation{
		Result: r, Stages: []Stage{},
		Plan: make([]PartPlan, len(found.Plan)), WhyNot: make([]WhyNot, len(found.WhyNot)),
	}
	for i, p := range found.Plan {
		e.Plan[i] = PartPlan(p)
	}
	for _, stage := range found.Trace.Stages {
		e.Stages = append(e.Stages, Stage(stage))
	}
	for i, w := range found.WhyNot {
		e.WhyNot[i] = WhyNot{
			ID: w.ID, Hit: w.Hit, Exists: w.Exists, HasVector: w.HasVector, Score: w.Score, Rank: w.Rank,
			Legs: legsOf(w.Legs), Clause: w.Clause, Path: w.Path, Beyond: w.Beyond, Stage: w.Stage, Reason: w.Reason,
		}
	}
	return e, nil
}
