package graph

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/synthetic"
	"github.com/vecbolt/vecbolt/simd"
)

// A search of two stages begins with a narrow beam, which is enough for easy queries. For hard ones
// it goes on: with a scan of the sketches of all rows, or in graphs without sketches with a wider
// beam or an exact scan. Two figures tell hard queries: the distance of the rows found, and their
// spread. Noise, sparse vectors and outliers are far from all rows. A mean of two rows has
// neighbours near both, but a narrow beam finds those near one, and these are much nearer to each
// other than to the query.
//
// A third figure is the place of the query itself: see extent. Some hard queries look easy by all.
// So the calibration measures the recall of every kind of queries with both stages.
//
// In the quick layout a wider beam begins again: a narrow one refuses, by estimates, rows that a
// wider one wants.

// Parameters of searches of two stages.
const (
	mostStaged = 100 // results up to which trials choose levels of two stages
	thresholds = 24  // bounds on the distance that the calibration tries
	spreads    = 8   // bounds on the spread that it tries
	spreadRows = 10  // the spread is of this many rows; of more results it tells too little

	// Two stages replace one if queries like the rows gain: see spares.
	fromRecall = 0.8 // least recall of such a level
	mostCost   = 0.7 // most expansions, in parts of the number with one stage
	mostMissed = 0.1 // most that may be missed, in parts of 1 - recall

	// doubt is the share of the misses avoided only by the bound on the distance that counts as
	// missed. The bound is chosen among thousands so that hardly any trial misses, and queries of
	// other kinds may miss at the same distance.
	doubt = 0.1

	// alwaysBeyond is a value of Setting.Within that is less than every distance other than 0, so
	// that all searches have both stages. If the second is a scan of the sketches, the first is
	// left out: see Setting.Scans.
	alwaysBeyond = math.SmallestNonzeroFloat32

	// walkThenScan is such a value too, and keeps the first stage before a scan.
	walkThenScan = 2 * alwaysBeyond

	// atAnyDistance is a value of Setting.Within: the spread alone decides. Such a level states the
	// figures of its first stage, so it serves as one of one stage, too.
	atAnyDistance = math.MaxFloat32

	// Most that watchSpread may raise the expansions of queries like the rows, as a share.
	watching = 0.02
	rarely   = 0.005 // where no trial needs a second stage: extrapolated, see rare
)

// A spreadBuffer is memory of Query.spread.
type spreadBuffer struct {
	nearest simd.CodedVector
	ids     [spreadRows]uint32
	dists   [spreadRows]float32
}

// spread returns the mean squared distance of the nearest row found to the next ones, in parts of
// their mean squared distance to the query. It is about one where rows are all around the query,
// and more in clusters.
func (q *Query) spread(buf *Buffer) float32 {
	found := q.found(buf).rows
	n := min(spreadRows, len(found))
	if n < 2 {
		return 0
	}
	nearest, ids, dists := &buf.spread.nearest, buf.spread.ids[:n-1], buf.spread.dists[:n-1]
	far, apart := 0.0, 0.0
	for i, e := range found[1:n] {
		ids[i] = e.ID &^ simd.Marked
		far += float64(e.Dist)
	}
	q.g.load(nearest, found[0].ID&^simd.Marked)
	q.g.measureL2(dists, nearest, ids)
	for _, d := range dists {
		apart += float64(d)
	}
	if far == 0 { // the rows are the query
		return math.MaxFloat32
	}
	return float32(min(apart/far, math.MaxFloat32))
}

// easy reports whether a search may end with its first stage.
func (q *Query) easy(s *Setting, buf *Buffer) (bool, error) {
	dist, ok := q.found(buf).within(buf.rank)
	if !(ok && dist <= s.Within && (s.Spread == 0 || q.spread(buf) >= s.Spread)) {
		return false, nil
	}
	out, err := q.outlying(buf)
	return !out, err
}

// needsSecondStage reports whether a second stage should follow a search that had none, because it
// is under a filter or has one stage.
func (q *Query) needsSecondStage(s *Setting, allowed bitset.Set, buf *Buffer) (bool, error) {
	switch {
	case s.Within == 0 && s.Spread == 0:
		return false, nil
	case s.Within == 0:
		if q.spread(buf) < s.Spread {
			return true, nil
		}
		return q.outlying(buf)
	case allowed == nil || buf.scanned:
		return false, nil
	}
	easy, err := q.easy(s, buf)
	return !easy, err
}

// A sample is the outcome of a setting for a trial.
type sample struct {
	found, nodes float32
	exact        bool    // the answer would be exact
	dist         float32 // see trial.dist
	spread       float32
}

// stages reports whether the trials of a column choose levels of two stages: where they tell enough
// to choose among thousands. Of most kinds only 13 trials search for 300 rows and more. The levels
// for these have a second stage by watchSpread alone.
func (b *builder) stages(column int) bool {
	return b.planned && calibrated[column] <= mostStaged
}

// samplesOf returns the samples of a column, by trial.
func samplesOf(trials []trial, column int, of func(t *trial) *outcome) []sample {
	all := make([]sample, len(trials))
	for i := range trials {
		all[i] = sampleOf(of(&trials[i]), column)
	}
	return all
}

func sampleOf(o *outcome, column int) sample {
	return sample{o.found[column], float32(o.nodes), o.beyond[column], o.dist[column], o.spread}
}

// A pair is a search of two stages, made of levels of one.
type pair struct {
	first, second *level
	sketches      *sketchScan // if there is no second level: a scan of the sketches,
	scan          float32     // or else one of the rows, with its cost in expansions
	again         bool        // the second begins again
}

// far returns the sample of a trial that needs both stages. Where the second goes on, it finds no
// less than the first.
func (p *pair) far(t int) sample {
	x := p.first.samples[t]
	switch {
	case p.sketches != nil:
		y := p.sketches.samples[t]
		y.nodes += x.nodes
		return y
	case p.second == nil:
		return sample{exact: true, nodes: x.nodes + p.scan}
	}
	y := p.second.samples[t]
	switch {
	case p.again:
		y.nodes += x.nodes
	case y.nodes < x.nodes:
		return x
	}
	return y
}

// level returns the level of a pair, without its figures.
func (p *pair) level(within, spread float32) level {
	l := level{ef: p.first.ef, stopRatio: p.first.stopRatio, within: within, spread: spread, pair: p}
	switch {
	case p.sketches != nil:
		l.beyond = Stage{Deviations: p.sketches.deviations}
	case p.second != nil:
		l.beyond = Stage{EF: p.second.ef, StopRatio: p.second.stopRatio}
	}
	return l
}

// pairs returns the searches of two stages that levels of one can make, with this one first. The
// second is one of the scans of sketches. In graphs without sketches it is a wider walk, or a scan
// of the rows, whose cost is in expansions.
func (b *builder) pairs(first *level, some []level, sketches []sketchScan, scan float32) (all []*pair) {
	for i := range sketches {
		all = append(all, &pair{first: first, sketches: &sketches[i]})
	}
	if sketches != nil {
		return all
	}
	for j := range some {
		if second := &some[j]; second != first && second.ef >= first.ef && second.recall > first.recall {
			all = append(all, &pair{first: first, second: second, again: b.Quick()})
		}
	}
	return append(all, &pair{first: first, scan: scan})
}

// scanNodes returns how many expansions cost as much as a scan for k rows.
func (g *Graph) scanNodes(k int) float32 { return g.nodesFor(g.scanPrice(k), k) }

// nodesFor returns how many expansions of a search for k rows have a price.
func (g *Graph) nodesFor(price float64, k int) float32 {
	return float32(sort.Search(g.Len(), func(n int) bool {
		return g.Price(g.Work(Setting{EF: n, nodes: float64(n)}, g.Len()), k, false) >= price
	}))
}

// A wantedFunc reports whether a level of two stages is worth keeping. found is the mean recall of
// queries like the rows.
type wantedFunc func(l *level, found float32) bool

// staged returns the levels of two stages that are wanted, with their expansions and least recall.
// The second stage is one of the scans of sketches, if there are any. See complete for their other
// figures.
func (b *builder) staged(trials []trial, column int, tried []level, sketches []sketchScan,
	wanted wantedFunc) ([]level, error) {
	some, scan := b.pickFirst(tried, column, stepToConfirm), b.scanNodes(calibrated[column])
	byFirst := make([][]level, len(some))
	err := b.each(len(some), func(_ *workerScratch, i int) error {
		byFirst[i] = b.stagedFrom(trials, column, b.pairs(&some[i], some, sketches, scan), wanted)
		return nil
	})
	return slices.Concat(byFirst...), err
}

// stagedFrom is staged for pairs with the same first level.
func (b *builder) stagedFrom(trials []trial, column int, pairs []*pair,
	wanted wantedFunc) (levels []level) {
	if len(pairs) == 0 {
		return nil
	}
	horizon := b.head.horizons[column]
	near := pairs[0].first.samples
	order := make([]int, len(near))
	bounds := make([]float32, len(near)) // on the spread
	for i, s := range near {
		order[i], bounds[i] = i, s.spread
	}
	slices.SortFunc(order, func(x, y int) int { // the nearest first
		return cmp.Or(cmp.Compare(near[x].dist, near[y].dist), cmp.Compare(x, y))
	})
	slices.Sort(bounds)
	leasts := []float32{0} // without a bound
	for i := 1; i < spreads && calibrated[column] <= spreadRows; i++ {
		leasts = append(leasts, bounds[i*len(bounds)/spreads])
	}
	missed := make([]float32, len(leasts)) // without a bound on the distance
	for i, least := range leasts {
		missed[i] = missedBySpread(trials, near, horizon, least)
	}
	far := make([]sample, len(near))
	for _, p := range pairs {
		var all [synthetic.Kinds]moments // with both stages
		for t := range trials {
			far[t] = p.far(t)
			all[trials[t].kind].add(far[t], 1)
		}
		if p.sketches == nil { // without a bound: see sketchScan.level
			l := p.level(alwaysBeyond, 0)
			if l.expect(&all); wanted(&l, float32(all[synthetic.LikeRows].recall())) {
				levels = append(levels, l)
			}
		}
		for i, least := range leasts {
			sums := all
			var nears [synthetic.Kinds]moments // of the trials that end with the first stage
			for n, t := range order {
				if horizon > 0 && near[t].dist > horizon {
					break
				}
				if near[t].spread >= least {
					m := &sums[trials[t].kind]
					m.add(far[t], -1)
					m.add(near[t], 1)
					nears[trials[t].kind].add(near[t], 1)
				}
				if (n+1)*thresholds/len(order) > n*thresholds/len(order) && near[t].dist > 0 {
					l := p.level(near[t].dist, least)
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
func (l *level) endEarly(nears *[synthetic.Kinds]moments) {
	l.recall = min(l.recall, earlyRecall(nears), 1-float32(doubt*l.unbounded))
}

// earlyRecall returns what trials find that end with the first stage, of the kind that finds least.
func earlyRecall(nears *[synthetic.Kinds]moments) float32 {
	least := float32(1)
	for k := range nears {
		m := &nears[k]
		least = min(least, float32(1+(m.sum-m.walked)/max(m.walked, fewest)))
	}
	return least
}

// missedBySpread returns what trials miss that end with the first stage by a bound on the spread
// alone, of the kind that misses most.
func missedBySpread(trials []trial, near []sample, horizon, least float32) float32 {
	var nears [synthetic.Kinds]moments
	for t, s := range near {
		if s.spread >= least && !(horizon > 0 && s.dist > horizon) {
			nears[trials[t].kind].add(s, 1)
		}
	}
	return 1 - earlyRecall(&nears)
}

// complete measures a level of two stages.
func (b *builder) complete(trials []trial, l *level) {
	var sums, nears [synthetic.Kinds]moments
	for t := range trials {
		s := l.pair.first.samples[t]
		if s.dist > l.within || s.spread < l.spread {
			s = l.pair.far(t)
		} else {
			nears[trials[t].kind].add(s, 1)
		}
		sums[trials[t].kind].add(s, 1)
	}
	l.expect(&sums)
	l.endEarly(&nears)
	l.measured = measuredOf(&sums)
}

// keep returns the levels to keep, cheapest first. Levels of two stages are kept for recalls that
// one stage reaches only at the price of a scan, and where queries like the rows take no longer.
// The second stage is a scan of the sketches, because that also finds rows that no walk meets, as
// those near the other parent of a midpoint. A wider walk would often take less, but it stays in
// one group of rows, and no kind of trials has all queries between groups. It is the second stage
// only in graphs without sketches, where it saves much of the work: see spares. Levels of one stage
// scan where the rows found lie close together: see watchSpread. Under a mild filter, the walk
// decides as without one: see FilterOf.
func (b *builder) keep(trials []trial, column int, tried []level) ([]level, error) {
	chosen := b.pick(tried, stepKept)
	sketches := b.sketchScans(trials, column)
	if b.stages(column) {
		better := (*level).noDearer
		if sketches == nil {
			better = (*level).spares
		}
		var err error
		if chosen, err = b.extend(trials, column, chosen, tried, sketches, better); err != nil {
			return nil, err
		}
	}
	if sketches != nil {
		for i := range chosen {
			b.watchSpread(trials, &chosen[i], sketches)
		}
	}
	if b.stages(column) {
		for i := range sketches {
			if l := sketches[i].level(trials); l.recall >= fromRecall && b.worth(&l, column) {
				chosen = append(chosen, l)
			}
		}
		b.sortByCost(chosen)
	}
	for i := range chosen {
		chosen[i].samples, chosen[i].recalls, chosen[i].pair = nil, nil, nil
	}
	return chosen, nil
}

// watchSpread makes searches go on to the second stage where the rows found lie closer together
// than for nearly all queries like the rows: they may be of one group, though the query lies
// between several. No kind of trials has all pairs of small groups, so the recall of kinds does not
// choose this bound. It is the greatest one that leaves queries like the rows nearly as few
// expansions as before. A level of one stage gets a scan of the sketches as the second. No level
// promises more than before, and none less: a scan keeps the rows of the walk before it, also where
// trials say less, which count what a scan finds alone.
func (b *builder) watchSpread(trials []trial, l *level, sketches []sketchScan) {
	watched := *l
	if l.within == 0 {
		at := slices.IndexFunc(sketches, func(s sketchScan) bool {
			o := s.level(trials)
			return o.recall >= l.recall
		})
		if at < 0 {
			at = len(sketches) - 1
		}
		first := *l
		watched.within, watched.pair = atAnyDistance, &pair{first: &first, sketches: &sketches[at]}
		watched.beyond = Stage{Deviations: sketches[at].deviations}
	}
	if watched.spread = watched.affordable(trials); watched.spread <= l.spread {
		return
	}
	if l.within > 0 {
		b.complete(trials, &watched)
		watched.recall = l.recall
	}
	*l = watched
}

// An ending is a search that ends with the first stage: its spread, and the expansions of a second.
type ending struct{ spread, more float32 }

// affordable returns the greatest bound on the spread of a level of two stages that raises the
// expansions of queries like the rows by no more than a share, 0 if there is none: see watching.
func (l *level) affordable(trials []trial) float32 {
	var ended []ending
	rows := float32(0)
	for t := range trials {
		if trials[t].kind != synthetic.LikeRows {
			continue
		}
		rows++
		if s := l.pair.first.samples[t]; s.dist <= l.within && s.spread >= l.spread && !s.exact {
			ended = append(ended, ending{s.spread, l.pair.far(t).nodes - s.nodes})
		}
	}
	slices.SortFunc(ended, func(x, y ending) int { return cmp.Compare(x.spread, y.spread) })
	bound, left := float32(0), float32(watching*l.usual*rows)
	for i, s := range ended { // a search whose spread is the bound itself does not go on
		if left -= s.more; left < 0 {
			if i == 0 {
				return rare(ended, float32(rarely*l.usual*rows))
			}
			break
		}
		bound = s.spread
	}
	return bound
}

// rare extrapolates a bound below the spreads of all trials, which are in order: least² / n-th. A
// second stage takes n times the expansions that all trials together have left, so one trial in n
// times their number may have one. If the number of trials with a spread below s grows as a power
// of s, that many are below the bound. What lies between groups of few rows is far below it. 0:
// there are fewer than n trials, which say too little.
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
type betterFunc func(l *level, found float32, chosen []level) bool

// extend adds levels of two stages to those chosen: the ones that are better, or that reach a
// recall which nothing chosen gives for less than a scan.
func (b *builder) extend(trials []trial, column int, chosen, tried []level, sketches []sketchScan,
	better betterFunc) ([]level, error) {
	most := float32(0)
	for i := range chosen {
		if b.worth(&chosen[i], column) {
			most = max(most, chosen[i].recall)
		}
	}
	pairs, err := b.staged(trials, column, tried, sketches, func(l *level, found float32) bool {
		return (l.recall > most || l.recall >= fromRecall && better(l, found, chosen)) && b.worth(l, column)
	})
	if err != nil {
		return nil, err
	}
	pairs = b.pick(pairs, stepKept)
	for i := range pairs {
		b.complete(trials, &pairs[i])
	}
	chosen = append(chosen, pairs[:min(len(pairs), mostPicked-len(chosen))]...)
	b.sortByCost(chosen)
	return chosen, nil
}

// spares reports whether a level of two stages is better for queries like the rows than the first
// level of one stage with the same recall: it takes clearly fewer expansions, and misses hardly any
// rows, or no more than that one. found is its recall for these queries.
func (l *level) spares(found float32, one []level) bool {
	return l.beats(mostCost, found, one)
}

// noDearer reports whether a level with a scan of the sketches takes no more expansions than the
// first one chosen with the same recall, for queries like the rows, and finds as much of them.
func (l *level) noDearer(found float32, chosen []level) bool {
	return l.beats(1, found, chosen)
}

// beats is spares with a share of the expansions.
func (l *level) beats(share, found float32, chosen []level) bool {
	i := slices.IndexFunc(chosen, func(o level) bool { return o.recall >= l.recall })
	return i >= 0 && l.usual <= share*chosen[i].usual &&
		(1-found <= mostMissed*(1-l.recall) || found >= chosen[i].measured.recall[synthetic.LikeRows])
}
