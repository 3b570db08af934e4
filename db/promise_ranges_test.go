package db

import "testing"

// Promised recall is delivered to searches with a threshold, for the hits that reach it, and to
// pages of an answer, for the hits of all pages together. A promise is broken if the interval of
// 95 % is more than 0.01 below it. All kinds of queries, all sets, and real data:
//
//	go test ./db -run TestPromiseRanges -promise.full -promise.rows 20000 -promise.data DIR -promise.out FILE -timeout 12h
func TestPromiseRanges(t *testing.T) {
	skipRecall(t)
	rows, queries, ks, targets := promiseSample, promiseAsked, []int{10, 100}, []float64{0.8, 0.95}
	if *promiseFull {
		rows, queries, ks, targets = *promiseRows, 400, []int{10, 100, 1000}, []float64{0.8, 0.9, 0.95, 0.98, 0.99}
	}
	if *promiseK > 0 {
		ks = []int{*promiseK}
	}
	table := newPromiseTable("wanted", targets)
	filterSets(t, rows, queries, func(set promiseSet) {
		kinds := filterKinds(t, set, queries)
		if *promiseFull {
			kinds = append([]promiseQueries{{likeTheRows, set.queries}}, syntheticQueries(set, queries)...)
			kinds = append(kinds, queriesInFiles(t, set)...)
		}
		p := plantPromise(t, set)
		for _, kind := range kinds {
			for _, k := range ks {
				first, half, paged := p.ranges(t, kind.vecs[:min(queries, len(kind.vecs))], k)
				table.ask(t, set, kind.name, "as good as the best", k, first)
				table.ask(t, set, kind.name, "as good as the best half", k, half)
				table.ask(t, set, kind.name, "five pages", k, paged)
			}
		}
		if err := p.vdb.Close(); err != nil {
			t.Fatal(err)
		}
	})
	table.write(t)
}

// ranges returns questions for at most k hits that reach a score, of the best hit and of the one in
// the middle of k, and for k hits in five pages.
func (p *promised) ranges(t *testing.T, vecs [][]float32, k int) (first, half, paged []question) {
	t.Helper()
	for _, v := range vecs {
		query := Query{Near: Vector(v), K: k, Accuracy: Exact, Select: IDsOnly}
		truth := mustSearch(t, p.c, query).Hits
		reaching := func(least float64) question {
			n := 0
			for n < len(truth) && truth[n].Score >= least {
				n++
			}
			return question{truth[:n], func(a Accuracy) ([]Hit, bool) {
				q := query
				q.Threshold, q.Accuracy = &least, a
				r := mustSearch(t, p.c, q)
				for _, h := range r.Hits {
					if h.Score < least {
						t.Fatalf("%s: a hit has score %v, the threshold is %v", p.name, h.Score, least)
					}
				}
				return r.Hits, r.Exact
			}}
		}
		first = append(first, reaching(truth[0].Score))
		half = append(half, reaching(truth[len(truth)/2-1].Score))
		paged = append(paged, question{truth, func(a Accuracy) ([]Hit, bool) {
			q := query
			q.Accuracy, q.K = a, k/5
			return p.pages(t, q, 5)
		}})
	}
	return first, half, paged
}

// pages returns the hits of n pages, each once, and whether all pages are exact.
func (p *promised) pages(t *testing.T, q Query, n int) (hits []Hit, exact bool) {
	t.Helper()
	exact = true
	seen := make(map[string]bool)
	for range n {
		r := mustSearch(t, p.c, q)
		if len(r.Hits) != q.K {
			t.Fatalf("%s: a page from %d has %d hits of %d", p.name, q.Offset, len(r.Hits), q.K)
		}
		exact = exact && r.Exact
		for _, h := range r.Hits {
			if !seen[h.ID] {
				seen[h.ID] = true
				hits = append(hits, h)
			}
		}
		q.Offset += q.K
	}
	return hits, exact
}
