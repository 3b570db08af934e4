package server

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/vecbolt/vecbolt/internal/docjson"
	"github.com/vecbolt/vecbolt/rag/provider"
	"github.com/vecbolt/vecbolt/server/internal/rest"
)

func (s *Server) listProviders(w http.ResponseWriter, r *http.Request) error {
	if err := rest.NoParameters(r); err != nil {
		return err
	}
	all := s.opts.Providers.Providers()
	rest.JSON(w, http.StatusOK, struct {
		Providers []provider.Provider `json:"providers"`
		Count     int                 `json:"count"`
		Active    string              `json:"active"` // the provider with the documents of this service
	}{all, len(all), provider.EmbeddedName})
	return nil
}

// provider returns the provider named in the path.
func (s *Server) provider(r *http.Request) (provider.Provider, error) {
	p, err := s.opts.Providers.Lookup(r.PathValue("provider"))
	if err != nil {
		var names []string
		for _, p := range s.opts.Providers.Providers() {
			names = append(names, p.Name)
		}
		name := r.PathValue("provider")
		return p, rest.Unknown(http.StatusNotFound, fmt.Sprintf("Provider '%s' not found", name), name, names)
	}
	return p, rest.NoParameters(r)
}

func (s *Server) getProvider(w http.ResponseWriter, r *http.Request) error {
	p, err := s.provider(r)
	if err != nil {
		return err
	}
	rest.JSON(w, http.StatusOK, p)
	return nil
}

func (s *Server) getCapabilities(w http.ResponseWriter, r *http.Request) error {
	p, err := s.provider(r)
	if err != nil {
		return err
	}
	rest.JSON(w, http.StatusOK, map[string][]provider.Capability{"capabilities": p.Capabilities})
	return nil
}

func (s *Server) getSchema(w http.ResponseWriter, r *http.Request) error {
	p, err := s.provider(r)
	if err != nil {
		return err
	}
	rest.JSON(w, http.StatusOK, p.Connection)
	return nil
}

// validateConfig checks a configuration without opening it: a client must not choose what the
// server opens.
func (s *Server) validateConfig(w http.ResponseWriter, r *http.Request) error {
	p, err := s.provider(r)
	if err != nil {
		return err
	}
	var config map[string]any
	err = s.object(w, r, func(key string, v *docjson.Reader) (err error) {
		if key != "config" {
			return unknown(key, "config")
		}
		config, err = v.Metadata()
		return named(key, err)
	})
	if err != nil {
		return err
	}
	var answer struct {
		Valid bool    `json:"valid"`
		Error *string `json:"error"`
	}
	err = s.opts.Providers.Validate(p.Name, config)
	if answer.Valid = err == nil; err != nil {
		text := err.Error()
		answer.Error = &text
	}
	rest.JSON(w, http.StatusOK, answer)
	return nil
}

func (s *Server) providerHealth(w http.ResponseWriter, r *http.Request) error {
	p, err := s.provider(r)
	if err == nil && p.Name != provider.EmbeddedName {
		err = rest.Errorf(http.StatusNotFound, "Provider '%s' is not connected", p.Name)
	}
	if err != nil {
		return err
	}
	return s.health(w, r)
}

// health answers 503 if the database does not work. The body describes the state in both cases.
func (s *Server) health(w http.ResponseWriter, r *http.Request) error {
	if err := rest.NoParameters(r); err != nil {
		return err
	}
	h := provider.Connect(s.db).Health(r.Context())
	status := http.StatusOK
	if h.Status != provider.Healthy {
		status = http.StatusServiceUnavailable
		requestOf(r).err = errors.New(*h.Error)
	}
	rest.JSON(w, status, h)
	return nil
}
