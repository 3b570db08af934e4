package rag

import (
	"context"
	"fmt"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/rag/embed"
)

// HasQuery is a state that holds what is asked.
type HasQuery interface{ Query() string }

// HasRetrievedDocs is a state that takes what was retrieved, in place of what
// it had.
type HasRetrievedDocs interface{ SetRetrievedDocs(docs []db.Document) }

// HasMetadataFilter is a state that may restrict what is retrieved; nil does
// not.
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

// A RetrieverNode is a step of a graph: it embeds the query of the state,
// searches, and puts the documents into the state, best first, without their
// vectors. Its method Run is a plain function from state to state, which is
// what graph libraries take.
type RetrieverNode[S interface {
	HasQuery
	HasRetrievedDocs
}] struct {
	Name      string // in errors; empty means "retriever"
	Embedder  embed.Embedder
	Store     Store
	TopK      int      // 0 means DefaultTopK
	Threshold *float64 // least score, inclusive; nil is no bound
}

// Run retrieves for a state and returns it. The error is a *NodeError; the
// state is then as before.
func (n *RetrieverNode[S]) Run(ctx context.Context, state S) (S, error) {
	fail := func(err error) (S, error) {
		name := n.Name
		if name == "" {
			name = "retriever"
		}
		return state, &NodeError{Node: name, Err: err}
	}
	vec, err := n.Embedder.Embed(ctx, state.Query())
	if err != nil {
		return fail(fmt.Errorf("%w: embed the query: %w", ErrQuery, err))
	}
	q := db.Query{Vector: vec, K: n.TopK, Threshold: n.Threshold}
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
