package document

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// A Document is the stored part of a document: all fields except its vector.
type Document struct {
	ID       string
	Text     string
	Metadata map[string]any // values as a read returns them; nil if empty
}

// Parts are the parts of a stored document to decode in addition to its id.
type Parts uint8

// The parts.
const (
	Text     Parts = 1
	Metadata Parts = 2
	All            = Text | Metadata
)

// fields is the length of the array. Text comes last, so that reads without it can stop before it.
const fields = 3

// ErrInvalid is returned for input that breaks a limit or a rule. The message names the field or
// the id, and the reason.
var ErrInvalid = errors.New("invalid")

// Invalidf returns an error that matches ErrInvalid.
func Invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// Append validates d and appends its stored form to dst. On error it returns dst unchanged.
func Append(dst []byte, d *Document) ([]byte, error) {
	if err := ValidateID(d.ID); err != nil {
		return dst, err
	}
	if err := ValidateText(d.ID, d.Text); err != nil {
		return dst, err
	}
	w := newWriter(dst)
	defer w.release()
	w.check(w.enc.EncodeArrayLen(fields))
	w.check(w.enc.EncodeString(d.ID))
	before := len(w.b)
	w.metadata(d.Metadata)
	if n := len(w.b) - before; w.err == nil && n > MaxMetadataLen {
		w.err = Invalidf("metadata takes %d bytes, the limit is %d", n, MaxMetadataLen)
	}
	if w.err != nil {
		return dst, fmt.Errorf("document %q: %w", d.ID, w.err)
	}
	w.check(w.enc.EncodeString(d.Text))
	return w.b, nil
}

// Decode reads the id and the wanted parts of a stored document. The result shares no memory with
// b.
func Decode(b []byte, want Parts) (d Document, err error) {
	r := reader{b: b}
	d.ID = r.id()
	if want != 0 {
		if want&Metadata != 0 {
			d.Metadata = r.metadata()
		} else {
			r.skip(0)
		}
		if want&Text != 0 {
			d.Text = r.string()
		}
	}
	if r.err != nil {
		return Document{}, fmt.Errorf("decode document: %w", r.err)
	}
	return d, nil
}

// DecodeID reads the id of a stored document.
func DecodeID(b []byte) (string, error) {
	r := reader{b: b}
	id := r.id()
	return id, r.err
}

// MetadataOf reads the metadata of a stored document.
func MetadataOf(b []byte) (map[string]any, error) {
	r := reader{b: b}
	r.id()
	m := r.metadata()
	return m, r.err
}

// EncodeMetadata validates m and returns its msgpack form: the metadata of a collection.
func EncodeMetadata(m map[string]any) ([]byte, error) {
	w := newWriter(nil)
	defer w.release()
	w.metadata(m)
	if w.err == nil && len(w.b) > MaxMetadataLen {
		w.err = Invalidf("metadata takes %d bytes, the limit is %d", len(w.b), MaxMetadataLen)
	}
	return w.b, w.err
}

// DecodeMetadata is the inverse of EncodeMetadata.
func DecodeMetadata(b []byte) (map[string]any, error) {
	r := reader{b: b}
	m := r.metadata()
	return m, r.err
}

// Canonical returns a valid copy of m in the types that a read returns; nil if it is empty.
func Canonical(m map[string]any) (map[string]any, error) {
	b, err := EncodeMetadata(m)
	if err != nil {
		return nil, err
	}
	return DecodeMetadata(b)
}

// Clone returns a deep copy of a metadata value.
func Clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		v = maps.Clone(v)
		for key, value := range v {
			v[key] = Clone(value)
		}
		return v
	case []any:
		v = slices.Clone(v)
		for i, value := range v {
			v[i] = Clone(value)
		}
		return v
	}
	return v
}

// Footprint returns about the memory, in bytes, of a metadata value: lists and maps take many times
// their stored form.
func Footprint(v any) int {
	const each, list, object = 24, 40, 320 // an element with its box; a slice; a map with its first group
	n := each
	switch v := v.(type) {
	case string:
		n += len(v)
	case []any:
		n += list
		for _, e := range v {
			n += Footprint(e)
		}
	case map[string]any:
		n += object
		for key, e := range v {
			n += each + len(key) + Footprint(e)
		}
	}
	return n
}
