package chroma

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"

	"github.com/vecbolt/vecbolt/db"
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
			if !complete && recs[i].text != nil && recs[i].vector == nil {
				recs[i].vector = []float32{} // a text without words takes the vector of the old one away
			}
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
	// Ids that another process has just written or deleted decide what becomes of a record.
	if err := a.db.Barrier(ctx); err != nil {
		return nil, err
	}
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
		err = c.Apply(ctx, &b) // whatever name the collection has by now
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
