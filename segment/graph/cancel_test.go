package graph

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/formattest"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

// A search looks at its context in proportion to its work, and ends with the error of the context
// at whichever look, in each walk and in each stage.
func TestCancelled(t *testing.T) {
	for _, w := range walks {
		d, queries := make1("latent", w.dim, 3000, 1)
		g := d.graph(t, fileformat.Cosine, Options{quiet: true, layout: w.layout})
		half := bitset.New(d.Len())
		for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(d.Len())[:d.Len()/2] {
			half.Set(i)
		}
		for _, s := range []levels.Setting{{EF: 1500}, {EF: 10, Within: 1e-9, Second: levels.Stage{EF: 1500}}} {
			for _, allowed := range []bitset.Set{nil, half} {
				if allowed != nil && s.Within > 0 { // under a filter there is no second stage
					continue
				}
				var buf Buffer
				search := func(looks int) (Stats, int, error) {
					ctx := formattest.NewCountdown(t.Context(), looks)
					q := g.Query(queries[0])
					q.Heed(ctx)
					_, stats, err := q.Find(10, s, allowed, &buf)
					return stats, looks - ctx.Left(), err
				}
				const enough = 1 << 40
				stats, looks, err := search(enough)
				if err != nil || stats.Expanded < 1000 || looks < stats.Expanded/heedEvery {
					t.Fatalf("%+v, %+v: %d looks, %+v, %v", w, s, looks, stats, err)
				}
				for n := range looks {
					if stats, _, err := search(n); !errors.Is(err, context.Canceled) || stats.Expanded > n*heedEvery {
						t.Errorf("%+v, %+v: ended after %d of %d Looks: %+v, %v", w, s, n, looks, stats, err)
					}
				}
			}
		}
	}
}
