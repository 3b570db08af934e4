package query

import (
	"context"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/internal/nearest"
)

// A standing gives documents their ranks among all rows, and reads each id of a tied row once.
func TestStanding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		score := rapid.IntRange(-2, 5)
		rows := rapid.SliceOfN(score, 0, 40).Draw(t, "scores of rows")
		docs := rapid.SliceOfN(score, 1, 10).Draw(t, "scores of documents")
		id := func(row int) string { return fmt.Sprintf("%02d", row*7%41) }
		var scores []float64
		for _, s := range docs {
			scores = append(scores, float64(s))
		}
		all := newStanding(scores)
		for row, s := range rows {
			width := float64(rapid.IntRange(0, 2).Draw(t, "width of the bounds"))
			if !all.decided(float64(s)-width, float64(s)+width) {
				all.add(float64(s), nearest.Place{Row: row})
			}
		}
		read := map[int]bool{}
		err := all.settle(t.Context(), func(at nearest.Place) (string, error) {
			if read[at.Row] {
				t.Fatalf("the id of row %d is read twice", at.Row)
			}
			read[at.Row] = true
			return id(at.Row), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range docs {
			name, want := fmt.Sprintf("%02d", i*3), 0
			for row, o := range rows {
				if o > s || o == s && id(row) < name {
					want++
				}
			}
			if got := all.before(float64(s), name); got != want {
				t.Errorf("document %s with score %d: %d rows before it, want %d", name, s, got, want)
			}
		}
	})
}

// A standing that reads many ids ends with its context.
func TestStandingEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	all := newStanding([]float64{1})
	for row := range 10 {
		all.add(1, nearest.Place{Row: row})
	}
	reads := 0
	err := all.settle(ctx, func(nearest.Place) (string, error) {
		reads++
		cancel()
		return "", nil
	})
	if err == nil || reads != 1 {
		t.Errorf("%v after %d reads", err, reads)
	}
}
