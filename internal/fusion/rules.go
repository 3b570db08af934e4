package fusion

import (
	"cmp"
	"errors"
	"fmt"
	"math"
)

// A Method is a way to combine ranked lists.
type Method uint8

// The methods.
const (
	// Convex is the sum of weight · scaled score over the lists that have a score for the key.
	Convex Method = iota
	// RRF is the sum of weight / (C + rank) over the lists that have the key, with ranks from 1.
	RRF
)

// String returns "convex" or "rrf".
func (m Method) String() string {
	switch m {
	case Convex:
		return "convex"
	case RRF:
		return "rrf"
	}
	return fmt.Sprintf("fusion(%d)", uint8(m))
}

// Rules say how the two rankings of a hybrid query are combined: the first by vector, the second by
// text. Only the defaults of the weights depend on that.
type Rules struct {
	Method  Method
	Weights [2]float64
	C       float64 // of RRF
	Depth   int     // length of the lists at first
}

// RRFDepth is the usual length of the lists that RRF fuses: ranks beyond it are worth little.
const RRFDepth = 100

// Check returns an error that describes the first value outside its range.
func (r Rules) Check() error {
	positive := func(x float64) bool { return x >= 0 && x <= MaxWeight }
	switch {
	case r.Method > RRF:
		return fmt.Errorf("unknown fusion method %d", r.Method)
	case !positive(r.Weights[0]) || !positive(r.Weights[1]):
		return fmt.Errorf("fusion weights are %v and %v, not between 0 and 1e6", r.Weights[0], r.Weights[1])
	case !positive(r.C):
		return fmt.Errorf("fusion constant is %v, not between 0 and 1e6", r.C)
	case r.Depth < 0 || r.Depth > math.MaxInt32:
		return fmt.Errorf("fusion depth is %d, not between 0 and 2147483647", r.Depth)
	}
	return nil
}

// MaxWeight is the largest weight of a list, and the largest C.
const MaxWeight = 1e6

// CheckWeights returns an error unless every weight is from 0 to MaxWeight, and one is above 0.
func CheckWeights(weights []float64) error {
	most := 0.0
	for i, w := range weights {
		if !(w >= 0 && w <= MaxWeight) {
			return fmt.Errorf("weight of query %d is %v, not between 0 and 1e6", i, w)
		}
		most = max(most, w)
	}
	if most == 0 { // every document would have the same score
		return errors.New("the weights of all queries are 0, but one must be more; without weights, all are 1")
	}
	return nil
}

// WithDefaults returns r with its zero values replaced by the defaults for need wanted hits.
func (r Rules) WithDefaults(need int) Rules {
	if r.Weights == [2]float64{} {
		vector := 0.5
		if r.Method == RRF { // it sees no scores: a weak vector ranking would spoil a good text ranking
			vector = 0.01
		}
		r.Weights = [2]float64{vector, 1 - vector}
	}
	r.C = cmp.Or(r.C, 60)
	usual := RRFDepth
	if r.Method == Convex {
		usual = max(30, 3*need)
	}
	r.Depth = max(cmp.Or(r.Depth, usual), need)
	return r
}

// A Scale maps the scores of a list to [0, 1] for Convex, in the same order. The zero Scale maps
// all scores to 0.
type Scale struct {
	worst, best     float64
	distance, ratio bool
}

// Linear returns the Scale that maps worst, the least possible score, to 0 and best to 1. If best
// is not above worst, it maps all scores to 0.
func Linear(worst, best float64) Scale { return Scale{worst: worst, best: best} }

// Distance returns the Scale of scores that are negative distances and have no least one:
// (1 - best) / (1 - score).
func Distance(best float64) Scale { return Scale{best: best, distance: true} }

// Ratio returns the Scale of scores that are all negative and have no least one: best / score.
func Ratio(best float64) Scale { return Scale{best: best, ratio: true} }

// Of returns the scaled score.
func (s Scale) Of(score float64) float64 {
	switch {
	case s.ratio:
		return s.best / score
	case s.distance:
		return (1 - s.best) / (1 - score)
	case s.best <= s.worst:
		return 0
	}
	return max(0, (score-s.worst)/(s.best-s.worst))
}
