package xray

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/simd"
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
