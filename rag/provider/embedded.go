package provider

import (
	"context"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/store"
)

// EmbeddedName is the name of the provider of Vecbolt databases.
const EmbeddedName = "vecbolt"

// Embedded is the provider of Vecbolt databases in local directories.
func Embedded() Provider {
	return Provider{
		Name:         EmbeddedName,
		Description:  "an embedded database in a directory",
		Capabilities: []Capability{Collections, Search, Embeddings, MetadataFiltering},
		Connection: &embed.Schema{
			Title: EmbeddedName, Type: "object", Closed: true, Required: []string{"path"},
			Properties: map[string]*embed.Schema{
				"path":      {Type: "string", Description: "directory of the database, or :memory: with create"},
				"read_only": {Type: "boolean", Description: "open without writing a byte", Default: false},
				"create":    {Type: "boolean", Description: "create the database unless it exists", Default: false},
			},
		},
		Open: func(_ context.Context, config map[string]any) (Connection, error) {
			path, _ := config["path"].(string)
			readOnly, _ := config["read_only"].(bool)
			create, _ := config["create"].(bool)
			vdb, err := db.Open(path, &db.Options{ReadOnly: readOnly, MustExist: !create || readOnly})
			if err != nil {
				return nil, err
			}
			return &embedded{vdb: vdb, close: vdb.Close}, nil
		},
	}
}

// Connect wraps an open database in a Connection. Closing the Connection leaves the database open.
func Connect(vdb *db.DB) Connection {
	return &embedded{vdb: vdb, close: func() error { return nil }}
}

type embedded struct {
	vdb   *db.DB
	close func() error
}

func (c *embedded) Store(_ context.Context, collection string) (rag.Store, error) {
	coll, err := c.vdb.Collection(collection)
	if err != nil {
		return nil, err
	}
	return coll, nil
}

// Collections lists collections of every metric; the metric is not part of a store.Schema.
func (c *embedded) Collections(context.Context) ([]store.Info, error) {
	found, err := c.vdb.Collections()
	if err != nil {
		return nil, err
	}
	infos := make([]store.Info, len(found))
	for i, info := range found {
		infos[i] = describe(info)
	}
	return infos, nil
}

func (c *embedded) Describe(_ context.Context, name string) (store.Info, error) {
	coll, err := c.vdb.Collection(name)
	if err != nil {
		return store.Info{}, err
	}
	info, err := coll.Info()
	return describe(info), err
}

func describe(info db.CollectionInfo) store.Info {
	s := info.Schema
	return store.Info{Name: info.Name, Documents: info.Documents, Schema: store.Schema{Dim: s.Dim,
		Lineage: s.Lineage, Text: s.Text, Index: s.Index, Metadata: info.Metadata}}
}

func (c *embedded) Create(ctx context.Context, name string, s store.Schema) error {
	_, err := store.Embedded(c.vdb).Create(ctx, name, s)
	return err
}

func (c *embedded) Drop(ctx context.Context, name string) error { return c.vdb.Drop(ctx, name) }

func (c *embedded) Health(context.Context) Health {
	h := Health{Status: Healthy, Timestamp: time.Now().UTC(), Details: map[string]any{}}
	fail := func(text string) { h.Status, h.Error = Unhealthy, &text }
	stats, err := c.vdb.Stats()
	if err != nil { // the database is closed
		fail(err.Error())
		return h
	}
	if stats.Failed != "" {
		fail(stats.Failed)
	}
	documents := 0
	for _, coll := range stats.Collections {
		documents += coll.Documents
	}
	h.Details = map[string]any{
		"collection_count": len(stats.Collections),
		"document_count":   documents,
		"storage_bytes":    stats.MetaBytes + stats.LogBytes + stats.VectorBytes,
	}
	return h
}

func (c *embedded) Close() error { return c.close() }
