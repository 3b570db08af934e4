package graph

import (
	"slices"
	"sync"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/synthetic"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
)

// calibrate measures the recall of searches for a sample of the rows, and for out-of-distribution
// queries that are made of rows. A search for a row leaves out that row, and bridges it if it has
// no duplicates, so that the search does not pass through it.
func (b *builder) calibrate(rows codes.Source) error {
	trials, err := b.trials(rows)
	if err != nil {
		return err
	}
	var mu sync.Mutex // rows must not be called concurrently
	score := func(t *trial, row uint32) (float64, error) {
		mu.Lock()
		defer mu.Unlock()
		x, err := rows(int(row), int(row)+1)
		if err != nil {
			return 0, err
		}
		return b.score(t, x, b.norm(x)), nil
	}
	if b.head.ident.Metric == fileformat.Dot {
		if err := b.findHorizons(trials, score); err != nil {
			return err
		}
	} else {
		b.setHorizons(trials)
	}
	if err := b.measureWork(trials); err != nil {
		return err
	}
	if err := b.scanTrials(trials, score); err != nil {
		return err
	}
	var kept [levels.Columns][]levels.Level
	var margins [levels.Columns]float32
	for _, columns := range [...][]int{{0, 1}, {2}, {3}, {4}} { // columns with the same rank share their searches
		if columns[0] >= levels.ColumnsFor(b.Len()) {
			break
		}
		if err := b.tabulate(trials, columns, score, &kept, &margins); err != nil {
			return err
		}
		for _, c := range columns {
			if b.hopeless[c] {
				kept[c] = nil
			}
		}
		b.Table = levels.NewTable(kept)
	}
	for c, most := range margins {
		if most <= levels.MaxFactor {
			b.head.margins[c] = most
		}
	}
	return nil
}

// tabulate measures the levels of these columns, whose searches are the same, and the margins.
func (b *builder) tabulate(all []trial, columns []int, score scoreFunc, kept *[levels.Columns][]levels.Level,
	margins *[levels.Columns]float32) error {
	trials := b.trialsFor(all, columns)
	s := b.newSweep(trials, columns, score)
	for ; len(s.efs) > 0 && s.least < levels.Enough && s.vain < mostVain; s.turn++ {
		if err := s.round(); err != nil {
			return err
		}
	}
	if b.sifts {
		if err := b.confirm(trials, columns, score, &s.tried); err != nil {
			return err
		}
	}
	if columns[0] == levels.BaseColumns-1 {
		b.easy = levels.EasyKinds(s.tried[columns[0]])
	}
	for _, c := range columns {
		var err error
		if kept[c], err = b.chooser(trials, c).Keep(s.tried[c]); err != nil {
			return err
		}
		for i := range trials {
			margins[c] = max(margins[c], trials[i].margin[c])
		}
	}
	return nil
}

// trialsFor returns the trials that measure these columns. Many results take long, and say much
// about a kind: of easy ones half of the trials are enough.
func (b *builder) trialsFor(all []trial, columns []int) []trial {
	k := levels.Results[columns[len(columns)-1]]
	trials := slices.DeleteFunc(slices.Clone(all), func(t trial) bool { return t.most < k || b.outside(&t, columns) })
	if columns[0] < levels.BaseColumns {
		return trials
	}
	var n [synthetic.Kinds]int
	for i := range trials {
		n[trials[i].kind]++
	}
	return oneIn(2, trials, func(k synthetic.Kind) bool { return b.easy[k] && n[k] >= 2*levels.Fewest })
}

// tryEvery: where levels are confirmed, one trial in three of a kind chooses them.
const tryEvery = 3

// oneIn returns every n-th trial of some kinds, and all of the others.
func oneIn(n int, trials []trial, of func(synthetic.Kind) bool) (some []trial) {
	var seen [synthetic.Kinds]int
	for _, t := range trials {
		if seen[t.kind]++; seen[t.kind]%n == 1 || !of(t.kind) {
			some = append(some, t)
		}
	}
	return some
}

// chooser returns the chooser of the levels of a column, for these trials.
func (b *builder) chooser(trials []trial, column int) *levels.Chooser {
	c := &levels.Chooser{Prices: b.prices(), Column: column, Kinds: make([]synthetic.Kind, len(trials)),
		SketchScans: b.sketchScans(trials, column), Planned: b.planned, Again: b.Quick(),
		Each: func(n int, f func(i int) error) error {
			return b.each(n, func(_ *workerScratch, i int) error { return f(i) })
		}}
	for i := range trials {
		c.Kinds[i] = trials[i].kind
	}
	return c
}

// prices returns what searches cost, in the unit of Price.
func (g *Graph) prices() levels.Prices {
	p := levels.Prices{Rows: g.Len(), Degree: degree, Inserts: 160,
		Walk: func(s levels.Setting, k int) float64 { return g.Price(g.Work(s, g.Len()), k, false) },
		CodeScan: func(k int) float64 {
			each, _ := codes.RowPrice(g.Dim(), true)
			return float64(each*float64(g.Len())) + codes.BestPrice(g.Len(), k, g.Dim())
		}}
	if g.rough() {
		p.Inserts = 40
	}
	return p
}
