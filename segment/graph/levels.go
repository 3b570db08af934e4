package graph

import (
	"cmp"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/synthetic"
	"github.com/vecbolt/vecbolt/segment/codes"
)

// Parameters of the levels.
const (
	mostErrors = 1.5 // a level promises the measured recall less this many standard errors
	fewest     = 5   // trials within the horizon from which a kind counts

	// A level misses at most this share of what the one before misses.
	stepKept       = 0.94 // of the levels kept
	stepToConfirm  = 0.85 // of those to confirm, for up to ten results,
	stepForHundred = 0.7  // for 100,
	stepForMost    = 0.55 // and for more

	// A kind is easy if it misses at most easyShare of what each level may that promises at least
	// easyFrom: see easyKinds.
	easyFrom  = 0.5
	easyShare = 0.5

	shareOfRows = 0.9 // weight of the queries like the rows in the mean cost of a search
	mostPicked  = maxLevels - len(sketchDeviations)
	worthScan   = 0.8 // share of the price of a scan up to which a search is worth while
)

// outcomes returns the measured levels of a column for the i-th ef of a round and each stopping
// ratio up to the last.
func (b *builder) outcomes(trials []trial, column, i, ef, last int) (all []level) {
	for j := range last + 1 {
		s := Setting{EF: ef}
		if j < len(stopRatios) {
			s.StopRatio = stopRatios[j]
		}
		all = append(all, b.sampledLevelOf(trials, column, s, func(t *trial) *outcome { return t.end(i, j) }))
	}
	for j := range all {
		all[j].whole = all[last].recall // at least
	}
	return all
}

// sampledLevelOf is levelOf with samples, if searches may have two stages.
func (b *builder) sampledLevelOf(trials []trial, column int, s Setting, of func(t *trial) *outcome) level {
	l := levelOf(trials, column, s, of)
	if b.planned {
		l.samples = samplesOf(trials, column, of)
	}
	return l
}

// levelOf returns the level of a column and a setting, except the recall without a stopping ratio.
func levelOf(trials []trial, column int, s Setting, of func(t *trial) *outcome) level {
	var sums [synthetic.Kinds]moments
	for i := range trials {
		o := of(&trials[i])
		sums[trials[i].kind].add(sampleOf(o, column), 1)
	}
	l := level{ef: s.EF, stopRatio: s.StopRatio, measured: measuredOf(&sums)}
	l.expect(&sums)
	l.recalls = new([synthetic.Kinds]float32)
	for k := range sums {
		if l.recalls[k] = 1; sums[k].n >= fewest {
			l.recalls[k] = float32(sums[k].recall())
		}
	}
	return l
}

// easyKinds returns the kinds of trials that are far from deciding what any of these levels
// promises: they miss much less than the kind that does. If no level tells, no kind is easy.
func easyKinds(levels []level) (easy [synthetic.Kinds]bool) {
	some := slices.DeleteFunc(slices.Clone(levels), func(l level) bool {
		return l.recall < easyFrom || l.recall >= enough
	})
	for k := synthetic.LikeRows + 1; k < synthetic.Kinds; k++ {
		easy[k] = len(some) > 0 && !slices.ContainsFunc(some, func(l level) bool {
			return 1-l.recalls[k] > easyShare*(1-l.recall)
		})
	}
	return easy
}

// measuredOf returns what a level keeps of the sums over its trials.
func measuredOf(sums *[synthetic.Kinds]moments) *measured {
	m := &measured{}
	for k := range sums {
		s := &sums[k]
		if synthetic.Kind(k) < kept && s.n > 0 {
			m.recall[k] = float32(min(1, s.recall()))
		}
		if s.n >= fewest {
			m.poor = max(m.poor, float32(s.poor/s.counted()))
		}
	}
	return m
}

// moments are sums over trials of one kind. Only answers that are not exact have a recall: a few
// poor ones would hide among many exact ones.
type moments struct {
	n, nodes                   float64
	walked, sum, squares, poor float64 // of trials whose answer would not be exact
}

// add adds a trial a number of times, -1 to remove it.
func (m *moments) add(s sample, times float64) {
	m.n += times
	m.nodes += float64(times * float64(s.nodes))
	if s.exact {
		return
	}
	found := float64(s.found)
	m.walked += times
	m.sum += float64(times * found)
	m.squares += float64(times * float64(found*found))
	if found < 0.5 {
		m.poor += times
	}
}

// counted returns of how many trials the recall is the mean. If few answers are not exact, they
// say little, and exact ones make up the number.
func (m *moments) counted() float64 { return max(m.walked, min(fewest, m.n)) }

// recall returns the mean recall.
func (m *moments) recall() float64 { return 1 + (m.sum-m.walked)/m.counted() }

// least returns the mean recall less a few standard errors.
func (m *moments) least() float64 {
	n, exact := m.counted(), m.counted()-m.walked
	mean := m.recall()
	deviation := math.Sqrt(max(0, (m.squares+exact)/n-float64(mean*mean)) / n)
	return max(0, mean-float64(mostErrors*deviation))
}

// expect sets the mean numbers of expansions of a search, and the recall that queries of every kind
// get at least.
func (l *level) expect(sums *[synthetic.Kinds]moments) {
	worst := sums[synthetic.LikeRows].least()
	usual := sums[synthetic.LikeRows].nodes / sums[synthetic.LikeRows].n
	others, n := 0.0, 0.0
	for k := synthetic.LikeRows + 1; k < synthetic.Kinds; k++ {
		if m := &sums[k]; m.n >= fewest {
			worst = min(worst, m.least())
			others, n = others+m.nodes/m.n, n+1
		}
	}
	if n == 0 {
		others, n = usual, 1
	}
	l.nodes = float32(float64(shareOfRows*usual) + float64((1-shareOfRows)*others/n))
	l.usual, l.recall = float32(usual), float32(worst)
}

// cost returns the cost of a search in expansions. Inserting a row into the beam costs a fraction
// (1/share) of an expansion. A converging search inserts about 2·ef rows, or all rows that it meets
// if they are fewer.
func (g *Graph) cost(l *level) float32 {
	share := float32(160)
	if g.rough() {
		share = 40
	}
	return l.nodes + min(degree*l.nodes, 2*float32(l.ef))/share
}

// pick returns the Pareto-optimal levels, cheapest first: each has a higher recall than all cheaper
// ones. It skips levels that are hardly better than the one before: that miss more than a share of
// what that misses.
func (g *Graph) pick(all []level, share float32) []level {
	return g.pickBy(all, share, func(l *level) float32 { return l.recall })
}

// pickFirst returns the levels of a column that are to be the first of two stages, cheapest first.
// A few kinds of queries far from all rows may decide the recall of every level, though they go on
// to the second stage. So levels are chosen by the other kinds, too.
func (b *builder) pickFirst(all []level, column int, share float32) []level {
	chosen := b.pick(all, share)
	if !b.stages(column) {
		return chosen
	}
	for _, l := range b.pickBy(all, min(share, stepForHundred), (*level).most) {
		if !slices.ContainsFunc(chosen, func(o level) bool { return o.ef == l.ef && o.stopRatio == l.stopRatio }) {
			chosen = append(chosen, l)
		}
	}
	b.sortByCost(chosen)
	return chosen
}

// hardest is how many kinds most does not count: a quarter of those that nearly all rows have.
const hardest = 6

// most returns the recall that all kinds but the hardest get, of a level of one stage. Kinds with
// few trials count as finding everything.
func (l *level) most() float32 {
	recalls := *l.recalls
	slices.Sort(recalls[:])
	return recalls[hardest]
}

// pickBy is pick by some recall of levels.
func (g *Graph) pickBy(all []level, share float32, recall func(l *level) float32) (chosen []level) {
	g.sortByCost(all)
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

func (g *Graph) sortByCost(levels []level) {
	slices.SortStableFunc(levels, func(a, b level) int {
		return cmp.Or(cmp.Compare(g.cost(&a), g.cost(&b)), cmp.Compare(b.recall, a.recall))
	})
}

// worth reports whether searches with a level of a column cost clearly less than scans of the
// codes: those for the most rows that the column is for, or for the fewest.
func (b *builder) worth(l *level, column int) bool {
	if !b.planned {
		return true
	}
	least := 1
	if column > 0 {
		least = calibrated[column-1] + 1
	}
	n := b.Len()
	for _, k := range [...]int{calibrated[column], least} {
		s := l.setting(k, 1)
		if b.Price(b.Work(s, n), k, false) < worthScan*b.scanPrice(k) {
			return true
		}
	}
	return false
}

// scanPrice returns the price of a scan of the codes for k rows.
func (g *Graph) scanPrice(k int) float64 {
	each, _ := codes.RowPrice(g.Dim(), true)
	return float64(each*float64(g.Len())) + codes.BestPrice(g.Len(), k, g.Dim())
}
