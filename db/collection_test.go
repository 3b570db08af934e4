package db

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Changes that a caller makes to returned collection metadata do not reach the database.
func TestCollectionMetadataAreCopies(t *testing.T) {
	vdb, err := Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	want := Metadata{"a": int64(1), "deep": map[string]any{"list": []any{"x"}}}
	c, err := vdb.CreateCollection(t.Context(), "c", Schema{}, want)
	if err != nil {
		t.Fatal(err)
	}
	s, err := vdb.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, give := range map[string]func() Metadata{
		"Info":                 func() Metadata { return must(c.Info()).Metadata },
		"Collections":          func() Metadata { return must(vdb.Collections())[0].Metadata },
		"Snapshot.Collections": func() Metadata { return must(s.Collections())[0].Metadata },
		"Stats":                func() Metadata { return must(vdb.Stats()).Collections[0].Metadata },
	} {
		m := give()
		list := m["deep"].(map[string]any)["list"].([]any)
		list[0] = "changed"
		delete(m, "a")
		if diff := cmp.Diff(want, give()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
