package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/docjson"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/vectorize"
	"github.com/vecbolt/vecbolt/server/internal/rest"
)

// Page lengths.
const (
	defaultPage = 100
	maxPage     = 1000
)

// Messages whose wording the requirements prescribe; scenario_test.go compares them.
const (
	noName       = "Collection name is required"
	noDocuments  = "Documents array is required"
	noEmbeddings = "All documents must include pre-computed embeddings"
	notJSON      = "Invalid 'where' filter: must be valid JSON"
)

// addDocuments writes documents with their embeddings, all or none: {"documents": [{"id", "text",
// "metadata", "embedding"}], "mode": "upsert"}. A client may name the model of the embeddings;
// embeddings of another model are refused.
func (s *Server) addDocuments(w http.ResponseWriter, r *http.Request, c *db.Collection) error {
	var docs []db.Document
	insert := false
	var model db.Lineage // of the embeddings of the request
	err := s.object(w, r, func(key string, v *docjson.Reader) error {
		switch key {
		case "documents":
			if !v.Is('[') {
				return rest.Errorf(http.StatusBadRequest, noDocuments)
			}
			return v.Array(func() error {
				if len(docs) == s.limits.Documents {
					return tooMany("documents", s.limits.Documents)
				}
				d, err := readDocument(v, len(docs))
				docs = append(docs, d)
				return err
			})
		case "mode":
			mode, err := v.String()
			if insert = mode == "insert"; err == nil && !insert && mode != "upsert" {
				err = rest.Errorf(http.StatusBadRequest, "Invalid 'mode': want upsert or insert")
			}
			return named(key, err)
		case "embedding_provider", "embedding_model":
			if v.Null() {
				return nil
			}
			name, err := v.String()
			if key == "embedding_model" {
				model.Model = name
			} else {
				model.Provider = name
			}
			return named(key, err)
		}
		return unknown(key, "documents", "mode", "embedding_provider", "embedding_model")
	})
	if err == nil {
		err = sameModel(c, model)
	}
	if err == nil && len(docs) == 0 {
		err = rest.Errorf(http.StatusBadRequest, noDocuments)
	}
	if err == nil {
		err = s.fill(r.Context(), c, docs, model)
	}
	if err == nil {
		err = sameDimension(docs)
	}
	if err != nil {
		return err
	}
	write := c.Upsert
	if insert {
		write = c.Insert
	}
	ids, err := write(r.Context(), docs...)
	if err != nil {
		return err
	}
	rest.JSON(w, http.StatusOK, struct {
		Success bool     `json:"success"`
		Count   int      `json:"count"`
		IDs     []string `json:"ids"`
	}{true, len(ids), ids})
	return nil
}

// sameModel returns an error if the vectors of a collection are of another model than the client
// named. It does not open the collection by its name: another client may have dropped or renamed it
// while the body arrived, and it would be made again.
func sameModel(c *db.Collection, named db.Lineage) error {
	info, err := c.Info()
	if err != nil {
		return err
	}
	have := info.Schema.Lineage
	for _, f := range []struct{ what, have, named string }{
		{"provider", have.Provider, named.Provider}, {"model", have.Model, named.Model},
	} {
		if f.named != "" && f.have != "" && f.named != f.have {
			return fmt.Errorf("%w: collection %q has %s %q, not %q", db.ErrSchema, info.Name, f.what, f.have, f.named)
		}
	}
	return nil
}

// readDocument reads document i of a request.
func readDocument(v *docjson.Reader, i int) (d db.Document, err error) {
	if !v.Is('{') {
		return d, rest.Errorf(http.StatusBadRequest, "Document %d: must be an object", i)
	}
	err = v.Object(func(key string) (err error) {
		switch key {
		case "embedding", "vector":
			if v.Null() {
				return nil
			}
			if d.Vector != nil {
				return rest.Errorf(http.StatusBadRequest, "Document %d: the vector is given twice", i)
			}
			d.Vector, err = readEmbedding(v)
			if err != nil {
				return rest.Errorf(http.StatusBadRequest,
					"Document %d: invalid %s: must be an array of finite numbers: %s", i, key, err.Error())
			}
			return nil
		case "id", "text", "metadata":
			if v.Null() {
				return nil
			}
			switch key {
			case "id":
				d.ID, err = v.String()
			case "text":
				d.Text, err = v.String()
			case "metadata":
				d.Metadata, err = v.Metadata()
			}
		default:
			err = unknown(key, "id", "text", "metadata", "embedding", "vector")
		}
		if err != nil {
			err = fmt.Errorf("document %d: %w", i, named(key, err))
		}
		return err
	})
	return d, err
}

// fill makes the vectors of documents with a text and no embedding, if the collection has a model.
// Every document has a vector then. named is the model that the client named.
func (s *Server) fill(ctx context.Context, c *db.Collection, docs []db.Document, named db.Lineage) error {
	if s.opts.Models != nil {
		pointers := make([]*db.Document, len(docs))
		for i := range docs {
			pointers[i] = &docs[i]
		}
		if err := s.opts.Models.Collection(c).Fill(ctx, pointers); err != nil {
			return notEmbedded(err)
		}
	}
	if slices.ContainsFunc(docs, func(d db.Document) bool { return d.Vector == nil }) {
		return rest.Errorf(http.StatusBadRequest, noEmbeddings)
	}
	info, err := c.Info()
	if err != nil {
		return err
	}
	pinned, ok := vectorize.Pinned(info)
	differs := func(asked, have string) bool { return asked != "" && asked != have }
	if ok && (differs(named.Provider, pinned.Provider) || differs(named.Model, pinned.Model)) {
		return rest.Errorf(http.StatusConflict, "collection %q is pinned to %v, not to provider %q, model %q",
			info.Name, pinned, named.Provider, named.Model)
	}
	return nil
}

// notEmbedded returns the error for texts without vectors: the client is told of its mistakes, and
// whether the model failed or its configuration is wrong, but not how. The log tells.
func notEmbedded(err error) error {
	var failed *embed.Error
	switch {
	case errors.Is(err, embed.ErrMismatch):
		return &rest.Error{Status: http.StatusConflict, Message: err.Error()}
	case errors.As(err, &failed):
		return rest.Because(rest.ModelFailed(failed.Misconfigured()), err)
	}
	return err
}

// readEmbedding reads a vector with at least one component.
func readEmbedding(v *docjson.Reader) ([]float32, error) {
	vec, err := v.Vector()
	if err == nil && len(vec) == 0 {
		err = fmt.Errorf("%w: it is empty", db.ErrInvalid)
	}
	return vec, err
}

// sameDimension compares the documents of one request. Without it, the collection would take the
// dimension of the first document, and the order would decide which ones it refuses.
func sameDimension(docs []db.Document) error {
	for i := range docs {
		if n, first := len(docs[i].Vector), len(docs[0].Vector); n != first {
			return rest.Errorf(http.StatusBadRequest,
				"Embedding dimension mismatch: document 0 has %d dimensions, document %d has %d", first, i, n)
		}
	}
	return nil
}

func tooMany(what string, limit int) error {
	return rest.Errorf(http.StatusBadRequest, "more than %d %s in one request", limit, what)
}

// listDocuments returns a page: {"documents": [...], "count": documents in the page, "total":
// matching documents, "next": value for after}.
func (s *Server) listDocuments(w http.ResponseWriter, r *http.Request) error {
	c, err := s.collection(r)
	if err != nil {
		return err
	}
	c, end, err := c.Snapshot()
	if err != nil {
		return err
	}
	defer end() // fails only for a closed database
	given, err := rest.Parameters(r, "where", "limit", "offset", "after", "include")
	if err != nil {
		return err
	}
	q := db.ListQuery{Limit: defaultPage, After: given["after"], Select: db.IDsOnly}
	var parts db.Select
	for name, value := range given {
		switch name {
		case "where":
			q.Where, err = readWhere([]byte(value))
		case "limit":
			q.Limit, err = count(name, value)
		case "offset":
			q.Offset, err = count(name, value)
		case "include":
			parts, err = selection(strings.Split(value, ","))
		}
		if err != nil {
			return err
		}
	}
	if q.Limit == 0 { // the default limit of db
		total, err := c.Count(r.Context(), q.Where)
		if err != nil {
			return err
		}
		return s.answerPage(w, r, c, &db.Page{Total: total}, parts)
	}
	q.Limit = min(q.Limit, maxPage)
	found, err := c.List(r.Context(), q)
	if err != nil {
		return err
	}
	return s.answerPage(w, r, c, found, parts)
}

// answerPage answers with the documents of a list of ids.
func (s *Server) answerPage(w http.ResponseWriter, r *http.Request, c *db.Collection, found *db.Page,
	parts db.Select) error {
	ids := found.IDs()
	p := &page{server: s, w: w, buf: []byte(`{"documents":[`)}
	err := each(r.Context(), c, ids, parts, func(i int, d *db.Document) (err error) {
		if d == nil { // cannot happen: both reads use one snapshot
			return fmt.Errorf("%w: document %q of a list", db.ErrCorrupt, ids[i])
		}
		if i > 0 {
			p.buf = append(p.buf, ',')
		}
		if p.buf, err = appendDocument(p.buf, d, parts); err != nil {
			return err
		}
		p.buf = append(p.buf, '}')
		return p.grow()
	})
	p.buf = fmt.Appendf(p.buf, `],"count":%d,"total":%d`, len(ids), found.Total)
	if found.Next != "" {
		p.buf = docjson.AppendString(append(p.buf, `,"next":`...), found.Next)
	}
	p.buf = append(p.buf, "}\n"...)
	return p.end(r, err)
}

// readWhere reads a filter. Text that is not JSON has a message of its own.
func readWhere(text []byte) (filter.Expr, error) {
	where, err := filter.Parse(text)
	if err != nil && len(text) <= filter.MaxText && !json.Valid(text) {
		return nil, rest.Errorf(http.StatusBadRequest, notJSON)
	}
	if err != nil {
		return nil, rest.Errorf(http.StatusBadRequest, "Invalid 'where' filter: %s", rest.Message(err))
	}
	return where, nil
}

// selection reads the requested parts of documents.
func selection(parts []string) (db.Select, error) {
	s := db.IDsOnly
	for _, part := range parts {
		switch part {
		case "text":
			s |= db.WithText
		case "metadata":
			s |= db.WithMetadata
		case "embedding", "vector":
			s |= db.WithVector
		case "id", "":
		default:
			return 0, rest.Errorf(http.StatusBadRequest,
				"Invalid 'include': %.40q is not id, text, metadata or embedding", part)
		}
	}
	if s != db.IDsOnly {
		s &^= db.IDsOnly
	}
	return s, nil
}

// appendDocument appends a document as JSON without the closing brace. It writes all requested
// parts, even empty ones. Without a vector, embedding is null.
func appendDocument(dst []byte, d *db.Document, parts db.Select) (_ []byte, err error) {
	if parts == 0 {
		parts = db.WithText | db.WithMetadata
	}
	dst = docjson.AppendString(append(dst, `{"id":`...), d.ID)
	if parts&db.WithText != 0 {
		dst = docjson.AppendString(append(dst, `,"text":`...), d.Text)
	}
	if parts&db.WithMetadata != 0 {
		if dst, err = docjson.AppendValue(append(dst, `,"metadata":`...), map[string]any(d.Metadata)); err != nil {
			return nil, err
		}
	}
	if parts&db.WithVector != 0 {
		dst = append(dst, `,"embedding":`...)
		if len(d.Vector) == 0 {
			return append(dst, "null"...), nil
		}
		return docjson.AppendVector(dst, d.Vector)
	}
	return dst, nil
}

func (s *Server) getDocument(w http.ResponseWriter, r *http.Request, c *db.Collection) error {
	given, err := rest.Parameters(r, "include")
	if err != nil {
		return err
	}
	var parts db.Select
	if include, ok := given["include"]; ok {
		if parts, err = selection(strings.Split(include, ",")); err != nil {
			return err
		}
	}
	d, err := c.Get(r.Context(), r.PathValue("id"), parts)
	if err != nil {
		return noDocument(r, err)
	}
	body, err := appendDocument(nil, d, parts)
	if err != nil {
		return err
	}
	rest.Bytes(w, http.StatusOK, append(body, "}\n"...))
	return nil
}

// noDocument returns the error for a document that does not exist, or whose id is invalid.
func noDocument(r *http.Request, err error) error {
	if errors.Is(err, db.ErrNotFound) {
		return rest.Errorf(http.StatusNotFound, "Document '%s' not found", r.PathValue("id"))
	}
	return err
}

// getDocuments returns documents by id, in the order of the ids: {"ids": [...], "include": [...]}.
func (s *Server) getDocuments(w http.ResponseWriter, r *http.Request) error {
	c, err := s.collection(r)
	if err != nil {
		return err
	}
	given, ids := false, []string(nil)
	var parts db.Select
	err = s.object(w, r, func(key string, v *docjson.Reader) (err error) {
		switch key {
		case "ids":
			given = true
			ids, err = v.Strings(maxPage)
		case "include":
			if !v.Null() {
				parts, err = readInclude(v)
			}
		default:
			err = unknown(key, "ids", "include")
		}
		return named(key, err)
	})
	if err == nil && !given {
		err = rest.Missing("ids")
	}
	if err != nil {
		return err
	}
	p := &page{server: s, w: w, buf: []byte(`{"documents":[`)}
	found, missing := 0, []string{}
	err = each(r.Context(), c, ids, parts, func(i int, d *db.Document) (err error) {
		if d == nil {
			missing = append(missing, ids[i])
			return nil
		}
		if found > 0 {
			p.buf = append(p.buf, ',')
		}
		found++
		if p.buf, err = appendDocument(p.buf, d, parts); err != nil {
			return err
		}
		p.buf = append(p.buf, '}')
		return p.grow()
	})
	p.buf = fmt.Appendf(p.buf, `],"count":%d,"missing":[`, found)
	for i, id := range missing {
		if i > 0 {
			p.buf = append(p.buf, ',')
		}
		p.buf = docjson.AppendString(p.buf, id)
	}
	p.buf = append(p.buf, "]}\n"...)
	return p.end(r, err)
}

func readInclude(v *docjson.Reader) (db.Select, error) {
	parts, err := v.Strings(8)
	if err != nil {
		return 0, err
	}
	return selection(parts)
}

// patchDocument updates parts of a document: {"text", "embedding", "set": {...}, "unset": [...]}.
func (s *Server) patchDocument(w http.ResponseWriter, r *http.Request, c *db.Collection) error {
	p := db.Patch{ID: r.PathValue("id")}
	err := s.object(w, r, func(key string, v *docjson.Reader) (err error) {
		switch key {
		case "text":
			var text string
			text, err = v.String()
			p.Text = &text
		case "embedding", "vector":
			if p.Vector != nil {
				return fmt.Errorf("%w: %q says the same as another field", db.ErrInvalid, key)
			}
			p.Vector, err = readEmbedding(v)
		case "set", "metadata":
			if p.Set != nil {
				return fmt.Errorf("%w: %q says the same as another field", db.ErrInvalid, key)
			}
			p.Set, err = v.Metadata()
		case "unset":
			p.Unset, err = v.Strings(s.limits.Documents)
		default:
			err = unknown(key, "text", "embedding", "vector", "set", "metadata", "unset")
		}
		return named(key, err)
	})
	if err == nil && s.opts.Models != nil {
		if p, err = s.opts.Models.Collection(c).FillPatch(r.Context(), p); err != nil {
			err = notEmbedded(err)
		}
	}
	if err == nil {
		err = noDocument(r, c.Patch(r.Context(), p))
	}
	if err != nil {
		return err
	}
	rest.JSON(w, http.StatusOK, map[string]bool{"success": true})
	return nil
}

func answerDeleted(w http.ResponseWriter, n int) {
	rest.JSON(w, http.StatusOK, struct {
		Success bool `json:"success"`
		Deleted int  `json:"deleted"`
	}{true, n})
}

func (s *Server) deleteDocument(w http.ResponseWriter, r *http.Request, c *db.Collection) error {
	if err := rest.NoParameters(r); err != nil {
		return err
	}
	n, err := c.Delete(r.Context(), r.PathValue("id"))
	if err == nil && n == 0 {
		err = db.ErrNotFound
	}
	if err != nil {
		return noDocument(r, err)
	}
	answerDeleted(w, n)
	return nil
}

// deleteWhere deletes the documents that match a filter: ?where={...}.
func (s *Server) deleteWhere(w http.ResponseWriter, r *http.Request, c *db.Collection) error {
	given, err := rest.Parameters(r, "where")
	if err != nil {
		return err
	}
	text, ok := given["where"]
	if !ok {
		return rest.Errorf(http.StatusBadRequest, "'where' is required; {} deletes every document")
	}
	where, err := readWhere([]byte(text))
	if err != nil {
		return err
	}
	n, err := c.DeleteWhere(r.Context(), where)
	if err != nil {
		return err
	}
	answerDeleted(w, n)
	return nil
}

// deleteDocuments deletes by id or by filter: {"ids": [...]} or {"where": {...}}.
func (s *Server) deleteDocuments(w http.ResponseWriter, r *http.Request, c *db.Collection) error {
	var ids []string
	var where filter.Expr
	listed := false // an empty list of ids is one, too
	err := s.object(w, r, func(key string, v *docjson.Reader) (err error) {
		switch key {
		case "ids":
			ids, err = v.Strings(s.limits.Documents)
			listed = true
		case "where":
			where, err = readWhereIn(v)
		default:
			err = unknown(key, "ids", "where")
		}
		return named(key, err)
	})
	var n int
	switch {
	case err != nil:
	case listed == (where != nil):
		err = rest.Errorf(http.StatusBadRequest, "either 'ids' or 'where' is required")
	case where != nil:
		n, err = c.DeleteWhere(r.Context(), where)
	default:
		n, err = c.Delete(r.Context(), ids...)
	}
	if err != nil {
		return err
	}
	answerDeleted(w, n)
	return nil
}

// readWhereIn reads a filter within a body.
func readWhereIn(v *docjson.Reader) (filter.Expr, error) {
	text, err := v.Raw()
	if err != nil {
		return nil, err
	}
	return readWhere(bytes.TrimSpace(text))
}
