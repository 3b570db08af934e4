package graph

import (
	"cmp"
	"slices"
	"sort"
)

// A search of two stages ends after a narrow one if it has found rows near the query. Otherwise it
// goes on with a wider beam, or an exact scan follows. Queries far from all rows need that: noise,
// sparse vectors, outliers. With one stage for all, most queries would pay for these.
//
// Nothing tells a hard query near the rows, such as a mean of two, from an easy one. So the
// calibration measures the recall of every kind of queries with both stages.
//
// In the quick layout the second stage begins again: a narrow beam refuses, by estimates, rows that
// a wider one wants.

// Parameters of searches of two stages.
const (
	thresholds  = 24  // distances tried at which a search ends with the first stage
	leastStaged = 10  // results of searches that have two stages
	mostStaged  = 100 // likewise
)

// A sample is what a setting did for a trial.
type sample struct {
	found, nodes float32
	dist         float32 // see trial.dist
}

// stages reports whether searches of a column may have two stages: where the trials tell enough to
// choose among thousands of levels. A search for one row finds all or nothing, and midpoints found
// 0.90 where 0.95 was promised. Of most kinds only 13 trials search for 300 rows and more.
func (b *builder) stages(column int) bool {
	return b.planned && calibrated[column] >= leastStaged && calibrated[column] <= mostStaged
}

// samplesOf returns the samples of a column, by trial.
func samplesOf(trials []trial, column int, of func(t *trial) *outcome) []sample {
	all := make([]sample, len(trials))
	for i := range trials {
		o := of(&trials[i])
		all[i] = sample{o.found[column], float32(o.nodes), o.dist[column]}
	}
	return all
}

// A pair is a search of two stages, made of levels of one.
type pair struct {
	first, second *level
	scan          float32 // if there is no second level: the cost of a scan in expansions
	again         bool    // the second begins again
}

// far returns the sample of a trial that needs both stages. Where the second goes on, it finds no
// less than the first.
func (p *pair) far(t int) sample {
	x := p.first.samples[t]
	if p.second == nil {
		return sample{found: 1, nodes: x.nodes + p.scan}
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
func (p *pair) level(within float32) level {
	l := level{ef: p.first.ef, stopRatio: p.first.stopRatio, within: within, pair: p}
	if p.second != nil {
		l.beyond = Stage{p.second.ef, p.second.stopRatio}
	}
	return l
}

// pairs returns the searches of two stages that levels of one can make. The second is wider, or a
// scan.
func (b *builder) pairs(column int, some []level) (all []*pair) {
	scan := b.scanNodes(calibrated[column])
	for i := range some {
		first := &some[i]
		for j := range some {
			if second := &some[j]; i != j && second.ef >= first.ef && second.recall > first.recall {
				all = append(all, &pair{first: first, second: second, again: b.Quick()})
			}
		}
		all = append(all, &pair{first: first, scan: scan})
	}
	return all
}

// scanNodes returns how many expansions cost as much as a scan for k rows.
func (g *Graph) scanNodes(k int) float32 {
	scan := g.scanPrice(k)
	return float32(sort.Search(g.Len(), func(n int) bool {
		return g.Price(g.Work(Setting{EF: n, nodes: float64(n)}, g.Len()), k, false) >= scan
	}))
}

// staged returns levels of two stages with their expansions and least recall. See complete for
// their other figures.
func (b *builder) staged(trials []trial, column int, tried []level) (levels []level) {
	if !b.stages(column) {
		return nil
	}
	horizon := b.head.horizons[column]
	order := make([]int, len(trials))
	for i := range order {
		order[i] = i
	}
	var sorted *level // whose distances order is sorted by
	for _, p := range b.pairs(column, b.pick(tried, coarser)) {
		if near := p.first.samples; sorted != p.first {
			sorted = p.first
			slices.SortFunc(order, func(x, y int) int { // the nearest first
				return cmp.Or(cmp.Compare(near[x].dist, near[y].dist), cmp.Compare(x, y))
			})
		}
		var sums [kinds]moments
		for t := range trials {
			s := p.far(t)
			sums[trials[t].kind].add(float64(s.found), float64(s.nodes), 1)
		}
		for n, t := range order {
			m, far, near := &sums[trials[t].kind], p.far(t), p.first.samples[t]
			if horizon > 0 && near.dist > horizon {
				break
			}
			m.add(float64(far.found), float64(far.nodes), -1)
			m.add(float64(near.found), float64(near.nodes), 1)
			if (n+1)*thresholds/len(order) > n*thresholds/len(order) && near.dist > 0 {
				l := p.level(near.dist)
				l.expect(&sums)
				levels = append(levels, l)
			}
		}
	}
	return levels
}

// complete measures a level of two stages.
func (b *builder) complete(trials []trial, l *level) {
	var sums [kinds]moments
	for t := range trials {
		s := l.pair.first.samples[t]
		if s.dist > l.within {
			s = l.pair.far(t)
		}
		sums[trials[t].kind].add(float64(s.found), float64(s.nodes), 1)
	}
	l.expect(&sums)
	l.measured = measuredOf(&sums)
}

// keep returns the levels to keep, cheapest first. Two stages are for recalls that one gives only
// at the price of a scan. Below, one stage finds as much in less time.
func (b *builder) keep(trials []trial, column int, tried []level) []level {
	chosen := b.pick(tried, finer)
	most := float32(0)
	for i := range chosen {
		if b.worth(&chosen[i], column) {
			most = max(most, chosen[i].recall)
		}
	}
	pairs := slices.DeleteFunc(b.staged(trials, column, tried), func(l level) bool {
		return l.recall <= most || !b.worth(&l, column)
	})
	pairs = b.pick(pairs, finer)
	for i := range pairs {
		b.complete(trials, &pairs[i])
	}
	chosen = append(chosen, pairs[:min(len(pairs), maxLevels-len(chosen))]...)
	b.sortByCost(chosen)
	for i := range chosen {
		chosen[i].samples, chosen[i].pair = nil, nil
	}
	return chosen
}
