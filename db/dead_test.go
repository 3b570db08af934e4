package db

import (
	"fmt"
	"strings"
	"testing"
)

// TestPassOverDead: few dead rows do not make searches filtered ones. A search walks with the
// setting of a collection without dead rows. Where more of the nearest rows are dead than it may
// pass over, it searches again as under a filter, and finds the nearest live rows.
func TestPassOverDead(t *testing.T) {
	words := readDemoWords(t)
	opts := promising
	vdb := open(t, t.TempDir(), &opts)
	c := collection(t, vdb, "c", Schema{Dim: len(words[0])})
	var docs []Document
	for i, v := range words[50:] {
		docs = append(docs, Document{ID: fmt.Sprint(i), Vector: v})
	}
	upsert(t, c, docs...)
	if err := vdb.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask := func(q int, accuracy Accuracy) Query {
		return Query{Near: Vector(words[q]), K: 10, Accuracy: accuracy, Select: IDsOnly}
	}
	plan := func(q int) string {
		t.Helper()
		ex, err := c.Explain(t.Context(), ask(q, Recall(0.95)))
		if err != nil {
			t.Fatal(err)
		}
		if len(ex.Plan) != 1 || ex.Plan[0].Plan != "graph" {
			t.Fatalf("%+v", ex.Plan)
		}
		setting, _, _ := strings.Cut(ex.Plan[0].Reason, " costs ")
		return setting
	}
	setting := plan(0)
	answered := func(q int) (considered int) {
		t.Helper()
		truth := mustSearch(t, c, ask(q, Exact))
		r := mustSearch(t, c, ask(q, Recall(0.95)))
		if got := hitsOf(truth.Hits, r.Hits); got < 8 || len(r.Hits) != 10 {
			t.Errorf("query %d: found %d of the 10 nearest, %d hits", q, got, len(r.Hits))
		}
		return r.Considered
	}
	again := 0
	for q := range 50 {
		before := mustSearch(t, c, ask(q, Recall(0.95)))
		remove := func(n int) {
			t.Helper()
			for _, h := range mustSearch(t, c, ask(q, Exact)).Hits[:n] {
				if _, err := c.Delete(t.Context(), h.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		if remove(2); q == 0 {
			if got := answered(q); got != before.Considered {
				t.Errorf("with two dead rows nearby %d rows are considered, without %d", got, before.Considered)
			}
			if got := plan(q); got != setting {
				t.Errorf("with dead rows: %s; without: %s", got, setting)
			}
		}
		if remove(1); answered(q) > before.Considered {
			again++
		}
	}
	if again < 25 { // of others the first search has missed one of the three, or passed over too many before
		t.Errorf("%d of 50 queries are searched again", again)
	}
}
