package fusion

import "math"

// A doubt describes what may be wrong about the best candidates. The zero doubt means that they
// are certain.
type doubt struct {
	rivals bool    // other keys may be better
	most   float64 // upper bound of their scores
	rough  bool    // some scores are only lower bounds
}

// rival adds keys outside the best with scores of at most most.
func (d *doubt) rival(most float64) {
	if !d.rivals || most > d.most {
		d.rivals, d.most = true, most
	}
}

// none reports whether the hits and their scores are certain. A rival with the score of the last
// hit counts, because its name may be smaller.
func (d *doubt) none(bar float64) bool { return !d.rough && (!d.rivals || d.most < bar) }

// bar is the score that a key needs to be among the hits.
func (f *fuser[K]) bar(hits []scored) float64 {
	switch {
	case len(hits) >= f.K:
		return hits[len(hits)-1].score
	case f.Least != nil:
		return *f.Least
	}
	return math.Inf(-1)
}

// kept returns the share of the true result that hits certainly has.
func (f *fuser[K]) kept(hits []scored, d doubt) float64 {
	if !d.rivals {
		return 1
	}
	sure := 0
	for sure < len(hits) && hits[sure].score > d.most {
		sure++
	}
	return float64(sure) / float64(max(1, min(f.K, f.Matched)))
}

// doubt returns the uncertainty about the best candidates.
func (f *fuser[K]) doubt(hits []scored) doubt {
	d := doubt{}
	if !f.whole() {
		d.rival(f.unseen())
	}
	if f.Method == Convex { // all scores are known
		return d
	}
	chosen := f.chosen(hits)
	for i := range f.all {
		switch most := f.most(i); {
		case most == f.all[i].score:
		case chosen[i]:
			d.rough = true
		default:
			d.rival(most)
		}
	}
	return d
}

// chosen returns, for each candidate, whether it is among the hits.
func (f *fuser[K]) chosen(hits []scored) []bool {
	chosen := make([]bool, len(f.all))
	for _, h := range hits {
		chosen[h.at] = true
	}
	return chosen
}

// whole reports whether every entry of every list is known.
func (f *fuser[K]) whole() bool {
	for i := range f.lists {
		if !f.lists[i].whole {
			return false
		}
	}
	return true
}

// unseen returns an upper bound of the score of a key in no list. It uses the operations of rank,
// and rounding is monotonic, so it bounds the very bits of the score.
func (f *fuser[K]) unseen() (sum float64) {
	for i, l := range f.lists {
		sum += f.worth(i, l.beyond())
	}
	return sum
}

// beyond returns the best leg that a key outside the known entries can have.
func (l *list) beyond() Leg {
	if l.whole {
		return Leg{}
	}
	return Leg{Rank: l.depth + 1, Score: l.ceiling, Scored: true}
}

// most returns an upper bound of the score of a candidate.
func (f *fuser[K]) most(i int) (sum float64) {
	h := &f.all[i]
	for l, leg := range f.legsOf(i) {
		absent := h.completed && f.Lists[l].Score != nil && !leg.Scored
		if leg.Rank == 0 && !absent {
			leg = f.lists[l].beyond()
		}
		sum += f.worth(l, leg)
	}
	return sum
}
