package eval

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/viterin/vek"
)

// A Metric is a measure of one ranking, from 0 to 1, higher being better. Create one with
// [ParseMetric] or a function such as [NDCG].
type Metric struct {
	measure measure
	k       int // number of ranks that count; 0 means all
}

type measure uint8

const (
	ndcg measure = iota
	recall
	mrr
	averagePrecision
	precision
	success
)

var measureNames = [...]string{ndcg: "nDCG", recall: "Recall", mrr: "MRR", averagePrecision: "MAP",
	precision: "P", success: "Success"}

// NDCG is the discounted cumulative gain of the first k documents, the sum of grade / log2(rank+1)
// (Järvelin and Kekäläinen 2002), divided by the gain of the best possible ranking; trec_eval's
// ndcg_cut.
func NDCG(k int) Metric { return Metric{ndcg, k} }

// Recall is the share of the relevant documents that are among the first k; trec_eval's recall.
func Recall(k int) Metric { return Metric{recall, k} }

// MRR is 1 / rank of the first relevant document among the first k, or 0 without one; trec_eval's
// recip_rank with -M k.
func MRR(k int) Metric { return Metric{mrr, k} }

// MAP is the sum of the precision at the rank of each relevant document found, divided by the
// number of relevant documents; trec_eval's map.
func MAP() Metric { return Metric{averagePrecision, 0} }

// Precision is the number of relevant documents among the first k, divided by k; trec_eval's P. If
// k is 0, it is their share of all documents found.
func Precision(k int) Metric { return Metric{precision, k} }

// Success is 1 if a relevant document is among the first k, and 0 otherwise; trec_eval's success.
func Success(k int) Metric { return Metric{success, k} }

// DefaultMetrics returns the metrics that vecbolt eval shows by default: nDCG@10, Recall@10,
// Recall@100, MRR@10, MAP, P@10, Success@10.
func DefaultMetrics() []Metric {
	return []Metric{NDCG(10), Recall(10), Recall(100), MRR(10), MAP(), Precision(10), Success(10)}
}

// ParseMetric reads the name of a metric: nDCG@10, Recall@100, MRR@10, MAP, P@5 or Success@1, in
// any case, with any number of ranks. Without a number all ranks count, except for P, which needs
// one.
func ParseMetric(s string) (Metric, error) {
	name, cut, found := strings.Cut(s, "@")
	var m Metric
	i := slices.IndexFunc(measureNames[:], func(n string) bool { return strings.EqualFold(n, name) })
	if i < 0 {
		return m, fmt.Errorf("metric %.40q: want one of %s, with @ and a number of ranks", s,
			strings.Join(measureNames[:], ", "))
	}
	m.measure = measure(i)
	if found {
		k, err := strconv.Atoi(cut)
		if err != nil || k < 1 || k > math.MaxInt32 {
			return m, fmt.Errorf("metric %.40q: %.40q is not a number of ranks", s, cut)
		}
		m.k = k
	} else if m.measure == precision {
		return m, fmt.Errorf("metric %.40q: it needs a number of ranks, as in P@10", s)
	}
	return m, nil
}

// String returns the name that ParseMetric reads.
func (m Metric) String() string {
	if m.k == 0 {
		return measureNames[m.measure]
	}
	return measureNames[m.measure] + "@" + strconv.Itoa(m.k)
}

// MarshalText implements encoding.TextMarshaler.
func (m Metric) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Metric) UnmarshalText(b []byte) (err error) {
	*m, err = ParseMetric(string(b))
	return err
}

// K returns the number of ranks that count, 0 for all.
func (m Metric) K() int { return m.k }

// grades are a ranking with the judgements of its documents.
type grades struct {
	ranked   []int // judgement of each document found, best first; 0 without one
	ideal    []int // judgements of the relevant documents, in descending order
	relevant int
}

func newGrades(judged map[string]int, docs []Scored) grades {
	var g grades
	for _, s := range distinct(ranked(docs)) {
		g.ranked = append(g.ranked, max(0, judged[s.ID]))
	}
	for _, grade := range judged {
		if grade > 0 {
			g.ideal = append(g.ideal, grade)
		}
	}
	g.relevant = len(g.ideal)
	slices.SortFunc(g.ideal, func(a, b int) int { return cmp.Compare(b, a) })
	return g
}

// of computes the metric. It is 0 for a query without relevant documents.
func (m Metric) of(g grades) float64 {
	if g.relevant == 0 {
		return 0
	}
	top := g.ranked
	if m.k > 0 {
		top = top[:min(m.k, len(top))]
	}
	found, first, sum := 0, 0, 0.0
	for i, grade := range top {
		if grade > 0 {
			found++
			sum += float64(found) / float64(i+1)
			if first == 0 {
				first = i + 1
			}
		}
	}
	switch m.measure {
	case ndcg:
		ideal := g.ideal
		if m.k > 0 {
			ideal = ideal[:min(m.k, len(ideal))]
		}
		return dcg(top) / dcg(ideal)
	case recall:
		return float64(found) / float64(g.relevant)
	case mrr:
		if first == 0 {
			return 0
		}
		return 1 / float64(first)
	case averagePrecision:
		return sum / float64(g.relevant)
	case precision:
		return float64(found) / float64(max(1, cmp.Or(m.k, len(top))))
	default:
		return float64(min(first, 1))
	}
}

func dcg(grades []int) (sum float64) {
	for i, grade := range grades {
		if grade > 0 {
			sum += float64(grade) / math.Log2(float64(i+2))
		}
	}
	return sum
}

// An Evaluation holds the metrics of a run.
type Evaluation struct {
	Run     string   // name of the run
	Metrics []Metric // without duplicates
	Queries []QueryValues
}

// QueryValues are the metrics of one query.
type QueryValues struct {
	Query    string
	Values   []float64 // in the order of Evaluation.Metrics
	Relevant int       // documents that are judged relevant
	Found    int       // relevant documents that the run found
}

// Evaluate computes metrics for every query with judgements, in order of id. A query that the run
// does not answer has 0. A query without judgements is ignored.
func Evaluate(qrels Qrels, run *Run, metrics []Metric) *Evaluation {
	e := &Evaluation{Run: run.Name}
	for _, m := range metrics {
		if !slices.Contains(e.Metrics, m) {
			e.Metrics = append(e.Metrics, m)
		}
	}
	for _, id := range sortedIDs(qrels) {
		g := newGrades(qrels[id], run.Rankings[id])
		q := QueryValues{Query: id, Relevant: g.relevant}
		for _, grade := range g.ranked {
			if grade > 0 {
				q.Found++
			}
		}
		for _, m := range e.Metrics {
			q.Values = append(q.Values, m.of(g))
		}
		e.Queries = append(e.Queries, q)
	}
	return e
}

// Values returns a metric of every query, or nil if it was not computed.
func (e *Evaluation) Values(m Metric) []float64 {
	i := slices.Index(e.Metrics, m)
	if i < 0 {
		return nil
	}
	values := make([]float64, len(e.Queries))
	for j, q := range e.Queries {
		values[j] = q.Values[i]
	}
	return values
}

// Mean returns the mean of a metric over all queries: NaN if it was not computed, 0 without
// queries.
func (e *Evaluation) Mean(m Metric) float64 {
	if !slices.Contains(e.Metrics, m) {
		return math.NaN()
	}
	return mean(e.Values(m))
}

func mean(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return vek.Mean(values)
}
