package document_test

import (
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/document"
)

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
