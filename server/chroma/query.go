package chroma

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/simd"
)

// The limits of a query.
const (
	maxQueries      = 256
	defaultNResults = 10
)

// matrix is the answer to a query: one row for each embedding. Parts that were not requested are
// null.
type matrix struct {
	IDs        [][]string      `json:"ids"`
	Documents  [][]*string     `json:"documents"`
	Embeddings [][][]float32   `json:"embeddings"`
	Metadatas  [][]db.Metadata `json:"metadatas"`
	URIs       [][]*string     `json:"uris"`
	Distances  [][]float64     `json:"distances"`
	Include    []string        `json:"include"`
}

func (m *matrix) add(c *columns, in partSet) {
	m.IDs = append(m.IDs, c.IDs)
	if in.documents {
		m.Documents = append(m.Documents, c.Documents)
	}
	if in.embeddings {
		m.Embeddings = append(m.Embeddings, c.Embeddings)
	}
	if in.metadatas {
		m.Metadatas = append(m.Metadatas, c.Metadatas)
	}
	if in.uris {
		m.URIs = append(m.URIs, c.URIs)
	}
	if in.distances {
		m.Distances = append(m.Distances, c.Distances)
	}
}

// distance converts a score to Chroma's distance.
func distance(m db.Metric, score float64) float64 {
	if m == db.L2 {
		return 0 - score // never -0
	}
	return 1 - score
}

// score computes the score of package db, bit for bit.
func score(m db.Metric, q, x []float32) float64 {
	switch m {
	case db.Dot:
		return 0 + simd.Dot64(q, x)
	case db.L2:
		return 0 - simd.L264(q, x)
	}
	return 0 + simd.Cosine64(q, x)
}

func (a *API) query(ctx context.Context, r *request) (any, error) {
	var in struct {
		selector
		Embeddings []json.RawMessage `json:"query_embeddings"`
		N          *int              `json:"n_results"`
	}
	c, cond, err := a.question(ctx, r, &in, &in.selector)
	if err != nil {
		return nil, err
	}
	c, end, err := c.Snapshot()
	if err != nil {
		return nil, err
	}
	defer end() // fails only for a closed database
	parts, err := include(in.Include, true)
	if err != nil {
		return nil, err
	}
	n := defaultNResults
	if in.N != nil {
		n = *in.N
	}
	if len(in.Embeddings) < 1 || len(in.Embeddings) > maxQueries || n < 1 || n > a.opts.Results/len(in.Embeddings) {
		return nil, invalidf("%d query embeddings, %d results each: want 1 to %d and 1 to %d, %d in all",
			len(in.Embeddings), n, maxQueries, a.opts.Results, a.opts.Results)
	}
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	vectors, err := queryVectors(in.Embeddings, info.Schema.Dim)
	if err != nil {
		return nil, err
	}
	out := &matrix{IDs: [][]string{}, Include: parts.names}
	found, err := a.find(ctx, c, in.IDs, cond, vectors, n)
	if err != nil {
		return nil, err
	}
	left := a.allowance(ctx)
	for _, hits := range found {
		row := newColumns(parts)
		for d, err := range c.GetSeq(ctx, idsOfHits(hits), parts.selection()) { // of a snapshot: all are there
			if err != nil {
				return nil, err
			}
			if parts.distances {
				row.Distances = append(row.Distances, distance(info.Schema.Metric, hits[len(row.IDs)].Score))
			}
			if err := row.add(d, parts, left); err != nil {
				return nil, err
			}
		}
		out.add(row, parts)
	}
	return out, nil
}

// queryVectors decodes the query embeddings for a collection with this dimension, 0 if it has none
// yet.
func queryVectors(embeddings []json.RawMessage, dim int) ([][]float32, error) {
	vectors := make([][]float32, len(embeddings))
	for i, raw := range embeddings {
		var err error
		if vectors[i], err = vector(raw); err != nil {
			return nil, invalidf("query embedding %d: %v", i, err)
		}
		if !simd.Finite(vectors[i]) {
			return nil, invalidf("query embedding %d: a component is not a finite number", i)
		}
		if have := len(vectors[i]); have == 0 || dim > 0 && have != dim {
			return nil, invalidf("query embedding %d has dimension %d, the collection has %d", i, have, dim)
		}
	}
	return vectors, nil
}

func idsOfHits(hits []db.Hit) []string {
	ids := make([]string, len(hits))
	for i := range hits {
		ids[i] = hits[i].ID
	}
	return ids
}

// find returns the best n documents for each vector, by their ids.
func (a *API) find(ctx context.Context, c *db.Collection, ids []string, cond *condition,
	vectors [][]float32, n int) ([][]db.Hit, error) {
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	out := make([][]db.Hit, len(vectors))
	if info.Schema.Dim == 0 { // no document has a vector
		return out, nil
	}
	if ids == nil {
		// The database evaluates only a part of the condition. Often a few more documents than
		// wanted contain enough that meet all of it.
		k := n
		const most = 1000 // documents to read
		if !cond.plain() {
			k = min(4*n+100, most/len(vectors)+1)
		}
		queries := make([]db.Query, len(vectors))
		for i, v := range vectors {
			queries[i] = db.Query{Near: db.Vector(v), K: k, Where: cond.native(), Select: db.IDsOnly}
		}
		results, err := c.SearchBatch(ctx, queries)
		if err != nil {
			return nil, err
		}
		enough := true
		for i, r := range results {
			hits := r.Hits
			if !cond.plain() {
				kept, j := hits[:0], 0
				for d, err := range c.GetSeq(ctx, idsOfHits(hits), db.WithText|db.WithMetadata) {
					if err != nil {
						return nil, err
					}
					matches, err := cond.match(d)
					if err != nil {
						return nil, err
					}
					if matches {
						kept = append(kept, hits[j])
					}
					j++
				}
				hits = kept
				enough = enough && (len(hits) >= n || r.Matched <= k)
			}
			out[i] = hits[:min(n, len(hits))]
		}
		if enough {
			return out, nil
		}
	}
	return a.scan(ctx, c, ids, cond, vectors, n)
}

// scan reads every document that meets the condition.
func (a *API) scan(ctx context.Context, c *db.Collection, ids []string, cond *condition,
	vectors [][]float32, n int) ([][]db.Hit, error) {
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	metric := info.Schema.Metric
	best := make([][]db.Hit, len(vectors))
	order := func(x, y db.Hit) int { return cmp.Or(cmp.Compare(y.Score, x.Score), cmp.Compare(x.ID, y.ID)) }
	keep := func(i, most int) {
		if len(best[i]) > most {
			slices.SortFunc(best[i], order)
			best[i] = best[i][:n]
		}
	}
	for d, err := range documents(ctx, c, ids, cond, window{}, db.WithVector) {
		if err != nil {
			return nil, err
		}
		for i, v := range vectors {
			if len(d.Vector) != len(v) { // no vector
				continue
			}
			best[i] = append(best[i], db.Hit{Document: db.Document{ID: d.ID}, Score: score(metric, v, d.Vector)})
			keep(i, 2*n+100)
		}
	}
	for i := range best {
		slices.SortFunc(best[i], order)
		best[i] = best[i][:min(n, len(best[i]))]
	}
	return best, nil
}
