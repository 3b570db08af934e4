package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/vecbolt/vecbolt/db"
)

const (
	curveRows  = 10_000 // of the smallest database
	curveK     = 1000   // most results of a query
	curveExact = 100    // queries that are timed with an exact answer
	curveStep  = 2.5    // most by which one recall asked may be slower than the one before
	curveLogs  = 2      // most by which time may grow faster than the logarithm of the rows
)

var curveAsked = []float64{0.8, 0.9, 0.95, 0.98, 0.99, 0.995}

// curvesFigure measures one caller over the recall asked and over the number of rows, which grows by
// the square root of ten.
func curvesFigure(e *env, r *report) error {
	r.Title = fmt.Sprintf("Speed over the recall asked and over rows, %d dimensions", e.dims)
	if e.k != truthK {
		r.Figure += fmt.Sprintf("-k%d", e.k)
	}
	r.note("One caller, k = %d, ids as answer, default options, compacted databases of the same made rows, like synth768 of another dimension; %d held-out queries, %d of them with an exact answer. Medians over the rounds, in which all settings take turns.", e.k, synthQueries, curveExact)
	m := newSynth(e.dims)
	queries := m.rows(e.curve, synthQueries)
	var first, last []float64
	rows := 0
	for n := float64(e.curveFrom); int(n) <= e.curve; n *= math.Sqrt(10) {
		rows = int(math.Round(n))
		us, err := e.curveOf(r, m, queries, rows)
		if err != nil {
			return err
		}
		if last = us; first == nil {
			first = us
		}
	}
	if rows == e.curveFrom {
		return nil
	}
	logs := math.Log(float64(rows)) / math.Log(float64(e.curveFrom))
	for i, want := range curveAsked {
		r.atMost(fmt.Sprintf("recall %v asked: time of %d rows, of %d, of the ratio of their logarithms", want, rows, e.curveFrom), curveLogs, last[i]/first[i]/logs)
	}
	return nil
}

// curveOf measures a database of some rows, and returns the microseconds of a query at each recall.
func (e *env) curveOf(r *report, m *synthModel, queries matrix, rows int) (us []float64, err error) {
	dir, err := e.scratchDir("curves")
	if err != nil {
		return nil, err
	}
	set := fmt.Sprintf("%d rows", rows)
	err = withCollection(dir, queries.dim, &db.Options{Recheck: db.Manual}, func(ctx context.Context, d *db.DB, c *db.Collection) error {
		var piece matrix
		err := e.fill(ctx, d, c, rows, func(i int) []float32 {
			if i%synthPiece == 0 {
				piece = m.rows(i, min(synthPiece, rows-i))
			}
			return piece.row(i % synthPiece)
		})
		if err != nil {
			return err
		}
		ask := func(i int, how db.Accuracy) (*db.Result, error) {
			return c.Search(ctx, db.Query{Near: db.Vector(queries.row(i)), K: e.k, Accuracy: how, Select: db.IDsOnly})
		}
		truth := make([]*db.Result, queries.rows())
		for i := range truth {
			if truth[i], err = ask(i, db.Exact); err != nil {
				return err
			}
		}
		asked := append([]float64{}, curveAsked...)
		asked = append(asked, 1)
		times, found, exact := make([][]float64, len(asked)), make([]int, len(asked)), make([]int, len(asked))
		for range e.rounds {
			for i, recall := range asked {
				n := len(truth)
				if recall == 1 {
					n = curveExact
				}
				found[i], exact[i] = 0, 0
				var spent time.Duration
				for q := range n {
					t := time.Now()
					got, err := ask(q, db.Recall(recall))
					if err != nil {
						return err
					}
					spent += time.Since(t)
					for _, h := range got.Hits {
						if h.Score >= truth[q].Hits[e.k-1].Score {
							found[i]++
						}
					}
					if got.Exact {
						exact[i]++
					}
				}
				times[i] = append(times[i], spent.Seconds()*1e6/float64(n))
			}
		}
		for i, recall := range asked {
			n := len(truth)
			how := fmt.Sprintf("recall %v asked", recall)
			if recall == 1 {
				n, how = curveExact, "exact"
			}
			us = append(us, median(times[i]))
			r.add(measurement{Set: set, Who: "vecbolt", How: how, Value: 1e6 / us[i], Unit: "queries/s", Detail: map[string]float64{
				"recall found": float64(found[i]) / float64(e.k*n), "answered exactly, %": 100 * float64(exact[i]) / float64(n)}})
		}
		worst := 0.0
		for i := 1; i < len(curveAsked); i++ {
			worst = max(worst, us[i]/us[i-1])
		}
		r.atMost(set+": the greatest step of time from one recall asked to the next", curveStep, worst)
		return nil
	})
	return us, err
}
