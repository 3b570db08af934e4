// Command eval measures how well a collection answers judged questions, and looks into it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/eval"
	"github.com/vecbolt/vecbolt/rag/xray"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	vdb, err := db.Open("notes.vdb", nil)
	if err != nil {
		return err
	}
	defer vdb.Close()
	notes, err := vdb.OpenCollection(ctx, "notes", db.Schema{})
	if err != nil {
		return err
	}
	_, err = notes.Upsert(ctx,
		db.Document{ID: "flush", Text: "A flush makes segments of the head.", Vector: []float32{0.9, 0.1, 0}},
		db.Document{ID: "compact", Text: "Compaction merges segments.", Vector: []float32{0.7, 0.7, 0}},
		db.Document{ID: "backup", Text: "A backup is a copy of a snapshot.", Vector: []float32{0, 0.2, 0.9}},
		db.Document{ID: "copy", Text: "A backup is a copy of a snapshot!", Vector: []float32{0, 0.2, 0.91}},
	)
	if err != nil {
		return err
	}
	if err := measure(ctx, notes); err != nil {
		return err
	}
	return look(ctx, notes)
}

// In practice these are files. The vectors come from the model that embedded the documents.
const (
	questions = `{"_id":"1","text":"when do segments appear?","vector":[1,0.2,0]}
{"_id":"2","text":"how do I copy a database?","vector":[0.1,0,1]}
{"_id":"3","text":"what merges segments?","vector":[0.9,0.4,0]}
`
	judgements = `query-id	corpus-id	score
1	flush	2
1	compact	1
2	backup	1
3	compact	1
3	merge	1
`
)

func measure(ctx context.Context, notes *db.Collection) error {
	queries, err := eval.ReadQueries(strings.NewReader(questions), "queries.jsonl")
	if err != nil {
		return err
	}
	qrels, err := eval.ReadQrels(strings.NewReader(judgements), "qrels.tsv")
	if err != nil {
		return err
	}
	backwards := eval.RunnerFunc("backwards", func(context.Context, eval.Query, int) ([]eval.Scored, error) {
		return []eval.Scored{{ID: "compact", Score: 2}, {ID: "backup", Score: 1}}, nil
	})
	lab := eval.Lab{Queries: queries, Qrels: qrels, Metrics: []eval.Metric{eval.NDCG(10), eval.Recall(2)}, Depth: 2}
	report, err := lab.Measure(ctx, eval.Search("dense", notes, db.Query{}, eval.Vector), backwards)
	if err != nil {
		return err
	}
	for _, res := range report.Results {
		fmt.Printf("%-9s  nDCG@10 %.3f  Recall@2 %.3f\n", res.Run.Name,
			res.Evaluation.Mean(eval.NDCG(10)), res.Evaluation.Mean(eval.Recall(2)))
	}
	for _, m := range report.Results[0].Diagnosis.Missing["3"] {
		fmt.Printf("query 3 lacks %s: %s\n", m.ID, m.Why)
	}
	worse := report.Results[1].Versus
	fmt.Printf("%s against %s: %+.3f, p = %.2f\n", worse.Run, worse.Baseline, worse.Delta, worse.P)

	f, err := os.Create("report.html")
	if err != nil {
		return err
	}
	return errors.Join(report.WriteHTML(f), f.Close())
}

func look(ctx context.Context, notes *db.Collection) error {
	report, err := xray.Inspect(ctx, notes, xray.Options{Near: 0.999})
	if err != nil {
		return err
	}
	for _, p := range report.Duplicates.Closest {
		fmt.Printf("near-duplicates: %q and %q\n", report.Texts[p.A], report.Texts[p.B])
	}
	return nil
}
