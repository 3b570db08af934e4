package db

import (
	"fmt"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
)

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

// ValidateName returns ErrInvalid unless name can be the name of a collection:
// 1 to MaxCollectionNameLen bytes of UTF-8 without control characters.
func ValidateName(name string) error { return engine.ValidateName(name) }

// Canonical returns a valid copy of m in the types that a collection returns;
// nil if it is empty. It fails with ErrInvalid where a write would.
func (m Metadata) Canonical() (Metadata, error) { return m.canonical() }
