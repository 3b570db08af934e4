package fuzz_test

import (
	"bytes"
	"testing"

	"github.com/vecbolt/vecbolt/rag/eval"
)

// FuzzEvalFiles reads any bytes as judgements, runs, queries and answered questions. What is read
// must survive being written and read again, and evaluating it must give figures from 0 to 1.
func FuzzEvalFiles(f *testing.F) {
	for _, s := range []string{
		"query-id\tcorpus-id\tscore\n1\ta\t2\n1\tb\t0\n", "1 0 a 1\n2 0 b -1\n# no\n", "1 Q0 a 1 0.5 tag\n1 Q0 b 2 0.5 tag\n2 Q0 a 1 -1e300 t\n",
		`{"_id":"1","text":"x"}` + "\n" + `{"id":2,"vector":[1]}`, `{"user_input":"q","retrieved_contexts":["a"],"reference_contexts":["a"]}`,
		"\ufeff1\ta\t1\r\n", "1 0 a 1\n1 0 a 2", "1 Q0 a 1 nan t", "1 Q0 a 1 0x1p-2 t", "\t\t\n", "a\tb c\t1", "null", "{}", "{\"_id\":\"\xff\"}",
	} {
		f.Add([]byte(s))
		for _, b := range variants([]byte(s), 4) {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		qrels, err := eval.ReadQrels(bytes.NewReader(b), "")
		var out bytes.Buffer
		if err == nil && qrels.WriteTREC(&out) == nil {
			again, err := eval.ReadQrels(&out, "")
			if err != nil || len(again) != len(qrels) {
				t.Fatalf("judgements %v, then %v: %v", qrels, again, err)
			}
		}
		run, err := eval.ReadRun(bytes.NewReader(b), "")
		if err == nil {
			for id := range run.Rankings {
				if qrels == nil {
					qrels = eval.Qrels{}
				}
				qrels[id] = map[string]int{run.Rankings[id][0].ID: len(b) % 5}
			}
			e := eval.Evaluate(qrels, run, eval.DefaultMetrics())
			for _, m := range e.Metrics {
				if v := e.Mean(m); !(v >= 0 && v <= 1+1e-9) {
					t.Fatalf("%v is %v", m, v)
				}
			}
			out.Reset()
			if run.Write(&out) == nil {
				again, err := eval.ReadRun(&out, "")
				if err != nil {
					t.Fatalf("run %v: %v", run, err)
				}
				for i, q := range eval.Evaluate(qrels, again, eval.DefaultMetrics()).Queries {
					for j, v := range q.Values {
						if v != e.Queries[i].Values[j] {
							t.Fatalf("query %q: %v, then %v", q.Query, e.Queries[i].Values, q.Values)
						}
					}
				}
			}
		}
		if queries, err := eval.ReadQueries(bytes.NewReader(b), ""); err == nil && len(queries) > len(b) {
			t.Fatalf("%d queries of %d bytes", len(queries), len(b))
		}
		rows, err := eval.ReadRows(bytes.NewReader(b), "")
		if err != nil {
			return
		}
		if means, err := eval.JudgeRows(t.Context(), rows, nil); err != nil || !(means[eval.ContextRecall] >= 0 && means[eval.ContextPrecision] <= 1) {
			t.Fatalf("%v, %v", means, err)
		}
		out.Reset()
		if err := eval.WriteRows(&out, rows); err != nil {
			t.Fatal(err)
		}
		if again, err := eval.ReadRows(&out, ""); err != nil || len(again) != len(rows) {
			t.Fatalf("%d rows, then %d: %v", len(rows), len(again), err)
		}
	})
}
