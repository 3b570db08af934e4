// Package eval measures how good retrieval is. A set of [Query]s goes through one or more
// [Runner]s, each of which makes a [Run], a ranking of documents per query; [Qrels] say which
// documents are relevant; [Evaluate] computes [Metric]s of every query and their means; [Compare]
// tests whether two runs differ by more than chance.
//
//	queries, err := eval.ReadQueries(f, "queries.jsonl")
//	qrels, err := eval.ReadQrels(g, "qrels/test.tsv")
//	run, err := eval.Search("dense", notes, db.Query{}, eval.Vector).Run(ctx, queries, 100)
//	result := eval.Evaluate(qrels, run, eval.DefaultMetrics())
//	fmt.Println(result.Mean(eval.NDCG(10)))
//
// The formats are those of BEIR (queries.jsonl, qrels/*.tsv) and of TREC (qrels, runs). Metrics are
// defined as trec_eval 10.0 defines them (https://github.com/usnistgov/trec_eval), with its flag
// -c: a query that a run does not answer counts as 0. Documents of a run are ranked by score and,
// where scores are equal, by id in descending order; their order in the run and its column of ranks
// play no part. A document is relevant if it is judged 1 or more; nDCG takes the judgement as the
// gain. A document without judgement is not relevant.
//
// [Diagnose] says why relevant documents are not in a run: whether the index missed them, the
// embedding ranked them low, or they are not in the corpus. [ReadRows], [ContextScores] and
// [JudgeRows] evaluate answers that were made from what was retrieved, in the JSONL of ragas.
//
// Nothing here depends on the machine or the time: equal input and seed give equal figures. Values
// are not safe for concurrent change; reading them is.
package eval
