package document

import (
	"errors"
	"strings"
	"testing"
)

// TestMetadataAlone: metadata in JSON is one value.
func TestMetadataAlone(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"a":1}`: true, " {\"a\":1}\n": true, `{}`: true, `null`: true,
		`{"a":1} {"b":2}`: false, `{"a":1}garbage`: false, `{"a":1},`: false, `null null`: false, `{"a":1}}`: false,
	} {
		m, err := UnmarshalMetadata([]byte(text))
		if ok != (err == nil) || !ok && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, %v", text, m, err)
		}
	}
}

// TestLimitOfMetadata: metadata that can be encoded alone can be stored, whatever the id.
func TestLimitOfMetadata(t *testing.T) {
	metadata := func(n int) map[string]any { return map[string]any{"f": strings.Repeat("x", n)} }
	most := 0 // value with the longest metadata
	for n := MaxMetadataLen - 16; n < MaxMetadataLen; n++ {
		if _, err := EncodeMetadata(metadata(n)); err == nil {
			most = n
		}
	}
	for _, id := range []string{"i", strings.Repeat("i", 1000)} {
		if _, err := Append(nil, &Document{ID: id, Metadata: metadata(most)}); err != nil {
			t.Error(err)
		}
		_, err := Append(nil, &Document{ID: id, Metadata: metadata(most + 1)})
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "metadata takes 1048577 bytes") {
			t.Error(err)
		}
	}
}
