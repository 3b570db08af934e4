package rag

import (
	"context"

	"github.com/vecbolt/vecbolt/db"
)

// A Store is the source of a Pipeline's chunks, such as a *db.Collection.
type Store interface {
	// Search answers a query by vector, by text, or by both.
	Search(ctx context.Context, q db.Query) (*db.Result, error)
	// SearchFused answers several queries and fuses their hits by rank.
	SearchFused(ctx context.Context, queries []db.Query, weights ...float64) (*db.Result, error)
	// List returns documents that match a filter, in order of id.
	List(ctx context.Context, q db.ListQuery) (*db.Page, error)
}

// A versioned store has a number that changes whenever an answer may change, as *db.Collection has.
// Caches over other stores need a time to live.
type versioned interface{ Version() uint64 }

var (
	_ Store     = (*db.Collection)(nil)
	_ versioned = (*db.Collection)(nil)
)
