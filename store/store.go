package store

import (
	"context"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

// Limits of one call. Larger values are refused with db.ErrInvalid.
const (
	MaxK     = 10_000 // hits of a query
	MaxLimit = 10_000 // documents of a page
)

// A Store is a set of collections. It is safe for concurrent use.
type Store interface {
	// Create makes an empty collection. It fails with db.ErrExists if the name is taken.
	// db.ValidateName defines valid names.
	Create(ctx context.Context, name string, s Schema) (Collection, error)
	// Collection returns a collection, or db.ErrNotFound.
	Collection(ctx context.Context, name string) (Collection, error)
	// Collections returns the names of all collections, in ascending order. Unrelated data in the
	// same server is not listed.
	Collections(ctx context.Context) ([]string, error)
	// Describe returns a description of a collection; db.ErrNotFound if it does not exist.
	Describe(ctx context.Context, name string) (Info, error)
	// Drop removes a collection with all its documents; db.ErrNotFound if it does not exist.
	Drop(ctx context.Context, name string) error
	// Close releases the resources of the Store; the data stays. Closing twice is allowed.
	Close() error
}

// A Collection is a set of documents whose vectors are compared by their cosine. It is safe for
// concurrent use. A nil condition holds for every document. A condition with $text is refused with
// db.ErrInvalid, because its meaning differs between stores.
type Collection interface {
	// Name and Schema are the arguments of Create.
	Name() string
	Schema() Schema

	// Upsert writes whole documents, replacing documents with the same ids: nothing of an older
	// text, vector or metadata stays. If an id occurs twice, the last document wins. A vector may
	// be missing: Query does not find the document then. Each document is written atomically, but
	// not the batch: after an error that is not about the arguments, the call can be repeated as it
	// is.
	Upsert(ctx context.Context, docs []db.Document) error
	// Get returns the whole documents with these ids, in this order; nil for ids that do not exist.
	Get(ctx context.Context, ids []string) ([]*db.Document, error)
	// Delete removes documents and returns the number of documents that existed. Missing ids are
	// not an error.
	Delete(ctx context.Context, ids []string) (int, error)
	// DeleteWhere removes all documents that match, whatever their number, and returns it. nil is
	// db.ErrInvalid: to remove everything, pass filter.And().
	DeleteWhere(ctx context.Context, where filter.Expr) (int, error)

	// Query returns the k documents nearest to vector among the documents that match: fewer only if
	// fewer match. Hits include text and metadata. The store may search approximately; the recall
	// is up to the store.
	Query(ctx context.Context, vector []float32, k int, where filter.Expr) ([]db.Hit, error)
	// TextQuery returns the k documents that answer the words best, among the documents that match
	// and contain at least one of the words. Scores are above 0 and comparable within one answer
	// only: stores differ in stemming and weighting. Without a text index in the Schema it is
	// db.ErrInvalid. A text without words has no hits.
	TextQuery(ctx context.Context, text string, k int, where filter.Expr) ([]db.Hit, error)
	// Scan returns a page of at most limit whole documents that match, in the store's own order.
	// after is empty for the first page, then the Next of the page before. A page may have fewer
	// documents than limit, or none, and still have a Next. A document that is neither written nor
	// deleted during the scan is on exactly one page.
	Scan(ctx context.Context, after string, limit int, where filter.Expr) (Page, error)
	// Count returns the number of documents that match.
	Count(ctx context.Context, where filter.Expr) (int, error)
}

// A Schema is fixed when a collection is created. The metric is the cosine.
type Schema struct {
	// Dim is the number of components of every vector, at most db.MaxDim; a store may allow less. 0
	// means a collection of texts: documents with a vector and Query are refused with
	// db.ErrInvalid.
	Dim     int        `json:"dim"`
	Lineage db.Lineage `json:"lineage,omitzero"`
	// Text enables TextQuery. Language, Fields and parameters are stored, and followed as far as
	// the store can; nil: texts are not indexed.
	Text *db.TextIndex `json:"text,omitempty"`
	// Index says which files an embedded database keeps to search vectors. Other stores keep the
	// choice for a migration back, and search by indexes of their own.
	Index db.Index `json:"index,omitzero"`
	// Metadata describes the collection itself.
	Metadata db.Metadata `json:"metadata,omitempty"`
}

// An Info describes a collection at one moment.
type Info struct {
	Name      string `json:"name"`
	Schema    Schema `json:"schema"`
	Documents int    `json:"documents"`
}

// A Page is a part of the documents of a collection.
type Page struct {
	Documents []*db.Document
	Next      string // value of after for the next page; empty on the last page
}
