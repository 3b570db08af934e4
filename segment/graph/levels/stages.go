package levels

import (
	"cmp"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/synthetic"
)

// Parameters of levels of two stages.
const (
	MostStaged = 100 // results up to which trials choose levels of two stages
	thresholds = 24  // bounds on the distance that are tried
	spreads    = 8   // bounds on the spread that are tried

	// Two stages replace one if queries like the rows gain: see spares.
	fromRecall = 0.8 // least recall of such a level
	mostCost   = 0.7 // most expansions, in parts of the number with one stage
	mostMissed = 0.1 // most that may be missed, in parts of 1 - recall

	// doubt is the share of the misses avoided only by the bound on the distance that counts as
	// missed. The bound is chosen among thousands so that hardly any trial misses, and queries of
	// other kinds may miss at the same distance.
	doubt = 0.1

	// Most that watchSpread may raise the expansions of queries like the rows, as a share.
	watching = 0.02
	rarely   = 0.005 // where no trial needs a second stage: extrapolated, see rare
)

// stages reports whether the trials of a column choose levels of two stages: where they tell enough
// to choose among thousands. Of most kinds only 13 trials search for 300 rows and more. The levels
// for these have a second stage by watchSpread alone.
func (c *Chooser) stages() bool {
	return c.Planned && c.results() <= MostStaged
}

// A pair is a search of two stages, made of levels of one.
type pair struct {
	first, second *Candidate
	sketches      *Scan   // if there is no second level: a scan of the sketches,
	scan          float32 // or else one of the rows, with its cost in expansions
	again         bool    // the second begins again
}

// far returns the sample of a trial that needs both stages. Where the second goes on, it finds no
// less than the first.
func (p *pair) far(t int) Sample {
	x := p.first.samples[t]
	switch {
	case p.sketches != nil:
		y := p.sketches.Samples[t]
		y.Nodes += x.Nodes
		return y
	case p.second == nil:
		return Sample{Exact: true, Nodes: x.Nodes + p.scan}
	}
	y := p.second.samples[t]
	switch {
	case p.again:
		y.Nodes += x.Nodes
	case y.Nodes < x.Nodes:
		return x
	}
	return y
}

// level returns the level of a pair, without its figures.
func (p *pair) level(within, spread float32) Candidate {
	l := Candidate{Level: Level{EF: p.first.EF, StopRatio: p.first.StopRatio, Within: within, Spread: spread}, pair: p}
	switch {
	case p.sketches != nil:
		l.Second = Stage{Deviations: p.sketches.Deviations}
	case p.second != nil:
		l.Second = Stage{EF: p.second.EF, StopRatio: p.second.StopRatio}
	}
	return l
}

// pairs returns the searches of two stages that levels of one can make, with this one first. The
// second is one of the scans of sketches. In graphs without sketches it is a wider walk, or a scan
// of the rows, whose cost is in expansions.
func (c *Chooser) pairs(first *Candidate, some []Candidate, scan float32) (all []*pair) {
	for i := range c.SketchScans {
		all = append(all, &pair{first: first, sketches: &c.SketchScans[i]})
	}
	if c.SketchScans != nil {
		return all
	}
	for j := range some {
		if second := &some[j]; second != first && second.EF >= first.EF && second.Recall > first.Recall {
			all = append(all, &pair{first: first, second: second, again: c.Again})
		}
	}
	return append(all, &pair{first: first, scan: scan})
}

// A wantedFunc reports whether a level of two stages is worth keeping. found is the mean recall of
// queries like the rows.
type wantedFunc func(l *Candidate, found float32) bool

// staged returns the levels of two stages that are wanted, with their expansions and least recall.
// The second stage is one of the scans of sketches, if there are any. See complete for their other
// figures.
func (c *Chooser) staged(tried []Candidate, wanted wantedFunc) ([]Candidate, error) {
	some, scan := c.pickFirst(tried, stepToConfirm), c.ScanNodes()
	byFirst := make([][]Candidate, len(some))
	err := c.Each(len(some), func(i int) error {
		byFirst[i] = c.stagedFrom(c.pairs(&some[i], some, scan), wanted)
		return nil
	})
	return slices.Concat(byFirst...), err
}

// stagedFrom is staged for pairs with the same first level.
func (c *Chooser) stagedFrom(pairs []*pair, wanted wantedFunc) (levels []Candidate) {
	if len(pairs) == 0 {
		return nil
	}
	near := pairs[0].first.samples
	order := make([]int, len(near))
	bounds := make([]float32, len(near)) // on the spread
	for i, s := range near {
		order[i], bounds[i] = i, s.Spread
	}
	slices.SortFunc(order, func(x, y int) int { // the nearest first
		return cmp.Or(cmp.Compare(near[x].Dist, near[y].Dist), cmp.Compare(x, y))
	})
	slices.Sort(bounds)
	leasts := []float32{0} // without a bound
	for i := 1; i < spreads && c.results() <= SpreadRows; i++ {
		leasts = append(leasts, bounds[i*len(bounds)/spreads])
	}
	missed := make([]float32, len(leasts)) // without a bound on the distance
	for i, least := range leasts {
		missed[i] = c.missedBySpread(near, least)
	}
	far := make([]Sample, len(near))
	for _, p := range pairs {
		var all [synthetic.Kinds]moments // with both stages
		for t, kind := range c.Kinds {
			far[t] = p.far(t)
			all[kind].add(far[t], 1)
		}
		if p.sketches == nil { // without a bound: see Chooser.level
			l := p.level(AlwaysBeyond, 0)
			if l.expect(&all); wanted(&l, float32(all[synthetic.LikeRows].recall())) {
				levels = append(levels, l)
			}
		}
		for i, least := range leasts {
			sums := all
			var nears [synthetic.Kinds]moments // of the trials that end with the first stage
			for n, t := range order {
				if near[t].Exact { // with both stages, too
					continue
				}
				if near[t].Spread >= least {
					m := &sums[c.Kinds[t]]
					m.add(far[t], -1)
					m.add(near[t], 1)
					nears[c.Kinds[t]].add(near[t], 1)
				}
				if (n+1)*thresholds/len(order) > n*thresholds/len(order) && near[t].Dist > 0 {
					l := p.level(near[t].Dist, least)
					l.unbounded = missed[i]
					l.expect(&sums)
					if l.endEarly(&nears); wanted(&l, float32(sums[synthetic.LikeRows].recall())) {
						levels = append(levels, l)
					}
				}
			}
		}
	}
	return levels
}

// endEarly lowers the recall of a level of two stages to what trials find that end with the first.
// A stream of such queries has no others that went on and found more. A level also promises less
// the more trials would miss without its bound on the distance: see doubt.
func (l *Candidate) endEarly(nears *[synthetic.Kinds]moments) {
	l.Recall = min(l.Recall, earlyRecall(nears), 1-float32(doubt*l.unbounded))
}

// earlyRecall returns what trials find that end with the first stage, of the kind that finds least.
func earlyRecall(nears *[synthetic.Kinds]moments) float32 {
	least := float32(1)
	for k := range nears {
		m := &nears[k]
		least = min(least, float32(1+(m.sum-m.walked)/max(m.walked, Fewest)))
	}
	return least
}

// missedBySpread returns what trials miss that end with the first stage by a bound on the spread
// alone, of the kind that misses most.
func (c *Chooser) missedBySpread(near []Sample, least float32) float32 {
	var nears [synthetic.Kinds]moments
	for t, s := range near {
		if s.Spread >= least { // exact answers miss nothing
			nears[c.Kinds[t]].add(s, 1)
		}
	}
	return 1 - earlyRecall(&nears)
}

// complete measures a level of two stages.
func (c *Chooser) complete(l *Candidate) {
	var sums, nears [synthetic.Kinds]moments
	for t := range c.Kinds {
		s := l.pair.first.samples[t]
		if s.Dist > l.Within || s.Spread < l.Spread {
			s = l.pair.far(t)
		} else {
			nears[c.Kinds[t]].add(s, 1)
		}
		sums[c.Kinds[t]].add(s, 1)
	}
	l.expect(&sums)
	l.endEarly(&nears)
	l.Measured = measuredOf(&sums)
}

// Keep returns the levels to keep of those tried, cheapest first. Levels of two stages are kept for
// recalls that one stage reaches only at the price of a scan, and where queries like the rows take
// no longer. The second stage is a scan of the sketches, because that also finds rows that no walk
// meets, as those near the other parent of a midpoint. A wider walk would often take less, but it
// stays in one group of rows, and no kind of trials has all queries between groups. It is the
// second stage only in graphs without sketches, where it saves much of the work: see spares. Levels
// of one stage scan where the rows found lie close together: see watchSpread. Under a mild filter,
// the walk decides as without one: see FilterOf.
func (c *Chooser) Keep(tried []Candidate) ([]Level, error) {
	chosen := c.pick(tried, Step)
	if c.stages() {
		better := (*Candidate).noDearer
		if c.SketchScans == nil {
			better = (*Candidate).spares
		}
		var err error
		if chosen, err = c.extend(chosen, tried, better); err != nil {
			return nil, err
		}
	}
	if c.SketchScans != nil {
		for i := range chosen {
			c.watchSpread(&chosen[i])
		}
	}
	if c.stages() {
		for i := range c.SketchScans {
			if l := c.level(&c.SketchScans[i]); l.Recall >= fromRecall && c.Worth(&l.Level) {
				chosen = append(chosen, l)
			}
		}
		c.sortByCost(chosen)
	}
	var kept []Level
	for i := range chosen {
		kept = append(kept, chosen[i].Level)
	}
	return kept, nil
}

// watchSpread makes searches go on to the second stage where the rows found lie closer together
// than for nearly all queries like the rows: they may be of one group, though the query lies
// between several. No kind of trials has all pairs of small groups, so the recall of kinds does not
// choose this bound. It is the greatest one that leaves queries like the rows nearly as few
// expansions as before. A level of one stage gets a scan of the sketches as the second. No level
// promises more than before. None promises less: a scan keeps the rows of the walk before it, which
// the trials of scans do not count.
func (c *Chooser) watchSpread(l *Candidate) {
	watched := *l
	if l.Within == 0 {
		at := slices.IndexFunc(c.SketchScans, func(s Scan) bool { return c.level(&s).Recall >= l.Recall })
		if at < 0 {
			at = len(c.SketchScans) - 1
		}
		first := *l
		watched.Within, watched.pair = AtAnyDistance, &pair{first: &first, sketches: &c.SketchScans[at]}
		watched.Second = Stage{Deviations: c.SketchScans[at].Deviations}
	}
	if watched.Spread = c.spreadBound(&watched); watched.Spread <= l.Spread {
		return
	}
	if l.Within > 0 {
		c.complete(&watched)
		watched.Recall = l.Recall
	}
	*l = watched
}

// An ending is a search that ends with the first stage: its spread, and the expansions of a second.
type ending struct{ spread, more float32 }

// spreadBound returns the greatest bound on the spread of a level of two stages that raises the
// expansions of queries like the rows by no more than a share, 0 if there is none: see watching.
func (c *Chooser) spreadBound(l *Candidate) float32 {
	var ended []ending
	rows := float32(0)
	for t := range c.Kinds {
		if c.Kinds[t] != synthetic.LikeRows {
			continue
		}
		rows++
		if s := l.pair.first.samples[t]; s.Dist <= l.Within && s.Spread >= l.Spread && !s.Exact {
			ended = append(ended, ending{s.Spread, l.pair.far(t).Nodes - s.Nodes})
		}
	}
	slices.SortFunc(ended, func(x, y ending) int { return cmp.Compare(x.spread, y.spread) })
	bound, left := float32(0), float32(watching*l.UsualNodes*rows)
	for i, s := range ended { // a search whose spread is the bound itself does not go on
		if left -= s.more; left < 0 {
			if i == 0 {
				return rare(ended, float32(rarely*l.UsualNodes*rows))
			}
			break
		}
		bound = s.spread
	}
	return bound
}

// rare returns a bound below the spreads of all trials, which are in order, by a power law through
// the least and the n-th: least² / n-th. A second stage takes n times the expansions that all
// trials together have left, so one trial in n times their number may have one. If the number of
// trials with a spread below s grows as a power of s, that many are below the bound. Queries
// between groups of few rows are far below it. 0: there are fewer than n trials, which say too
// little.
func rare(ended []ending, left float32) float32 {
	n := math.Ceil(float64(ended[0].more / left))
	if !(n <= float64(len(ended))) {
		return 0
	}
	least, other := ended[0].spread, ended[int(n)-1].spread
	if other == 0 {
		return 0
	}
	return least * (least / other)
}

// A betterFunc reports whether a level of two stages is better than those chosen, cheapest first.
// found is its recall for queries like the rows.
type betterFunc func(l *Candidate, found float32, chosen []Candidate) bool

// extend adds levels of two stages to those chosen: the ones that are better, or that reach a
// recall which nothing chosen gives for less than a scan.
func (c *Chooser) extend(chosen, tried []Candidate, better betterFunc) ([]Candidate, error) {
	most := float32(0)
	for i := range chosen {
		if c.Worth(&chosen[i].Level) {
			most = max(most, chosen[i].Recall)
		}
	}
	pairs, err := c.staged(tried, func(l *Candidate, found float32) bool {
		return (l.Recall > most || l.Recall >= fromRecall && better(l, found, chosen)) && c.Worth(&l.Level)
	})
	if err != nil {
		return nil, err
	}
	pairs = c.pick(pairs, Step)
	for i := range pairs {
		c.complete(&pairs[i])
	}
	chosen = append(chosen, pairs[:min(len(pairs), mostPicked-len(chosen))]...)
	c.sortByCost(chosen)
	return chosen, nil
}

// spares reports whether a level of two stages is better for queries like the rows than the first
// level of one stage with the same recall: it takes clearly fewer expansions, and misses hardly any
// rows, or no more than that one. found is its recall for these queries.
func (l *Candidate) spares(found float32, one []Candidate) bool {
	return l.beats(mostCost, found, one)
}

// noDearer reports whether a level with a scan of the sketches takes no more expansions than the
// first one chosen with the same recall, for queries like the rows, and finds as much of them.
func (l *Candidate) noDearer(found float32, chosen []Candidate) bool {
	return l.beats(1, found, chosen)
}

// beats is spares with a share of the expansions.
func (l *Candidate) beats(share, found float32, chosen []Candidate) bool {
	i := slices.IndexFunc(chosen, func(o Candidate) bool { return o.Recall >= l.Recall })
	return i >= 0 && l.UsualNodes <= share*chosen[i].UsualNodes &&
		(1-found <= mostMissed*(1-l.Recall) || found >= chosen[i].Measured.Recall[synthetic.LikeRows])
}
