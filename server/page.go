package server

import (
	"context"
	"net/http"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/server/internal/rest"
)

const (
	// together is how many documents a search may read at once. Those of more hits are read one by
	// one, which bounds the memory of an answer of any length.
	together = 16
	// held is the number of bytes that are buffered before sending starts. A shorter answer is sent
	// as a whole, with its length.
	held = 256 << 10
)

// A page is an answer that is sent while it grows.
type page struct {
	server *Server
	w      http.ResponseWriter
	buf    []byte
	begun  bool
}

// grow sends the buffer if it is long enough.
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

// end sends the rest, or answers with err. If a part was already sent, it cuts the connection, so
// that the client does not take a part for the whole.
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

// each calls fn with the document of each id, or nil if it does not exist.
func each(ctx context.Context, c *db.Collection, ids []string, parts db.Select,
	fn func(i int, d *db.Document) error) error {
	i := 0
	for d, err := range c.GetSeq(ctx, ids, parts) {
		if err == nil {
			err = fn(i, d)
		}
		if err != nil {
			return err
		}
		i++
	}
	return nil
}
