package knowledge_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/vecbolt/vecbolt/rag/eval"
	"github.com/vecbolt/vecbolt/rag/knowledge"
)

func Example() {
	dir, err := os.MkdirTemp("", "knowledge-")
	check(err)
	defer os.RemoveAll(dir)
	check(os.WriteFile(filepath.Join(dir, "log.md"), []byte("# Log\n\nThe log is written before memory.\n"), 0o600))
	check(os.WriteFile(filepath.Join(dir, "cat.md"), []byte("# Cats\n\nCats sleep most of the day.\n"), 0o600))

	engine, err := knowledge.New(filepath.Join(dir, ".vecbolt"), &knowledge.Options{Logger: slog.New(slog.DiscardHandler)})
	check(err)
	ctx := context.Background()
	report, err := engine.Learn(ctx, "notes", knowledge.LearnOptions{Paths: []string{dir}})
	check(err)
	fmt.Println(report.Files, "files")

	answer, err := engine.Query(ctx, "notes", "When is the log written?", knowledge.QueryOptions{K: 1})
	check(err)
	fmt.Println(answer.Chunks[0].Text)
	// Output:
	// 2 files
	// # Log
	//
	// The log is written before memory.
}

func ExampleEngine_Eval() {
	dir, err := os.MkdirTemp("", "knowledge-")
	check(err)
	defer os.RemoveAll(dir)
	table := "sku,text\na-1,A lamp for the desk.\na-2,A chair that turns.\n"
	check(os.WriteFile(filepath.Join(dir, "rows.csv"), []byte(table), 0o600))

	engine, err := knowledge.New(filepath.Join(dir, ".vecbolt"), &knowledge.Options{Logger: slog.New(slog.DiscardHandler)})
	check(err)
	ctx := context.Background()
	_, err = engine.Learn(ctx, "shop", knowledge.LearnOptions{Paths: []string{filepath.Join(dir, "rows.csv")}})
	check(err)

	lab := eval.Lab{
		Queries: []eval.Query{{ID: "1", Text: "what turns?"}, {ID: "2", Text: "light on my desk"}},
		Qrels:   eval.Qrels{"1": {"a-2": 1}, "2": {"a-1": 1, "a-9": 1}},
		Metrics: []eval.Metric{eval.MRR(10), eval.Recall(10)},
	}
	r, err := engine.Eval(ctx, "shop", lab, knowledge.EvalOptions{Runs: []string{"base", "text"}})
	check(err)
	fmt.Printf("judged are values of %q, %d of %d unknown\n", r.Judged, r.Unknown, r.IDs)
	for _, res := range r.Results {
		fmt.Printf("%s: MRR %.2f, recall %.2f\n", res.Run.Name, res.Evaluation.Mean(eval.MRR(10)), res.Evaluation.Mean(eval.Recall(10)))
	}
	// Output:
	// judged are values of "sku", 1 of 3 unknown
	// base: MRR 1.00, recall 0.75
	// text: MRR 1.00, recall 0.75
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
