package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/internal/jsontext"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/knowledge"
	"github.com/vecbolt/vecbolt/rag/vectorize"
)

// Options tune a server. The zero value, like nil, is the default.
type Options struct {
	// AllowWrite adds the tools that write: upsert_documents and delete_documents, and with Bases
	// create_base, configure_base and learn_base.
	AllowWrite bool
	// Owned names the collections that belong to another API of the database, such as
	// chroma.Registry: agents may read them, and not change them.
	Owned []string
	// Embedders turn texts into vectors for the collections whose pin or lineage names their
	// provider and model. The model of package embed that needs neither network nor files is always
	// available.
	Embedders []embed.Embedder
	// Models, if set, opens the models that collections are pinned to.
	Models *vectorize.Models
	// Bases, if set, adds tools for the knowledge bases of an engine.
	Bases *knowledge.Engine
	// Files is the directory whose files agents may learn, with AllowWrite; empty means that they
	// may learn none.
	Files string
	// Withheld, if set, is called with errors whose reasons agents are not told: they may name
	// servers, which are for agents that may write, or paths.
	Withheld func(error)
	// Logger receives messages about the protocol; nil is silent.
	Logger *slog.Logger
}

// NewServer returns a server with tools for a database, which must stay open as long as the server
// runs, and for Options.Bases. vdb may be nil if there are bases. The server can have many sessions
// at a time.
func NewServer(vdb *db.DB, opts *Options) *sdk.Server {
	s := &service{vdb: vdb}
	if opts != nil {
		s.opts = *opts
	}
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = cmp.Or(info.Main.Version, version)
	}
	server := sdk.NewServer(&sdk.Implementation{Name: "vecbolt", Title: "Vecbolt", Version: version}, &sdk.ServerOptions{
		Instructions: s.instructions(),
		Logger:       s.opts.Logger,
		Capabilities: &sdk.ServerCapabilities{},
	})
	server.AddReceivingMiddleware(dropNulls)
	if s.vdb != nil {
		s.addCollections(server)
	}
	if s.opts.Bases != nil {
		s.addBases(server)
	}
	return server
}

// dropNulls takes the arguments that are null out of the calls of tools: some models name every
// argument, and give null to those they leave out. The schemas would refuse it. So it is with the
// fields of documents to write, but not with metadata, where null is a value. Of an argument that
// is given twice the last value counts, null too. Arguments that are no object are refused here.
func dropNulls(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		call, ok := req.(*sdk.CallToolRequest)
		var given map[string]json.RawMessage
		if !ok || jsontext.Bad(call.Params.Arguments) >= 0 {
			return next(ctx, method, req) // it refuses them
		}
		err := json.Unmarshal(call.Params.Arguments, &given)
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // the SDK would name types of Go
			refused := &sdk.CallToolResult{}
			refused.SetError(fmt.Errorf("arguments: want an object, not %s", wrong.Value))
			return refused, nil
		}
		if err != nil {
			return next(ctx, method, req)
		}
		dropped := deleteNulls(given)
		var docs []map[string]json.RawMessage
		if json.Unmarshal(given["documents"], &docs) == nil {
			inside := false
			for _, doc := range docs {
				inside = deleteNulls(doc) || inside
			}
			if inside {
				text, err := json.Marshal(docs)
				if err != nil {
					return nil, fmt.Errorf("mcp: documents: %w", err)
				}
				given["documents"], dropped = text, true
			}
		}
		if dropped {
			arguments, err := json.Marshal(given)
			if err != nil {
				return nil, fmt.Errorf("mcp: arguments: %w", err)
			}
			call.Params.Arguments = arguments
		}
		return next(ctx, method, req)
	}
}

// deleteNulls deletes the members of an object that are null, and reports whether there were any.
func deleteNulls(object map[string]json.RawMessage) bool {
	before := len(object)
	maps.DeleteFunc(object, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	return len(object) < before
}

// instructions tell a model where to begin.
func (s *service) instructions() string {
	text := ""
	if s.opts.Bases != nil {
		text = "Knowledge bases of files. Begin with list_bases, and ask with query_base. "
	}
	if s.vdb != nil {
		text += "A vector database. Begin with list_collections and describe_collection. The latter tells how a collection " +
			"can be searched and which metadata fields a condition can use. Prefer hybrid_search for questions in natural language."
	}
	return text
}

// addCollections adds the tools for collections.
func (s *service) addCollections(server *sdk.Server) {
	read := &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}
	add(server, "list_collections", "List the collections of the database, in order of name.", read, s.listCollections)
	add(server, "describe_collection", "Describe a collection: its size, how it can be searched, and the metadata fields of a sample of its documents.", read, s.describe)
	add(server, "search", "Find the documents nearest to a vector, to a stored document, or to a text. Give exactly one of id, vector and text.", read, s.search)
	add(server, "hybrid_search", "Search by the words of a text and by vector at the same time, and fuse both rankings. Without a vector the text is embedded, "+
		"which requires embeds_texts in describe_collection.", read, s.hybrid)
	add(server, "get_documents", "Read documents by id.", read, s.get)
	add(server, "list_documents", "List all documents, or the documents that match a condition, in order of id, page by page.", read, s.list)
	if s.opts.AllowWrite {
		add(server, "upsert_documents", "Write documents atomically, replacing documents with the same ids. If describe_collection reports embeds_texts, the text of a "+
			"document without a vector is embedded.", &sdk.ToolAnnotations{IdempotentHint: true, OpenWorldHint: new(bool)}, s.upsert)
		add(server, "delete_documents", "Delete documents by id. Ids that do not exist are ignored.",
			&sdk.ToolAnnotations{IdempotentHint: true, OpenWorldHint: new(bool)}, s.delete)
	}
}

// service implements the tools.
type service struct {
	vdb  *db.DB
	opts Options
}

// A bounder adds to a schema the limits that struct tags cannot express.
type bounder interface {
	bound(map[string]*jsonschema.Schema)
}

// add adds a tool with arguments In and result Out. The SDK validates the arguments against the
// schema. add decodes them again from the request, because the SDK's decoded values have passed
// through float64.
func add[In bounder, Out any](server *sdk.Server, name, description string, hints *sdk.ToolAnnotations, tool func(context.Context, In) (*Out, error)) {
	input, err := jsonschema.For[In](nil)
	if err != nil {
		panic(fmt.Errorf("mcp: schema of %s: %w", name, err)) // depends only on the types in this package
	}
	var zero In
	zero.bound(input.Properties)
	output, err := jsonschema.For[Out](nil)
	if err != nil {
		panic(fmt.Errorf("mcp: schema of the result of %s: %w", name, err))
	}
	sdk.AddTool(server, &sdk.Tool{Name: name, Description: description, Annotations: hints, InputSchema: input, OutputSchema: output},
		func(ctx context.Context, req *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, any, error) {
			var in In
			if at := jsontext.Bad(req.Params.Arguments); at >= 0 {
				return nil, nil, fmt.Errorf("arguments: invalid UTF-8 or half a surrogate pair at byte %d", at)
			}
			if len(req.Params.Arguments) > 0 {
				err := json.Unmarshal(req.Params.Arguments, &in)
				if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // its text has a type of Go
					return nil, nil, fmt.Errorf("argument %q: %s is out of range", wrong.Field, wrong.Value)
				}
				if err != nil {
					return nil, nil, fmt.Errorf("arguments: %w", err)
				}
			}
			ctx, cancel := follow(ctx, req)
			defer cancel()
			out, err := tool(ctx, in)
			if err != nil {
				return nil, nil, plain{err}
			}
			text, err := json.Marshal(out)
			if err != nil {
				return nil, nil, fmt.Errorf("result: %w", err)
			}
			return &sdk.CallToolResult{StructuredContent: json.RawMessage(text), Content: []sdk.Content{&sdk.TextContent{Text: string(text)}}}, nil, nil
		})
}

// collection returns a collection. If it does not exist, the error lists the existing ones.
func (s *service) collection(ctx context.Context, name string) (*db.Collection, error) {
	c, err := s.vdb.Collection(name)
	if errors.Is(err, db.ErrNotFound) { // another process may just have created it
		if err := s.vdb.Barrier(ctx); err != nil {
			return nil, err
		}
		c, err = s.vdb.Collection(name)
	}
	if !errors.Is(err, db.ErrNotFound) {
		return c, err
	}
	infos, err := s.vdb.Collections()
	if err != nil {
		return nil, err
	}
	const most = 20
	var names []string
	for _, info := range infos {
		names = append(names, info.Name)
	}
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	return nil, fmt.Errorf("collection %.100q: %w; existing collections: %q%s", name, db.ErrNotFound, names, more)
}

// writable reports whether agents may change a collection.
func (s *service) writable(name string) bool {
	return s.opts.AllowWrite && !slices.Contains(s.opts.Owned, name)
}

// target returns the collection to change.
func (s *service) target(ctx context.Context, name string) (*db.Collection, error) {
	if !s.writable(name) {
		return nil, fmt.Errorf("collection %.100q: %w: it belongs to another API", name, db.ErrReadOnly)
	}
	return s.collection(ctx, name)
}

// modelOf returns the model of the vectors of a collection: the model that it is pinned to, or
// otherwise the model that its lineage names.
func modelOf(info db.CollectionInfo) (model embed.Config, pinned bool) {
	if model, ok := vectorize.Pinned(info); ok {
		return model, true
	}
	from := info.Schema.Lineage
	return embed.Config{Provider: from.Provider, Model: from.Model, Dimensions: info.Schema.Dim,
		Normalize: from.Normalized}, false
}

// embedder returns the embedder that made the vectors of a collection, or nil if it is unknown or
// unavailable.
func (s *service) embedder(ctx context.Context, info db.CollectionInfo) embed.Embedder {
	model, pinned := modelOf(info)
	for _, e := range s.opts.Embedders {
		if e.Provider() == model.Provider && e.Model() == model.Model {
			return e
		}
	}
	if pinned && s.opts.Models != nil {
		if e, err := s.opts.Models.Embedder(ctx, model); err == nil {
			return e
		}
	}
	for _, p := range embed.Builtin() {
		if can := p.Capabilities; p.Name != model.Provider || can.Network || can.Files || can.Secret {
			continue
		}
		e, err := p.Open(ctx, model, nil)
		if err == nil && e.Model() == model.Model {
			return e
		}
	}
	return nil
}

// withhold reports an error whose reason agents are not told. A cancelled call is no error.
func (s *service) withhold(err error) {
	if s.opts.Withheld != nil && !errors.Is(err, context.Canceled) {
		s.opts.Withheld(err)
	}
}

// model returns what agents are told of an error of the model of a collection.
func (s *service) model(err error) error {
	if s.opts.AllowWrite || !errors.As(err, new(*embed.Error)) {
		return err
	}
	s.withhold(err)
	return errors.New("the model of the collection does not answer")
}

// plain is an error as agents read it: they know no packages and functions of Go.
type plain struct{ error }

func (e plain) Error() string { return errtext.Plain(e.error.Error()) }
func (e plain) Unwrap() error { return e.error }
