package db

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/vecbolt/vecbolt/internal/document"
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
	switch m {
	case Cosine:
		return "cosine"
	case Dot:
		return "dot"
	case L2:
		return "l2"
	}
	return fmt.Sprintf("metric(%d)", uint8(m))
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

func (s Schema) validate(collection string) error {
	if s.Dim < 0 || s.Dim > MaxDim {
		return invalidf("collection %q: dimension %d is outside 0..%d", collection, s.Dim, MaxDim)
	}
	if s.Metric > L2 {
		return invalidf("collection %q: unknown metric %d", collection, s.Metric)
	}
	return nil
}

// accepts reports whether a collection with schema s can serve a caller who
// expects want. Empty fields of want are not compared.
func (s Schema) accepts(collection string, want Schema) error {
	if want.Dim != 0 && s.Dim != 0 && want.Dim != s.Dim {
		return &DimensionError{Collection: collection, Expected: s.Dim, Got: want.Dim}
	}
	if want.Metric != s.Metric {
		return fmt.Errorf("%w: collection %q has metric %v, opened with %v", ErrSchema, collection, s.Metric, want.Metric)
	}
	if want.Text != nil && s.Text != nil && !s.Text.equal(want.Text) {
		return textIndexError{fmt.Errorf("%w: collection %q has another text index", ErrSchema, collection)}
	}
	for _, f := range []struct{ name, have, want string }{
		{"provider", s.Lineage.Provider, want.Lineage.Provider},
		{"model", s.Lineage.Model, want.Lineage.Model},
		{"chunker", s.Lineage.Chunker, want.Lineage.Chunker},
	} {
		if f.want != "" && f.have != "" && f.want != f.have {
			return fmt.Errorf("%w: collection %q has %s %q, opened with %q", ErrSchema, collection, f.name, f.have, f.want)
		}
	}
	return nil
}

// MaxCollectionNameLen is the limit of a collection name in bytes.
const MaxCollectionNameLen = 255

// validateName is the only check of collection names. They never become file
// names, so every readable string will do.
func validateName(name string) error {
	switch {
	case name == "":
		return invalidf("collection name is empty")
	case len(name) > MaxCollectionNameLen:
		return invalidf("collection name %.40q… has %d bytes, the limit is %d", name, len(name), MaxCollectionNameLen)
	case !utf8.ValidString(name):
		return invalidf("collection name %q is not valid UTF-8", name)
	case strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return invalidf("collection name %q holds a control character", name)
	}
	return nil
}

// A definition is everything stored about a collection except its documents. It
// is immutable: a change makes a new one.
type definition struct {
	id       uint32
	name     string
	schema   Schema
	analysis *analysis // of schema.Text
	metadata Metadata
}

// storedDefinition is the msgpack form: a map with these keys. Readers skip
// keys they do not know.
type storedDefinition struct {
	Name       string             `msgpack:"name"`
	Dim        int                `msgpack:"dim"`
	Metric     uint8              `msgpack:"metric"`
	Provider   string             `msgpack:"provider,omitempty"`
	Model      string             `msgpack:"model,omitempty"`
	Normalized bool               `msgpack:"normalized,omitempty"`
	Chunker    string             `msgpack:"chunker,omitempty"`
	Metadata   msgpack.RawMessage `msgpack:"metadata"`
	Text       *storedText        `msgpack:"text,omitempty"`
}

// storedText is the msgpack form of a TextIndex.
type storedText struct {
	Language string   `msgpack:"language"`
	Fields   []string `msgpack:"fields,omitempty"`
	K1       *float64 `msgpack:"k1,omitempty"`
	B        *float64 `msgpack:"b,omitempty"`
}

func (d *definition) encode() ([]byte, error) {
	meta, err := document.EncodeMetadata(d.metadata)
	if err != nil {
		return nil, err
	}
	return msgpack.Marshal(&storedDefinition{
		Name: d.name, Dim: d.schema.Dim, Metric: uint8(d.schema.Metric),
		Provider: d.schema.Lineage.Provider, Model: d.schema.Lineage.Model,
		Normalized: d.schema.Lineage.Normalized, Chunker: d.schema.Lineage.Chunker,
		Metadata: meta, Text: (*storedText)(d.schema.Text),
	})
}

func decodeDefinition(id uint32, b []byte) (*definition, error) {
	var s storedDefinition
	if err := msgpack.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("decode collection %d: %w", id, err)
	}
	meta, err := document.DecodeMetadata(s.Metadata)
	if err != nil {
		return nil, fmt.Errorf("decode metadata of collection %d: %w", id, err)
	}
	d := &definition{
		id: id, name: s.Name,
		schema: Schema{Dim: s.Dim, Metric: Metric(s.Metric), Lineage: Lineage{
			Provider: s.Provider, Model: s.Model, Normalized: s.Normalized, Chunker: s.Chunker}, Text: (*TextIndex)(s.Text)},
		metadata: meta,
	}
	if d.analysis, err = newAnalysis(s.Name, d.schema.Text); err != nil {
		return nil, err
	}
	if err := d.schema.validate(d.name); err != nil {
		return nil, err
	}
	return d, nil
}
