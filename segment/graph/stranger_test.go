package graph

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/fileformat"
)

// TestStrangers searches for noise, which is farther from all rows than any trial, and for vectors
// like the rows. Only the first promises nothing; nor does it if some rows were deleted.
func TestStrangers(t *testing.T) {
	const rows, k = 2000, 10
	for _, m := range []fileformat.Metric{fileformat.Cosine, fileformat.L2} {
		d, queries := make1("latent", 256, rows, 50)
		g := d.graph(t, m, Options{})
		s, ok := g.Setting(0.9, k)
		if !ok {
			t.Fatalf("metric %d: no setting for a recall of 0.9", m)
		}
		alive, few := bitset.New(rows), bitset.New(rows)
		for i := range rows {
			if i%7 > 0 {
				alive.Set(i)
			}
			if i%7 == 0 {
				few.Set(i)
			}
		}
		var buf Buffer
		strangers := func(vecs [][]float32, allowed bitset.Set) (n int) {
			for _, vec := range vecs {
				q := g.Query(vec)
				matched := rows
				if allowed != nil {
					matched = allowed.Count()
				}
				q.Guard(k, s, matched)
				_, _, err := q.Search(k, s, allowed, d.scorer(m, vec), &buf)
				if errors.Is(err, ErrStranger) {
					n++
				} else if err != nil && (allowed == nil || !errors.Is(err, ErrFar)) {
					t.Fatal(err)
				}
			}
			return n
		}
		r := rand.New(rand.NewPCG(1, 2))
		noise := make([][]float32, 50)
		for i := range noise {
			noise[i] = make([]float32, d.dim)
			for j := range noise[i] {
				noise[i][j] = 20 * float32(r.NormFloat64())
			}
		}
		for _, c := range []struct {
			name        string
			vecs        [][]float32
			allowed     bitset.Set
			least, most int
		}{
			{"like the rows", queries, nil, 0, 0}, {"like the rows, most allowed", queries, alive, 0, 0},
			{"noise", noise, nil, 48, 50}, {"noise, most allowed", noise, alive, 30, 50},
			{"noise, few allowed", noise, few, 0, 0},
		} {
			if n := strangers(c.vecs, c.allowed); n < c.least || n > c.most {
				t.Errorf("metric %d, %s: %d of %d are strangers", m, c.name, n, len(c.vecs))
			}
		}
	}
}
