// Package bases serves knowledge bases over HTTP, as extensions of a server: their configuration,
// questions, answers of a chat model as a stream, conversations, and learning with its progress.
// docs/http.md describes the paths.
//
// A client chooses neither servers nor files: it may set the keys of a configuration that name
// none (knowledge.Key), and learn files below one directory that the program names.
package bases

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/docjson"
	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/eval"
	"github.com/vecbolt/vecbolt/rag/knowledge"
	"github.com/vecbolt/vecbolt/server"
	"github.com/vecbolt/vecbolt/server/internal/rest"
)

// Options tune the extensions. The zero value, like nil, is the default.
type Options struct {
	// Files is the directory whose files clients may learn; empty means that they may learn none.
	Files string
	Body  int64         // bytes of a request body: 1 MiB
	Time  time.Duration // to read a body, and to send a part of a stream: 30 s
}

// Limits of one question.
const (
	maxQuestion = 64 << 10 // bytes
	maxPaths    = 1000
	maxPage     = 1000 // files, or chunks of a file
)

// Extensions returns the extensions for the bases of an engine, which should keep databases open
// between questions (knowledge.Options.KeepOpen).
func Extensions(e *knowledge.Engine, opts *Options) []server.Extension {
	s := &service{engine: e, mux: http.NewServeMux()}
	if opts != nil {
		s.opts = *opts
	}
	s.opts.Body, s.opts.Time = cmp.Or(s.opts.Body, 1<<20), cmp.Or(s.opts.Time, 30*time.Second)
	for pattern, handle := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /bases":                              s.list,
		"POST /bases":                             s.create,
		"GET /bases/{name}":                       s.get,
		"DELETE /bases/{name}":                    s.remove,
		"GET /bases/{name}/config":                s.config,
		"PATCH /bases/{name}/config":              s.configure,
		"GET /bases/{name}/files":                 s.files,
		"GET /bases/{name}/files/{file}":          s.file,
		"GET /bases/{name}/unread":                s.unread,
		"POST /bases/{name}/query":                s.query,
		"POST /bases/{name}/ask":                  s.ask,
		"POST /bases/{name}/eval":                 s.eval,
		"GET /bases/{name}/learn":                 s.progress,
		"POST /bases/{name}/learn":                s.learn,
		"GET /bases/{name}/conversations":         s.conversations,
		"DELETE /bases/{name}/conversations/{id}": s.forget,
	} {
		paged := strings.Contains(pattern, "/files") // these read their parameters themselves
		s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			var err error
			if !paged {
				err = rest.NoParameters(r)
			}
			if err == nil {
				err = handle(w, r)
			}
			if err != nil {
				s.fail(w, r, err)
			}
		})
	}
	writes := func(r *http.Request) bool {
		return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions
	}
	// Questions change nothing. They are told by their pattern: a base may have the name of a verb.
	asks := func(r *http.Request) bool { return writes(r) && r.Method != http.MethodPost }
	return []server.Extension{
		{Pattern: "/bases", Handler: s, Writes: writes, Metrics: s.metrics},
		{Pattern: "/bases/", Handler: s, Writes: writes},
		{Pattern: "/bases/{name}/query", Handler: s, Writes: asks, Stream: true}, // a chat model may be asked
		{Pattern: "/bases/{name}/ask", Handler: s, Writes: asks, Stream: true},
		{Pattern: "/bases/{name}/eval", Handler: s, Writes: asks, Stream: true},
		{Pattern: "/bases/{name}/learn", Handler: s, Writes: writes, Stream: true},
	}
}

type service struct {
	engine *knowledge.Engine
	opts   Options
	mux    *http.ServeMux
}

// ServeHTTP implements http.Handler.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h, pattern := s.mux.Handler(r); pattern == "" {
		var status rest.Discard
		h.ServeHTTP(&status, r)
		if status.Status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", status.Header().Get("Allow"))
			s.fail(w, r, rest.Errorf(http.StatusMethodNotAllowed, "method not allowed; there are %s",
				status.Header().Get("Allow")))
			return
		}
		s.fail(w, r, rest.Errorf(http.StatusNotFound, "there is nothing at %s", r.URL.Path))
		return
	}
	s.mux.ServeHTTP(w, r)
}

// fail answers with an error, unless the answer has begun.
func (s *service) fail(w http.ResponseWriter, r *http.Request, err error) {
	err = s.told(r, err)
	s.deadline(w)
	rest.JSON(w, rest.Status(err), rest.Failed(err))
}

// told is translate for an error that ends the request: the log gets its cause.
func (s *service) told(r *http.Request, err error) error {
	err = rest.Because(s.translate(r, err), err)
	rest.Report(r.Context(), err)
	return err
}

// translate gives an error of the engine its status, and a message without paths of the server.
func (s *service) translate(r *http.Request, err error) error {
	name := r.PathValue("name")
	is := func(target error) bool { return errors.Is(err, target) }
	var (
		status int
		model  *embed.Error
	)
	switch {
	case errors.As(err, new(*rest.Error)), is(context.Canceled): // the client has gone
		return err
	case is(knowledge.ErrNotFound):
		if _, missing := s.engine.Config(name); missing != nil {
			names, _ := s.engine.Bases() // without the list, if it cannot be read
			return rest.Unknown(http.StatusNotFound, fmt.Sprintf("Base '%s' not found", name), name, names)
		}
		return rest.Errorf(http.StatusNotFound, "Base '%s' was never learnt", name)
	case is(embed.ErrMismatch):
		status = http.StatusConflict
	case is(eval.ErrNotJudged):
		return rest.Errorf(http.StatusBadRequest, "%s", errtext.Plain(err.Error()))
	case is(knowledge.ErrConfig), is(db.ErrTextIndex), is(rag.ErrConfig):
		status = http.StatusBadRequest
	case is(db.ErrExists), is(db.ErrLocked):
		status = http.StatusConflict
	case errors.As(err, &model) && model.Misconfigured():
		status = http.StatusInternalServerError
	case model != nil, is(knowledge.ErrModel), is(rag.ErrRerank):
		status = http.StatusBadGateway
	default:
		return err
	}
	text, _ := s.engine.ErrorText(name, err, server.MayWrite(r))
	return rest.Errorf(status, "%s", text)
}

func (s *service) deadline(w http.ResponseWriter) {
	// Some ResponseWriters have no connection, and no deadline.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.opts.Time))
}

func (s *service) list(w http.ResponseWriter, r *http.Request) error {
	names, err := s.engine.Bases()
	if err != nil {
		return err
	}
	type line struct {
		Name     string `json:"name"`
		Provider string `json:"provider"`
		Model    string `json:"model"`
		Error    string `json:"error,omitempty"`
	}
	all := []line{}
	for _, name := range names {
		c, err := s.engine.Config(name)
		l := line{Name: name, Provider: c.Provider, Model: c.Model}
		if err != nil {
			l.Error = "config.yaml cannot be read"
		}
		all = append(all, l)
	}
	may := server.MayWrite(r)
	rest.JSON(w, http.StatusOK, struct {
		Bases []line `json:"bases"`
		Count int    `json:"count"`
		Write bool   `json:"write"` // the client may
		Learn bool   `json:"learn"` // the client may, and there is a directory of files
	}{all, len(all), may, may && s.opts.Files != ""})
	return nil
}

func (s *service) create(w http.ResponseWriter, r *http.Request) error {
	name, set := "", map[string]any{}
	err := s.object(w, r, func(key string, v *docjson.Reader) (err error) {
		switch key {
		case "name":
			name, err = v.String()
		case "config":
			err = v.Object(func(key string) error { return remote(set, key, v) })
		default:
			err = unknown(key, "name", "config")
		}
		return err
	})
	if err != nil {
		return err
	}
	c, err := s.engine.Create(name, set)
	if err != nil {
		return err
	}
	rest.JSON(w, http.StatusCreated, c)
	return nil
}

// remote reads the value of a key that clients may set.
func remote(set map[string]any, key string, v *docjson.Reader) error {
	for _, k := range knowledge.Keys() {
		if k.Name == key && !k.Remote() {
			return rest.Errorf(http.StatusForbidden, "%s: clients cannot set this key; vecbolt rag config does", key)
		}
	}
	value, err := readKey(key, v)
	set[key] = value
	return err
}

// readKey reads the value of a key, or null. The engine takes texts for numbers too, for flags, and
// 1e9 for an integer; JSON has types.
func readKey(key string, v *docjson.Reader) (any, error) {
	value, err := v.Value()
	if err != nil || value == nil {
		return nil, err
	}
	for _, k := range knowledge.Keys() {
		if k.Name == key && !fits(value, k.Schema.Type) {
			return nil, rest.Errorf(http.StatusBadRequest, "%s: %.100q: want %s", key, fmt.Sprint(value), k.Allowed())
		}
	}
	return value, nil
}

// fits reports whether a number or a boolean is one.
func fits(value any, kind string) (ok bool) {
	_, isInteger := value.(int64)
	switch kind {
	case "integer":
		return isInteger
	case "number":
		_, ok = value.(float64)
		return ok || isInteger
	case "boolean":
		_, ok = value.(bool)
		return ok
	}
	return true // the engine looks at the rest
}

func unknown(key string, fields ...string) error {
	return rest.Unknown(http.StatusBadRequest, fmt.Sprintf("unknown field %.60q", key), key, fields)
}

// object reads a body that is a JSON object.
func (s *service) object(w http.ResponseWriter, r *http.Request,
	member func(key string, v *docjson.Reader) error) error {
	body, err := rest.Body(w, r, s.opts.Body, s.opts.Time)
	if err != nil {
		return err
	}
	return docjson.ReadObject(body, member)
}

func (s *service) get(w http.ResponseWriter, r *http.Request) error {
	status, err := s.engine.Status(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	status = status.ForClients(s.opts.Files, server.MayWrite(r))
	stats, err := s.engine.Stats(status.Name)
	if err != nil {
		return err
	}
	rest.JSON(w, http.StatusOK, struct {
		*knowledge.Status
		Stats knowledge.Stats `json:"stats"`
	}{status, stats})
	return nil
}

func (s *service) remove(w http.ResponseWriter, r *http.Request) error {
	if err := s.engine.Clean(r.PathValue("name")); err != nil {
		return err
	}
	rest.JSON(w, http.StatusOK, map[string]bool{"success": true})
	return nil
}

// config shows all keys with their values in effect.
func (s *service) config(w http.ResponseWriter, r *http.Request) error {
	c, err := s.engine.Config(r.PathValue("name"))
	if err != nil {
		return err
	}
	return s.answerConfig(w, r, c)
}

func (s *service) answerConfig(w http.ResponseWriter, r *http.Request, c knowledge.Config) error {
	type key struct {
		knowledge.Key
		Remote bool `json:"remote"`
		Value  any  `json:"value"`
	}
	c = c.ForClients(server.MayWrite(r))
	all := []key{}
	for _, k := range s.engine.Keys() {
		value, err := c.Get(k.Name)
		if err != nil {
			return err
		}
		all = append(all, key{k, k.Remote(), value})
	}
	rest.JSON(w, http.StatusOK, map[string]any{"keys": all})
	return nil
}

func (s *service) configure(w http.ResponseWriter, r *http.Request) error {
	set := map[string]any{}
	if err := s.object(w, r, func(key string, v *docjson.Reader) error { return remote(set, key, v) }); err != nil {
		return err
	}
	c, err := s.engine.Configure(r.Context(), r.PathValue("name"), set)
	if err != nil {
		return err
	}
	return s.answerConfig(w, r, c)
}

// A question is the body of a question.
type question struct {
	text   string
	stream bool
	knowledge.QueryOptions
}

func (s *service) question(w http.ResponseWriter, r *http.Request) (*question, error) {
	q := &question{}
	q.Set = map[string]any{}
	askers := map[string]bool{}
	for _, k := range knowledge.Keys() {
		askers[k.Name] = k.Asker
	}
	err := s.object(w, r, func(key string, v *docjson.Reader) (err error) {
		switch key {
		case "question":
			q.text, err = v.String()
		case "where":
			var raw []byte
			if raw, err = v.Raw(); err == nil {
				if q.Where, err = filter.Parse(raw); err != nil {
					err = rest.Errorf(http.StatusBadRequest, "Invalid 'where' filter: %s", rest.Message(err))
				}
			}
		case "conversation":
			q.Conversation, err = v.String()
		case "explain":
			q.Explain, err = v.Bool()
		case "stream":
			q.stream, err = v.Bool()
		default:
			if asker, known := askers[key]; known && !asker {
				return rest.Errorf(http.StatusForbidden, "%s: a question cannot set this key", key)
			}
			q.Set[key], err = readKey(key, v)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(q.text) == "" {
		return nil, rest.Missing("question")
	}
	if len(q.text) > maxQuestion {
		return nil, rest.Errorf(http.StatusBadRequest, "question: want a text of at most %d bytes", maxQuestion)
	}
	q.stream = q.stream || strings.Contains(r.Header.Get("Accept"), eventStream)
	q.QueryOptions = q.QueryOptions.ForClients()
	return q, nil
}

func (s *service) query(w http.ResponseWriter, r *http.Request) error {
	q, err := s.question(w, r)
	if err != nil {
		return err
	}
	s.patience(w)
	response, err := s.engine.Query(r.Context(), r.PathValue("name"), q.text, q.QueryOptions)
	if err != nil {
		return err
	}
	s.deadline(w)
	rest.JSON(w, http.StatusOK, complete(response))
	return nil
}

// patience lifts the deadline of the answer while a model or a learner works. The request still
// ends when the client disconnects.
func (s *service) patience(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // see deadline
}

// complete makes empty lists of missing ones.
func complete(r *rag.Response) *rag.Response {
	if r.Chunks == nil {
		r.Chunks = []rag.Chunk{}
	}
	if r.Citations == nil {
		r.Citations = []rag.Citation{}
	}
	return r
}

func (s *service) ask(w http.ResponseWriter, r *http.Request) error {
	q, err := s.question(w, r)
	if err != nil {
		return err
	}
	s.patience(w)
	o, events := knowledge.AskOptions{QueryOptions: q.QueryOptions}, &stream{w: w, service: s}
	o.Found = func(r *rag.Response) error {
		if q.stream {
			found := map[string]any{"citations": complete(r).Citations, "chunks": r.Chunks, "query": r.Query}
			if q.Explain {
				found["stages"] = r.Stages
			}
			return events.send("sources", found)
		}
		return nil
	}
	if q.stream {
		o.Part = func(text string) error { return events.send("part", map[string]string{"text": text}) }
	}
	response, err := s.engine.Ask(r.Context(), r.PathValue("name"), q.text, o)
	if !q.stream || err != nil && !events.begun {
		if err != nil {
			return err
		}
		s.deadline(w)
		rest.JSON(w, http.StatusOK, complete(response))
		return nil
	}
	return events.end(r, "answer", response, err)
}

const eventStream = "text/event-stream"

// A stream sends server-sent events (HTML Standard, 9.2).
type stream struct {
	w       http.ResponseWriter
	service *service
	begun   bool
	failed  error // to send
}

// end sends the last event: a result, or an error.
func (e *stream) end(r *http.Request, event string, result any, err error) error {
	if e.failed != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
	if err != nil {
		event, result = "error", map[string]string{"error": rest.Message(e.service.told(r, err))}
	}
	if e.send(event, result) != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

func (e *stream) send(event string, data any) error {
	b, err := json.Marshal(data)
	if err != nil || e.failed != nil {
		return cmp.Or(e.failed, err)
	}
	if !e.begun {
		h := e.w.Header()
		h.Set("Content-Type", eventStream)
		h.Set("Cache-Control", "no-cache")
		h.Set("X-Content-Type-Options", "nosniff")
		e.begun = true
	}
	e.service.deadline(e.w)
	if _, err = fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", event, b); err == nil {
		err = http.NewResponseController(e.w).Flush()
	}
	e.service.patience(e.w)
	e.failed = err
	return err
}

func (s *service) progress(w http.ResponseWriter, r *http.Request) error {
	p, err := s.engine.Learning(r.PathValue("name"))
	if err != nil {
		return err
	}
	s.deadline(w)
	rest.JSON(w, http.StatusOK, map[string]any{"running": p != nil, "progress": p.ForClients(s.opts.Files)})
	return nil
}

func (s *service) learn(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	o := knowledge.LearnOptions{Below: s.opts.Files, Set: map[string]any{}}
	events := &stream{w: w, service: s}
	streamed := strings.Contains(r.Header.Get("Accept"), eventStream)
	err := s.object(w, r, func(key string, v *docjson.Reader) (err error) {
		switch key {
		case "paths":
			o.Paths, err = v.Strings(maxPaths)
		case "config":
			err = v.Object(func(key string) error { return remote(o.Set, key, v) })
		case "stream":
			var asked bool
			asked, err = v.Bool()
			streamed = streamed || asked
		default:
			err = unknown(key, "paths", "config", "stream")
		}
		return err
	})
	if err != nil {
		return err
	}
	if len(o.Paths) == 0 {
		return rest.Missing("paths")
	}
	if s.opts.Files == "" {
		return rest.Errorf(http.StatusForbidden, "this service learns no files for clients")
	}
	s.patience(w)
	if streamed {
		const pause = 100 * time.Millisecond // between events
		var last time.Time
		o.Progress = func(string) {
			if now := time.Now(); now.Sub(last) >= pause {
				last = now
				if p, err := s.engine.Learning(name); err == nil && p != nil {
					_ = events.send("progress", p.ForClients(s.opts.Files)) // end reports the failure
				}
			}
		}
	}
	report, err := s.engine.Learn(r.Context(), name, o)
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, knowledge.ErrNotFound) {
		err = rest.Errorf(http.StatusBadRequest, "a path does not exist")
	}
	if !streamed || err != nil && !events.begun {
		if err != nil {
			return err
		}
		s.deadline(w)
		rest.JSON(w, http.StatusOK, report)
		return nil
	}
	return events.end(r, "report", report, err)
}

func (s *service) conversations(w http.ResponseWriter, r *http.Request) error {
	all, err := s.engine.Conversations(r.PathValue("name"))
	if err != nil {
		return err
	}
	rest.JSON(w, http.StatusOK, map[string]any{"conversations": all, "count": len(all)})
	return nil
}

func (s *service) forget(w http.ResponseWriter, r *http.Request) error {
	name, id := r.PathValue("name"), r.PathValue("id")
	err := s.engine.Forget(name, id)
	if _, known := s.engine.Config(name); errors.Is(err, knowledge.ErrNotFound) && known == nil {
		return rest.Errorf(http.StatusNotFound, "Conversation '%s' not found", id)
	}
	if err != nil {
		return err
	}
	rest.JSON(w, http.StatusOK, map[string]bool{"success": true})
	return nil
}

// metrics writes the statistics of all bases, for Prometheus.
func (s *service) metrics(w io.Writer) {
	names, err := s.engine.Bases()
	if err != nil {
		return
	}
	var stats []knowledge.Stats
	names = slices.DeleteFunc(names, func(name string) bool {
		st, err := s.engine.Stats(name)
		if err == nil {
			stats = append(stats, st)
		}
		return err != nil
	})
	for _, m := range []struct {
		name, help string
		of         func(st *knowledge.Stats) any
	}{
		{"queries_total", "Answered questions.", func(st *knowledge.Stats) any { return st.Queries }},
		{"failures_total", "Questions that ended with an error.", func(st *knowledge.Stats) any { return st.Failures }},
		{"cache_hits_total", "Answers from the cache.", func(st *knowledge.Stats) any { return st.CacheHits }},
		{"embedding_hits_total", "Questions whose embedding was in memory.",
			func(st *knowledge.Stats) any { return st.EmbeddingHits }},
		{"embedded_texts_total", "Texts sent to the embedder.",
			func(st *knowledge.Stats) any { return st.EmbeddedTexts }},
		{"embedded_tokens_total", "Tokens sent to the embedder.",
			func(st *knowledge.Stats) any { return st.EmbeddedTokens }},
		{"context_tokens_total", "Tokens of contexts.", func(st *knowledge.Stats) any { return st.ContextTokens }},
		{"prompt_tokens_total", "Tokens read by chat models.",
			func(st *knowledge.Stats) any { return st.PromptTokens }},
		{"answer_tokens_total", "Tokens written by chat models.",
			func(st *knowledge.Stats) any { return st.AnswerTokens }},
		{"cost_total", "Cost by the prices in the configuration.", func(st *knowledge.Stats) any { return st.Cost }},
	} {
		fmt.Fprintf(w, "# HELP vecbolt_rag_%s %s\n# TYPE vecbolt_rag_%s counter\n", m.name, m.help, m.name)
		for i, name := range names {
			fmt.Fprintf(w, "vecbolt_rag_%s{base=%q} %v\n", m.name, name, m.of(&stats[i]))
		}
	}
	const stage = "vecbolt_rag_stage_seconds_total"
	fmt.Fprintf(w, "# HELP %s Time spent in each stage of questions.\n# TYPE %s counter\n", stage, stage)
	for i, name := range names {
		st := &stats[i]
		for _, t := range []struct {
			stage string
			took  time.Duration
		}{{"embed", st.EmbedTime}, {"retrieval", st.RetrievalTime}, {"rerank", st.RerankTime}, {"answer",
			st.AnswerTime}} {
			fmt.Fprintf(w, "%s{base=%q,stage=%q} %v\n", stage, name, t.stage, t.took.Seconds())
		}
	}
}
