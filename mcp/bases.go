package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/knowledge"
)

// addBases adds the tools for the knowledge bases of an engine.
func (s *service) addBases(server *sdk.Server) {
	read := &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}
	add(server, "list_bases", "List the knowledge bases: files that were read, split and embedded for questions.", read, s.listBases)
	add(server, "describe_base", "Describe a knowledge base: its size, its configuration, how far a run of learn_base is, and statistics.", read, s.describeBase)
	add(server, "query_base", "Find the passages of a knowledge base that answer a question in natural language, each with its source.", read, s.queryBase)
	if !s.opts.AllowWrite {
		return
	}
	write := &sdk.ToolAnnotations{IdempotentHint: true, OpenWorldHint: new(bool)}
	add(server, "create_base", "Make a knowledge base without files; learn_base reads files into it.", write, s.createBase)
	add(server, "configure_base", "Set keys of the configuration of a knowledge base. describe_base lists the keys.", write, s.configureBase)
	if s.opts.Files != "" {
		add(server, "learn_base", "Bring a knowledge base up to date with files and directories: new and changed files are read, missing ones are removed. "+
			"A base that does not exist is made.", write, s.learnBase)
	}
}

// base returns what agents are told of an error of a base. For a base that does not exist, that is
// the names of all bases.
func (s *service) base(name string, err error) error {
	if !errors.Is(err, knowledge.ErrNotFound) {
		text, whole := s.opts.Bases.ErrorText(name, err, s.opts.AllowWrite)
		if !whole {
			s.withhold(err)
		}
		return errors.New(text)
	}
	names, listed := s.opts.Bases.Bases()
	if listed != nil {
		return s.base(name, listed)
	}
	if slices.Contains(names, name) {
		return fmt.Errorf("%w: base %q was never learnt", knowledge.ErrNotFound, name)
	}
	return fmt.Errorf("%w: base %.100q; existing bases: %q", knowledge.ErrNotFound, name, names[:min(len(names), MaxDocuments)])
}

func boundBase(p map[string]*jsonschema.Schema) {
	p["base"] = &jsonschema.Schema{Type: "string", Description: "name of the knowledge base", MinLength: new(1)}
}

// boundKeys describes the keys that a client may set.
func boundKeys(p map[string]*jsonschema.Schema, name string, may func(knowledge.Key) bool) {
	keys := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}, AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
		Description: "keys of the configuration with their values"}
	for _, k := range knowledge.Keys() {
		if !may(k) {
			continue
		}
		value := &jsonschema.Schema{Type: k.Schema.Type, Description: k.Schema.Description + "; " + k.Allowed(), Minimum: k.Schema.Minimum, Maximum: k.Schema.Maximum}
		for _, v := range k.Schema.Enum {
			value.Enum = append(value.Enum, v)
		}
		keys.Properties[k.Name] = value
	}
	p[name] = keys
}

type listBasesArgs struct{}

func (listBasesArgs) bound(map[string]*jsonschema.Schema) {}

type baseList struct {
	Bases []baseLine `json:"bases"`
	More  int        `json:"more,omitempty" jsonschema:"bases that are not listed"`
}

type baseLine struct {
	Name     string `json:"name"`
	Provider string `json:"embedding_provider,omitempty"`
	Model    string `json:"embedding_model,omitempty"`
	Language string `json:"language,omitempty"`
	Error    string `json:"error,omitempty" jsonschema:"why the configuration cannot be read"`
}

func (s *service) listBases(context.Context, listBasesArgs) (*baseList, error) {
	names, err := s.opts.Bases.Bases()
	if err != nil {
		return nil, s.base("", err)
	}
	out := &baseList{Bases: []baseLine{}}
	for _, name := range names {
		if len(out.Bases) == MaxDocuments {
			out.More = len(names) - len(out.Bases)
			break
		}
		out.Bases = append(out.Bases, s.baseLine(name))
	}
	return out, nil
}

func (s *service) baseLine(name string) baseLine {
	c, err := s.opts.Bases.Config(name)
	var language any
	if err == nil {
		language, err = c.Get("language")
	}
	if err != nil {
		return baseLine{Name: name, Error: s.base(name, err).Error()}
	}
	return baseLine{Name: name, Provider: c.Provider, Model: c.Model, Language: fmt.Sprint(language)}
}

type baseArgs struct {
	Base string `json:"base"`
}

func (baseArgs) bound(p map[string]*jsonschema.Schema) { boundBase(p) }

type baseDescription struct {
	Name     string              `json:"name"`
	Files    int                 `json:"files"`
	Chunks   int                 `json:"chunks"`
	Learnt   string              `json:"learnt,omitempty" jsonschema:"when files were last learnt"`
	Error    string              `json:"error,omitempty" jsonschema:"why the base cannot be queried"`
	Learning *knowledge.Progress `json:"learning,omitempty" jsonschema:"the running learn"`
	Keys     map[string]any      `json:"keys" jsonschema:"the configuration that questions may change for themselves, and configure_base for all"`
	Stats    knowledge.Stats     `json:"stats" jsonschema:"since the server started"`
}

func (s *service) describeBase(ctx context.Context, in baseArgs) (*baseDescription, error) {
	status, err := s.opts.Bases.Status(ctx, in.Base)
	if err != nil {
		return nil, s.base(in.Base, err)
	}
	stats, err := s.opts.Bases.Stats(in.Base)
	if err != nil {
		return nil, s.base(in.Base, err)
	}
	status = status.ForClients(s.opts.Files, s.opts.AllowWrite)
	out := &baseDescription{Name: status.Name, Files: status.Files, Chunks: status.Chunks, Learning: status.Learning, Keys: map[string]any{}, Stats: stats}
	if !status.Learnt.IsZero() {
		out.Learnt = status.Learnt.Format("2006-01-02T15:04:05Z07:00")
	}
	out.Error = cmp.Or(status.Locked, status.Mismatch)
	for _, k := range knowledge.Keys() {
		if k.Remote() {
			if out.Keys[k.Name], err = status.Config.Get(k.Name); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

type queryBaseArgs struct {
	Base         string         `json:"base"`
	Question     string         `json:"question"`
	Where        condition      `json:"where,omitzero"`
	K            whole          `json:"k,omitempty"`
	Conversation string         `json:"conversation,omitempty" jsonschema:"name of a conversation: questions of the same conversation may refer to earlier ones"`
	Set          map[string]any `json:"set,omitempty"`
	MaxText      *whole         `json:"max_text,omitempty"`
}

func asker(k knowledge.Key) bool { return k.Asker && k.Name != "top_k" }

func (queryBaseArgs) bound(p map[string]*jsonschema.Schema) {
	boundBase(p)
	boundWhere(p)
	boundText(p)
	boundKeys(p, "set", asker)
	p["question"].MinLength = new(1)
	p["k"] = integer(1, MaxK, "maximum number of passages; default: as configured")
}

type passages struct {
	Passages []passage `json:"passages" jsonschema:"best first"`
	More     int       `json:"more,omitempty" jsonschema:"passages that are not shown"`
	Strategy string    `json:"strategy"`
	Query    string    `json:"query,omitempty" jsonschema:"what was searched for, if it is not the question"`
	Cached   bool      `json:"from_cache"`
}

type passage struct {
	document
	Source string `json:"source" jsonschema:"file with line or page"`
}

func (s *service) queryBase(ctx context.Context, in queryBaseArgs) (*passages, error) {
	o := knowledge.QueryOptions{Where: in.Where.Expr, K: int(in.K), Conversation: in.Conversation, Set: in.Set}
	r, err := s.opts.Bases.Query(ctx, in.Base, in.Question, o.ForClients())
	if err != nil {
		return nil, s.base(in.Base, err)
	}
	a, out := newAllowance(in.MaxText), &passages{Passages: []passage{}, Strategy: r.Strategy, Query: r.Query, Cached: r.FromCache}
	shown := min(len(r.Chunks), MaxK)
	out.More = len(r.Chunks) - shown
	for _, c := range r.Chunks[:shown] {
		d, err := a.document(&db.Document{ID: c.ID, Text: c.Text, Metadata: c.Metadata}, &c.Score, "")
		if err != nil {
			return nil, err
		}
		out.Passages = append(out.Passages, passage{d, rag.SourceOf(c)})
	}
	return out, nil
}

type configureArgs struct {
	Base string         `json:"base"`
	Set  map[string]any `json:"set,omitempty"`
}

func (configureArgs) bound(p map[string]*jsonschema.Schema) {
	boundBase(p)
	boundKeys(p, "set", knowledge.Key.Remote)
}

type changedKeys struct {
	Base    string            `json:"base"`
	Changes map[string]string `json:"changes" jsonschema:"when each key takes effect"`
}

// changes says when keys take effect.
func changes(base string, set map[string]any) *changedKeys {
	out := &changedKeys{Base: base, Changes: map[string]string{}}
	for _, k := range knowledge.Keys() {
		if slices.Contains(slices.Collect(maps.Keys(set)), k.Name) {
			out.Changes[k.Name] = k.Changes
		}
	}
	return out
}

func (s *service) createBase(_ context.Context, in configureArgs) (*changedKeys, error) {
	if _, err := s.opts.Bases.Create(in.Base, in.Set); err != nil {
		return nil, s.base(in.Base, err)
	}
	return changes(in.Base, in.Set), nil
}

func (s *service) configureBase(ctx context.Context, in configureArgs) (*changedKeys, error) {
	if _, err := s.opts.Bases.Configure(ctx, in.Base, in.Set); err != nil {
		return nil, s.base(in.Base, err)
	}
	return changes(in.Base, in.Set), nil
}

type learnArgs struct {
	Base  string         `json:"base"`
	Paths []string       `json:"paths"`
	Set   map[string]any `json:"set,omitempty"`
}

func (learnArgs) bound(p map[string]*jsonschema.Schema) {
	boundBase(p)
	boundKeys(p, "set", knowledge.Key.Remote)
	p["paths"] = list(MaxDocuments, &jsonschema.Schema{Type: "string"}, "files and directories, relative to the directory of files; . is all of it")
}

func (s *service) learnBase(ctx context.Context, in learnArgs) (*knowledge.Report, error) {
	report, err := s.opts.Bases.Learn(ctx, in.Base, knowledge.LearnOptions{Paths: in.Paths, Below: s.opts.Files, Set: in.Set})
	switch {
	case err == nil:
		return report, nil
	case errors.Is(err, fs.ErrNotExist) && !errors.Is(err, knowledge.ErrNotFound):
		return nil, errors.New("a path does not exist")
	}
	return nil, s.base(in.Base, err)
}
