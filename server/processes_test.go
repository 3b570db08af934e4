package server_test

import (
	"fmt"
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/server"
)

// An import keeps the parts that its lines do not carry, also those that another process has just
// written.
func TestImportAfterAnotherProcess(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("processes do not share a database on Windows")
	}
	dir := t.TempDir()
	member := func() *service {
		vdb, err := db.Open(dir, &db.Options{Sync: db.SyncNever})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := vdb.Close(); err != nil {
				t.Error(err)
			}
		})
		srv, err := server.New(vdb, nil)
		if err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(srv)
		t.Cleanup(web.Close)
		return &service{T: t, db: vdb, srv: srv, url: web.URL, direct: true}
	}
	leader, other := member(), member()
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
