// Package eval measures the quality of retrieval. Each [Runner] answers every [Query]. It produces
// a [Run], a ranking of documents per query. [Qrels] say which documents are relevant. [Evaluate]
// computes every [Metric] per query, and the means. [Compare] tests whether two runs differ
// significantly.
//
//	queries, err := eval.ReadQueries(f, "queries.jsonl")
//	qrels, err := eval.ReadQrels(g, "qrels/test.tsv")
//	run, err := eval.Search("dense", notes, db.Query{}, eval.Vector).Run(ctx, queries, 100)
//	result := eval.Evaluate(qrels, run, eval.DefaultMetrics())
//	fmt.Println(result.Mean(eval.NDCG(10)))
//
// The formats are BEIR (queries.jsonl, qrels/*.tsv) and TREC (qrels, runs). Metrics follow
// trec_eval 10.0 (https://github.com/usnistgov/trec_eval) with its flag -c: a query that a run does
// not answer counts as 0. Documents of a run are ranked by score and, among equal scores, by id in
// descending order; their order in the run and its column of ranks are ignored. A document is
// relevant if it is judged 1 or more; nDCG takes the judgement as the gain. A document without
// judgement is not relevant.
//
// [Searcher.Diagnose] says why relevant documents are missing from a run: the index missed them,
// the embedding ranked them low, or they are not in the corpus. [ReadRows], [ContextScores] and
// [JudgeRows] evaluate generated answers, in the JSONL of ragas.
//
// Results do not depend on the machine or the time: equal input and seed give equal figures. Values
// may be read concurrently, but not changed.
package eval
