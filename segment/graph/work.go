package graph

import (
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/synthetic"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

// The planner weighs a walk against a scan by the distances that it will estimate. A walk of the
// plain layout meets fewer new rows with each expansion, because it has visited neighbours before.
// How fast they become fewer is a property of the rows: in texts and other clusters, near nodes
// have the same neighbours. So the calibration measures it.

// workWidths are the beam widths of the walks that tell the work of others.
var workWidths = [...]int{10, 50, 250, 1250}

// A walkWork is how many rows a walk of some beam width meets on average, in how many expansions.
type walkWork struct{ expanded, met float32 }

// follows reports whether w is a valid next entry: it has more expansions and rows than the one
// before, and no more rows than the graph. Behind an empty entry all are empty.
func (w walkWork) follows(narrower []walkWork, rows int) bool {
	if w == (walkWork{}) {
		return true
	}
	last := walkWork{}
	if n := len(narrower); n > 0 {
		if last = narrower[n-1]; last == (walkWork{}) {
			return false
		}
	}
	return w.expanded > last.expanded && w.met > last.met && w.expanded <= float32(rows) && w.met < float32(rows)
}

// mostMet is the share of the rows up to which walks tell the work of longer ones: any long walk
// meets the last rows.
const mostMet = 0.8

// draws returns how many rows must be drawn at random, in parts of all, to meet w.met rows.
func (w walkWork) draws(rows float64) float64 { return -math.Log1p(-float64(w.met) / rows) }

// usualWidth is the one of workWidths whose walks tell the price of an expansion.
const usualWidth = 2

// measureWork measures walks for rows.
func (b *builder) measureWork(trials []trial) error {
	const most = 32
	walks := slices.DeleteFunc(slices.Clone(trials), func(t trial) bool { return t.kind != synthetic.LikeRows })
	walks = walks[:min(len(walks), most)]
	from, to := 0, len(workWidths)
	if b.Quick() { // each expansion meets as many rows: see Work
		from, to = usualWidth, usualWidth+1
	}
	counts := make([][len(workWidths)]Stats, len(walks))
	err := b.each(len(walks), func(w *workerScratch, i int) error {
		for j := from; j < to; j++ {
			if err := walks[i].query.attempt(1, levels.Setting{EF: workWidths[j]}, nil, &w.buf); err != nil {
				return err
			}
			counts[i][j] = w.buf.stats
		}
		return nil
	})
	if err != nil {
		return err
	}
	var expanded, estimated [len(workWidths)]int
	for _, c := range counts {
		for j, stats := range c {
			expanded[j] += stats.Expanded
			estimated[j] += stats.Estimated
		}
	}
	distance := b.Price(1, 0, false) - b.Price(0, 0, false)
	// Of few rows there may be no expansion.
	b.expansion = distance * float64(estimated[usualWidth]+1) / float64(expanded[usualWidth]+1)
	if b.Quick() {
		return nil
	}
	n := len(walks)
	for j := range workWidths {
		w := walkWork{float32(expanded[j]) / float32(n), float32(estimated[j]-n*b.met()) / float32(n)}
		if w.met > mostMet*float32(b.Len()) || !w.follows(b.head.work[:j], b.Len()) {
			break
		}
		b.head.work[j] = w
	}
	return nil
}

// met returns how many rows a walk meets before its first expansion.
func (g *Graph) met() int { return len(g.entryPoints) + len(g.over) }

// Work returns about how many distances a search with this setting estimates (see Stats.Estimated)
// for a filter that allows this many rows.
func (g *Graph) Work(s levels.Setting, allowed int) float64 {
	rows := float64(g.Len())
	expanded := s.Expansions() * rows / float64(max(1, allowed))
	if g.Quick() {
		return float64(g.met()) + float64(degree*min(expanded, rows))
	}
	return min(float64(g.met())+float64(rows*(1-math.Exp(-g.draws(expanded)))), rows)
}

// Cost returns the price of a search for k rows with a setting, under a filter that allows this
// many rows, in the unit of Price. The fewer rows are allowed, the farther a walk goes. A scan of
// sketches looks at all rows anyway, but more of them pass: those that the filter excludes, too.
func (g *Graph) Cost(s levels.Setting, k, allowed int, filtered bool) float64 {
	if !filtered || !s.Scans() {
		return g.Price(g.Work(s, allowed), k, filtered)
	}
	const exponent = -0.67 // among word vectors
	least := g.SketchPrice(g.Len()) + g.scorePrice(k)
	passing := g.Price(g.Work(s, g.Len()), k, false) - least
	share := float64(max(1, allowed)) / float64(g.Len())
	return least + float64(max(0, passing)*math.Pow(share, exponent))
}

// draws returns walkWork.draws of walks with this number of expansions. It grows as a power of the
// number. The exponent comes from two measured walks: one with fewer expansions and one with more,
// where there are such walks.
func (g *Graph) draws(expanded float64) float64 {
	rows := float64(g.Len())
	last := 0
	for last < len(g.head.work) && g.head.work[last] != (walkWork{}) {
		last++
	}
	if last < 2 { // as among made rows
		return 0.4 * math.Pow(degree*expanded/rows, 0.85)
	}
	i := 1
	for i < last-1 && float64(g.head.work[i].expanded) < expanded {
		i++
	}
	a, b := g.head.work[i-1], g.head.work[i]
	x, y := float64(a.expanded), a.draws(rows)
	exponent := math.Log(b.draws(rows)/y) / math.Log(float64(b.expanded)/x)
	return y * math.Pow(expanded/x, min(max(exponent, 0), 1))
}
