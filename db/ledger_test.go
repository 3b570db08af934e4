package db

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/query"
	"github.com/vecbolt/vecbolt/simd"
)

var ledgerSeeds = flag.Int("ledgers", 2, "seeds of TestExactIsBruteForce for each kind of database")

// An oracle answers queries by their documentation, from all documents and with
// lists of all of them. It takes rankings by text alone from the collection, which
// TestTextIsThatOfAFreshDatabase compares.
type oracle struct {
	t      *testing.T
	metric Metric
	docs   map[string]Document
	texts  *Collection
}

func (o *oracle) score(a, b []float32) float64 {
	switch o.metric {
	case Dot:
		return simd.Dot64(a, b) + 0
	case L2:
		return 0 - simd.L264(a, b)
	}
	n := math.Sqrt(simd.Dot64(a, a)) * math.Sqrt(simd.Dot64(b, b))
	if n == 0 {
		return 0
	}
	return max(-1, min(1, simd.Dot64(a, b)/n)) + 0
}

// vector returns the vector that a query asks for, and the examples that are not to be found.
func (o *oracle) vector(q Query) ([]float32, []string) {
	switch t := q.Near.(type) {
	case nil:
		return nil, nil
	case Vector:
		return t, nil
	case Stored:
		return o.docs[string(t)].Vector, nil
	}
	e := q.Near.(Examples)
	mean := func(ids []string) []float64 {
		sum := make([]float64, len(o.docs[ids[0]].Vector))
		for _, id := range ids {
			v, n := o.docs[id].Vector, 1.0
			if o.metric == Cosine {
				n = cmp.Or(math.Sqrt(simd.Dot64(v, v)), 1)
			}
			for i, x := range v {
				sum[i] += float64(x) / n
			}
		}
		for i := range sum {
			sum[i] /= float64(len(ids))
		}
		return sum
	}
	like := mean(e.Like)
	if len(e.Unlike) > 0 {
		for i, x := range mean(e.Unlike) {
			like[i] = 2*like[i] - x
		}
	}
	vec := make([]float32, len(like))
	for i, x := range like {
		vec[i] = float32(x)
	}
	return vec, append(slices.Clone(e.Like), e.Unlike...)
}

// all returns every document that a query finds, in order, without Offset, K, Group and MMR.
func (o *oracle) all(q Query) []Hit {
	var near, texts []Hit
	vec, examples := o.vector(q)
	if q.Group != nil { // documents without the field are in no group and not ranked
		in := filter.Exists(q.Group.Field)
		if q.Where != nil {
			in = filter.And(q.Where, in)
		}
		q.Where = in
	}
	if len(vec) > 0 {
		near = bruteForce(o.docs, o.metric, Query{Near: Vector(vec), K: len(o.docs) + 1, Where: q.Where})
	}
	if q.Text != "" {
		alone := Query{Text: q.Text, Where: q.Where, K: len(o.docs) + 1, Select: IDsOnly}
		r, err := o.texts.Search(o.t.Context(), alone)
		if err != nil {
			o.t.Fatal(err)
		}
		texts = r.Hits
	}
	for _, list := range []*[]Hit{&near, &texts} {
		*list = slices.DeleteFunc(*list, func(h Hit) bool { return slices.Contains(examples, h.ID) })
	}
	hits := append(near, texts...)
	if len(vec) > 0 && q.Text != "" {
		hits = o.fused(q.Fusion, near, texts)
	}
	hits = slices.DeleteFunc(hits, func(h Hit) bool {
		return q.Threshold != nil && h.Score < *q.Threshold
	})
	inOrder(hits)
	for i := range hits {
		hits[i].Score += 0 // never -0
		hits[i].Metadata = o.docs[hits[i].ID].Metadata
	}
	return hits
}

func inOrder(hits []Hit) {
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID))
	})
}

// fused adds up the scores of a document over all lists, which hold every document.
func (o *oracle) fused(f Fusion, near, texts []Hit) []Hit {
	weights, c := [2]float64{f.Vector, f.Text}, cmp.Or(f.C, 60)
	if weights == [2]float64{} {
		if weights = [2]float64{0.5, 0.5}; f.Method == RRF {
			weights = [2]float64{0.01, 0.99}
		}
	}
	scores := map[string]float64{}
	for leg, list := range [][]Hit{near, texts} {
		for i, h := range list {
			best, s := list[0].Score, 0.0
			switch {
			case f.Method == RRF:
				s = weights[leg] / (c + float64(i+1))
			case leg == 1:
				s = weights[leg] * (h.Score / best)
			case o.metric == L2:
				s = weights[leg] * ((1 - best) / (1 - h.Score))
			case o.metric == Dot && best > 0:
				s = weights[leg] * max(0, (h.Score+best)/(best+best))
			case o.metric == Cosine && best > -1:
				s = weights[leg] * max(0, (h.Score+1)/(best+1))
			}
			scores[h.ID] = float64(scores[h.ID]) + float64(s)
		}
	}
	var hits []Hit
	for id, s := range scores {
		hits = append(hits, Hit{Document: Document{ID: id}, Score: s})
	}
	return hits
}

// answer returns the hits of a query, and how many of them a complete answer has.
func (o *oracle) answer(q Query) ([]Hit, int) {
	hits := o.all(q)
	k := cmp.Or(q.K, DefaultK)
	switch {
	case q.Group != nil:
		groups := [][]Hit{}
		at := map[any]int{}
		for _, h := range hits {
			v := h.Metadata[q.Group.Field]
			i, ok := at[v]
			if !ok {
				i = len(groups)
				at[v] = i
				groups = append(groups, nil)
			}
			if len(groups[i]) < max(1, q.Group.Size) {
				groups[i] = append(groups[i], h)
			}
		}
		groups = groups[min(q.Offset, len(groups)):]
		hits = slices.Concat(groups[:min(k, len(groups))]...)
		return hits, len(hits)
	case q.MMR != nil:
		hits = o.diverse(q, hits[:min(len(hits), cmp.Or(q.MMR.Fetch, 5*(k+q.Offset)))])
	}
	hits = hits[min(q.Offset, len(hits)):]
	return hits[:min(k, len(hits))], min(k, len(hits))
}

func (o *oracle) diverse(q Query, pool []Hit) (taken []Hit) {
	pool = slices.Clone(pool)
	scale := 1.0
	if q.Text != "" && len(pool) > 0 {
		scale = pool[0].Score
	}
	for len(pool) > 0 {
		best, at := math.Inf(-1), 0
		for i, h := range pool {
			most, like := math.Inf(-1), false
			for _, g := range taken {
				if a, b := o.docs[h.ID].Vector, o.docs[g.ID].Vector; len(a) > 0 && len(b) > 0 {
					most, like = max(most, o.score(b, a)), true
				}
			}
			worth := float64(q.MMR.Lambda * (h.Score / scale))
			if like {
				worth -= float64((1 - q.MMR.Lambda) * most)
			}
			if worth > best {
				best, at = worth, i
			}
		}
		taken = append(taken, pool[at])
		pool = slices.Delete(pool, at, at+1)
	}
	return taken
}

// many is what SearchFused promises.
func (o *oracle) many(queries []Query, weights []float64) []Hit {
	scores := map[string]float64{}
	for i, q := range queries {
		q.K, q.Offset = len(o.docs)+1, 0
		for rank, h := range o.all(q) {
			scores[h.ID] += float64(weights[i] / float64(60+rank+1))
		}
	}
	var hits []Hit
	for id, s := range scores {
		hits = append(hits, Hit{Document: Document{ID: id}, Score: s})
	}
	inOrder(hits)
	k := cmp.Or(queries[0].K, DefaultK)
	hits = hits[min(queries[0].Offset, len(hits)):]
	return hits[:min(k, len(hits))]
}

// A tallyOf counts, for one feature, the answers that claimed to be exact and the
// others.
type tallyOf struct{ exact, other int }

// holdTo compares an answer with its own claims.
func holdTo(t *testing.T, name string, q Query, r *Result, want []Hit, count int) {
	t.Helper()
	have := map[string]bool{}
	same := len(r.Hits) == len(want)
	for i, h := range r.Hits {
		have[h.ID] = true
		same = same && want[i].ID == h.ID && math.Float64bits(want[i].Score) == math.Float64bits(h.Score)
	}
	found := 0
	for _, h := range want {
		if have[h.ID] {
			found++
		}
	}
	// Without a graph, what Recall says of the hits themselves is no promise but a bound.
	certain := !r.Exact && strings.HasPrefix(r.Plan, "exact scan") && q.Offset == 0 && q.MMR == nil
	fail := func(what string) {
		t.Errorf("%s: %s: %+v\n exact %v complete %v recall %v, %s\n got %v\nwant %v", name, what, q,
			r.Exact, r.Complete, r.Recall, r.Plan, brief(r.Hits), brief(want))
	}
	how, err := goalOf(q.Accuracy)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case r.Exact && !same:
		fail("it says exact and is not brute force")
	case r.Exact && (r.Recall != 1 || !r.Complete):
		fail("an exact answer promises less")
	case how.Exact() && !r.Exact:
		fail("it is not exact although that was wanted")
	case r.Complete && len(r.Hits) != count:
		fail(fmt.Sprintf("it says complete and has %d of %d hits", len(r.Hits), count))
	case !r.Complete && q.Group == nil && len(r.Hits) == cmp.Or(q.K, DefaultK):
		fail("it has K hits and says it is not complete")
	case certain && float64(found) < r.Recall*float64(count)-1e-9:
		fail(fmt.Sprintf("%d of %d hits are right, without a graph", found, count))
	case !(r.Recall >= 0 && r.Recall <= 1):
		fail("no share")
	}

}

func brief(hits []Hit) (s []string) {
	for _, h := range hits[:min(12, len(hits))] {
		s = append(s, fmt.Sprintf("%s %v", h.ID, h.Score))
	}
	return s
}

// An answer with Exact equals brute force in ids, order and bits, for every query
// and every graph search. An answer with Complete is complete. A recall promised
// without a graph holds in every single answer.
func TestExactIsBruteForce(t *testing.T) {
	t.Parallel() // one core each
	tallies := map[string]*tallyOf{}
	for seed := range uint64(*ledgerSeeds) {
		for i, metric := range []Metric{Cosine, L2, Dot} {
			for _, fill := range []string{"graphs", "scans"} {
				kind := []string{"normal", "clustered", "duplicates"}[(int(seed)+i)%3]
				t.Run(fmt.Sprint(seed, "/", metric, "/", fill, "/", kind), func(t *testing.T) {
					r := rand.New(rand.NewPCG(seed, uint64(i)))
					exactIsBruteForce(t, r, metric, fill == "graphs", kind, tallies)
				})
			}
		}
	}
	for _, feature := range []string{"vector", "group", "mmr", "like", "convex", "convex group", "convex mmr",
		"rrf", "rrf group", "fused", "snapshot"} {
		n := tallies[feature]
		if n == nil || n.exact == 0 || n.other == 0 {
			t.Errorf("%s: no answers of both kinds: %+v", feature, n)
			continue
		}
		t.Logf("%-14s %4d exact, %4d not", feature, n.exact, n.other)
	}
}

func exactIsBruteForce(
	t *testing.T, r *rand.Rand, metric Metric, graphs bool, kind string, tallies map[string]*tallyOf,
) {
	const rows, dim = 500, 6
	ctx := t.Context()
	opts := walking
	opts.tests.cheapFusion, opts.tests.convexTexts = []int{1, query.CheapFusion}[r.IntN(2)], 1
	if !graphs {
		opts.tests.graphSize, opts.tests.walkAlways, opts.tests.cheapFusion = 0, false, 1
	}
	vdb := open(t, t.TempDir(), &opts)
	schema := Schema{Dim: dim, Metric: metric, Text: &TextIndex{Language: "none"}}
	coll := collection(t, vdb, "c", schema)
	vecs := vectorsOf(kind, r, rows+20, dim)
	words := strings.Fields("ant bee cat dog elk fox gnu hen ibis jay kite lark")
	text := func(most int) string {
		var b []string
		for range 1 + r.IntN(most) {
			b = append(b, words[int(float64(len(words))*r.Float64()*r.Float64())])
		}
		return strings.Join(b, " ")
	}
	docs := map[string]Document{}
	put := func(lo, hi int) {
		var batch []Document
		for i := lo; i < hi; i++ {
			d := Document{ID: fmt.Sprint(i * 31 % 1009), Vector: vecs[i], Text: text(9),
				Metadata: Metadata{"i": int64(i), "g": int64(r.IntN(40) / (1 + i%3))}}
			switch i % 11 {
			case 3:
				d.Vector = nil
			case 5:
				d.Text = ""
			case 7:
				delete(d.Metadata, "g")
			}
			docs[d.ID] = d
			batch = append(batch, d)
		}
		upsert(t, coll, batch...)
	}
	put(0, rows*9/10)
	if err := vdb.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	put(rows*9/10, rows)
	for i := 4; i < rows; i += 17 {
		id := fmt.Sprint(i * 31 % 1009)
		delete(docs, id)
		if _, err := coll.Delete(ctx, id); err != nil {
			t.Fatal(err)
		}
	}
	var withVector []string
	for i := range rows {
		if d, ok := docs[fmt.Sprint(i*31%1009)]; ok && d.Vector != nil {
			withVector = append(withVector, d.ID)
		}
	}
	one := func() string { return withVector[r.IntN(len(withVector))] }
	count := func(feature string, exact bool) {
		n := tallies[feature]
		if n == nil {
			n = &tallyOf{}
			tallies[feature] = n
		}
		if exact {
			n.exact++
		} else {
			n.other++
		}
	}
	o := &oracle{t: t, metric: metric, docs: docs, texts: coll}
	query := func() (Query, string) {
		q, feature := Query{Near: Vector(vecs[rows+r.IntN(20)]), K: 1 + r.IntN(12), Select: IDsOnly}, "vector"
		switch r.IntN(6) {
		case 0:
			q.Offset = r.IntN(9)
		case 1:
			q.Where = filter.Lt("i", r.IntN(rows))
		case 2:
			q.Accuracy = Exact
		case 3:
			q.Accuracy = Recall([]float64{0.5, 0.9, 1}[r.IntN(3)])
		case 4:
			q.Accuracy = EF(1 + r.IntN(20))
		}
		switch r.IntN(8) {
		case 0:
			q.Near, feature = Stored(one()), "id"
		case 1:
			e := Examples{Like: []string{one(), one()}}
			if r.IntN(2) == 0 {
				e.Unlike = []string{one()}
			}
			q.Near, feature = e, "like"
		}
		if r.IntN(2) == 0 {
			q.Text = text(3)
			q.Fusion = Fusion{Method: FusionMethod(r.IntN(2)), Depth: []int{0, 0, 1, 30, 1000}[r.IntN(5)]}
			switch r.IntN(3) {
			case 0:
				q.Fusion.Vector, q.Fusion.Text = r.Float64(), r.Float64()
			case 1:
				q.Fusion.Vector = float64(r.IntN(2))
				q.Fusion.Text = 1 - q.Fusion.Vector
			}
			feature = q.Fusion.Method.String()
			if r.IntN(6) == 0 {
				q.Near, feature = nil, "text"
			}
		}
		if hits := o.all(q); r.IntN(6) == 0 && len(hits) > 0 {
			q.Threshold = new(hits[r.IntN(min(len(hits), 25))].Score)
		}
		extra := ""
		switch r.IntN(4) {
		case 0:
			q.Group, extra = &Group{Field: "g", Size: r.IntN(5)}, "group"
		case 1:
			q.MMR, extra = &MMR{Lambda: []float64{0, 0.3, 0.7, 1}[r.IntN(4)]}, "mmr"
			if r.IntN(2) == 0 {
				q.MMR.Fetch = q.limit() + r.IntN(60)
			}
		}
		switch {
		case extra == "":
		case feature == "convex" || feature == "rrf":
			feature += " " + extra
		case feature != "text":
			feature = extra
		}
		return q, feature
	}
	check := func(c *Collection, n int, as string) {
		var queries []Query
		var features []string
		for range n {
			q, feature := query()
			queries, features = append(queries, q), append(features, cmp.Or(as, feature))
		}
		results, err := c.SearchBatch(ctx, queries)
		if err != nil {
			t.Fatal(err)
		}
		for i, q := range queries {
			want, all := o.answer(q)
			holdTo(t, features[i]+" in a batch", q, results[i], want, all)
			count(features[i], results[i].Exact)
			if _, ok := q.Near.(Examples); ok && as == "" {
				count("like", results[i].Exact)
			}
			alone, err := c.Search(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			holdTo(t, features[i], q, alone, want, all)
		}
	}
	check(coll, 60, "")
	for range 12 {
		exact, n := r.IntN(3) == 0, 1+r.IntN(3)
		var queries []Query
		var weights []float64
		for range n {
			q, _ := query()
			q.Group, q.MMR, q.Accuracy = nil, nil, nil
			if exact {
				q.Accuracy = Exact
			}
			q.Fusion.Depth = min(q.Fusion.Depth, 30)
			queries, weights = append(queries, q), append(weights, float64(r.IntN(3)))
		}
		if slices.Max(weights) == 0 { // which is refused
			weights[0] = 1
		}
		got, err := coll.SearchFused(ctx, queries, weights...)
		if err != nil {
			t.Fatal(err)
		}
		want := o.many(queries, weights)
		first := queries[0]
		first.Threshold = nil
		holdTo(t, fmt.Sprintf("fused %v by %v", queries, weights), first, got, want, len(want))
		count("fused", got.Exact)
	}
	snap, err := vdb.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	old, err := snap.Collection("c")
	if err != nil {
		t.Fatal(err)
	}
	upsert(t, coll, Document{ID: "new", Vector: vecs[rows], Text: "ant bee cat"})
	if _, err := coll.Delete(ctx, withVector[:50]...); err != nil {
		t.Fatal(err)
	}
	if err := vdb.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	o.texts = old
	check(old, 15, "snapshot")
}

// The first round of a group may read every row of a segment, because it wants more
// rows than exist, and the query for one group may then search the graph: the
// answer promises no more than that search.
func TestGroupCountsEverySearch(t *testing.T) {
	const size = 101 // four times as many are more than the segment has, and fewer than all
	const inSegment, crowd, group = 350, 490, 110
	opts := walking
	vdb := open(t, t.TempDir(), &opts)
	c := collection(t, vdb, "c", Schema{Dim: 4, Metric: L2})
	here := []float32{30, 0, 0, 0}
	docs := []Document{{ID: "odd", Vector: here, Metadata: Metadata{"g": "few"}}}
	for i, v := range vectorsOf("normal", rand.New(rand.NewPCG(3, 3)), crowd, 4) {
		docs = append(docs, Document{ID: fmt.Sprint(i), Vector: v, Metadata: Metadata{"g": "crowd"}})
	}
	for i := range group { // the others of the best group come behind everything else
		v := []float32{-100, float32(i), 0, 0}
		docs = append(docs, Document{ID: fmt.Sprint("x", i), Vector: v, Metadata: Metadata{"g": "few"}})
	}
	upsert(t, c, docs[len(docs)-inSegment:]...)
	if err := vdb.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	upsert(t, c, docs[:len(docs)-inSegment]...)
	q := Query{Near: Vector(here), K: 1, Group: &Group{Field: "g", Size: size}, Select: IDsOnly}
	r, err := c.Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if r.Exact || r.Recall >= 1 || !strings.HasPrefix(r.Plan, "graph") {
		t.Errorf("exact %v, recall %v, %s", r.Exact, r.Recall, r.Plan)
	}
	if !r.Complete || len(r.Hits) != size {
		t.Errorf("complete %v, %d hits", r.Complete, len(r.Hits))
	}
	q.Accuracy = Exact
	if r, err = c.Search(t.Context(), q); err != nil || !r.Exact || r.Recall != 1 {
		t.Errorf("exact %v, recall %v, %v", r.Exact, r.Recall, err)
	}
}

// The best of both rankings together is in neither of them as far as they are read at first.
func TestHybridLooksDeeper(t *testing.T) {
	const n = 200
	for _, cheap := range []int{1, 0} {
		vdb := open(t, t.TempDir(), &Options{Sync: SyncNever, tests: testOptions{cheapFusion: cheap}})
		c := collection(t, vdb, "c", Schema{Dim: 2, Metric: L2, Text: &TextIndex{Language: "none"}})
		var docs []Document
		for i := range n {
			// The near documents score low by text and the far ones high, but one
			// document is good by both.
			near, little := []float32{float32(i) / 1e4, 0}, "word"+strings.Repeat(" other", 30)
			docs = append(docs, Document{ID: fmt.Sprintf("near%03d", i), Vector: near, Text: little},
				Document{ID: fmt.Sprintf("said%03d", i), Vector: []float32{50, 0}, Text: "word word"})
		}
		docs = append(docs, Document{ID: "both", Vector: []float32{0.1, 0}, Text: "word word other"})
		upsert(t, c, docs...)
		for _, method := range []FusionMethod{Convex, RRF} {
			q := Query{Near: Vector{0, 0}, Text: "word", K: 1, Select: IDsOnly}
			q.Fusion = Fusion{Method: method, Vector: 0.5, Text: 0.5}
			r, err := c.Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if want := method == Convex || cheap == 0; r.Exact != want {
				t.Errorf("%v, cheap %d: exact %v, recall %v", method, cheap, r.Exact, r.Recall)
			}
			if method == Convex && r.Hits[0].ID != "both" {
				t.Errorf("%v: %v is not the best", method, r.Hits)
			}
			q.Accuracy = Exact
			sure, err := c.Search(t.Context(), q)
			if err != nil || !sure.Exact {
				t.Fatalf("%v: exact %v, %v", method, sure.Exact, err)
			}
			q.Fusion.Depth = len(docs)
			whole, err := c.Search(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			w, s := whole.Hits[0], sure.Hits[0]
			if !whole.Exact || w.ID != s.ID || w.Score != s.Score {
				t.Errorf("%v: %+v with lists of everything, %+v", method, w, s)
			}
		}
	}
}

// Complete says that there is nothing to add: an approximate answer that a threshold made short
// cannot.
func TestComplete(t *testing.T) {
	f := plant(t, t.TempDir(), walking, Cosine, "normal", 600, 6)
	q := Query{Near: Vector(f.rngVector(6)), K: 10, Accuracy: EF(10), Select: IDsOnly}
	r, err := f.c.Search(t.Context(), q)
	if err != nil || r.Exact || !r.Complete || len(r.Hits) != 10 {
		t.Fatalf("exact %v, complete %v, %v", r.Exact, r.Complete, err)
	}
	q.Threshold = new(r.Hits[4].Score)
	if r, err = f.c.Search(t.Context(), q); err != nil || len(r.Hits) != 5 || r.Complete || r.Exact {
		t.Errorf("%d hits, complete %v, exact %v, %v", len(r.Hits), r.Complete, r.Exact, err)
	}
	q.Accuracy = Exact
	if r, err = f.c.Search(t.Context(), q); err != nil || len(r.Hits) < 5 || !r.Complete {
		t.Errorf("%d hits above a threshold, complete %v, %v", len(r.Hits), r.Complete, err)
	}
}

// A target without a vector is refused, whatever else the query has.
func TestEmptyVector(t *testing.T) {
	vdb := open(t, t.TempDir(), nil)
	c := collection(t, vdb, "c", Schema{Dim: 2, Text: &TextIndex{}})
	upsert(t, c, Document{ID: "a", Vector: []float32{1, 2}, Text: "hello world"})
	for want, near := range map[string]Target{
		"the query vector is empty":                     Vector{},
		"the id of the document to look for is empty":   Stored(""),
		"query has no examples":                         Examples{},
		"query has examples of what is not wanted only": Examples{Unlike: []string{"a"}},
		"query target of type *db.Vector":               &Vector{1, 2},
	} {
		q := Query{Near: near, Text: "hello"}
		_, err := c.Search(t.Context(), q)
		_, fused := c.SearchFused(t.Context(), []Query{q, {Text: "world"}})
		for _, err := range []error{err, fused} {
			if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%#v: %v, want %s", near, err, want)
			}
		}
	}
	for want, how := range map[string]Accuracy{
		"recall is -0.5":                Recall(-0.5),
		"recall is 1.5":                 Recall(1.5),
		"recall is NaN":                 Recall(math.NaN()),
		"ef is 0":                       EF(0),
		"ef is -1":                      EF(-1),
		"query accuracy of type *db.EF": new(EF(1)),
	} {
		_, err := c.Search(t.Context(), Query{Near: Vector{1, 2}, Accuracy: how})
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%#v: %v, want %s", how, err, want)
		}
	}
}
