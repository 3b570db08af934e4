package inspector_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/server"
	"github.com/vecbolt/vecbolt/server/inspector"
)

func Example() {
	dir, err := os.MkdirTemp("", "inspector-")
	check(err)
	defer os.RemoveAll(dir)
	vdb, err := db.Open(dir, nil)
	check(err)
	defer vdb.Close()

	srv, err := server.New(vdb, &server.Options{Extensions: []server.Extension{inspector.Extension()}})
	check(err)
	web := httptest.NewServer(srv)
	defer web.Close()
	resp, err := http.Get(web.URL + "/") // in a browser
	check(err)
	defer resp.Body.Close()
	fmt.Println(resp.Status, resp.Header.Get("Content-Type"))
	// Output: 200 OK text/html; charset=utf-8
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
