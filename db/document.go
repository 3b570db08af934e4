package db

import (
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
// dotted path. Other integer, float, slice and map types are converted on writes; NaN and
// infinity are refused. A key must not be empty or start with "$". A key may contain
// dots: "a.b" is the same path as b nested in a, and a document with both is refused.
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
