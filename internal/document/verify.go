package document

import (
	"bytes"
	"fmt"
)

// Verify returns the id of a stored document, or an error unless b is exactly what Append writes.
// It is for bytes of another process: decoding them takes memory in proportion to their length.
// Decode promises that only for bytes that Append wrote.
func Verify(b []byte) (id string, err error) {
	if len(b) > maxStored {
		return "", Invalidf("document takes %d bytes, the limit is %d", len(b), maxStored)
	}
	if err := Bounded(b); err != nil {
		return "", err
	}
	d, err := Decode(b, All)
	if err != nil {
		return "", err
	}
	again, err := Append(make([]byte, 0, len(b)), &d)
	if err != nil {
		return "", err
	}
	if !bytes.Equal(again, b) {
		return "", fmt.Errorf("document %q is stored in another form", d.ID)
	}
	return d.ID, nil
}

// maxStored is the most bytes of a stored document: its parts, and the lengths of array and text.
const maxStored = MaxIDLen + MaxMetadataLen + MaxTextLen + 16

// VerifyMetadata is DecodeMetadata for bytes that another process sends: see Verify.
func VerifyMetadata(b []byte) (map[string]any, error) {
	if len(b) > MaxMetadataLen {
		return nil, Invalidf("metadata takes %d bytes, the limit is %d", len(b), MaxMetadataLen)
	}
	if err := Bounded(b); err != nil {
		return nil, err
	}
	m, err := DecodeMetadata(b)
	if err != nil {
		return nil, err
	}
	again, err := EncodeMetadata(m)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, b) {
		return nil, fmt.Errorf("metadata is stored in another form")
	}
	return m, nil
}

// Bounded returns an error unless b is one msgpack value whose lengths are true and which is not
// nested deeper than a document. It allocates nothing, so that decoding b afterwards costs memory
// in proportion to b.
func Bounded(b []byte) error {
	r := reader{b: b}
	r.skip(0)
	if r.err == nil && len(r.b) > 0 {
		r.fail(fmt.Errorf("%d bytes left over", len(r.b)))
	}
	return r.err
}
