package document

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/vecbolt/vecbolt/simd"
)

// Limits of one document.
const (
	MaxIDLen         = 1 << 10  // bytes of an id
	MaxTextLen       = 16 << 20 // bytes of a text
	MaxMetadataLen   = 1 << 20  // bytes of metadata, encoded as msgpack
	MaxMetadataDepth = 16       // nested maps and lists
	MaxKeyLen        = 256      // bytes of one metadata key
	MaxDim           = 1 << 16  // components of a vector
)

// ValidateID checks an id. It is the only check of ids.
func ValidateID(id string) error {
	switch {
	case id == "":
		return Invalidf("id is empty")
	case len(id) > MaxIDLen:
		return Invalidf("id %.40q…: %d bytes long, the limit is %d", id, len(id), MaxIDLen)
	case !utf8.ValidString(id):
		return Invalidf("id %q: not valid UTF-8", id)
	}
	if i := strings.IndexFunc(id, func(r rune) bool { return r < 0x20 || r == 0x7f }); i >= 0 {
		return Invalidf("id %q: control character at byte %d", id, i)
	}
	return nil
}

// NewID returns a UUIDv7. It ascends in time, so that new ids are neighbours in the tree of ids.
func NewID() (string, error) {
	u, err := uuid.NewV7()
	return u.String(), err
}

// ValidateVector checks the length and the components of a vector; the collection checks its
// dimension.
func ValidateVector(id string, v []float32) error {
	if len(v) > MaxDim {
		return Invalidf("document %q: vector has %d components, the limit is %d", id, len(v), MaxDim)
	}
	if simd.Finite(v) {
		return nil
	}
	for i, x := range v {
		if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
			return Invalidf("document %q: vector component %d is %v", id, i, x)
		}
	}
	return nil
}

// ValidateText checks the text of the document with an id.
func ValidateText(id, text string) error {
	if len(text) > MaxTextLen {
		return Invalidf("document %q: text has %d bytes, the limit is %d", id, len(text), MaxTextLen)
	}
	if !utf8.ValidString(text) {
		return Invalidf("document %q: text is not valid UTF-8", id)
	}
	return nil
}
