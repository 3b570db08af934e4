package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/exchange"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/docjson"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/vectorize"
)

// Limits of arguments and answers.
const (
	MaxK         = 50      // hits per search, passages per question
	MaxDocuments = 100     // documents per call that reads, lists, writes or deletes; collections per page
	MaxText      = 20_000  // bytes of one document's text in an answer
	MaxMetadata  = 16_000  // bytes of one document's metadata in an answer, as JSON
	MaxAnswer    = 200_000 // bytes of all texts and metadata in an answer

	defaultK    = 10
	defaultPage = 20
	defaultText = 2_000
)

// A condition is a filter, as JSON or as a string of JSON, because some models send a string
// whatever the schema says.
type condition struct{ filter.Expr }

// UnmarshalJSON implements json.Unmarshaler.
func (c *condition) UnmarshalJSON(b []byte) error {
	var inner string
	switch {
	case string(b) == "null":
		return nil
	case b[0] == '"':
		if err := json.Unmarshal(b, &inner); err != nil {
			return err
		}
		b = []byte(inner)
	}
	var err error
	if c.Expr, err = filter.Parse(b); err != nil {
		return fmt.Errorf("where: %w", err)
	}
	return nil
}

// A whole is an integer, with a fraction of zero or an exponent if the client writes it so: to JSON
// Schema 2.0 is an integer, to encoding/json it is not.
type whole int

// UnmarshalJSON implements json.Unmarshaler.
func (n *whole) UnmarshalJSON(b []byte) error {
	var value float64
	if err := json.Unmarshal(b, &value); err != nil {
		return err
	}
	*n = whole(value) // the schema has made sure that it is an integer within its limits
	return nil
}

// Schemas of arguments that several tools share.
func boundCollection(p map[string]*jsonschema.Schema) {
	p["collection"] = &jsonschema.Schema{Type: "string", Description: "name of the collection", MinLength: new(1)}
}

func boundWhere(p map[string]*jsonschema.Schema) {
	p["where"] = &jsonschema.Schema{Types: []string{"object", "string"}, Description: `condition on metadata, such as {"lang":"go","year":{"$gte":2020}}; operators: ` +
		"$eq $ne $gt $gte $lt $lte $in $nin $contains $prefix $exists $and $or $not, and $text for the words of the text"}
}

func boundText(p map[string]*jsonschema.Schema) {
	p["max_text"] = integer(0, MaxText, fmt.Sprintf("maximum bytes of each text; default %d", defaultText))
}

func integer(least, most int, description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "integer", Minimum: new(float64(least)), Maximum: new(float64(most)), Description: description}
}

func list(most int, items *jsonschema.Schema, description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "array", MinItems: new(1), MaxItems: &most, Items: items, Description: description}
}

func vector() *jsonschema.Schema {
	return list(db.MaxDim, &jsonschema.Schema{Type: "number"}, "vector with the dimension of the collection")
}

func ids() *jsonschema.Schema {
	return list(MaxDocuments, &jsonschema.Schema{Type: "string"}, "ids of documents")
}

// A document is the part of a stored document that an answer contains.
type document struct {
	ID       string   `json:"id"`
	Score    *float64 `json:"score,omitempty" jsonschema:"higher is better"`
	Text     string   `json:"text,omitempty"`
	Cut      int      `json:"text_bytes,omitempty" jsonschema:"length of the whole text in bytes, if text is only a part"`
	Metadata metadata `json:"metadata,omitempty"`
	Omitted  bool     `json:"metadata_omitted,omitempty" jsonschema:"the metadata does not fit into the answer"`
}

// metadata is encoded as it is stored: 1.0 stays 1.0, so an agent that writes it back changes no
// type.
type metadata map[string]any

// MarshalJSON implements json.Marshaler.
func (m metadata) MarshalJSON() ([]byte, error) { return docjson.AppendValue(nil, map[string]any(m)) }

// An allowance is the number of bytes left for an answer and for the text of each document.
type allowance struct{ left, text int }

func newAllowance(maxText *whole) *allowance {
	a := &allowance{left: MaxAnswer, text: defaultText}
	if maxText != nil {
		a.text = min(int(*maxText), MaxText)
	}
	return a
}

// document returns the part of d that fits into the answer. If the text is too long and passage is
// not empty, the passage is shown instead.
func (a *allowance) document(d *db.Document, score *float64, passage string) (document, error) {
	out := document{ID: d.ID, Score: score, Text: d.Text}
	if n := min(a.text, a.left); len(d.Text) > n {
		// A copy, because a part of the text would keep the whole in memory.
		out.Text, out.Cut = strings.Clone(cut(cmp.Or(passage, d.Text), n)), len(d.Text)
	}
	a.left -= len(out.Text)
	encoded, err := json.Marshal(metadata(d.Metadata))
	if err != nil {
		return out, fmt.Errorf("document %q: %w", d.ID, err)
	}
	switch {
	case len(d.Metadata) == 0:
	case len(encoded) > min(MaxMetadata, a.left):
		out.Omitted = true
	default:
		out.Metadata = metadata(d.Metadata)
		a.left -= len(encoded)
	}
	return out, nil
}

// cut returns at most n bytes of s, without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

type listCollectionsArgs struct {
	After string `json:"after,omitempty" jsonschema:"start after this name: next from the previous page"`
	Limit whole  `json:"limit,omitempty"`
}

func (listCollectionsArgs) bound(p map[string]*jsonschema.Schema) {
	p["limit"] = integer(1, MaxDocuments, fmt.Sprintf("collections per page; default %d", MaxDocuments))
}

type collectionList struct {
	Collections []collectionLine `json:"collections"`
	Next        string           `json:"next,omitempty" jsonschema:"pass as after to get the next page; missing on the last page"`
}

type collectionLine struct {
	Name      string `json:"name"`
	Documents int    `json:"documents"`
	Dim       int    `json:"dim" jsonschema:"components of a vector; 0 before the first vector"`
}

func (s *service) listCollections(_ context.Context, in listCollectionsArgs) (*collectionList, error) {
	all, err := s.vdb.Collections()
	if err != nil {
		return nil, err
	}
	at, found := slices.BinarySearchFunc(all, in.After, func(c db.CollectionInfo, name string) int { return strings.Compare(c.Name, name) })
	if found {
		at++
	}
	out := &collectionList{Collections: []collectionLine{}}
	for _, c := range all[at:] {
		if len(out.Collections) == cmp.Or(int(in.Limit), MaxDocuments) {
			out.Next = out.Collections[len(out.Collections)-1].Name
			break
		}
		out.Collections = append(out.Collections, collectionLine{c.Name, c.Documents, c.Schema.Dim})
	}
	return out, nil
}

type describeArgs struct {
	Collection string `json:"collection"`
}

func (describeArgs) bound(p map[string]*jsonschema.Schema) { boundCollection(p) }

type description struct {
	Name      string   `json:"name"`
	Documents int      `json:"documents"`
	Dim       int      `json:"dim" jsonschema:"components of a vector; 0 before the first vector"`
	Metric    string   `json:"metric" jsonschema:"cosine, dot, or l2 (the negated squared distance)"`
	Provider  string   `json:"embedding_provider,omitempty"`
	Model     string   `json:"embedding_model,omitempty"`
	Words     bool     `json:"searches_words" jsonschema:"there is a full-text index: search and hybrid_search can search by words"`
	Language  string   `json:"language,omitempty" jsonschema:"language of the full-text index"`
	Embeds    bool     `json:"embeds_texts" jsonschema:"this server can embed texts: vectors are optional"`
	Writable  bool     `json:"writable"`
	Metadata  metadata `json:"metadata,omitempty" jsonschema:"metadata of the collection itself"`
	Fields    []field  `json:"fields" jsonschema:"metadata fields found in a sample of documents, for use in conditions"`
	Sampled   int      `json:"sampled" jsonschema:"documents in the sample"`
}

type field struct {
	Path     string   `json:"path"`
	Types    []string `json:"types"`
	Count    int      `json:"count" jsonschema:"documents of the sample with this field"`
	Examples []string `json:"examples,omitempty" jsonschema:"values, as JSON"`
}

// Limits of the sample that describe reads, and of its answer.
const (
	sampleDocuments = 200
	sampleBytes     = 4 << 20
	sampleFields    = 100
	sampleValues    = 4
	sampleLength    = 60
)

func (s *service) describe(ctx context.Context, in describeArgs) (*description, error) {
	c, err := s.collection(ctx, in.Collection)
	if err != nil {
		return nil, err
	}
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	model, _ := modelOf(info)
	out := &description{Name: info.Name, Documents: info.Documents, Dim: info.Schema.Dim, Metric: info.Schema.Metric.String(),
		Provider: model.Provider, Model: model.Model, Words: info.Schema.Text != nil,
		Embeds: s.embedder(ctx, info) != nil, Writable: s.writable(info.Name), Fields: []field{}}
	if info.Schema.Text != nil {
		out.Language = cmp.Or(info.Schema.Text.Language, "english")
	}
	own := metadata(info.Metadata)
	if encoded, err := json.Marshal(own); err == nil && len(encoded) <= MaxMetadata {
		out.Metadata = own
	}
	fields, bytes := map[string]*field{}, 0
	for d, err := range c.All(ctx, nil, db.WithMetadata) {
		if err != nil {
			return nil, err
		}
		out.Sampled++
		filter.Flatten(d.Metadata, func(path string, v any) bool {
			bytes += len(path)
			f := fields[path]
			if f == nil {
				if len(fields) == sampleFields {
					return true
				}
				f = &field{Path: path}
				fields[path] = f
			}
			f.see(v)
			return bytes < sampleBytes
		})
		if out.Sampled == sampleDocuments || bytes >= sampleBytes {
			break
		}
	}
	for _, path := range slices.Sorted(maps.Keys(fields)) {
		out.Fields = append(out.Fields, *fields[path])
	}
	return out, nil
}

// see records a value of the field.
func (f *field) see(v any) {
	f.Count++
	kind, shown := "null", true
	switch v := v.(type) {
	case string:
		kind, shown = "string", len(v) <= sampleLength
	case bool:
		kind = "boolean"
	case int64, float64:
		kind = "number"
	case []any:
		kind, shown = "list", false
	case map[string]any:
		kind, shown = "map", false
	}
	if !slices.Contains(f.Types, kind) {
		f.Types = append(f.Types, kind)
	}
	if !shown || len(f.Examples) == sampleValues {
		return
	}
	if example, err := docjson.AppendValue(nil, v); err == nil && !slices.Contains(f.Examples, string(example)) {
		f.Examples = append(f.Examples, string(example))
	}
}

type searchArgs struct {
	Collection string    `json:"collection"`
	ID         string    `json:"id,omitempty" jsonschema:"find the documents nearest to this document, which is left out of the hits"`
	Vector     []float32 `json:"vector,omitempty"`
	Text       string    `json:"text,omitempty" jsonschema:"words, \"phrases\", prefix*, +required, -excluded; without a full-text index the text is embedded instead, and + and - are refused"`
	Where      condition `json:"where,omitzero"`
	K          whole     `json:"k,omitempty"`
	MaxText    *whole    `json:"max_text,omitempty"`
}

func (searchArgs) bound(p map[string]*jsonschema.Schema) {
	boundCollection(p)
	boundWhere(p)
	boundText(p)
	p["vector"] = vector()
	p["k"] = integer(1, MaxK, fmt.Sprintf("maximum number of hits; default %d", defaultK))
}

type hits struct {
	Hits    []document `json:"hits" jsonschema:"best first"`
	Ranking string     `json:"ranking" jsonschema:"what the scores rank by: vector, words or both"`
	Exact   bool       `json:"exact" jsonschema:"the hits are the true best documents of the collection"`
	Recall  float64    `json:"recall" jsonschema:"expected share of the true best documents among the hits; 1 if exact"`
	Usual   float64    `json:"usual_recall,omitempty" jsonschema:"the same for queries like the stored vectors; absent if exact"`
	Poor    float64    `json:"poor,omitempty" jsonschema:"share of queries that find less than half of the true best documents; absent if exact"`
	Matched int        `json:"matched" jsonschema:"documents that match the condition and can be ranked"`
	Plan    string     `json:"plan"`
}

func (s *service) search(ctx context.Context, in searchArgs) (*hits, error) {
	c, err := s.collection(ctx, in.Collection)
	if err != nil {
		return nil, err
	}
	q := db.Query{Where: in.Where.Expr, K: cmp.Or(int(in.K), defaultK)}
	given := 0
	for _, is := range []bool{in.ID != "", in.Vector != nil, in.Text != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return nil, errors.New("give exactly one of id, vector and text")
	}
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	ranking := "vector"
	switch {
	case in.ID != "":
		q.Near = db.Examples{Like: []string{in.ID}}
	case in.Vector != nil:
		q.Near = db.Vector(in.Vector)
	case in.Text != "" && info.Schema.Text != nil:
		q.Text, ranking = in.Text, "words"
	default:
		vec, err := s.embed(ctx, info, in.Text)
		switch {
		case errors.Is(err, db.ErrInvalid):
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("the collection has no full-text index, and %w", err)
		}
		q.Near = db.Vector(vec)
	}
	return s.answer(ctx, c, q, ranking, in.MaxText)
}

// embed returns the vector of a text query, made by the embedder of a collection. A query that only
// excludes words has none.
func (s *service) embed(ctx context.Context, info db.CollectionInfo, text string) ([]float32, error) {
	question, err := vectorize.Question(info, text)
	if err == nil && question == "" {
		return nil, nil
	}
	e := s.embedder(ctx, info)
	switch {
	case e == nil:
		return nil, unavailable(info)
	case err != nil:
		return nil, err
	}
	vec, err := embed.Queries(e).Embed(ctx, question)
	if err != nil {
		return nil, s.model(err)
	}
	return vec, nil
}

// unavailable is the error for a text of a collection whose model this server does not have.
func unavailable(info db.CollectionInfo) error {
	model, _ := modelOf(info)
	if model.Provider == "" && model.Model == "" {
		return errors.New("texts cannot be embedded: the collection does not name the model of its vectors; give a vector")
	}
	return fmt.Errorf("texts cannot be embedded: the vectors come from provider %q, model %q, which is not available here; give a vector",
		model.Provider, model.Model)
}

// answer runs a query and returns its hits. It reads their documents one by one, because each may
// have a text of 16 MiB.
func (s *service) answer(ctx context.Context, c *db.Collection, q db.Query, ranking string, maxText *whole) (*hits, error) {
	a := newAllowance(maxText)
	if q.Text != "" {
		q.Snippet = a.text
	}
	c, end, err := c.Snapshot()
	if err != nil {
		return nil, err
	}
	defer end() // fails only for a closed database
	q.Select = db.IDsOnly
	r, err := c.Search(ctx, q)
	if err != nil {
		return nil, err
	}
	out := &hits{Hits: []document{}, Ranking: ranking, Exact: r.Exact, Recall: r.Recall, Matched: r.Matched, Plan: r.Plan}
	if !r.Exact {
		out.Usual, out.Poor = r.UsualRecall, r.Poor
	}
	for d, err := range c.GetSeq(ctx, r.IDs(), 0) { // of a snapshot: all are there
		if err != nil {
			return nil, err
		}
		h, passage := &r.Hits[len(out.Hits)], ""
		if h.Snippet != nil {
			passage = h.Snippet.Text
		}
		part, err := a.document(d, &h.Score, passage)
		if err != nil {
			return nil, err
		}
		out.Hits = append(out.Hits, part)
	}
	return out, nil
}

type hybridArgs struct {
	Collection string    `json:"collection"`
	Text       string    `json:"text" jsonschema:"words, \"phrases\", prefix*, +required, -excluded"`
	Vector     []float32 `json:"vector,omitempty"`
	Where      condition `json:"where,omitzero"`
	K          whole     `json:"k,omitempty"`
	MaxText    *whole    `json:"max_text,omitempty"`
}

func (hybridArgs) bound(p map[string]*jsonschema.Schema) {
	searchArgs{}.bound(p)
	p["vector"].Description = "query vector; without one the text is embedded"
	p["text"].MinLength = new(1)
}

func (s *service) hybrid(ctx context.Context, in hybridArgs) (*hits, error) {
	c, err := s.collection(ctx, in.Collection)
	if err != nil {
		return nil, err
	}
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	if info.Schema.Text == nil {
		return nil, errors.New("the collection has no full-text index: use search")
	}
	vec := in.Vector
	if vec == nil {
		if vec, err = s.embed(ctx, info, in.Text); err != nil {
			return nil, err
		}
	}
	q := db.Query{Text: in.Text, Where: in.Where.Expr, K: cmp.Or(int(in.K), defaultK)}
	ranking := "words"
	if vec != nil {
		q.Near, ranking = db.Vector(vec), "both"
	}
	return s.answer(ctx, c, q, ranking, in.MaxText)
}

type getArgs struct {
	Collection string   `json:"collection"`
	IDs        []string `json:"ids"`
	MaxText    *whole   `json:"max_text,omitempty"`
}

func (getArgs) bound(p map[string]*jsonschema.Schema) {
	boundCollection(p)
	boundText(p)
	p["ids"] = ids()
}

type documents struct {
	Documents []document `json:"documents"`
	Missing   []string   `json:"missing,omitempty" jsonschema:"ids that do not exist"`
}

func (s *service) get(ctx context.Context, in getArgs) (*documents, error) {
	c, err := s.collection(ctx, in.Collection)
	if err != nil {
		return nil, err
	}
	out := &documents{}
	out.Documents, out.Missing, err = newAllowance(in.MaxText).read(ctx, c, in.IDs)
	return out, err
}

// read returns the parts of documents that fit into the answer, and the ids without a document.
func (a *allowance) read(ctx context.Context, c *db.Collection, ids []string) (docs []document, missing []string, err error) {
	docs = []document{}
	i := -1
	for d, err := range c.GetSeq(ctx, ids, 0) {
		if err != nil {
			return nil, nil, err
		}
		if i++; d == nil {
			missing = append(missing, ids[i])
			continue
		}
		part, err := a.document(d, nil, "")
		if err != nil {
			return nil, nil, err
		}
		docs = append(docs, part)
	}
	return docs, missing, nil
}

type listArgs struct {
	Collection string    `json:"collection"`
	Where      condition `json:"where,omitzero"`
	After      string    `json:"after,omitempty" jsonschema:"start after this id: next from the previous page"`
	Limit      whole     `json:"limit,omitempty"`
	MaxText    *whole    `json:"max_text,omitempty"`
}

func (listArgs) bound(p map[string]*jsonschema.Schema) {
	boundCollection(p)
	boundWhere(p)
	boundText(p)
	p["limit"] = integer(1, MaxDocuments, fmt.Sprintf("documents per page; default %d", defaultPage))
}

type page struct {
	Documents []document `json:"documents"`
	Total     int        `json:"total" jsonschema:"number of matching documents on all pages"`
	Next      string     `json:"next,omitempty" jsonschema:"pass as after to get the next page; missing on the last page"`
}

func (s *service) list(ctx context.Context, in listArgs) (*page, error) {
	c, err := s.collection(ctx, in.Collection)
	if err != nil {
		return nil, err
	}
	c, end, err := c.Snapshot()
	if err != nil {
		return nil, err
	}
	defer end() // fails only for a closed database
	p, err := c.List(ctx, db.ListQuery{Where: in.Where.Expr, After: in.After, Limit: cmp.Or(int(in.Limit), defaultPage), Select: db.IDsOnly})
	if err != nil {
		return nil, err
	}
	out := &page{Total: p.Total, Next: p.Next}
	out.Documents, _, err = newAllowance(in.MaxText).read(ctx, c, p.IDs())
	return out, err
}

type upsertArgs struct {
	Collection string            `json:"collection"`
	Documents  []json.RawMessage `json:"documents"`
}

func (upsertArgs) bound(p map[string]*jsonschema.Schema) {
	boundCollection(p)
	p["documents"] = list(MaxDocuments, &jsonschema.Schema{
		Type: "object",
		Properties: map[string]*jsonschema.Schema{
			"id":       {Type: "string", Description: "created if missing"},
			"text":     {Type: "string"},
			"metadata": {Type: "object", Description: "strings, numbers, booleans, null, lists of these, and nested objects"},
			"vector":   vector(),
		},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}, "documents to write")
}

type written struct {
	IDs      []string `json:"ids" jsonschema:"ids of the documents, in order"`
	Embedded int      `json:"embedded" jsonschema:"documents whose text was embedded"`
}

func (s *service) upsert(ctx context.Context, in upsertArgs) (*written, error) {
	c, err := s.target(ctx, in.Collection)
	if err != nil {
		return nil, err
	}
	docs := make([]db.Document, len(in.Documents))
	var texts []string
	var bare []int // documents with a text and no vector
	for i, raw := range in.Documents {
		if docs[i], _, err = exchange.ParseDocument(raw); err != nil {
			return nil, fmt.Errorf("document %d: %w", i, err)
		}
		if docs[i].Vector == nil && strings.TrimSpace(docs[i].Text) != "" {
			bare, texts = append(bare, i), append(texts, docs[i].Text)
		}
	}
	info, err := c.Info()
	if _, pinned := modelOf(info); err == nil && !pinned && len(bare) > 0 {
		// Another process may just have pinned the collection to a model.
		if err = s.vdb.Barrier(ctx); err == nil {
			info, err = c.Info()
		}
	}
	if err != nil {
		return nil, err
	}
	out := &written{}
	e := s.embedder(ctx, info)
	if _, pinned := modelOf(info); pinned && e == nil && len(bare) > 0 {
		return nil, unavailable(info)
	}
	if e != nil && len(bare) > 0 {
		vecs, err := e.EmbedBatch(ctx, texts)
		if err != nil {
			return nil, err
		}
		for j, i := range bare {
			docs[i].Vector = vecs[j]
		}
		out.Embedded = len(bare)
	}
	out.IDs, err = c.Upsert(ctx, docs...)
	return out, err
}

type deleteArgs struct {
	Collection string   `json:"collection"`
	IDs        []string `json:"ids"`
}

func (deleteArgs) bound(p map[string]*jsonschema.Schema) {
	boundCollection(p)
	p["ids"] = ids()
}

type deleted struct {
	Deleted int `json:"deleted" jsonschema:"documents that existed and were deleted"`
}

func (s *service) delete(ctx context.Context, in deleteArgs) (*deleted, error) {
	c, err := s.target(ctx, in.Collection)
	if err != nil {
		return nil, err
	}
	n, err := c.Delete(ctx, in.IDs...)
	return &deleted{n}, err
}
