package engine

import (
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
)

// TestStoredTextField: a definition opens with a text field that is longer than a caller may give.
func TestStoredTextField(t *testing.T) {
	d := Definition{ID: 3, Name: "c"}
	d.Schema.Text = (&TextIndex{Fields: []string{strings.Repeat("x", filter.MaxPath+1)}}).Clone()
	b, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeDefinition(3, b); err != nil {
		t.Error(err)
	}
}
