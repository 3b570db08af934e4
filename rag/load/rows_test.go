package load

import (
	"slices"
	"testing"
)

// TestDistinctColumns: columns that repeat a name get the next free number, in linear time.
func TestDistinctColumns(t *testing.T) {
	for _, c := range []struct{ columns, want []string }{
		{[]string{"a", "b", "a", "", "a", ""}, []string{"a", "b", "a_2", "", "a_3", ""}},
		{[]string{"a", "a", "a_2", "a_2", "a"}, []string{"a", "a_3", "a_2", "a_2_2", "a_4"}},
	} {
		if got := distinct(c.columns); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.columns, got, c.want)
		}
	}
	names := distinct(slices.Repeat([]string{"a"}, 200_000))
	if slices.Sort(names); len(slices.Compact(names)) != 200_000 {
		t.Error("names repeat")
	}
}
