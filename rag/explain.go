package rag

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

// A Stage is a step on the way to an answer: see Pipeline.Explain.
type Stage struct {
	Name string        `json:"name"` // embed, search, rerank, expand or context; packages above have others
	Time time.Duration `json:"ns"`
	// About is a sentence about the work of the stage.
	About string `json:"about"`
	// Chunks are the chunks after the stage, in its order, with ID, Score and Why alone.
	Chunks []Chunk `json:"chunks,omitempty"`
	// Dropped are the chunks that the stage left out.
	Dropped []Chunk `json:"dropped,omitempty"`
}

// Explain is Query, and describes each stage and its reasons in Response.Stages. It neither reads
// nor fills the cache of answers.
func (p *Pipeline) Explain(ctx context.Context, question string, where filter.Expr) (*Response, error) {
	explaining := *p
	explaining.cache, explaining.explain = nil, true
	return explaining.Query(ctx, question, where)
}

// A trace records the stages of an explanation. A nil trace records nothing.
type trace struct {
	stages []Stage
	found  string // the text or texts that the strategy searched for, if not the question
}

func (t *trace) stage(name string, took time.Duration, chunks, dropped []Chunk, about string, args ...any) {
	t.stages = append(t.stages, Stage{name, took, fmt.Sprintf(about, args...), slices.Clone(chunks), dropped})
}

// note records the texts that a strategy searches for.
func (t *trace) note(format string, args ...any) {
	if t != nil {
		t.found = fmt.Sprintf(format, args...)
	}
}

// reason returns a chunk without its text.
func reason(c Chunk, format string, args ...any) Chunk {
	return Chunk{ID: c.ID, Score: c.Score, Why: fmt.Sprintf(format, args...)}
}

// search describes the search of a strategy.
func (t *trace) search(p *Pipeline, res *db.Result, took time.Duration) {
	if t == nil {
		return
	}
	var all []Chunk
	for i, h := range res.Hits {
		why := fmt.Sprintf("rank %d", i+1)
		if len(h.Legs) > 0 {
			var legs []string
			for _, l := range h.Legs {
				legs = append(legs, leg(l))
			}
			why = strings.Join(legs, ", ")
		}
		all = append(all, reason(Chunk{ID: h.ID, Score: h.Score}, "%s", why))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "strategy %s: %d of %d chunks", p.opts.Strategy.name, len(res.Hits), res.Matched)
	if p.opts.Threshold != nil {
		fmt.Fprintf(&b, " with a score of at least %g", *p.opts.Threshold)
	}
	if res.Exact {
		b.WriteString(", exact")
	} else {
		fmt.Fprintf(&b, ", recall %.3g", res.Recall)
	}
	fmt.Fprintf(&b, " (%s)", res.Plan)
	if t.found != "" {
		b.WriteString("; " + t.found)
	}
	t.stage("search", took, all, nil, "%s", b.String())
}

func leg(l db.Leg) string {
	name := l.Name
	if name != "vector" && name != "text" {
		name = "question " + name
	}
	switch {
	case l.Rank > 0 && l.Score != nil:
		return fmt.Sprintf("%s: rank %d, score %.4g", name, l.Rank, *l.Score)
	case l.Rank > 0:
		return fmt.Sprintf("%s: rank %d", name, l.Rank)
	case l.Score != nil:
		return fmt.Sprintf("%s: not ranked, score %.4g", name, *l.Score)
	}
	return name + ": none"
}

// rerank compares the order of a reranker with the order before it.
func (t *trace) rerank(before, after []Chunk, most int, took time.Duration) {
	if t == nil {
		return
	}
	rank := map[string]int{}
	for i, c := range before {
		rank[c.ID] = i + 1
	}
	var kept, dropped []Chunk
	for i, c := range after {
		if i < most {
			kept = append(kept, reason(c, "rank %d of the search", rank[c.ID]))
		} else {
			dropped = append(dropped, reason(c, "rank %d of the search, %d of the reranker: top_k is %d",
				rank[c.ID], i+1, most))
		}
		delete(rank, c.ID)
	}
	for i, c := range before {
		if rank[c.ID] > 0 {
			dropped = append(dropped, reason(c, "rank %d of the search: the reranker left it out", i+1))
		}
	}
	t.stage("rerank", took, kept, dropped, "%d of %d chunks, in a new order", len(kept), len(before))
}

// expand lists the chunks that belong to chunks found.
func (t *trace) expand(before, after []Chunk, field string, took time.Duration) {
	if t == nil {
		return
	}
	have := map[string]bool{}
	for _, c := range before {
		have[c.ID] = true
	}
	var all []Chunk
	for _, c := range after {
		if have[c.ID] {
			all = append(all, reason(c, "found"))
		} else {
			all = append(all, reason(c, "the same %s: %.80v", field, c.Metadata[field]))
		}
	}
	t.stage("expand", took, all, nil, "%d chunks added with the same %s as a chunk found",
		len(after)-len(before), field)
}
