package rag

import (
	"context"
	"fmt"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/rag/embed"
)

// HasQuery is a state with a question.
type HasQuery interface{ Query() string }

// HasRetrievedDocs is a state that stores retrieved documents. SetRetrievedDocs replaces earlier
// ones.
type HasRetrievedDocs interface{ SetRetrievedDocs(docs []db.Document) }

// HasMetadataFilter is a state with a filter for the search; nil means no filter.
type HasMetadataFilter interface{ MetadataFilter() filter.Expr }

// A NodeError is the failure of a node, which ends the run of its graph.
type NodeError struct {
	Node string
	Err  error
}

// Error names the node.
func (e *NodeError) Error() string { return fmt.Sprintf("node %q failed: %v", e.Node, e.Err) }

// Unwrap returns the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// A RetrieverNode is a step of a graph. It embeds the query of the state, searches, and stores the
// documents in the state, best first, without their vectors. Its method Run is a plain function
// from state to state, as graph libraries expect.
type RetrieverNode[S interface {
	HasQuery
	HasRetrievedDocs
}] struct {
	Name      string // in errors; empty means "retriever"
	Embedder  embed.Embedder
	Store     Store
	TopK      int      // 0 means DefaultTopK
	Threshold *float64 // minimum score, inclusive; nil: none
}

// Run retrieves for a state and returns the state. The error is a *NodeError and leaves the state
// unchanged.
func (n *RetrieverNode[S]) Run(ctx context.Context, state S) (S, error) {
	fail := func(err error) (S, error) {
		name := n.Name
		if name == "" {
			name = "retriever"
		}
		return state, &NodeError{Node: name, Err: err}
	}
	if n.Embedder == nil || n.Store == nil {
		return fail(fmt.Errorf("%w: it needs an embedder and a store", ErrConfig))
	}
	vec, err := embed.Queries(n.Embedder).Embed(ctx, state.Query())
	if err != nil {
		return fail(fmt.Errorf("%w: embed the query: %w", ErrQuery, err))
	}
	q := db.Query{Near: db.Vector(vec), K: n.TopK, Threshold: n.Threshold}
	if q.K == 0 {
		q.K = DefaultTopK
	}
	if s, ok := any(state).(HasMetadataFilter); ok {
		q.Where = s.MetadataFilter()
	}
	res, err := n.Store.Search(ctx, q)
	if err != nil {
		return fail(fmt.Errorf("%w: %w", ErrQuery, err))
	}
	docs := make([]db.Document, len(res.Hits))
	for i, h := range res.Hits {
		docs[i] = h.Document
		docs[i].Vector = nil
	}
	state.SetRetrievedDocs(docs)
	return state, nil
}
