package rag

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

// DefaultTopK is the number of chunks that a search returns if its TopK is 0.
const DefaultTopK = 5

// An AgentConfig describes the search of one agent. The zero value is valid.
type AgentConfig struct {
	// Name names the agent in errors and logs.
	Name string `json:"agent_name,omitempty"`

	// TopK is the maximum number of chunks; 0 means DefaultTopK.
	TopK int `json:"top_k,omitempty"`

	// Threshold is the minimum score, inclusive, from 0 to 1. Chunks with a negative cosine are
	// never returned.
	Threshold float64 `json:"similarity_threshold,omitempty"`

	// Tags, if not empty, restrict the search to chunks whose metadata list "tags" holds at least
	// one of them. The filter applies before the ranking: the search returns TopK chunks whenever
	// as many match.
	Tags []string `json:"filter_by_tags,omitempty"`

	// Select lists the parts of a chunk besides id and score; the zero value means text and
	// metadata.
	Select db.Select `json:"-"`
}

// Validate reports the first value out of range, as an error that matches ErrConfig. Retrieve and
// RetrieveBatch call it before they search.
func (c AgentConfig) Validate() error {
	_, err := c.query()
	return err
}

// query returns the database query for c, without its vector.
func (c AgentConfig) query() (q db.Query, err error) {
	q = db.Query{K: cmp.Or(c.TopK, DefaultTopK), Threshold: &c.Threshold, Where: c.where(), Select: c.Select}
	switch {
	case c.TopK < 0 || c.TopK > math.MaxInt32:
		err = fmt.Errorf("top_k %d is outside 0..%d", c.TopK, math.MaxInt32)
	case !(c.Threshold >= 0 && c.Threshold <= 1): // NaN included
		err = fmt.Errorf("similarity_threshold %v is outside 0..1", c.Threshold)
	case slices.Contains(c.Tags, ""):
		err = fmt.Errorf("filter_by_tags holds an empty tag")
	case c.Select > db.Everything|db.IDsOnly:
		err = fmt.Errorf("select %#x has unknown bits", uint8(c.Select))
	case q.Where != nil:
		if err = filter.Validate(q.Where); err != nil {
			err = fmt.Errorf("filter_by_tags: %w", err)
		}
	}
	if err != nil {
		return db.Query{}, fmt.Errorf("%w of agent %q: %w", ErrConfig, c.Name, err)
	}
	return q, nil
}

func (c AgentConfig) where() filter.Expr {
	if len(c.Tags) == 0 {
		return nil
	}
	args := make([]filter.Expr, len(c.Tags))
	for i, tag := range c.Tags {
		args[i] = filter.Contains(FieldTags, tag)
	}
	return filter.Or(args...)
}
