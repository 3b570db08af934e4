package engine

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// A Lineage records where the vectors of a collection come from. Empty fields are unknown.
type Lineage struct {
	Provider   string
	Model      string
	Normalized bool
	Chunker    string
}

// MaxLineageLen is the limit of each text of a lineage in bytes.
const MaxLineageLen = 4096

// validate returns an error if a new collection cannot have the lineage.
func (l Lineage) validate(collection string) error {
	for _, f := range []struct{ name, value string }{
		{"provider", l.Provider}, {"model", l.Model}, {"chunker", l.Chunker},
	} {
		switch {
		case len(f.value) > MaxLineageLen:
			return document.Invalidf("collection %q: the %s has %d bytes, the limit is %d", collection, f.name,
				len(f.value), MaxLineageLen)
		case !utf8.ValidString(f.value):
			return document.Invalidf("collection %q: the %s %.50q is not valid UTF-8", collection, f.name, f.value)
		}
	}
	return nil
}

// A Schema is the definition of a collection. Dim, if it is set, and Metric never change.
type Schema struct {
	Dim     int // 0: the first vector written sets it
	Metric  fileformat.Metric
	Lineage Lineage
	Text    *TextIndex // nil: no full-text index
	Index   Index
}

// validate returns an error if a collection cannot have the schema.
func (s Schema) validate(collection string) error {
	if s.Dim < 0 || s.Dim > document.MaxDim {
		return document.Invalidf("collection %q: dimension %d is outside 0..%d", collection, s.Dim, document.MaxDim)
	}
	if s.Metric > fileformat.L2 {
		return document.Invalidf("collection %q: unknown metric %d", collection, s.Metric)
	}
	return s.Index.validate(collection)
}

// Accepts reports whether a collection with schema s can serve a caller who
// expects want. Empty fields of want are not compared.
func (s Schema) Accepts(collection string, want Schema) error {
	if want.Dim != 0 && s.Dim != 0 && want.Dim != s.Dim {
		return &DimensionError{Collection: collection, Expected: s.Dim, Got: want.Dim}
	}
	if want.Metric != s.Metric {
		return fmt.Errorf("%w: collection %q has metric %v, opened with %v", ErrSchema, collection,
			s.Metric, want.Metric)
	}
	if want.Text != nil && s.Text != nil && !s.Text.equal(want.Text) {
		return textIndexError{fmt.Errorf("%w: collection %q has another text index", ErrSchema, collection)}
	}
	if want.Index != IndexFast && want.Index != s.Index {
		return otherIndex(collection, s.Index, want.Index)
	}
	for _, f := range []struct{ name, have, want string }{
		{"provider", s.Lineage.Provider, want.Lineage.Provider},
		{"model", s.Lineage.Model, want.Lineage.Model},
		{"chunker", s.Lineage.Chunker, want.Lineage.Chunker},
	} {
		if f.want != "" && f.have != "" && f.want != f.have {
			return fmt.Errorf("%w: collection %q has %s %q, opened with %q", ErrSchema, collection,
				f.name, f.have, f.want)
		}
	}
	return nil
}

// MaxNameLen is the limit of a collection name in bytes.
const MaxNameLen = 255

// ValidateName is the only check of collection names. They never become file
// names, so every readable string will do that the path of a URL can hold as a
// segment: clients remove . and .., escaped or not, and routers take an escaped
// slash alone for the end of the path.
func ValidateName(name string) error {
	switch {
	case name == "":
		return document.Invalidf("collection name is empty")
	case name == "." || name == ".." || name == "/":
		return document.Invalidf("collection name %q: no URL can contain it", name)
	case len(name) > MaxNameLen:
		return document.Invalidf("collection name %.40q… has %d bytes, the limit is %d", name, len(name), MaxNameLen)
	case !utf8.ValidString(name):
		return document.Invalidf("collection name %q is not valid UTF-8", name)
	case strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return document.Invalidf("collection name %q holds a control character", name)
	}
	return nil
}

// A Definition is everything stored about a collection except its documents. It
// is immutable: a change makes a new one.
type Definition struct {
	ID       uint32
	Name     string
	Schema   Schema
	Analysis *Analysis // of schema.Text
	Metadata map[string]any
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
	Index      string             `msgpack:"index,omitempty"`
}

// storedText is the msgpack form of a TextIndex.
type storedText struct {
	Language string   `msgpack:"language"`
	Fields   []string `msgpack:"fields,omitempty"`
	K1       *float64 `msgpack:"k1,omitempty"`
	B        *float64 `msgpack:"b,omitempty"`
}

func (d *Definition) Encode() ([]byte, error) {
	meta, err := document.EncodeMetadata(d.Metadata)
	if err != nil {
		return nil, err
	}
	return msgpack.Marshal(&storedDefinition{
		Name: d.Name, Dim: d.Schema.Dim, Metric: uint8(d.Schema.Metric),
		Provider: d.Schema.Lineage.Provider, Model: d.Schema.Lineage.Model,
		Normalized: d.Schema.Lineage.Normalized, Chunker: d.Schema.Lineage.Chunker,
		Metadata: meta, Text: (*storedText)(d.Schema.Text),
		Index: d.Schema.Index.stored(),
	})
}

func DecodeDefinition(id uint32, b []byte) (*Definition, error) {
	var s storedDefinition
	if err := msgpack.Unmarshal(b, &s); err != nil {
		return nil, fmt.Errorf("decode collection %d: %w", id, err)
	}
	meta, err := document.DecodeMetadata(s.Metadata)
	if err != nil {
		return nil, fmt.Errorf("decode metadata of collection %d: %w", id, err)
	}
	d := &Definition{
		ID: id, Name: s.Name,
		Schema: Schema{Dim: s.Dim, Metric: fileformat.Metric(s.Metric), Lineage: Lineage{
			Provider: s.Provider, Model: s.Model, Normalized: s.Normalized, Chunker: s.Chunker},
			Text: (*TextIndex)(s.Text), Index: storedIndex(s.Index)},
		Metadata: meta,
	}
	if d.Analysis, err = NewAnalysis(s.Name, d.Schema.Text); err != nil {
		return nil, err
	}
	if err := d.Schema.validate(d.Name); err != nil {
		return nil, err
	}
	return d, nil
}
