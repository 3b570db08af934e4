package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/mcp"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/embed/static/english"
	"github.com/vecbolt/vecbolt/rag/knowledge"
	"github.com/vecbolt/vecbolt/server"
	"github.com/vecbolt/vecbolt/server/bases"
	"github.com/vecbolt/vecbolt/server/chroma"
	"github.com/vecbolt/vecbolt/server/inspector"
)

type serveCmd struct {
	database
	Addr           string         `default:"127.0.0.1:8321" placeholder:"HOST:PORT" help:"Address to listen on (${default}); port 0 is any free port."`
	ReadOnly       bool           `help:"Refuse writes, and open the database read-only."`
	Follow         *time.Duration `placeholder:"TIME" help:"The database is a published folder: check for newer versions at this interval, and serve them read-only."`
	publishFlags   `embed:""`
	ReadTokenFile  string        `placeholder:"FILE" help:"Token for reading; or in VECBOLT_READ_TOKEN."`
	WriteTokenFile string        `placeholder:"FILE" help:"Token for reading and writing; or in VECBOLT_WRITE_TOKEN."`
	AllowAnonymous bool          `help:"Allow an address that other machines can reach without tokens."`
	TLSCert        string        `name:"tls-cert" placeholder:"FILE" help:"Speak HTTPS with this certificate (PEM)."`
	TLSKey         string        `name:"tls-key" placeholder:"FILE" help:"The key of the certificate (PEM)."`
	CORSOrigin     []string      `name:"cors-origin" sep:"none" placeholder:"ORIGIN" help:"Allow requests from browser pages of this origin, such as https://app.example.com; * is every origin. May be repeated."`
	Host           []string      `sep:"none" placeholder:"NAME" help:"Answer only requests for this host name, and for loopback names. May be repeated."`
	MaxBody        int64         `default:"33554432" placeholder:"BYTES" help:"Maximum size of a request body (${default})."`
	MaxRequests    int           `default:"256" placeholder:"N" help:"Maximum number of concurrent reading requests (${default})."`
	MaxWrites      int           `default:"64" placeholder:"N" help:"Maximum number of concurrent writing requests (${default})."`
	MaxMemory      int64         `default:"1073741824" placeholder:"BYTES" help:"Maximum estimated memory of all requests, including decoded bodies (${default}); one request may take half."`
	Timeout        time.Duration `default:"30s" placeholder:"TIME" help:"Time limit for a body to arrive, and for an answer (${default})."`
	MCP            string        `name:"mcp" default:"off" enum:"off,read,write" placeholder:"WHAT" help:"Serve agents at /mcp, as vecbolt mcp does: ${enum}. Writing also needs the write token."`
	embedding      `embed:""`
	Bases          string `placeholder:"DIR" help:"Serve the knowledge bases of this workspace at /bases, and to agents."`
	LearnFrom      string `type:"existingdir" placeholder:"DIR" help:"With --bases: let clients that may write learn files below this directory."`
	Log            string `default:"text" enum:"text,json,none" placeholder:"FORMAT" help:"Format of the request log on standard error: ${enum}."`
}

func (c *serveCmd) Help() string {
	return "Serves the database over HTTP until it is interrupted; requests under way then have --timeout to end. A database that " +
		"does not exist is created. The address is printed when connections are accepted. Clients send a token as " +
		"\"Authorization: Bearer TOKEN\". Without tokens, only loopback addresses are allowed. docs/http.md " +
		"describes the API, GET /openapi.json is its OpenAPI document. Clients of Chroma find their API below " +
		"/api/v2: see docs/chroma.md. In a browser, the address shows the inspector: collections, documents, searches with " +
		"their plans, a map, health; with --bases, also the bases: questions, answers, files, settings."
}

// Validate is called by kong.
func (c *serveCmd) Validate() error {
	switch {
	case (c.TLSCert == "") != (c.TLSKey == ""):
		return errors.New("--tls-cert and --tls-key go together")
	case len(c.Set) > 0 && c.Embed == "":
		return errors.New("--set: --embed names no model")
	case c.LearnFrom != "" && c.Bases == "":
		return errors.New("--learn-from needs --bases")
	case c.Follow != nil && *c.Follow <= 0:
		return errors.New("--follow must be positive")
	case c.Publish != "" && (c.ReadOnly || c.Follow != nil):
		return errors.New("--publish needs a writable database")
	case c.MaxBody < 1 || c.MaxRequests < 1 || c.MaxWrites < 1 || c.MaxMemory < 1 || c.Timeout <= 0:
		return errors.New("--max-body, --max-requests, --max-writes, --max-memory and --timeout must be positive")
	}
	return c.publishFlags.valid()
}

func (c *serveCmd) Run(ctx context.Context, t *tool) error {
	opts, err := c.options(ctx, t)
	if err != nil {
		return err
	}
	var secure *tls.Config
	if c.TLSCert != "" {
		pair, err := tls.LoadX509KeyPair(c.TLSCert, c.TLSKey)
		if err != nil {
			return err
		}
		secure = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Addr)
	if err != nil {
		return err
	}
	defer l.Close()
	// What may fail comes before the database is opened, because that creates it.
	if err := opts.Validate(); err != nil {
		return err
	}
	if err := opts.CheckExposure(l); err != nil && !c.AllowAnonymous {
		return fmt.Errorf("%w: set VECBOLT_READ_TOKEN or VECBOLT_WRITE_TOKEN, or say --allow-anonymous", err)
	}
	if err := c.check(c.DB); err != nil {
		return err
	}
	var engine *knowledge.Engine
	if c.Bases != "" {
		if engine, err = c.engine(opts.Logger); err != nil {
			return err
		}
		defer engine.Close()
	}
	var follow time.Duration
	if c.Follow != nil {
		follow = *c.Follow
	}
	return c.open(db.Options{ReadOnly: opts.ReadOnly, Follow: follow, MustExist: opts.ReadOnly,
		Logger: opts.Logger}, func(vdb *db.DB) error {
		return c.during(ctx, vdb, opts.Logger, func() error { return c.serve(ctx, t, vdb, engine, l, opts, secure) })
	})
}

// owned are the collections that only the API of Chroma changes.
var owned = []string{chroma.Registry}

// serve prints the address of l, and answers there until ctx ends.
func (c *serveCmd) serve(ctx context.Context, t *tool, vdb *db.DB, engine *knowledge.Engine, l net.Listener,
	opts *server.Options, secure *tls.Config) error {
	opts.Hosts = c.hosts(l)
	opts.Extensions = []server.Extension{
		{Pattern: chroma.Pattern, Writes: chroma.Writes, Owns: owned,
			Handler: chroma.New(vdb, &chroma.Options{Body: c.MaxBody, Time: c.Timeout, Models: opts.Models})},
		inspector.Extension(),
	}
	if engine != nil {
		opts.Extensions = append(opts.Extensions, bases.Extensions(engine,
			&bases.Options{Files: c.LearnFrom, Time: c.Timeout})...)
	}
	if c.MCP != "off" {
		opts.Extensions = append(opts.Extensions, c.agents(vdb, engine, opts))
	}
	srv, err := server.New(vdb, opts)
	if err != nil {
		return err
	}
	scheme := "http"
	if secure != nil {
		scheme = "https"
	} else if !server.Loopback(l) {
		t.notef("warning: without --tls-cert, tokens and documents travel unencrypted")
	}
	address := scheme + "://" + l.Addr().String()
	err = errors.Join(t.answer(struct {
		Address string `json:"address"`
	}{address}, "listening on %s", address), t.out.Flush())
	if err != nil {
		return err
	}
	return srv.Serve(ctx, l, secure)
}

// keepOpen is the time that a service keeps the database of a base open after a question, because
// opening it takes longer than most questions.
const keepOpen = 2 * time.Second

// engine opens the workspace of the bases.
func (c *serveCmd) engine(log *slog.Logger) (*knowledge.Engine, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return openBases(c.Bases, knowledge.Options{KeepOpen: keepOpen, Logger: log})
}

// agents is the extension for agents. The permissions of a request decide which tools it offers.
func (c *serveCmd) agents(vdb *db.DB, engine *knowledge.Engine, served *server.Options) server.Extension {
	opts := mcp.Options{Bases: engine, Files: c.LearnFrom, Owned: owned, Embedders: []embed.Embedder{english.New()},
		Models: served.Models}
	if log := served.Logger; log != nil {
		opts.Withheld = func(err error) { log.Error("tool of an agent failed", "error", err) }
	}
	read := mcp.NewServer(vdb, &opts)
	write := read
	if c.MCP == "write" {
		opts.AllowWrite = true
		write = mcp.NewServer(vdb, &opts)
	}
	return server.Extension{
		Pattern: "/mcp", Writes: func(*http.Request) bool { return false }, Mixed: true,
		Handler: mcp.HandlerFunc(func(r *http.Request) *sdk.Server {
			if server.MayWrite(r) {
				return write
			}
			return read
		}),
	}
}

func (c *serveCmd) options(ctx context.Context, t *tool) (_ *server.Options, err error) {
	o := &server.Options{
		ReadOnly: c.ReadOnly || c.Follow != nil, Origins: c.CORSOrigin,
		Limits: server.Limits{Body: c.MaxBody, Requests: c.MaxRequests, Writes: c.MaxWrites,
			Memory: c.MaxMemory, Time: c.Timeout},
	}
	model, err := c.config()
	if err != nil {
		return nil, err
	}
	o.Models = t.models(model)
	if model != nil {
		if _, err := o.Models.Embedder(ctx, *model); err != nil {
			return nil, err
		}
	}
	switch c.Log {
	case "text":
		o.Logger = slog.New(slog.NewTextHandler(t.report, nil))
	case "json":
		o.Logger = slog.New(slog.NewJSONHandler(t.report, nil))
	}
	if o.ReadToken, err = token(c.ReadTokenFile, "VECBOLT_READ_TOKEN"); err != nil {
		return nil, err
	}
	o.WriteToken, err = token(c.WriteTokenFile, "VECBOLT_WRITE_TOKEN")
	return o, err
}

// token returns the content of a file or of an environment variable, without surrounding white
// space. A named file must contain a token: an empty file must not disable access control.
func token(file, variable string) (string, error) {
	if file == "" {
		return strings.TrimSpace(os.Getenv(variable)), nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if s := strings.TrimSpace(string(b)); s != "" {
		return s, nil
	}
	return "", fmt.Errorf("%s contains no token", file)
}

// hosts are the host names that requests may use. On a loopback address they are the loopback
// names, so that a foreign page whose own name points there gets nothing (DNS rebinding).
func (c *serveCmd) hosts(l net.Listener) []string {
	if !server.Loopback(l) && len(c.Host) == 0 {
		return nil
	}
	hosts := append([]string{"localhost", "127.0.0.1", "::1"}, c.Host...)
	if host, _, err := net.SplitHostPort(c.Addr); err == nil && host != "" {
		hosts = append(hosts, host)
	}
	return hosts
}
