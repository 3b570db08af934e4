package eval_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/vecbolt/vecbolt/rag/eval"
)

func Example() {
	qrels, err := eval.ReadQrels(strings.NewReader("q1 0 bolt 1\nq2 0 vek 1\n"), "qrels")
	if err != nil {
		log.Fatal(err)
	}
	evaluate := func(name, run string) *eval.Evaluation {
		r, err := eval.ReadRun(strings.NewReader(run), name)
		if err != nil {
			log.Fatal(err)
		}
		return eval.Evaluate(qrels, r, []eval.Metric{eval.MRR(10), eval.Recall(2)})
	}
	before := evaluate("before", "q1 Q0 vek 1 0.9 before\nq1 Q0 bolt 2 0.8 before\nq2 Q0 vek 1 0.7 before\n")
	after := evaluate("after", "q1 Q0 bolt 1 0.9 after\nq2 Q0 vek 1 0.7 after\n")
	for _, e := range []*eval.Evaluation{before, after} {
		fmt.Println(e.Run, e.Mean(eval.MRR(10)), e.Mean(eval.Recall(2)))
	}
	c, err := eval.Compare(after, before, eval.MRR(10), 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Better, "better,", c.Worse, "worse,", c.Equal, "equal")
	// Output:
	// before 0.75 1
	// after 1 1
	// 1 better, 0 worse, 1 equal
}
