package fusion

import (
	"cmp"
	"math"
	"slices"
)

// deepen looks at more entries and reports whether it did.
func (f *fuser[K]) deepen(hits []scored, bar float64) (bool, error) {
	switch {
	case f.Method == Convex:
		return f.deepenConvex(bar)
	case !f.Thorough:
		return false, nil
	case f.ranksAll() && (f.whole() || f.unseen() < bar):
		return true, f.ranks(hits, bar)
	case f.Longer == nil:
		return false, nil
	}
	longer, err := f.Longer()
	if err != nil {
		return false, err
	}
	for i, r := range longer {
		f.take(i, r)
	}
	return longer != nil, nil
}

// ranksAll reports whether every list can find ranks.
func (f *fuser[K]) ranksAll() bool {
	return !slices.ContainsFunc(f.Lists, func(l List[K]) bool { return l.Ranks == nil })
}

// ranks finds the true ranks of the candidates that may be among the best.
func (f *fuser[K]) ranks(hits []scored, bar float64) error {
	chosen := f.chosen(hits)
	unknown := make([][]int, len(f.lists)) // by list: indexes in f.all
	for i := range f.all {
		if most := f.most(i); most == f.all[i].score || most < bar && !chosen[i] {
			continue
		}
		if err := f.complete(i); err != nil {
			return err
		}
		for l, leg := range f.legsOf(i) {
			if leg.Rank == 0 && leg.Scored {
				unknown[l] = append(unknown[l], i)
			}
		}
	}
	for l, of := range unknown {
		if len(of) == 0 {
			continue
		}
		entries := make([]Entry[K], len(of))
		for j, i := range of {
			entries[j] = Entry[K]{Key: f.all[i].key, Score: f.legsOf(i)[l].Score}
		}
		ranks, err := f.Lists[l].Ranks(entries)
		if err != nil {
			return err
		}
		for j, i := range of {
			f.legsOf(i)[l].Rank = ranks[j]
		}
	}
	return nil
}

// deepenConvex extends the second list, which is cheap, as far as the bar demands. If that is not
// enough, it reads the first list as a whole, and the second one once more.
func (f *fuser[K]) deepenConvex(bar float64) (bool, error) {
	all, above := f.Lists[0].All, f.Lists[1].Above
	if all == nil || above == nil || f.deeper && (!f.Thorough || f.lists[0].whole) {
		return false, nil
	}
	// A key with a lower score in the second list cannot be among the best, even with the best
	// score outside the known entries of the first.
	least := math.Inf(-1)
	if second := &f.Lists[1]; !math.IsInf(bar, -1) && second.Weight > 0 {
		least = (bar - f.worth(0, f.lists[0].beyond())) / second.Weight * second.Scale.best * (1 - 1e-9)
	}
	if !f.lists[1].whole && !f.deeper && (least > 0 || f.lists[0].whole) {
		f.deeper = true
		return true, f.readAbove(max(0, least))
	}
	if !f.Thorough || f.lists[0].whole {
		return false, nil
	}
	f.deeper = false
	return true, f.readAll()
}

// readAbove looks at the entries of the second list with at least the score least: at all of them,
// or at a reasonable number.
func (f *fuser[K]) readAbove(least float64) error {
	limit := f.Matched
	if !f.Thorough {
		limit = min(limit, f.Texts)
	}
	found, err := f.Lists[1].Above(least, limit)
	if err != nil {
		return err
	}
	for _, e := range found {
		leg := &f.legsOf(f.find(e.Key))[1]
		leg.Score, leg.Scored = e.Score, true
	}
	l := &f.lists[1]
	if limit == f.Matched || len(found) < limit { // these are all of them
		l.ceiling, l.whole = least, least == 0
		return nil
	}
	slices.SortFunc(found, func(a, b Entry[K]) int { return cmp.Compare(b.Score, a.Score) })
	l.ceiling = found[limit-1].Score
	return nil
}

// readAll adds every key of the first list with its scores.
func (f *fuser[K]) readAll() error {
	if err := f.Lists[0].All(func(key K) { f.find(key) }); err != nil {
		return err
	}
	for i := range f.all { // before the list counts as whole, because complete then skips it
		if err := f.complete(i); err != nil {
			return err
		}
	}
	f.lists[0].whole = true
	return nil
}
