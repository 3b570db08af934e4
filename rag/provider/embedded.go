package provider

import (
	"context"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
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
