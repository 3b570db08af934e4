package rag

import (
	"context"
	"fmt"
	"reflect"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

// A Store keeps chunks: an Indexer adds them, a Pipeline searches them. A *db.Collection is one,
// and a store.Adapter makes one of a collection of any store. For a store of one's own these three
// methods suffice. What needs more says so, and takes it from the further methods of a
// *db.Collection, where the store has them: SearchFused for MultiQuery, List for Expand,
// DeleteWhere for documents that an Indexer splits, Version for a Cache without a time to live.
type Store interface {
	// Upsert writes documents, replacing those with the same ids, and returns the ids.
	Upsert(ctx context.Context, docs ...db.Document) ([]string, error)
	// Search answers a query by vector, by text, or by both.
	Search(ctx context.Context, q db.Query) (*db.Result, error)
	// Delete removes documents, and returns how many existed.
	Delete(ctx context.Context, ids ...string) (int, error)
}

// What only some stores can do, with the methods of a *db.Collection.
type (
	fuser interface {
		SearchFused(ctx context.Context, queries []db.Query, weights ...float64) (*db.Result, error)
	}
	lister interface {
		List(ctx context.Context, q db.ListQuery) (*db.Page, error)
	}
	conditionalDeleter interface {
		DeleteWhere(ctx context.Context, where filter.Expr) (int, error)
	}
)

// as returns the store as a T, or an error that names what needs its method.
func as[T any](s Store, what, method string) (T, error) {
	t, ok := s.(T)
	if !ok {
		return t, fmt.Errorf("%w: %s needs a store with the method %s, which %T lacks", ErrConfig, what, method, s)
	}
	return t, nil
}

// has returns a function that says whether a store is a T.
func has[T any](what, method string) func(Store) error {
	return func(s Store) error {
		_, err := as[T](s, what, method)
		return err
	}
}

// schemaOf returns the schema of a store that reports one: a *db.Collection, or a store with a
// method Schema, such as a store.Adapter.
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

// An identified store says which chunks it has, beyond the life of its value: of a database that is
// opened again and again, all collections of one identity are the same store.
type identified interface{ Identity() string }

// sameStore reports whether two stores certainly have the same chunks.
func sameStore(a, b Store) bool {
	if x, ok := a.(identified); ok {
		y, ok := b.(identified)
		return ok && x.Identity() == y.Identity()
	}
	x, okX := a.(*db.Collection)
	y, okY := b.(*db.Collection)
	if okX && okY && x != nil && y != nil {
		return *x == *y // each call of DB.Collection returns a pointer of its own
	}
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.ValueOf(a).Comparable() && a == b
}

var (
	_ Store              = (*db.Collection)(nil)
	_ fuser              = (*db.Collection)(nil)
	_ lister             = (*db.Collection)(nil)
	_ conditionalDeleter = (*db.Collection)(nil)
	_ versioned          = (*db.Collection)(nil)
)
