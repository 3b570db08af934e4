package bases_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag/knowledge"
	"github.com/vecbolt/vecbolt/server"
	"github.com/vecbolt/vecbolt/server/bases"
)

func Example() {
	dir, err := os.MkdirTemp("", "bases-")
	check(err)
	defer os.RemoveAll(dir)
	vdb, err := db.Open(dir+"/notes.vdb", nil)
	check(err)
	defer vdb.Close()
	engine, err := knowledge.New(dir+"/bases", nil)
	check(err)

	service, err := server.New(vdb, &server.Options{Extensions: bases.Extensions(engine, nil)})
	check(err)
	w := httptest.NewRecorder()
	service.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/bases", nil))
	fmt.Print(w.Body)
	// Output: {"bases":[],"count":0,"write":true,"learn":false}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
