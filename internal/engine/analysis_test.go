package engine

import (
	"crypto/sha256"
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

// TestAnalysisID: text fields with other names have other ids, which decide whether a stored index
// is read. Ids of fields without a NUL are those of earlier releases.
func TestAnalysisID(t *testing.T) {
	seen := map[[16]byte][]string{}
	for _, fields := range [][]string{
		nil, {"a"}, {"a", "b"}, {"b", "a"}, {"a\x00b"}, {"a\x00", "b"}, {"a", "\x00b"}, {"a\x00\x00b"}, {"a\x00", "\x00b"},
	} {
		a, err := NewAnalysis("c", &TextIndex{Language: "none", Fields: fields})
		if err != nil {
			t.Fatal(err)
		}
		if other, taken := seen[a.id]; taken {
			t.Errorf("%q and %q have one id", other, fields)
		}
		seen[a.id] = fields
		joined := strings.Join(fields, "\x00")
		sum := sha256.Sum256([]byte(a.Analyzer.ID() + "\x00" + joined))
		if plain := strings.Count(joined, "\x00") < max(1, len(fields)); plain && [16]byte(sum[:]) != a.id {
			t.Errorf("%q: another id than before", fields)
		}
	}
}
