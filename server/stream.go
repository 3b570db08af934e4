package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/exchange"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/server/internal/rest"
)

const ndjson = "application/x-ndjson"

// export streams the documents of a snapshot, in the format of `vecbolt export`: ?where={...}.
func (s *Server) export(w http.ResponseWriter, r *http.Request, c *db.Collection) error {
	given, err := rest.Parameters(r, "where")
	if err != nil {
		return err
	}
	var where filter.Expr
	if text, ok := given["where"]; ok {
		if where, err = readWhere([]byte(text)); err != nil {
			return err
		}
	}
	started := false
	out := bufio.NewWriterSize(writer(func(b []byte) (int, error) {
		if !started {
			h := w.Header()
			h.Set("Content-Type", ndjson)
			h.Set("X-Content-Type-Options", "nosniff")
			started = true
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.limits.Time))
		return w.Write(b)
	}), 64<<10)
	lines := exchange.NewJSONLWriter(out, db.Everything)
	for d, err := range c.All(r.Context(), where, db.Everything) {
		moved(r.Context())
		if err == nil {
			err = lines.Write(d)
		}
		if err != nil && started {
			requestOf(r).err = err
			panic(http.ErrAbortHandler) // the client must not take a part for the whole
		}
		if err != nil {
			return err
		}
	}
	if out.Buffered() == 0 && !started { // no document: an empty answer
		w.Header().Set("Content-Type", ndjson)
		w.WriteHeader(http.StatusOK)
	}
	if err := out.Flush(); err != nil {
		requestOf(r).err = err
		panic(http.ErrAbortHandler)
	}
	return nil
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// maxSkipped is the number of skipped lines that the answer to an import lists.
const maxSkipped = 100

// A skippedLine is a line of an import that cannot be stored.
type skippedLine struct {
	Line  int64  `json:"line"`
	Error string `json:"error"`
}

// load imports documents as `vecbolt import` does. The stream may have any length; batches before a
// mistake stay.
func (s *Server) load(w http.ResponseWriter, r *http.Request, c *db.Collection) error {
	err := rest.NoParameters(r)
	if err == nil {
		err = rest.ContentType(r, ndjson, "application/jsonl", "application/ndjson")
	}
	if err != nil {
		return err
	}
	skipped := []skippedLine{}
	in := &lines{ctx: r.Context(), w: w, body: r.Body, server: s}
	o := &exchange.ImportOptions{OnSkip: func(item *exchange.ImportedDocument) {
		if len(skipped) < maxSkipped {
			skipped = append(skipped, skippedLine{item.Position.N, rest.Message(item.Skip)})
		}
	}}
	embeds := false
	if s.opts.Models != nil {
		// Another process may just have pinned the collection to a model.
		if err := s.db.Barrier(r.Context()); err != nil {
			return err
		}
		if embeds, err = s.opts.Models.Collection(c).Embeds(); err != nil {
			return err
		}
	}
	if embeds {
		o.Vectors = func(ctx context.Context, docs []*db.Document) error {
			moved(r.Context())
			if err := s.opts.Models.Collection(c).Fill(ctx, docs); err != nil {
				return notEmbedded(err)
			}
			moved(r.Context())
			return nil
		}
	}
	report, err := exchange.Import(r.Context(), c, in, o)
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.limits.Time))
	answer := struct {
		Success      bool          `json:"success"`
		Error        string        `json:"error,omitempty"`
		Added        int           `json:"added"`
		Updated      int           `json:"updated"`
		Unchanged    int           `json:"unchanged"`
		Skipped      int           `json:"skipped"`
		SkippedLines []skippedLine `json:"skipped_lines"` // the first of them
	}{err == nil, "", report.Added, report.Updated, report.Unchanged, report.Skipped, skipped}
	status := http.StatusOK
	if err != nil {
		if in.err != nil && errors.Is(err, context.Canceled) { // net/http ends the context with the body
			err = in.err
		}
		if in.err != nil && rest.Status(in.err) == http.StatusInternalServerError {
			err = rest.Errorf(http.StatusBadRequest, "request body cannot be read")
		}
		err = late(r.Context(), err)
		requestOf(r).err = err
		status, answer.Error = rest.Status(err), rest.Message(err)
		w.Header().Set("Connection", "close") // the rest of the body is not read
	}
	rest.JSON(w, status, answer)
	return nil
}

// lines reads the documents of a request body. The body must make progress, and no line may be
// longer than a normal body.
type lines struct {
	ctx    context.Context // of the request
	w      http.ResponseWriter
	body   io.Reader
	server *Server
	line   int64 // bytes since the last line end
	err    error
}

// Read implements io.Reader.
func (l *lines) Read(b []byte) (int, error) {
	_ = http.NewResponseController(l.w).SetReadDeadline(time.Now().Add(l.server.limits.Time))
	n, err := l.body.Read(b)
	moved(l.ctx)
	for _, c := range b[:n] {
		if l.line++; c == '\n' {
			l.line = 0
		}
		if l.line > l.server.limits.Body {
			return 0, rest.Errorf(http.StatusRequestEntityTooLarge, "a line is longer than %d bytes",
				l.server.limits.Body)
		}
	}
	if err != io.EOF {
		l.err = err
	}
	return n, err
}

// Documents implements exchange.Source.
func (l *lines) Documents(ctx context.Context) iter.Seq2[*exchange.ImportedDocument, error] {
	return func(yield func(*exchange.ImportedDocument, error) bool) {
		r := exchange.NewJSONLReader(l, "")
		for ctx.Err() == nil {
			item, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
		yield(nil, fmt.Errorf("import: %w", context.Cause(ctx)))
	}
}

// Total implements exchange.Source.
func (l *lines) Total() int64 { return 0 }
