package db

import (
	"fmt"

	"github.com/vecbolt/vecbolt/internal/document"
)

// Limits of one document. A document beyond them is refused with ErrInvalid.
const (
	MaxIDLen         = document.MaxIDLen         // 1 KiB of an id
	MaxTextLen       = document.MaxTextLen       // 16 MiB of a text
	MaxMetadataLen   = document.MaxMetadataLen   // 1 MiB of metadata, encoded as msgpack
	MaxMetadataDepth = document.MaxMetadataDepth // 16 nested maps and lists
	MaxKeyLen        = document.MaxKeyLen        // 256 bytes of one metadata key
	MaxDim           = document.MaxDim           // 65,536 components of a vector
)

// A Document is what a collection stores and returns.
type Document struct {
	// ID is 1 to MaxIDLen bytes of UTF-8 without control characters, unique in its
	// collection. A write with an empty ID generates a UUIDv7.
	ID string `json:"id"`

	// Vector has the dimension of the collection and finite components. It may be missing:
	// searches by vector do not find the document then, until Patch or Upsert adds one. It
	// is stored bit for bit.
	Vector []float32 `json:"vector,omitempty"`

	// Text is at most MaxTextLen bytes of UTF-8.
	Text string `json:"text,omitempty"`

	Metadata Metadata `json:"metadata,omitempty"`
}

// Metadata describes a document. Values are string, bool, int64, float64, nil, lists
// ([]any) of these, and nested maps (map[string]any), whose fields filters address by
// dotted path. Other integer, float, slice and map types are converted on writes, except
// []byte; NaN and infinity are refused. A key must not be empty or start with "$". A key
// may contain dots: "a.b" is the same path as b nested in a, and a document with both is
// refused.
type Metadata map[string]any

// Select says which parts of a document a read returns beside its id.
type Select uint8

// The parts of a document. The zero Select means WithText | WithMetadata.
const (
	WithText     Select = 1
	WithMetadata Select = 2
	WithVector   Select = 4
	IDsOnly      Select = 8 // no parts

	Everything = WithText | WithMetadata | WithVector
)

func (s Select) has(part Select) bool {
	if s == 0 {
		s = WithText | WithMetadata
	}
	return s&part != 0 && s&IDsOnly == 0
}

// stored returns the parts of the stored form that s selects.
func (s Select) stored() (parts document.Parts) {
	if s.has(WithText) {
		parts |= document.Text
	}
	if s.has(WithMetadata) {
		parts |= document.Metadata
	}
	return parts
}

// stored returns d without its vector.
func (d *Document) stored() *document.Document {
	return &document.Document{ID: d.ID, Text: d.Text, Metadata: d.Metadata}
}

// decode sets d to the selected parts of a stored document.
func (d *Document) decode(b []byte, want Select) error {
	s, err := document.Decode(b, want.stored())
	if err == nil {
		d.ID, d.Text, d.Metadata = s.ID, s.Text, s.Metadata
	}
	return err
}

// canonical returns a valid copy of m with stored types.
func (m Metadata) canonical() (Metadata, error) { return document.Canonical(m) }

// MarshalJSON writes m such that UnmarshalJSON returns the same values and
// types: a float64 without a fraction has ".0". It fails with ErrInvalid where a
// write of m would.
func (m Metadata) MarshalJSON() ([]byte, error) { return document.MarshalMetadata(m) }

// UnmarshalJSON reads numbers by the rules of a JSONL import: a number without
// fraction and exponent is an int64, any other number a float64. It fails with
// ErrInvalid for an integer that int64 cannot hold, a number beyond the range
// of float64, a duplicate key, text that is not UTF-8, and nesting deeper than
// MaxMetadataDepth.
func (m *Metadata) UnmarshalJSON(b []byte) error {
	read, err := document.UnmarshalMetadata(b)
	if err == nil {
		*m = read
	}
	return err
}

// Canonical returns a valid copy of d: metadata in the types that a collection
// returns, and nil in place of empty fields. It shares the vector with d. It
// fails with ErrInvalid where a write would, and for an empty id. It does not
// check the dimension.
func (d *Document) Canonical() (Document, error) {
	if err := document.ValidateID(d.ID); err != nil {
		return Document{}, err
	}
	if err := document.ValidateVector(d.ID, d.Vector); err != nil {
		return Document{}, err
	}
	if err := document.ValidateText(d.ID, d.Text); err != nil {
		return Document{}, err
	}
	c := *d
	var err error
	if c.Metadata, err = d.Metadata.canonical(); err != nil {
		return Document{}, fmt.Errorf("document %q: %w", d.ID, err)
	}
	if len(c.Vector) == 0 {
		c.Vector = nil
	}
	return c, nil
}

// Canonical returns a valid copy of m in the types that a collection returns;
// nil if it is empty. It fails with ErrInvalid where a write would.
func (m Metadata) Canonical() (Metadata, error) { return m.canonical() }
