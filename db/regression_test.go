package db

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

var traces = flag.Int("traces", 1, "operation traces that TestOptionsDoNotChangeAnswers runs")

// quick is for tests that do not test durability. With coded, the smallest segment
// gets codes, once the database is compacted or closed.
var (
	quick = &Options{Sync: SyncNever}
	coded = &Options{Sync: SyncNever, tests: testOptions{codedBytes: 1}}
)

// memDir returns a temporary directory, in memory where there is such a thing:
// for tests that open and sync often and do not care.
func memDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "vecbolt-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// fill loads documents 0 to n-1.
func fill(t testing.TB, c *Collection, n int, doc func(i int) Document) {
	t.Helper()
	_, err := c.Load(t.Context(), func(yield func(Document, error) bool) {
		for i := range n {
			if !yield(doc(i), nil) {
				return
			}
		}
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
}

func flush(t testing.TB, vdb *DB) {
	t.Helper()
	if err := vdb.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func compact(t testing.TB, vdb *DB) {
	t.Helper()
	if err := vdb.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func find(t testing.TB, c *Collection, q Query) *Result {
	t.Helper()
	res, err := c.Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// answers asks for the neighbours of some vectors and returns them as text,
// with the bits of the scores.
func answers(t testing.TB, c *Collection, queries [][]float32, k int) []string {
	t.Helper()
	var out []string
	for _, v := range queries {
		for _, h := range find(t, c, Query{Near: Vector(v), K: k, Select: IDsOnly}).Hits {
			out = append(out, fmt.Sprintf("%s %016x", h.ID, math.Float64bits(h.Score)))
		}
	}
	return out
}

// zvec#724: after replacing k of n documents, compacting and reopening, some
// ids had the vectors of others.
func TestEveryIDKeepsItsVector(t *testing.T) {
	const n, k, dim = 2000, 700, 6
	vdb := open(t, t.TempDir(), coded)
	c := collection(t, vdb, "c", Schema{Dim: dim, Metric: L2})
	vecs := randomVectors(rand.New(rand.NewPCG(724, 1)), n+k, dim)
	fill(t, c, n, func(i int) Document { return Document{ID: fmt.Sprint(i), Vector: vecs[i]} })
	flush(t, vdb)
	for i := range k {
		id := (i * 37) % n
		vecs[id] = vecs[n+i]
		upsert(t, c, Document{ID: fmt.Sprint(id), Vector: vecs[id]})
	}
	verify := func(when string) {
		t.Helper()
		queries := make([]Query, n)
		for i := range n {
			queries[i] = Query{Near: Vector(vecs[i]), K: 1, Select: WithVector}
		}
		results, err := c.SearchBatch(t.Context(), queries)
		if err != nil {
			t.Fatal(err)
		}
		for i, res := range results {
			h := res.Hits[0]
			if h.ID != fmt.Sprint(i) || h.Score != 0 || !slices.Equal(h.Vector, vecs[i]) {
				t.Fatalf("%s: the vector of %d finds %s with %v, score %v", when, i, h.ID, h.Vector, h.Score)
			}
		}
	}
	verify("before")
	compact(t, vdb)
	verify("compacted")
	vdb = reopen(t, vdb, coded)
	c = collection(t, vdb, "c", Schema{Metric: L2})
	verify("reopened")
	check(t, vdb)
}

// lancedb#3177: documents replaced after a compaction no longer matched filters on
// their metadata.
func TestFilterMatchesReplacedDocuments(t *testing.T) {
	ctx := t.Context()
	vdb := open(t, t.TempDir(), quick)
	c := collection(t, vdb, "c", Schema{Dim: 1})
	fill(t, c, 3000, func(i int) Document {
		return Document{ID: fmt.Sprint(i), Vector: []float32{1}, Metadata: Metadata{"state": "old", "i": i}}
	})
	compact(t, vdb)
	for i := range 100 {
		upsert(t, c, Document{ID: fmt.Sprint(i * 30), Vector: []float32{2}, Metadata: Metadata{"state": "new", "i": i * 30}})
	}
	if err := c.Patch(ctx, Patch{ID: "1", Set: Metadata{"state": "new"}}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []func(){func() {}, func() { flush(t, vdb) }, func() { compact(t, vdb) }} {
		step()
		for state, want := range map[string]int{"new": 101, "old": 2899} {
			n, err := c.Count(ctx, filter.Eq("state", state))
			if err != nil || n != want {
				t.Fatalf("%d %s documents, want %d: %v", n, state, want, err)
			}
			res := find(t, c, Query{Near: Vector{1}, K: 3000, Where: filter.And(filter.Eq("state", state), filter.Lt("i", 60))})
			if want := map[string]int{"new": 3, "old": 57}[state]; len(res.Hits) != want {
				t.Fatalf("%d %s hits, want %d", len(res.Hits), state, want)
			}
		}
	}
}

// chroma#7090, #674, #3638: after 1,000 documents, a threshold inside, an index
// could not be read after a restart, or gave other answers.
func TestRestartAtThresholds(t *testing.T) {
	for _, n := range []int{999, 1000, 1001, 10_000} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d/lost=%v", n, lost), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(7090, uint64(n)))
				vdb := open(t, t.TempDir(), coded)
				c := collection(t, vdb, "c", Schema{Dim: 16})
				vecs := randomVectors(rng, n, 16)
				fill(t, c, n, func(i int) Document {
					return Document{ID: fmt.Sprint(i), Vector: vecs[i], Metadata: Metadata{"i": i}}
				})
				queries := append(randomVectors(rng, 20, 16), vecs[0], vecs[n-1])
				want := answers(t, c, queries, 50)
				for range 2 {
					if lost {
						vdb.abandon()
					}
					vdb = reopen(t, vdb, coded)
					c = collection(t, vdb, "c", Schema{})
					if diff := cmp.Diff(want, answers(t, c, queries, 50)); diff != "" {
						t.Fatalf("(-before +after)\n%s", diff)
					}
					if got, err := c.Count(t.Context(), filter.Gte("i", 0)); got != n || err != nil {
						t.Fatalf("%d documents, want %d: %v", got, n, err)
					}
				}
			})
		}
	}
}

// chroma#1205, #620: pages of a result did not fit together.
func TestPagesAreOneResult(t *testing.T) {
	rng := rand.New(rand.NewPCG(1205, 1))
	vdb := open(t, t.TempDir(), quick)
	c := collection(t, vdb, "c", Schema{Dim: 4})
	vecs := vectorsOf("duplicates", rng, 900, 4) // most scores tie
	fill(t, c, 900, func(i int) Document {
		return Document{ID: fmt.Sprint(i), Vector: vecs[i], Metadata: Metadata{"i": i}}
	})
	flush(t, vdb)
	for i := range 50 { // some in the head
		upsert(t, c, Document{ID: fmt.Sprint(i * 7), Vector: vecs[i], Metadata: Metadata{"i": i * 7}})
	}
	where := filter.Gt("i", 100)
	all := find(t, c, Query{Near: Vector(vecs[3]), K: 5000, Where: where}).Hits
	for _, size := range []int{1, 7, 100} {
		var pages []string
		for offset := 0; ; offset += size {
			page := find(t, c, Query{Near: Vector(vecs[3]), K: size, Offset: offset, Where: where}).Hits
			pages = append(pages, ids(page)...)
			if len(page) < size {
				break
			}
		}
		if diff := cmp.Diff(ids(all), pages); diff != "" {
			t.Fatalf("pages of %d: (-whole +pages)\n%s", size, diff)
		}
	}
}

// A page that begins with the score of the hit before it is one of the exact answer, though a
// recall is asked for: pages among equal scores would repeat hits.
func TestPagesAmongEqualScores(t *testing.T) {
	const rows, dim, size, pages = 4000, 16, 2, 5
	c := collection(t, open(t, t.TempDir(), &promising), "c", Schema{Dim: dim, Metric: L2, Text: &TextIndex{}})
	rng := rand.New(rand.NewPCG(1, 2))
	vec := func() (v Vector) {
		for range dim {
			v = append(v, float32(rng.IntN(2)))
		}
		return v
	}
	fill(t, c, rows, func(i int) Document { return Document{ID: fmt.Sprint(i), Vector: vec()} })
	if err := c.db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	settled, walks := 0, 0
	for range 40 {
		q := Query{Near: vec(), K: size * pages, Accuracy: Exact, Select: IDsOnly}
		all := mustSearch(t, c, q).Hits
		q.K, q.Accuracy = size, Recall(0.9)
		for q.Offset = 0; q.Offset < len(all); q.Offset += size {
			r := mustSearch(t, c, q)
			both, err := c.SearchBatch(t.Context(), []Query{{Text: "beside"}, q})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r.Hits, both[1].Hits); diff != "" || both[1].Exact != r.Exact {
				t.Errorf("a page from %d, beside a query by text: exact %v, alone %v (-alone +beside)\n%s", q.Offset,
					both[1].Exact, r.Exact, diff)
			}
			if !r.Exact {
				walks++
				continue
			}
			settled++
			if diff := cmp.Diff(ids(all[q.Offset:q.Offset+size]), ids(r.Hits)); diff != "" {
				t.Errorf("a page from %d: (-exact +page)\n%s", q.Offset, diff)
			}
		}
	}
	if settled < 80 || walks < 40 {
		t.Errorf("%d pages are exact, %d approximate", settled, walks)
	}
}

// Of equal rows, an approximate answer has those that the exact one has, the first by id, so that
// pages of duplicates do not repeat hits.
func TestDuplicatesByID(t *testing.T) {
	const vectors, copies, dim, size = 300, 5, 16, 2
	c := collection(t, open(t, t.TempDir(), &promising), "c", Schema{Dim: dim, Metric: L2})
	rng := rand.New(rand.NewPCG(3, 4))
	distinct := make([]Vector, vectors)
	for i := range distinct {
		for range dim {
			distinct[i] = append(distinct[i], float32(rng.NormFloat64()))
		}
	}
	fill(t, c, vectors*copies, func(i int) Document { // ids in the opposite order of rows
		return Document{ID: fmt.Sprintf("%06d", vectors*copies-i), Vector: distinct[i%vectors]}
	})
	if err := c.db.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	walks := 0
	for _, v := range distinct[:40] {
		q := Query{Near: v, K: copies, Accuracy: Exact, Select: IDsOnly}
		all := ids(mustSearch(t, c, q).Hits)
		q.K, q.Accuracy = size, Recall(0.9)
		r := mustSearch(t, c, q)
		if !r.Exact {
			walks++
		}
		if diff := cmp.Diff(all[:size], ids(r.Hits)); diff != "" {
			t.Errorf("the first page: (-exact +page)\n%s", diff)
		}
	}
	if walks < 20 {
		t.Errorf("%d answers are approximate", walks)
	}
}

// chroma#2025: asking for a stored vector did not return its document.
func TestStoredVectorFindsItself(t *testing.T) {
	for _, metric := range []Metric{Cosine, L2} {
		for _, kind := range []string{"normal", "clustered", "cone"} {
			t.Run(fmt.Sprint(metric, "/", kind), func(t *testing.T) {
				const n, dim = 1000, 48
				vdb := open(t, t.TempDir(), coded)
				c := collection(t, vdb, "c", Schema{Dim: dim, Metric: metric})
				vecs := vectorsOf(kind, rand.New(rand.NewPCG(2025, 1)), n, dim)
				for i := range 20 {
					vecs[i] = vecs[i+100] // exact duplicates
				}
				fill(t, c, n, func(i int) Document { return Document{ID: fmt.Sprint(i), Vector: vecs[i]} })
				compact(t, vdb)
				for i := range n {
					id := fmt.Sprint(i)
					for _, q := range []Query{{Near: Stored(id), K: 1, Select: WithVector}, {Near: Vector(vecs[i]), K: 1, Select: WithVector}} {
						h := find(t, c, q).Hits[0]
						if h.ID != id && !slices.Equal(h.Vector, vecs[i]) {
							t.Fatalf("the vector of %s finds %s, score %v", id, h.ID, h.Score)
						}
					}
				}
			})
		}
	}
}

// pgvector#259, faiss#3186, hnswlib#465: a filter that lets few through gave
// fewer hits than match, or none, or an error.
func TestFilterSelectivity(t *testing.T) {
	const n, dim = 20_000, 4
	vdb := open(t, t.TempDir(), coded)
	c := collection(t, vdb, "c", Schema{Dim: dim, Metric: Dot})
	vecs := randomVectors(rand.New(rand.NewPCG(259, 1)), n, dim)
	docs := map[string]Document{}
	document := func(i int) Document {
		// The farther a document, the likelier it matches.
		vecs[i][0] = float32(-i)
		d := Document{ID: fmt.Sprint(i), Vector: vecs[i], Metadata: Metadata{"i": int64(i)}}
		docs[d.ID] = d
		return d
	}
	fill(t, c, n*3/4, document)
	compact(t, vdb)
	fill(t, c, n/4, func(i int) Document { return document(n*3/4 + i) })
	if deleted, err := c.DeleteWhere(t.Context(), filter.Eq("i", n/2)); deleted != 1 || err != nil {
		t.Fatal(deleted, err)
	}
	delete(docs, fmt.Sprint(n/2))
	for _, percent := range []float64{0, 0.01, 0.1, 1, 50, 99, 100} {
		where := filter.Gte("i", n-int(n*percent/100))
		matching := 0
		for _, d := range docs {
			if matches(where, d) {
				matching++
			}
		}
		for _, k := range []int{1, 10, 300} {
			q := Query{Near: Vector{1, 0.1, 0, 0}, K: k, Where: where}
			res := find(t, c, q)
			if len(res.Hits) != min(k, matching) || res.Matched != matching {
				t.Errorf("%v %%: %d hits of %d for k %d, matched %d", percent, len(res.Hits), matching, k, res.Matched)
			}
			sameHits(t, bruteForce(docs, Dot, q), res)
		}
	}
}

// lance#1780: a filter ignored writes after the last compaction.
func TestFilterSeesNewDocuments(t *testing.T) {
	vdb := open(t, t.TempDir(), quick)
	c := collection(t, vdb, "c", Schema{Dim: 1})
	want := 0
	verify := func(when string) {
		t.Helper()
		n, err := c.Count(t.Context(), filter.Eq("wanted", true))
		hits := find(t, c, Query{Near: Vector{1}, K: 10_000, Where: filter.Eq("wanted", true)}).Hits
		if n != want || len(hits) != want || err != nil {
			t.Fatalf("%s: %d counted, %d found, want %d: %v", when, n, len(hits), want, err)
		}
	}
	for round := range 4 {
		for i := range 1100 { // one block of the head with columns, one without
			wanted := i%11 == round
			if wanted {
				want++
			}
			upsert(t, c, Document{ID: fmt.Sprint(round, "-", i), Vector: []float32{1}, Metadata: Metadata{"wanted": wanted}})
			if i%300 == 0 || i >= engine.ColumnRows-2 && i <= engine.ColumnRows+2 {
				verify("written")
			}
		}
		verify("written")
		flush(t, vdb)
		verify("flushed")
		if round == 1 {
			compact(t, vdb)
			verify("compacted")
		}
	}
}

// coder/hnsw#10: an index from which everything was deleted could not be
// written to again.
func TestDeleteAllInsertAgain(t *testing.T) {
	vdb := open(t, t.TempDir(), quick)
	c := collection(t, vdb, "c", Schema{Dim: 3})
	vecs := randomVectors(rand.New(rand.NewPCG(10, 1)), 300, 3)
	document := func(i int) Document { return Document{ID: fmt.Sprint(i), Vector: vecs[i], Text: "t"} }
	everything := make([]string, len(vecs))
	for i := range everything {
		everything[i] = fmt.Sprint(i)
	}
	var want []string
	for round, between := range []func(){func() {}, func() { flush(t, vdb) }, func() { compact(t, vdb) }, func() {
		vdb = reopen(t, vdb, quick)
		c = collection(t, vdb, "c", Schema{})
	}} {
		for i := range vecs {
			if _, err := c.Insert(t.Context(), document(i)); err != nil {
				t.Fatal(err)
			}
		}
		between()
		got := answers(t, c, vecs[:20], 10)
		if want == nil {
			want = got
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("round %d: (-first +now)\n%s", round, diff)
		}
		if n, err := c.Delete(t.Context(), everything...); n != len(vecs) || err != nil {
			t.Fatalf("round %d: deleted %d, %v", round, n, err)
		}
		between()
		if res := find(t, c, Query{Near: Vector(vecs[0])}); len(res.Hits) != 0 || must(c.Info()).Documents != 0 {
			t.Fatalf("round %d: %d documents, %d hits after deleting all", round, must(c.Info()).Documents, len(res.Hits))
		}
	}
	check(t, vdb)
}

// USearch#735, muninndb#620: documents inserted at the same time got lost.
func TestConcurrentInsertsAreFound(t *testing.T) {
	const writers, each, dim = 16, 60, 8
	vdb := open(t, t.TempDir(), &Options{Sync: SyncNever, HeadSize: 64 << 10})
	c := collection(t, vdb, "c", Schema{Dim: dim, Metric: L2})
	vecs := randomVectors(rand.New(rand.NewPCG(735, 1)), writers*each, dim)
	var wait sync.WaitGroup
	for w := range writers {
		wait.Go(func() {
			for i := w * each; i < (w+1)*each; i++ {
				if _, err := c.Insert(t.Context(), Document{ID: fmt.Sprint(i), Vector: vecs[i]}); err != nil {
					t.Error(err)
					return
				}
				// At once, for every reader.
				res, err := c.Search(t.Context(), Query{Near: Vector(vecs[i]), K: 1})
				if err != nil || len(res.Hits) != 1 || res.Hits[0].ID != fmt.Sprint(i) {
					t.Errorf("%d is not found after its insert: %+v %v", i, res, err)
					return
				}
			}
		})
	}
	wait.Wait()
	for range 2 {
		if must(c.Info()).Documents != len(vecs) {
			t.Fatalf("%d documents, want %d", must(c.Info()).Documents, len(vecs))
		}
		for i, v := range vecs {
			if h := find(t, c, Query{Near: Vector(v), K: 1}).Hits; h[0].ID != fmt.Sprint(i) {
				t.Fatalf("%d is not found", i)
			}
		}
		check(t, vdb)
		vdb = reopen(t, vdb, nil)
		c = collection(t, vdb, "c", Schema{Metric: L2})
	}
}

// NornicDB#433: recall was good on random vectors and bad on what chunks of
// texts give: tight clusters of near-duplicates.
func TestNearDuplicates(t *testing.T) {
	const clusters, each, dim = 12, 60, 32
	rng := rand.New(rand.NewPCG(433, 1))
	vdb := open(t, t.TempDir(), coded)
	centres := randomVectors(rng, clusters, dim)
	for _, metric := range []Metric{Cosine, Dot, L2} {
		c := collection(t, vdb, metric.String(), Schema{Dim: dim, Metric: metric})
		docs := map[string]Document{}
		fill(t, c, clusters*each, func(i int) Document {
			v := slices.Clone(centres[i%clusters])
			for range i / clusters % 4 { // from no component to three, by the least there is
				j := rng.IntN(dim)
				v[j] = math.Nextafter32(v[j], 100)
			}
			d := Document{ID: fmt.Sprint(i), Vector: v}
			docs[d.ID] = d
			return d
		})
		for range 2 {
			for _, v := range centres {
				for _, k := range []int{1, each / 2, each, each + 1} {
					q := Query{Near: Vector(v), K: k}
					sameHits(t, bruteForce(docs, metric, q), find(t, c, q))
				}
			}
			compact(t, vdb)
		}
	}
}

// lucene#16552: quality faded under many rounds of small changes. After 1000 rounds
// the answers equal those of a database made from the remaining documents.
func TestChurnDoesNotFade(t *testing.T) {
	const n, rounds, dim = 1000, 1000, 8
	rng := rand.New(rand.NewPCG(16552, 1))
	vdb := open(t, t.TempDir(), &Options{Sync: SyncNever, HeadSize: 200 << 10})
	c := collection(t, vdb, "c", Schema{Dim: dim})
	now := map[int][]float32{}
	for i, v := range randomVectors(rng, n, dim) {
		now[i] = v
	}
	fill(t, c, n, func(i int) Document { return Document{ID: fmt.Sprint(i), Vector: now[i]} })
	for range rounds {
		batch := &Batch{}
		for _, v := range randomVectors(rng, n/100, dim) {
			i := rng.IntN(n)
			if rng.IntN(4) == 0 {
				batch.Delete("c", fmt.Sprint(i))
				delete(now, i)
				continue
			}
			batch.Upsert("c", Document{ID: fmt.Sprint(i), Vector: v})
			now[i] = v
		}
		if err := vdb.Apply(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	fresh := open(t, t.TempDir(), quick)
	f := collection(t, fresh, "c", Schema{Dim: dim})
	for _, i := range slices.Sorted(maps.Keys(now)) {
		upsert(t, f, Document{ID: fmt.Sprint(i), Vector: now[i]})
	}
	queries := randomVectors(rng, 50, dim)
	if diff := cmp.Diff(answers(t, f, queries, 20), answers(t, c, queries, 20)); diff != "" {
		t.Errorf("(-fresh +churned)\n%s", diff)
	}
	check(t, vdb)
}

// diskSize returns the bytes of all files below dir.
func diskSize(t testing.TB, dir string) (n int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// bulky returns a document of about 1.5 KiB with a unique text and vector.
func bulky(i, version int) Document {
	d := Document{ID: fmt.Sprint(i), Vector: make([]float32, 256), Metadata: Metadata{"i": i}}
	for j := range d.Vector {
		d.Vector[j] = float32(i*1000+version) + float32(j)/256
	}
	d.Text = strings.Repeat(fmt.Sprintf("<%d, version %d> ", i, version), 25)
	return d
}

// sqlite-vec#220: space of replaced and deleted documents never came back.
func TestSpaceComesBack(t *testing.T) {
	const n = 4000
	size := func(documents int, change func(*DB, *Collection)) float64 {
		dir := t.TempDir()
		vdb := open(t, dir, quick)
		c := collection(t, vdb, "c", Schema{Dim: 256})
		fill(t, c, documents, func(i int) Document { return bulky(i, 0) })
		change(vdb, c)
		if must(c.Info()).Documents != documents && must(c.Info()).Documents != documents/2 {
			t.Fatalf("%d documents", must(c.Info()).Documents)
		}
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
		return float64(diskSize(t, dir))
	}
	fresh := size(n, func(*DB, *Collection) {})
	half := size(n/2, func(*DB, *Collection) {})
	churned := size(n, func(vdb *DB, c *Collection) {
		for round := range 10 {
			fill(t, c, n, func(i int) Document { return bulky((i*7919)%n, round+1) })
		}
		compact(t, vdb)
	})
	deleted := size(n, func(vdb *DB, c *Collection) {
		if _, err := c.DeleteWhere(t.Context(), filter.Gte("i", n/2)); err != nil {
			t.Fatal(err)
		}
		compact(t, vdb)
	})
	t.Logf("fresh %.1f MiB, churned %.3f of it; half deleted %.3f of fresh ones", fresh/(1<<20), churned/fresh, deleted/half)
	if churned > 1.2*fresh {
		t.Errorf("10 times rewritten: %.0f bytes, fresh %.0f", churned, fresh)
	}
	if deleted > 1.1*half {
		t.Errorf("half deleted: %.0f bytes, fresh %.0f", deleted, half)
	}
}

// sqlite-vec#220: deleted texts and vectors could still be read in the file.
// After Compact the files that hold the data are free of them, provided that
// meta.bolt was worth rewriting; after Close all files are.
func TestDeletedBytesAreGone(t *testing.T) {
	const n = 4000
	dir := t.TempDir()
	vdb := open(t, dir, quick)
	c := collection(t, vdb, "c", Schema{Dim: 256})
	fill(t, c, n, func(i int) Document { return bulky(i, 0) })
	flush(t, vdb)
	erased := []int{}
	for i := 1; i < n; i += 2 {
		erased = append(erased, i)
		if i%4 == 1 {
			if _, err := c.Delete(t.Context(), fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
			continue
		}
		upsert(t, c, bulky(i, 1))
	}
	found := func(files ...string) (n int) {
		for _, name := range files {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range erased {
				d := bulky(i, 0)
				var vec []byte
				for _, x := range d.Vector[:8] {
					vec = binary.LittleEndian.AppendUint32(vec, math.Float32bits(x))
				}
				if bytes.Contains(b, []byte(d.Text[:15])) || bytes.Contains(b, vec) {
					n++
				}
			}
		}
		return n
	}
	glob := func(pattern string) []string {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	erased = erased[:100] // looking for all takes long
	if found(glob("seg/*.vec")...) < 100 || found(filepath.Join(dir, engine.MetaName)) < 100 {
		t.Fatal("the test does not see what is there")
	}
	compact(t, vdb)
	if n := found(append(glob("seg/*"), filepath.Join(dir, engine.MetaName))...); n > 0 {
		t.Errorf("after Compact %d erased texts and vectors can be read", n)
	}
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	if n := found(append(glob("*.*"), glob("*/*")...)...); n > 0 {
		t.Errorf("after Close %d erased texts and vectors can be read", n)
	}
}

// lancedb#2325, haiku.rag#554: maintenance took memory in proportion to the
// table. Here it takes some bytes per row, however long the vectors are.
func TestCompactionMemory(t *testing.T) {
	const dim = 512
	heap := func() int64 {
		runtime.GC() // only memory in use counts,
		runtime.GC() // and what pools keep is not
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	peak := func(n int) int64 {
		var measuring atomic.Bool
		var most atomic.Int64
		hook := func(op vfs.Op) error {
			if measuring.Load() && op.Kind == vfs.OpWrite && strings.HasPrefix(op.Name, engine.TmpDir) {
				most.Store(max(most.Load(), heap())) // one goroutine compacts
			}
			return nil
		}
		// No graphs: building one takes about its size, however the rows got there.
		vdb := open(t, memDir(t), &Options{Sync: SyncNever, Compaction: Manual, tests: testOptions{hook: hook, graphSize: 1 << 40}})
		c := collection(t, vdb, "c", Schema{Dim: dim})
		for i := range n / 1000 {
			fill(t, c, 1000, func(j int) Document {
				d := Document{ID: fmt.Sprint(1000*i + j), Vector: make([]float32, dim), Metadata: Metadata{"group": j % 10}}
				d.Vector[0] = float32(j)
				return d
			})
			flush(t, vdb)
		}
		before := heap()
		measuring.Store(true)
		compact(t, vdb)
		measuring.Store(false)
		if s := must(vdb.Stats()).Collections[0]; s.Segments != 1 || s.Documents != n {
			t.Fatalf("%+v", s)
		}
		return most.Load() - before
	}
	small, large := peak(2000), peak(8000)
	perRow := float64(large-small) / 6000
	t.Logf("%d KiB for 2,000 rows, %d KiB for 8,000: %.1f bytes per row, of which the vector has %d",
		small>>10, large>>10, perRow, 4*dim)
	// Files are written in pieces of 2 MiB.
	if small <= 0 || small > 4<<20 || perRow > 60 {
		t.Errorf("compaction takes %d bytes for 2,000 rows, %d for 8,000", small, large)
	}
}

// duckdb-vss, chunkhound#339: after a restart the index had another metric.
func TestMetricSurvives(t *testing.T) {
	ctx := t.Context()
	vdb := open(t, t.TempDir(), quick)
	metrics := []Metric{Cosine, Dot, L2}
	vecs := randomVectors(rand.New(rand.NewPCG(339, 1)), 200, 5)
	want := map[Metric][]string{}
	for _, m := range metrics {
		c := collection(t, vdb, m.String(), Schema{Dim: 5, Metric: m})
		fill(t, c, len(vecs), func(i int) Document { return Document{ID: fmt.Sprint(i), Vector: vecs[i]} })
		want[m] = answers(t, c, vecs[:5], 20)
	}
	for _, lost := range []bool{false, true} {
		if lost {
			vdb.abandon()
		}
		vdb = reopen(t, vdb, quick)
		for _, m := range slices.Backward(metrics) {
			c, err := vdb.Collection(m.String())
			if err != nil {
				t.Fatal(err)
			}
			if must(c.Info()).Schema.Metric != m {
				t.Errorf("%v has become %v", m, must(c.Info()).Schema.Metric)
			}
			if diff := cmp.Diff(want[m], answers(t, c, vecs[:5], 20)); diff != "" {
				t.Errorf("%v: (-before +after)\n%s", m, diff)
			}
			for _, other := range metrics {
				_, err := vdb.OpenCollection(ctx, m.String(), Schema{Metric: other})
				if (other == m) != (err == nil) || err != nil && !errors.Is(err, ErrSchema) {
					t.Errorf("%v opened as %v: %v", m, other, err)
				}
			}
		}
		upsert(t, collection(t, vdb, "another", Schema{}), Document{ID: "x"}) // so that there is a log to lose
	}
}

// qdrant-client#765: the lock of a killed process kept other processes out.
func TestKilledHolderLeavesNoLock(t *testing.T) {
	if dir := os.Getenv("VECBOLT_HOLD_DIR"); dir != "" {
		vdb, err := Open(dir, &Options{Exclusive: true})
		if err == nil {
			_, err = vdb.OpenCollection(context.Background(), "c", Schema{})
		}
		fmt.Println("held:", err)
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
	}
	dir := t.TempDir()
	for range 3 {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledHolderLeavesNoLock$")
		cmd.Env = append(os.Environ(), "VECBOLT_HOLD_DIR="+dir)
		in, inErr := cmd.StdinPipe()
		out, err := cmd.StdoutPipe()
		if err := errors.Join(err, inErr, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "held: <nil>\n" {
			t.Fatal(line, err)
		}
		if _, err := Open(dir, nil); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint(cmd.Process.Pid)) {
			t.Errorf("open while process %d holds it: %v", cmd.Process.Pid, err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}
		vdb, err := Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		check(t, vdb)
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// chromem-go (nResults): asking for more than there is was an error.
func TestMoreThanThereIs(t *testing.T) {
	vdb := open(t, t.TempDir(), quick)
	c := collection(t, vdb, "c", Schema{Dim: 1, Metric: Dot})
	for n := range 5 {
		if res := find(t, c, Query{Near: Vector{1}, K: 1000, Offset: 0}); len(res.Hits) != n || !res.Complete {
			t.Fatalf("%d of %d documents, complete %v", len(res.Hits), n, res.Complete)
		}
		upsert(t, c, Document{ID: fmt.Sprint(n), Vector: []float32{float32(n)}})
	}
	all := Query{Near: Vector{1}, K: math.MaxInt32, Offset: 3}
	if res := find(t, c, all); len(res.Hits) != 2 {
		t.Fatalf("%d hits behind the first three of five", len(res.Hits))
	}
	if res := must(c.SearchFused(t.Context(), []Query{all, all})); len(res.Hits) != 2 {
		t.Fatalf("%d fused hits behind the first three of five", len(res.Hits))
	}
}

// sqlite-vec#157: k could not be more than a few thousand.
func TestKIsTheWholeCollection(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 10_000
	}
	vdb := open(t, t.TempDir(), quick)
	c := collection(t, vdb, "c", Schema{Dim: 2, Metric: Dot})
	fill(t, c, n, func(i int) Document {
		return Document{ID: fmt.Sprint(i), Vector: []float32{float32(i * 7919 % n), 1}}
	})
	hits := find(t, c, Query{Near: Vector{1, 0}, K: n, Select: IDsOnly}).Hits
	if len(hits) != n {
		t.Fatalf("%d hits, want %d", len(hits), n)
	}
	for i, h := range hits {
		if h.Score != float64(n-1-i) {
			t.Fatalf("hit %d has score %v", i, h.Score)
		}
	}
}

// vestige#181: a reader answered from a version that a writer had replaced. Here a
// reader takes what the writer writes, or excludes it.
func TestReadersAreNeverStale(t *testing.T) {
	dir := t.TempDir()
	vdb := open(t, dir, quick)
	upsert(t, collection(t, vdb, "c", Schema{}), Document{ID: "0"})
	for i := range 3 {
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
		reader := open(t, dir, &Options{ReadOnly: true, Exclusive: true})
		if _, err := Open(dir, quick); !errors.Is(err, ErrLocked) {
			t.Fatalf("a writer beside an exclusive reader: %v", err)
		}
		if n := must(collection(t, reader, "c", Schema{}).Info()).Documents; n != i+1 {
			t.Fatalf("the reader sees %d of %d", n, i+1)
		}
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
		reader = open(t, dir, &Options{ReadOnly: true})
		vdb = open(t, dir, quick)
		upsert(t, collection(t, vdb, "c", Schema{}), Document{ID: fmt.Sprint(i + 1)})
		if err := reader.Barrier(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := must(collection(t, reader, "c", Schema{}).Info()).Documents; n != i+2 {
			t.Fatalf("the reader sees %d of %d", n, i+2)
		}
		if err := reader.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A history is a database under some options that goes through a trace: the
// operations come from the seed alone, disturbances from the variant.
type history struct {
	t     *testing.T
	vdb   *DB
	opts  Options
	snaps []*Snapshot
	lines []string // what every operation answered
}

// variants are the combinations under which the answers must be the same.
// disturb comes after each operation.
var variants = []struct {
	name    string
	opts    Options
	disturb func(h *history, rng *rand.Rand)
}{
	{"default", Options{}, nil},
	{"always flushing", Options{HeadSize: 1}, nil},
	{"small head, no compaction", Options{HeadSize: 3000, Sync: SyncNever, Compaction: Manual}, nil},
	{"one worker", Options{HeadSize: 20_000, Sync: SyncInterval, Workers: 1}, nil},
	{"many workers", Options{HeadSize: 3000, Sync: SyncNever, Workers: 9}, nil},
	{"codes", Options{HeadSize: 3000, Sync: SyncNever, tests: testOptions{codedBytes: 1}}, func(h *history, rng *rand.Rand) {
		switch rng.IntN(12) {
		case 0:
			compact(h.t, h.vdb)
		case 1:
			h.restart(rng.IntN(2) == 0)
		}
	}},
	{"flushes", Options{Sync: SyncNever}, func(h *history, rng *rand.Rand) {
		if rng.IntN(4) == 0 {
			flush(h.t, h.vdb)
		}
	}},
	{"compactions", Options{HeadSize: 3000, Sync: SyncNever}, func(h *history, rng *rand.Rand) {
		if rng.IntN(8) == 0 {
			compact(h.t, h.vdb)
		}
	}},
	{"restarts", Options{Sync: SyncNever}, func(h *history, rng *rand.Rand) {
		if rng.IntN(8) == 0 {
			h.restart(rng.IntN(2) == 0)
		}
	}},
	{"restarts with a small head", Options{HeadSize: 3000, Sync: SyncInterval}, func(h *history, rng *rand.Rand) {
		if rng.IntN(8) == 0 {
			h.restart(rng.IntN(2) == 0)
		}
	}},
	{"snapshots", Options{HeadSize: 3000, Sync: SyncNever}, func(h *history, rng *rand.Rand) {
		switch rng.IntN(10) {
		case 0:
			s, err := h.vdb.Snapshot()
			if err != nil {
				h.t.Fatal(err)
			}
			h.snaps = append(h.snaps, s)
		case 1:
			h.forget()
		}
	}},
	{"backups", Options{Sync: SyncNever}, func(h *history, rng *rand.Rand) {
		if rng.IntN(20) == 0 { // and goes on in the copy
			dir := memDir(h.t)
			if err := h.vdb.Backup(h.t.Context(), dir); err != nil {
				h.t.Fatal(err)
			}
			h.Close()
			h.vdb = open(h.t, dir, &h.opts)
		}
	}},
}

// faiss#5504, lancedb#2761: some combinations of options and filters gave other
// answers. The same operations give the same answers, bits of scores included,
// under every combination, regardless of when the database is flushed, compacted,
// closed, lost or copied.
func TestOptionsDoNotChangeAnswers(t *testing.T) {
	for seed := range uint64(*traces) {
		var want []string
		for _, v := range variants {
			h := &history{t: t, opts: v.opts}
			h.vdb = open(t, memDir(t), &h.opts)
			rng := rand.New(rand.NewPCG(seed, 5504))
			disturbing := rand.New(rand.NewPCG(seed, 2761))
			for range 150 {
				h.operate(rng)
				if v.disturb != nil {
					v.disturb(h, disturbing)
				}
			}
			check(t, h.vdb)
			h.Close()
			if want == nil {
				want = h.lines
			}
			if diff := cmp.Diff(want, h.lines); diff != "" {
				t.Fatalf("seed %d: %q (-%s +%[2]s)\n%[4]s", seed, v.name, variants[0].name, diff)
			}
		}
	}
}

func (h *history) forget() {
	for _, s := range h.snaps {
		if err := s.Close(); err != nil {
			h.t.Fatal(err)
		}
	}
	h.snaps = nil
}

func (h *history) Close() {
	h.forget()
	if err := h.vdb.Close(); err != nil {
		h.t.Fatal(err)
	}
}

// restart opens the database again, read-only in between.
func (h *history) restart(lost bool) {
	h.forget()
	dir := h.vdb.engine.Dir
	if lost {
		h.vdb.abandon()
	}
	h.Close()
	reader := open(h.t, dir, &Options{ReadOnly: true})
	for _, info := range must(reader.Collections()) {
		if _, err := collection(h.t, reader, info.Name, info.Schema).Count(h.t.Context(), filter.Gt("n", 2)); err != nil {
			h.t.Fatal(err)
		}
	}
	if err := reader.Close(); err != nil {
		h.t.Fatal(err)
	}
	h.vdb = open(h.t, dir, &h.opts)
}

// say notes an answer. Errors count by their kind.
func (h *history) say(err error, format string, args ...any) {
	for _, kind := range []error{ErrNotFound, ErrExists, ErrDimensionMismatch} {
		if errors.Is(err, kind) {
			h.lines = append(h.lines, kind.Error())
			return
		}
	}
	if err != nil {
		h.t.Fatal(err)
	}
	h.lines = append(h.lines, fmt.Sprintf(format, args...))
}

// operate does one operation.
func (h *history) operate(rng *rand.Rand) {
	ctx := h.t.Context()
	const dim = 6
	name := []string{"a", "b"}[rng.IntN(2)]
	document := func() Document {
		d := Document{ID: fmt.Sprint(rng.IntN(80)), Text: strings.Repeat("t", rng.IntN(40)), Metadata: Metadata{"n": rng.IntN(6)}}
		if rng.IntN(5) > 0 {
			d.Vector = randomVectors(rng, 1, dim)[0]
		}
		if rng.IntN(3) > 0 {
			d.Metadata["tags"] = []any{"x", fmt.Sprint(rng.IntN(3))}
		}
		return d
	}
	where := []filter.Expr{nil, filter.Eq("n", 3), filter.Contains("tags", "1"), filter.Not(filter.Exists("tags")), filter.Lt("n", rng.IntN(7))}[rng.IntN(5)]
	kind, query := rng.IntN(14), randomVectors(rng, 1, dim)[0]
	batch := &Batch{}
	for range 1 + rng.IntN(25) {
		d := document()
		switch rng.IntN(8) {
		case 0:
			batch.Delete([]string{"a", "b"}[rng.IntN(2)], d.ID)
		case 1:
			batch.Upsert([]string{"a", "b"}[rng.IntN(2)], d)
		default:
			batch.Upsert(name, d)
		}
	}
	one, size, offset := document(), 1+rng.IntN(40), rng.IntN(5)

	for i, m := range []Metric{Cosine, L2} {
		if _, err := h.vdb.OpenCollection(ctx, []string{"a", "b"}[i], Schema{Metric: m}); err != nil {
			h.t.Fatal(err)
		}
	}
	c, err := h.vdb.Collection(name)
	if err != nil {
		h.t.Fatal(err)
	}
	switch kind {
	case 0:
		_, err := c.Insert(ctx, one)
		h.say(err, "inserted")
	case 1:
		err := c.Patch(ctx, Patch{ID: one.ID, Text: &one.Text, Vector: one.Vector, Set: one.Metadata})
		h.say(err, "patched")
	case 2:
		n, err := c.Delete(ctx, one.ID, fmt.Sprint(size))
		h.say(err, "deleted %d", n)
	case 3:
		n, err := c.DeleteWhere(ctx, filter.And(filter.Eq("n", offset), filter.Contains("tags", "2")))
		h.say(err, "deleted %d", n)
	case 4:
		if size > 30 {
			h.say(h.vdb.Drop(ctx, name), "dropped")
		} else {
			h.say(c.SetMetadata(ctx, one.Metadata), "described")
		}
	case 5:
		page, err := c.List(ctx, ListQuery{Where: where, Limit: size, Offset: offset, After: one.ID, Select: Everything})
		if err != nil {
			h.t.Fatal(err)
		}
		h.say(nil, "page of %d, next %q", page.Total, page.Next)
		for _, d := range page.Documents {
			h.say(nil, "%v", *d)
		}
	case 6:
		for d, err := range c.All(ctx, where, 0) {
			if err != nil {
				h.t.Fatal(err)
			}
			h.say(nil, "%v", *d)
		}
	case 7, 8:
		if must(c.Info()).Schema.Dim == 0 {
			return
		}
		q := Query{Near: Vector(query), K: size, Offset: offset, Where: where}
		if kind == 8 {
			q.Threshold = new([]float64{0, -8}[int(must(c.Info()).Schema.Metric)/2])
		}
		res := find(h.t, c, q)
		h.say(nil, "matched %d", res.Matched)
		for _, hit := range res.Hits {
			h.say(nil, "%016x %v", math.Float64bits(hit.Score), hit.Document)
		}
	default:
		h.say(h.vdb.Apply(ctx, batch), "applied")
	}
	h.say(nil, "%v", must(h.vdb.Collections()))
}

// A database also removes the files in its own directory: no copy of it may go
// there, under any name.
func TestCopiesInsideTheDatabase(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	vdb := open(t, dir, nil)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip(err) // on Windows it takes a privilege
	}
	for _, to := range []string{dir, filepath.Join(dir, engine.TmpDir, "copy"), filepath.Join(dir, "a", "b"), link, filepath.Join(link, "copy")} {
		if err := vdb.Backup(ctx, to); !errors.Is(err, ErrInvalid) && !errors.Is(err, ErrExists) { // its own is not empty
			t.Errorf("backup to %s: %v", to, err)
		}
		if _, err := vdb.NewPublisher(to, nil); !errors.Is(err, ErrInvalid) {
			t.Errorf("publish to %s: %v", to, err)
		}
	}
	if err := vdb.Backup(ctx, filepath.Join(filepath.Dir(link), "copy")); err != nil {
		t.Error(err)
	}
}
