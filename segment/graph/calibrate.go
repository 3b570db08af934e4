package graph

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/simd"
)

// calibrated are the numbers of results that recall is measured for.
var calibrated = [3]int{1, 10, 100}

// A level is a line of the calibration: what recall, at least, searches with an effort have for each of calibrated.
type level struct {
	effort int
	recall [3]float32
}

func decodeLevel(b []byte) level {
	l := level{effort: int(binary.LittleEndian.Uint32(b))}
	for i := range l.recall {
		l.recall[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4+4*i:]))
	}
	return l
}

func encodeLevels(levels []level) []uint32 {
	var words []uint32
	for _, l := range levels {
		words = append(words, uint32(l.effort))
		for _, r := range l.recall {
			words = append(words, math.Float32bits(r))
		}
	}
	return words
}

// Effort returns the least effort that was measured to give the recall, a mean over queries that are like the rows, in searches for k
// results; or false if none did.
func (g *Graph) Effort(recall float64, k int) (effort int, ok bool) {
	// No interpolation: where a whole cluster comes into view, recall rises in a step.
	column, times := calibration(k)
	for i := range g.levels {
		if float64(g.levels[i].recall[column]) >= recall {
			return g.levels[i].of(k, times), true
		}
	}
	return 0, false
}

// Recall returns the recall that searches for k results with an effort, or less, were measured to give: the greatest one for which
// Effort returns no more. It is 0 if there is none.
func (g *Graph) Recall(effort, k int) float64 {
	column, times := calibration(k)
	recall := float32(0)
	for i := range g.levels {
		if r := g.levels[i].recall[column]; r > recall && g.levels[i].of(k, times) <= effort {
			recall = r
		}
	}
	return float64(recall)
}

// calibration returns which of calibrated tells of searches for k results, and how many times the effort they take.
func calibration(k int) (column int, times float64) {
	for i, c := range calibrated {
		if k <= c {
			return i, 1
		}
	}
	last := len(calibrated) - 1
	return last, float64(k) / float64(calibrated[last])
}

// of returns the effort for k results.
func (l *level) of(k int, times float64) int {
	return max(k, int(math.Ceil(float64(l.effort)*times)))
}

// Parameters of the calibration.
const (
	sampled     = 800 // rows
	firstEffort = 10
	lastEffort  = 1500
	perDecade   = 24  // efforts from one to ten times as much
	coarse      = 150 // from here on every second one
	enough      = 0.9995
)

// A trial is a row that is searched for.
type trial struct {
	row   uint32
	query *Query
	point []float32 // with the extra element
	truth pool      // nearest rows but itself, as many as the largest of calibrated
	found [len(calibrated)]float64
}

// done reports whether the trial found all that there is. With more effort it would again.
func (t *trial) done() bool { return slices.Min(t.found[:]) == 1 }

// calibrate measures the recall of searches for some of the rows, each without itself: a row that has no twin is left out of the
// walk, so that the walk does not pass through it.
func (b *builder) calibrate(rows codes.Source) error {
	n, dim := b.Len(), b.Dim()
	r := rand.New(rand.NewPCG(b.head.seed, 2))
	picks := r.Perm(n)[:min(n, sampled)]
	slices.Sort(picks)
	trials := make([]trial, len(picks))
	for i, row := range picks {
		x, err := rows(row, row+1)
		if err != nil {
			return err
		}
		t := &trials[i]
		*t = trial{row: uint32(row), query: b.QueryRow(x, row), point: make([]float32, dim+1)}
		t.point[dim] = b.space.point(t.point[:dim], x, true)
		t.truth.reset(calibrated[len(calibrated)-1])
	}
	points := make([]float32, 0, readBytes/4/dim*(dim+1)+dim+1)
	err := read(b.ctx, &b.head.ident, rows, func(lo int, x []float32) error {
		points = points[:len(x)/dim*(dim+1)]
		err := b.each(len(x)/dim, func(_ *lane, i int) error {
			p := points[i*(dim+1):][:dim+1]
			p[dim] = b.space.point(p[:dim], x[i*dim:][:dim], false)
			return nil
		})
		if err != nil {
			return err
		}
		return b.each(len(trials), func(l *lane, i int) error {
			t := &trials[i]
			l.scores = slices.Grow(l.scores[:0], len(x)/dim)[:len(x)/dim]
			simd.L2Rows(l.scores, t.point, points)
			for j, d := range l.scores {
				if row := uint32(lo + j); row != t.row && !t.truth.full(d) {
					t.truth.offer(d, row)
				}
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	var mu sync.Mutex // rows may not be called by two goroutines at once
	distance := func(t *trial, row uint32, y []float32) (float32, error) {
		mu.Lock()
		defer mu.Unlock()
		x, err := rows(int(row), int(row)+1)
		if err != nil {
			return 0, err
		}
		y[dim] = b.space.point(y[:dim], x, false)
		return simd.L2(t.point, y), nil
	}
	var last level
	for i := 0; len(b.levels) < maxLevels; i++ {
		l := level{effort: int(firstEffort * math.Pow(10, float64(i)/perDecade)), recall: last.recall}
		if l.effort > lastEffort {
			break
		}
		if l.effort > coarse && i%2 > 0 || l.effort == last.effort {
			continue
		}
		var wanted [len(calibrated)]bool
		for c, k := range calibrated {
			wanted[c] = last.effort == 0 || l.effort > k && last.recall[c] < enough
		}
		err := b.each(len(trials), func(lane *lane, i int) error {
			lane.point = slices.Grow(lane.point[:0], dim+1)[:dim+1]
			t := &trials[i]
			if last.effort > 0 && t.done() {
				return nil
			}
			return b.try(t, wanted, l.effort, lane, distance)
		})
		if err != nil {
			return err
		}
		for c := range calibrated {
			if !wanted[c] {
				continue
			}
			var sum, squares float64
			for i := range trials {
				f := trials[i].found[c]
				sum += f
				squares += float64(f * f)
			}
			m := float64(len(trials))
			mean := sum / m
			deviation := math.Sqrt(max(0, squares/m-float64(mean*mean)) / m) // of the mean
			l.recall[c] = float32(max(0, mean-deviation))
		}
		b.levels = append(b.levels, l)
		if slices.Min(l.recall[:]) >= enough || l.effort >= n {
			break
		}
		last = l
	}
	return nil
}

// try searches for a trial, for those numbers of results that are wanted: one walk serves all that want no more than its effort.
func (b *builder) try(t *trial, wanted [len(calibrated)]bool, effort int, l *lane, distance func(*trial, uint32, []float32) (float32, error)) error {
	walked := 0
	for c, k := range slices.Backward(calibrated[:]) {
		if !wanted[c] {
			continue
		}
		if e := max(k, effort); e != walked {
			if err := t.query.start(k, e, nil, &l.buf); err != nil {
				return err
			}
			if err := t.query.walk(nil, &l.buf); err != nil {
				return err
			}
			walked = e
		}
		if err := t.query.collect(k, nil, &l.buf); err != nil {
			return err
		}
		if err := t.count(c, l, distance); err != nil {
			return err
		}
	}
	return nil
}

// count leaves in found what share of the k nearest rows was among those that a search would score. Rows as near as the last of
// them count, too.
func (t *trial) count(c int, l *lane, distance func(*trial, uint32, []float32) (float32, error)) error {
	k := calibrated[c]
	truth := t.truth.entries[:min(k, len(t.truth.entries))]
	t.found[c] = 1
	if len(truth) == 0 {
		return nil
	}
	// Only where the next row is as near there can be others.
	limit := truth[len(truth)-1].dist * (1 + 4e-6)
	ties := len(t.truth.entries) == cap(t.truth.entries) || len(t.truth.entries) > k && t.truth.entries[k].dist <= limit
	hits := 0
	for _, row := range l.buf.rows {
		found := slices.ContainsFunc(truth, func(e entry) bool { return e.id == row })
		if !found && ties && row != t.row && hits < len(truth) {
			d, err := distance(t, row, l.point)
			if err != nil {
				return err
			}
			found = d <= limit
		}
		if found {
			hits++
		}
	}
	t.found[c] = float64(min(hits, len(truth))) / float64(len(truth))
	return nil
}
