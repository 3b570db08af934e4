package server

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/rest"
)

const (
	// together is how many documents are read at a time: what an answer takes of memory is bounded
	// by them, not by all that it has.
	together = 16
	// held is how many bytes of an answer are kept before they are sent. A shorter one is sent
	// whole, with its length.
	held = 256 << 10
)

// A page is an answer that is sent as it grows.
type page struct {
	server *Server
	w      http.ResponseWriter
	buf    []byte
	begun  bool
}

// grow sends what has come together, if that is enough.
func (p *page) grow() error {
	if len(p.buf) < held {
		return nil
	}
	if !p.begun {
		h := p.w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("X-Content-Type-Options", "nosniff")
		p.begun = true
	}
	_ = http.NewResponseController(p.w).SetWriteDeadline(time.Now().Add(p.server.limits.Time))
	_, err := p.w.Write(p.buf)
	p.buf = p.buf[:0]
	return err
}

// end sends the rest, or answers with err: by cutting the connection if a part has been sent, which
// must not be taken for the whole.
func (p *page) end(r *http.Request, err error) error {
	switch {
	case err != nil && !p.begun:
		return err
	case !p.begun:
		rest.Bytes(p.w, http.StatusOK, p.buf)
		return nil
	case err == nil:
		_, err = p.w.Write(p.buf)
	}
	if err != nil {
		requestOf(r).err = err
		panic(http.ErrAbortHandler)
	}
	return nil
}

// frozen returns the collection of a request as it is now, and what ends that: documents that are
// read one after the other then belong together.
func (s *Server) frozen(r *http.Request) (*db.Collection, func(), error) {
	if _, err := s.collection(r); err != nil {
		return nil, nil, err // with the message that it has
	}
	snap, err := s.db.Snapshot()
	if err != nil {
		return nil, nil, err
	}
	end := func() { _ = snap.Close() } // which fails for a closed database only
	c, err := snap.Collection(r.PathValue("name"))
	if err != nil {
		end()
		return nil, nil, err
	}
	return c, end, nil
}

// each calls fn with the document of each id, nil if there is none.
func each(ctx context.Context, c *db.Collection, ids []string, parts db.Select, fn func(i int, d *db.Document) error) error {
	i := 0
	for some := range slices.Chunk(ids, together) {
		if err := ctx.Err(); err != nil {
			return err
		}
		docs, err := c.GetMany(ctx, some, parts)
		if err != nil {
			return err
		}
		for _, d := range docs {
			if err := fn(i, d); err != nil {
				return err
			}
			i++
		}
	}
	return nil
}
