package server_test

import (
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/dbtest"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/vectorize"
	"github.com/vecbolt/vecbolt/server"
)

// An import keeps the parts that its lines do not carry, also those that another process has just
// written.
func TestImportAfterAnotherProcess(t *testing.T) {
	leader, other := members(t, nil)
	leader.must(201, "POST", "/collections", `{"name":"notes","dimension":1}`)
	if err := other.db.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		leader.must(200, "POST", "/collections/notes/documents",
			fmt.Sprintf(`{"documents":[{"id":"a","text":"written","embedding":[%d]}]}`, i))
		other.must(200, "POST", "/collections/notes/import", `{"id":"a","text":"imported"}`,
			"Content-Type", "application/x-ndjson")
		a := leader.ask("GET", "/collections/notes/documents/a?include=text,embedding", "")
		if want := fmt.Sprintf(`{"id":"a","text":"imported","embedding":[%d]}`+"\n", i); a.body != want {
			t.Fatalf("import %d left %s, want %s", i, a.body, want)
		}
	}
}

// members returns two services with one database. The first leads.
func members(t *testing.T, opts *server.Options) (leader, other *service) {
	member := func(vdb *db.DB) *service {
		srv, err := server.New(vdb, opts)
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(srv)
		t.Cleanup(web.Close)
		return &service{T: t, db: vdb, srv: srv, url: web.URL, direct: true}
	}
	first, second := dbtest.Share(t, db.Open, &db.Options{Sync: db.SyncNever})
	return member(first), member(second)
}

// A collection is found that another process has just created, also to write to it.
func TestCollectionOfAnotherProcess(t *testing.T) {
	leader, other := members(t, nil)
	for i := range 50 {
		name := fmt.Sprint("notes", i)
		leader.must(201, "POST", "/collections", fmt.Sprintf(`{"name":%q,"dimension":1}`, name))
		other.must(200, "POST", "/collections/"+name+"/documents", `{"documents":[{"id":"a","embedding":[1]}]}`)
	}
	other.must(404, "GET", "/collections/none", "")
}

// An import makes the vectors of a collection that another process has just pinned to a model.
func TestImportToACollectionOfAnotherProcess(t *testing.T) {
	leader, other := members(t, &server.Options{Models: vectorize.New(vectorize.Options{})})
	for i := range 50 {
		name := fmt.Sprint("notes", i)
		c, err := leader.db.CreateCollection(t.Context(), name, db.Schema{}, nil)
		if err == nil {
			err = other.db.Barrier(t.Context())
		}
		if err == nil {
			err = vectorize.New(vectorize.Options{}).Collection(c).Pin(t.Context(),
				embed.Config{Provider: "mock", Model: "trigram-v1", Dimensions: 384})
		}
		if err != nil {
			t.Fatal(err)
		}
		other.must(200, "POST", "/collections/"+name+"/import", `{"id":"a","text":"imported"}`,
			"Content-Type", "application/x-ndjson")
		if d, err := c.Get(t.Context(), "a", db.WithVector); err != nil || len(d.Vector) != 384 {
			t.Fatalf("import %d made a vector of %d components: %v", i, len(d.Vector), err)
		}
	}
}
