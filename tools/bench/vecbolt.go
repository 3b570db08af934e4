package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vecbolt/vecbolt/db"
)

const collection = "rows"

// vecboltScanner searches a compacted database. It reopens it for every request, because the number
// of goroutines of a search is an option of the database.
type vecboltScanner struct {
	dir     string
	dim     int
	queries matrix
	flush   bool // instead of compact: builds no graph
}

func (*vecboltScanner) title() string { return "vecbolt" }
func (*vecboltScanner) close()        {}

func (v *vecboltScanner) load(s *vectorSet, dir string) error {
	v.dir, v.dim, v.queries = dir, s.base.dim, s.queries
	return withCollection(dir, v.dim, nil, func(ctx context.Context, d *db.DB, c *db.Collection) error {
		docs := func(yield func(db.Document, error) bool) {
			for i := range s.base.rows() {
				if !yield(db.Document{ID: strconv.Itoa(i), Vector: s.base.row(i)}, nil) {
					return
				}
			}
		}
		if _, err := c.Load(ctx, docs, nil); err != nil {
			return err
		}
		if v.flush {
			return d.Flush(ctx)
		}
		return d.Compact(ctx)
	})
}

func (v *vecboltScanner) scan(r scanRequest) (res scanResult, err error) {
	return v.ask(r, db.Query{Accuracy: db.Exact}, r.first+r.n, min(scanWarm, v.queries.rows()-r.n))
}

// scanWarm is the number of warm-up queries after a database is opened. That number reads every
// block of codes and most of the vectors near the queries.
const scanWarm = 300

// ask answers the queries of a request by Search, with the settings in how, starting at query from.
// The first warm queries are not measured: the first read of a block after an open verifies its
// checksum.
func (v *vecboltScanner) ask(r scanRequest, how db.Query, from, warm int) (res scanResult, err error) {
	opts, callers := &db.Options{Workers: threadsOf(r.mode), Recheck: db.Manual}, 1
	if r.mode == modeCallers {
		opts.Workers, callers = 1, 2
	}
	err = withCollection(v.dir, v.dim, opts, func(ctx context.Context, _ *db.DB, c *db.Collection) error {
		search := func(q []float32, k int) ([]int, error) {
			query := how
			query.Near, query.K, query.Select = db.Vector(q), k, db.IDsOnly
			found, err := c.Search(ctx, query)
			if err != nil {
				return nil, err
			}
			ids := make([]int, len(found.Hits))
			for i, h := range found.Hits {
				if ids[i], err = strconv.Atoi(h.ID); err != nil {
					return nil, err
				}
			}
			return ids, nil
		}
		for i := range warm {
			if _, err := search(v.queries.row((from+i)%v.queries.rows()), r.k); err != nil {
				return err
			}
		}
		res, err = each(r, v.queries, callers, search)
		return err
	})
	return res, err
}

// withCollection opens the database in dir and its collection of the given dimension, runs fn and
// closes the database.
func withCollection(dir string, dim int, opts *db.Options, fn func(context.Context, *db.DB, *db.Collection) error) (err error) {
	ctx := context.Background()
	d, err := db.Open(dir, opts)
	if err != nil {
		return err
	}
	defer func() {
		if e := d.Close(); err == nil {
			err = e
		}
	}()
	c, err := d.OpenCollection(ctx, collection, db.Schema{Dim: dim})
	if err != nil {
		return fmt.Errorf("open collection: %w", err)
	}
	return fn(ctx, d, c)
}

// fill loads rows, which are asked for in order, into a new collection and compacts it.
func (e *env) fill(ctx context.Context, d *db.DB, c *db.Collection, rows int, row func(i int) []float32) error {
	docs := func(yield func(db.Document, error) bool) {
		for i := range rows {
			if !yield(db.Document{ID: strconv.Itoa(i), Vector: row(i)}, nil) {
				return
			}
		}
	}
	t := time.Now()
	if _, err := c.Load(ctx, docs, nil); err != nil {
		return err
	}
	if err := d.Compact(ctx); err != nil {
		return err
	}
	e.logf("%d rows: loaded and compacted in %v", rows, time.Since(t).Round(time.Millisecond))
	return nil
}

// vecboltIngest inserts the documents in batches into a new database with default options.
func vecboltIngest(dir string, docs []db.Document, batch int) (res ingestResult, err error) {
	err = withCollection(dir, len(docs[0].Vector), nil, func(ctx context.Context, _ *db.DB, c *db.Collection) error {
		t := time.Now()
		for rest := docs; len(rest) > 0; {
			n := min(batch, len(rest))
			if _, err := c.Insert(ctx, rest[:n]...); err != nil {
				return err
			}
			rest = rest[n:]
		}
		res = ingestResult{Rows: len(docs), Seconds: time.Since(t).Seconds()}
		return nil
	})
	return res, err
}

// vecboltSingles inserts documents one by one from concurrent writers until the budget is spent.
func vecboltSingles(dir string, docs []db.Document, writers int, budget time.Duration) (res ingestResult, err error) {
	err = withCollection(dir, len(docs[0].Vector), nil, func(ctx context.Context, _ *db.DB, c *db.Collection) error {
		var next, done atomic.Int64
		var wg sync.WaitGroup
		failed := make(chan error, writers)
		t := time.Now()
		for range writers {
			wg.Go(func() {
				for time.Since(t) < budget {
					i := int(next.Add(1)) - 1
					if i >= len(docs) {
						return
					}
					if _, err := c.Insert(ctx, docs[i]); err != nil {
						failed <- err
						return
					}
					done.Add(1)
				}
			})
		}
		wg.Wait()
		res = ingestResult{Rows: int(done.Load()), Seconds: time.Since(t).Seconds()}
		close(failed)
		return <-failed
	})
	return res, err
}

// openVecbolt opens the database in dir, asks it one question, and reports both events to the
// watch.
func openVecbolt(w *watch, dir string, q []float32) error {
	return withCollection(dir, len(q), nil, func(ctx context.Context, _ *db.DB, c *db.Collection) error {
		w.opened()
		res, err := c.Search(ctx, db.Query{Near: db.Vector(q), K: 10})
		if err != nil {
			return err
		}
		w.answered()
		if len(res.Hits) != 10 {
			return fmt.Errorf("found %d of 10", len(res.Hits))
		}
		return nil
	})
}
