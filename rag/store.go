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

// schemaOf returns the schema of a store that reports one: a *db.Collection, or a store with a
// method Schema, such as a store.Searcher.
func schemaOf(s Store) (db.Schema, error) {
	switch s := s.(type) {
	case interface {
		Info() (db.CollectionInfo, error)
	}:
		info, err := s.Info()
		return info.Schema, err
	case interface{ Schema() db.Schema }:
		return s.Schema(), nil
	}
	return db.Schema{}, nil
}

// A versioned store has a number that changes whenever an answer may change, as *db.Collection has.
// Caches over other stores need a time to live.
type versioned interface{ Version() (uint64, error) }

var (
	_ Store     = (*db.Collection)(nil)
	_ versioned = (*db.Collection)(nil)
)
