package xray

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
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
		r.Vectors++
		if x.texts != nil { // a map alone needs no norms
			norm := math.Sqrt(simd.Dot64(d.Vector, d.Vector))
			norms = append(norms, norm)
			if norm == 0 {
				r.Zero++
			}
		}
		if len(x.sample) < x.Sample {
			x.sample = append(x.sample, document{d.ID, d.Vector})
		} else if i := x.rng.IntN(r.Vectors); i < len(x.sample) {
			x.sample[i] = document{d.ID, d.Vector}
		}
	}
	x.rng.Shuffle(len(x.sample), func(i, j int) { x.sample[i], x.sample[j] = x.sample[j], x.sample[i] })
	r.Sampled = len(x.sample)
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
	for d, err := range x.coll.GetSeq(x.ctx, ids, db.WithText) {
		if err != nil {
			return err
		}
		if d != nil && d.Text != "" {
			r.Texts[d.ID] = shorten(d.Text)
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
