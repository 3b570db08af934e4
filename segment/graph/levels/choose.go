package levels

import (
	"cmp"
	"slices"
	"sort"

	"github.com/vecbolt/vecbolt/internal/synthetic"
)

// Parameters of choosing.
const (
	// Steps: a level misses at most this share of what the cheaper one before it misses.
	Step           = 0.94 // between levels that are kept
	stepToConfirm  = 0.85 // between levels to confirm, for up to ten results
	stepForHundred = 0.7  // likewise, for up to 100 results
	stepForMost    = 0.55 // likewise, for more
	stepOfMost     = 0.7  // between levels chosen by the kinds that are not the hardest: see most

	FirstEF    = 10 // the narrowest beam
	mostPicked = Most - len(Deviations)
	WorthScan  = 0.8 // share of the price of a scan up to which a search is worth while
)

// Prices are the costs of searches of a graph.
type Prices struct {
	Rows    int
	Degree  float32 // most rows that an expansion inserts into the beam
	Inserts float32 // insertions that cost as much as an expansion

	// Walk returns the price of a search for k results, without a filter. Scan returns the price of
	// a scan of the codes of all rows, in the same unit.
	Walk     func(s Setting, k int) float64
	CodeScan func(k int) float64
}

// A Chooser chooses the levels of a column from what trials found. It does not change while it
// works.
type Chooser struct {
	Prices
	Column      int              // of Results
	Kinds       []synthetic.Kind // by trial
	SketchScans []Scan           // of the sketches, the fewest deviations first; nil without sketches

	// Planned is whether a planner chooses between walks and scans. Then levels may have two
	// stages, and must cost clearly less than a scan.
	Planned bool

	// Again is whether the second stage of a search begins again if it is a walk.
	Again bool

	// Each calls f for 0 to n-1, on several goroutines.
	Each func(n int, f func(i int) error) error
}

// results returns the number of results of the column.
func (c *Chooser) results() int { return Results[c.Column] }

// cost returns the cost of a search in expansions. A converging search inserts about 2·ef rows into
// the beam, or all rows that it meets if they are fewer.
func (p *Prices) cost(l *Level) float32 {
	return l.MeanNodes + min(float32(p.Degree*l.MeanNodes), 2*float32(l.EF))/p.Inserts
}

// pick returns the Pareto-optimal levels, cheapest first: each has a higher recall than all cheaper
// ones. It skips levels that are hardly better than the one before: that miss more than a share of
// what that misses.
func (c *Chooser) pick(all []Candidate, share float32) []Candidate {
	return c.pickBy(all, share, func(l *Candidate) float32 { return l.Recall })
}

// pickFirst returns the levels of a column that are to be the first of two stages, cheapest first.
// A few kinds of queries far from all rows may decide the recall of every level, though they go on
// to the second stage. So levels are chosen by the other kinds, too.
func (c *Chooser) pickFirst(all []Candidate, share float32) []Candidate {
	chosen := c.pick(all, share)
	if !c.stages() {
		return chosen
	}
	for _, l := range c.pickBy(all, min(share, stepOfMost), (*Candidate).most) {
		if !slices.ContainsFunc(chosen, func(o Candidate) bool { return o.EF == l.EF && o.StopRatio == l.StopRatio }) {
			chosen = append(chosen, l)
		}
	}
	c.sortByCost(chosen)
	return chosen
}

// hardest is how many kinds most does not count: a quarter of those that nearly all rows have.
const hardest = 6

// most returns the recall that all kinds but the hardest get, of a level of one stage. Kinds with
// few trials count as finding everything.
func (l *Candidate) most() float32 {
	recalls := *l.recalls
	slices.Sort(recalls[:])
	return recalls[hardest]
}

// pickBy is pick by some recall of levels.
func (c *Chooser) pickBy(all []Candidate, share float32, recall func(l *Candidate) float32) (chosen []Candidate) {
	c.sortByCost(all)
	best := float32(0)
	for i := range all {
		best = max(best, recall(&all[i]))
	}
	missed := float32(2) // by the last level chosen
	for i := range all {
		r := recall(&all[i])
		m := 1 - r // float32 rounds it for r below one half, so r is compared with best
		if len(chosen) < mostPicked && m < missed && (m <= share*missed || r == best) {
			chosen, missed = append(chosen, all[i]), m
		}
	}
	return chosen
}

func (c *Chooser) sortByCost(levels []Candidate) {
	slices.SortStableFunc(levels, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(c.cost(&a.Level), c.cost(&b.Level)), cmp.Compare(b.Recall, a.Recall))
	})
}

// Worth reports whether searches with a level cost clearly less than scans of the codes: those for
// the most rows that the column is for, or for the fewest.
func (c *Chooser) Worth(l *Level) bool {
	if !c.Planned {
		return true
	}
	least := 1
	if c.Column > 0 {
		least = Results[c.Column-1] + 1
	}
	for _, k := range [...]int{c.results(), least} {
		if c.Walk(l.Setting(k, 1), k) < WorthScan*c.CodeScan(k) {
			return true
		}
	}
	return false
}

// ScanNodes returns how many expansions cost as much as a scan of the codes.
func (c *Chooser) ScanNodes() float32 {
	k := c.results()
	price := c.CodeScan(k)
	return float32(sort.Search(c.Rows, func(n int) bool { return c.Walk(Setting{EF: n}, k) >= price }))
}

// UsualScan returns the recall of a scan of the sketches that finds nearly everything, or else of
// the one with the most deviations, and its cost in expansions for queries like the rows. Without
// sketches both are 0.
func (c *Chooser) UsualScan() (recall, nodes float32) {
	if !c.stages() {
		return 0, 0
	}
	for i := range c.SketchScans { // the fewest deviations first
		l := c.level(&c.SketchScans[i])
		if recall, nodes = l.Recall, l.UsualNodes; recall >= Enough {
			break
		}
	}
	return recall, nodes
}

// ToConfirm returns the settings of the candidates that are to be confirmed. It leaves out levels
// that no planner chooses: a scan of the sketches finds as much for no more expansions, or a scan
// of the codes costs less. The cheapest level always stays. The level with the highest recall stays
// if only a scan of the sketches beats it. Table.Recall needs both, for callers who set the beam
// width themselves.
func (c *Chooser) ToConfirm(tried []Candidate) (settings []Setting) {
	share := float32(stepToConfirm)
	switch {
	case c.Column >= BaseColumns:
		share = stepForMost
	case c.results() > Few:
		share = stepForHundred
	}
	recall, usual := c.UsualScan()
	best := Highest(tried)
	for i, l := range c.pickFirst(tried, share) {
		dear := l.UsualNodes >= usual && l.Recall <= recall && l.Recall < best || !c.Worth(&l.Level)
		if i == 0 || !dear {
			settings = append(settings, Setting{EF: l.EF, StopRatio: l.StopRatio})
		}
	}
	return settings
}

// Highest returns the highest recall of some levels.
func Highest(levels []Candidate) (recall float32) {
	for _, l := range levels {
		recall = max(recall, l.Recall)
	}
	return recall
}
