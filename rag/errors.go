package rag

import "errors"

// ErrRetrieval is matched by every error of this package.
var ErrRetrieval = errors.New("retrieval failed")

// The kinds of errors. Each matches ErrRetrieval too; what caused an error is
// wrapped by it.
var (
	// ErrLoad is returned when the index cannot be built or opened.
	ErrLoad error = kind("load index")

	// ErrQuery is returned when a query cannot be answered: its vector has
	// the wrong dimension or holds NaN, the context ended, the disk failed.
	ErrQuery error = kind("query")

	// ErrConfig is returned for an AgentConfig or Options with a value out of
	// its range. Nothing was searched or loaded.
	ErrConfig error = kind("invalid configuration")
)

type kind string

func (k kind) Error() string { return "rag: " + string(k) }

// Is reports whether target is ErrRetrieval.
func (k kind) Is(target error) bool { return target == ErrRetrieval }
