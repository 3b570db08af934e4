package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/eval"
	"github.com/vecbolt/vecbolt/rag/xray"
)

type xrayCmd struct {
	collection
	HTML    string `name:"html" placeholder:"FILE" help:"Write a report with a map, as one self-contained HTML file."`
	Color   string `placeholder:"FIELD" help:"Colour the map by this metadata field."`
	Queries string `placeholder:"FILE" help:"A log: queries as JSON lines (see eval), which are run, or a run in the format of TREC. Shows the documents that no query found."`
	queryVectors
	Depth  int     `default:"10" help:"Number of hits of each query in the log (${default})."`
	K      int     `short:"k" default:"10" help:"Number of neighbours of each document (${default})."`
	Near   float64 `default:"0.98" help:"Minimum cosine of near-duplicates (${default})."`
	Sample int     `default:"10000" help:"Number of random documents to search for (${default})."`
	List   int     `default:"20" help:"Length of each list (${default})."`
	Seed   uint64  `default:"1" help:"Seed of the random sample."`
	condition
}

func (c *xrayCmd) Help() string {
	return "Reads all documents, and searches for a sample of them, exactly, among all. Results for a document of the sample " +
		"refer to the whole collection. With --json the report is one object. See docs/eval.md."
}

// Validate is called by kong.
func (c *xrayCmd) Validate() error {
	switch {
	case c.K < 1 || c.Depth < 1 || c.Sample < 1 || c.List < 1:
		return errors.New("-k, --depth, --sample and --list must be at least 1")
	case !(c.Near > 0 && c.Near <= 1):
		return fmt.Errorf("--near %v is outside 0..1", c.Near)
	}
	return nil
}

func (c *xrayCmd) Run(ctx context.Context, t *tool) error {
	if err := c.spare(c.HTML); err != nil {
		return err
	}
	return c.read(frozen(func(coll *db.Collection) error {
		log, err := c.log(ctx, coll)
		if err != nil {
			return err
		}
		info, err := coll.Info()
		if err != nil {
			return err
		}
		total := min(c.Sample, info.Documents)
		p := t.progress("xray", func() int64 { return int64(total) })
		report, err := xray.Inspect(ctx, coll, xray.Options{
			K: c.K, Near: c.Near, Sample: c.Sample, List: c.List, Seed: c.Seed, Where: c.Where.Expr,
			Color: c.Color, Log: log,
			Progress: func(done, _ int) { p.at(int64(done), done) },
		})
		p.end()
		if err != nil {
			return err
		}
		if c.HTML != "" {
			if err := t.write(c.HTML, report.WriteHTML); err != nil {
				return err
			}
		}
		if t.json {
			return t.line(report)
		}
		return t.xrayTables(report)
	}))
}

// log returns the results of the logged queries, nil without a log.
func (c *xrayCmd) log(ctx context.Context, coll *db.Collection) (*eval.Run, error) {
	if c.Queries == "" {
		return nil, nil
	}
	isRun, err := looksLikeRun(c.Queries)
	if err != nil {
		return nil, err
	}
	if isRun {
		return readFile(c.Queries, eval.ReadRun)
	}
	queries, err := readQuestions(c.Queries)
	if err != nil {
		return nil, err
	}
	info, err := coll.Info()
	if err != nil {
		return nil, err
	}
	if err := c.attach(ctx, queries, info); err != nil {
		return nil, err
	}
	legs := eval.Vector
	switch runs := possible(info.Schema, queries); {
	case len(runs) > 1:
		legs = eval.Vector | eval.Text
	case runs[0] == "text":
		legs = eval.Text
	}
	return eval.Search("log", coll, db.Query{Where: c.Where.Expr}, legs).Run(ctx, queries, c.Depth)
}

// looksLikeRun reports whether a file does not begin with a JSON object.
func looksLikeRun(name string) (bool, error) {
	f, err := os.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for {
		switch b, err := r.ReadByte(); {
		case err == io.EOF:
			return false, nil
		case err != nil:
			return false, err
		case b != ' ' && b != '\t' && b != '\r' && b != '\n' && b != 0xef && b != 0xbb && b != 0xbf:
			return b != '{', nil
		}
	}
}

// xrayTables answers for people.
func (t *tool) xrayTables(r *xray.Report) error {
	fmt.Fprintf(t.out, "%s documents, %s with a vector; searched for %s of them\n", comma(r.Documents),
		comma(r.Vectors), comma(r.Sampled))
	if r.Zero > 0 {
		fmt.Fprintf(t.out, "%s vectors of length zero\n", comma(r.Zero))
	}
	if r.Vectors == 0 {
		fmt.Fprintln(t.out, "no document has a vector: near-duplicates, outliers, hubs and the map need them")
	} else {
		fmt.Fprintf(t.out, "scores: nearest neighbour %.4f (median), random pair %.4f; lengths %.4g to %.4g\n",
			r.Nearest.Median, r.Random.Median, r.Norms.Min, r.Norms.Max)
	}

	// list shows the first elements of a list; the report has all.
	list := func(title, header string, n int, row func(i int) (value any, id string)) error {
		fmt.Fprintf(t.out, "\n%s\n", title)
		var rows []table.Row
		for i := range min(n, 5) {
			value, id := row(i)
			rows = append(rows, table.Row{value, brief(id), brief(r.Texts[id])})
		}
		if rows == nil {
			return nil
		}
		return t.table(table.Row{header, "id", "text"}, rows)
	}
	groups, outliers, hubs := r.Duplicates.Groups, r.Outliers, r.Hubs.Top
	var err error
	if same := r.SameText.Groups; len(same) > 0 {
		err = list(fmt.Sprintf("%s documents share their text with another", comma(r.SameText.Documents)),
			"group of", len(same), func(i int) (any, string) { return same[i].Size, same[i].IDs[0] })
	}
	if r.Vectors > 0 {
		err = errors.Join(err,
			list(fmt.Sprintf("%s documents have near-duplicates (a cosine of %v or more), in %s pairs",
				comma(r.Duplicates.Documents), r.Near, comma(r.Duplicates.Pairs)),
				"group of", len(groups), func(i int) (any, string) { return groups[i].Size, groups[i].IDs[0] }),
			list("outliers, by their mean distance to neighbours",
				"distance", len(outliers), func(i int) (any,
					string) {
					return fmt.Sprintf("%.4f", outliers[i].Distance), outliers[i].ID
				}),
			list(fmt.Sprintf("hubs, by the neighbourhoods they are in (skewness %.2f; %s documents are in none)",
				r.Hubs.Skewness, comma(r.Hubs.Never)),
				"in", len(hubs), func(i int) (any, string) { return hubs[i].Count, hubs[i].ID }),
		)
	}
	if u := r.Unretrieved; u != nil {
		err = errors.Join(err, list(fmt.Sprintf("%s documents that none of %s queries found",
			comma(u.Documents), comma(u.Queries)),
			"", len(u.IDs), func(i int) (any, string) { return "", u.IDs[i] }))
	}
	return err
}

func comma(n int) string { return humanize.Comma(int64(n)) }
