package codes

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/simd"
)

// sketched returns codes with sketches.
func (d *data) sketched(t testing.TB, m fileformat.Metric) *Codes {
	t.Helper()
	c := d.codes(t, m)
	if err := c.Sketch(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	return c
}

// estimated returns a query that uses sketches.
func estimated(t testing.TB, c *Codes, vec []float32) *Query {
	t.Helper()
	q := c.Query(vec)
	if simd.Name() == "generic" {
		t.Skip("without vector instructions, nobody uses sketches")
	}
	if !q.Estimate(vec) {
		t.Fatal("the query does not use sketches")
	}
	return q
}

// likelyReference computes in float64 which rows the sketches leave for a cut. unsure has the rows
// that depend on the roundings of the query.
func likelyReference(q *Query, vec []float32, cut float64) (rows, unsure []int32) {
	c, s := q.c, q.c.sketches.Load()
	dim, metric := c.Dim(), c.head.ident.Metric
	p, length, along := make([]float32, dim), 0.0, simd.Dot64(vec, c.mean)
	for i, x := range vec {
		switch p[i] = x; metric {
		case fileformat.Cosine:
			p[i] = float32(float64(x)/math.Sqrt(simd.Dot64(vec, vec)) - float64(c.mean[i]))
		case fileformat.L2:
			p[i] = x - c.mean[i]
		}
		length += float64(p[i]) * float64(p[i])
	}
	length = math.Sqrt(length)
	rotation := simd.NewRotation(dim, sketchSeed)
	rotation.Apply(p)
	y := make([]float32, dim)
	for row := range c.Len() {
		square, sum, product := 0.0, 0.0, 0.0
		for i, b := range c.codes[row*dim:][:dim] {
			y[i] = c.scales[row] * float32(int(b)-center)
			square += float64(y[i]) * float64(y[i])
		}
		rotation.Apply(y)
		for i, v := range y {
			sum += math.Abs(float64(v))
			product += float64(p[i]) * math.Copysign(1, float64(v))
		}
		factor := 0.0
		if sum > 0 {
			factor = square / sum
		}
		// The largest product, and the score that it makes.
		product = factor * (product + length*(sketchErrors*s.spread+s.resid*math.Sqrt(float64(dim))))
		best := along + product
		switch metric {
		case fileformat.Cosine:
			best = 1 - (length*length+square-2*product)/2
		case fileformat.L2:
			best = 2*product - length*length - square
		}
		if best >= cut {
			rows = append(rows, int32(row))
		}
		if math.Abs(best-cut) < 0.1*factor*length+1e-5*(math.Abs(cut)+1) {
			unsure = append(unsure, int32(row))
		}
	}
	return rows, unsure
}

// TestSketches compares the rows that sketches leave with arithmetic in float64.
func TestSketches(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for _, dim := range []int{128, 130, 384, 1000} {
		for _, m := range metrics {
			for _, n := range []int{1, 31, 32, 33, 200} {
				d, vec := draw(r, "normal", "normal", dim, n, 0.5)
				vec[0]++ // not zero
				c := d.sketched(t, m)
				q := estimated(t, c, vec)
				scores := make([]float64, n)
				for i := range scores {
					scores[i] = score(m, vec, d.Row(i))
				}
				slices.Sort(scores)
				cut := scores[n*9/10]
				want, unsure := likelyReference(q, vec, cut)
				got := q.likely(c.sketches.Load(), 0, n, nil, cut, nil)
				for row := range int32(n) {
					if slices.Contains(got, row) != slices.Contains(want, row) && !slices.Contains(unsure, row) {
						t.Errorf("dimension %d, metric %d: row %d of %d: left %v, want %v", dim, m, row, n,
							slices.Contains(got, row), slices.Contains(want, row))
					}
				}
				if len(unsure) > 1+n/4 {
					t.Errorf("dimension %d, metric %d: %d of %d rows depend on roundings", dim, m, len(unsure), n)
				}
				set := make([]uint64, (n+63)/64)
				var some []int32
				for _, row := range got {
					if r.IntN(2) == 0 {
						set[row/64] |= 1 << (row % 64)
						some = append(some, row)
					}
				}
				if got := q.likely(c.sketches.Load(), 0, n, set, cut, nil); !slices.Equal(got, some) {
					t.Errorf("of a set: rows %d, want %d", got, some)
				}
			}
		}
	}
}

// TestSketchRecall has every row as the last one wanted, the hardest to keep, of hostile rows and
// queries. A scan of sketches must not miss more of them than SketchRecall says. Rows that are
// nearly equal are missed together, so that only many draws tell.
func TestSketchRecall(t *testing.T) {
	const draws, rows = 150, 64
	r := rand.New(rand.NewPCG(23, 24))
	for _, m := range metrics {
		t.Run(fmt.Sprint(m), func(t *testing.T) {
			wanted, missed := 0, 0
			for _, kind := range kindNames() {
				all, before := wanted, missed
				for range draws {
					centre := kindNames()[r.IntN(len(kinds))]
					d, vec := draw(r, kind, centre, 128+r.IntN(300), rows, math.Pow(10, -float64(r.IntN(5))))
					c := d.sketched(t, m)
					q := c.Query(vec)
					if !q.Estimate(vec) {
						continue // out of range
					}
					for row := range rows {
						got := q.likely(c.sketches.Load(), 0, rows, nil, score(m, vec, d.Row(row)), nil)
						if wanted++; !slices.Contains(got, int32(row)) {
							missed++
						}
					}
				}
				t.Logf("%s: %d of %d rows missed", kind, missed-before, wanted-all)
			}
			if all := draws * rows * len(kindNames()); wanted < all/2 && simd.Name() != "generic" {
				t.Errorf("%d of %d rows were asked for", wanted, all)
			}
			if float64(missed) > (1-SketchRecall)*float64(wanted) {
				t.Errorf("%d of %d rows missed", missed, wanted)
			}
		})
	}
}

// TestSketchesOfHugeRows: products beyond float32 leave all rows to the codes.
func TestSketchesOfHugeRows(t *testing.T) {
	const dim, rows = 128, 1500
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(27, seed))
		d := &data{vectors{Dim: dim, Vecs: make([]float32, dim*rows)}}
		for i := range d.Vecs {
			d.Vecs[i] = float32(5e36 * r.NormFloat64())
		}
		vec := make([]float32, dim)
		for i := range vec {
			vec[i] = float32(1e4 * r.NormFloat64())
		}
		scores := make([]float64, rows)
		for i := range scores {
			scores[i] = score(fileformat.Dot, vec, d.Row(i))
		}
		slices.Sort(scores)
		cut := scores[rows-10]
		c := d.sketched(t, fileformat.Dot)
		q := c.Query(vec)
		q.Estimate(vec)
		got, err := q.Candidates(nil, 0, rows, nil, cut, new(Buffer))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, cand := range got {
			if score(fileformat.Dot, vec, d.Row(cand.Row)) >= cut {
				found++
			}
		}
		if found < 10 {
			t.Errorf("seed %d: %d of 10 rows", seed, found)
		}
	}
}

// TestSketchesOfAll: a query that may miss rows, and one that may not, find the same among rows
// that sketches say little about, and where there are no sketches.
func TestSketchesOfAll(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	far := &data{vectors{Dim: 128, Vecs: make([]float32, 128*1500)}} // every row is as far as any other
	for i := range far.Vecs {
		far.Vecs[i] = float32(r.NormFloat64())
	}
	few := &data{vectors{Dim: 127, Vecs: far.Vecs[:127*1500]}}
	wild := &data{vectors{Dim: 128, Vecs: slices.Clone(far.Vecs)}}
	for i := range wild.Vecs {
		if i/128%3 == 0 {
			wild.Vecs[i] *= 1e30
		}
	}
	for name, d := range map[string]*data{"noise": far, "few components": few, "out of range": wild} {
		for _, m := range metrics {
			t.Run(fmt.Sprintf("%s/%d", name, m), func(t *testing.T) {
				c, vec := d.sketched(t, m), d.Row(7)
				exact, q := c.Query(vec), c.Query(vec)
				q.Estimate(vec)
				scores := make([]float64, d.Len())
				for i := range scores {
					scores[i] = score(m, vec, d.Row(i))
				}
				slices.Sort(scores)
				cut := scores[d.Len()/2]
				var buf Buffer
				want, err := exact.Candidates(nil, 0, d.Len(), nil, cut, &buf)
				if err != nil {
					t.Fatal(err)
				}
				got, err := q.Candidates(nil, 0, d.Len(), nil, cut, &buf)
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("%d candidates, want %d, %v", len(got), len(want), err)
				}
			})
		}
	}
}

// TestSketchEnds: making sketches ends with the error of pause, or with damage, and leaves none.
func TestSketchEnds(t *testing.T) {
	d, vec := draw(rand.New(rand.NewPCG(29, 30)), "normal", "zero", 128, 1200, 1)
	stop, calls := errors.New("stop"), 0
	c := d.codes(t, fileformat.Cosine)
	err := c.Sketch(func() error {
		if calls++; calls == 2 {
			return stop
		}
		return nil
	})
	if err != stop || c.Query(vec).Estimate(vec) {
		t.Errorf("%v after %d pauses", err, calls)
	}
	b, err := build(d.ident(fileformat.Cosine), d.Source, true)
	if err != nil {
		t.Fatal(err)
	}
	b[headerSize+100*128]++
	if c, err = Parse(b, d.ident(fileformat.Cosine)); err != nil {
		t.Fatal(err)
	}
	if err := c.Sketch(func() error { return nil }); !errors.Is(err, fileformat.ErrDamaged) || c.Query(vec).Estimate(vec) {
		t.Errorf("of damaged codes: %v", err)
	}
}

// TestDropSketches: queries in progress go on without the sketches.
func TestDropSketches(t *testing.T) {
	d, vec := draw(rand.New(rand.NewPCG(27, 28)), "normal", "zero", 128, 400, 1)
	vec[0]++
	c := d.sketched(t, fileformat.Cosine)
	q := estimated(t, c, vec)
	c.DropSketches()
	var buf Buffer
	if rows, ok := q.sketched(0, 400, nil, 0.1, &buf); ok {
		t.Errorf("%d rows by sketches that were dropped", len(rows))
	}
	if c.Query(vec).Estimate(vec) {
		t.Error("a query uses sketches that were dropped")
	}
	checkQuery(t, c, q, fileformat.Cosine, d, vec)
}
