// Package vectorize gives documents vectors when they are written. A collection is pinned to one
// model. Documents with a text and no vector then get the vector of their text, and queries by text
// the vector of the question, so that callers need no embedder.
//
//	models := vectorize.New(vectorize.Options{})
//	notes := models.Collection(c) // c is a *db.Collection
//	err := notes.Pin(ctx, embed.DefaultConfig())
//	_, err = notes.Upsert(ctx, db.Document{ID: "1", Text: "Cats purr when they are content."})
//	result, err := notes.Search(ctx, db.Query{Text: "which animal purrs?"})
//
// The pin is in the metadata of the collection, under [Field]: provider, model and dimensions, but
// neither keys nor addresses, which the program supplies. Another model is refused with
// [embed.ErrMismatch], because vectors of different models cannot be compared.
package vectorize

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/text"
)

// Field is the field of the metadata of a collection that holds its pin. Services do not let
// clients change it: it decides where texts are sent.
const Field = "vecbolt:embedder"

// Options tune Models. The zero value is the default.
type Options struct {
	// Providers are the providers of models; nil means the builtin providers of package embed.
	Providers *embed.Registry
	// Default, if set, is the model that a collection without vectors is pinned to by the first
	// document with a text and no vector. Its settings hold for its provider in all
	// collections.
	Default *embed.Config
	// Embed holds what embedders need from the program: secrets, an HTTP client.
	Embed *embed.Options
	// Retry tunes how failed requests are repeated, and logs them; nil means the defaults of
	// package embed.
	Retry *embed.RetryOptions
}

// Models holds the embedders of collections. It makes each embedder once. It is safe for concurrent
// use: only callers that need the same model wait for each other, and not beyond their contexts.
type Models struct {
	opts      Options
	embedders calls[embed.Embedder]
	probes    calls[int] // the dimensions of models that do not know them
}

// New returns Models without embedders.
func New(o Options) *Models {
	if o.Providers == nil {
		o.Providers = embed.NewRegistry(embed.Builtin()...)
	}
	return &Models{opts: o, embedders: calls[embed.Embedder]{keep: true}}
}

func key(c embed.Config) string { return fmt.Sprintf("%s %t", c, c.Normalize) }

// Embedder returns the embedder of a model.
func (m *Models) Embedder(ctx context.Context, c embed.Config) (embed.Embedder, error) {
	return m.embedders.do(ctx, key(c), func() (embed.Embedder, error) { return m.open(ctx, c) })
}

// open makes the embedder of a model.
func (m *Models) open(ctx context.Context, c embed.Config) (embed.Embedder, error) {
	if d := m.opts.Default; d != nil && d.Provider == c.Provider && c.Settings == nil {
		c.Settings = d.Settings
	}
	p, err := m.opts.Providers.Lookup(c.Provider)
	if err != nil {
		return nil, err
	}
	e, err := m.opts.Providers.Open(ctx, c, m.opts.Embed)
	if err != nil {
		return nil, err
	}
	if p.Capabilities.Network {
		e = embed.Retry(e, m.opts.Retry)
	}
	return embed.Batches(e, &embed.BatchOptions{Size: c.BatchSize}), nil
}

// probe embeds a word, and returns the dimensions of its vector.
func (m *Models) probe(ctx context.Context, c embed.Config, e embed.Embedder) (int, error) {
	return m.probes.do(ctx, key(c), func() (int, error) {
		vec, err := e.Embed(ctx, "dimension")
		return len(vec), err
	})
}

// Resolve opens a model and returns its configuration with the model and the dimensions that the
// provider chooses if c has none. If the model does not know its dimensions, Resolve embeds a word.
// A program that makes a collection for the model can so fail before it makes anything.
func (m *Models) Resolve(ctx context.Context, c embed.Config) (embed.Config, error) {
	e, err := m.Embedder(ctx, c)
	if err != nil {
		return c, err
	}
	c.Model, c.Dimensions = cmp.Or(c.Model, e.Model()), cmp.Or(c.Dimensions, e.Dimensions())
	if c.Dimensions == 0 {
		if c.Dimensions, err = m.probe(ctx, c, e); err != nil {
			return c, err
		}
	}
	m.embedders.put(key(c), e)
	return c, nil
}

// Collection returns a collection whose documents get vectors. It does nothing to a collection that
// is not pinned, unless there is a default model.
func (m *Models) Collection(c *db.Collection) *Collection { return &Collection{c, m} }

// A Collection is a db.Collection that makes vectors. Upsert, Insert, Patch and Search
// add vectors for texts; its other methods make none.
type Collection struct {
	*db.Collection
	models *Models
}

// Pinned returns the model of a collection by its metadata, without settings. ok is false if the
// collection is not pinned.
func Pinned(info db.CollectionInfo) (c embed.Config, ok bool) {
	fields, ok := info.Metadata[Field].(map[string]any)
	if !ok {
		return c, false
	}
	c.Provider, _ = fields["provider"].(string)
	c.Model, _ = fields["model"].(string)
	dim, _ := fields["dimensions"].(int64)
	c.Dimensions = int(dim)
	c.Normalize, _ = fields["normalize"].(bool)
	return c, c.Provider != ""
}

// Keep returns metadata that a client chose for a collection, with the pin that the collection has.
// The error matches embed.ErrMismatch if the client chose another pin, or one for a collection
// without.
func Keep(info db.CollectionInfo, m db.Metadata) (db.Metadata, error) {
	have, pinned := info.Metadata[Field]
	if asked, ok := m[Field]; ok && !(pinned && reflect.DeepEqual(asked, have)) {
		return nil, fmt.Errorf("%w: metadata: clients do not change %q", embed.ErrMismatch, Field)
	}
	if !pinned {
		return m, nil
	}
	kept := db.Metadata{Field: have}
	maps.Copy(kept, m)
	return kept, nil
}

// Pin pins the collection to a model, or checks that it is the model of the collection. If the
// model does not know its dimensions, Pin embeds a word. The error matches embed.ErrMismatch if the
// collection is pinned to another model, or has vectors that may be of another one.
func (c *Collection) Pin(ctx context.Context, model embed.Config) error {
	_, err := c.pin(ctx, model)
	return err
}

// pin is Pin. Calls need no lock: the one that changes the metadata first decides.
func (c *Collection) pin(ctx context.Context, model embed.Config) (embed.Embedder, error) {
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	e, err := c.models.Embedder(ctx, model)
	if err != nil {
		return nil, err
	}
	asked := embed.Config{Provider: model.Provider, Model: cmp.Or(model.Model, e.Model()), Normalize: model.Normalize,
		Dimensions: cmp.Or(model.Dimensions, e.Dimensions())}
	have, pinned := Pinned(info)
	if pinned {
		asked.Dimensions = cmp.Or(asked.Dimensions, have.Dimensions)
	}
	if asked.Dimensions == 0 {
		if asked.Dimensions, err = c.models.probe(ctx, asked, e); err != nil {
			return nil, err
		}
	}
	if !pinned {
		// Another call or process may pin the collection, or write to it, since info was read.
		err = c.UpdateMetadata(ctx, func(now db.CollectionInfo) (db.Metadata, error) {
			info = now
			if have, pinned = Pinned(info); pinned {
				return info.Metadata, nil
			}
			return pinnedTo(info, asked)
		})
		if err != nil {
			return nil, err
		}
	}
	if pinned && have.Match(asked) != nil {
		return nil, fmt.Errorf("%w: collection %q is pinned to %s, not to %s: "+
			"use its model, or embed its texts again in a new collection",
			embed.ErrMismatch, info.Name, have, asked)
	}
	c.models.embedders.put(key(asked), e) // Fill opens the model with its dimensions
	return e, nil
}

// pinnedTo returns the metadata of a collection with a pin to a model, which is complete. The
// error matches embed.ErrMismatch if the collection may have vectors of another one.
func pinnedTo(info db.CollectionInfo, model embed.Config) (db.Metadata, error) {
	have := info.Schema
	from := have.Lineage
	known := from.Provider == model.Provider && from.Model == model.Model
	foreign := have.Dim != 0 && (have.Dim != model.Dimensions || info.Documents > 0 && !known)
	if foreign || from.Provider+from.Model != "" && !known {
		return nil, fmt.Errorf("%w: collection %q has vectors of %d components of provider=%s, model=%s, not of %s: "+
			"use a new collection",
			embed.ErrMismatch, info.Name, have.Dim, cmp.Or(from.Provider, "unknown"),
			cmp.Or(from.Model, "unknown"), model)
	}
	m := db.Metadata{}
	maps.Copy(m, info.Metadata)
	m[Field] = map[string]any{"provider": model.Provider, "model": model.Model, "dimensions": int64(model.Dimensions),
		"normalize": model.Normalize}
	return m, nil
}

// infoForWrite describes the collection for a write that depends on its model. If it seems to have
// none, another process may just have pinned it: the vectors of a write would be missing, or of the
// wrong length.
func (c *Collection) infoForWrite(ctx context.Context) (db.CollectionInfo, error) {
	info, err := c.Info()
	if _, pinned := Pinned(info); err != nil || pinned {
		return info, err
	}
	if err := c.DB().Barrier(ctx); err != nil {
		return info, err
	}
	return c.Info()
}

// embedder returns the embedder of the collection, or nil if it is not pinned. With pin, it is for
// a write, and a collection that is not pinned is pinned to the default model.
func (c *Collection) embedder(ctx context.Context, pin bool) (embed.Embedder, embed.Config, error) {
	info, err := c.Info()
	if pin {
		info, err = c.infoForWrite(ctx)
	}
	if err != nil {
		return nil, embed.Config{}, err
	}
	model, ok := Pinned(info)
	switch {
	case ok:
		e, err := c.models.Embedder(ctx, model)
		if err != nil {
			err = fmt.Errorf("vectorize: collection %q is pinned to %s: %w", info.Name, model, err)
		}
		return e, model, err
	case pin && c.models.opts.Default != nil:
		e, err := c.pin(ctx, *c.models.opts.Default)
		return e, *c.models.opts.Default, err
	}
	return nil, model, nil
}

// Embeds reports whether texts get vectors: the collection is pinned, or there is a default model
// to pin it to.
func (c *Collection) Embeds() (bool, error) {
	info, err := c.Info()
	_, pinned := Pinned(info)
	return pinned || c.models.opts.Default != nil, err
}

// Patch changes a document, after FillPatch.
func (c *Collection) Patch(ctx context.Context, p db.Patch) error {
	p, err := c.FillPatch(ctx, p)
	if err != nil {
		return err
	}
	return c.Collection.Patch(ctx, p)
}

// FillPatch gives a change of a text the vector of the text, if the change is not of the vector as
// well and the collection is pinned: the old vector is of the old text. A text without words takes
// the vector away.
func (c *Collection) FillPatch(ctx context.Context, p db.Patch) (db.Patch, error) {
	if p.Text == nil || p.Vector != nil { // an empty vector takes the old one away
		return p, nil
	}
	info, err := c.infoForWrite(ctx)
	if _, pinned := Pinned(info); err != nil || !pinned {
		return p, err
	}
	d := db.Document{Text: *p.Text}
	err = c.Fill(ctx, []*db.Document{&d})
	if p.Vector = d.Vector; p.Vector == nil {
		p.Vector = []float32{}
	}
	return p, err
}

// Fill gives a vector to each document that has a text and no vector. Without a model it does
// nothing. Vectors that the documents have must be as long as the vectors that the model makes: the
// error matches db.ErrDimensionMismatch, and the collection is not pinned.
func (c *Collection) Fill(ctx context.Context, docs []*db.Document) error {
	var texts []string
	var lack []*db.Document
	for _, d := range docs {
		if len(d.Vector) == 0 && strings.TrimSpace(d.Text) != "" {
			texts, lack = append(texts, d.Text), append(lack, d)
		}
	}
	if err := c.fits(ctx, docs, len(lack) > 0); err != nil || len(lack) == 0 {
		return err
	}
	e, model, err := c.embedder(ctx, true)
	if err != nil || e == nil {
		return err
	}
	vecs, err := e.EmbedBatch(ctx, texts)
	if err != nil {
		return fmt.Errorf("vectorize: %w", err)
	}
	for i, d := range lack {
		if n := len(vecs[i]); model.Dimensions != 0 && n != model.Dimensions {
			return fmt.Errorf("%w: %s returned %d components", embed.ErrMismatch, model, n)
		}
		d.Vector = vecs[i]
	}
	return nil
}

// fits compares the lengths of the vectors that documents have with the model of the collection, or
// with the default model if the collection would be pinned to it.
func (c *Collection) fits(ctx context.Context, docs []*db.Document, pin bool) error {
	at := slices.IndexFunc(docs, func(d *db.Document) bool { return len(d.Vector) > 0 })
	if at < 0 {
		return nil
	}
	info, err := c.Info()
	if err == nil && info.Schema.Dim == 0 { // later vectors must be as long as the first one
		info, err = c.infoForWrite(ctx)
	}
	if err != nil {
		return err
	}
	model, ok := Pinned(info)
	if !ok && pin && c.models.opts.Default != nil {
		if model, err = c.models.Resolve(ctx, *c.models.opts.Default); err != nil {
			return fmt.Errorf("vectorize: %w", err)
		}
	}
	for _, d := range docs[at:] {
		if n := len(d.Vector); n > 0 && model.Dimensions > 0 && n != model.Dimensions {
			return fmt.Errorf("%w: document %q has a vector of %d components, %s makes %d",
				db.ErrDimensionMismatch, d.ID, n, model, model.Dimensions)
		}
	}
	return nil
}

// Ask gives a query by text, without another target, the vector of its text, so that the collection
// is searched by vectors, and by words as well if it has a text index. It leaves other queries, and
// queries of collections that are not pinned, as they are.
//
// The vector is of the Question of the text. A text without words is db.ErrInvalid in a collection
// without a text index.
func (c *Collection) Ask(ctx context.Context, q db.Query) (db.Query, error) {
	if q.Near != nil || q.Text == "" {
		return q, nil
	}
	e, _, err := c.embedder(ctx, false)
	if err != nil || e == nil {
		return q, err
	}
	info, err := c.Info()
	if err != nil {
		return q, err
	}
	question, err := Question(info, q.Text)
	if err != nil {
		return q, err
	}
	if strings.TrimSpace(question) == "" {
		if info.Schema.Text == nil {
			return q, fmt.Errorf("%w: the query %.40q has no words", db.ErrInvalid, q.Text)
		}
		return q, nil
	}
	if info.Schema.Text == nil {
		q.Text = ""
	}
	vec, err := embed.Queries(e).Embed(ctx, question)
	if err != nil {
		return q, fmt.Errorf("vectorize: embed the question: %w", err)
	}
	q.Near = db.Vector(vec)
	return q, nil
}

// Question returns the part of a text query that is embedded for a collection: the words that it
// wants, without signs and quotation marks. Excluded words restrict the answer alone; a query that
// has no others has no question. Only a text index can require or exclude words. Without one, a +
// or - before a letter or a quotation mark gives an error that matches db.ErrInvalid; other signs,
// as in "-5 degrees", mean nothing.
func Question(info db.CollectionInfo, query string) (string, error) {
	if info.Schema.Text != nil {
		query = wanted(query)
	} else if word := signed(query); word != "" {
		return "", fmt.Errorf("%w: the query has %.40q, but collection %q has no %w: "+
			"only with one are words required (+) or excluded (-)", db.ErrInvalid, word, info.Name, db.ErrTextIndex)
	}
	return cmp.Or(text.Plain(query), query), nil
}

// clauses returns the words and phrases of a query, in any language.
func clauses(query string) []text.Clause {
	var a text.Analyzer
	return a.Parse(query).Clauses
}

// signed returns the first word or phrase that a query means to require or to exclude, or "". A
// sign before anything but a letter or a quotation mark may be part of a plain question.
func signed(query string) string {
	for _, c := range clauses(query) {
		if first, _ := utf8.DecodeRuneInString(c.Raw); c.Occur == text.Should || !c.Quoted && !unicode.IsLetter(first) {
			continue
		}
		word := c.Raw
		if c.Quoted {
			word = `"` + word + `"`
		}
		if c.Occur == text.Must {
			return "+" + word
		}
		return "-" + word
	}
	return ""
}

// wanted returns a query without the words that it excludes.
func wanted(query string) string {
	all := clauses(query)
	kept := slices.DeleteFunc(slices.Clone(all), func(c text.Clause) bool { return c.Occur == text.MustNot })
	if len(kept) == len(all) {
		return query
	}
	words := make([]string, len(kept))
	for i, c := range kept {
		words[i] = c.Raw
	}
	return strings.Join(words, " ")
}

// fill returns copies of documents, with vectors.
func (c *Collection) fill(ctx context.Context, docs []db.Document) ([]db.Document, error) {
	all := make([]db.Document, len(docs))
	pointers := make([]*db.Document, len(docs))
	for i := range docs {
		all[i] = docs[i]
		pointers[i] = &all[i]
	}
	return all, c.Fill(ctx, pointers)
}

// Upsert writes documents, replacing those with the same ids, and returns the ids.
func (c *Collection) Upsert(ctx context.Context, docs ...db.Document) ([]string, error) {
	docs, err := c.fill(ctx, docs)
	if err != nil {
		return nil, err
	}
	return c.Collection.Upsert(ctx, docs...)
}

// Insert writes new documents, all or none, and returns the ids.
func (c *Collection) Insert(ctx context.Context, docs ...db.Document) ([]string, error) {
	docs, err := c.fill(ctx, docs)
	if err != nil {
		return nil, err
	}
	return c.Collection.Insert(ctx, docs...)
}

// Search answers a query, after Ask.
func (c *Collection) Search(ctx context.Context, q db.Query) (*db.Result, error) {
	q, err := c.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	return c.Collection.Search(ctx, q)
}
