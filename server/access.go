package server

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/server/internal/rest"
)

// admit checks the requested host and, for requests that a browser sends, the origin of the page.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) error {
	if len(s.opts.Hosts) > 0 {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if !slices.ContainsFunc(s.opts.Hosts,
			func(h string) bool { return strings.EqualFold(strings.Trim(h, "[]"), strings.Trim(host, "[]")) }) {
			return rest.Errorf(http.StatusMisdirectedRequest, "this service is not known as %q", r.Host)
		}
	}
	origin := r.Header.Get("Origin")
	every := slices.Contains(s.opts.Origins, "*")
	if len(s.opts.Origins) > 0 {
		h := w.Header()
		h.Add("Vary", "Origin")
		if origin != "" && (every || slices.Contains(s.opts.Origins, origin)) {
			h.Set("Access-Control-Allow-Origin", origin)
			h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
			h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
			h.Set("Access-Control-Max-Age", "600")
		}
	}
	if every {
		return nil
	}
	if err := s.cross.Check(r); err != nil {
		return &rest.Error{Status: http.StatusForbidden, Message: err.Error()}
	}
	return nil
}

func (o *Options) anonymous() bool { return o.ReadToken == "" && o.WriteToken == "" }

// mayRead reports whether a request has one of the tokens, if tokens are set.
func (s *Server) mayRead(r *http.Request) bool {
	return s.opts.anonymous() || s.has(r, readToken) || s.has(r, writeToken)
}

func (s *Server) mayWrite(r *http.Request) bool {
	return !s.opts.ReadOnly && (s.opts.anonymous() || s.has(r, writeToken))
}

// The tokens, by their place in Server.tokens.
const (
	readToken = iota
	writeToken
)

// has reports whether a request has the token, which must be set. It compares in constant time.
func (s *Server) has(r *http.Request, token int) bool {
	if [...]string{readToken: s.opts.ReadToken, writeToken: s.opts.WriteToken}[token] == "" {
		return false
	}
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(given)))
	return subtle.ConstantTimeCompare(sum[:], s.tokens[token][:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// refusal returns the error for a request without a sufficient token.
func (s *Server) refusal(r *http.Request) error {
	switch {
	case !s.mayRead(r):
		return rest.Errorf(http.StatusUnauthorized, "a bearer token is needed")
	case s.opts.ReadOnly:
		return rest.Errorf(http.StatusForbidden, "this service is read-only")
	}
	return rest.Errorf(http.StatusForbidden, "this token does not allow writes")
}
