package codes

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/formattest"
)

var metrics = []fileformat.Metric{fileformat.Cosine, fileformat.Dot, fileformat.L2}

func score(m fileformat.Metric, q, x []float32) float64 { return formattest.Score(m, q, x) }

type vectors = formattest.Vectors

type data struct{ vectors }

func (d *data) ident(m fileformat.Metric) Ident {
	return Ident{Segment: 3, Rows: d.Len(), Dim: d.Dim, Metric: m}
}

func (d *data) codes(t testing.TB, m fileformat.Metric) *Codes {
	t.Helper()
	b, err := build(d.ident(m), d.Source, true)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(b, d.ident(m))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
	Fatal(...any)
}

// check compares the intervals of all rows, and Candidates around every true score, with the
// definition.
func check(t fataler, c *Codes, m fileformat.Metric, d *data, vec []float32) {
	t.Helper()
	checkQuery(t, c, c.Query(vec), m, d, vec)
}

// checkQuery is check for a query that was prepared already.
func checkQuery(t fataler, c *Codes, q *Query, m fileformat.Metric, d *data, vec []float32) {
	t.Helper()
	n := d.Len()
	var buf Buffer
	all, err := q.Candidates(nil, 0, n, nil, math.Inf(-1), &buf)
	if err != nil || len(all) != n {
		t.Fatalf("%d of %d candidates without a cut, %v", len(all), n, err)
	}
	scores := make([]float64, n)
	for i, cand := range all {
		scores[i] = score(m, vec, d.Row(i))
		lower, upper := q.Interval(cand)
		if !(lower <= scores[i] && scores[i] <= upper) || cand.Row != i {
			t.Fatalf("metric %d, row %d: score %g is not in [%g, %g]\nquery %v\nrow %v\n%+v", m, i, scores[i], lower, upper, vec, d.Row(i), q)
		}
		if one, err := q.Row(i); err != nil || one != cand {
			t.Fatalf("row %d: %v, Candidates %v, %v", i, one, cand, err)
		}
	}
	cuts := slices.Clone(scores)
	slices.Sort(cuts)
	step := max(1, n/8)
	// The query is first and last of a batch, among some that have no part in this.
	batch := c.Batch([]*Query{q, c.Query(d.Row(0)), c.Query(d.Row(n - 1)), q}).Fork()
	for i := 0; i < n; i += step {
		for _, cut := range []float64{cuts[i], math.Nextafter(cuts[i], math.Inf(1))} {
			if c.nibbles != nil && !q.wild {
				for lo := 0; lo < n; lo += chunk {
					words, dots := buf.bits[:], buf.dots[:min(chunk, n-lo)]
					q.scanNibbles(words[:(len(dots)+63)/64], dots, lo, q.cut(cut))
					for row := lo; row < lo+len(dots); row++ {
						if scores[row] >= cut && words[(row-lo)/64]>>(row%64)&1 == 0 {
							t.Fatalf("metric %d: nibbles rule out row %d with score %g for %g\nquery %v\nrow %v\n%+v", m, row, scores[row], cut, vec, d.Row(row), q)
						}
					}
				}
			}
			batch.SetCut(0, cut)
			batch.SetCut(3, cut)
			for lo := 0; lo < n; lo += BlockRows {
				hi := min(lo+BlockRows, n)
				words, err := batch.Scan(lo, hi)
				if err != nil || words[0] != words[3] || hi-lo < 64 && words[0]>>(hi-lo) != 0 || words[1] != 1<<(hi-lo)-1 {
					t.Fatalf("rows %d to %d: bits %x, %v", lo, hi, words, err)
				}
				for row := lo; row < hi; row++ {
					found := words[0]>>(row-lo)&1 != 0
					if !found && scores[row] >= cut {
						t.Fatalf("metric %d: row %d with score %g is not found in a batch for %g\nquery %v\nrow %v\n%+v",
							m, row, scores[row], cut, vec, d.Row(row), q)
					}
					if lower, upper := batch.Interval(3, row); found && !(lower <= scores[row] && scores[row] <= upper) {
						t.Fatalf("metric %d, row %d: score %g is not in [%g, %g]", m, row, scores[row], lower, upper)
					}
				}
			}
			got, err := q.Candidates(nil, 0, n, nil, cut, &buf)
			if err != nil {
				t.Fatal(err)
			}
			for row, s := range scores {
				if _, found := slices.BinarySearchFunc(got, row, func(c Candidate, row int) int { return cmp.Compare(c.Row, row) }); !found && s >= cut {
					t.Fatalf("metric %d: row %d with score %g is not a candidate for %g\nquery %v\nrow %v\n%+v", m, row, s, cut, vec, d.Row(row), q)
				}
			}
		}
	}
}

// kinds are distributions of components, most of them hostile.
var kinds = map[string]func(r *rand.Rand) float64{
	"normal":   func(r *rand.Rand) float64 { return r.NormFloat64() },
	"positive": func(r *rand.Rand) float64 { return r.Float64() },
	"outlier":  func(r *rand.Rand) float64 { return math.Pow(r.NormFloat64(), 7) },
	"sparse":   func(r *rand.Rand) float64 { return r.NormFloat64() * float64(r.IntN(8)/7) },
	"signs":    func(r *rand.Rand) float64 { return float64(2*r.IntN(2) - 1) },
	"grid":     func(r *rand.Rand) float64 { return float64(r.IntN(255) - 127) },
	"half":     func(r *rand.Rand) float64 { return float64(r.IntN(9)) + 0.5 },
	"scales":   func(r *rand.Rand) float64 { return math.Ldexp(r.NormFloat64(), r.IntN(80)-40) },
	"huge":     func(r *rand.Rand) float64 { return math.Ldexp(r.Float64()*2-1, 127) },
	"large":    func(r *rand.Rand) float64 { return math.Ldexp(r.NormFloat64(), 61) },
	"small":    func(r *rand.Rand) float64 { return math.Ldexp(r.NormFloat64(), -54) },
	"tiny":     func(r *rand.Rand) float64 { return math.Ldexp(r.NormFloat64(), -100) },
	"denormal": func(r *rand.Rand) float64 { return math.Ldexp(r.NormFloat64(), -143) },
	"zero":     func(r *rand.Rand) float64 { return 0 },
}

func kindNames() []string {
	var names []string
	for name := range kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// draw makes rows around a few centres, near or far as spread says, with zero rows and duplicates,
// and a query.
func draw(r *rand.Rand, kind, centre string, dim, n int, spread float64) (*data, []float32) {
	d := &data{vectors{Dim: dim, Vecs: make([]float32, dim*n)}}
	centres := make([]float64, dim*(1+r.IntN(3)))
	for i := range centres {
		centres[i] = kinds[centre](r)
	}
	vector := func(x []float32) {
		at := r.IntN(len(centres)/dim) * dim
		for i := range x {
			v := centres[at+i] + spread*kinds[kind](r)
			x[i] = float32(max(-math.MaxFloat32, min(math.MaxFloat32, v)))
		}
	}
	for i := range n {
		switch x := d.Row(i); r.IntN(10) {
		case 0:
			copy(x, d.Row(r.IntN(i+1)))
		case 1:
			if r.IntN(4) == 0 {
				clear(x)
				break
			}
			fallthrough
		default:
			vector(x)
		}
	}
	q := make([]float32, dim)
	switch r.IntN(8) {
	case 0:
		copy(q, d.Row(r.IntN(n)))
	case 1: // the mean itself, or nearly
		for i := range q {
			var sum float64
			for j := range n {
				sum += float64(d.Row(j)[i])
			}
			q[i] = float32(sum / float64(n))
		}
	case 2:
		if r.IntN(4) == 0 {
			break // zero
		}
		fallthrough
	default:
		vector(q)
	}
	return d, q
}

func TestBounds(t *testing.T) {
	names := kindNames()
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		d, vec := draw(r,
			rapid.SampledFrom(names).Draw(t, "kind"),
			rapid.SampledFrom(names).Draw(t, "centre"),
			rapid.IntRange(1, 300).Draw(t, "dim"),
			rapid.IntRange(1, 100).Draw(t, "rows"),
			rapid.SampledFrom([]float64{0, 1e-20, 1e-9, 1e-6, 1e-3, 0.1, 1, 1e3}).Draw(t, "spread"))
		m := rapid.SampledFrom(metrics).Draw(t, "metric")
		b, err := build(d.ident(m), d.Source, rapid.Bool().Draw(t, "nibbles"))
		if err != nil {
			t.Fatal(err)
		}
		c, err := Parse(b, d.ident(m))
		if err != nil {
			t.Fatal(err)
		}
		check(t, c, m, d, vec)
	})
}

// TestBoundsEveryKind goes through all pairs of kinds.
func TestBoundsEveryKind(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, kind := range kindNames() {
		for _, centre := range kindNames() {
			for _, m := range metrics {
				d, vec := draw(r, kind, centre, 1+r.IntN(40), 1+r.IntN(40), math.Pow(10, -float64(r.IntN(12))))
				check(t, d.codes(t, m), m, d, vec)
			}
		}
	}
}

// TestBoundsLargeDimensions is about the sums, whose errors grow with their length.
func TestBoundsLargeDimensions(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, dim := range []int{768, 1536, 4097, MaxDim} {
		for _, kind := range []string{"normal", "positive", "signs", "outlier"} {
			for _, m := range metrics {
				d, vec := draw(r, kind, "positive", dim, 5, 0.01)
				check(t, d.codes(t, m), m, d, vec)
			}
		}
	}
}

// TestNotFinite gives rows that a segment never holds: they are candidates for everything, and harm
// no other row.
func TestNotFinite(t *testing.T) {
	for _, m := range metrics {
		d := &data{vectors{Dim: 3, Vecs: []float32{1, 2, 3, 1, float32(math.NaN()), 0, float32(math.Inf(1)), 0, 1, 3, 2, 2}}}
		q := d.codes(t, m).Query([]float32{1, 2, 3})
		got, err := q.Candidates(nil, 0, 4, nil, score(m, []float32{1, 2, 3}, d.Row(0))-1e-3, new(Buffer))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range got {
			lower, upper := q.Interval(c)
			if bad := c.Row == 1 || c.Row == 2; bad != math.IsInf(lower, -1) || bad != math.IsInf(upper, 1) {
				t.Errorf("metric %d, row %d: [%g, %g]", m, c.Row, lower, upper)
			}
		}
		if len(got) < 3 || m == fileformat.L2 && len(got) > 3 {
			t.Errorf("metric %d: candidates %v", m, got)
		}
		inf := d.codes(t, m).Query([]float32{0, float32(math.Inf(1)), 0})
		if got, _ := inf.Candidates(nil, 0, 4, nil, 1e9, new(Buffer)); len(got) != 4 {
			t.Errorf("metric %d: %d candidates for an infinite query", m, len(got))
		}
	}
}

// TestCandidatesSets compares ranges and sets with the rows found at once.
func TestCandidatesSets(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	d, vec := draw(r, "normal", "normal", 20, 3000, 1)
	for _, m := range metrics {
		q := d.codes(t, m).Query(vec)
		scores := make([]float64, d.Len())
		for i := range scores {
			scores[i] = score(m, vec, d.Row(i))
		}
		slices.Sort(scores)
		cut := scores[len(scores)*9/10]
		var buf Buffer
		want, err := q.Candidates(nil, 0, d.Len(), nil, cut, &buf)
		if err != nil || len(want) < 300 || len(want) > 1000 {
			t.Fatalf("%d candidates, %v", len(want), err)
		}
		set := make([]uint64, (d.Len()+63)/64)
		for i := range set {
			set[i] = r.Uint64()
		}
		for _, step := range []int{64, 640, 1024, 1088, 2944} {
			var got, some []Candidate
			for lo := 0; lo < d.Len(); lo += step {
				hi := min(lo+step, d.Len())
				got, _ = q.Candidates(got, lo, hi, nil, cut, &buf)
				some, _ = q.Candidates(some, lo, hi, set, cut, &buf)
			}
			if !slices.Equal(got, want) {
				t.Errorf("metric %d, steps of %d: %d candidates, want %d", m, step, len(got), len(want))
			}
			in := slices.DeleteFunc(got, func(c Candidate) bool { return set[c.Row/64]>>(c.Row%64)&1 == 0 })
			var members []int32
			for row := range d.Len() {
				if set[row/64]>>(row%64)&1 != 0 {
					members = append(members, int32(row))
				}
			}
			among, err := q.Among(some[:1:1], members, cut, &buf)
			if err != nil || !slices.Equal(among[1:], in) {
				t.Errorf("metric %d: %d candidates among %d, want %d, %v", m, len(among)-1, len(members), len(in), err)
			}
			if !slices.Equal(some, in) {
				t.Errorf("metric %d, steps of %d: %d candidates in the set, want %d", m, step, len(some), len(in))
			}
		}
		if got, err := q.Candidates(nil, 64, 64, nil, cut, &buf); len(got) != 0 || err != nil {
			t.Errorf("%v, %v of no rows", got, err)
		}
	}
}

// TestQuality holds the bounds tight: they are worth nothing if every row is a candidate.
func TestQuality(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, centre := range []float64{0, 10} { // 10: a narrow cone
		d := &data{vectors{Dim: 96, Vecs: make([]float32, 96*2000)}}
		for i := range d.Vecs {
			d.Vecs[i] = float32(r.NormFloat64() + centre)
		}
		vec := make([]float32, d.Dim)
		for i := range vec {
			vec[i] = float32(r.NormFloat64() + centre)
		}
		for _, m := range metrics {
			scores := make([]float64, d.Len())
			for i := range scores {
				scores[i] = score(m, vec, d.Row(i))
			}
			slices.Sort(scores)
			got, err := d.codes(t, m).Query(vec).Candidates(nil, 0, d.Len(), nil, scores[d.Len()-10], new(Buffer))
			if err != nil || len(got) > 40 {
				t.Errorf("centre %g, metric %d: %d candidates for the best 10, %v", centre, m, len(got), err)
			}
		}
	}
}

func TestSources(t *testing.T) {
	d := &data{vectors{Dim: 3, Vecs: make([]float32, 3*100)}}
	failed := errors.New("no rows")
	for i := range 3 {
		calls := 0
		_, err := Build(d.ident(fileformat.Dot), func(lo, hi int) ([]float32, error) {
			if calls++; calls > 4*i {
				return nil, failed
			}
			return d.Source(lo, hi)
		})
		if i < 2 && !errors.Is(err, failed) {
			t.Errorf("source fails after %d calls: %v", 4*i, err)
		}
	}
	if _, err := Build(d.ident(fileformat.Dot), func(lo, hi int) ([]float32, error) { return nil, nil }); err == nil {
		t.Error("source without rows: no error")
	}
	for _, id := range []Ident{
		{Rows: 0, Dim: 3, Metric: fileformat.Dot}, {Rows: 1, Dim: 0, Metric: fileformat.Dot}, {Rows: 1, Dim: MaxDim + 1, Metric: fileformat.Dot},
		{Rows: 1, Dim: 1, Metric: fileformat.L2 + 1}, {Rows: -1, Dim: 1, Metric: fileformat.L2},
	} {
		if _, err := Build(id, d.Source); err == nil {
			t.Errorf("Build of %+v: no error", id)
		}
	}
}

// TestParse damages every byte of a file, cuts it and asks for other segments.
func TestParse(t *testing.T) {
	d, vec := draw(rand.New(rand.NewPCG(9, 10)), "normal", "normal", 50, 3000, 1) // three blocks
	id := d.ident(fileformat.Cosine)
	b, err := build(id, d.Source, true)
	if err != nil {
		t.Fatal(err)
	}
	use := func(b []byte) error {
		c, err := Parse(b, id)
		if err != nil {
			return err
		}
		_, err = c.Query(vec).Candidates(nil, 0, c.Len(), nil, 0.5, new(Buffer))
		return errors.Join(err, c.Verify())
	}
	if err := use(b); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(b); i += 1 + i/5000*7 {
		b[i] ^= 0x10
		if err := use(b); !errors.Is(err, fileformat.ErrDamaged) {
			t.Fatalf("byte %d damaged: %v", i, err)
		}
		if row := (i - headerSize) / d.Dim; row >= 0 && row < d.Len() {
			c, err := Parse(b, id)
			if err == nil {
				_, err = c.Query(vec).Among(nil, []int32{int32(row)}, 0.5, new(Buffer))
			}
			if !errors.Is(err, fileformat.ErrDamaged) {
				t.Fatalf("byte %d damaged, row %d alone: %v", i, row, err)
			}
		}
		b[i] ^= 0x10
	}
	for _, n := range []int{0, 7, 4095, 4096, 5000, len(b) - 1} {
		if err := use(b[:n]); !errors.Is(err, fileformat.ErrDamaged) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
	for _, change := range []func(*Ident){
		func(id *Ident) { id.DB[3]++ }, func(id *Ident) { id.Segment++ }, func(id *Ident) { id.Rows++ },
		func(id *Ident) { id.Dim++ }, func(id *Ident) { id.Metric = fileformat.Dot }, func(id *Ident) { id.CRC++ },
	} {
		other := id
		change(&other)
		if _, err := Parse(b, other); !errors.Is(err, fileformat.ErrMismatch) {
			t.Errorf("parsed for %+v: %v", other, err)
		}
	}
}

// TestAmongDamage: whatever of a row is damaged, Among notices it behind rows of the same and of
// other blocks, in any order.
func TestAmongDamage(t *testing.T) {
	d, vec := draw(rand.New(rand.NewPCG(13, 14)), "normal", "normal", 5, 40_000, 1) // three blocks for each section of words
	id := d.ident(fileformat.Cosine)
	b, err := build(id, d.Source, false)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := Parse(b, id)
	if err != nil {
		t.Fatal(err)
	}
	picks := []int{0, 1, 20_000, 39_999}
	for _, section := range whole.words() { // where a block begins
		picks = append(picks, int(blocks.End(section)-section)/wordSize)
	}
	for _, row := range picks {
		places := []int64{headerSize + int64(row*d.Dim)}
		for _, section := range whole.words() {
			places = append(places, section+int64(row)*wordSize)
		}
		for _, at := range places {
			b[at] ^= 1
			for _, rows := range [][]int32{{int32(row)}, {0, int32(row)}, {39_999, int32(row)}, {0, 20_000, 39_999, int32(row)}, {int32(max(0, row-1)), int32(row)}} {
				c, err := Parse(b, id)
				if err == nil {
					_, err = c.Query(vec).Among(nil, rows, math.Inf(-1), new(Buffer))
				}
				if !errors.Is(err, fileformat.ErrDamaged) {
					t.Fatalf("byte %d of row %d damaged, rows %d: %v", at, row, rows, err)
				}
			}
			b[at] ^= 1
		}
	}
}

// TestDeterministic: the same file from reads of any size.
func TestDeterministic(t *testing.T) {
	d, _ := draw(rand.New(rand.NewPCG(11, 12)), "normal", "normal", 7, 500, 1)
	for _, m := range metrics {
		a, err := Build(d.ident(m), d.Source)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Build(d.ident(m), func(lo, hi int) ([]float32, error) { return slices.Clone(d.Vecs[lo*d.Dim : hi*d.Dim]), nil })
		if err != nil || !slices.Equal(a, b) {
			t.Errorf("metric %d: files differ, %v", m, err)
		}
	}
}

func TestPanics(t *testing.T) {
	d := &data{vectors{Dim: 3, Vecs: make([]float32, 300)}}
	q := d.codes(t, fileformat.Dot).Query(make([]float32, 3))
	for i, f := range []func(){
		func() { q.c.Query(make([]float32, 4)) },
		func() { q.Candidates(nil, 1, 10, nil, 0, new(Buffer)) },
		func() { q.Candidates(nil, 0, 101, nil, 0, new(Buffer)) },
	} {
		func() {
			defer func() {
				if msg := fmt.Sprint(recover()); len(msg) < 7 || msg[:7] != "codes: " {
					t.Errorf("call %d: panic %q", i, msg)
				}
			}()
			f()
		}()
	}
}

// TestAllocations: a prepared query scans without allocating.
func TestAllocations(t *testing.T) {
	d, vec := draw(rand.New(rand.NewPCG(13, 14)), "normal", "normal", 64, 2000, 1)
	q := d.codes(t, fileformat.Cosine).Query(vec)
	var buf Buffer
	dst := make([]Candidate, 0, 2000)
	if n := testing.AllocsPerRun(10, func() {
		dst, _ = q.Candidates(dst[:0], 0, 2000, nil, 0.1, &buf)
		for _, c := range dst {
			q.Interval(c)
		}
	}); n != 0 {
		t.Errorf("%g allocations", n)
	}
}
