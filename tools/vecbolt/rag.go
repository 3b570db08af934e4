package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/chat"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/embed/bert"
	"github.com/vecbolt/vecbolt/rag/eval"
	"github.com/vecbolt/vecbolt/rag/knowledge"
	"github.com/vecbolt/vecbolt/rag/load"
	"github.com/vecbolt/vecbolt/rag/rerank"

	"github.com/vecbolt/vecbolt/db"
)

// ragCmd works with knowledge bases: documents that are read, split, embedded and indexed.
type ragCmd struct {
	Workspace string `default:".vecbolt" placeholder:"DIR" env:"VECBOLT_WORKSPACE" help:"Directory of the bases (${default}); it contains the configurations BASE/config.yaml."`

	Learn   ragLearnCmd   `cmd:"" help:"Add files and directories to a base, or update them."`
	Query   ragQueryCmd   `cmd:"" help:"Find the chunks that answer a question, and build a context from them."`
	Ask     ragAskCmd     `cmd:"" help:"Answer a question from a base with a chat model; without a model, show the context."`
	Status  ragStatusCmd  `cmd:"" help:"Describe one base or all."`
	Config  ragConfigCmd  `cmd:"" help:"Show the configuration of a base."`
	Reembed ragReembedCmd `cmd:"" help:"Embed a base again with another model, compare both, and switch."`
	Clean   ragCleanCmd   `cmd:"" help:"Remove a base and its configuration."`
}

// engine opens the workspace. Warnings about files are reported like messages.
func (c *ragCmd) engine(t *tool) (*knowledge.Engine, error) {
	log := slog.New(slog.NewTextHandler(t.report, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	return knowledge.New(c.Workspace, &knowledge.Options{Logger: log})
}

type ragLearnCmd struct {
	Base string   `arg:"" help:"Name of the base, which is created if missing."`
	Path []string `required:"" sep:"none" placeholder:"PATH" help:"File or directory to learn, - for standard input; may be repeated. Deleted files are removed from the base."`

	ragEmbedder
	ChunkSize int      `placeholder:"N" help:"Maximum number of tokens of a chunk (512). Files are split again if it changes."`
	Overlap   int      `placeholder:"N" help:"Tokens that neighbouring chunks share (64); negative: none."`
	Language  string   `placeholder:"NAME" help:"Language of the texts of a new base, for its text index (english); none for no language."`
	Include   []string `placeholder:"PATTERN" help:"Read only matching files in directories; patterns as in .gitignore."`
	Exclude   []string `placeholder:"PATTERN" help:"Skip matching files."`
	Hidden    bool     `help:"Read hidden files, too."`
}

// ragEmbedder has the flags for the embedding of a base.
type ragEmbedder struct {
	Provider   string            `placeholder:"NAME" help:"Provider of embeddings of a new base: hash (needs nothing), openai, ollama, …"`
	Model      string            `placeholder:"NAME" help:"Model of a new base."`
	Dimensions int               `placeholder:"N" help:"Components of a vector; default the dimension of the model."`
	Set        map[string]string `placeholder:"KEY=VALUE" help:"Settings of the provider, such as api_base=… or host=…."`
}

// given reports whether any of the flags is set.
func (c *ragEmbedder) given() bool {
	return c.Provider != "" || c.Model != "" || c.Dimensions != 0 || len(c.Set) > 0
}

// apply copies the flags to a configuration.
func (c *ragEmbedder) apply(cfg *knowledge.Config) {
	if c.Provider != "" && c.Provider != cfg.Provider {
		cfg.Provider, cfg.Model, cfg.Embedding = c.Provider, "", knowledge.Embedding{Normalize: true}
	}
	cfg.Model = cmp.Or(c.Model, cfg.Model)
	cfg.Embedding.Dimensions = cmp.Or(c.Dimensions, cfg.Embedding.Dimensions)
	for k, v := range c.Set {
		if cfg.Embedding.ProviderConfig == nil {
			cfg.Embedding.ProviderConfig = map[string]any{}
		}
		cfg.Embedding.ProviderConfig[k] = setting(cfg.Provider, k, v)
	}
}

func (c *ragLearnCmd) Help() string {
	return "Reads Markdown, HTML, PDF, DOCX, CSV, JSON lines, code and text; skips hidden files and files that .gitignore and " +
		".vecboltignore exclude. Unchanged files cost nothing. Keys come from the environment, such as OPENAI_API_KEY."
}

// config returns the configuration that the flags describe; nil if no flag is set.
func (c *ragLearnCmd) config(e *knowledge.Engine) *knowledge.Config {
	if !c.given() && c.ChunkSize == 0 && c.Overlap == 0 && c.Language == "" {
		return nil
	}
	cfg, err := e.Config(c.Base)
	if err != nil {
		cfg = knowledge.Defaults(c.Base)
	}
	c.apply(&cfg)
	cfg.Language = c.Language
	cfg.ChunkSize, cfg.ChunkOverlap = cmp.Or(c.ChunkSize, cfg.ChunkSize), cmp.Or(c.Overlap, min(cfg.ChunkOverlap, cmp.Or(c.ChunkSize, cfg.ChunkSize)/8))
	return &cfg
}

// setting parses a value by the schema of the provider.
func setting(provider, name, value string) any {
	p, err := embed.NewRegistry(embed.Builtin()...).Lookup(provider)
	if err != nil || p.Settings == nil || p.Settings.Properties[name] == nil {
		return value
	}
	switch p.Settings.Properties[name].Type {
	case "boolean":
		if b, err := strconv.ParseBool(value); err == nil {
			return b
		}
	case "integer", "number":
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			return n
		}
	}
	return value
}

func (c *ragLearnCmd) Run(ctx context.Context, t *tool, r *ragCmd) error {
	e, err := r.engine(t)
	if err != nil {
		return err
	}
	report, err := e.Learn(ctx, c.Base, knowledge.LearnOptions{
		Paths: c.Path, Stdin: t.in, Config: c.config(e),
		Load: &load.Options{Include: c.Include, Exclude: c.Exclude, Hidden: c.Hidden},
	})
	if err != nil {
		return err
	}
	return t.answer(report, "%s: %s files, %s chunks; embedded %s, unchanged files %s, removed %s, broken %s; %.1f s", c.Base,
		humanize.Comma(int64(report.Files)), humanize.Comma(int64(report.Chunks)), humanize.Comma(int64(report.Embedded)),
		humanize.Comma(int64(report.Skipped)), humanize.Comma(int64(report.Removed)), humanize.Comma(int64(report.Broken)), report.Seconds)
}

// ragQuestion is a question with its search settings.
type ragQuestion struct {
	Base     string `arg:"" help:"Name of the base."`
	Text     string `arg:"" help:"The question."`
	K        int    `short:"k" default:"5" help:"Chunks (${default})."`
	Where    string `placeholder:"JSON" help:"Only chunks whose metadata match."`
	Strategy string `enum:"hybrid,dense,text" default:"hybrid" help:"How to search: hybrid, dense or text (${default})."`
	Siblings string `placeholder:"FIELD" help:"Add chunks that have the same value in this metadata field as a hit."`
	Rerank   string `placeholder:"HOW" help:"Rerank four times the number of chunks: lexical, mmr, or a directory with a cross-encoder (BERT, from Hugging Face)."`
}

func (q *ragQuestion) ask(ctx context.Context, t *tool, r *ragCmd) (*rag.Response, error) {
	e, err := r.engine(t)
	if err != nil {
		return nil, err
	}
	o := knowledge.QueryOptions{K: q.K}
	if q.Where != "" {
		if o.Where, err = filter.Parse([]byte(q.Where)); err != nil {
			return nil, err
		}
	}
	switch q.Strategy {
	case "dense":
		o.Strategy = rag.Dense()
	case "text":
		o.Strategy = rag.Text()
	default:
		o.Strategy = rag.Hybrid(db.Fusion{})
	}
	if q.Siblings != "" {
		o.Expand = &rag.Expansion{Field: q.Siblings}
	}
	switch q.Rerank {
	case "":
	case "lexical":
		o.Rerank = rerank.Lexical(0.5)
	case "mmr":
		o.Rerank = rerank.MMR(0.7)
	default:
		cross, err := bert.OpenCross(q.Rerank)
		if err != nil {
			return nil, err
		}
		o.Rerank = rerank.Cross(cross.Score)
	}
	return e.Query(ctx, q.Base, q.Text, o)
}

type ragQueryCmd struct{ ragQuestion }

// ragAnswer is the JSON of a query.
type ragAnswer struct {
	Chunks        []ragChunk     `json:"chunks"`
	Context       string         `json:"context"`
	ContextTokens int            `json:"context_tokens"`
	Citations     []rag.Citation `json:"citations"`
	FromCache     bool           `json:"from_cache"`
	Strategy      string         `json:"strategy"`
	Candidates    int            `json:"candidates_before_rerank"`
	RetrievalMS   float64        `json:"retrieval_ms"`
	Answer        string         `json:"answer,omitempty"`
}

type ragChunk struct {
	ID       string      `json:"id"`
	Score    float64     `json:"score"`
	Text     string      `json:"text"`
	Metadata db.Metadata `json:"metadata"`
}

func newRAGAnswer(r *rag.Response) *ragAnswer {
	a := &ragAnswer{Chunks: []ragChunk{}, Context: r.Context, ContextTokens: r.ContextTokens, Citations: r.Citations, FromCache: r.FromCache,
		Strategy: r.Strategy, Candidates: r.Candidates, RetrievalMS: float64(r.RetrievalTime) / float64(time.Millisecond)}
	if a.Citations == nil {
		a.Citations = []rag.Citation{}
	}
	for _, c := range r.Chunks {
		a.Chunks = append(a.Chunks, ragChunk{c.ID, c.Score, c.Text, c.Metadata})
	}
	return a
}

func (c *ragQueryCmd) Run(ctx context.Context, t *tool, r *ragCmd) error {
	response, err := c.ask(ctx, t, r)
	if err != nil {
		return err
	}
	if t.json {
		return t.line(newRAGAnswer(response))
	}
	if len(response.Chunks) == 0 {
		t.notef("nothing found")
	}
	_, err = fmt.Fprint(t.out, response.Context)
	return err
}

type ragAskCmd struct {
	ragQuestion
	Chat    string `placeholder:"openai|ollama" env:"VECBOLT_CHAT" help:"API of the chat model."`
	ChatURL string `placeholder:"URL" env:"VECBOLT_CHAT_URL" help:"Base URL of the API; default api.openai.com, or localhost for ollama."`
	Model   string `placeholder:"NAME" env:"VECBOLT_CHAT_MODEL" help:"The chat model. The key of openai comes from OPENAI_API_KEY."`
}

func (c *ragAskCmd) Help() string {
	return "Answers from the base only, and cites the sources by number. Without a chat model it shows the context for a model."
}

func (c *ragAskCmd) Run(ctx context.Context, t *tool, r *ragCmd) error {
	client := &chat.Client{API: chat.API(cmp.Or(c.Chat, string(chat.OpenAI))), Base: c.ChatURL, Model: c.Model}
	switch client.API {
	case chat.OpenAI:
		client.Base = cmp.Or(client.Base, "https://api.openai.com/v1")
		client.Secret = embed.Env("OPENAI_API_KEY")
	case chat.Ollama:
		client.Base = cmp.Or(client.Base, "http://localhost:11434")
	default:
		return fmt.Errorf("--chat %q: want openai or ollama", c.Chat)
	}
	response, err := c.ask(ctx, t, r)
	if err != nil {
		return err
	}
	answer := newRAGAnswer(response)
	if c.Model != "" {
		if answer.Answer, err = client.Answer(ctx, c.Text, response.Context); err != nil {
			return err
		}
	}
	if t.json {
		return t.line(answer)
	}
	if c.Model == "" {
		t.notef("no chat model is configured (--model): this is the context")
		_, err = fmt.Fprint(t.out, response.Context)
		return err
	}
	fmt.Fprintln(t.out, answer.Answer)
	for _, cited := range response.Citations {
		fmt.Fprintf(t.out, "  [%d] %s\n", cited.Number, cited.Source)
	}
	return nil
}

type ragStatusCmd struct {
	Base string `arg:"" optional:"" help:"Name of the base; default all."`
}

func (c *ragStatusCmd) Run(ctx context.Context, t *tool, r *ragCmd) error {
	e, err := r.engine(t)
	if err != nil {
		return err
	}
	names := []string{c.Base}
	if c.Base == "" {
		if names, err = e.Bases(); err != nil {
			return err
		}
	}
	var rows []table.Row
	failed := false
	for _, name := range names {
		s, err := e.Status(ctx, name)
		switch {
		case err != nil && (c.Base != "" || ctx.Err() != nil):
			return err
		case err != nil: // the other bases can be described
			t.notef("%s: %s", name, errtext.Plain(err.Error()))
			failed = true
			continue
		}
		if t.json {
			if err := t.line(s); err != nil {
				return err
			}
			continue
		}
		row := table.Row{name, s.Config.Provider, s.Config.Model, s.Config.Embedding.Dimensions, s.Files, s.Chunks, humanize.IBytes(uint64(s.Bytes)), "never"}
		switch {
		case s.Locked != "":
			row[4], row[5], row[7] = "?", "?", "locked"
			t.notef("%s: %s", name, errtext.Plain(s.Locked))
		case !s.Learnt.IsZero():
			row[7] = s.Learnt.Local().Format(time.DateTime)
		}
		rows = append(rows, row)
		if s.Mismatch != "" {
			t.notef("%s", s.Mismatch)
		}
		if s.Next != "" {
			t.notef("%s is being embedded again: %s", name, s.Next)
		}
	}
	if !t.json {
		if err := t.table(ragStatusHeader, rows); err != nil {
			return err
		}
	}
	if failed {
		return errReported
	}
	return nil
}

var ragStatusHeader = table.Row{"base", "provider", "model", "dimensions", "files", "chunks", "size", "learnt"}

type ragConfigCmd struct {
	Base string `arg:"" help:"Name of the base."`
}

func (c *ragConfigCmd) Run(t *tool, r *ragCmd) error {
	e, err := r.engine(t)
	if err != nil {
		return err
	}
	cfg, err := e.Config(c.Base)
	if err != nil {
		return err
	}
	if t.json {
		return t.line(cfg)
	}
	b, err := os.ReadFile(e.ConfigPath(c.Base))
	if err != nil {
		return err
	}
	_, err = t.out.Write(b)
	return err
}

type ragCleanCmd struct {
	Base string `arg:"" help:"Name of the base."`
}

func (c *ragCleanCmd) Run(t *tool, r *ragCmd) error {
	e, err := r.engine(t)
	if err != nil {
		return err
	}
	if err := e.Clean(c.Base); err != nil {
		return err
	}
	return t.answer(map[string]any{"base": c.Base, "cleaned": true}, "%s: cleaned", c.Base)
}

type ragReembedCmd struct {
	Base string `arg:"" help:"Name of the base."`
	ragEmbedder
	Queries string `placeholder:"FILE" help:"Questions to compare both models by: JSON lines with _id and text. Default: the neighbours of a sample of the chunks."`
	Qrels   string `placeholder:"FILE" help:"Judgements of files or chunks (BEIR or TREC): adds nDCG."`
	K       int    `short:"k" default:"10" help:"Number of chunks per question to compare (${default})."`
	Switch  bool   `help:"Switch to the new vectors."`
	Discard bool   `help:"Remove the new vectors."`
}

func (c *ragReembedCmd) Help() string {
	return "The new vectors are stored in a second database, while the first one answers. Without --switch they stay there, to be " +
		"compared again, switched to, or discarded: the next call needs no provider or model, and embeds only new chunks. " +
		"The switch is one rename: after an interruption, the base is the old one or the new one."
}

func (c *ragReembedCmd) Run(ctx context.Context, t *tool, r *ragCmd) error {
	e, err := r.engine(t)
	if err != nil {
		return err
	}
	if c.Discard {
		if c.Switch || c.given() {
			return errors.New("--discard excludes other flags")
		}
		if err := e.Discard(c.Base); err != nil {
			return err
		}
		return t.answer(map[string]any{"base": c.Base, "discarded": true}, "%s: discarded", c.Base)
	}
	o := knowledge.ReembedOptions{K: c.K, Switch: func(*knowledge.Reembedding) bool { return c.Switch }}
	if c.given() {
		cfg, err := e.Config(c.Base)
		if err != nil {
			return err
		}
		if c.Model != "" && c.Model != cfg.Model && c.Provider == "" {
			cfg.Embedding.Dimensions = 0
		}
		c.apply(&cfg)
		o.Config = &cfg
	}
	if c.Queries != "" {
		if o.Queries, err = readFile(c.Queries, eval.ReadQueries); err != nil {
			return err
		}
	}
	if c.Qrels != "" {
		if c.Queries == "" {
			return errors.New("--qrels needs --queries")
		}
		if o.Qrels, err = readFile(c.Qrels, eval.ReadQrels); err != nil {
			return err
		}
	}
	report, err := e.Reembed(ctx, c.Base, o)
	if err != nil {
		return err
	}
	if t.json {
		return t.line(report)
	}
	by := "questions"
	if report.Sampled {
		by = "chunks and their neighbours"
	}
	t.notef("before: %s", report.From)
	t.notef("after:  %s", report.To)
	t.notef("overlap@%d %.3f, by %d %s", report.K, report.Overlap, report.Questions, by)
	if report.Compare != nil {
		t.notef("nDCG@%d %.4f, was %.4f (p = %.3f)", report.K, *report.After, *report.Before, report.Compare.P)
	}
	done := "not switched: --switch does, --discard gives up"
	if report.Switched {
		done = "switched"
	}
	return t.answer(report, "%s: %s files, %s chunks; embedded %s; %.1f s; %s", c.Base, humanize.Comma(int64(report.Files)),
		humanize.Comma(int64(report.Chunks)), humanize.Comma(int64(report.Embedded)), report.Seconds, done)
}
