package eval

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"

	"github.com/vecbolt/vecbolt/internal/page"
)

//go:embed report.html
var reportHTML string

func parseTemplate() (*template.Template, error) {
	return template.New("report").Funcs(template.FuncMap{
		"value":  func(v float64) string { return fmt.Sprintf("%.4f", v) },
		"signed": func(v float64) string { return fmt.Sprintf("%+.4f", v) },
		"heat":   func(v float64) string { return fmt.Sprintf("%.2f", 0.55*v) },
	}).Parse(reportHTML)
}

// view is the data that the template shows of a report.
type view struct {
	*Report
	Primary     Metric
	Best        *runValue
	Rows        []runRow
	Charts      []namedChart
	Comparisons []*Comparison
	Forest      template.HTML
	Waterfalls  []namedChart
	Legs        []*Comparison
	Fates       template.HTML
	Regressions []runRegressions
	Table       []queryRow
}

type runValue struct {
	Name  string
	Value float64
}

type runRow struct {
	Name  string
	Exact bool
	Means []meanCell
}

type meanCell struct {
	Value float64
	Best  bool
}

type namedChart struct {
	Name  string
	Chart template.HTML
}

type runRegressions struct {
	Name    string
	Queries []regression
}

type regression struct {
	ID, Text string
	Change
	Missing []missingFor
}

type missingFor struct {
	Why  Reason
	IDs  []string
	More int
}

type queryRow struct {
	ID, Text string
	Relevant int
	Values   []float64
}

// WriteHTML writes the report as one HTML file that loads nothing.
func (r *Report) WriteHTML(w io.Writer) error {
	v := &view{Report: r, Primary: r.Metrics[0]}
	v.figures()
	v.comparisons()
	v.fates()
	v.table()
	t, err := parseTemplate()
	if err != nil {
		return err
	}
	var body bytes.Buffer
	if err := t.Execute(&body, v); err != nil {
		return err
	}
	p := page.Page{
		Title:    "Retrieval quality: " + r.Title,
		Subtitle: "How well a collection answers judged queries, by vecbolt eval",
		Body:     template.HTML(body.String()),
	}
	return p.Write(w)
}

// colour returns the class of the i-th run.
func colour(i int) string { return fmt.Sprintf("c%d", i%7) }

func (v *view) figures() {
	best := make([]float64, len(v.Metrics))
	for _, res := range v.Results {
		for i, m := range v.Metrics {
			best[i] = max(best[i], res.Evaluation.Mean(m))
		}
	}
	for _, res := range v.Results {
		row := runRow{Name: res.Run.Name, Exact: res.Run.Exact}
		for i, m := range v.Metrics {
			mean := res.Evaluation.Mean(m)
			row.Means = append(row.Means, meanCell{mean, mean == best[i] && mean > 0})
		}
		if v.Best == nil || row.Means[0].Value > v.Best.Value {
			v.Best = &runValue{row.Name, row.Means[0].Value}
		}
		v.Rows = append(v.Rows, row)
	}
	for i, m := range v.Metrics {
		var bars []page.Bar
		for j, row := range v.Rows {
			text := fmt.Sprintf("%.4f", row.Means[i].Value)
			bars = append(bars, page.Bar{Label: row.Name, Text: text,
				Parts: []page.Part{{Value: row.Means[i].Value, Class: colour(j), Title: text}}})
		}
		v.Charts = append(v.Charts, namedChart{m.String(), page.Bars(m.String(), bars, 1)})
	}
}

// htmlRegressions is the maximum number of regressions shown per run, and of documents per
// regression.
const htmlRegressions = 10

func (v *view) comparisons() {
	texts := map[string]string{}
	for _, q := range v.Queries {
		texts[q.ID] = q.Text
	}
	var rows []page.Interval
	for _, res := range v.Results {
		if res.Leg != nil {
			v.Legs = append(v.Legs, res.Leg)
		}
		c := res.Versus
		if c == nil {
			continue
		}
		v.Comparisons = append(v.Comparisons, c)
		rows = append(rows, page.Interval{Label: c.Run, Low: c.Low, Mid: c.Delta, High: c.High,
			Text: fmt.Sprintf("%+.4f, p = %.4f", c.Delta, c.P)})
		var columns []page.Column
		for _, change := range c.Changes {
			columns = append(columns, page.Column{Value: change.Delta(),
				Title: fmt.Sprintf("query %s: %.4f, was %.4f", change.Query, change.To, change.From)})
		}
		for range c.Equal { // between the queries that became worse and those that became better
			columns = slices.Insert(columns, c.Worse, page.Column{})
		}
		if len(c.Changes) > 0 {
			v.Waterfalls = append(v.Waterfalls, namedChart{c.Run, page.Columns("difference of each query", columns)})
		}
		if c.Worse == 0 {
			continue
		}
		worst := runRegressions{Name: c.Run}
		for _, change := range c.Regressions(htmlRegressions) {
			row := regression{ID: change.Query, Text: texts[change.Query], Change: change}
			if res.Diagnosis != nil {
				row.Missing = byReason(res.Diagnosis.Missing[change.Query])
			}
			worst.Queries = append(worst.Queries, row)
		}
		v.Regressions = append(v.Regressions, worst)
	}
	if rows != nil {
		v.Forest = page.Intervals("differences from "+v.Baseline, rows)
	}
}

// byReason groups missing documents by reason.
func byReason(missing []Missing) (lists []missingFor) {
	for _, why := range []Reason{IndexMissed, RankedLow, NotInCorpus} {
		list := missingFor{Why: why}
		for _, m := range missing {
			switch {
			case m.Why != why:
			case len(list.IDs) == htmlRegressions:
				list.More++
			case m.Rank > 0:
				list.IDs = append(list.IDs, fmt.Sprintf("%s (%d)", m.ID, m.Rank))
			default:
				list.IDs = append(list.IDs, m.ID)
			}
		}
		if list.IDs != nil {
			lists = append(lists, list)
		}
	}
	return lists
}

func (v *view) fates() {
	var bars []page.Bar
	for _, res := range v.Results {
		d := res.Diagnosis
		if d == nil {
			continue
		}
		bar := page.Bar{Label: res.Run.Name,
			Text: fmt.Sprintf("%d of %d", d.Found, d.Found+d.IndexMissed+d.RankedLow+d.NotInCorpus)}
		for _, p := range []struct {
			n           int
			class, name string
		}{{d.Found, "c2", "found"}, {d.IndexMissed, "c1", "the index missed"},
			{d.RankedLow, "c4", "rank low"}, {d.NotInCorpus, "c7", "not in the corpus"}} {
			bar.Parts = append(bar.Parts, page.Part{Value: float64(p.n), Class: p.class,
				Title: fmt.Sprintf("%d %s", p.n, p.name)})
		}
		bars = append(bars, bar)
	}
	if bars != nil {
		v.Fates = page.Bars("relevant documents", bars, 0)
	}
}

func (v *view) table() {
	for i, q := range v.Queries {
		row := queryRow{ID: q.ID, Text: q.Text}
		for _, res := range v.Results {
			values := res.Evaluation.Queries[i]
			row.Relevant = values.Relevant
			row.Values = append(row.Values, values.Values[0])
		}
		v.Table = append(v.Table, row)
	}
}
