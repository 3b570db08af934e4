package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/mcp"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/embed/static/english"
)

type mcpCmd struct {
	database
	AllowWrite bool   `help:"Let agents write and delete documents. The database is then open for writing."`
	HTTP       string `name:"http" placeholder:"ADDR" help:"Serve streamable HTTP at this loopback address, such as 127.0.0.1:8322, instead of standard input and output."`
	TokenFile  string `placeholder:"FILE" help:"With --http: the bearer token that requests must send; or in VECBOLT_TOKEN."`

	Provider   string            `placeholder:"NAME" help:"Provider of embeddings, for collections with its vectors. Providers without network and files are found automatically. See rag learn."`
	Model      string            `placeholder:"NAME" help:"With --provider: the model. The name of a stored model needs no provider."`
	Dimensions int               `placeholder:"N" help:"With --provider: components of a vector; default the dimension of the model."`
	Set        map[string]string `placeholder:"KEY=VALUE" help:"With --provider: settings, such as api_base=… or host=…."`
}

func (c *mcpCmd) Help() string {
	return "Lets agents search, read and describe the collections of a database with the Model Context Protocol. docs/mcp.md shows how " +
		"to configure clients. The database stays open as long as the server runs: read-only unless --allow-write is given."
}

// Validate is called by kong.
func (c *mcpCmd) Validate() error {
	c.Provider = cmp.Or(c.Provider, storedProvider(c.Model))
	if c.Provider == "" && (c.Model != "" || c.Dimensions != 0 || len(c.Set) > 0) {
		return errors.New("--model, --dimensions and --set need --provider, unless the model is a stored one")
	}
	if c.TokenFile != "" && c.HTTP == "" {
		return errors.New("--token-file needs --http")
	}
	if c.HTTP == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(c.HTTP)
	if err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && !ip.IsLoopback() {
		return fmt.Errorf("--http %s: not a loopback address", c.HTTP)
	}
	return nil
}

func (c *mcpCmd) Run(ctx context.Context, t *tool) error {
	secret, err := token(c.TokenFile, "VECBOLT_TOKEN")
	if err != nil {
		return err
	}
	opts := &mcp.Options{AllowWrite: c.AllowWrite, Owned: owned, Embedders: []embed.Embedder{english.New()},
		Withheld: t.withheld}
	if c.Provider != "" {
		e, err := c.embedder(ctx)
		if err != nil {
			return err
		}
		opts.Embedders = append(opts.Embedders, e)
	}
	return c.open(db.Options{ReadOnly: !c.AllowWrite, MustExist: true}, func(vdb *db.DB) error {
		server := mcp.NewServer(vdb, opts)
		if c.HTTP != "" {
			return c.serve(ctx, t, mcp.Handler(server, secret), 10*time.Second)
		}
		return t.speak(ctx, server)
	})
}

func (c *mcpCmd) embedder(ctx context.Context) (embed.Embedder, error) {
	config := embed.Config{Provider: c.Provider, Model: c.Model, Dimensions: c.Dimensions,
		Normalize: true, Settings: map[string]any{}}
	for k, v := range c.Set {
		config.Settings[k] = setting(config.Provider, k, v)
	}
	registry := providers()
	provider, err := registry.Lookup(c.Provider)
	if err != nil {
		return nil, err
	}
	e, err := registry.Open(ctx, config, nil)
	if err == nil && provider.Capabilities.Network {
		e = embed.Retry(e, nil)
	}
	if err != nil {
		return nil, err
	}
	return embed.Batches(e, nil), nil
}

// ragMCPCmd serves the bases of a workspace to agents.
type ragMCPCmd struct {
	AllowWrite bool   `help:"Let agents make and configure bases, and learn files below --learn-from."`
	LearnFrom  string `type:"existingdir" placeholder:"DIR" help:"With --allow-write: the directory whose files agents may learn."`
}

func (c *ragMCPCmd) Help() string {
	return "Serves over standard input and output. A base may be learnt while the server runs. docs/mcp.md shows how to configure clients; " +
		"vecbolt serve --bases --mcp serves over HTTP."
}

// Validate is called by kong.
func (c *ragMCPCmd) Validate() error {
	if c.LearnFrom != "" && !c.AllowWrite {
		return errors.New("--learn-from needs --allow-write")
	}
	return nil
}

func (c *ragMCPCmd) Run(ctx context.Context, t *tool, r *ragCmd) error {
	engine, err := r.engine(t)
	if err != nil {
		return err
	}
	opts := &mcp.Options{AllowWrite: c.AllowWrite, Bases: engine, Files: c.LearnFrom, Withheld: t.withheld}
	return t.speak(ctx, mcp.NewServer(nil, opts))
}

// withheld reports an error whose reason agents are not told.
func (t *tool) withheld(err error) { t.notef("%s", errtext.Plain(err.Error())) }

// speak serves over standard input and output.
func (t *tool) speak(ctx context.Context, server *sdk.Server) error {
	err := server.Run(ctx, mcp.Stdio(t.in, answers{t}))
	if ctx.Err() != nil || errors.Is(err, sdk.ErrConnectionClosed) {
		return nil // clients end it this way
	}
	return err
}

// serve serves until the tool is interrupted. Requests then have grace to end, and are cut off.
func (c *mcpCmd) serve(ctx context.Context, t *tool, h http.Handler, grace time.Duration) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.HTTP)
	if err != nil {
		return err
	}
	t.notef("serving MCP at http://%s", listener.Addr())
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		err := server.Shutdown(last)
		if errors.Is(err, context.DeadlineExceeded) {
			t.notef("requests were cut off at the end")
			err = server.Close()
		}
		stopped <- err
	})
	err = server.Serve(listener)
	if stop() { // not interrupted: Serve failed
		return err
	}
	return <-stopped
}

// answers writes to standard output without buffering.
type answers struct{ *tool }

// Write implements io.Writer.
func (a answers) Write(b []byte) (int, error) {
	n, err := a.out.Write(b)
	return n, errors.Join(err, a.out.Flush())
}
