package eval_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/rag/eval"
)

func read[T any](t testing.TB, name string, parse func(io.Reader, string) (T, error)) T {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v, err := parse(f, name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// fixture is the judgements and the run that trec_eval was given.
func fixture(t *testing.T) (eval.Qrels, *eval.Run) {
	t.Helper()
	return read(t, "testdata/qrels.txt", eval.ReadQrels), read(t, "testdata/run.txt", eval.ReadRun)
}

// trecEval reads the output of trec_eval: values by metric and query, "all" being the mean.
func trecEval(t *testing.T) map[eval.Metric]map[string]string {
	t.Helper()
	names := map[string]string{"ndcg": "nDCG", "recall": "Recall", "map": "MAP", "map_cut": "MAP", "P": "P", "success": "Success",
		"recip_rank": "MRR", "ndcg_cut": "nDCG"}
	return read(t, "testdata/trec_eval.txt", func(r io.Reader, _ string) (map[eval.Metric]map[string]string, error) {
		values := map[eval.Metric]map[string]string{}
		s := bufio.NewScanner(r)
		for s.Scan() {
			f := strings.Fields(s.Text())
			name, cut := f[0], ""
			if i := strings.LastIndexByte(name, '_'); i >= 0 {
				if _, err := strconv.Atoi(name[i+1:]); err == nil {
					name, cut = name[:i], "@"+name[i+1:]
				}
			}
			m, err := eval.ParseMetric(names[name] + cut)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.Text(), err)
			}
			if values[m] == nil {
				values[m] = map[string]string{}
			}
			values[m][f[1]] = f[2]
		}
		return values, s.Err()
	})
}

// Every figure is the one that trec_eval prints, to its four digits.
func TestMetricsAreThoseOfTRECEval(t *testing.T) {
	qrels, run := fixture(t)
	want := trecEval(t)
	if len(want) != 21 {
		t.Fatalf("%d metrics", len(want))
	}
	for m, values := range want {
		e := eval.Evaluate(qrels, run, []eval.Metric{m})
		got := map[string]string{"all": fmt.Sprintf("%.4f", e.Mean(m))}
		for _, q := range e.Queries {
			got[q.Query] = fmt.Sprintf("%.4f", q.Values[0])
		}
		if diff := cmp.Diff(values, got); diff != "" {
			t.Errorf("%v: %s", m, diff)
		}
	}
}

func TestMetricNames(t *testing.T) {
	for in, want := range map[string]string{"ndcg@10": "nDCG@10", "RECALL@100": "Recall@100", "mrr@10": "MRR@10", "map": "MAP", "p@5": "P@5",
		"success@1": "Success@1", "nDCG": "nDCG", "MRR": "MRR", "MAP@5": "MAP@5"} {
		m, err := eval.ParseMetric(in)
		if err != nil || m.String() != want {
			t.Errorf("%q: %v, %v", in, m, err)
		}
	}
	for _, in := range []string{"", "@10", "P", "nDCG@0", "nDCG@-1", "nDCG@", "nDCG@x", "nDCG@99999999999999999999", "F1@10", "nDCG @10"} {
		if m, err := eval.ParseMetric(in); err == nil {
			t.Errorf("%q is read as %v", in, m)
		}
	}
}

// With nothing judged, answered or asked, figures are 0 and not NaN.
func TestEmptyEvaluation(t *testing.T) {
	for _, q := range []eval.Qrels{nil, {}, {"1": nil}, {"1": {"d": 0, "e": -1}}} {
		e := eval.Evaluate(q, eval.NewRun("none"), eval.DefaultMetrics())
		for _, m := range e.Metrics {
			if v := e.Mean(m); v != 0 {
				t.Errorf("%v: %v is %v", q, m, v)
			}
		}
	}
	e := eval.Evaluate(nil, eval.NewRun("none"), nil)
	if v := e.Mean(eval.MAP()); !math.IsNaN(v) {
		t.Errorf("a metric that was not computed is %v", v)
	}
}

// A document that a ranking repeats counts once, at its best rank.
func TestRepeatedDocuments(t *testing.T) {
	repeated, once := eval.NewRun("repeated"), eval.NewRun("once")
	repeated.Set("q", []eval.Scored{{ID: "a", Score: 4}, {ID: "a", Score: 3}, {ID: "b", Score: 2}, {ID: "a", Score: 1}, {ID: "c", Score: 0}})
	once.Set("q", []eval.Scored{{ID: "a", Score: 4}, {ID: "b", Score: 2}, {ID: "c", Score: 0}})
	qrels := eval.Qrels{"q": {"a": 1, "c": 2}}
	metrics := append(eval.DefaultMetrics(), eval.Precision(0))
	want, got := eval.Evaluate(qrels, once, metrics), eval.Evaluate(qrels, repeated, metrics)
	if diff := cmp.Diff(want.Queries, got.Queries); diff != "" {
		t.Error(diff)
	}
}

// A perfect ranking has 1 everywhere that 1 can be had, and no ranking has more.
func TestMetricBounds(t *testing.T) {
	metrics := append(eval.DefaultMetrics(), eval.NDCG(1), eval.NDCG(3), eval.Recall(1), eval.Precision(1))
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,3}`), 1, 30, rapid.ID[string]).Draw(t, "ids")
		judged := map[string]int{}
		for _, id := range ids {
			if rapid.Bool().Draw(t, "judged") {
				judged[id] = rapid.IntRange(-1, 4).Draw(t, "grade")
			}
		}
		run := eval.NewRun("any")
		for _, id := range ids {
			for range rapid.IntRange(0, 2).Draw(t, "times found") {
				run.Rankings["q"] = append(run.Rankings["q"], eval.Scored{ID: id, Score: float64(rapid.IntRange(-2, 2).Draw(t, "score"))})
			}
		}
		for _, v := range eval.Evaluate(eval.Qrels{"q": judged}, run, metrics).Queries[0].Values {
			if !(v >= 0 && v <= 1+1e-12) {
				t.Fatalf("value %v", v)
			}
		}
		perfect := eval.NewRun("perfect")
		for id, grade := range judged {
			perfect.Rankings["q"] = append(perfect.Rankings["q"], eval.Scored{ID: id, Score: float64(grade)})
		}
		e := eval.Evaluate(eval.Qrels{"q": judged}, perfect, metrics)
		for i, m := range e.Metrics {
			if e.Queries[0].Relevant > 0 && m != eval.Precision(10) && m != eval.Recall(10) && m != eval.Recall(1) && math.Abs(e.Queries[0].Values[i]-1) > 1e-12 {
				t.Fatalf("%v of the best ranking is %v", m, e.Queries[0].Values[i])
			}
		}
	})
}

func TestReadQueries(t *testing.T) {
	got, err := eval.ReadQueries(strings.NewReader("\ufeff"+`{"_id":"a b","text":"what?","metadata":{"x":1}}

{"id":7,"vector":[1,2.5]}
`), "q.jsonl")
	want := []eval.Query{{ID: "a b", Text: "what?"}, {ID: "7", Vector: []float32{1, 2.5}}}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for in, says := range map[string]string{
		"{\"_id\":\"a\"}\n{":                  "q.jsonl: line 2",
		`{"text":"x"}`:                        "q.jsonl: line 1: malformed: no _id",
		"{\"_id\":1}\n\n{\"_id\":\"1\"}":      `q.jsonl: line 3: malformed: query "1" comes twice`,
		`{"_id":"a","vector":[1e99]}`:         "q.jsonl: line 1",
		`{"_id":"a","text":7}`:                "q.jsonl: line 1",
		"[1]":                                 "q.jsonl: line 1",
		`{"_id":"a","text":"` + "\xff" + `"}`: "q.jsonl: line 1",
	} {
		if _, err := eval.ReadQueries(strings.NewReader(in), "q.jsonl"); !errors.Is(err, eval.ErrFormat) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestReadQrels(t *testing.T) {
	want := eval.Qrels{"1": {"a": 2, "b": 0}, "2": {"c": -1}}
	for _, in := range []string{
		"query-id\tcorpus-id\tscore\n1\ta\t2\n1\tb\t0\n2\tc\t-1\n",
		"1\ta\t2\r\n1\tb\t0\r\n\r\n2\tc\t-1",
		"1 0\ta\t2\n1\t0 b\t0\n  2  Q0\t\tc  -1\t\n",
		"# judged by hand\n1 0 a 2\n1\t0\tb\t0\n  2 Q0 c -1  \n1 0 a 2\n",
	} {
		got, err := eval.ReadQrels(strings.NewReader(in), "q")
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
	if got, err := eval.ReadQrels(strings.NewReader("q 1\tan id\t1\n"), "q"); err != nil || got["q 1"]["an id"] != 1 {
		t.Errorf("ids with spaces: %v, %v", got, err)
	}
	if got, err := eval.ReadQrels(strings.NewReader("query-id\tcorpus-id\tscore\nq 1\tid\t1\n"), "q"); err != nil || got["q 1"]["id"] != 1 {
		t.Errorf("an id that looks like TREC's columns, below the header: %v, %v", got, err)
	}
	for in, says := range map[string]string{
		"1 0 a":                                  "line 1: malformed: judgement \"a\"",
		"1 0 a 1 x":                              "line 1: malformed: 5 columns",
		"1 0 a 1\n1 0 b x":                       "line 2: malformed: judgement \"x\"",
		"1\ta\t2\n1\ta\t1":                       `line 2: malformed: document "a" of query "1" is judged 1, and 2 before`,
		"1\t\t2":                                 "line 1: malformed",
		"1 0 a 99999999999":                      "line 1: malformed: judgement",
		"1 0 a 1.5":                              "line 1: malformed: judgement",
		"1 0 a 1\n" + strings.Repeat("x", 1<<20): "line 2: malformed: more than",
	} {
		if got, err := eval.ReadQrels(strings.NewReader(in), "q"); !errors.Is(err, eval.ErrFormat) || !strings.Contains(err.Error(), "q: "+says) {
			t.Errorf("%.40q: %v, %v", in, got, err)
		}
	}
	lost := errors.New("lost")
	if _, err := eval.ReadQrels(iotest.ErrReader(lost), "q"); !errors.Is(err, lost) || errors.Is(err, eval.ErrFormat) {
		t.Errorf("a read that fails: %v", err)
	}
}

func TestReadRun(t *testing.T) {
	for in, says := range map[string]string{
		"1 Q0 a 1 2.5":                   "line 1: malformed: 5 columns",
		"1 Q0 a 1 NaN x":                 "line 1: malformed: score",
		"1 Q0 a 1 1e999 x":               "line 1: malformed: score",
		"1 Q0 a 1 2 x\n\n1 Q0 a 2 1 x":   `line 3: malformed: document "a" comes twice for query "1"`,
		"1 Q0 a 1 -Inf x":                "line 1: malformed: score",
		"1 Q0 a 1 2 x\n1 Q0 b 1 two tag": "line 2: malformed: score",
	} {
		if _, err := eval.ReadRun(strings.NewReader(in), "r"); !errors.Is(err, eval.ErrFormat) || !strings.Contains(err.Error(), "r: "+says) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// A written run is read back and evaluates to the same figures.
func TestWriteAndRead(t *testing.T) {
	qrels, run := fixture(t)
	var b bytes.Buffer
	if err := run.Write(&b); err != nil {
		t.Fatal(err)
	}
	again, err := eval.ReadRun(&b, "written")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(eval.Evaluate(qrels, run, eval.DefaultMetrics()).Queries, eval.Evaluate(qrels, again, eval.DefaultMetrics()).Queries); diff != "" || again.Name != "lab" {
		t.Error(again.Name, diff)
	}
	for name, write := range map[string]func(io.Writer) error{"BEIR": qrels.WriteBEIR, "TREC": qrels.WriteTREC} {
		b.Reset()
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		got, err := eval.ReadQrels(&b, name)
		if err != nil || !cmp.Equal(got, qrels) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (eval.Qrels{"#1": {"d": 1}}).WriteTREC(io.Discard); err == nil {
		t.Error("judgements were written that would be read as a comment")
	}
	for _, id := range []string{"a b", "", "tab\t", "line\nend", "em\u2003space"} {
		bad := eval.NewRun("bad")
		bad.Set("q", []eval.Scored{{ID: id}})
		if err := bad.Write(io.Discard); err == nil {
			t.Errorf("a run with document %q was written", id)
		}
		if err := (eval.Qrels{"q": {id: 1}}).WriteTREC(io.Discard); err == nil {
			t.Errorf("judgements of document %q were written", id)
		}
	}
}

// A ranking counts as it was given, also if its scores say otherwise.
func TestRunKeepsTheOrder(t *testing.T) {
	run := eval.NewRun("mmr")
	run.Set("q", []eval.Scored{{"a", 0.5}, {"b", 0.9}, {"c", 0.7}})
	e := eval.Evaluate(eval.Qrels{"q": {"a": 1}}, run, []eval.Metric{eval.MRR(10)})
	if e.Mean(eval.MRR(10)) != 1 {
		t.Errorf("%v", run.Rankings)
	}
}

func TestCompare(t *testing.T) {
	m := eval.MAP()
	evaluation := func(name string, values ...float64) *eval.Evaluation {
		e := &eval.Evaluation{Run: name, Metrics: []eval.Metric{m}}
		for i, v := range values {
			e.Queries = append(e.Queries, eval.QueryValues{Query: strconv.Itoa(i), Values: []float64{v}})
		}
		return e
	}
	repeat := func(n int, v ...float64) (all []float64) {
		for range n {
			all = append(all, v...)
		}
		return all
	}
	clear, err := eval.Compare(evaluation("new", repeat(20, 0.5, 0.7)...), evaluation("old", repeat(20, 0.4, 0.5)...), m, 1)
	if err != nil || clear.P != 1.0/(10_000+1) || clear.Low <= 0.1 || clear.High >= 0.2 || math.Abs(clear.Delta-0.15) > 1e-9 || clear.Better != 40 {
		t.Errorf("a clear difference: %+v, %v", clear, err)
	}
	same, err := eval.Compare(evaluation("new", 0.1, 0.2), evaluation("old", 0.1, 0.2), m, 1)
	if err != nil || same.P != 1 || same.Low != 0 || same.High != 0 || same.Equal != 2 || len(same.Changes) != 0 {
		t.Errorf("no difference: %+v, %v", same, err)
	}
	// Three differences of one sign: 2 of the 8 assignments are as extreme, so p is 1/4.
	three, err := eval.Compare(evaluation("new", 0.5, 0.6, 0.7), evaluation("old", 0.4, 0.4, 0.4), m, 1)
	if err != nil || math.Abs(three.P-0.25) > 0.02 {
		t.Errorf("three queries: %+v, %v", three, err)
	}
	again, err := eval.Compare(evaluation("new", 0.5, 0.6, 0.7), evaluation("old", 0.4, 0.4, 0.4), m, 1)
	if fmt.Sprint(three) != fmt.Sprint(again) || err != nil {
		t.Errorf("another result with the same seed: %v, then %v, %v", three, again, err)
	}
	mixed, err := eval.Compare(evaluation("new", 0.1, 0.9, 0.3, 0.4), evaluation("old", 0.5, 0.4, 0.4, 0.4), m, 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := mixed.Regressions(9); len(got) != 2 || got[0].Query != "0" || got[1].Query != "2" || mixed.Better != 1 || mixed.Equal != 1 {
		t.Errorf("regressions: %+v", mixed)
	}
	if _, err := eval.Compare(evaluation("new", 1), evaluation("old", 1, 1), m, 1); err == nil {
		t.Error("evaluations of other queries were compared")
	}
	if _, err := eval.Compare(evaluation("new", 1), evaluation("old", 1), eval.NDCG(10), 1); err == nil {
		t.Error("a metric that was not computed was compared")
	}
	if c, err := eval.Compare(evaluation("new"), evaluation("old"), m, 1); err != nil || c.P != 1 {
		t.Errorf("nothing: %+v, %v", c, err)
	}
}

func TestContextScores(t *testing.T) {
	for _, c := range []struct {
		name              string
		row               eval.Row
		precision, recall float64
		ok                bool
	}{
		{"ids", eval.Row{RetrievedContextIDs: []string{"a", "x", "b", "y"}, ReferenceContextIDs: []string{"a", "b", "c"}}, (1 + 2.0/3) / 2, 2.0 / 3, true},
		{"texts", eval.Row{RetrievedContexts: []string{"Other.", "The  lift — of a WING!"}, ReferenceContexts: []string{"lift of a wing"}}, 0.5, 1, true},
		{"part of a word", eval.Row{RetrievedContexts: []string{"swing"}, ReferenceContexts: []string{"wing"}}, 0, 0, true},
		{"nothing in common", eval.Row{RetrievedContexts: []string{"…"}, ReferenceContexts: []string{"!", "x"}}, 0, 0, true},
		{"nothing retrieved", eval.Row{ReferenceContextIDs: []string{"a"}}, 0, 0, true},
		{"no references", eval.Row{RetrievedContexts: []string{"a"}}, 0, 0, false},
	} {
		precision, recall, ok := eval.ContextScores(&c.row, nil)
		if math.Abs(precision-c.precision) > 1e-12 || math.Abs(recall-c.recall) > 1e-12 || ok != c.ok {
			t.Errorf("%s: %v, %v, %v", c.name, precision, recall, ok)
		}
	}
}

func TestRows(t *testing.T) {
	in := `{"user_input":"q","retrieved_contexts":["a b"],"response":"r","reference_contexts":["a b"],"other":1}` + "\n\n" + `{"user_input":"<unanswered>"}` + "\n"
	rows, err := eval.ReadRows(strings.NewReader(in), "rows")
	if err != nil || len(rows) != 2 {
		t.Fatal(rows, err)
	}
	old, err := eval.ReadRows(strings.NewReader(`{"question":"q","contexts":["a b"],"answer":"r","ground_truth":"g"}`), "old")
	if want := []eval.Row{{UserInput: "q", RetrievedContexts: []string{"a b"}, Response: "r", Reference: "g"}}; err != nil || !cmp.Equal(old, want) {
		t.Errorf("%+v, %v", old, err)
	}
	var asked []string
	judge := func(_ context.Context, measure string, row *eval.Row) (float64, error) {
		asked = append(asked, measure+" "+row.UserInput)
		return 0.75, nil
	}
	means, err := eval.JudgeRows(t.Context(), rows, judge, eval.Faithfulness, eval.AnswerRelevance)
	if err != nil || !cmp.Equal(means, map[string]float64{"context_precision": 1, "context_recall": 1, "faithfulness": 0.75, "answer_relevance": 0.75}) {
		t.Errorf("%v, %v", means, err)
	}
	if !slices.Equal(asked, []string{"faithfulness q", "answer_relevance q"}) {
		t.Errorf("asked for %q", asked)
	}
	var b bytes.Buffer
	if err := eval.WriteRows(&b, rows); err != nil {
		t.Fatal(err)
	}
	again, err := eval.ReadRows(&b, "again")
	if err != nil || !cmp.Equal(again, rows) || !strings.Contains(in, again[1].UserInput) {
		t.Errorf("%v, %v", again, err)
	}
	for _, v := range []float64{math.NaN(), -0.1, 1.1} {
		if _, err := eval.JudgeRows(t.Context(), rows, func(context.Context, string, *eval.Row) (float64, error) { return v, nil }, "m"); err == nil {
			t.Errorf("a score of %v was taken", v)
		}
	}
	failed := errors.New("no model")
	_, err = eval.JudgeRows(t.Context(), rows, func(context.Context, string, *eval.Row) (float64, error) { return 0, failed }, "m")
	if !errors.Is(err, failed) {
		t.Errorf("a judge that fails: %v", err)
	}
	if _, err := eval.JudgeRows(t.Context(), rows, nil, "m"); err == nil {
		t.Error("measures without a judge were judged")
	}
	for _, bad := range []string{"{", "null", `{"user_input":1}`, "[]"} {
		if _, err := eval.ReadRows(strings.NewReader("{}\n"+bad), "rows"); !errors.Is(err, eval.ErrFormat) || !strings.Contains(err.Error(), "rows: line 2") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
