package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/formattest"
	"github.com/vecbolt/vecbolt/segment/columns"
)

// A deep check compares the values that there are. Documents whose keys are names have as many
// fields as values, and a comparison of each field in each row would take hours.
func TestCompareFieldsOfTheirOwn(t *testing.T) {
	const rows, own = 300, 10
	build := func(change func(row int, m map[string]any)) *columns.Columns {
		t.Helper()
		b := columns.NewBuilder()
		for row := range rows {
			m := map[string]any{"all": int64(row)}
			for i := range own {
				m[fmt.Sprintf("key%d-%d", row, i)] = int64(i)
			}
			change(row, m)
			if err := b.Add(row, m); err != nil {
				t.Fatal(err)
			}
		}
		id := columns.Ident{Rows: rows}
		c, err := columns.Parse(b.Bytes(rows, id), id)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	want := build(func(int, map[string]any) {})
	live := bitset.New(rows)
	live.Fill(rows)
	live.Clear(7) // its document is gone

	compared, err := compareFields(t.Context(), want, want, live)
	if values := (rows - 1) * (own + 1); err != nil || compared > 2*values {
		t.Errorf("%d comparisons of %d values, %v", compared, values, err)
	}
	ctx := formattest.NewCountdown(t.Context(), 1)
	if compared, err := compareFields(ctx, want, want, live); !errors.Is(err, context.Canceled) || compared > 1024 {
		t.Errorf("%d comparisons after the context had ended, %v", compared, err)
	}
	for name, c := range map[string]struct {
		row    int
		change func(m map[string]any)
		want   string
	}{
		"surplus": {200, func(m map[string]any) { m["more"] = true }, `field "more" of row 200 is true, but <nil>`},
		"missing": {200, func(m map[string]any) { delete(m, "key200-3") }, `field "key200-3" of row 200 is <nil>, but 3`},
		"other":   {299, func(m map[string]any) { m["all"] = "x" }, `field "all" of row 299 is x, but 299`},
		"dead":    {7, func(m map[string]any) { m["all"], m["more"] = "x", "y" }, ""},
	} {
		have := build(func(row int, m map[string]any) {
			if row == c.row {
				c.change(m)
			}
		})
		switch _, err := compareFields(t.Context(), have, want, live); {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
