package xray

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/rag/eval"
	"github.com/vecbolt/vecbolt/simd"
)

// Defaults for zero values.
const (
	defaultK      = 10
	defaultNear   = 0.98
	defaultSample = 10_000
	defaultPoints = 3_000
	defaultList   = 20
)

// Options tune Inspect. The zero value is the default.
type Options struct {
	// K is the number of neighbours considered per document; 0 means 10.
	K int
	// Near is the minimum cosine of near-duplicates; 0 means 0.98.
	Near float64
	// Sample is the number of documents searched for, drawn at random; 0 means 10,000. A
	// sample at least as large as the collection covers all of it.
	Sample int
	// Points is the number of documents on the map, at most Sample; 0 means 3,000.
	Points int
	// List is the maximum length of each list in the report; 0 means 20.
	List int
	// Seed initialises all random choices.
	Seed uint64
	// Where restricts the report to documents that match; nil means all.
	Where filter.Expr
	// Color is the dotted path of the metadata field that colours the map; empty means none.
	Color string
	// Log holds the results of past queries, see eval.Search and eval.ReadRun; nil means none.
	Log *eval.Run
	// Progress, if not nil, is called from time to time with the searches done and the total.
	Progress func(done, total int)
}

// A Report is the result of Inspect. Options.List limits lists; counts are complete.
type Report struct {
	Collection string    `json:"collection"`
	Metric     db.Metric `json:"metric"`
	Dim        int       `json:"dim"`
	Documents  int       `json:"documents"`
	Vectors    int       `json:"vectors"` // documents with a vector
	Zero       int       `json:"zero"`    // vectors of length zero
	Sampled    int       `json:"sampled"` // documents in the sample, each searched for
	K          int       `json:"k"`
	Near       float64   `json:"near"`

	Norms   *Distribution `json:"norms"`   // lengths of all vectors
	Nearest *Distribution `json:"nearest"` // score of the nearest neighbour of each document of the sample
	Random  *Distribution `json:"random"`  // scores of random pairs of the sample

	SameText    SameText     `json:"same_text"`
	Duplicates  Duplicates   `json:"duplicates"`
	Outliers    []Outlier    `json:"outliers"` // the farthest first
	Hubs        Hubs         `json:"hubs"`
	Unretrieved *Unretrieved `json:"unretrieved,omitempty"` // nil without a log
	Map         Map          `json:"map"`

	// Texts hold the beginning of the text of each document that the report names.
	Texts map[string]string `json:"texts"`
}

// SameText reports documents that share their text with another document, except for white space;
// with or without a vector. Documents without a text are not counted.
type SameText struct {
	Documents int     `json:"documents"`
	Groups    []Group `json:"groups"` // the largest first
}

// Duplicates reports documents that have a near-duplicate. Under a metric other than Cosine, only
// the K nearest neighbours of a document by that metric are compared.
type Duplicates struct {
	Documents int     `json:"documents"`
	Pairs     int     `json:"pairs"`               // each with at least one document of the sample
	Truncated int     `json:"truncated,omitempty"` // documents of the sample with too many near-duplicates to count all
	Groups    []Group `json:"groups"`              // documents connected by pairs, the largest group first
	Closest   []Pair  `json:"closest"`
}

// A Group is a set of near-duplicates.
type Group struct {
	Size int      `json:"size"`
	IDs  []string `json:"ids"` // the first few, in order
}

// A Pair is two documents and the cosine of their vectors.
type Pair struct {
	A      string  `json:"a"`
	B      string  `json:"b"`
	Cosine float64 `json:"cosine"`
}

// An Outlier is a document far from its neighbours.
type Outlier struct {
	ID       string  `json:"id"`
	Distance float64 `json:"distance"` // mean of 1 - cosine to its K neighbours, or of the Euclidean distance under L2
}

// Hubs reports how often documents are among the K neighbours of the sample (Radovanović,
// Nanopoulos, Ivanović 2010).
type Hubs struct {
	Top   []Hub `json:"top"`
	Never int   `json:"never"` // documents that are in no neighbourhood
	// of the occurrences of all documents: far above 1, hubs displace other neighbours
	Skewness    float64       `json:"skewness"`
	Occurrences *Distribution `json:"occurrences"`
}

// A Hub is a document with the number of neighbourhoods that contain it.
type Hub struct {
	ID    string `json:"id"`
	Count int    `json:"count"`
}

// Unretrieved reports the documents that no query of a log found.
type Unretrieved struct {
	Queries   int           `json:"queries"`
	Documents int           `json:"documents"`
	IDs       []string      `json:"ids"`
	Best      *Distribution `json:"best"` // score of the best document of each query
}

// A Map shows documents in the two directions in which their vectors vary most (PCA).
type Map struct {
	Field     string     `json:"field,omitempty"` // the field that gives the colours
	Numeric   bool       `json:"numeric,omitempty"`
	Labels    []string   `json:"labels,omitempty"` // values or value ranges of the field
	Explained [2]float64 `json:"explained"`        // share of the variance along x and y
	Points    []Point    `json:"points"`
}

// A Point is a document on the map.
type Point struct {
	ID    string  `json:"id"`
	X     float64 `json:"x"`
	Y     float64 `json:"y"`
	Label int     `json:"label"` // index into Map.Labels; 0 without a field
}

// Inspect examines a collection. If others write to the collection at the same time, pass the
// collection of a snapshot.
func Inspect(ctx context.Context, coll *db.Collection, opts Options) (*Report, error) {
	x, err := newInspection(ctx, coll, opts)
	if err == nil {
		x.texts = map[[16]byte][]string{}
		err = x.run(x.read, x.probe, x.compareAtRandom, x.useLog, x.draw, x.addTexts)
	}
	if err != nil {
		return nil, err
	}
	return x.report, nil
}

// Draw makes only the map, of Options.Points documents drawn at random. It costs one pass over the
// vectors and no search.
func Draw(ctx context.Context, coll *db.Collection, opts Options) (*Map, error) {
	opts.Points = cmp.Or(opts.Points, defaultPoints)
	opts.Sample, opts.Log = opts.Points, nil
	x, err := newInspection(ctx, coll, opts)
	if err == nil {
		err = x.run(x.read, x.draw)
	}
	if err != nil {
		return nil, err
	}
	return &x.report.Map, nil
}

func newInspection(ctx context.Context, coll *db.Collection, opts Options) (*inspection, error) {
	if opts.K < 0 || opts.K >= math.MaxInt32 || opts.Sample < 0 || opts.Points < 0 || opts.List < 0 ||
		!(opts.Near >= 0 && opts.Near <= 1) {
		return nil, fmt.Errorf("%w: k %d, sample %d, points %d, list %d, near %v", db.ErrInvalid,
			opts.K, opts.Sample, opts.Points, opts.List, opts.Near)
	}
	opts.K = cmp.Or(opts.K, defaultK)
	opts.Near = cmp.Or(opts.Near, defaultNear)
	opts.Sample = cmp.Or(opts.Sample, defaultSample)
	opts.Points = cmp.Or(opts.Points, defaultPoints)
	opts.List = min(cmp.Or(opts.List, defaultList), math.MaxInt32)
	info, err := coll.Info()
	if err != nil {
		return nil, err
	}
	schema := info.Schema
	return &inspection{
		Options: opts, ctx: ctx, coll: coll, metric: schema.Metric,
		rng: rand.New(rand.NewPCG(opts.Seed, 0x78726179)),
		report: &Report{
			Collection: info.Name, Metric: schema.Metric, Dim: schema.Dim, K: opts.K, Near: opts.Near,
			Texts: map[string]string{},
		},
	}, nil
}

func (x *inspection) run(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("inspect collection %q: %w", x.report.Collection, err)
		}
	}
	return nil
}

// An inspection is one call of Inspect.
type inspection struct {
	Options
	ctx    context.Context
	coll   *db.Collection
	metric db.Metric
	rng    *rand.Rand
	report *Report

	sample []document // in random order
	found  map[string]bool
	texts  map[[16]byte][]string // ids by a hash of the text; nil: not needed
}

// A document of the sample.
type document struct {
	id  string
	vec []float32
}

// read passes over all documents and draws the sample by reservoir sampling (Vitter 1985, algorithm
// R).
func (x *inspection) read() error {
	r := x.report
	if x.Log != nil {
		x.found = map[string]bool{}
		for _, ranking := range x.Log.Rankings {
			for _, s := range ranking {
				x.found[s.ID] = true
			}
		}
		r.Unretrieved = &Unretrieved{Queries: len(x.Log.Rankings), IDs: []string{}}
	}
	var norms []float64
	want := db.WithVector
	if x.texts != nil {
		want |= db.WithText
	}
	for d, err := range x.coll.All(x.ctx, x.Where, want) {
		if err != nil {
			return err
		}
		r.Documents++
		if u := r.Unretrieved; u != nil && !x.found[d.ID] {
			if u.Documents++; len(u.IDs) < x.List {
				u.IDs = append(u.IDs, d.ID)
			}
		}
		if words := strings.Fields(d.Text); x.texts != nil && len(words) > 0 {
			sum := sha256.Sum256([]byte(strings.Join(words, " ")))
			key := [16]byte(sum[:])
			x.texts[key] = append(x.texts[key], d.ID)
		}
		if len(d.Vector) == 0 {
			continue
		}
		norm := math.Sqrt(simd.Dot64(d.Vector, d.Vector))
		norms = append(norms, norm)
		if norm == 0 {
			r.Zero++
		}
		if len(x.sample) < x.Sample {
			x.sample = append(x.sample, document{d.ID, d.Vector})
		} else if i := x.rng.IntN(len(norms)); i < len(x.sample) {
			x.sample[i] = document{d.ID, d.Vector}
		}
	}
	x.rng.Shuffle(len(x.sample), func(i, j int) { x.sample[i], x.sample[j] = x.sample[j], x.sample[i] })
	r.Vectors, r.Sampled = len(norms), len(x.sample)
	r.Norms = distribute(norms)
	var same [][]string
	for _, ids := range x.texts {
		if len(ids) > 1 {
			same = append(same, ids)
			r.SameText.Documents += len(ids)
		}
	}
	r.SameText.Groups = largest(same, x.List)
	return nil
}

const (
	together = 128   // searches that share a pass over the vectors
	mostNear = 1_000 // maximum number of near-duplicates counted per document
	groupIDs = 8     // maximum number of ids listed per group
)

// probe searches for every document of the sample.
func (x *inspection) probe() error {
	p := prober{x: x, place: map[string]int{}, occurs: map[string]int{}, groups: unionFind{},
		seen: map[[2]string]bool{}}
	for i, d := range x.sample {
		p.place[d.id] = i
	}
	for lo := 0; lo < len(x.sample); lo += together {
		hi := min(lo+together, len(x.sample))
		if err := p.neighbours(lo, hi); err != nil {
			return err
		}
		if x.Progress != nil {
			x.Progress(hi, len(x.sample))
		}
	}
	p.finish()
	return nil
}

// A prober collects the statistics about the neighbours of the sample.
type prober struct {
	x       *inspection
	place   map[string]int // of each document of the sample
	nearest []float64
	occurs  map[string]int
	groups  unionFind
	pairs   []Pair
	seen    map[[2]string]bool // pairs counted; needed because being a neighbour is not mutual; at most K per document
}

func (p *prober) query(vec []float32) db.Query {
	q := db.Query{Near: db.Vector(vec), Where: p.x.Where, Accuracy: db.Exact, Select: db.IDsOnly}
	if p.x.metric != db.Cosine {
		q.Select = db.WithVector
	}
	return q
}

func (p *prober) neighbours(lo, hi int) error {
	x := p.x
	queries := make([]db.Query, 0, hi-lo)
	for i := lo; i < hi; i++ {
		q := p.query(x.sample[i].vec)
		q.K = x.K + 1 // plus the document itself
		queries = append(queries, q)
	}
	results, err := x.coll.SearchBatch(x.ctx, queries)
	if err != nil {
		return err
	}
	for i, res := range results {
		d := &x.sample[lo+i]
		hits := without(res.Hits, d.id, x.K)
		sum := 0.0
		near := 0
		for j := range hits {
			h := &hits[j]
			p.occurs[h.ID]++
			sum += x.distance(d, h)
			if x.cosine(d, h) >= x.Near {
				near++
			}
		}
		if len(hits) > 0 {
			p.nearest = append(p.nearest, hits[0].Score)
			p.outlier(Outlier{d.id, sum / float64(len(hits))})
		}
		if near == x.K && x.metric == db.Cosine { // there may be more
			q := p.query(d.vec)
			q.K, q.Threshold = mostNear+1, &x.Near
			res, err := x.coll.Search(x.ctx, q)
			if err != nil {
				return err
			}
			if hits = without(res.Hits, d.id, mostNear); len(hits) == mostNear {
				x.report.Duplicates.Truncated++
			}
		}
		for j := range hits {
			if c := x.cosine(d, &hits[j]); c >= x.Near {
				p.pair(lo+i, hits[j].ID, c)
			}
		}
	}
	return nil
}

// without returns the first k hits other than the document itself.
func without(hits []db.Hit, id string, k int) []db.Hit {
	if i := slices.IndexFunc(hits, func(h db.Hit) bool { return h.ID == id }); i >= 0 {
		hits = slices.Delete(hits, i, i+1)
	}
	return hits[:min(k, len(hits))]
}

// cosine returns the cosine between a document and a hit of its search.
func (x *inspection) cosine(d *document, h *db.Hit) float64 {
	if x.metric == db.Cosine {
		return h.Score
	}
	return simd.Cosine64(d.vec, h.Vector)
}

func (x *inspection) distance(d *document, h *db.Hit) float64 {
	if x.metric == db.L2 {
		return math.Sqrt(max(0, -h.Score))
	}
	return 1 - x.cosine(d, h)
}

func (p *prober) outlier(o Outlier) {
	r := p.x.report
	r.Outliers = append(r.Outliers, o)
	if len(r.Outliers) >= 64*p.x.List {
		r.Outliers = farthest(r.Outliers, p.x.List)
	}
}

func farthest(list []Outlier, n int) []Outlier {
	slices.SortFunc(list, func(a, b Outlier) int {
		return cmp.Or(cmp.Compare(b.Distance, a.Distance),
			cmp.Compare(a.ID, b.ID))
	})
	return list[:min(n, len(list))]
}

// pair counts a document of the sample and another document as near-duplicates, unless the other
// document's search has already counted the pair.
func (p *prober) pair(i int, other string, cosine float64) {
	id := p.x.sample[i].id
	pair := Pair{min(id, other), max(id, other), cosine}
	if j, ok := p.place[other]; ok && p.x.metric == db.Cosine {
		if j < i { // its search found this pair
			return
		}
	} else if ok { // its search may have missed this pair
		if p.seen[[2]string{pair.A, pair.B}] {
			return
		}
		p.seen[[2]string{pair.A, pair.B}] = true
	}
	p.x.report.Duplicates.Pairs++
	p.groups.join(id, other)
	p.pairs = append(p.pairs, pair)
	if len(p.pairs) >= 64*p.x.List {
		p.pairs = closest(p.pairs, p.x.List)
	}
}

func closest(pairs []Pair, n int) []Pair {
	slices.SortFunc(pairs, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(b.Cosine, a.Cosine), cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B))
	})
	return pairs[:min(n, len(pairs))]
}

func (p *prober) finish() {
	r, n := p.x.report, p.x.List
	r.Nearest = distribute(p.nearest)
	r.Outliers = append([]Outlier{}, farthest(r.Outliers, n)...)
	r.Duplicates.Closest = append([]Pair{}, closest(p.pairs, n)...)
	r.Duplicates.Documents = len(p.groups)
	r.Duplicates.Groups = p.groups.largest(n)

	counts := make([]float64, 0, r.Vectors)
	for id, c := range p.occurs {
		counts = append(counts, float64(c))
		r.Hubs.Top = append(r.Hubs.Top, Hub{id, c})
	}
	slices.SortFunc(r.Hubs.Top, func(a, b Hub) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count),
			cmp.Compare(a.ID, b.ID))
	})
	r.Hubs.Top = append([]Hub{}, r.Hubs.Top[:min(n, len(r.Hubs.Top))]...)
	r.Hubs.Never = r.Vectors - len(counts)
	for len(counts) < r.Vectors {
		counts = append(counts, 0)
	}
	r.Hubs.Occurrences = distributeCounts(counts)
	r.Hubs.Skewness = skewness(counts)
}

// unionFind is a forest over the documents that have near-duplicates.
type unionFind map[string]string

func (u unionFind) root(id string) string {
	parent, ok := u[id]
	if !ok {
		u[id] = id
		return id
	}
	for parent != id {
		u[id] = u[parent] // halve the path
		id, parent = u[id], u[u[id]]
	}
	return id
}

// join merges the groups of two documents. The root of a group is its first id.
func (u unionFind) join(a, b string) {
	a, b = u.root(a), u.root(b)
	u[max(a, b)] = min(a, b)
}

func (u unionFind) largest(n int) []Group {
	members := map[string][]string{}
	for id := range u {
		root := u.root(id)
		members[root] = append(members[root], id)
	}
	return largest(slices.Collect(maps.Values(members)), n)
}

// largest returns the n largest groups.
func largest(members [][]string, n int) []Group {
	groups := make([]Group, 0, len(members))
	for _, ids := range members {
		slices.Sort(ids)
		groups = append(groups, Group{len(ids), ids[:min(groupIDs, len(ids))]})
	}
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size),
			cmp.Compare(a.IDs[0], b.IDs[0]))
	})
	return groups[:min(n, len(groups))]
}

// randomPairs is the number of pairs of the sample that are compared.
const randomPairs = 20_000

func (x *inspection) compareAtRandom() error {
	var scores []float64
	if n := len(x.sample); n > 1 {
		for range min(randomPairs, n*(n-1)/2) {
			i, j := x.rng.IntN(n), x.rng.IntN(n-1)
			if j >= i {
				j++
			}
			scores = append(scores, score(x.metric, x.sample[i].vec, x.sample[j].vec))
		}
	}
	x.report.Random = distribute(scores)
	return nil
}

// useLog completes the statistics of the log that read has begun.
func (x *inspection) useLog() error {
	if x.Log == nil {
		return nil
	}
	var best []float64
	for _, ranking := range x.Log.Rankings {
		if len(ranking) > 0 {
			best = append(best, slices.MaxFunc(ranking,
				func(a, b eval.Scored) int { return cmp.Compare(a.Score, b.Score) }).Score)
		}
	}
	x.report.Unretrieved.Best = distribute(best)
	return nil
}

// snippet is the length of a displayed text, in runes.
const snippet = 90

// addTexts fetches the texts of all documents that the report names.
func (x *inspection) addTexts() error {
	r := x.report
	seen := map[string]bool{}
	var ids []string
	name := func(id string) {
		if !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	for _, g := range slices.Concat(r.Duplicates.Groups, r.SameText.Groups) {
		for _, id := range g.IDs {
			name(id)
		}
	}
	for _, p := range r.Duplicates.Closest {
		name(p.A)
		name(p.B)
	}
	for _, o := range r.Outliers {
		name(o.ID)
	}
	for _, h := range r.Hubs.Top {
		name(h.ID)
	}
	if r.Unretrieved != nil {
		for _, id := range r.Unretrieved.IDs {
			name(id)
		}
	}
	for _, p := range r.Map.Points {
		name(p.ID)
	}
	for group := range slices.Chunk(ids, 1024) {
		docs, err := x.coll.GetMany(x.ctx, group, db.WithText)
		if err != nil {
			return err
		}
		for _, d := range docs {
			if d != nil && d.Text != "" {
				r.Texts[d.ID] = shorten(d.Text)
			}
		}
	}
	return nil
}

func shorten(s string) string {
	if len(s) > 16*snippet { // shorten before splitting
		s = strings.ToValidUTF8(s[:16*snippet], "")
	}
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > snippet {
		s = string(r[:snippet-1]) + "…"
	}
	return s
}

// score is the score that a search would give.
func score(m db.Metric, a, b []float32) float64 {
	switch m {
	case db.Cosine:
		return simd.Cosine64(a, b)
	case db.Dot:
		return simd.Dot64(a, b)
	}
	return -simd.L264(a, b)
}

// A Distribution counts values in bins of equal width.
type Distribution struct {
	Count   int     `json:"count"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	Mean    float64 `json:"mean"`
	Median  float64 `json:"median"`
	Low     float64 `json:"low"`  // lower bound of the first bin
	High    float64 `json:"high"` // upper bound of the last bin
	Counts  []int   `json:"counts"`
	Outside int     `json:"outside,omitempty"` // values below Low or above High
}

// bins is the number of bins of a distribution.
const bins = 48

// distribute counts values in bins. It sorts values.
func distribute(values []float64) *Distribution {
	d := summarise(values)
	if len(values) == 0 {
		return d
	}
	d.Low, d.High = values[tail(values)], values[len(values)-1-tail(values)]
	if span := d.High - d.Low; !(span > 1e-6*max(math.Abs(d.Low), math.Abs(d.High))) || math.IsInf(span, 0) {
		d.Low, d.High = d.Low-0.5*max(math.Abs(d.Low), 1), d.High+0.5*max(math.Abs(d.High), 1)
	}
	fill(d, values, bins)
	return d
}

// distributeCounts is distribute for counts: bins begin at whole numbers, the first at 0.
func distributeCounts(values []float64) *Distribution {
	d := summarise(values)
	if len(values) == 0 {
		return d
	}
	span := values[len(values)-1-tail(values)] + 1
	width := math.Ceil(span / bins)
	n := math.Ceil(span / width)
	d.High = n * width
	fill(d, values, int(n))
	return d
}

// summarise sorts values and describes them.
func summarise(values []float64) *Distribution {
	d := &Distribution{Count: len(values), Counts: []int{}}
	slices.Sort(values)
	for _, v := range values {
		d.Mean += v / float64(len(values))
	}
	if len(values) > 0 {
		d.Min, d.Max, d.Median = values[0], values[len(values)-1], values[len(values)/2]
	}
	return d
}

// tail is the number of extreme values at each end that may lie outside of the bins, so that a few
// outliers do not push all other values into one bin.
func tail(values []float64) int { return len(values) / 200 }

func fill(d *Distribution, values []float64, bins int) {
	d.Counts = make([]int, bins)
	for _, v := range values {
		if v < d.Low || v > d.High {
			d.Outside++
			continue
		}
		d.Counts[min(bins-1, int(float64(bins)*((v-d.Low)/(d.High-d.Low))))]++
	}
}

// skewness is the third standardised moment.
func skewness(values []float64) float64 {
	mean, m2, m3 := 0.0, 0.0, 0.0
	n := float64(len(values))
	for _, v := range values {
		mean += v / n
	}
	for _, v := range values {
		m2 += (v - mean) * (v - mean) / n
		m3 += (v - mean) * (v - mean) * (v - mean) / n
	}
	if m2 == 0 {
		return 0
	}
	return m3 / math.Pow(m2, 1.5)
}
