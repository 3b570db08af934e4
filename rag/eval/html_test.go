package eval_test

import (
	"context"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/eval"
)

func TestWriteHTML(t *testing.T) {
	c := compass(t)
	lab := eval.Lab{
		Queries: []eval.Query{{ID: "1", Text: "<b>sun</b>", Vector: []float32{1, 0.1}}, {ID: "2", Vector: []float32{0, 1}}},
		Qrels:   eval.Qrels{"1": {"east": 2, "down": 1}, "2": {"north": 1}},
	}
	old := eval.NewRun(`an "old" run`)
	old.Set("1", []eval.Scored{{ID: "east", Score: 2}, {ID: "down", Score: 1}})
	lab.Baseline = old
	all := eval.Search("all", c, db.Query{}, eval.Vector)
	report, err := lab.Measure(t.Context(), all, eval.RunnerFunc("nothing", func(context.Context, eval.Query, int) ([]eval.Scored, error) { return nil, nil }))
	if err != nil {
		t.Fatal(err)
	}
	report.Title = "compass & co"
	var first, second strings.Builder
	if err := report.WriteHTML(&first); err != nil {
		t.Fatal(err)
	}
	if err := report.WriteHTML(&second); err != nil || first.String() != second.String() {
		t.Error("the same report is written in two ways", err)
	}
	html := first.String()
	for _, want := range []string{
		"compass &amp; co", "&lt;b&gt;sun&lt;/b&gt;", "Against an &#34;old&#34; run", "<td>all</td>", "nDCG@10",
		"it is not in the corpus:</span> <code>down</code>", ">exact<", ">approximate<",
		`<td class="n">1</td><td class="n">1</td><td class="n">0</td>`, // one query better, one worse, none equal
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the report lacks %s", want)
		}
	}
	for _, bad := range []string{"<b>sun", ">NaN", "\"NaN", "ZgotmplZ", "http:", "https:", "src="} {
		if strings.Contains(html, bad) {
			t.Errorf("the report has %s", bad)
		}
	}
	empty := &eval.Report{Metrics: eval.DefaultMetrics()}
	if err := empty.WriteHTML(&second); err != nil {
		t.Errorf("a report of nothing: %v", err)
	}
}
