package store

import (
	"context"
	"fmt"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/text"
)

// Embedded returns the Store of an open database. Its hits are exact or have the recall
// db.DefaultRecall; pages come in order of id; every call is atomic. Closing the Store leaves the
// database open.
func Embedded(vdb *db.DB) Store { return embedded{vdb} }

type embedded struct{ vdb *db.DB }

func (e embedded) Create(ctx context.Context, name string, s Schema) (Collection, error) {
	s, err := CheckCreate(name, s)
	if err != nil {
		return nil, err
	}
	c, err := e.vdb.CreateCollection(ctx, name, embeddedSchema(s), s.Metadata)
	if err != nil {
		return nil, err
	}
	return OfCollection(c)
}

func (e embedded) Collection(_ context.Context, name string) (Collection, error) {
	c, err := e.vdb.Collection(name)
	if err != nil {
		return nil, err
	}
	return OfCollection(c)
}

// SetDim gives a collection without a dimension one, for the package migrate.
func (e embedded) SetDim(ctx context.Context, name string, dim int) (Collection, error) {
	c, err := e.vdb.OpenCollection(ctx, name, db.Schema{Dim: dim})
	if err != nil {
		return nil, err
	}
	return OfCollection(c)
}

func (e embedded) Collections(context.Context) ([]string, error) {
	var names []string
	infos, err := e.vdb.Collections()
	if err != nil {
		return nil, err
	}
	for _, info := range infos {
		if info.Schema.Metric == db.Cosine {
			names = append(names, info.Name)
		}
	}
	return names, nil
}

func (e embedded) Describe(ctx context.Context, name string) (Info, error) {
	c, err := e.Collection(ctx, name)
	if err != nil {
		return Info{}, err
	}
	n, err := c.Count(ctx, nil)
	return Info{Name: name, Schema: c.Schema(), Documents: n}, err
}

func (e embedded) Drop(ctx context.Context, name string) error { return e.vdb.Drop(ctx, name) }

func (e embedded) Close() error { return nil }

// OfCollection returns one collection of a database or of a Snapshot as a Collection. It fails with
// db.ErrSchema if the metric is not the cosine.
func OfCollection(c *db.Collection) (Collection, error) {
	info, err := c.Info()
	if err != nil {
		return nil, err
	}
	if m := info.Schema.Metric; m != db.Cosine {
		return nil, fmt.Errorf("%w: collection %q has metric %v, not %v", db.ErrSchema, info.Name, m, db.Cosine)
	}
	return embeddedCollection{c, info.Name, schemaOf(info)}, nil
}

// An embeddedCollection keeps its name and schema, which db.Collection reads from the database.
type embeddedCollection struct {
	*db.Collection
	name   string
	schema Schema
}

func schemaOf(info db.CollectionInfo) Schema {
	s := info.Schema
	return Schema{Dim: s.Dim, Lineage: s.Lineage, Text: s.Text, Index: s.Index, Metadata: info.Metadata}
}

// embeddedSchema returns the schema of a collection of an embedded database.
func embeddedSchema(s Schema) db.Schema {
	return db.Schema{Dim: s.Dim, Lineage: s.Lineage, Text: s.Text, Index: s.Index}
}

func (c embeddedCollection) Name() string { return c.name }

func (c embeddedCollection) Schema() Schema { return c.schema }

// now returns the present name and schema: db.DB can rename a collection, and give it a dimension
// and a text index.
func (c embeddedCollection) now() (string, Schema, error) {
	info, err := c.Info()
	return info.Name, schemaOf(info), err
}

func (c embeddedCollection) Upsert(ctx context.Context, docs []db.Document) error {
	name, schema, err := c.now()
	if err != nil {
		return err
	}
	docs, err = CheckDocuments(name, schema, docs)
	if err != nil || len(docs) == 0 {
		return err
	}
	_, err = c.Collection.Upsert(ctx, docs...)
	return err
}

func (c embeddedCollection) Get(ctx context.Context, ids []string) ([]*db.Document, error) {
	return c.GetMany(ctx, ids, db.Everything)
}

func (c embeddedCollection) Delete(ctx context.Context, ids []string) (int, error) {
	return c.Collection.Delete(ctx, ids...)
}

func (c embeddedCollection) DeleteWhere(ctx context.Context, where filter.Expr) (int, error) {
	if err := CheckDelete(where); err != nil {
		return 0, err
	}
	return c.Collection.DeleteWhere(ctx, where)
}

func (c embeddedCollection) Query(ctx context.Context, vector []float32, k int, where filter.Expr) ([]db.Hit, error) {
	name, schema, err := c.now()
	if err != nil {
		return nil, err
	}
	if err := CheckQuery(name, schema, vector, k, where); err != nil {
		return nil, err
	}
	return c.search(ctx, db.Query{Near: db.Vector(vector), K: k, Where: where})
}

func (c embeddedCollection) TextQuery(ctx context.Context, question string, k int,
	where filter.Expr) ([]db.Hit, error) {
	name, schema, err := c.now()
	if err != nil {
		return nil, err
	}
	if err := CheckTextQuery(name, schema, k, where); err != nil {
		return nil, err
	}
	plain := text.Question(question)
	if plain == "" {
		return nil, nil
	}
	return c.search(ctx, db.Query{Text: plain, K: k, Where: where})
}

func (c embeddedCollection) search(ctx context.Context, q db.Query) ([]db.Hit, error) {
	r, err := c.Search(ctx, q)
	if err != nil {
		return nil, err
	}
	return r.Hits, nil
}

// Scan reads each page at its own moment: see db.Collection.List.
func (c embeddedCollection) Scan(ctx context.Context, after string, limit int, where filter.Expr) (Page, error) {
	if err := CheckScan(limit, where); err != nil {
		return Page{}, err
	}
	p, err := c.List(ctx, db.ListQuery{Where: where, Limit: limit, After: after, Select: db.Everything})
	if err != nil {
		return Page{}, err
	}
	return Page{p.Documents, p.Next}, nil
}

func (c embeddedCollection) Count(ctx context.Context, where filter.Expr) (int, error) {
	if err := CheckWhere(where); err != nil {
		return 0, err
	}
	return c.Collection.Count(ctx, where)
}
