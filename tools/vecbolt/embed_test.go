package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"

	"github.com/rogpeppe/go-internal/testscript"
)

// embedder STATUS [N] starts a server of embeddings, in the place of an earlier one, whose first N
// requests, or all of them, get a status. Its address is in the variable EMBEDDER.
func embedder(ts *testscript.TestScript, _ bool, args []string) {
	status, err := strconv.Atoi(args[0])
	ts.Check(err)
	failing := int64(1 << 40)
	if len(args) > 1 {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		failing = int64(n)
	}
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Input []string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || requests.Add(1) <= failing {
			http.Error(w, `{"error":"not now"}`, status)
			return
		}
		vecs := [][]float32{}
		for _, text := range body.Input {
			vecs = append(vecs, []float32{float32(len(text)), 1, 0, 0})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"model": "tiny", "embeddings": vecs}) // the client is gone
	}))
	ts.Defer(server.Close)
	ts.Setenv("EMBEDDER", server.URL)
}
