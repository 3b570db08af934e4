package chroma_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/server"
	"github.com/vecbolt/vecbolt/server/chroma"
)

func Example() {
	dir, err := os.MkdirTemp("", "chroma-")
	check(err)
	defer os.RemoveAll(dir)
	vdb, err := db.Open(dir, nil)
	check(err)
	defer vdb.Close()

	srv, err := server.New(vdb, &server.Options{Extensions: []server.Extension{
		{Pattern: chroma.Pattern, Handler: chroma.New(vdb, nil), Writes: chroma.Writes, Owns: []string{chroma.Registry}},
	}})
	check(err)
	web := httptest.NewServer(srv)
	defer web.Close()
	resp, err := http.Get(web.URL + chroma.Pattern + "heartbeat")
	check(err)
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output: 200 OK
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
