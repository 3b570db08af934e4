package server

import (
	"bufio"
	"bytes"
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
	"github.com/vecbolt/vecbolt/internal/docjson"
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
		parts := fillParts{1, s.opts.Models.Collection(c).Fill, s.limits.Time}
		o.Vectors = parts.fill
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
		if status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.Header().Set("Connection", "close") // the rest of the body is not read
	}
	rest.JSON(w, status, answer)
	return nil
}

// fillParts makes the vectors of an import. The time limit is of one part: it must not end a slow
// model that works.
type fillParts struct {
	size  int // documents of the next part
	embed func(context.Context, []*db.Document) error
	limit time.Duration
}

// fill gives vectors to documents. Parts grow as long as they take a small share of the time limit,
// because models are fastest with many texts at once, and remote ones take a time for each call.
// The vectors that documents have are in the first part, so that their dimensions are compared with
// the model's before it makes any.
func (f *fillParts) fill(ctx context.Context, docs []*db.Document) error {
	var part, lack []*db.Document
	for _, d := range docs {
		if len(d.Vector) > 0 {
			part = append(part, d)
		} else {
			lack = append(lack, d)
		}
	}
	moved(ctx)
	for len(part)+len(lack) > 0 {
		n, start := min(f.size, len(lack)), time.Now()
		if err := f.embed(ctx, append(part, lack[:n]...)); err != nil {
			return notEmbedded(err)
		}
		moved(ctx)
		switch took := time.Since(start); {
		case took > f.limit/2:
			f.size = max(1, n/2)
		case took < f.limit/4 && n == f.size: // a part of twice the size takes at most half of the limit
			f.size *= 2
		}
		part, lack = nil, lack[n:]
	}
	return nil
}

// lines reads the documents of a request body. The body must make progress, and no line may be
// longer than a normal body. The longest line, decoded, and the documents that wait to be written
// count as memory of the request.
type lines struct {
	ctx      context.Context // of the request
	w        http.ResponseWriter
	body     io.Reader
	server   *Server
	line     int64         // bytes since the last line end
	meter    docjson.Meter // of the line
	read     int64         // footprint of the lines before
	most     int64         // largest footprint of a line
	reserved int64
	err      error
}

// Read implements io.Reader.
func (l *lines) Read(b []byte) (int, error) {
	_ = http.NewResponseController(l.w).SetReadDeadline(time.Now().Add(l.server.limits.Time))
	n, err := l.body.Read(b)
	moved(l.ctx)
	for part := range bytes.Lines(b[:n]) {
		if err := l.count(part); err != nil {
			return 0, err
		}
	}
	if err != io.EOF {
		l.err = err
	}
	return n, err
}

// count counts a line, or a part of one, before it is decoded.
func (l *lines) count(part []byte) error {
	l.meter.Add(part)
	text := bytes.TrimSuffix(part, []byte("\n"))
	if l.line += int64(len(text)); l.line > l.server.limits.Body {
		return rest.Errorf(http.StatusRequestEntityTooLarge, "a line is longer than %d bytes", l.server.limits.Body)
	}
	footprint := l.meter.Footprint()
	l.most = max(l.most, footprint)
	if len(text) < len(part) {
		l.read += footprint
		l.line, l.meter = 0, docjson.Meter{}
	}
	// An import holds three batches: one that is read, one that waits and one that is written.
	const batches = 3 * (8 << 20)
	need := l.most + min(l.read, batches, l.server.limits.Memory/8)
	if need <= l.reserved {
		return nil
	}
	err := rest.Reserve(l.ctx, need-l.reserved)
	if err == nil {
		l.reserved = need
	}
	return err
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
