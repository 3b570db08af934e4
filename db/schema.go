package db

import (
	"strings"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// A Metric says how two vectors are compared. A higher score is better with
// every metric.
type Metric uint8

// The metrics. The numbers are stored on disk.
const (
	// Cosine is the cosine of the angle, in [-1, 1]. It is 0 if either vector
	// is zero.
	Cosine Metric = 0
	// Dot is the inner product.
	Dot Metric = 1
	// L2 is the squared Euclidean distance, negated.
	L2 Metric = 2
)

// String returns the name that ParseMetric reads.
func (m Metric) String() string {
	return fileformat.Metric(m).String()
}

// ParseMetric reads "cosine", "dot" or "l2".
func ParseMetric(s string) (Metric, error) {
	for _, m := range []Metric{Cosine, Dot, L2} {
		if strings.EqualFold(s, m.String()) {
			return m, nil
		}
	}
	return 0, invalidf("metric %q: want cosine, dot or l2", s)
}

// MarshalText implements encoding.TextMarshaler.
func (m Metric) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Metric) UnmarshalText(b []byte) (err error) {
	*m, err = ParseMetric(string(b))
	return err
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
		Dim: s.Dim, Metric: fileformat.Metric(s.Metric), Lineage: engine.Lineage(s.Lineage), Text: s.Text.engine(),
	}
}

// schemaOf is the inverse.
func schemaOf(s engine.Schema) Schema {
	return Schema{Dim: s.Dim, Metric: Metric(s.Metric), Lineage: Lineage(s.Lineage), Text: (*TextIndex)(s.Text)}
}

// ValidateName returns ErrInvalid unless name can be the name of a collection:
// 1 to MaxCollectionNameLen bytes of UTF-8 without control characters.
func ValidateName(name string) error { return engine.ValidateName(name) }
