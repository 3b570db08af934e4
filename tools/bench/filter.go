package main

import (
	"context"
	"fmt"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

const (
	filterRuns   = 50
	filterGoalMS = 3
)

// A question is a filter in Vecbolt's language and in SQL.
type question struct {
	how   string
	where filter.Expr
	sql   string
	goal  bool // an equality or a range, which have a goal
}

var questions = []question{
	{"equality, 1 in 1,000 (integer)", filter.Eq("bucket", 7), "bucket = 7", true},
	{"equality, 1 in 8 (string)", filter.Eq("lang", "go"), "lang = 'go'", true},
	{"range, 4 in 35 (integer)", filter.Range("year", 2000, 2003), "year >= 2000 AND year <= 2003", true},
	{"range, half, all values distinct (float)", filter.Range("value", 0.25, 0.75), "value >= 0.25 AND value <= 0.75", true},
	{"conjunction of a range and an equality", filter.And(filter.Gte("year", 2010), filter.Eq("lang", "py")), "year >= 2010 AND lang = 'py'", false},
	{"one of ten", filter.In("bucket", 1, 2, 3, 5, 8, 13, 21, 34, 55, 89), "bucket IN (1, 2, 3, 5, 8, 13, 21, 34, 55, 89)", false},
}

// filterFigure measures the time to find the rows that a filter matches.
func filterFigure(e *env, r *report) error {
	r.Title = fmt.Sprintf("Filters over %s rows", number(float64(e.filter)))
	r.note("Milliseconds to count the rows that match, medians of %d; the counts of all contestants are the same.", filterRuns)
	r.note("Vecbolt needs no index declared. The peers answer with and without one; the answers with an index of narrow equalities come from the index alone and touch few rows.")
	dir, err := e.scratchDir("filter")
	if err != nil {
		return err
	}
	e.logf("filter: filling vecbolt")
	counts := map[string]int{}
	ours := map[string]float64{}
	err = withCollection(dir, 0, nil, func(ctx context.Context, d *db.DB, c *db.Collection) error {
		if _, err := c.Load(ctx, filterDocuments(e.filter), nil); err != nil {
			return err
		}
		if err := d.Compact(ctx); err != nil {
			return err
		}
		for _, q := range questions {
			var ms []float64
			for range filterRuns {
				t := time.Now()
				n, err := c.Count(ctx, q.where)
				if err != nil {
					return err
				}
				ms = append(ms, float64(time.Since(t).Nanoseconds())/1e6)
				counts[q.sql] = n
			}
			ours[q.sql] = median(ms)
			r.add(measurement{Set: "count", Who: "vecbolt", How: q.how, Value: median(ms), Unit: "ms", Detail: map[string]float64{"matches": float64(counts[q.sql]), "p95 ms": quantile(ms, 0.95)}})
			if q.goal {
				r.atMost(q.how+", ms", filterGoalMS, median(ms))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	drivers, stop := e.start("lancedb", "sqlite-vec")
	defer stop()
	for _, d := range drivers {
		who := d.name
		if who == "sqlite-vec" {
			who = "sqlite" // the table has no vectors
		}
		for _, indexed := range []int{0, 1} {
			dir, err := e.scratchDir("filter-" + d.name)
			if err != nil {
				return err
			}
			e.logf("filter: filling %s, indexed %d", d.name, indexed)
			if err := d.call("table", args{"dir": dir, "n": e.filter, "indexed": indexed}, nil); err != nil {
				return err
			}
			for _, q := range questions {
				var res struct {
					US    []float64
					Count int
				}
				if err := d.call("count", args{"where": q.sql, "n": filterRuns}, &res); err != nil {
					return err
				}
				if res.Count != counts[q.sql] {
					return fmt.Errorf("%s: %s counts %d, vecbolt %d", q.how, d.name, res.Count, counts[q.sql])
				}
				ms := median(res.US) / 1e3
				r.add(measurement{Set: "count", Who: who + []string{"", ", indexed"}[indexed], How: q.how, Value: ms, Unit: "ms", Ratio: ms / ours[q.sql],
					Detail: map[string]float64{"matches": float64(res.Count), "p95 ms": quantile(res.US, 0.95) / 1e3}})
			}
		}
	}
	return nil
}

// filterDocuments yields n documents without vectors, with the columns of the drivers' tables.
func filterDocuments(n int) func(func(db.Document, error) bool) {
	return func(yield func(db.Document, error) bool) {
		for i := range n {
			h := mix(i)
			d := db.Document{ID: fmt.Sprintf("%08d", i), Metadata: db.Metadata{
				"bucket": int64((h >> 8) % 1000), "lang": langs[h>>3&7], "year": int64(1990 + (h>>8)%35), "value": float64(h) / (1 << 32),
			}}
			if !yield(d, nil) {
				return
			}
		}
	}
}
