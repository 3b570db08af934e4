package weaviate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/store"
	"github.com/vecbolt/vecbolt/text"
)

const (
	batchLen  = 200     // objects of a write
	batchSize = 8 << 20 // approximate limit in bytes
	pageLen   = 500     // objects of a page; they carry vectors
	parallel  = 8       // concurrent requests for objects by id
	deleteLen = 10_000
)

// A collection is a class.
type collection struct {
	store    *Store
	name     string
	class    string
	schema   store.Schema
	replicas int
	nonce    string
}

var _ store.Collection = (*collection)(nil)

func (c *collection) Name() string         { return c.name }
func (c *collection) Schema() store.Schema { return c.schema }

func (c *collection) client() *client { return &c.store.client }

// level returns the consistency parameter of a call. A class without replicas does not support it
// in every call.
func (c *collection) level(write bool) string {
	switch {
	case c.replicas < 2:
		return ""
	case write && c.store.options.WriteAll:
		return "ALL"
	}
	return "QUORUM"
}

func (c *collection) params(write bool) url.Values {
	v := url.Values{}
	if l := c.level(write); l != "" {
		v.Set("consistency_level", l)
	}
	return v
}

// An object is a document in the form that is sent.
type object struct {
	Class      string         `json:"class"`
	ID         string         `json:"id"`
	Properties map[string]any `json:"properties"`
	Vector     []float32      `json:"vector,omitempty"`
}

func (c *collection) object(d *db.Document) (object, error) {
	meta, err := store.EncodeMetadata(d.Metadata)
	if err != nil {
		return object{}, err
	}
	p := map[string]any{"docid": d.ID, "text": d.Text, "meta": string(meta)}
	if terms := termsOf(d.Metadata); len(terms) > 0 {
		p["terms"] = terms
	}
	if t := c.schema.Text; t != nil {
		var fields []string
		for _, path := range t.Fields {
			fields = slices.AppendSeq(fields, document.Strings(d.Metadata, path))
		}
		if len(fields) > 0 {
			p["fields"] = fields
		}
	}
	return object{c.class, objectID(d.ID), p, d.Vector}, nil
}

// Upsert writes batches, which replace whole objects. The answer has a status for each object.
func (c *collection) Upsert(ctx context.Context, docs []db.Document) error {
	docs, err := store.CheckDocuments(c.name, c.schema, docs)
	if err != nil {
		return err
	}
	if err := c.store.open(); err != nil {
		return err
	}
	for len(docs) > 0 {
		var objects []object
		for size := 0; len(objects) < min(batchLen, len(docs)) && size < batchSize; {
			o, err := c.object(&docs[len(objects)])
			if err != nil {
				return err
			}
			// A component takes about twelve bytes, and terms about the size of the metadata.
			size += len(docs[len(objects)].Text) + 12*len(o.Vector) + 2*len(o.Properties["meta"].(string))
			objects = append(objects, o)
		}
		if err := c.write(ctx, docs[:len(objects)], objects); err != nil {
			return err
		}
		docs = docs[len(objects):]
	}
	return nil
}

func (c *collection) write(ctx context.Context, batch []db.Document, objects []object) error {
	var answer []struct {
		ID     string
		Result struct {
			Status string
			Errors struct {
				Error []struct{ Message string }
			}
		}
	}
	r := request{method: http.MethodPost, path: "/v1/batch/objects", query: c.params(true),
		body: map[string]any{"objects": objects}, timeout: 3 * c.client().timeout}
	_, err := c.client().do(ctx, r, &answer, func() error {
		verdicts := answer
		answer = nil
		if len(verdicts) != len(batch) {
			return fmt.Errorf("answer has %d verdicts on %d objects", len(verdicts), len(batch))
		}
		for i, v := range verdicts {
			if v.Result.Status != "SUCCESS" {
				var text []string
				for _, e := range v.Result.Errors.Error {
					text = append(text, e.Message)
				}
				// Errors of the object itself contain "invalid"; all others are failures among the
				// nodes, of many kinds.
				reason := cmp.Or(strings.Join(text, "; "), "status "+v.Result.Status)
				return fmt.Errorf("document %q: %w", batch[i].ID,
					&remoteError{reason, !strings.Contains(reason, "invalid")})
			}
		}
		return nil
	})
	return err
}

// each calls f for every id, with limited concurrency, until a call fails.
func each(ctx context.Context, ids []string, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	places := make(chan struct{}, parallel)
	for i := range ids {
		places <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		wait.Go(func() {
			defer func() { <-places }()
			if err := f(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
	wait.Wait()
	return context.Cause(ctx)
}

// Get reads by id, at QUORUM.
func (c *collection) Get(ctx context.Context, ids []string) ([]*db.Document, error) {
	if err := c.store.open(); err != nil {
		return nil, err
	}
	docs := make([]*db.Document, len(ids))
	err := each(ctx, ids, func(ctx context.Context, i int) error {
		params := c.params(false)
		params.Set("include", "vector")
		var o struct {
			Properties properties
			Vector     []float32
		}
		_, err := c.client().do(ctx, request{method: http.MethodGet, path: c.path(ids[i]), query: params}, &o, nil)
		if isStatus(err, http.StatusNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		docs[i], err = o.Properties.document(o.Vector)
		return err
	})
	if err != nil {
		return nil, err
	}
	return docs, nil
}

func (c *collection) path(id string) string {
	return "/v1/objects/" + c.class + "/" + objectID(id)
}

func isStatus(err error, status int) bool {
	var e *statusError
	return errors.As(err, &e) && e.status == status
}

// Delete first reads which documents exist, because the server's answer does not tell.
func (c *collection) Delete(ctx context.Context, ids []string) (int, error) {
	if err := c.store.open(); err != nil {
		return 0, err
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	deleted := make([]bool, len(ids))
	err := each(ctx, ids, func(ctx context.Context, i int) error {
		_, err := c.client().do(ctx, request{method: http.MethodHead, path: c.path(ids[i]),
			query: c.params(false)}, nil, nil)
		if isStatus(err, http.StatusNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		deleted[i] = true
		_, err = c.client().do(ctx, request{method: http.MethodDelete, path: c.path(ids[i]),
			query: c.params(true), timeout: 3 * c.client().timeout}, nil, nil)
		if isStatus(err, http.StatusNotFound) { // deleted by another client, or by an earlier attempt
			return nil
		}
		return err
	})
	n := 0
	for _, was := range deleted {
		if was {
			n++
		}
	}
	if err != nil {
		return 0, err
	}
	return n, nil
}

// DeleteWhere calls the server until no object is left: each call deletes a limited number. If the
// server cannot decide the condition, documents are deleted by id.
func (c *collection) DeleteWhere(ctx context.Context, where filter.Expr) (int, error) {
	if err := store.CheckDelete(where); err != nil {
		return 0, err
	}
	if err := c.store.open(); err != nil {
		return 0, err
	}
	cond := translate(where)
	if cond.upper == none {
		return 0, nil
	}
	total := 0
	if !cond.exact() || cond.upper == all {
		after := ""
		for {
			p, err := c.Scan(ctx, after, pageLen, where)
			if err != nil {
				return total, err
			}
			ids := make([]string, len(p.Documents))
			for i, d := range p.Documents {
				ids[i] = d.ID
			}
			n, err := c.Delete(ctx, ids)
			if total += n; err != nil || p.Next == "" {
				return total, err
			}
			after = p.Next
		}
	}
	body := map[string]any{"match": map[string]any{"class": c.class, "where": cond.upper.rest()}, "output": "minimal"}
	for {
		type results struct{ Matches, Limit, Successful, Failed int }
		var answer struct{ Results results }
		var last results
		r := request{method: http.MethodDelete, path: "/v1/batch/objects", query: c.params(true),
			body: body, timeout: 3 * c.client().timeout}
		_, err := c.client().do(ctx, r, &answer, func() error {
			last, answer.Results = answer.Results, results{}
			total += last.Successful // of an attempt that fails, too
			if n := last.Failed; n > 0 {
				return &remoteError{fmt.Sprintf("%d objects were not deleted", n), true}
			}
			return nil
		})
		if err != nil {
			return total, err
		}
		if last.Matches == 0 || last.Matches < cmp.Or(last.Limit, deleteLen) {
			return total, nil
		}
	}
}

// properties are the properties of an object.
type properties struct {
	DocID string `json:"docid"`
	Text  string `json:"text"`
	Meta  string `json:"meta"`
}

func (p *properties) document(vector []float32) (*db.Document, error) {
	meta, err := store.DecodeMetadata([]byte(p.Meta))
	if err != nil {
		return nil, fmt.Errorf("weaviate: document %q: %w", p.DocID, err)
	}
	if len(vector) == 0 {
		vector = nil
	}
	return &db.Document{ID: p.DocID, Text: p.Text, Metadata: meta, Vector: vector}, nil
}

// A resultObject is an object in a GraphQL answer.
type resultObject struct {
	properties
	Additional struct {
		ID       string    `json:"id"`
		Distance *float64  `json:"distance"`
		Score    string    `json:"score"`
		Vector   []float32 `json:"vector"`
	} `json:"_additional"`
}

// get queries objects.
func (c *collection) get(ctx context.Context, args []string, additional string) ([]resultObject, error) {
	if l := c.level(false); l != "" {
		args = append(args, "consistencyLevel:"+l)
	}
	query := fmt.Sprintf("{Get{%s(%s){docid text meta _additional{%s}}}}", c.class, strings.Join(args, ","), additional)
	var objects []resultObject
	err := c.client().graphQL(ctx, query, "Get", c.class, &objects)
	return objects, err
}

// best returns the k best objects that match; score extracts the score of one.
func (c *collection) best(ctx context.Context, search string, k int, where filter.Expr,
	additional string, score func(*resultObject) (float64, error)) ([]db.Hit, error) {
	if err := c.store.open(); err != nil {
		return nil, err
	}
	cond := translate(where)
	if cond.upper == none {
		return nil, nil
	}
	args := []string{search, ""}
	if cond.upper != all {
		args = append(args, "where:"+cond.upper.graphQL())
	}
	for limit := k; ; limit = min(4*limit, store.MaxK) {
		args[1] = "limit:" + strconv.Itoa(limit)
		objects, err := c.get(ctx, args, additional)
		if err != nil {
			return nil, err
		}
		var hits []db.Hit
		for i := range objects {
			d, err := objects[i].document(nil)
			if err != nil {
				return nil, err
			}
			s, err := score(&objects[i])
			if err != nil {
				return nil, fmt.Errorf("weaviate: document %q: %w", d.ID, err)
			}
			if cond.exact() || store.Matches(where, d) {
				hits = append(hits, db.Hit{Document: *d, Score: s})
			}
		}
		store.SortHits(hits)
		switch {
		case len(hits) >= k || len(objects) < limit:
			return hits[:min(k, len(hits))], nil
		case limit == store.MaxK:
			return nil, fmt.Errorf("weaviate: collection %q: only %d of the best %d documents match %.200s, which the server cannot decide", c.name, len(hits), limit, where)
		}
	}
}

// Query searches an HNSW index.
func (c *collection) Query(ctx context.Context, vector []float32, k int, where filter.Expr) ([]db.Hit, error) {
	if err := store.CheckQuery(c.name, c.schema, vector, k, where); err != nil {
		return nil, err
	}
	v, err := json.Marshal(vector)
	if err != nil {
		return nil, err
	}
	return c.best(ctx, "nearVector:{vector:"+string(v)+"}", k, where, "distance",
		func(o *resultObject) (float64, error) {
			if o.Additional.Distance == nil {
				return 0, errors.New("answer without a distance")
			}
			return max(-1, min(1, 1-*o.Additional.Distance)), nil
		})
}

// TextQuery searches by BM25, with words in lower case, without stemming and stop words.
func (c *collection) TextQuery(ctx context.Context, question string, k int, where filter.Expr) ([]db.Hit, error) {
	if err := store.CheckTextQuery(c.name, c.schema, k, where); err != nil {
		return nil, err
	}
	plain := text.Plain(question)
	if !strings.ContainsFunc(plain, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }) {
		return nil, nil
	}
	return c.best(ctx, `bm25:{query:`+quote(plain)+`,properties:["text","fields"]}`, k, where, "score",
		func(o *resultObject) (float64, error) {
			return strconv.ParseFloat(o.Additional.Score, 64)
		})
}

// Scan goes by the UUIDs of objects: with the server's cursor, or, if there is a condition, with a
// condition on the UUID, because the server does not combine the two.
func (c *collection) Scan(ctx context.Context, after string, limit int, where filter.Expr) (store.Page, error) {
	if err := store.CheckScan(limit, where); err != nil {
		return store.Page{}, err
	}
	if err := c.store.open(); err != nil {
		return store.Page{}, err
	}
	cond := translate(where)
	if cond.upper == none {
		return store.Page{}, nil
	}
	limit = min(limit, pageLen)
	args := []string{"limit:" + strconv.Itoa(limit)}
	if cond.upper == all {
		args = append(args, "after:"+quote(after))
	} else {
		found := cond.upper
		if after != "" {
			found = and(found, &clause{operator: "idAbove", terms: []string{after}})
		}
		args = append(args, `sort:[{path:["id"],order:asc}]`, "where:"+found.graphQL())
	}
	objects, err := c.get(ctx, args, "id vector")
	if err != nil {
		return store.Page{}, err
	}
	var p store.Page
	for i := range objects {
		d, err := objects[i].document(objects[i].Additional.Vector)
		if err != nil {
			return store.Page{}, err
		}
		if cond.exact() || store.Matches(where, d) {
			p.Documents = append(p.Documents, d)
		}
	}
	if len(objects) == limit {
		p.Next = objects[limit-1].Additional.ID
	}
	return p, nil
}

// Count runs an aggregation: the object counts that nodes report are stale.
func (c *collection) Count(ctx context.Context, where filter.Expr) (int, error) {
	if err := store.CheckWhere(where); err != nil {
		return 0, err
	}
	if err := c.store.open(); err != nil {
		return 0, err
	}
	cond := translate(where)
	switch {
	case cond.upper == none:
		return 0, nil
	case !cond.exact():
		n, after := 0, ""
		for {
			p, err := c.Scan(ctx, after, pageLen, where)
			if n += len(p.Documents); err != nil || p.Next == "" {
				return n, err
			}
			after = p.Next
		}
	}
	args := ""
	if cond.upper != all {
		args = "(where:" + cond.upper.graphQL() + ")"
	}
	var groups []struct{ Meta struct{ Count int } }
	if err := c.client().graphQL(ctx, fmt.Sprintf("{Aggregate{%s%s{meta{count}}}}", c.class, args),
		"Aggregate", c.class, &groups); err != nil {
		return 0, err
	}
	if len(groups) != 1 {
		return 0, fmt.Errorf("weaviate: answer with %d counts", len(groups))
	}
	return groups[0].Meta.Count, nil
}
