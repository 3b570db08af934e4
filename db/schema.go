package db

import (
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// A Metric says how two vectors are compared. A higher score is better with every metric. Its text,
// in JSON as well, is "cosine", "dot" or "l2".
type Metric = fileformat.Metric

// The metrics. The numbers are stored on disk.
const (
	// Cosine is the cosine of the angle, in [-1, 1]. It is 0 if either vector is zero.
	Cosine = fileformat.Cosine
	// Dot is the inner product.
	Dot = fileformat.Dot
	// L2 is the squared Euclidean distance, negated: scores are at most 0, which equal vectors
	// have, and a Threshold is negative.
	L2 = fileformat.L2
)

// ParseMetric reads "cosine", "dot" or "l2", in upper or lower case. Any other name is ErrInvalid.
func ParseMetric(s string) (Metric, error) {
	m, err := fileformat.ParseMetric(s)
	if err != nil {
		return 0, invalidf("%v", err)
	}
	return m, nil
}

// An Index says which files are kept to search the vectors of a collection. It decides about speed
// and space: promises of recall and exact answers hold with each. Its text, in JSON as well, is
// "fast", "small" or "none".
type Index = engine.Index

// The indexes.
const (
	// IndexFast, the default, keeps a graph per large segment, in the layout that is searched
	// fastest. From 512 dimensions on, and from 192 in large segments, it takes more space than the
	// vectors.
	IndexFast = engine.IndexFast
	// IndexSmall keeps graphs without codes of the neighbours, and codes without their
	// upper halves.
	IndexSmall = engine.IndexSmall
	// IndexNone keeps no graphs: every search scans.
	IndexNone = engine.IndexNone
)

// ParseIndex reads "fast", "small" or "none", in upper or lower case. Any other name is ErrInvalid.
func ParseIndex(s string) (Index, error) { return engine.ParseIndex(s) }

// A Lineage records where the vectors of a collection come from, so that
// vectors of another model never get mixed in. Every field may be empty:
// unknown.
type Lineage struct {
	Provider   string `json:"provider,omitempty"` // UTF-8 of at most 4,096 bytes, like Model and Chunker
	Model      string `json:"model,omitempty"`
	Normalized bool   `json:"normalized,omitempty"` // the model returns unit vectors
	Chunker    string `json:"chunker,omitempty"`    // how texts were split
}

// A Schema is the definition of a collection. Dim, if it is set, and Metric
// never change; SetText and SetIndex change the indexes.
type Schema struct {
	// Dim is the number of components of every vector, at most MaxDim. Zero
	// leaves it open: the first vector written sets it.
	Dim     int     `json:"dim"`
	Metric  Metric  `json:"metric"`
	Lineage Lineage `json:"lineage,omitzero"`
	// Text says how documents are indexed for full-text search; nil means no
	// index.
	Text *TextIndex `json:"text,omitempty"`
	// Index says which files are kept to search vectors; the zero value is
	// IndexFast.
	Index Index `json:"index,omitzero"`
}

// MaxCollectionNameLen is the limit of a collection name in bytes.
const MaxCollectionNameLen = engine.MaxNameLen // 255

// engine returns the schema as the engine keeps it.
func (s Schema) engine() engine.Schema {
	return engine.Schema{
		Dim: s.Dim, Metric: s.Metric, Lineage: engine.Lineage(s.Lineage), Text: s.Text.engine(),
		Index: s.Index,
	}
}

// schemaOf is the inverse. The result shares no memory with the engine.
func schemaOf(s engine.Schema) Schema {
	return Schema{Dim: s.Dim, Metric: s.Metric, Lineage: Lineage(s.Lineage), Text: (*TextIndex)(s.Text.Clone()),
		Index: s.Index}
}

// ValidateName returns ErrInvalid unless name can be the name of a collection:
// 1 to MaxCollectionNameLen bytes of UTF-8 without control characters, but not
// ".", ".." or "/", which no URL can contain.
func ValidateName(name string) error { return engine.ValidateName(name) }
