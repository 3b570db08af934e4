package chroma

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"net/http"
	"slices"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/docjson"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/vectorize"
	"github.com/vecbolt/vecbolt/server/internal/rest"
)

// uriKey is the field of the metadata that holds the URI of a record, as in
// Chroma itself.
const uriKey = "chroma:uri"

// records is the body of add, upsert and update.
type records struct {
	IDs        []string          `json:"ids"`
	Embeddings []json.RawMessage `json:"embeddings"`
	Metadatas  []json.RawMessage `json:"metadatas"`
	Documents  []*string         `json:"documents"`
	URIs       []*string         `json:"uris"`
}

// A record is one element of records. Nil fields were not sent.
type record struct {
	id       string
	vector   []float32
	text     *string
	metadata db.Metadata // null values are fields to remove
}

// records reads the body of a write. complete asks for all embeddings.
func (a *API) records(r *request, complete bool) ([]record, error) {
	var in records
	if err := r.decode(&in); err != nil {
		return nil, err
	}
	n := len(in.IDs)
	if n == 0 || n > a.opts.Records {
		return nil, invalidf("%d ids: want 1 to %d", n, a.opts.Records)
	}
	for _, list := range []struct {
		name  string
		have  int
		given bool
	}{{"embeddings", len(in.Embeddings), in.Embeddings != nil || complete && a.opts.Models == nil},
		{"metadatas", len(in.Metadatas), in.Metadatas != nil},
		{"documents", len(in.Documents), in.Documents != nil}, {"uris", len(in.URIs), in.URIs != nil}} {
		if list.have != n && list.given {
			return nil, invalidf("%d %s for %d ids", list.have, list.name, n)
		}
	}
	seen := map[string]bool{}
	out := make([]record, n)
	for i, id := range in.IDs {
		if seen[id] {
			return nil, invalidf("id %.100q comes twice", id)
		}
		if id == "" {
			return nil, invalidf("id %d is empty", i)
		}
		seen[id] = true
		rec := record{id: id}
		var err error
		if in.Embeddings != nil {
			if rec.vector, err = vector(in.Embeddings[i]); err != nil {
				return nil, invalidf("id %.100q: embedding: %v", id, err)
			}
		}
		if in.Metadatas != nil {
			if rec.metadata, err = metadata(in.Metadatas[i]); err != nil {
				return nil, invalidf("id %.100q: %v", id, err)
			}
		}
		if in.Documents != nil {
			rec.text = in.Documents[i]
		}
		if in.URIs != nil && in.URIs[i] != nil {
			rec.metadata = maps.Clone(rec.metadata)
			if rec.metadata == nil {
				rec.metadata = db.Metadata{}
			}
			rec.metadata[uriKey] = *in.URIs[i]
		}
		out[i] = rec
	}
	return out, nil
}

// fill makes the embeddings of records that have a document and none, if the collection has a
// model. complete asks for all embeddings.
func (a *API) fill(ctx context.Context, c *db.Collection, recs []record, complete bool) error {
	info, err := c.Info()
	if err != nil {
		return err
	}
	_, pinned := vectorize.Pinned(info)
	if a.opts.Models != nil && (pinned || complete) {
		docs := make([]*db.Document, len(recs))
		for i := range recs {
			docs[i] = &db.Document{ID: recs[i].id, Vector: recs[i].vector}
			if recs[i].text != nil {
				docs[i].Text = *recs[i].text
			}
		}
		if err := a.opts.Models.Collection(c).Fill(ctx, docs); err != nil {
			if errors.Is(err, embed.ErrMismatch) {
				return invalidf("%v", err)
			}
			var failed *embed.Error
			if errors.As(err, &failed) {
				return rest.Because(rest.ModelFailed(failed.Misconfigured()), err)
			}
			return err
		}
		for i := range recs {
			recs[i].vector = docs[i].Vector
		}
	}
	for i := range recs {
		if complete && recs[i].vector == nil {
			return invalidf("id %.100q: embedding: missing", recs[i].id)
		}
	}
	return nil
}

// vector reads an embedding: an array of numbers, or the base64 of float32 in
// little-endian order; nil if it is null.
func vector(raw json.RawMessage) ([]float32, error) {
	if raw = bytes.TrimSpace(raw); !given(raw) {
		return nil, nil
	}
	if raw[0] != '"' {
		return docjson.ParseVector(nil, raw)
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, err
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	if len(b) == 0 || len(b)%4 != 0 {
		return nil, fmt.Errorf("%d bytes in base64 are no vector", len(b))
	}
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v, nil
}

// document returns the record as a new document.
func (r *record) document() db.Document {
	d := db.Document{ID: r.id, Vector: r.vector, Metadata: db.Metadata{}}
	for k, v := range r.metadata {
		if v != nil {
			d.Metadata[k] = v
		}
	}
	if r.text != nil {
		d.Text = *r.text
	}
	return d
}

// patch returns the record as a change of a document that exists.
func (r *record) patch() db.Patch {
	p := db.Patch{ID: r.id, Vector: r.vector, Text: r.text, Set: db.Metadata{}}
	for k, v := range r.metadata {
		if v == nil {
			p.Unset = append(p.Unset, k)
		} else {
			p.Set[k] = v
		}
	}
	return p
}

// write writes records in one batch. Each record becomes an insert or an update, depending on
// whether its id exists. If that changes before the batch is applied, write retries.
func (a *API) write(ctx context.Context, r *request, complete bool,
	put func(b *db.Batch, collection string, rec *record, exists bool)) (any, error) {
	c, _, err := a.collection(ctx, r)
	if err != nil {
		return nil, err
	}
	recs, err := a.records(r, complete)
	if err == nil {
		err = a.fill(ctx, c, recs, complete)
	}
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(recs))
	for i := range recs {
		ids[i] = recs[i].id
	}
	const tries = 20
	for try := 1; ; try++ {
		have, err := c.GetMany(ctx, ids, db.IDsOnly)
		if err != nil {
			return nil, err
		}
		info, err := c.Info()
		if err != nil {
			return nil, err
		}
		var b db.Batch
		for i := range recs {
			put(&b, info.Name, &recs[i], have[i] != nil)
		}
		err = a.db.Apply(ctx, &b)
		if try < tries && (errors.Is(err, db.ErrExists) || errors.Is(err, db.ErrNotFound)) {
			continue
		}
		return struct{}{}, err
	}
}

// add writes records with new ids and ignores the rest, as Chroma does.
func (a *API) add(ctx context.Context, r *request) (any, error) {
	return a.write(ctx, r, true, func(b *db.Batch, collection string, rec *record, exists bool) {
		if !exists {
			b.Insert(collection, rec.document())
		}
	})
}

// upsert inserts new records and updates existing ones.
func (a *API) upsert(ctx context.Context, r *request) (any, error) {
	return a.write(ctx, r, true, func(b *db.Batch, collection string, rec *record, exists bool) {
		if exists {
			b.Patch(collection, rec.patch())
		} else {
			b.Insert(collection, rec.document())
		}
	})
}

// update updates existing records and ignores the rest, as Chroma does.
func (a *API) update(ctx context.Context, r *request) (any, error) {
	return a.write(ctx, r, false, func(b *db.Batch, collection string, rec *record, exists bool) {
		if exists {
			b.Patch(collection, rec.patch())
		}
	})
}

// selector holds the fields that get, query and delete share.
type selector struct {
	IDs           []string        `json:"ids"`
	Where         json.RawMessage `json:"where"`
	WhereDocument json.RawMessage `json:"where_document"`
	Include       *[]string       `json:"include"`
	Limit         *int            `json:"limit"`
	Offset        *int            `json:"offset"`
}

func (a *API) count(ctx context.Context, r *request) (any, error) {
	c, _, err := a.collection(ctx, r)
	if err != nil {
		return nil, err
	}
	return c.Count(ctx, nil)
}

// documents yields the documents that have one of the ids and meet the condition, in the order of
// ids. If ids is nil, it yields all documents after the id after, in order of id.
func documents(ctx context.Context, c *db.Collection, ids []string, cond *condition, after string,
	want db.Select) iter.Seq2[*db.Document, error] {
	const pageSize = 500
	if !cond.plain() || ids != nil && cond.expr != nil {
		want |= db.WithText | db.WithMetadata
		want &^= db.IDsOnly
	}
	return func(yield func(*db.Document, error) bool) {
		// pass yields the documents that match, and reports whether the caller wants more.
		pass := func(docs []*db.Document, allMatch bool) bool {
			for _, d := range docs {
				if d == nil {
					continue
				}
				matches, err := allMatch, error(nil)
				if !matches {
					matches, err = cond.match(d)
				}
				if err != nil {
					yield(nil, err)
					return false
				}
				if matches && !yield(d, nil) {
					return false
				}
			}
			return true
		}
		if ids != nil {
			for part := range slices.Chunk(ids, pageSize) {
				docs, err := c.GetMany(ctx, part, want)
				if err != nil {
					yield(nil, err)
					return
				}
				if !pass(docs, cond.expr == nil) {
					return
				}
			}
			return
		}
		for q := (db.ListQuery{Where: cond.native(), After: after, Limit: pageSize, Select: want}); ; {
			page, err := c.List(ctx, q)
			if err != nil {
				yield(nil, err)
				return
			}
			if !pass(page.Documents, cond.plain()) || page.Next == "" {
				return
			}
			q.After = page.Next
		}
	}
}

// question reads the body of a request that selects documents.
func (a *API) question(ctx context.Context, r *request, into any, q *selector) (*db.Collection, *condition, error) {
	c, _, err := a.collection(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	if err := r.decode(into); err != nil {
		return nil, nil, err
	}
	switch {
	case len(q.IDs) > a.opts.Records:
		return nil, nil, invalidf("%d ids: the limit is %d", len(q.IDs), a.opts.Records)
	case q.Limit != nil && *q.Limit < 0, q.Offset != nil && *q.Offset < 0:
		return nil, nil, invalidf("limit and offset must not be negative")
	}
	seen := map[string]bool{}
	q.IDs = slices.DeleteFunc(q.IDs, func(id string) bool {
		twice := seen[id]
		seen[id] = true
		return twice
	})
	cond, err := parseCondition(ctx, q.Where, q.WhereDocument)
	return c, cond, err
}

// frozen returns a collection in a new snapshot, and a function that closes the snapshot: an answer
// is made of many reads, and must not mix the states before and after a write.
func (a *API) frozen(c *db.Collection) (*db.Collection, func(), error) {
	info, err := c.Info()
	if err != nil {
		return nil, nil, err
	}
	snap, err := a.db.Snapshot()
	if err != nil {
		return nil, nil, err
	}
	end := func() { _ = snap.Close() } // fails only for a closed database
	if c, err = inSnapshot(snap, info); err != nil {
		end()
		return nil, nil, err
	}
	return c, end, nil
}

// inSnapshot returns a collection in a snapshot. It goes by the id: the collection may have been
// renamed since info was read, and another one may have its name.
func inSnapshot(snap *db.Snapshot, info db.CollectionInfo) (*db.Collection, error) {
	id := stateOf(info.Name, info.Metadata).id
	c, err := snap.Collection(info.Name)
	if err == nil {
		var then db.CollectionInfo
		if then, err = c.Info(); err == nil && stateOf(then.Name, then.Metadata).id == id {
			return c, nil
		}
	}
	if err != nil && !errors.Is(err, db.ErrNotFound) {
		return nil, err
	}
	all, err := snap.Collections()
	if err != nil {
		return nil, err
	}
	for _, then := range all {
		if stateOf(then.Name, then.Metadata).id == id {
			return snap.Collection(then.Name)
		}
	}
	return nil, rest.Errorf(http.StatusNotFound, "the collection was deleted")
}

func (a *API) delete(ctx context.Context, r *request) (any, error) {
	var in selector
	c, cond, err := a.question(ctx, r, &in, &in)
	if err != nil {
		return nil, err
	}
	if in.IDs == nil && cond.expr == nil {
		return nil, invalidf("say what to delete: ids, where or where_document")
	}
	if in.Limit == nil {
		var n int
		switch {
		case in.IDs != nil && cond.expr == nil:
			n, err = c.Delete(ctx, in.IDs...)
		case in.IDs != nil:
			n, err = c.DeleteIf(ctx, in.IDs, 0, cond.match)
		case cond.plain():
			n, err = c.DeleteWhere(ctx, cond.expr)
		default:
			n, err = c.DeleteFunc(ctx, cond.native(), cond.match)
		}
		return map[string]int{"deleted": n}, err
	}
	if *in.Limit == 0 { // which DeleteIf takes for no limit
		return map[string]int{"deleted": 0}, nil
	}
	ids := in.IDs
	if ids == nil { // the first that match, which may change until they are deleted
		for d, err := range documents(ctx, c, nil, cond, "", db.IDsOnly) {
			if err != nil {
				return nil, err
			}
			if len(ids) == *in.Limit {
				break
			}
			ids = append(ids, d.ID)
		}
	}
	n, err := c.DeleteIf(ctx, ids, *in.Limit, func(d *db.Document) (bool, error) {
		if cond.expr == nil {
			return true, nil
		}
		return cond.match(d)
	})
	return map[string]int{"deleted": n}, err
}

// partSet lists the parts of an answer.
type partSet struct {
	documents, metadatas, embeddings, distances, uris bool
	names                                             []string
}

// include reads the requested parts; distances are valid only in queries.
func include(asked *[]string, distances bool) (in partSet, err error) {
	in.names = []string{"metadatas", "documents"}
	if distances {
		in.names = append(in.names, "distances")
	}
	if asked != nil {
		in.names = append([]string{}, *asked...)
	}
	for _, name := range in.names {
		switch {
		case name == "documents":
			in.documents = true
		case name == "metadatas":
			in.metadatas = true
		case name == "embeddings":
			in.embeddings = true
		case name == "uris":
			in.uris = true
		case name == "distances" && distances:
			in.distances = true
		default:
			return in, invalidf("include: %.50q is not known here", name)
		}
	}
	return in, nil
}

func (in partSet) selection() (s db.Select) {
	if in.documents {
		s |= db.WithText
	}
	if in.metadatas || in.uris {
		s |= db.WithMetadata
	}
	if in.embeddings {
		s |= db.WithVector
	}
	return cmp.Or(s, db.IDsOnly)
}

// columns holds documents as one array per part. Parts that were not requested are null.
type columns struct {
	IDs        []string      `json:"ids"`
	Documents  []*string     `json:"documents"`
	Embeddings [][]float32   `json:"embeddings"`
	Metadatas  []db.Metadata `json:"metadatas"`
	URIs       []*string     `json:"uris"`
	Distances  []float64     `json:"distances,omitempty"`
}

func newColumns(in partSet) *columns {
	c := &columns{IDs: []string{}}
	if in.documents {
		c.Documents = []*string{}
	}
	if in.embeddings {
		c.Embeddings = [][]float32{}
	}
	if in.metadatas {
		c.Metadatas = []db.Metadata{}
	}
	if in.uris {
		c.URIs = []*string{}
	}
	if in.distances {
		c.Distances = []float64{}
	}
	return c
}

// An allowance is the memory that an answer may still use.
type allowance struct {
	ctx      context.Context // of the request
	records  int
	bytes    int64
	most     int64 // bytes in total
	reserved int64 // bytes that are counted in the server's memory limit
}

// copies is how often an answer is in memory: as documents, and as JSON in a growing buffer.
const copies = 3

// check returns an error if the answer may not continue.
func (a *allowance) check() error {
	if a.records < 0 || a.bytes < 0 {
		return invalidf("the answer is too large: use a smaller limit, and an offset")
	}
	const step = 1 << 20
	if used := a.most - a.bytes; used-a.reserved >= step {
		if err := rest.Reserve(a.ctx, copies*(used-a.reserved)); err != nil {
			return err
		}
		a.reserved = used
	}
	return nil
}

// add adds a document.
func (c *columns) add(d *db.Document, in partSet, left *allowance) error {
	left.records--
	left.bytes -= int64(len(d.ID) + len(d.Text) + 16*len(d.Vector))
	c.IDs = append(c.IDs, d.ID)
	if in.documents {
		var text *string
		if d.Text != "" {
			text = new(d.Text)
		}
		c.Documents = append(c.Documents, text)
	}
	if in.embeddings {
		c.Embeddings = append(c.Embeddings, d.Vector)
	}
	var uri *string
	if text, ok := d.Metadata[uriKey].(string); ok {
		uri = &text
		delete(d.Metadata, uriKey)
	}
	if in.uris {
		c.URIs = append(c.URIs, uri)
	}
	if in.metadatas {
		m := d.Metadata
		if len(m) == 0 {
			m = nil
		}
		filter.Flatten(m, func(path string, v any) bool {
			text, _ := v.(string)
			left.bytes -= int64(len(path) + len(text) + 8)
			return true
		})
		c.Metadatas = append(c.Metadatas, m)
	}
	return left.check()
}

func (a *API) allowance(ctx context.Context) *allowance {
	return &allowance{ctx: ctx, records: a.opts.Results, bytes: a.opts.Answer, most: a.opts.Answer}
}

func (a *API) get(ctx context.Context, r *request) (any, error) {
	var in selector
	c, cond, err := a.question(ctx, r, &in, &in)
	if err != nil {
		return nil, err
	}
	c, end, err := a.frozen(c)
	if err != nil {
		return nil, err
	}
	defer end()
	parts, err := include(in.Include, false)
	if err != nil {
		return nil, err
	}
	out := struct {
		*columns
		Include []string `json:"include"`
	}{newColumns(parts), parts.names}
	limit, skip, left := math.MaxInt, 0, a.allowance(ctx)
	if in.Limit != nil {
		limit = *in.Limit
	}
	if in.Offset != nil {
		skip = *in.Offset
	}
	after := ""
	if skip > 0 && in.IDs == nil && cond.plain() { // the database skips faster
		page, err := c.List(ctx, db.ListQuery{Where: cond.expr, Offset: skip - 1, Limit: 1, Select: db.IDsOnly})
		if err != nil {
			return nil, err
		}
		if page.Next == "" {
			return out, nil
		}
		skip, after = 0, page.Next
	}
	for d, err := range documents(ctx, c, in.IDs, cond, after, parts.selection()) {
		if err != nil {
			return nil, err
		}
		if skip > 0 {
			skip--
			continue
		}
		if len(out.IDs) == limit {
			break
		}
		if err := out.add(d, parts, left); err != nil {
			return nil, err
		}
	}
	return out, nil
}
