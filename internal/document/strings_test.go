package document_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/document"
)

// TestLongestPath: metadata can have a path of filter.MaxPath bytes, and no longer one.
func TestLongestPath(t *testing.T) {
	key := strings.Repeat("k", document.MaxKeyLen)
	meta, path := map[string]any{key: "found"}, key
	for len(path) < filter.MaxPath {
		meta, path = map[string]any{key: meta}, path+"."+key
	}
	_, err := document.EncodeMetadata(meta)
	if got := slices.Collect(document.Strings(meta, path)); err != nil || len(path) != filter.MaxPath || len(got) != 1 {
		t.Errorf("path of %d bytes: %q, %v", len(path), got, err)
	}
	for _, longer := range []map[string]any{{key: meta}, {key + "k": 1}} {
		if _, err := document.EncodeMetadata(longer); !errors.Is(err, document.ErrInvalid) {
			t.Errorf("a longer path: %v", err)
		}
	}
}

func TestStrings(t *testing.T) {
	metadata := map[string]any{
		"title": "a", "tags": []any{"b", int64(1), "c"}, "year": int64(2024), "empty": []any{},
		"author": map[string]any{"name": "d"},
	}
	for path, want := range map[string][]string{
		"title": {"a"}, "tags": {"b", "c"}, "author.name": {"d"}, "year": nil, "empty": nil, "author": nil, "none": nil,
	} {
		if got := slices.Collect(document.Strings(metadata, path)); !slices.Equal(got, want) {
			t.Errorf("%s: have %q, want %q", path, got, want)
		}
	}
	for s := range document.Strings(metadata, "tags") {
		if s != "b" {
			t.Errorf("a loop went on to %q", s)
		}
		break
	}
}
