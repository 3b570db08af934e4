package server_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/server"
)

func ExampleNew() {
	dir, err := os.MkdirTemp("", "vecbolt")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	vdb, err := db.Open(dir, nil)
	if err != nil {
		panic(err)
	}
	defer vdb.Close()

	srv, err := server.New(vdb, nil)
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/vectors/", http.StripPrefix("/vectors", srv)) // beside what else the program serves
	web := httptest.NewServer(mux)
	defer web.Close()

	post := func(path, body string) {
		resp, err := web.Client().Post(web.URL+"/vectors"+path, "application/json", strings.NewReader(body))
		if err != nil {
			panic(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		fmt.Println(resp.StatusCode, string(answer), err)
	}
	post("/collections/notes/documents", `{"documents":[]}`)
	// Output: 404 {"error":"Collection 'notes' not found"}
	//  <nil>
}
