package pgvector

import (
	"context"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/simd"
	"github.com/vecbolt/vecbolt/store"
)

const (
	// slack is the number of candidates beyond k that are requested from the server, which ranks in
	// float32; exact scores decide.
	slack = 16
	// Bounds of hnsw.ef_search; the upper one is the server's limit.
	minEfSearch, maxEfSearch = 100, 1000
)

// Query ranks by the canonical scores of package db: the server proposes candidates. With an HNSW
// index it is approximate. If the index returns fewer candidates than requested, because the
// condition is too selective, every vector is compared.
func (c *collection) Query(ctx context.Context, vector []float32, k int, where filter.Expr) ([]db.Hit, error) {
	if err := store.CheckQuery(c.name, c.schema, vector, k, where); err != nil {
		return nil, err
	}
	hits, err := c.nearestTo(ctx, newScorer(vector), k, where)
	return hits, wrap(err, "query %q", c.name)
}

func (c *collection) nearestTo(ctx context.Context, score *scorer, k int, where filter.Expr) ([]db.Hit, error) {
	if score.norm == 0 { // every score is 0
		var s statement
		sql := fmt.Sprintf("SELECT %s FROM %s WHERE embedding IS NOT NULL AND %s ORDER BY id LIMIT %d",
			whole, c.table, s.where(where), k)
		return query(ctx, c.s, score.hits, sql, s.args...)
	}
	limit := k + slack
	var near, far statement
	direction := near.arg(score.direction()) + "::real[]::vector"
	condition := near.where(where)
	// The index serves only the bare operator.
	indexed := c.nearest(condition, "embedding <=> "+direction, limit)
	exact := c.nearest(condition, fmt.Sprintf("(embedding <=> %s) + 0, id", direction), limit)
	all := far.where(where)
	odd := fmt.Sprintf(`(SELECT %s FROM %s WHERE odd AND vector_norm(embedding) = 0 AND %s ORDER BY id LIMIT %d)
UNION ALL SELECT %s FROM %s WHERE odd AND vector_norm(embedding) <> 0 AND %s`, whole, c.table, all, k, whole, c.table, all)

	var ordinary, rest []db.Hit
	into := func(hits *[]db.Hit) func(pgx.Rows) error {
		return func(rows pgx.Rows) (err error) {
			*hits, err = score.hits(rows)
			return err
		}
	}
	err := c.s.retry(func() error {
		var batch pgx.Batch // one transaction, to which settings are local
		batch.Queue(odd, far.args...).Query(into(&rest))
		if c.hnsw != nil {
			batch.Queue(settings(limit))
			batch.Queue(indexed, near.args...).Query(into(&ordinary))
		} else {
			batch.Queue(exact, near.args...).Query(into(&ordinary))
		}
		return c.s.pool.SendBatch(ctx, &batch).Close()
	})
	if err == nil && c.hnsw != nil && len(ordinary) < limit {
		ordinary, err = query(ctx, c.s, score.hits, exact, near.args...)
	}
	if err != nil {
		return nil, err
	}
	hits := append(ordinary, rest...)
	store.SortHits(hits)
	return hits[:min(k, len(hits))], nil
}

// settings returns the statement that makes an HNSW index continue until limit rows meet the
// condition, for this transaction.
func settings(limit int) string {
	return fmt.Sprintf("SELECT set_config('hnsw.iterative_scan', 'strict_order', true), set_config('hnsw.ef_search', '%d', true)",
		min(max(minEfSearch, limit), maxEfSearch))
}

// nearest returns the statement for documents whose vectors the server can compare.
func (c *collection) nearest(condition, order string, limit int) string {
	return fmt.Sprintf("SELECT %s FROM %s WHERE embedding IS NOT NULL AND NOT odd AND %s ORDER BY %s LIMIT %d",
		whole, c.table, condition, order, limit)
}

// A scorer computes the canonical scores of package db.
type scorer struct {
	query []float32
	norm  float64
}

func newScorer(query []float32) *scorer {
	return &scorer{query, math.Sqrt(simd.Dot64(query, query))}
}

// direction returns a vector with the same cosines that pgvector can compute with.
func (s *scorer) direction() []float32 {
	if !odd(s.query) {
		return s.query
	}
	unit := make([]float32, len(s.query))
	for i, x := range s.query {
		unit[i] = float32(float64(x) / s.norm)
	}
	return unit
}

func (s *scorer) score(v []float32) float64 {
	norm := math.Sqrt(simd.Dot64(v, v))
	if norm == 0 || s.norm == 0 {
		return 0
	}
	return 0 + max(-1, min(1, simd.Dot64(s.query, v)/(norm*s.norm))) // never -0
}

// hits reads whole documents as hits with text and metadata.
func (s *scorer) hits(rows pgx.Rows) ([]db.Hit, error) {
	docs, err := collect(rows)
	if err != nil {
		return nil, err
	}
	hits := make([]db.Hit, len(docs))
	for i, d := range docs {
		hits[i] = db.Hit{Document: *d, Score: s.score(d.Vector)}
		hits[i].Vector = nil
	}
	return hits, nil
}
