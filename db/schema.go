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
	// L2 is the squared Euclidean distance, negated.
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

// A Lineage records where the vectors of a collection come from, so that
// vectors of another model never get mixed in. Every field may be empty:
// unknown.
type Lineage struct {
	Provider   string `json:"provider,omitempty"`
	Model      string `json:"model,omitempty"`
	Normalized bool   `json:"normalized,omitempty"` // the model returns unit vectors
	Chunker    string `json:"chunker,omitempty"`    // how texts were split
}

// A Schema is the definition of a collection. Dim, if it is set, and Metric
// never change.
type Schema struct {
	// Dim is the number of components of every vector, at most MaxDim. Zero
	// leaves it open: the first vector written sets it.
	Dim     int     `json:"dim"`
	Metric  Metric  `json:"metric"`
	Lineage Lineage `json:"lineage,omitzero"`
	// Text says how documents are indexed for full-text search; nil means no
	// index.
	Text *TextIndex `json:"text,omitempty"`
}

// MaxCollectionNameLen is the limit of a collection name in bytes.
const MaxCollectionNameLen = engine.MaxNameLen // 255

// engine returns the schema as the engine keeps it.
func (s Schema) engine() engine.Schema {
	return engine.Schema{
		Dim: s.Dim, Metric: s.Metric, Lineage: engine.Lineage(s.Lineage), Text: s.Text.engine(),
	}
}

// schemaOf is the inverse.
func schemaOf(s engine.Schema) Schema {
	return Schema{Dim: s.Dim, Metric: s.Metric, Lineage: Lineage(s.Lineage), Text: (*TextIndex)(s.Text)}
}

// ValidateName returns ErrInvalid unless name can be the name of a collection:
// 1 to MaxCollectionNameLen bytes of UTF-8 without control characters.
func ValidateName(name string) error { return engine.ValidateName(name) }
