package nearest

import "math"

// A Tally counts how many of the true hits queries found.
type Tally struct {
	queries, wanted, found int
	squares                float64 // of the hits that each query found
	products               float64 // of the hits found and wanted, by query
	wants                  float64 // squares of the hits wanted
}

// Add counts the hits of one query.
func (t *Tally) Add(found, wanted int) {
	if wanted == 0 {
		return
	}
	t.queries, t.wanted, t.found = t.queries+1, t.wanted+wanted, t.found+found
	f, w := float64(found), float64(wanted)
	t.squares += float64(f * f)
	t.products += float64(f * w)
	t.wants += float64(w * w)
}

// halve lets every query counted so far count half, so that what queries find now outweighs what
// they found long ago.
func (t *Tally) halve() {
	t.queries, t.wanted, t.found = t.queries/2, t.wanted/2, t.found/2
	t.squares, t.products, t.wants = t.squares/2, t.products/2, t.wants/2
}

// An Estimate is the share of true hits that queries found, with an interval that holds the mean
// over all such queries. The interval is Wilson's (Journal of the American Statistical Association
// 22, 1927), for the number of hits divided by the design effect (Kish, "Survey Sampling", 1965).
type Estimate struct {
	Queries, Wanted, Found int     // true hits
	Recall, Low, High      float64 // 1 if nothing was wanted
}

// Standard deviations: Usual holds 95 % on both sides, strict leaves out one in
// a thousand on one side.
const (
	Usual  = 1.96
	strict = 3.09
)

// Estimate returns the recall that a tally shows, with an interval of z standard deviations.
func (t *Tally) Estimate(z float64) Estimate {
	e := Estimate{Queries: t.queries, Wanted: t.wanted, Found: t.found, Recall: 1, High: 1}
	if t.wanted == 0 {
		return e
	}
	n := float64(t.wanted)
	p := float64(t.found) / n
	e.Recall = p
	// The variance of a ratio of sums over queries, divided by the variance of
	// independent hits.
	effect := 1.0
	if spread := t.squares - float64(2*p*t.products) + float64(p*p*t.wants); p < 1 && p > 0 && t.queries > 1 {
		m := float64(t.queries)
		effect = max(1, m/(m-1)*spread/(n*p*(1-p)))
	}
	n /= effect
	mid := (p + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	e.Low, e.High = max(0, min(p, mid-half)), min(1, max(p, mid+half))
	return e
}

// Missed counts the rows of truth that got lacks, unless got has other rows
// with scores as good in their place. It calls each, if that is not nil, for
// every row of truth, in order.
func Missed(truth, got []Ranked, each func(r Ranked, found bool)) int {
	if len(truth) == 0 {
		return 0
	}
	worst := truth[len(truth)-1].Score
	have, spare := map[Place]bool{}, 0
	for _, g := range got {
		have[g.Place] = true
		if g.Score >= worst {
			spare++
		}
	}
	for _, r := range truth {
		if have[r.Place] {
			spare--
		}
	}
	missed := 0
	for _, r := range truth {
		found := have[r.Place]
		if !found && spare > 0 {
			spare--
			found = true
		}
		if !found {
			missed++
		}
		if each != nil {
			each(r, found)
		}
	}
	return missed
}
