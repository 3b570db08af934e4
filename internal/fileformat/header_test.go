package fileformat

import (
	"bytes"
	"errors"
	"testing"
)

func TestHeader(t *testing.T) {
	e := NewHeader("TESTTEST", 7)
	e.U64(1234)
	page := SealHeader(e)
	if len(page) != HeaderSize {
		t.Fatalf("%d bytes", len(page))
	}
	version, d, _, err := OpenHeader("TESTTEST", append(page, 1, 2, 3))
	if err != nil || version != 7 || d.U64() != 1234 {
		t.Fatalf("version %d, %v", version, err)
	}
	for name, tt := range map[string]struct {
		bytes []byte
		want  error
		off   int64
	}{
		"empty":    {nil, ErrFormat, 0},
		"cut":      {page[:HeaderSize-1], ErrFormat, 0},
		"magic":    {flipped(page, 0), ErrFormat, 0},
		"version":  {flipped(page, 8), ErrChecksum, HeaderCRC},
		"content":  {flipped(page, 12), ErrChecksum, HeaderCRC},
		"checksum": {flipped(page, HeaderCRC), ErrChecksum, HeaderCRC},
	} {
		if _, _, off, err := OpenHeader("TESTTEST", tt.bytes); !errors.Is(err, tt.want) || off != tt.off {
			t.Errorf("%s: offset %d, %v, want %v", name, off, err, tt.want)
		}
	}
}

func flipped(b []byte, at int) []byte {
	b = bytes.Clone(b)
	b[at] ^= 1
	return b
}
