package db

import "github.com/vecbolt/vecbolt/internal/document"

import "fmt"

// Canonical returns a valid copy of d: with the metadata in the types that a
// collection returns and nothing in place of what is empty. It shares the
// vector with d. The error is that of a write, ErrInvalid; it does not look at
// the dimension. An empty id is invalid here.
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

// ValidateName returns ErrInvalid for what cannot be the name of a collection:
// one of 1 to MaxCollectionNameLen bytes of UTF-8 without control characters.
func ValidateName(name string) error { return validateName(name) }

// Canonical returns a valid copy of m in the types that a collection returns;
// nil if it is empty. The error is that of a write, ErrInvalid.
func (m Metadata) Canonical() (Metadata, error) { return m.canonical() }
