package db

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/filter"
)

// sparse returns a collection of n documents, written in random order of id. One of 20 has few =
// true, and the twentieth with the greatest ids has late = true.
func sparse(t testing.TB, vdb *DB, n int) *Collection {
	t.Helper()
	c := collection(t, vdb, "c", Schema{})
	var docs []Document
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		docs = append(docs, Document{ID: fmt.Sprintf("%07d", i), Metadata: Metadata{"few": i%20 == 0, "late": i >= n-n/20, "fewest": i%200 == 0}})
	}
	for some := range slices.Chunk(docs, 1000) {
		upsert(t, c, some...)
	}
	return c
}

// TestListFew lists few of the documents, spread over all ids or in a row, page by page: from the
// tree of ids, from a head, and from both.
func TestListFew(t *testing.T) {
	vdb := open(t, t.TempDir(), &Options{Compaction: Manual})
	const n = 2000
	c := sparse(t, vdb, n)
	list := func(field string, q ListQuery) (ids []string) {
		t.Helper()
		q.Where, q.Select = filter.Eq(field, true), IDsOnly
		for {
			page, err := c.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range page.Documents {
				ids = append(ids, d.ID)
			}
			if q.After, q.Offset = page.Next, 0; q.After == "" {
				return ids
			}
		}
	}
	check := func(when string, want map[string][]string) {
		t.Helper()
		for field, ids := range want {
			slices.Sort(ids)
			for _, limit := range []int{1, 3, 50, n} {
				for _, offset := range []int{0, 1, 70} {
					if diff := gocmp.Diff(ids[offset:], list(field, ListQuery{Limit: limit, Offset: offset})); diff != "" {
						t.Fatalf("%s, %s by %d from %d: %s", when, field, limit, offset, diff)
					}
				}
			}
		}
	}
	want := map[string][]string{}
	for i := range n {
		id := fmt.Sprintf("%07d", i)
		if i%20 == 0 {
			want["few"] = append(want["few"], id)
		}
		if i >= n-n/20 {
			want["late"] = append(want["late"], id)
		}
	}
	check("in a head", want)
	flush(t, vdb)
	check("in the tree", want)
	for i := range 20 { // behind, between and in place of others
		id := fmt.Sprintf("%07d", 97*i)
		upsert(t, c, Document{ID: id + "+", Metadata: Metadata{"few": true, "late": true}}, Document{ID: id})
		for field := range want {
			want[field] = append(slices.DeleteFunc(want[field], func(s string) bool { return s == id }), id+"+")
		}
	}
	check("in both", want)
}

// TestListFewCost: a page of few matches that are spread evenly does not read the ids of all.
func TestListFewCost(t *testing.T) {
	vdb := open(t, t.TempDir(), &Options{Compaction: Manual})
	const n = 20_000
	c := sparse(t, vdb, n)
	flush(t, vdb)
	q := ListQuery{Where: filter.Eq("few", true), Limit: 5, Select: IDsOnly, After: fmt.Sprintf("%07d", n/2)}
	allocs := testing.AllocsPerRun(10, func() {
		if page, err := c.List(t.Context(), q); err != nil || len(page.Documents) != 5 {
			t.Fatal(cmp.Or(err, fmt.Errorf("%d documents", len(page.Documents))))
		}
	})
	if matches := float64(n / 20); allocs > matches/2 {
		t.Errorf("%.0f allocations for 5 of %.0f matches", allocs, matches)
	}
}

// BenchmarkListFew lists a twentieth of 100,000 documents in pages of 100.
func BenchmarkListFew(b *testing.B) {
	vdb := open(b, b.TempDir(), &Options{Compaction: Manual})
	c := sparse(b, vdb, 100_000)
	flush(b, vdb)
	for _, field := range []string{"few", "late", "fewest"} {
		b.Run(field, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				q := ListQuery{Where: filter.Eq(field, true), Limit: 100, Select: IDsOnly}
				for more := true; more; more = q.After != "" {
					page, err := c.List(b.Context(), q)
					if err != nil {
						b.Fatal(err)
					}
					q.After = page.Next
				}
			}
		})
	}
}

// TestListSeq compares ListSeq with the pages of List, for filters, offsets and limits around the
// lengths of its pages: in the newest version and in a snapshot that is older than the tree of ids.
func TestListSeq(t *testing.T) {
	vdb := open(t, t.TempDir(), &Options{Compaction: Manual})
	const n = 5000
	c := sparse(t, vdb, n)
	snap, err := vdb.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	if _, err := c.DeleteWhere(t.Context(), filter.Eq("few", true)); err != nil {
		t.Fatal(err)
	}
	if err := vdb.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	old, err := snap.Of(c)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]*Collection{"newest": c, "snapshot": old} {
		for _, where := range []filter.Expr{nil, filter.Eq("late", true), filter.Eq("few", true)} {
			page, err := c.List(t.Context(), ListQuery{Where: where, Limit: n, Select: IDsOnly})
			if err != nil {
				t.Fatal(err)
			}
			want := page.IDs()
			for _, q := range []ListQuery{{}, {Limit: 1}, {Limit: 1023, Offset: 1}, {Limit: 1024}, {Limit: 1025}, {Limit: 3072, Offset: 2},
				{Limit: math.MaxInt, Offset: n - 1}, {Offset: n}, {After: fmt.Sprintf("%07d", n-500), Offset: 3}} {
				q.Where, q.Select = where, IDsOnly
				from, _ := slices.BinarySearch(want, q.After+"\x00")
				part := want[min(from+q.Offset, len(want)):]
				part = part[:min(cmp.Or(q.Limit, n), len(part))]
				got := []string{}
				for d, err := range c.ListSeq(t.Context(), q) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, d.ID)
				}
				if diff := gocmp.Diff(part, got); diff != "" {
					t.Fatalf("%s, %v, limit %d, offset %d, after %q: %s", name, where, q.Limit, q.Offset, q.After, diff)
				}
			}
		}
	}
	for _, err := range c.ListSeq(t.Context(), ListQuery{Limit: -1}) {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("a limit of -1: %v", err)
		}
	}
	for range c.ListSeq(t.Context(), ListQuery{}) { // Close does not wait for a loop
		if err := vdb.Close(); err != nil {
			t.Fatal(err)
		}
		break
	}
}

// TestListSeqOfLongIDs: however long ids are, a page of them takes a few MiB.
func TestListSeqOfLongIDs(t *testing.T) {
	vdb := open(t, t.TempDir(), nil)
	c := collection(t, vdb, "c", Schema{})
	var docs []Document
	for i := range 20_000 {
		docs = append(docs, Document{ID: fmt.Sprintf("%s%05d", strings.Repeat("x", 900), i)})
	}
	upsert(t, c, docs...)
	if err := vdb.Flush(t.Context()); err != nil { // ids of a head are in memory anyway
		t.Fatal(err)
	}
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	n, most, last := 0, uint64(0), now.TotalAlloc
	for _, err := range c.ListSeq(t.Context(), ListQuery{Select: IDsOnly}) {
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&now)
		n, most, last = n+1, max(most, now.TotalAlloc-last), now.TotalAlloc
	}
	if n != len(docs) || most > 8<<20 {
		t.Errorf("%d documents; %d bytes were allocated between two", n, most)
	}
}
