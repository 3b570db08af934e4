package rag

import "errors"

// ErrRetrieval is matched by every error of this package.
var ErrRetrieval = errors.New("retrieval failed")

// Kinds of errors. Each also matches ErrRetrieval and wraps its cause.
var (
	// ErrLoad is returned when the index cannot be built or opened.
	ErrLoad error = kind("load index")

	// ErrQuery is returned when a query fails: its vector has the wrong dimension or holds NaN, the
	// context ended, or the disk failed.
	ErrQuery error = kind("query")

	// ErrConfig is returned for an AgentConfig or Options with a value out of range. Nothing was
	// searched or loaded.
	ErrConfig error = kind("invalid configuration")
)

// ErrRerank is matched by an ErrQuery whose cause is the reranker: its model fails, or its server
// does not answer.
var ErrRerank = errors.New("rerank")

type kind string

func (k kind) Error() string { return "rag: " + string(k) }

// Is reports whether target is ErrRetrieval.
func (k kind) Is(target error) bool { return target == ErrRetrieval }
