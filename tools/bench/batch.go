package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/vecbolt/vecbolt/db"
)

// batchGoal is the target speed of Vecbolt's batches relative to FAISS's, which use OpenBLAS.
const batchGoal = 1.2

// batchRounds is how often each contestant answers all queries on each number of threads.
const batchRounds = 5

// batchFigure measures the 10 nearest rows of all queries of a set in one call.
func batchFigure(e *env, r *report) error {
	r.Title = "Exact search, batches of 1,000 queries, k = 10"
	r.note("Microseconds per query are medians over the rounds, in which the contestants take turns. GFLOP/s counts two operations for every component of a query and a row, whoever needs fewer.")
	r.note("OpenBLAS is the multiplication of all queries with all rows by its sgemm alone, in the blocks that FAISS takes: nothing is selected, so that no search built upon it can be faster.")
	return e.eachSet(r, e.batchSet, glove, synth768)
}

// batcher answers all queries of a set in one call.
type batcher struct {
	title string
	batch func(threads int) (scanResult, error)
}

func (e *env) batchSet(set *vectorSet, r *report) error {
	drivers, stop := e.start("faiss")
	defer stop()
	vb := &vecboltScanner{}
	dir, err := e.scratchDir("vecbolt")
	if err != nil {
		return err
	}
	e.logf("%s: loading", set.name)
	if err := vb.load(set, dir); err != nil {
		return err
	}
	contestants := []batcher{{"vecbolt", vb.batch}}
	for _, d := range drivers {
		if err := d.load(set, ""); err != nil {
			return err
		}
		for title, what := range map[string]string{"faiss": "search", "OpenBLAS": "sgemm"} {
			contestants = append(contestants, batcher{title, func(threads int) (res scanResult, err error) {
				err = d.call("batch", args{"threads": threads, "k": truthK, "what": what}, &res)
				return res, err
			}})
		}
	}
	us := map[string]map[int][]float64{}
	exact := map[string]float64{}
	for round := range batchRounds {
		e.logf("%s: round %d of %d", set.name, round+1, batchRounds)
		for _, c := range contestants {
			for threads := 1; threads <= 2; threads++ {
				res, err := c.batch(threads)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", set.name, c.title, err)
				}
				if us[c.title] == nil {
					us[c.title] = map[int][]float64{}
				}
				us[c.title][threads] = append(us[c.title][threads], res.US...)
				exact[c.title] = recall(set.truth, res.IDs[:len(set.truth)], truthK)
			}
		}
	}
	for threads := 1; threads <= 2; threads++ {
		ours := median(us["vecbolt"][threads])
		for _, title := range []string{"vecbolt", "faiss", "OpenBLAS"} {
			t := median(us[title][threads])
			m := measurement{Set: set.name, Who: title, How: fmt.Sprintf("%d threads", threads), Value: t, Unit: "us/query",
				Detail: map[string]float64{"GFLOP/s": 2 * float64(len(set.base.data)) / t / 1e3}}
			if title != "OpenBLAS" {
				m.Detail["recall@10"] = exact[title]
			}
			if title != "vecbolt" {
				m.Ratio = t / ours
				r.atLeast(fmt.Sprintf("%s, %d threads: times as fast as %s", set.name, threads, title), batchGoal, m.Ratio)
			}
			r.add(m)
		}
	}
	r.goal(set.name+": recall@10 of Vecbolt", "= 1", exact["vecbolt"], exact["vecbolt"] == 1)
	return nil
}

// batch answers all queries by SearchBatch, after a search that verifies the checksums.
func (v *vecboltScanner) batch(threads int) (res scanResult, err error) {
	err = withCollection(v.dir, v.dim, &db.Options{Workers: threads}, func(ctx context.Context, _ *db.DB, c *db.Collection) error {
		queries := make([]db.Query, v.queries.rows())
		for i := range queries {
			queries[i] = db.Query{Near: db.Vector(v.queries.row(i)), K: truthK, Accuracy: db.Exact, Select: db.IDsOnly}
		}
		if _, err := c.SearchBatch(ctx, queries[:1]); err != nil {
			return err
		}
		t := time.Now()
		results, err := c.SearchBatch(ctx, queries)
		if err != nil {
			return err
		}
		res.US = []float64{float64(time.Since(t).Nanoseconds()) / 1e3 / float64(len(queries))}
		for _, found := range results {
			ids := make([]int, len(found.Hits))
			for i, h := range found.Hits {
				if ids[i], err = strconv.Atoi(h.ID); err != nil {
					return err
				}
			}
			res.IDs = append(res.IDs, ids)
		}
		return nil
	})
	return res, err
}
