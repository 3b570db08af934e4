package query

import (
	"cmp"
	"context"
	"slices"
	"sort"

	"github.com/vecbolt/vecbolt/internal/nearest"
)

// A standing finds the ranks of some documents among all rows, by their scores and, of equal
// scores, by their ids. Each row is compared with all documents at once, and each id of a tied row
// is read once: many documents can have the score of many rows.
type standing struct {
	scores []float64         // of the documents, each once, best first
	ahead  []int             // rows better than scores[i], but not than scores[i-1]
	ties   [][]nearest.Place // rows with scores[i]
	ids    [][]string        // of these, in order; see settle
}

// newStanding returns a standing for documents with these scores.
func newStanding(scores []float64) *standing {
	slices.SortFunc(scores, func(a, b float64) int { return cmp.Compare(b, a) })
	scores = slices.Compact(scores)
	n := len(scores)
	return &standing{scores: scores, ahead: make([]int, n+1), ties: make([][]nearest.Place, n),
		ids: make([][]string, n)}
}

// below returns the index of the best score below this one.
func (t *standing) below(score float64) int {
	return sort.Search(len(t.scores), func(i int) bool { return t.scores[i] < score })
}

// decided reports whether bounds of the score of a row tell enough, and counts the row then.
func (t *standing) decided(lower, upper float64) bool {
	i := t.below(lower)
	if i > 0 && t.scores[i-1] <= upper {
		return false
	}
	t.ahead[i]++
	return true
}

// add counts a row with this score.
func (t *standing) add(score float64, at nearest.Place) {
	i := t.below(score)
	t.ahead[i]++
	if i > 0 && t.scores[i-1] == score {
		t.ties[i-1] = append(t.ties[i-1], at)
	}
}

// settle reads the ids of the tied rows, once all rows are counted.
func (t *standing) settle(ctx context.Context, id func(nearest.Place) (string, error)) error {
	for i, rows := range t.ties {
		for _, at := range rows {
			if err := ctx.Err(); err != nil {
				return err
			}
			name, err := id(at)
			if err != nil {
				return err
			}
			t.ids[i] = append(t.ids[i], name)
		}
		slices.Sort(t.ids[i])
	}
	return nil
}

// before returns the number of rows ahead of a document with one of the scores.
func (t *standing) before(score float64, id string) int {
	i := t.below(score) - 1
	n, _ := slices.BinarySearch(t.ids[i], id)
	for _, rows := range t.ahead[:i+1] {
		n += rows
	}
	return n
}
