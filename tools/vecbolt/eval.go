package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/eval"
)

// judgedQueries are the flags for questions with judgements, and for the results.
type judgedQueries struct {
	Queries   string        `required:"" placeholder:"FILE" help:"Queries, as JSON lines with _id, text and optionally vector; or a directory in the layout of BEIR."`
	Qrels     string        `placeholder:"FILE" help:"Judgements in the format of BEIR (query-id, corpus-id, score) or TREC. Not needed if the directory --queries contains them."`
	Depth     int           `placeholder:"N" help:"Documents per query; default 100, or the largest number of a metric. It is the depth of metrics without a number."`
	Metrics   []eval.Metric `placeholder:"METRIC,..." help:"Metrics: nDCG@k, Recall@k, MRR@k, MAP, P@k, Success@k. Runs are compared by the first."`
	Out       string        `name:"run" placeholder:"FILE" help:"Write the run in the format of TREC; several runs go to files NAME.run in a directory, with - for a colon or slash."`
	HTML      string        `name:"html" placeholder:"FILE" help:"Write a report with plots, as one self-contained HTML file."`
	Baseline  string        `placeholder:"RUN" help:"Compare with this run, a file in the format of TREC or a name in --sweep; default the first run."`
	FailBelow []floor       `placeholder:"METRIC=VALUE,..." help:"Exit with status 1 if a run is below this value, such as nDCG@10=0.30; RUN/METRIC=VALUE tests one run only."`
	Seed      uint64        `default:"1" help:"Seed of the significance tests."`
}

// metricsHelp says how results are computed.
const metricsHelp = "Metrics are defined as in trec_eval -c: a query without an answer counts as 0, documents without judgement are not " +
	"relevant, and documents of equal score are ranked by id in descending order. A comparison shows the mean difference, its 95 % " +
	"confidence interval by a paired bootstrap, and p by a paired randomisation test. "

// Validate is called by kong.
func (c *judgedQueries) Validate() error {
	if c.Depth < 0 || c.Depth > 1<<20 {
		return fmt.Errorf("--depth %d is outside 1..%d", c.Depth, 1<<20)
	}
	if c.Queries != "" && c.Qrels == "" && !isDir(c.Queries) {
		return errors.New("--qrels is missing")
	}
	return nil
}

type evalCmd struct {
	collection
	judgedQueries
	queryVectors
	Sweep []string `placeholder:"RUN,..." help:"Ways to search: dense, exact, text, rrf, convex, mmr, with a parameter as in rrf:0.5, convex:0.5 (weight of the vector, of 1) or mmr:0.7 (lambda). Default: dense, text, rrf and convex, as far as the collection supports them."`
	condition
}

func (c *evalCmd) Help() string {
	return metricsHelp + "A relevant document that was not found was missed by the index (an exact search finds it), ranks low, or is not " +
		"in the corpus. See docs/eval.md."
}

// Validate is called by kong.
func (c *evalCmd) Validate() error {
	for _, name := range c.Sweep {
		if _, _, err := way(name); err != nil {
			return fmt.Errorf("--sweep: %w", err)
		}
	}
	return c.judgedQueries.Validate()
}

// A floor is the minimum value of a metric in a run.
type floor struct {
	run    string // empty: every run
	metric eval.Metric
	least  float64
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *floor) UnmarshalText(b []byte) error {
	name, value, ok := strings.Cut(string(b), "=")
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		f.run, name = name[:i], name[i+1:]
	}
	var err error
	if f.least, err = strconv.ParseFloat(value, 64); !ok || err != nil || math.IsNaN(f.least) {
		return fmt.Errorf("%q: want METRIC=VALUE or RUN/METRIC=VALUE", b)
	}
	f.metric, err = eval.ParseMetric(name)
	return err
}

func (c *evalCmd) Run(ctx context.Context, t *tool) error {
	if err := c.spare(c.HTML, c.Out); err != nil {
		return err
	}
	lab, err := c.lab()
	if err != nil {
		return err
	}
	return c.read(frozen(func(coll *db.Collection) error {
		runners, err := c.runners(ctx, lab, coll)
		if err != nil {
			return err
		}
		p := t.bar("eval", func() int64 { return int64(len(runners)) })
		lab.Progress = func(int) { p.add(1) }
		report, err := lab.Measure(ctx, runners...)
		p.end()
		if err != nil {
			return err
		}
		report.Title = c.Collection
		return c.answer(t, report)
	}))
}

// lab returns the measurement that the flags describe.
func (c *judgedQueries) lab() (*eval.Lab, error) {
	lab := &eval.Lab{Metrics: c.metrics(), Depth: c.Depth, Seed: c.Seed}
	if lab.Depth == 0 {
		lab.Depth = eval.Depth(lab.Metrics)
	}
	var err error
	lab.Queries, lab.Qrels, err = c.load()
	return lab, err
}

// answer writes and shows a report, and fails if a run is below a floor.
func (c *judgedQueries) answer(t *tool, report *eval.Report) error {
	if err := c.writeRuns(t, report); err != nil {
		return err
	}
	if c.HTML != "" {
		if err := t.write(c.HTML, report.WriteHTML); err != nil {
			return err
		}
	}
	show := t.evalTables
	if t.json {
		show = t.evalLines
	}
	if err := show(report); err != nil {
		return err
	}
	return c.judge(t, report)
}

// baseline puts the baseline first among the names of runs, or reads it from its file.
func (c *judgedQueries) baseline(lab *eval.Lab, runs []string) error {
	if c.Baseline == "" {
		return nil
	}
	if i := slices.Index(runs, c.Baseline); i >= 0 {
		runs[0], runs[i] = runs[i], runs[0]
		return nil
	}
	var err error
	if lab.Baseline, err = readFile(c.Baseline, eval.ReadRun); err != nil {
		return err
	}
	if slices.Contains(runs, lab.Baseline.Name) || lab.Baseline.Name == "" {
		lab.Baseline.Name = c.Baseline
	}
	return nil
}

// runners returns the runners to compare, and sets the baseline of the lab.
func (c *evalCmd) runners(ctx context.Context, lab *eval.Lab, coll *db.Collection) ([]eval.Runner, error) {
	info, err := coll.Info()
	if err != nil {
		return nil, err
	}
	sweep := slices.Clone(c.Sweep)
	if len(sweep) == 0 || slices.ContainsFunc(sweep, needsVectors) {
		if err := c.attach(ctx, lab.Queries, info); err != nil {
			return nil, err
		}
	}
	if len(sweep) == 0 {
		sweep = possible(info.Schema, lab.Queries)
	}
	if err := c.baseline(lab, sweep); err != nil {
		return nil, err
	}
	var runners []eval.Runner
	for _, name := range sweep {
		like, legs, err := way(name)
		if err != nil {
			return nil, err
		}
		like.Where = c.Where.Expr
		if like.MMR != nil {
			like.MMR.Fetch = lab.Depth
		}
		runners = append(runners, eval.Search(name, coll, like, legs))
	}
	return runners, nil
}

// possible returns the runs that the queries and the collection support.
func possible(s db.Schema, queries []eval.Query) []string {
	vectors := !slices.ContainsFunc(queries, func(q eval.Query) bool { return len(q.Vector) == 0 })
	texts := s.Text != nil && !slices.ContainsFunc(queries, func(q eval.Query) bool { return q.Text == "" })
	switch {
	case vectors && texts:
		return []string{"dense", "text", "rrf", "convex"}
	case texts:
		return []string{"text"}
	}
	return []string{"dense"}
}

// metrics returns the metrics to compute: the requested ones, then the ones with a floor.
func (c *judgedQueries) metrics() []eval.Metric {
	metrics := slices.Clone(c.Metrics)
	if len(metrics) == 0 {
		metrics = eval.DefaultMetrics()
	}
	for _, f := range c.FailBelow {
		if !slices.Contains(metrics, f.metric) {
			metrics = append(metrics, f.metric)
		}
	}
	return metrics
}

// load reads queries and judgements.
func (c *judgedQueries) load() ([]eval.Query, eval.Qrels, error) {
	queriesFile, qrelsFile := c.Queries, cmp.Or(c.Qrels, c.Queries)
	if isDir(queriesFile) {
		queriesFile = filepath.Join(queriesFile, "queries.jsonl")
	}
	if isDir(qrelsFile) {
		var found string
		for _, name := range []string{"qrels/test.tsv", "test.tsv", "qrels.tsv"} {
			if _, err := os.Stat(filepath.Join(qrelsFile, name)); err == nil {
				found = name
				break
			}
		}
		if found == "" {
			return nil, nil, fmt.Errorf("%s has neither qrels/test.tsv nor test.tsv nor qrels.tsv", qrelsFile)
		}
		qrelsFile = filepath.Join(qrelsFile, found)
	}
	queries, err := readQuestions(queriesFile)
	if err != nil {
		return nil, nil, err
	}
	qrels, err := readFile(qrelsFile, eval.ReadQrels)
	return queries, qrels, err
}

// isDir reports whether name is a directory that exists.
func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func readFile[T any](name string, read func(io.Reader, string) (T, error)) (v T, err error) {
	f, err := os.Open(name)
	if err != nil {
		return v, err
	}
	defer f.Close()
	return read(f, name)
}

// needsVectors reports whether a run searches by vector.
func needsVectors(name string) bool { return name != "text" }

// way returns how the run of this name in --sweep searches, and by which parts of a query.
func way(name string) (like db.Query, legs eval.Legs, err error) {
	kind, value, found := strings.Cut(name, ":")
	number := math.NaN()
	if found {
		if number, err = strconv.ParseFloat(value, 64); err != nil {
			return like, 0, fmt.Errorf("run %q: %q is not a number", name, value)
		}
		if !(number >= 0 && number <= 1) {
			return like, 0, fmt.Errorf("run %q: %v is not between 0 and 1", name, number)
		}
	}
	switch {
	case name == "dense":
		return like, eval.Vector, nil
	case name == "text":
		return like, eval.Text, nil
	case kind == "rrf" || kind == "convex":
		if kind == "rrf" {
			like.Fusion.Method = db.RRF
		}
		if found { // otherwise the default weights
			like.Fusion.Vector, like.Fusion.Text = number, 1-number
		}
		return like, eval.Vector | eval.Text, nil
	case name == "exact":
		like.Accuracy = db.Exact
		return like, eval.Vector, nil
	case kind == "mmr":
		like.MMR = &db.MMR{Lambda: 0.7}
		if found {
			like.MMR.Lambda = number
		}
		return like, eval.Vector, nil
	}
	return like, 0, fmt.Errorf("run %q: want dense, exact, text, rrf, convex or mmr", name)
}

// fileNames replaces what file names cannot have.
var fileNames = strings.NewReplacer(":", "-", "/", "-", `\`, "-")

// writeRuns writes the runs to the requested file or directory.
func (c *judgedQueries) writeRuns(t *tool, r *eval.Report) error {
	if c.Out == "" {
		return nil
	}
	if len(r.Results) == 1 {
		return t.write(c.Out, r.Results[0].Run.Write)
	}
	if err := os.MkdirAll(c.Out, 0o777); err != nil {
		return err
	}
	for _, res := range r.Results {
		name := filepath.Join(c.Out, fileNames.Replace(res.Run.Name)+".run")
		if err := t.write(name, res.Run.Write); err != nil {
			return err
		}
	}
	return nil
}

// judge fails if a run is below a floor.
func (c *judgedQueries) judge(t *tool, r *eval.Report) error {
	failed := false
	for _, f := range c.FailBelow {
		known := false
		for _, res := range r.Results {
			if f.run != "" && f.run != res.Run.Name {
				continue
			}
			known = true
			if v := res.Evaluation.Mean(f.metric); v < f.least {
				t.notef("%s: %v is %.4f, below %v", res.Run.Name, f.metric, v, f.least)
				failed = true
			}
		}
		if !known {
			return fmt.Errorf("--fail-below: there is no run %q", f.run)
		}
	}
	if failed {
		return errReported
	}
	return nil
}

// evalLines answers with a line per run.
func (t *tool) evalLines(r *eval.Report) error {
	for _, res := range r.Results {
		line, err := evalLine(res)
		if err != nil {
			return err
		}
		if _, err := t.out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// shownRegressions is the number of regressed queries that are shown.
const shownRegressions = 5

// evalLine returns a result as JSON, its metrics as keys.
func evalLine(res *eval.Result) (line []byte, err error) {
	line = append(line, '{')
	add := func(key string, v any) {
		var b []byte
		if err == nil {
			b, err = json.Marshal(v)
		}
		line = fmt.Appendf(line, "%q:%s,", key, b)
	}
	add("run", res.Run.Name)
	add("queries", len(res.Evaluation.Queries))
	for _, m := range res.Evaluation.Metrics {
		add(m.String(), rounded(res.Evaluation.Mean(m)))
	}
	if res.Diagnosis != nil {
		add("exact", res.Run.Exact)
		add("relevant", res.Diagnosis)
	}
	if res.Versus != nil {
		add("versus", roundedComparison(res.Versus))
		changes := []eval.Change{}
		for _, c := range res.Versus.Regressions(shownRegressions) {
			changes = append(changes, eval.Change{Query: c.Query, From: rounded(c.From), To: rounded(c.To)})
		}
		add("regressions", changes)
	}
	if res.Leg != nil {
		add("better_leg", roundedComparison(res.Leg))
	}
	line[len(line)-1] = '}'
	return line, err
}

// rounded drops the digits that depend on the order of additions.
func rounded(v float64) float64 { return math.Round(v*1e6) / 1e6 }

func roundedComparison(c *eval.Comparison) *eval.Comparison {
	r := *c
	r.Delta, r.Low, r.High, r.P = rounded(c.Delta), rounded(c.Low), rounded(c.High), rounded(c.P)
	return &r
}

// evalTables answers for people.
func (t *tool) evalTables(r *eval.Report) error {
	header := table.Row{"run"}
	for _, m := range r.Metrics {
		header = append(header, m.String())
	}
	diagnosed := slices.ContainsFunc(r.Results, func(res *eval.Result) bool { return res.Diagnosis != nil })
	if diagnosed {
		header = append(header, "found", "missed", "low", "absent")
	}
	var rows []table.Row
	for _, res := range r.Results {
		row := table.Row{res.Run.Name}
		for _, m := range r.Metrics {
			row = append(row, fmt.Sprintf("%.4f", res.Evaluation.Mean(m)))
		}
		if d := res.Diagnosis; d != nil {
			row = append(row, d.Found, d.IndexMissed, d.RankedLow, d.NotInCorpus)
		}
		rows = append(rows, row)
	}
	if err := t.table(header, rows); err != nil {
		return err
	}
	fmt.Fprintf(t.out, "%d queries, %d documents each", len(r.Queries), r.Depth)
	if diagnosed {
		fmt.Fprint(t.out, "; found: relevant documents among these; missed by the index; ranked low; absent from the corpus")
	}
	fmt.Fprintln(t.out)
	for _, res := range r.Results {
		if res.Versus != nil {
			t.comparison(res.Versus)
			for _, c := range res.Versus.Regressions(shownRegressions) {
				fmt.Fprintf(t.out, "  query %s: %.4f, was %.4f\n", c.Query, c.To, c.From)
			}
		}
		if res.Leg != nil && res.Leg.Delta < 0 {
			fmt.Fprintln(t.out, "Fusion is worse than one of its legs alone:")
			t.comparison(res.Leg)
		}
	}
	return nil
}

func (t *tool) comparison(c *eval.Comparison) {
	fmt.Fprintf(t.out, "%s against %s: %v %+.4f (95 %%: %+.4f to %+.4f), p = %.4f; %d queries better, %d worse, %d equal\n",
		c.Run, c.Baseline, c.Metric, c.Delta, c.Low, c.High, c.P, c.Better, c.Worse, c.Equal)
}
