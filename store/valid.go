package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/docjson"
	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/simd"
)

// The functions below are for implementations of Store: they make every store refuse the same
// arguments with the same errors.

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", db.ErrInvalid, fmt.Sprintf(format, args...))
}

// Instead adds the names that exist to the error for a collection that does not. Another error, and
// one for which they cannot be listed, stays as it is.
func Instead(ctx context.Context, s Store, name string, err error) error {
	if !errors.Is(err, db.ErrNotFound) {
		return err
	}
	names, failed := s.Collections(ctx)
	if failed != nil {
		return err
	}
	return fmt.Errorf("%w%s", err, errtext.Instead(name, names))
}

// CheckCreate returns the arguments of Create in their stored form, or an error.
func CheckCreate(name string, s Schema) (Schema, error) {
	if err := db.ValidateName(name); err != nil {
		return s, err
	}
	if s.Dim < 0 || s.Dim > db.MaxDim {
		return s, invalidf("collection %q: dimension %d is outside 0..%d", name, s.Dim, db.MaxDim)
	}
	var err error
	if s.Metadata, err = s.Metadata.Canonical(); err != nil {
		return s, fmt.Errorf("collection %q: %w", name, err)
	}
	return s, nil
}

// CheckDocuments returns the documents that Upsert has to write: canonical copies of docs, which
// share their vectors, in order, without documents that a later one with the same id replaces. It
// returns an error if one is invalid.
func CheckDocuments(collection string, s Schema, docs []db.Document) ([]db.Document, error) {
	last := make(map[string]int, len(docs))
	for i, d := range docs {
		last[d.ID] = i
	}
	out := make([]db.Document, 0, len(last))
	for i := range docs {
		d, err := docs[i].Canonical()
		if err != nil {
			return nil, err
		}
		if len(d.Vector) != 0 && s.Dim == 0 {
			return nil, invalidf("document %q has a vector, and collection %q is one of texts: its dimension is 0",
				d.ID, collection)
		}
		if len(d.Vector) != 0 && len(d.Vector) != s.Dim {
			return nil, &db.DimensionError{Collection: collection, ID: d.ID, Expected: s.Dim, Got: len(d.Vector)}
		}
		if last[d.ID] == i {
			out = append(out, d)
		}
	}
	return out, nil
}

// CheckWhere returns an error for a condition that a Collection refuses.
func CheckWhere(where filter.Expr) error {
	if err := filter.Validate(where); err != nil {
		return fmt.Errorf("%w: %w", db.ErrInvalid, err)
	}
	if len(filter.Texts(where)) > 0 {
		return invalidf("$text cannot be a condition here: a query by text is another call")
	}
	return nil
}

// CheckDelete returns an error for a condition that DeleteWhere refuses.
func CheckDelete(where filter.Expr) error {
	if where == nil {
		return invalidf("no condition: {} is the one that deletes everything")
	}
	return CheckWhere(where)
}

// CheckQuery returns an error for invalid arguments of Query.
func CheckQuery(collection string, s Schema, vector []float32, k int, where filter.Expr) error {
	if s.Dim == 0 {
		return invalidf("collection %q has no vectors: its dimension is 0", collection)
	}
	if len(vector) != s.Dim {
		return &db.DimensionError{Collection: collection, Expected: s.Dim, Got: len(vector)}
	}
	if !simd.Finite(vector) {
		return invalidf("collection %q: the vector of the query is not finite", collection)
	}
	return checkK(k, where)
}

// CheckTextQuery returns an error for invalid arguments of TextQuery.
func CheckTextQuery(collection string, s Schema, k int, where filter.Expr) error {
	if s.Text == nil {
		return invalidf("collection %q has no text index", collection)
	}
	return checkK(k, where)
}

func checkK(k int, where filter.Expr) error {
	if k < 1 || k > MaxK {
		return invalidf("k is %d, outside 1..%d", k, MaxK)
	}
	return CheckWhere(where)
}

// CheckScan returns an error for invalid arguments of Scan.
func CheckScan(limit int, where filter.Expr) error {
	if limit < 1 || limit > MaxLimit {
		return invalidf("limit is %d, outside 1..%d", limit, MaxLimit)
	}
	return CheckWhere(where)
}

// SortHits sorts hits by descending score, then by id.
func SortHits(hits []db.Hit) {
	slices.SortFunc(hits, func(a, b db.Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.ID, b.ID))
	})
}

// Matches reports whether a document meets a condition that CheckWhere accepts.
func Matches(where filter.Expr, d *db.Document) bool {
	return filter.Match(where, func(path string) (any, bool) { return filter.Lookup(d.Metadata, path) })
}

// EncodeMetadata returns canonical metadata as JSON that DecodeMetadata reads without loss.
// Integers are written without fraction and exponent, other numbers with one. Keys are sorted:
// equal metadata has equal bytes.
func EncodeMetadata(m db.Metadata) ([]byte, error) {
	return docjson.AppendValue(nil, map[string]any(m))
}

// DecodeMetadata reads the output of EncodeMetadata. Its input may be any bytes; its errors match
// db.ErrInvalid.
func DecodeMetadata(b []byte) (db.Metadata, error) {
	var m db.Metadata
	// Wrap the value in an object, because the reader reads objects.
	err := docjson.ReadObject(slices.Concat([]byte(`{"m":`), b, []byte(`}`)),
		func(key string, r *docjson.Reader) (err error) {
			if key != "m" {
				return fmt.Errorf("key %.40q", key)
			}
			m, err = r.Metadata()
			return err
		})
	if err != nil {
		return nil, invalidf("metadata: %s", err)
	}
	if len(m) == 0 {
		return nil, nil
	}
	return m, nil
}

// EncodeSchema returns a Schema as JSON that DecodeSchema reads without loss.
func EncodeSchema(s Schema) ([]byte, error) {
	meta, err := EncodeMetadata(s.Metadata)
	if err != nil {
		return nil, err
	}
	s.Metadata = nil
	b, err := json.Marshal(s)
	if err != nil || len(meta) <= len(`{}`) {
		return b, err
	}
	return slices.Concat(bytes.TrimSuffix(b, []byte("}")), []byte(`,"metadata":`), meta, []byte("}")), nil
}

// DecodeSchema reads the output of EncodeSchema.
func DecodeSchema(b []byte) (Schema, error) {
	var s struct {
		Schema
		Metadata json.RawMessage `json:"metadata"` // shadows Metadata of Schema
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return Schema{}, invalidf("schema: %s", err)
	}
	if len(s.Metadata) == 0 {
		return s.Schema, nil
	}
	var err error
	s.Schema.Metadata, err = DecodeMetadata(s.Metadata)
	return s.Schema, err
}
