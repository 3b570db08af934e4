package graph

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/synthetic"
	"github.com/vecbolt/vecbolt/segment/graph/levels"
	"github.com/vecbolt/vecbolt/simd"
)

// TestHorizonOfNoise searches for noise, which is farther from all rows than any trial, for vectors
// near zero, which are shorter, and for vectors like the rows. Only the last are within the
// horizon, whatever a filter allows.
func TestHorizonOfNoise(t *testing.T) {
	const rows, k = 2000, 10
	for _, m := range []fileformat.Metric{fileformat.Cosine, fileformat.L2} {
		d, queries := make1("latent", 256, rows, 50)
		g := d.graph(t, m, Options{})
		s, ok := g.Setting(0.9, k, levels.NoFilter)
		if !ok {
			t.Fatalf("metric %d: no setting for a recall of 0.9", m)
		}
		most, few := bitset.New(rows), bitset.New(rows)
		for i := range rows {
			if i%7 > 0 {
				most.Set(i)
			} else {
				few.Set(i)
			}
		}
		var buf Buffer
		beyond := func(vecs [][]float32, allowed bitset.Set) (n int) {
			for _, vec := range vecs {
				q := g.Query(vec)
				matched := rows
				if allowed != nil {
					matched = allowed.Count()
				}
				q.Guard(k, s, matched)
				_, _, err := q.Search(k, s, allowed, d.scorer(m, vec), &buf)
				if errors.Is(err, ErrBeyondHorizon) {
					n++
				} else if err != nil && (allowed == nil || !errors.Is(err, ErrFar)) {
					t.Fatal(err)
				}
			}
			return n
		}
		r := rand.New(rand.NewPCG(1, 2))
		noise := make([][]float32, 50)
		for i := range noise {
			noise[i] = make([]float32, d.Dim)
			for j := range noise[i] {
				noise[i][j] = 20 * float32(r.NormFloat64())
			}
		}
		nearly, short := make([][]float32, len(queries)), 0
		for i, q := range queries {
			for _, v := range q {
				nearly[i] = append(nearly[i], v/100)
			}
		}
		if m == fileformat.L2 { // otherwise lengths do not matter
			short = len(nearly)
		}
		away := bitset.New(rows) // the half farther from the first query: the filter goes against it
		last := make([]float64, rows)
		score := d.scorer(m, queries[0])
		for i := range last {
			var err error
			if last[i], err = score(i); err != nil {
				t.Fatal(err)
			}
		}
		sorted := slices.Sorted(slices.Values(last))
		for i, v := range last {
			if v < sorted[rows/2] {
				away.Set(i)
			}
		}
		for _, c := range []struct {
			name      string
			vecs      [][]float32
			allowed   bitset.Set
			low, high int
		}{
			{"like the rows", queries, nil, 0, 0}, {"like the rows, most allowed", queries, most, 0, 0},
			{"like the rows, few allowed", queries, few, 0, 0}, {"like the rows, the near ones excluded", queries[:1], away, 0, 0},
			{"noise", noise, nil, 48, 50}, {"noise, most allowed", noise, most, 48, 50},
			{"noise, few allowed", noise, few, 48, 50},
			{"nearly zero", nearly, nil, short, short}, {"nearly zero, most allowed", nearly, most, short, short},
		} {
			if n := beyond(c.vecs, c.allowed); n < c.low || n > c.high {
				t.Errorf("metric %d, %s: %d of %d are beyond the horizon", m, c.name, n, len(c.vecs))
			}
		}
	}
}

// TestDepths: enough trials of every kind search for many rows. With 13 midpoints for 1,000 rows,
// the few that find little were missed.
func TestDepths(t *testing.T) {
	d, _ := make1("normal", 8, 2000, 0)
	g := d.graph(t, fileformat.Cosine, Options{quiet: true})
	_, trials, _ := trialsOf(t, g, d)
	if slices.ContainsFunc(trials, func(t trial) bool { return t.kind == synthetic.Single }) {
		t.Error("trials along an axis for rows without zeros")
	}
	for i := range d.Len() {
		d.Row(i)[i%8], d.Row(i)[(i+3)%8] = 0, 0 // a quarter
		d.Row(i)[1] *= 50                       // most of the length, for midDirections
	}
	for _, c := range []struct {
		metric  fileformat.Metric
		without []synthetic.Kind // no region of these rows has more dimensions than others
	}{
		{fileformat.Cosine, []synthetic.Kind{synthetic.MeansDense, synthetic.BetweenDense, synthetic.AwayDense, synthetic.LongMeans, synthetic.LargeAlone}},
		{fileformat.L2, []synthetic.Kind{synthetic.MeansDense, synthetic.BetweenDense, synthetic.AwayDense, synthetic.WithoutFirst, synthetic.Opposite}},
	} {
		_, trials, _ := trialsOf(t, d.graph(t, c.metric, Options{quiet: true}), d)
		var atLeast [synthetic.Kinds][levels.Columns]int
		for _, trial := range trials {
			for i, k := range levels.Results {
				if len(trial.truth) >= k {
					atLeast[trial.kind][i]++
				}
			}
		}
		for k := range synthetic.Kinds {
			one, hundred, thousand := k.Queries(), 38, 12
			switch k {
			case synthetic.Midpoints, synthetic.MixedMidpoints:
				thousand = 32
			case synthetic.LongMeans:
				thousand = 18
			case synthetic.LikeRows:
				hundred, thousand = 100, 30
			}
			without := slices.Contains(c.without, k)
			if without {
				one, hundred, thousand = 0, 0, 0
			}
			n := atLeast[k]
			if n[1] < one || n[2] < hundred || n[4] < thousand || without && n[0] > 0 {
				t.Errorf("metric %d, kind %d: trials for at least %v rows: %v", c.metric, k, levels.Results, n)
			}
		}
	}
}

// TestMeanNear: means of near rows are near the centres of groups, which no row is.
func TestMeanNear(t *testing.T) {
	const n, groups, dim = 4000, 20, 48
	r := rand.New(rand.NewPCG(5, 6))
	centres := make([][]float32, groups)
	for i := range centres {
		centres[i] = normal(r, dim, 1)
	}
	d := &data{vectors{Dim: dim}}
	for range n {
		x := near(r, centres[r.IntN(groups)], 0.8)
		for length, i := float32(math.Exp(r.NormFloat64())), 0; i < dim; i++ {
			x[i] *= length
		}
		d.Vecs = append(d.Vecs, x...)
	}
	nearest := func(v []float32) (cosine float64) {
		for _, c := range centres {
			cosine = max(cosine, score(fileformat.Cosine, v, c))
		}
		return cosine
	}
	for _, m := range []fileformat.Metric{fileformat.Cosine, fileformat.Dot} {
		_, trials, _ := trialsOf(t, d.graph(t, m, Options{quiet: true}), d)
		found, rows := 0, 0.0
		for _, trial := range trials {
			switch cosine := nearest(trial.vec); trial.kind {
			case synthetic.LikeRows:
				rows += cosine / float64(synthetic.LikeRows.Queries())
			case synthetic.Nearby:
				if found++; cosine < 0.93 {
					t.Errorf("metric %d: a mean of near rows has a cosine of %.3f with a centre", m, cosine)
				}
			}
		}
		if found != synthetic.Nearby.Queries() || rows > 0.85 {
			t.Errorf("metric %d: %d means of near rows; rows have cosines of %.3f with a centre", m, found, rows)
		}
	}
}

// TestDirections: for L2, trials of all directions are as long as rows. Among rows of one length
// they are within the horizon, and noise three times as long was not.
func TestDirections(t *testing.T) {
	d, _ := make1("latent", 32, 2000, 0)
	for i := range d.Len() {
		x := d.Row(i)
		length := float32(math.Sqrt(simd.Dot64(x, x)))
		for j := range x {
			x[j] /= length
		}
	}
	g := d.graph(t, fileformat.L2, Options{quiet: true})
	b, trials, _ := trialsOf(t, g, d)
	b.setHorizons(trials)
	within := 0
	for i := range trials {
		trial := &trials[i]
		if trial.kind != synthetic.Anywhere {
			continue
		}
		if length := math.Sqrt(simd.Dot64(trial.vec, trial.vec)); math.Abs(length-1) > 1e-5 {
			t.Errorf("trial %d: length %g", i, length)
		}
		if !b.outside(trial, []int{0, 1}) {
			within++
		}
	}
	if within < levels.Fewest {
		t.Errorf("%d trials within the horizon", within)
	}
	if length := float64(b.head.minLength); length < 0.02 || length > 0.9 {
		t.Errorf("queries shorter than %g promise nothing", length)
	}
}

// TestHorizonIsMeasured: a horizon is farther than all trials made of rows only if one kind of the
// others has enough trials in between, or if these trials are rows. Otherwise a search there would
// promise a recall that no trial has measured.
func TestHorizonIsMeasured(t *testing.T) {
	const n = 10
	at := func(kind synthetic.Kind, dist float32) trial {
		return trial{kind: kind, truth: slices.Repeat([]neighbour{{dist: dist}}, n)}
	}
	for _, c := range []struct {
		name    string
		between []synthetic.Kind // kinds of the trials a little farther than all made of rows
		rows    float32          // distance of a trial that is a row
		want    float32
	}{
		{"none", nil, 1, 2},
		{"few", slices.Repeat([]synthetic.Kind{synthetic.Anywhere}, levels.Fewest-1), 1, 2},
		{"few of each kind", slices.Repeat([]synthetic.Kind{synthetic.Anywhere, synthetic.Popular}, levels.Fewest-1), 1, 2},
		{"enough", slices.Repeat([]synthetic.Kind{synthetic.Anywhere}, levels.Fewest), 1, 2 * farther},
		{"a row", nil, 2, 2 * farther},
	} {
		b := &builder{Graph: &Graph{}}
		trials := []trial{at(synthetic.Noisy, 2), at(synthetic.LikeRows, c.rows)}
		for range levels.Fewest { // too far to be measured
			trials = append(trials, at(synthetic.WeakDirections, 3))
		}
		for _, k := range c.between {
			trials = append(trials, at(k, 2.05))
		}
		b.setHorizons(trials)
		if got := b.head.horizons; got[0] != c.want || got[1] != c.want || got[2] != 0 {
			t.Errorf("%s: horizons of %v, want %g for up to %d results", c.name, got, c.want, n)
		}
	}
}
