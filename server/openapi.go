package server

import (
	_ "embed"
	"net/http"

	"github.com/vecbolt/vecbolt/server/internal/rest"
)

// openapi is written by hand. A test compares it with the routes and with every answer in the
// tests.
//
//go:embed openapi.json
var openapi []byte

func (s *Server) showOpenAPI(w http.ResponseWriter, r *http.Request) error {
	if err := rest.NoParameters(r); err != nil {
		return err
	}
	rest.Bytes(w, http.StatusOK, openapi)
	return nil
}
