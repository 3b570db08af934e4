package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/docjson"
	"github.com/vecbolt/vecbolt/server/internal/rest"
)

// Limits of some query fields.
const (
	maxExamples = 1000    // ids of Like and of Unlike, and documents to explain
	maxDiverse  = 2000    // documents that MMR compares with each other
	maxEf       = 100_000 // beam width of an approximate search
	maxSnippet  = 64 << 10
	maxGroup    = 1000
)

// search answers one query.
func (s *Server) search(w http.ResponseWriter, r *http.Request) error {
	a, _, err := s.asked(w, r, false)
	if err != nil {
		return err
	}
	defer a.end()
	res, err := a.c.Search(r.Context(), a.queries[0])
	if err != nil {
		return notFoundIsInvalid(err)
	}
	err = a.append(r.Context(), 0, res)
	a.buf = append(a.buf, "}\n"...)
	return a.page.end(r, err)
}

// explain answers one query with its explanation. The body may have "why_not", a list of ids.
func (s *Server) explain(w http.ResponseWriter, r *http.Request) error {
	a, whyNot, err := s.asked(w, r, true)
	if err != nil {
		return err
	}
	defer a.end()
	e, err := a.c.Explain(r.Context(), a.queries[0], whyNot...)
	if err != nil {
		return notFoundIsInvalid(err)
	}
	err = a.append(r.Context(), 0, e.Result)
	for _, part := range []struct {
		name  string
		value any
	}{{"parts", append([]db.PartPlan{}, e.Plan...)}, {"stages", append([]db.Stage{}, e.Stages...)},
		{"why_not", append([]db.WhyNot{}, e.WhyNot...)}} {
		if err == nil {
			a.buf, err = appendField(a.buf, part.name, part.value)
		}
	}
	a.buf = append(a.buf, "}\n"...)
	return a.page.end(r, err)
}

// notFoundIsInvalid keeps 404 for the path: a query that names a missing document is a mistake in
// the body.
func notFoundIsInvalid(err error) error {
	if rest.Status(err) == http.StatusNotFound {
		return &rest.Error{Status: http.StatusBadRequest, Message: rest.Message(err)}
	}
	return err
}

// A searchRequest holds the queries of a request, a snapshot of their collection, and the answer.
type searchRequest struct {
	page
	c       *db.Collection
	end     func() error // fails only for a closed database
	queries []db.Query
	parts   []db.Select // wanted parts, if hits are found by id alone and their documents are read one by one
}

// asked reads the collection and the query of a request. The caller must call end.
func (s *Server) asked(w http.ResponseWriter, r *http.Request, explain bool) (_ *searchRequest,
	whyNot []string, err error) {
	if _, err := s.collection(r); err != nil {
		return nil, nil, err
	}
	q := query{most: s.limits.Hits}
	err = s.object(w, r, func(key string, v *docjson.Reader) (err error) {
		if explain && key == "why_not" {
			whyNot, err = v.Strings(maxExamples)
			return named(key, err)
		}
		return readQueryField(&q, key, v)
	})
	if err == nil {
		err = q.judge()
	}
	if err != nil {
		return nil, nil, err
	}
	a, err := s.newSearchRequest(w, r, []query{q}, wanted(&q.Query))
	return a, whyNot, err
}

func (s *Server) newSearchRequest(w http.ResponseWriter, r *http.Request, asked []query,
	hits int) (*searchRequest, error) {
	queries := make([]db.Query, len(asked))
	c, err := s.collection(r)
	for i := range asked {
		if queries[i] = asked[i].Query; err == nil && !asked[i].words && s.opts.Models != nil {
			if queries[i], err = s.opts.Models.Collection(c).Ask(r.Context(), queries[i]); err != nil {
				err = notEmbedded(err)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	a := &searchRequest{page: page{server: s, w: w}, queries: queries, end: func() error { return nil }}
	if a.c, err = s.collection(r); err != nil || hits <= together {
		return a, err
	}
	for i := range queries {
		a.parts = append(a.parts, queries[i].Select)
		queries[i].Select = db.IDsOnly
	}
	a.c, a.end, err = a.c.Snapshot()
	return a, err
}

// searchBatch answers {"queries": [...]} from one snapshot with {"results": [...]}.
func (s *Server) searchBatch(w http.ResponseWriter, r *http.Request) error {
	if _, err := s.collection(r); err != nil {
		return err
	}
	var queries []query
	hits := 0
	given, err := s.field(w, r, "queries", func(v *docjson.Reader) error {
		return v.Array(func() error {
			if len(queries) == s.limits.Queries {
				return tooMany("queries", s.limits.Queries)
			}
			q := query{most: s.limits.Hits}
			err := v.Object(func(key string) error { return readQueryField(&q, key, v) })
			if err == nil {
				err = q.judge()
			}
			if hits += wanted(&q.Query); err == nil && hits > 10*s.limits.Hits {
				err = tooMany("hits", 10*s.limits.Hits)
			}
			queries = append(queries, q)
			return err
		})
	})
	if err == nil && !given {
		err = rest.Missing("queries")
	}
	if err != nil {
		return err
	}
	a, err := s.newSearchRequest(w, r, queries, hits)
	if err != nil {
		return err
	}
	defer a.end()
	results, err := a.c.SearchBatch(r.Context(), a.queries)
	if err != nil {
		return notFoundIsInvalid(err)
	}
	a.buf = append(a.buf, `{"results":[`...)
	for i, res := range results {
		if i > 0 {
			a.buf = append(a.buf, ',')
		}
		if err == nil {
			err = a.append(r.Context(), i, res)
		}
		a.buf = append(a.buf, '}')
	}
	a.buf = append(a.buf, "]}\n"...)
	return a.page.end(r, err)
}

// A query is a db.Query as its JSON has it: with a member for each kind of target and accuracy.
type query struct {
	db.Query
	most         int // hits, by the limits of the server
	vector       []float32
	id           string
	like, unlike []string
	exact        bool
	recall       float64
	ef           int
	words        bool // search for the text by its words alone
}

// close sets the target and the accuracy.
func (q *query) close() error {
	targets := 0
	if len(q.vector) > 0 {
		q.Near, targets = db.Vector(q.vector), targets+1
	}
	if q.id != "" {
		q.Near, targets = db.Stored(q.id), targets+1
	}
	if len(q.like)+len(q.unlike) > 0 {
		q.Near, targets = db.Examples{Like: q.like, Unlike: q.unlike}, targets+1
	}
	switch {
	case targets > 1:
		return fmt.Errorf("%w: a query has only one of 'vector', 'id' and 'like'", db.ErrInvalid)
	case q.exact && q.recall != 0:
		return fmt.Errorf("%w: a query has only one of 'exact' and 'recall'", db.ErrInvalid)
	case q.exact && q.ef > 0:
		return fmt.Errorf("%w: a query has only one of 'exact' and 'ef'", db.ErrInvalid)
	case q.ef > 0 && q.recall != 0:
		return fmt.Errorf("%w: a query has only one of 'recall' and 'ef'", db.ErrInvalid)
	case q.exact:
		q.Accuracy = db.Exact
	case q.ef > 0:
		q.Accuracy = db.EF(q.ef)
	default:
		q.Accuracy = db.Recall(q.recall)
	}
	return nil
}

// readQueryField reads one member of a query.
func readQueryField(q *query, key string, v *docjson.Reader) (err error) {
	read, known := queryFields[key]
	switch {
	case !known:
		return unknown(key, slices.Collect(maps.Keys(queryFields))...)
	case v.Null(): // same as missing
		return nil
	}
	return named(key, read(q, v))
}

// queryFields reads the members of a query. Limits of several members together are in query.judge.
var queryFields = map[string]func(*query, *docjson.Reader) error{
	"vector":    readQueryVector,
	"embedding": readQueryVector,
	"id":        func(q *query, v *docjson.Reader) (err error) { q.id, err = v.String(); return },
	"like":      func(q *query, v *docjson.Reader) (err error) { q.like, err = v.Strings(maxExamples); return },
	"unlike":    func(q *query, v *docjson.Reader) (err error) { q.unlike, err = v.Strings(maxExamples); return },
	"text":      func(q *query, v *docjson.Reader) (err error) { q.Text, err = v.String(); return },
	"words":     func(q *query, v *docjson.Reader) (err error) { q.words, err = v.Bool(); return },
	"snippet":   func(q *query, v *docjson.Reader) (err error) { q.Snippet, err = v.Int(0, maxSnippet); return },
	"k":         func(q *query, v *docjson.Reader) (err error) { q.K, err = v.Int(1, q.most); return },
	"offset":    func(q *query, v *docjson.Reader) (err error) { q.Offset, err = v.Int(0, q.most); return },
	"where":     func(q *query, v *docjson.Reader) (err error) { q.Where, err = readWhereIn(v); return },
	"exact":     func(q *query, v *docjson.Reader) (err error) { q.exact, err = v.Bool(); return },
	"recall":    func(q *query, v *docjson.Reader) (err error) { q.recall, err = v.Float(); return },
	"ef":        func(q *query, v *docjson.Reader) (err error) { q.ef, err = v.Int(0, maxEf); return },
	"include":   func(q *query, v *docjson.Reader) (err error) { q.Select, err = readInclude(v); return },
	"threshold": func(q *query, v *docjson.Reader) error {
		f, err := v.Float()
		q.Threshold = &f
		return err
	},
	"fusion": func(q *query, v *docjson.Reader) error {
		return v.Object(func(key string) (err error) {
			f := &q.Fusion
			switch key {
			case "method":
				var name string
				if name, err = v.String(); err == nil {
					f.Method, err = db.ParseFusionMethod(name)
				}
			case "vector":
				f.Vector, err = v.Float()
			case "text":
				f.Text, err = v.Float()
			case "c":
				f.C, err = v.Float()
			case "depth":
				f.Depth, err = v.Int(0, q.most)
			default:
				err = unknown(key, "method", "vector", "text", "c", "depth")
			}
			return named(key, err)
		})
	},
	"group": func(q *query, v *docjson.Reader) error {
		q.Group = &db.Group{}
		return v.Object(func(key string) (err error) {
			switch key {
			case "field":
				q.Group.Field, err = v.String()
			case "size":
				q.Group.Size, err = v.Int(1, maxGroup)
			default:
				err = unknown(key, "field", "size")
			}
			return named(key, err)
		})
	},
	"mmr": func(q *query, v *docjson.Reader) error {
		q.MMR = &db.MMR{}
		return v.Object(func(key string) (err error) {
			switch key {
			case "lambda":
				q.MMR.Lambda, err = v.Float()
			case "fetch":
				q.MMR.Fetch, err = v.Int(0, maxDiverse)
			default:
				err = unknown(key, "lambda", "fetch")
			}
			return named(key, err)
		})
	},
}

func readQueryVector(q *query, v *docjson.Reader) (err error) {
	if q.vector != nil {
		return fmt.Errorf("%w: the vector is given twice", db.ErrInvalid)
	}
	q.vector, err = readEmbedding(v)
	return err
}

// wanted returns the number of hits that the database has to rank for a query.
func wanted(q *db.Query) int {
	k := q.K
	if k == 0 {
		k = db.DefaultK
	}
	if q.Group != nil {
		k *= max(q.Group.Size, 1)
	}
	return k + q.Offset
}

// judge refuses queries beyond the limits.
func (q *query) judge() error {
	switch {
	case len(q.vector) == 0 && q.id == "" && len(q.like) == 0 && q.Text == "":
		return rest.Errorf(http.StatusBadRequest, "a query needs one of 'vector', 'id', 'like' and 'text'")
	case wanted(&q.Query) > q.most:
		return rest.Errorf(http.StatusBadRequest,
			"a query ranks at most %d hits, those left out by 'offset' included", q.most)
	case q.MMR != nil && q.MMR.Fetch == 0 && 5*wanted(&q.Query) > maxDiverse:
		return rest.Errorf(http.StatusBadRequest,
			"'mmr' compares at most %d documents, five times the hits: ask for fewer or name 'fetch'", maxDiverse)
	}
	return q.close()
}

// append appends the result of query i as JSON, without the brace that ends it.
func (a *searchRequest) append(ctx context.Context, i int, res *db.Result) (err error) {
	a.buf = append(a.buf, `{"hits":[`...)
	q := a.queries[i]
	add := func(j int) error {
		if j > 0 {
			a.buf = append(a.buf, ',')
		}
		if a.buf, err = appendHit(a.buf, &q, &res.Hits[j]); err != nil {
			return err
		}
		return a.grow()
	}
	if a.parts == nil {
		for j := range res.Hits {
			if err := add(j); err != nil {
				return err
			}
		}
	} else {
		q.Select = a.parts[i]
		ids := res.IDs()
		err := each(ctx, a.c, ids, q.Select, func(j int, d *db.Document) error {
			if d == nil { // cannot happen: both reads use one snapshot
				return fmt.Errorf("%w: document %q of a hit", db.ErrCorrupt, ids[j])
			}
			res.Hits[j].Document = *d
			err := add(j)
			res.Hits[j] = db.Hit{}
			return err
		})
		if err != nil {
			return err
		}
	}
	a.buf = fmt.Appendf(a.buf, `],"count":%d,"exact":%t,"complete":%t,"recall":%v,"matched":%d,"considered":%d`,
		len(res.Hits), res.Exact, res.Complete, res.Recall, res.Matched, res.Considered)
	if !res.Exact {
		a.buf = fmt.Appendf(a.buf, `,"usual_recall":%v,"poor":%v`, res.UsualRecall, res.Poor)
	}
	a.buf, err = appendField(a.buf, "plan", res.Plan)
	return err
}

// appendHit appends a document with its score.
func appendHit(dst []byte, q *db.Query, h *db.Hit) (_ []byte, err error) {
	if dst, err = appendDocument(dst, &h.Document, q.Select); err != nil {
		return nil, err
	}
	dst = strconv.AppendFloat(append(dst, `,"score":`...), h.Score, 'g', -1, 64)
	if q.Group != nil {
		if dst, err = docjson.AppendValue(append(dst, `,"group":`...), h.Group); err != nil {
			return nil, err
		}
	}
	if h.Legs != nil {
		if dst, err = appendField(dst, "legs", h.Legs); err != nil {
			return nil, err
		}
	}
	if h.Snippet != nil {
		if dst, err = appendField(dst, "snippet", h.Snippet); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// appendField appends a member of an object.
func appendField(dst []byte, name string, v any) ([]byte, error) {
	value, err := json.Marshal(v)
	return append(fmt.Appendf(dst, ",%q:", name), value...), err
}
