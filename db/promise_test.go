package db

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
)

var (
	promiseRows = flag.Int("promise.rows", 1500, "rows of TestPromise; more than 10,000 take minutes")
	promiseData = flag.String("promise.data", "", "a directory with real data sets for TestPromise: each a directory with base.fvecs and query.fvecs")
	promiseOut  = flag.String("promise.out", "", "file for the table of TestPromise")
)

// A shape makes vectors of one kind.
type shape struct {
	name   string
	metric Metric
	dim    int
	next   func(r *rand.Rand, v []float32)
}

// shapes returns kinds of vectors that data sets come in. What a set has in
// common, such as its centres, is made from r.
func shapes(r *rand.Rand) []shape {
	normal := func(r *rand.Rand, v []float32, sd float64) {
		for i := range v {
			v[i] += float32(sd * r.NormFloat64())
		}
	}
	table := func(n, dim int) [][]float32 {
		t := make([][]float32, n)
		for i := range t {
			t[i] = make([]float32, dim)
			normal(r, t[i], 1)
		}
		return t
	}
	wide, tight, copies, basis, mix := table(60, 32), table(60, 32), table(400, 24), table(8, 64), table(40, 544)
	lift := table(24, 544)
	return []shape{
		{"normal", Cosine, 24, func(r *rand.Rand, v []float32) { normal(r, v, 1) }},
		{"uniform", L2, 16, func(r *rand.Rand, v []float32) {
			for i := range v {
				v[i] = r.Float32()
			}
		}},
		{"clusters", Cosine, 32, func(r *rand.Rand, v []float32) {
			copy(v, wide[r.IntN(len(wide))])
			normal(r, v, 0.3)
		}},
		{"tight clusters", L2, 32, func(r *rand.Rand, v []float32) {
			copy(v, tight[r.IntN(len(tight))])
			normal(r, v, 0.01)
		}},
		{"duplicates", Cosine, 24, func(r *rand.Rand, v []float32) {
			if copy(v, copies[r.IntN(len(copies))]); r.IntN(3) == 0 {
				normal(r, v, 0.5)
			}
		}},
		{"narrow cone", Cosine, 48, func(r *rand.Rand, v []float32) {
			for i := range v {
				v[i] = 1
			}
			normal(r, v, 0.1)
		}},
		{"low rank", L2, 64, func(r *rand.Rand, v []float32) {
			for _, b := range basis {
				w := float32(r.NormFloat64())
				for i := range v {
					v[i] += w * b[i]
				}
			}
			normal(r, v, 0.01)
		}},
		{"heavy tails", L2, 20, func(r *rand.Rand, v []float32) {
			normal(r, v, 1)
			length := float32(math.Exp(r.NormFloat64()))
			for i := range v {
				v[i] *= length
			}
		}},
		{"sparse", Cosine, 96, func(r *rand.Rand, v []float32) {
			for range 12 {
				v[int(float64(len(v))*math.Pow(r.Float64(), 2))] = 1 + r.Float32()
			}
		}},
		{"text model", Cosine, 544, func(r *rand.Rand, v []float32) { // long enough for the quick layout
			normal(r, v, 0.3)
			c := mix[r.IntN(len(mix))]
			for j, l := range lift {
				w := float32(math.Pow(0.9, float64(j))) * (c[j] + 0.7*float32(r.NormFloat64()))
				for i := range v {
					v[i] += w * l[i] / 4
				}
			}
			for i := range v {
				v[i] += 0.3
			}
		}},
	}
}

// A promiseSet is rows and queries that are not among them.
type promiseSet struct {
	name          string
	metric        Metric
	rows, queries [][]float32
}

func promiseSets(t *testing.T, rows, queries int, yield func(promiseSet)) {
	r := rand.New(rand.NewPCG(21, 12))
	for _, s := range shapes(r) {
		all := make([][]float32, rows+queries)
		for i := range all {
			all[i] = make([]float32, s.dim)
			s.next(r, all[i])
		}
		yield(promiseSet{s.name, s.metric, all[:rows], all[rows:]})
	}
	words := readDemoWords(t)
	r.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	words = words[:min(len(words), rows+queries)]
	yield(promiseSet{"4,000 words", Cosine, words[queries:], words[:queries]})
	if *promiseData == "" {
		return
	}
	dirs, err := filepath.Glob(filepath.Join(*promiseData, "*", "base.fvecs"))
	if err != nil || len(dirs) == 0 {
		t.Fatal("no data sets in ", *promiseData, err)
	}
	for _, base := range dirs {
		read := func(name string) [][]float32 {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			return readVecs(b)
		}
		dir := filepath.Dir(base)
		asked := read(filepath.Join(dir, "query.fvecs"))
		yield(promiseSet{filepath.Base(dir), Cosine, read(base), asked[:min(len(asked), queries)]})
	}
}

// readDemoWords reads the word vectors of the tool's demo.
func readDemoWords(t *testing.T) [][]float32 {
	t.Helper()
	b, err := os.ReadFile("../tools/vecbolt/demo/words.fvecs.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if b, err = io.ReadAll(z); err != nil {
		t.Fatal(err)
	}
	return readVecs(b)
}

func readVecs(b []byte) (vecs [][]float32) {
	for len(b) > 0 {
		v := make([]float32, binary.LittleEndian.Uint32(b))
		for i := range v {
			v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4+4*i:]))
		}
		vecs, b = append(vecs, v), b[4+4*len(v):]
	}
	return vecs
}

// skipRecall leaves out, as far as -short goes, what measures how much is found by one search after the other: the race
// detector takes minutes and has nothing to find there.
func skipRecall(t *testing.T) {
	if testing.Short() {
		t.Skip("recall is not measured with -short")
	}
}

// Recall promised is recall delivered, but for 0.01, on data of many kinds:
// without a filter, under filters that have nothing to do with the vectors, and
// under those that leave only what is near to one vector, or all but that, for
// queries that are near to it. Real data and more rows:
//
//	go test ./db -run 'TestPromise$' -promise.rows 30000 -promise.data ../../shared/data -promise.out FILE -timeout 1h
func TestPromise(t *testing.T) {
	skipRecall(t)
	ctx := t.Context()
	targets := []float64{0.9, 0.95, 0.98, 0.99}
	var table bytes.Buffer
	fmt.Fprintf(&table, "| vectors | rows | dim | metric | filter | walked |%s\n|---|---|---|---|---|---|---|---|---|---|\n", " 0.9 | 0.95 | 0.98 | 0.99 |")
	queries := 100
	if *promiseRows > 10_000 {
		queries = 500
	}
	promiseSets(t, *promiseRows, queries, func(set promiseSet) {
		opts := walking
		opts.NoRecheck = true
		vdb := open(t, t.TempDir(), &opts)
		rows, dim := len(set.rows), len(set.rows[0])
		c := collection(t, vdb, "c", Schema{Dim: dim, Metric: set.metric})
		r := rand.New(rand.NewPCG(7, uint64(dim)))
		near := nearness(set, set.rows[r.IntN(rows)])
		n := 0
		docs := func(yield func(Document, error) bool) {
			for i, p := range r.Perm(rows) {
				n++
				if !yield(Document{ID: fmt.Sprint(i), Vector: set.rows[i], Metadata: Metadata{"i": int64(p), "near": int64(near[i])}}, nil) {
					return
				}
			}
		}
		if _, err := c.Load(ctx, docs, nil); err != nil {
			t.Fatal(err)
		}
		if err := vdb.Compact(ctx); err != nil {
			t.Fatal(err)
		}
		beside := slices.Clone(set.rows[:0:0])
		for i, v := range set.rows { // others near to the same vector
			if len(beside) < queries && near[i] < rows/20 {
				v = slices.Clone(v)
				for j := range v {
					v[j] *= 1 + 0.05*(r.Float32()-0.5)
				}
				beside = append(beside, v)
			}
		}
		for _, f := range []struct {
			name    string
			where   filter.Expr
			queries [][]float32
		}{
			{"none", nil, set.queries},
			{"50 %", filter.Lt("i", rows/2), set.queries},
			{"10 %", filter.Lt("i", rows/10), set.queries},
			{"1 %", filter.Lt("i", rows/100), set.queries},
			{"the nearest 10 % to one", filter.Lt("near", rows/10), set.queries},
			{"the same, for queries near to it", filter.Lt("near", rows/10), beside},
			{"all but the nearest 2 % to one, for queries near to it", filter.Gte("near", rows/50), beside},
			{"all but the nearest 10 %, likewise", filter.Gte("near", rows/10), beside},
		} {
			all, err := c.MeasureRecall(ctx, RecallTest{Queries: f.queries, Recalls: targets, Where: f.where})
			if err != nil {
				t.Fatal(err)
			}
			walked := 0
			fmt.Fprintf(&table, "| %s | %d | %d | %v | %s |", set.name, rows, dim, set.metric, f.name)
			var cells bytes.Buffer
			for _, m := range all {
				walked += m.Queries - m.Exact
				fmt.Fprintf(&cells, " %.4f |", m.Recall)
				if m.Recall < m.Promised-0.01 || m.Promised < m.Target-1e-9 {
					t.Errorf("%s, filter %s: %+v", set.name, f.name, m)
				}
			}
			fmt.Fprintf(&table, " %.0f %% |%s\n", 100*float64(walked)/float64(len(targets)*len(f.queries)), &cells)
		}
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("\n%s", &table)
	if *promiseOut != "" {
		if err := os.WriteFile(*promiseOut, table.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// nearness says of every row how many are nearer to a vector.
func nearness(set promiseSet, centre []float32) []int {
	s := newScorer(set.metric, centre)
	scores, order, ranks := make([]float64, len(set.rows)), make([]int, len(set.rows)), make([]int, len(set.rows))
	for i, v := range set.rows {
		scores[i], order[i] = s.score(v), i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), a-b) })
	for rank, i := range order {
		ranks[i] = rank
	}
	return ranks
}
