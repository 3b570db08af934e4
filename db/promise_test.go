package db

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/nearest"
	"github.com/vecbolt/vecbolt/internal/score"
)

var (
	promiseRows = flag.Int("promise.rows", 1500, "rows of TestPromise; 10,000 and more take minutes, and hold promises without slack")
	promiseData = flag.String("promise.data", "", "a directory with real data sets for TestPromise: each a directory with base.fvecs and query.fvecs, for the metric dot or l2 if its name ends in .dot or .l2")
	promiseOut  = flag.String("promise.out", "", "file for the table of TestPromise")
	promisePlan = flag.Bool("promise.planned", false, "tests of promises have the graphs and plans of users: scans where they cost less, and settings with two stages; only large sets have graphs")
	promiseOnly = flag.String("promise.set", "", "regular expression: the data sets of TestPromise")
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
	lift, uneven := table(24, 544), table(60, 64)
	other := rand.New(rand.NewPCG(5, 6)) // older sets keep their rows
	groups := make([][]float32, 60)
	for i := range groups {
		groups[i] = make([]float32, 32)
		normal(other, groups[i], 1)
	}
	drift := make([][]float32, 60)
	for i := range drift {
		drift[i] = make([]float32, 64)
		normal(rand.New(rand.NewPCG(7, uint64(i))), drift[i], 1)
	}
	lengths := func(r *rand.Rand, v []float32, decades float64) { // log-uniform: 10^-decades to 10^decades
		scale(v, math.Pow(10, decades*(2*r.Float64()-1)))
	}
	middle, middleLift := make([][]float32, 40), make([][]float32, 24)
	for i := range middle {
		middle[i] = make([]float32, len(middleLift))
		normal(other, middle[i], 1)
	}
	for i := range middleLift {
		middleLift[i] = make([]float32, 256)
		normal(other, middleLift[i], 1)
	}
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
		{"common mean", Cosine, 64, func(r *rand.Rand, v []float32) { // all cosines above 1 - 2e-6
			for i := range v {
				v[i] = 1000
			}
			normal(r, v, 1)
		}},
		{"uneven clusters", L2, 64, func(r *rand.Rand, v []float32) {
			k := int(float64(len(uneven)) * math.Pow(r.Float64(), 2))
			copy(v, uneven[k])
			normal(r, v, 0.02*math.Pow(10, float64(k%7)/3))
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
		{"text model, middle dimension", Cosine, 256, func(_ *rand.Rand, v []float32) { // quick layout: see promising
			normal(other, v, 0.3)
			c := middle[other.IntN(len(middle))]
			for j, l := range middleLift {
				w := float32(math.Pow(0.95, float64(j))) * (c[j] + 0.7*float32(other.NormFloat64()))
				for i := range v {
					v[i] += 0.1 + w*l[i]/4
				}
			}
		}},
		{"drift", Cosine, 64, func() func(*rand.Rand, []float32) { // later rows are elsewhere, the queries beyond the last
			n := 0.0
			return func(_ *rand.Rand, v []float32) {
				copy(v, drift[other.IntN(len(drift)/2)])
				to := drift[len(drift)/2+int(n/100)%(len(drift)/2)]
				for i := range v {
					v[i] += float32(min(3, n/2000)) * to[i]
				}
				normal(other, v, 0.5)
				n++
			}
		}()},
		{"normal, inner products", Dot, 24, func(r *rand.Rand, v []float32) { normal(r, v, 1) }},
		{"lengths of 0.1 to 10", Dot, 32, func(r *rand.Rand, v []float32) {
			copy(v, groups[r.IntN(len(groups))])
			normal(r, v, 0.5)
			lengths(r, v, 1)
		}},
		{"lengths of 0.01 to 100", Dot, 24, func(r *rand.Rand, v []float32) {
			normal(r, v, 1)
			lengths(r, v, 2)
		}},
		{"giants and zeros", Dot, 32, func(r *rand.Rand, v []float32) {
			switch r.IntN(100) {
			case 0:
				normal(r, v, 100)
			case 1, 2, 3, 4, 5:
			default:
				copy(v, groups[r.IntN(len(groups))])
				normal(r, v, 0.5)
			}
		}},
		{"all products positive", Dot, 48, func(r *rand.Rand, v []float32) {
			for i := range v {
				v[i] = 2
			}
			normal(r, v, 1)
		}},
	}
}

// A promiseSet is rows and queries that are not among them.
type promiseSet struct {
	name          string
	metric        Metric
	rows, queries [][]float32
	index         Index
	filtered      bool // rows have the metadata that tests of filters ask about, however many they are
}

func promiseSets(t *testing.T, rows, queries int, yield func(promiseSet)) {
	r := rand.New(rand.NewPCG(21, 12))
	for _, s := range shapes(r) {
		all := make([][]float32, rows+queries)
		for i := range all {
			all[i] = make([]float32, s.dim)
			s.next(r, all[i])
		}
		yield(promiseSet{name: s.name, metric: s.metric, rows: all[:rows], queries: all[rows:]})
	}
	words := readDemoWords(t)
	r.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	words = words[:min(len(words), rows+queries)]
	yield(promiseSet{name: "4,000 words", metric: Cosine, rows: words[queries:], queries: words[:queries]})
	long := make([][]float32, len(words))
	for i, w := range words {
		long[i] = slices.Clone(w)
		scale(long[i], math.Exp(r.NormFloat64())/max(length(w), 1e-30))
	}
	yield(promiseSet{name: "words of unequal length", metric: Dot, rows: long[queries:], queries: long[:queries]})
	fileSets(t, func(set promiseSet) {
		set.queries = set.queries[:min(len(set.queries), queries)]
		yield(set)
	})
}

// fileSets reads the data sets of -promise.data, one after the other.
func fileSets(t testing.TB, yield func(promiseSet)) {
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
		metric := Cosine
		switch filepath.Ext(dir) {
		case ".dot":
			metric = Dot
		case ".l2":
			metric = L2
		}
		yield(promiseSet{name: filepath.Base(dir), metric: metric, rows: read(base), queries: read(filepath.Join(dir, "query.fvecs"))})
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

// With -short, skipRecall skips tests that measure recall search by search: the
// race detector takes minutes for them and finds nothing there.
func skipRecall(t *testing.T) {
	if testing.Short() {
		t.Skip("recall is not measured with -short")
	}
}

// Promised recall is delivered on data of many kinds: without a filter; under
// filters independent of the vectors; under filters that keep only the
// neighbourhood of one vector, or exclude it, for queries near to it; and under
// filters that exclude the nearest rows, like documents seen already. With few rows
// and queries the mean may be 0.01 less. From 10,000 rows on there is no such
// slack: the promise is broken if the interval of 95 % is below it. Real data and
// more rows:
//
//	go test ./db -run 'TestPromise$' -promise.rows 100000 -promise.data ../../shared/data -promise.out FILE -timeout 12h
func TestPromise(t *testing.T) {
	t.Parallel() // one core each
	skipRecall(t)
	only := regexp.MustCompile(*promiseOnly)
	table := bytes.NewBufferString("| vectors | rows | dim | metric | filter | walked | 0.9 | 0.95 | 0.98 | 0.99 |\n|---|---|---|---|---|---|---|---|---|---|\n")
	queries := 100
	if *promiseRows >= longPromise {
		queries = 500
	}
	promiseSets(t, *promiseRows, queries, func(set promiseSet) {
		if !only.MatchString(set.name) {
			return
		}
		if set.name == "text model" && *promiseOnly == "" && *promiseRows < longPromise {
			return // the set that takes longest: TestPromiseFilters and TestPromiseOutOfDistribution have it
		}
		p := plantPromise(t, set)
		for _, f := range p.filters(queries) {
			fmt.Fprintf(table, "| %s | %d | %d | %v | %s |", set.name, len(set.rows), len(set.rows[0]), set.metric, f.name)
			p.measure(t, f, table)
		}
		if err := p.vdb.Close(); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("\n%s", table)
	if *promiseOut != "" {
		if err := os.WriteFile(*promiseOut, table.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPromiseOfSmall measures the promised recall of graphs that share codes: one set for each
// metric, and the dimensions at which the index fast has the quick layout.
func TestPromiseOfSmall(t *testing.T) {
	skipRecall(t)
	only := regexp.MustCompile(*promiseOnly)
	some := []string{"clusters", "low rank", "text model", "lengths of 0.1 to 10", "4,000 words"}
	promiseSets(t, *promiseRows, 100, func(set promiseSet) {
		if !slices.Contains(some, set.name) || !only.MatchString(set.name) {
			return
		}
		set.index = IndexSmall
		p := plantPromise(t, set)
		if c := must(p.vdb.Stats()).Collections[0]; !slices.Equal(c.Layouts, []string{"shared: to save space"}) {
			t.Errorf("%s: layouts %q", set.name, c.Layouts)
		}
		for _, f := range p.filters(100) {
			if f.name == "none" || f.name == "10 %" || f.name == "the same, for queries near to it" || f.seen == 10 {
				p.measure(t, f, io.Discard)
			}
		}
		if err := p.vdb.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// Promised recall is delivered where a filter excludes the nearest rows of clusters. That searches
// of the graph notice such a filter is tested by TestExplainSearchesThatFollow.
func TestPromiseWithoutTheNearest(t *testing.T) {
	skipRecall(t)
	const rows, queries = 1500, 100
	promiseSets(t, rows, queries, func(set promiseSet) {
		if set.name != "clusters" {
			return
		}
		p := plantPromise(t, set)
		p.measure(t, promiseFilter{"not the nearest 50", nil, p.queries, 50}, io.Discard)
		p.measure(t, promiseFilter{"not the nearest 200", nil, p.queries, 200}, io.Discard)
	})
}

// Rows of a set, and queries of a kind, in short runs of tests that have their sets in common.
const (
	promiseSample = 4000
	promiseAsked  = 60
)

// longPromise is the number of rows from which a run of TestPromise counts as long.
const longPromise = 10_000

// A promised is a set of rows in a collection whose promises are measured.
type promised struct {
	promiseSet
	vdb  *DB
	c    *Collection
	near []int // of each row, how many are nearer to one of them
	rng  *rand.Rand
}

// promiseOptions returns options for the tests of promises: graphs are always walked, or used as
// -promise.planned says.
func promiseOptions() Options {
	opts := promising
	if *promisePlan {
		opts = Options{Sync: SyncNever, Compaction: Manual}
	}
	opts.Recheck = Manual
	return opts
}

// plantPromise stores the rows of a set, with the metadata of all tests of promises. Tests with the
// same set have the graph in common.
func plantPromise(t *testing.T, set promiseSet) *promised {
	t.Helper()
	dir, opts := filepath.Join(t.TempDir(), "db"), promiseOptions()
	p := &promised{promiseSet: set, rng: rand.New(rand.NewPCG(7, uint64(len(set.rows[0]))))}
	p.near = nearness(set, set.rows[p.rng.IntN(len(set.rows))])
	order := p.rng.Perm(len(set.rows))
	build := func(dir string) {
		metadata := func(int) Metadata { return Metadata{} }
		if set.filtered || len(set.rows) < longPromise { // short runs have the graph in common
			metadata = newFilterRows(t, set).metadata
		}
		vdb := open(t, dir, &opts)
		c := collection(t, vdb, "c", Schema{Dim: len(set.rows[0]), Metric: set.metric, Index: set.index})
		docs := func(yield func(Document, error) bool) {
			for row, i := range order {
				m := metadata(row)
				m["i"], m["near"] = int64(i), int64(p.near[row])
				if !yield(Document{ID: fmt.Sprint(row), Vector: set.rows[row], Metadata: m}, nil) {
					return
				}
			}
		}
		if _, err := c.Load(t.Context(), docs, nil); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(vdb.Compact(t.Context()), vdb.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if len(set.rows) >= longPromise { // too large to keep in memory
		build(dir)
	} else {
		copyFixture(t, fmt.Sprint(set.name, len(set.rows), len(set.queries), set.index), dir, build)
	}
	p.vdb = open(t, dir, &opts)
	p.c = existing(t, p.vdb, "c")
	return p
}

// A promiseFilter is a filter for some queries; those nearest rows of a query
// that were seen already are left out, too.
type promiseFilter struct {
	name    string
	where   filter.Expr
	queries [][]float32
	seen    int
}

func (p *promised) filters(queries int) []promiseFilter {
	rows := len(p.rows)
	var around [][]float32
	for i, v := range p.rows {
		if p.near[i] < rows/20 {
			around = append(around, v)
		}
	}
	var beside [][]float32 // others near to the same vector
	for i := range min(len(around), queries) {
		v, w := slices.Clone(around[i]), around[p.rng.IntN(len(around))]
		for j := range v {
			v[j] += 0.1 * (w[j] - v[j])
		}
		beside = append(beside, v)
	}
	all := []promiseFilter{
		{"none", nil, p.queries, 0},
		{"50 %", filter.Lt("i", rows/2), p.queries, 0},
		{"10 %", filter.Lt("i", rows/10), p.queries, 0},
		{"1 %", filter.Lt("i", rows/100), p.queries, 0},
		{"the nearest 10 % to one", filter.Lt("near", rows/10), p.queries, 0},
		{"the same, for queries near to it", filter.Lt("near", rows/10), beside, 0},
		{"all but the nearest 2 % to one, for queries near to it", filter.Gte("near", rows/50), beside, 0},
		{"all but the nearest 10 %, likewise", filter.Gte("near", rows/10), beside, 0},
	}
	for _, seen := range []int{1, 10, 20, 50, 200, 2000} {
		if seen < rows/4 {
			all = append(all, promiseFilter{fmt.Sprintf("not the nearest %d, seen already", seen), nil, p.queries, seen})
		}
	}
	return append(all, promiseFilter{"50 %, not the nearest 20", filter.Lt("i", rows/2), p.queries, 20})
}

// measure asks for several recalls, and compares the answers with their promises.
func (p *promised) measure(t *testing.T, f promiseFilter, table io.Writer) {
	t.Helper()
	targets := []Accuracy{Recall(0.9), Recall(0.95), Recall(0.98), Recall(0.99)}
	got := make([]MeasuredRecall, len(targets))
	if f.seen == 0 {
		var err error
		got, err = p.c.MeasureRecall(t.Context(), RecallTest{Queries: f.queries, Accuracies: targets, Where: f.where})
		if err != nil {
			t.Fatal(err)
		}
	} else {
		p.measureSeen(t, f, targets, got)
	}
	walked, cells := 0, ""
	for _, m := range got {
		walked += m.Queries - m.Exact
		cells += fmt.Sprintf(" %.4f |", m.Recall)
		least := m.Recall + 0.01
		if len(p.rows) >= longPromise {
			least = m.High
		}
		if m.Exact < m.Queries && least < m.Promised || m.Promised < m.Target-1e-9 {
			t.Errorf("%s, filter %s: %+v", p.name, f.name, m)
		}
	}
	fmt.Fprintf(table, " %.0f %% |%s\n", 100*float64(walked)/float64(len(targets)*max(1, len(f.queries))), cells)
}

// measureSeen does as MeasureRecall, for queries with a filter each.
func (p *promised) measureSeen(t *testing.T, f promiseFilter, targets []Accuracy, got []MeasuredRecall) {
	t.Helper()
	ask := func(q Query) *Result {
		r, err := p.c.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	tallies := make([]nearest.Tally, len(targets))
	for _, vec := range f.queries {
		var seen []any
		for _, h := range ask(Query{Near: Vector(vec), K: f.seen, Where: f.where, Accuracy: Exact, Select: IDsOnly}).Hits {
			seen = append(seen, must(strconv.Atoi(h.ID)))
		}
		where := filter.Nin("row", seen...)
		if f.where != nil {
			where = filter.And(f.where, where)
		}
		truth := ask(Query{Near: Vector(vec), Where: where, Accuracy: Exact, Select: IDsOnly}).Hits
		for i, target := range targets {
			r := ask(Query{Near: Vector(vec), Where: where, Accuracy: target, Select: IDsOnly})
			found := 0
			for _, h := range r.Hits {
				if h.Score >= truth[len(truth)-1].Score {
					found++
				}
			}
			tallies[i].Add(found, len(truth))
			got[i].Promised += r.Recall / float64(len(f.queries))
			if r.Exact {
				got[i].Exact++
			}
		}
	}
	for i, target := range targets {
		got[i].Target, got[i].RecallEstimate = float64(target.(Recall)), RecallEstimate(tallies[i].Estimate(nearest.Usual))
	}
}

// nearness says of every row how many are nearer to a vector.
func nearness(set promiseSet, centre []float32) []int {
	s := score.New(set.metric, centre)
	scores, order, ranks := make([]float64, len(set.rows)), make([]int, len(set.rows)), make([]int, len(set.rows))
	for i, v := range set.rows {
		scores[i], order[i] = s.Score(v), i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(scores[b], scores[a]), a-b) })
	for rank, i := range order {
		ranks[i] = rank
	}
	return ranks
}
