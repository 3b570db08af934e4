package store

import (
	"context"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

// Limits of one call. Beyond them, it is refused with db.ErrInvalid.
const (
	MaxK     = 10_000 // hits of a query
	MaxLimit = 10_000 // documents of a page
)

// A Store is a set of collections. It is safe for concurrent use.
type Store interface {
	// Create makes an empty collection; db.ErrExists if the name is taken. The
	// name is as db.ValidateName wants it.
	Create(ctx context.Context, name string, s Schema) (Collection, error)
	// Collection returns a collection; db.ErrNotFound if there is none.
	Collection(ctx context.Context, name string) (Collection, error)
	// Collections returns the names of all collections, in ascending order.
	// What others keep in the same server is not among them.
	Collections(ctx context.Context) ([]string, error)
	// Describe returns what a collection is; db.ErrNotFound if there is none.
	Describe(ctx context.Context, name string) (Info, error)
	// Drop removes a collection with all that it holds; db.ErrNotFound if there
	// is none.
	Drop(ctx context.Context, name string) error
	// Close gives back what the Store itself holds; the data stays. Closing
	// twice is fine.
	Close() error
}

// A Collection is a set of documents whose vectors are comparable by their
// cosine. It is safe for concurrent use. A nil condition holds for every
// document; one with $text in it is refused with db.ErrInvalid, because it
// means something else in every store.
type Collection interface {
	// Name and Schema are what Create was given.
	Name() string
	Schema() Schema

	// Upsert writes documents whole, replacing those of the same ids: nothing
	// of an older text, vector or metadata stays. Of documents with the same id
	// the last counts. A vector may be missing: Query does not find the
	// document then. Each document is written as a whole or not at all, but not
	// necessarily all of them: after an error that is not about the arguments,
	// the call can be repeated as it is.
	Upsert(ctx context.Context, docs []db.Document) error
	// Get returns the whole documents with these ids, in this order; nil for
	// those that do not exist.
	Get(ctx context.Context, ids []string) ([]*db.Document, error)
	// Delete removes documents and returns how many there were. What does not
	// exist is no error.
	Delete(ctx context.Context, ids []string) (int, error)
	// DeleteWhere removes the documents that match, all of them however many
	// there are, and returns their number. nil is db.ErrInvalid: to remove
	// everything, say filter.And().
	DeleteWhere(ctx context.Context, where filter.Expr) (int, error)

	// Query returns the k documents with the vectors nearest to vector, of those
	// that match: fewer only if fewer match. Hits carry text and metadata. The
	// store may search approximately; how well is its own business.
	Query(ctx context.Context, vector []float32, k int, where filter.Expr) ([]db.Hit, error)
	// TextQuery returns the k documents that answer some words best, of those
	// that match and have at least one of the words. Scores are above 0 and
	// comparable within one answer only: stores stem, weigh and count in their
	// own ways. The Schema must have a text index, else it is db.ErrInvalid.
	// A text without words has no hits.
	TextQuery(ctx context.Context, text string, k int, where filter.Expr) ([]db.Hit, error)
	// Scan returns a page of at most limit whole documents that match, in an
	// order that is the store's own: after is empty for the first page, and then
	// the Next of the page before. A page may have fewer documents than limit, or
	// none, and still have a Next. A document that is neither written nor deleted
	// meanwhile is on exactly one page.
	Scan(ctx context.Context, after string, limit int, where filter.Expr) (Page, error)
	// Count returns the number of documents that match.
	Count(ctx context.Context, where filter.Expr) (int, error)
}

// A Schema is what stays the same for the life of a collection. The metric is
// the cosine.
type Schema struct {
	// Dim is the number of components of every vector, from 1 to db.MaxDim. A
	// store may allow less.
	Dim     int        `json:"dim"`
	Lineage db.Lineage `json:"lineage,omitzero"`
	// Text says that TextQuery shall find documents by their texts. Language,
	// Fields and parameters are kept, and followed as far as the store can; nil:
	// texts are not indexed.
	Text *db.TextIndex `json:"text,omitempty"`
	// Metadata is about the collection itself.
	Metadata db.Metadata `json:"metadata,omitempty"`
}

// An Info describes a collection at one moment.
type Info struct {
	Name      string `json:"name"`
	Schema    Schema `json:"schema"`
	Documents int    `json:"documents"`
}

// A Page is some documents of a collection.
type Page struct {
	Documents []*db.Document
	Next      string // after of the next page; empty if there is none
}
