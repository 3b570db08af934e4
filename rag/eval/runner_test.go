package eval_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/rag/eval"
)

// compass makes a collection of four directions and a document without a vector.
func compass(t *testing.T) *db.Collection {
	t.Helper()
	vdb, err := db.Open(filepath.Join(t.TempDir(), "t.vdb"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { vdb.Close() })
	c, err := vdb.OpenCollection(t.Context(), "compass", db.Schema{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Upsert(t.Context(),
		db.Document{ID: "east", Vector: []float32{1, 0}, Metadata: db.Metadata{"axis": "x"}},
		db.Document{ID: "north", Vector: []float32{0, 1}},
		db.Document{ID: "west", Vector: []float32{-1, 0}, Metadata: db.Metadata{"axis": "x"}},
		db.Document{ID: "south", Vector: []float32{0, -1}},
		db.Document{ID: "up", Text: "no vector"},
	)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSearch(t *testing.T) {
	c := compass(t)
	var queries []eval.Query
	for i := range 150 { // more than one batch
		queries = append(queries, eval.Query{ID: fmt.Sprint(i), Vector: []float32{1, 0.1 * float32(i%2)}})
	}
	run, err := eval.Search("dense", c, db.Query{Where: filter.Eq("axis", "x"), K: 1}, eval.Vector).Run(t.Context(), queries, 3)
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Rankings) != 150 || !run.Exact || run.Name != "dense" {
		t.Errorf("%d rankings, %+v", len(run.Rankings), run.Rankings["0"])
	}
	if diff := cmp.Diff([]eval.Scored{{ID: "east", Score: 1}, {ID: "west", Score: -1}}, run.Rankings["148"]); diff != "" {
		t.Error(diff)
	}
	_, err = eval.Search("dense", c, db.Query{}, eval.Vector).Run(t.Context(), []eval.Query{{ID: "q", Text: "words"}}, 3)
	if !errors.Is(err, eval.ErrNoVector) || !strings.Contains(err.Error(), `query "q"`) {
		t.Errorf("a query without a vector: %v", err)
	}
}

// Judgements of ids that the collection does not have measure nothing.
// TestProgress counts the runs that are done.
func TestProgress(t *testing.T) {
	c := compass(t)
	var done []int
	lab := eval.Lab{Queries: []eval.Query{{ID: "q", Vector: []float32{1, 0.1}}}, Qrels: eval.Qrels{"q": {"up": 1}}, Progress: func(runs int) { done = append(done, runs) }}
	if _, err := lab.Measure(t.Context(), eval.Search("a", c, db.Query{}, eval.Vector), eval.Search("b", c, db.Query{}, eval.Vector)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(done, []int{1, 2}) {
		t.Error(done)
	}
}

func TestNotJudged(t *testing.T) {
	c := compass(t)
	queries := []eval.Query{{ID: "q", Vector: []float32{1, 0.1}}}
	measure := func(qrels eval.Qrels, c *db.Collection) error {
		lab := eval.Lab{Queries: queries, Qrels: qrels, Depth: 2}
		_, err := lab.Measure(t.Context(), eval.Search("dense", c, db.Query{}, eval.Vector))
		return err
	}
	err := measure(eval.Qrels{"q": {"east.md": 1, "west.md": 2, "north": 0}}, c)
	if !errors.Is(err, eval.ErrNotJudged) || !strings.Contains(err.Error(), `judged are 2 ids such as "east.md"; ids in collection "compass" are such as "east"`) {
		t.Error(err)
	}
	if err := measure(eval.Qrels{"q": {"east.md": 1, "up": 1}}, c); err != nil {
		t.Error(err)
	}
	if err := measure(eval.Qrels{"q": {"north": 0}}, c); err != nil {
		t.Error(err)
	}
	if _, err := c.Delete(t.Context(), "east", "north", "west", "south", "up"); err != nil {
		t.Fatal(err)
	}
	if err := measure(eval.Qrels{"q": {"east": 1}}, c); !errors.Is(err, eval.ErrNotJudged) || !strings.Contains(err.Error(), "is empty") {
		t.Error(err)
	}
}

// A run that lacks documents is compared with the true answer.
func TestDiagnose(t *testing.T) {
	s := eval.Search("dense", compass(t), db.Query{}, eval.Vector)
	queries := []eval.Query{{ID: "q", Vector: []float32{1, 0.1}}, {ID: "r", Vector: []float32{0, 1}}}
	qrels := eval.Qrels{
		"q": {"east": 1, "north": 2, "west": 1, "up": 1, "down": 3, "south": 0},
		"r": {"north": 1},
	}
	run := eval.NewRun("an index")
	run.Set("q", []eval.Scored{{ID: "east", Score: 1}})
	run.Set("r", []eval.Scored{{ID: "north", Score: 1}})
	d, err := s.Diagnose(t.Context(), qrels, run, queries, 2)
	if err != nil {
		t.Fatal(err)
	}
	want := &eval.Diagnosis{Found: 2, IndexMissed: 1, RankedLow: 1, NotInCorpus: 2, Missing: map[string][]eval.Missing{"q": {
		{"down", 3, eval.NotInCorpus, 0}, {"north", 2, eval.IndexMissed, 2}, {"up", 1, eval.NotInCorpus, 0}, {"west", 1, eval.RankedLow, 4},
	}}}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Error(diff)
	}
	if run, err = s.Run(t.Context(), queries, 2); err != nil {
		t.Fatal(err)
	}
	d, err = s.Diagnose(t.Context(), qrels, run, queries, 2)
	if err != nil || d.IndexMissed != 0 || d.Found != 3 {
		t.Errorf("an exact run: %+v, %v", d, err)
	}
	s = eval.Search("dense", compass(t), db.Query{Where: filter.Eq("axis", "x")}, eval.Vector)
	d, err = s.Diagnose(t.Context(), qrels, eval.NewRun("nothing"), queries, 1)
	if err != nil || d.Missing["r"][0].Why != eval.NotInCorpus || d.IndexMissed != 1 || d.RankedLow != 1 || d.NotInCorpus != 4 {
		t.Errorf("a condition: %+v, %v", d, err)
	}
}

// Text alone, vectors alone, and both.
func TestSearchLegs(t *testing.T) {
	c := compass(t)
	if err := c.SetText(t.Context(), &db.TextIndex{Language: "none"}); err != nil {
		t.Fatal(err)
	}
	_, err := c.Upsert(t.Context(), db.Document{ID: "up", Text: "the way up"}, db.Document{ID: "east", Vector: []float32{1, 0}, Text: "sun rise"})
	if err != nil {
		t.Fatal(err)
	}
	queries := []eval.Query{{ID: "q", Vector: []float32{1, 0}, Text: "way of the sun"}}
	found := func(legs eval.Legs) string {
		run, err := eval.Search("x", c, db.Query{}, legs).Run(t.Context(), queries, 10)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, s := range run.Rankings["q"] {
			ids = append(ids, s.ID)
		}
		return strings.Join(ids, " ")
	}
	if got := found(eval.Text); got != "up east" {
		t.Errorf("by text: %s", got)
	}
	if got := found(eval.Vector); got != "east north south west" {
		t.Errorf("by vector: %s", got)
	}
	if got := found(eval.Vector | eval.Text); len(strings.Fields(got)) != 5 {
		t.Errorf("by both: %s", got)
	}
	_, err = eval.Search("x", c, db.Query{}, eval.Text).Run(t.Context(), []eval.Query{{ID: "mute", Vector: []float32{1, 0}}}, 10)
	if !errors.Is(err, eval.ErrNoText) || !strings.Contains(err.Error(), `query "mute"`) {
		t.Errorf("a query without a text: %v", err)
	}
	lab := eval.Lab{Queries: queries, Qrels: eval.Qrels{"q": {"west": 1, "up": 1, "down": 1}}, Depth: 1}
	report, err := lab.Measure(t.Context(),
		eval.Search("text", c, db.Query{}, eval.Text), eval.Search("both", c, db.Query{}, eval.Vector|eval.Text), eval.Search("vector", c, db.Query{}, eval.Vector))
	if err != nil {
		t.Fatal(err)
	}
	// West has no text, up no vector, and down does not exist.
	for i, want := range []eval.Diagnosis{{Found: 1, NotInCorpus: 2}, {RankedLow: 2, NotInCorpus: 1}, {RankedLow: 1, NotInCorpus: 2}} {
		got := *report.Results[i].Diagnosis
		if got.Missing = nil; i == 1 && got.Found == 1 { // whichever leg weighs more
			want = eval.Diagnosis{Found: 1, RankedLow: 1, NotInCorpus: 1}
		}
		if !cmp.Equal(got, want) {
			t.Errorf("%s: %+v", report.Results[i].Run.Name, got)
		}
	}
	both := eval.Search("both", c, db.Query{}, eval.Vector|eval.Text)
	full, err := both.Run(t.Context(), queries, 10)
	if err != nil {
		t.Fatal(err)
	}
	cut := eval.NewRun("an index")
	cut.Set("q", full.Rankings["q"][:1])
	d, err := both.Diagnose(t.Context(), eval.Qrels{"q": {"north": 1, full.Rankings["q"][1].ID: 1, "down": 1}}, cut, queries, 2)
	if err != nil || d.IndexMissed != 1 || d.RankedLow != 1 || d.NotInCorpus != 1 {
		t.Errorf("a fusion that lacks documents: %+v, %v", d, err)
	}
	if leg := report.Results[1].Leg; leg == nil || leg.Baseline != "text" || report.Results[0].Leg != nil {
		t.Errorf("the fusion is compared with %+v", leg)
	}
	// Also if the legs are not among the runs.
	if report, err = lab.Measure(t.Context(), both); err != nil || len(report.Results) != 1 || report.Results[0].Leg == nil {
		t.Fatalf("a fusion alone: %+v, %v", report, err)
	}
	if leg := report.Results[0].Leg; leg.Baseline != "text" {
		t.Errorf("the fusion alone is compared with %+v", leg)
	}
}

// A document whose text and fields are empty is in no text index.
func TestNothingToSearchBy(t *testing.T) {
	c := compass(t)
	if err := c.SetText(t.Context(), &db.TextIndex{Fields: []string{"title", "tags"}}); err != nil {
		t.Fatal(err)
	}
	_, err := c.Upsert(t.Context(), db.Document{ID: "found", Text: "north"}, db.Document{ID: "other", Text: "south"},
		db.Document{ID: "empty", Metadata: db.Metadata{"title": "", "tags": []any{}}},
		db.Document{ID: "number", Metadata: db.Metadata{"title": 7}},
		db.Document{ID: "numbers", Metadata: db.Metadata{"tags": []any{7, 8}}},
		db.Document{ID: "tagged", Metadata: db.Metadata{"tags": []any{"east"}}})
	if err != nil {
		t.Fatal(err)
	}
	queries := []eval.Query{{ID: "q", Text: "north"}}
	s := eval.Search("text", c, db.Query{}, eval.Text)
	run, err := s.Run(t.Context(), queries, 10)
	if err != nil {
		t.Fatal(err)
	}
	d, err := s.Diagnose(t.Context(), eval.Qrels{"q": {"found": 1, "other": 1, "empty": 1, "number": 1, "numbers": 1, "tagged": 1}}, run, queries, 10)
	if err != nil || d.Found != 1 || d.RankedLow != 2 || d.NotInCorpus != 3 {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestLab(t *testing.T) {
	c := compass(t)
	lab := eval.Lab{
		Queries: []eval.Query{{ID: "10", Vector: []float32{0, 1}}, {ID: "9", Vector: []float32{1, 0}}, {ID: "unjudged"}},
		Qrels:   eval.Qrels{"9": {"east": 1}, "10": {"west": 1}, "not asked": {"east": 1}},
		Metrics: []eval.Metric{eval.MRR(10), eval.NDCG(10)}, Seed: 1,
	}
	backwards := eval.RunnerFunc("backwards", func(_ context.Context, q eval.Query, depth int) ([]eval.Scored, error) {
		return []eval.Scored{{"west", 1}, {"north", 0.5}, {"east", 0.1}}, nil
	})
	r, err := lab.Measure(t.Context(), eval.Search("dense", c, db.Query{}, eval.Vector), backwards)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Queries) != 2 || r.Queries[0].ID != "9" || r.Baseline != "dense" || r.Depth != 100 {
		t.Errorf("%+v", r)
	}
	dense, other := r.Results[0], r.Results[1]
	// East and west are equally far from north: trec_eval puts the higher id first.
	if dense.Versus != nil || dense.Diagnosis == nil || dense.Evaluation.Mean(eval.MRR(10)) != (1+0.5)/2 {
		t.Errorf("%+v", dense)
	}
	if other.Versus == nil || other.Versus.Worse != 1 || other.Versus.Better != 1 || other.Diagnosis != nil || other.Leg != nil {
		t.Errorf("%+v", other)
	}
	if got := other.Versus.Regressions(5); len(got) != 1 || got[0].Query != "9" {
		t.Errorf("regressions %+v", got)
	}
	lab.Baseline = eval.NewRun("nothing")
	if r, err = lab.Measure(t.Context(), backwards); err != nil || r.Results[0].Versus.Better != 2 || r.Baseline != "nothing" {
		t.Errorf("%+v, %v", r, err)
	}

	// A baseline counts no deeper than the runs, and these as deep as a metric looks.
	deep := lab
	deep.Metrics, deep.Depth = []eval.Metric{eval.MAP()}, 2
	deep.Baseline = eval.NewRun("deep")
	deep.Baseline.Set("9", []eval.Scored{{"west", 3}, {"north", 2}, {"east", 1}})
	if r, err = deep.Measure(t.Context(), backwards); err != nil || r.Results[0].Versus.Delta != 0.5 {
		t.Errorf("a baseline of 3 documents beside 2: %+v, %v", r.Results[0].Versus, err)
	}
	deep.Metrics, deep.Depth = []eval.Metric{eval.NDCG(10), eval.Recall(1000)}, 0
	if r, err = deep.Measure(t.Context(), backwards); err != nil || r.Depth != 1000 {
		t.Errorf("Recall@1000 of %d documents, %v", r.Depth, err)
	}

	if _, err := lab.Measure(t.Context(), backwards, backwards); err == nil {
		t.Error("two runs of one name")
	}
	failed := errors.New("out of order")
	broken := eval.RunnerFunc("broken", func(context.Context, eval.Query, int) ([]eval.Scored, error) { return nil, failed })
	if _, err := lab.Measure(t.Context(), broken); !errors.Is(err, failed) || !strings.Contains(err.Error(), `run broken: query "9"`) {
		t.Errorf("a runner that fails: %v", err)
	}
	lab.Qrels = eval.Qrels{"x": {"east": 1}}
	if _, err := lab.Measure(t.Context(), backwards); err == nil {
		t.Error("nothing is judged, and no error")
	}
}
