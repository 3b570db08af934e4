package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/embed/static/english"
	"github.com/vecbolt/vecbolt/rag/eval"
	"github.com/vecbolt/vecbolt/rag/knowledge"
	"github.com/vecbolt/vecbolt/rag/load"

	"github.com/vecbolt/vecbolt/db"
)

// ragCmd works with knowledge bases: documents that are read, split, embedded and indexed.
type ragCmd struct {
	Workspace string `default:".vecbolt" placeholder:"DIR" env:"VECBOLT_WORKSPACE" help:"Directory of the bases (${default}); it contains the configurations BASE/config.yaml."`

	Learn   ragLearnCmd   `cmd:"" help:"Add files and directories to a base, or update them."`
	Query   ragQueryCmd   `cmd:"" help:"Find the chunks that answer a question, and build a context from them."`
	Ask     ragAskCmd     `cmd:"" help:"Answer a question from a base with a chat model; without a model, show the context."`
	Chat    ragChatCmd    `cmd:"" help:"Answer the questions of a conversation, one per line of the standard input."`
	Status  ragStatusCmd  `cmd:"" help:"Describe one base or all."`
	Eval    ragEvalCmd    `cmd:"" help:"Measure how well a base finds what judged questions need."`
	Config  ragConfigCmd  `cmd:"" help:"Show or change the configuration of a base."`
	MCP     ragMCPCmd     `cmd:"" name:"mcp" help:"Let agents ask all bases of the workspace, with the Model Context Protocol."`
	Reembed ragReembedCmd `cmd:"" help:"Embed a base again with another model, compare both, and switch."`
	Clean   ragCleanCmd   `cmd:"" help:"Remove a base and its configuration."`
}

// providers returns the providers of embeddings that the command knows.
func providers() *embed.Registry {
	return embed.NewRegistry(append(embed.Builtin(), english.Provider())...)
}

// engine opens the workspace. Warnings about files are reported like messages.
func (c *ragCmd) engine(t *tool) (*knowledge.Engine, error) {
	return openBases(c.Workspace, knowledge.Options{Logger: t.warnings()})
}

// warnings returns a logger that reports warnings like messages, without the time.
func (t *tool) warnings() *slog.Logger {
	plain := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	return slog.New(slog.NewTextHandler(t.report, &slog.HandlerOptions{Level: slog.LevelWarn, ReplaceAttr: plain}))
}

// openBases opens a workspace with the providers of the command, and its model for new bases.
func openBases(workspace string, o knowledge.Options) (*knowledge.Engine, error) {
	model := english.Config()
	o.Providers, o.Default = providers(), &model
	return knowledge.New(workspace, &o)
}

type ragLearnCmd struct {
	Base string   `arg:"" help:"Name of the base, which is created if missing."`
	Path []string `required:"" sep:"none" placeholder:"PATH" help:"File or directory to learn, - for standard input; may be repeated. Files that are deleted, or ignored by now, are removed from the base."`

	ragEmbedder
	ragKeys
	ChunkSize int      `placeholder:"N" help:"Maximum number of tokens of a chunk (512). Files are split again if it changes."`
	Overlap   int      `placeholder:"N" help:"Tokens that neighbouring chunks share (64); negative: none."`
	Splitter  string   `placeholder:"NAME" help:"Where texts are divided: format (default), fixed, sentences, paragraphs, recursive, semantic, code or markdown."`
	Language  string   `placeholder:"NAME" help:"Language of the texts, for the text index (english); none for no language."`
	Include   []string `placeholder:"PATTERN" help:"Read only matching files in directories; patterns as in .gitignore."`
	Exclude   []string `placeholder:"PATTERN" help:"Skip matching files."`
	Hidden    bool     `help:"Read hidden files, too."`
}

// ragEmbedder has the flags for the embedding of a base.
type ragEmbedder struct {
	Provider   string            `placeholder:"NAME" help:"Provider of embeddings of a new base: static (the model in this command, the default), hash, openai, ollama, …"`
	Model      string            `placeholder:"NAME" help:"Model of a new base. The name of a stored model needs no provider."`
	Dimensions int               `placeholder:"N" help:"Components of a vector; default the dimension of the model."`
	Set        map[string]string `placeholder:"KEY=VALUE" help:"Settings of the provider, such as api_base=… or host=…."`
}

// given reports whether any of the flags is set.
func (c *ragEmbedder) given() bool {
	return c.Provider != "" || c.Model != "" || c.Dimensions != 0 || len(c.Set) > 0
}

// lookUp names the provider of a stored model that is given without one.
func (c *ragEmbedder) lookUp() {
	if c.Provider == "" && c.Model != "" {
		c.Provider = storedProvider(c.Model)
	}
}

// apply copies the flags to a configuration.
func (c *ragEmbedder) apply(cfg *knowledge.Config) {
	c.lookUp()
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
	return "Reads Markdown, HTML, PDF, Word, PowerPoint, Excel, OpenDocument text, EPUB, RTF, mail (.eml), Jupyter notebooks, CSV, JSON lines, " +
		"code and text; skips hidden files and files that .gitignore and .vecboltignore exclude. Files without readable text, such as " +
		"scanned PDFs, are listed at the end. Unchanged files cost nothing. Files that exist stay in the base, whatever --include and --exclude " +
		"leave out. Keys come from the environment, such as OPENAI_API_KEY."
}

// keys returns the keys that the flags set.
func (c *ragLearnCmd) keys(e *knowledge.Engine) map[string]any {
	c.lookUp()
	set := c.ragKeys.keys()
	given := func(key string, value any, is bool) {
		if is {
			set[key] = value
		}
	}
	given("provider", c.Provider, c.Provider != "")
	given("model", c.Model, c.Model != "")
	given("embedding.dimensions", c.Dimensions, c.Dimensions != 0)
	given("chunk_size", c.ChunkSize, c.ChunkSize != 0)
	given("chunk_overlap", c.Overlap, c.Overlap != 0)
	given("splitter", c.Splitter, c.Splitter != "")
	given("language", c.Language, c.Language != "")
	provider := c.Provider
	if cfg, err := e.Config(c.Base); provider == "" && err == nil {
		provider = cfg.Provider
	}
	for k, v := range c.Set {
		set["embedding.provider_config."+k] = setting(provider, k, v)
	}
	return set
}

// ragKeys is the flag for any key of the configuration.
type ragKeys struct {
	Config map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"Set a key of config.yaml, such as top_k=3; may be repeated. docs/guide.md lists them, and rag config --all."`
}

func (c *ragKeys) keys() map[string]any {
	set := map[string]any{}
	for k, v := range c.Config {
		set[k] = v
	}
	return set
}

// setting parses a value by the schema of the provider.
func setting(provider, name, value string) any {
	p, err := providers().Lookup(provider)
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
	o := knowledge.LearnOptions{
		Paths: c.Path, Stdin: t.in, Set: c.keys(e),
		Load: &load.Options{Include: c.Include, Exclude: c.Exclude, Hidden: c.Hidden},
	}
	p := t.bar("learn", func() int64 { return c.files(ctx, o.Load) })
	o.Progress = func(string) { p.add(1) }
	report, err := e.Learn(ctx, c.Base, o)
	p.end()
	if err != nil {
		return err
	}
	t.unread(report.Unread)
	return t.answer(report, "%s: %s files, %s chunks; embedded %s, unchanged files %s, removed %s, broken %s; %.1f s", c.Base,
		humanize.Comma(int64(report.Files)), humanize.Comma(int64(report.Chunks)), humanize.Comma(int64(report.Embedded)),
		humanize.Comma(int64(report.Skipped)), humanize.Comma(int64(report.Removed)), humanize.Comma(int64(report.Broken)), report.Seconds)
}

// files counts the files to learn.
func (c *ragLearnCmd) files(ctx context.Context, o *load.Options) (n int64) {
	for _, path := range c.Path {
		if path == "-" {
			continue
		}
		for _, err := range load.Files(ctx, path, o) {
			if err == nil {
				n++
			}
		}
	}
	return n
}

// unread lists the files and rows that were not read, with the reasons in a column.
func (t *tool) unread(list []knowledge.Unread) {
	if len(list) == 0 || t.json { // the JSON has them
		return
	}
	const widest = 50
	width := 0
	for _, u := range list {
		if n := utf8.RuneCountInString(u.File); n <= widest {
			width = max(width, n)
		}
	}
	t.notef("not read:")
	for _, u := range list {
		fmt.Fprintf(t.report, "  %-*s  %s\n", width, u.File, errtext.Plain(u.Reason))
	}
}

// ragQuestion is a question with its search settings.
type ragQuestion struct {
	Base string `arg:"" help:"Name of the base."`
	Text string `arg:"" help:"The question."`
	ragSearch
}

// ragSearch has the flags that change the configuration of a base for a question.
type ragSearch struct {
	ragKeys
	K         int      `short:"k" placeholder:"N" help:"Chunks (5, or the key top_k)."`
	Where     where    `placeholder:"JSON" help:"Only chunks whose metadata match."`
	Strategy  string   `placeholder:"NAME" help:"How to search: hybrid, dense, text, mmr, hyde or multi-query; default the key strategy. The last two need a chat model."`
	Threshold *float64 `placeholder:"SCORE" help:"Least score of a chunk."`
	Siblings  string   `placeholder:"FIELD" help:"Add chunks that have the same value in this metadata field as a hit."`
	Rerank    string   `placeholder:"HOW" help:"Rerank four times the number of chunks: none, lexical, mmr, or a directory with a cross-encoder (BERT, from Hugging Face)."`
}

// options returns the question's options, with the keys that the flags set.
func (q *ragSearch) options() knowledge.QueryOptions {
	o := knowledge.QueryOptions{K: q.K, Where: q.Where.Expr, Set: q.keys()}
	if q.Strategy != "" {
		o.Set["strategy"] = q.Strategy
	}
	if q.Threshold != nil {
		o.Set["threshold"] = *q.Threshold
	}
	if q.Siblings != "" {
		o.Set["siblings"] = q.Siblings
	}
	switch q.Rerank {
	case "":
	case "none", "lexical", "mmr", "cohere", "tei", "cross-encoder":
		o.Set["reranker"] = q.Rerank
	default:
		o.Set["reranker"], o.Set["rerank_model"] = "cross-encoder", q.Rerank
	}
	return o
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
	Query         string         `json:"query,omitempty"`
	Answer        string         `json:"answer,omitempty"`
	Cited         []int          `json:"cited,omitempty"`
	AnswerCut     string         `json:"answer_cut,omitempty"`
}

type ragChunk struct {
	ID       string      `json:"id"`
	Score    float64     `json:"score"`
	Text     string      `json:"text"`
	Metadata db.Metadata `json:"metadata"`
}

func newRAGAnswer(r *rag.Response) *ragAnswer {
	a := &ragAnswer{Chunks: []ragChunk{}, Context: r.Context, ContextTokens: r.ContextTokens, Citations: r.Citations, FromCache: r.FromCache,
		Strategy: r.Strategy, Candidates: r.Candidates, RetrievalMS: float64(r.RetrievalTime) / float64(time.Millisecond), Query: r.Query, Answer: r.Answer, Cited: r.Cited,
		AnswerCut: r.AnswerCut}
	if a.Citations == nil {
		a.Citations = []rag.Citation{}
	}
	for _, c := range r.Chunks {
		a.Chunks = append(a.Chunks, ragChunk{c.ID, c.Score, c.Text, c.Metadata})
	}
	return a
}

func (c *ragQueryCmd) Run(ctx context.Context, t *tool, r *ragCmd) error {
	e, err := r.engine(t)
	if err != nil {
		return err
	}
	response, err := e.Query(ctx, c.Base, c.Text, c.options())
	if err != nil {
		return err
	}
	if t.json {
		return t.line(newRAGAnswer(response))
	}
	switch {
	case len(response.Chunks) == 0:
		t.notef("nothing found")
	case response.Context == "":
		t.notef("max_context_tokens is too small for any of the %d chunks found", len(response.Chunks))
	}
	_, err = fmt.Fprint(t.out, response.Context)
	return err
}

// ragModel has the flags of the chat model.
type ragModel struct {
	Chat    string `placeholder:"openai|ollama" env:"VECBOLT_CHAT" help:"API of the chat model; default the key chat."`
	ChatURL string `placeholder:"URL" env:"VECBOLT_CHAT_URL" help:"Base URL of the API; default the key chat_url, api.openai.com, or localhost for ollama."`
	Model   string `placeholder:"NAME" env:"VECBOLT_CHAT_MODEL" help:"The chat model; default the key chat_model. The key of openai comes from OPENAI_API_KEY."`
}

// apply sets the keys of the model.
func (c *ragModel) apply(o *knowledge.QueryOptions) {
	for key, value := range map[string]string{"chat": c.Chat, "chat_url": c.ChatURL, "chat_model": c.Model} {
		if value != "" {
			o.Set[key] = value
		}
	}
}

type ragAskCmd struct {
	ragQuestion
	ragModel
}

func (c *ragAskCmd) Help() string {
	return "Answers from the base only, and cites the sources by number. Without a chat model it shows the context for a model."
}

func (c *ragAskCmd) Run(ctx context.Context, t *tool, r *ragCmd) error {
	e, err := r.engine(t)
	if err != nil {
		return err
	}
	o := c.options()
	c.apply(&o)
	return t.ask(ctx, e, c.Base, c.Text, o)
}

// ask answers a question, as a stream for people. Without a chat model it shows the context.
func (t *tool) ask(ctx context.Context, e *knowledge.Engine, base, question string, o knowledge.QueryOptions) error {
	cfg, err := e.Config(base)
	if err != nil {
		return err
	}
	if _, named := o.Set["chat_model"]; cfg.ChatModel == "" && !named {
		response, err := e.Query(ctx, base, question, o)
		if err != nil {
			return err
		}
		if t.json {
			return t.line(newRAGAnswer(response))
		}
		t.notef("no chat model is configured (--model): this is the context")
		_, err = fmt.Fprint(t.out, response.Context)
		return err
	}
	ao, begun := knowledge.AskOptions{QueryOptions: o}, false
	if !t.json {
		ao.Part = func(text string) error {
			begun = true
			_, err := t.out.WriteString(text)
			return errors.Join(err, t.out.Flush())
		}
	}
	response, err := e.Ask(ctx, base, question, ao)
	if err != nil {
		if begun { // what follows is a line of its own
			fmt.Fprintln(t.out)
		}
		return err
	}
	if t.json {
		return t.line(newRAGAnswer(response))
	}
	fmt.Fprintln(t.out)
	for _, cited := range response.Citations {
		fmt.Fprintf(t.out, "  [%d] %s\n", cited.Number, cited.Source)
	}
	if err := t.out.Flush(); err != nil {
		return err
	}
	if response.AnswerCut != "" {
		t.notef("the answer is cut off: the model stopped before its end (%s)", response.AnswerCut)
	}
	return nil
}

type ragChatCmd struct {
	Base string `arg:"" help:"Name of the base."`
	ragSearch
	ragModel
}

func (c *ragChatCmd) Help() string {
	return "Reads one question per line, of 64 KiB at most. A question may refer to earlier ones: the base is searched for " +
		"the topic of the conversation, which the chat model restates, or to which the words of each question are added. An empty line begins a new conversation. " +
		"A question that fails does not end it; with --json, its line has the field error."
}

func (c *ragChatCmd) Run(ctx context.Context, t *tool, r *ragCmd) error {
	e, err := r.engine(t)
	if err != nil {
		return err
	}
	o := c.options()
	c.apply(&o)
	if _, err := e.Config(c.Base); err != nil {
		return err
	}
	in, failed := bufio.NewReader(t.in), false
	o.Conversation = "chat"
	for {
		question, err := readQuestion(in)
		switch {
		case errors.Is(err, io.EOF) && failed:
			return errReported
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, errLongQuestion):
			return err
		case err == nil && question == "":
			_ = e.Forget(c.Base, o.Conversation) // it fails if nothing was asked yet
			continue
		case err == nil:
			err = t.ask(ctx, e, c.Base, question, o)
		}
		if err != nil && (ctx.Err() != nil || endsChat(err)) {
			return err
		}
		if err != nil {
			failed = true
			err = t.failed(err)
		}
		if err := errors.Join(err, t.out.Flush()); err != nil {
			return err
		}
	}
}

// maxQuestion is the length of the longest line that is read as a question, in bytes.
const maxQuestion = 64 << 10

var errLongQuestion = fmt.Errorf("a question of more than %d bytes", maxQuestion)

// readQuestion reads a line, without the space around it. The last one needs no newline. A line
// that is too long is skipped.
func readQuestion(r *bufio.Reader) (string, error) {
	var line []byte
	long := false
	for {
		part, err := r.ReadSlice('\n')
		if long = long || len(line)+len(bytes.TrimRight(part, "\r\n")) > maxQuestion; !long {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil && (len(line) == 0 && !long || !errors.Is(err, io.EOF)):
			return "", err
		case long:
			return "", errLongQuestion
		default:
			return string(bytes.TrimSpace(line)), nil
		}
	}
}

// endsChat reports whether the next question of a conversation would fail for the same reason.
func endsChat(err error) bool {
	return errors.Is(err, knowledge.ErrNotFound) || errors.Is(err, knowledge.ErrConfig) || errors.Is(err, embed.ErrMismatch)
}

// failed answers with the error of one question: the next line is for the next question.
func (t *tool) failed(err error) error {
	text := errtext.Plain(err.Error())
	if t.json {
		return t.line(map[string]string{"error": text})
	}
	flushed := t.out.Flush() // the text so far comes first
	t.notef("%s", text)
	return flushed
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
	Base  string `arg:"" help:"Name of the base."`
	Key   string `arg:"" optional:"" help:"Show the value in effect of this key."`
	Value string `arg:"" optional:"" help:"Set the key to this value."`
	All   bool   `help:"Show all keys, with their values in effect and what is allowed."`
	Unset bool   `help:"Remove the key, so that its default applies."`
}

func (c *ragConfigCmd) Help() string {
	return "Without a key, shows config.yaml. A change of a key takes effect as --all says: at once, with the next learn, which splits " +
		"files again, or by reembed only. The file may be edited as well."
}

// Validate is called by kong.
func (c *ragConfigCmd) Validate() error {
	switch {
	case c.All && c.Key != "":
		return errors.New("--all shows all keys: name none")
	case c.Unset && (c.Key == "" || c.Value != ""):
		return errors.New("--unset needs a key, and no value")
	}
	return nil
}

func (c *ragConfigCmd) Run(ctx context.Context, t *tool, r *ragCmd) error {
	e, err := r.engine(t)
	if err != nil {
		return err
	}
	cfg, err := e.Config(c.Base)
	if err != nil {
		return err
	}
	switch {
	case c.Value != "" || c.Unset:
		set := map[string]any{c.Key: c.Value}
		if c.Unset {
			set[c.Key] = nil
		} else if name, ok := strings.CutPrefix(c.Key, "embedding.provider_config."); ok {
			set[c.Key] = setting(cfg.Provider, name, c.Value)
		}
		if cfg, err = e.Configure(ctx, c.Base, set); err != nil {
			return err
		}
		fallthrough
	case c.Key != "":
		value, err := cfg.Get(c.Key)
		if err != nil {
			return err
		}
		return t.answer(map[string]any{"key": c.Key, "value": value}, "%s", shownValue(value))
	case c.All:
		return t.keys(cfg)
	case t.json:
		return t.line(cfg)
	}
	b, err := os.ReadFile(e.ConfigPath(c.Base))
	if err != nil {
		return err
	}
	_, err = t.out.Write(b)
	return err
}

// keys shows all keys of a configuration.
func (t *tool) keys(cfg knowledge.Config) error {
	var rows []table.Row
	for _, k := range knowledge.Keys() {
		value, err := cfg.Get(k.Name)
		if err != nil {
			return err
		}
		if t.json {
			line := struct {
				knowledge.Key
				Value any `json:"value"`
			}{k, value}
			if err := t.line(line); err != nil {
				return err
			}
			continue
		}
		rows = append(rows, table.Row{k.Name, shownValue(value), k.Allowed(), k.Changes})
	}
	if t.json {
		return nil
	}
	return t.table(table.Row{"key", "value", "allowed", "changes"}, rows)
}

// shownValue returns the value of a key as text.
func shownValue(value any) string {
	switch value := value.(type) {
	case nil:
		return ""
	case string:
		return value
	}
	b, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(b)
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
	Qrels   string `placeholder:"FILE" help:"Judgements (BEIR or TREC) of files, chunks or rows, or of values of a metadata field: adds nDCG."`
	K       int    `short:"k" default:"10" help:"Number of chunks per question to compare (${default})."`
	Switch  bool   `help:"Switch to the new vectors."`
	Discard bool   `help:"Remove the new vectors."`
}

func (c *ragReembedCmd) Help() string {
	return "The new vectors are stored in a second database, while the first one answers. Without --switch they stay there, to be " +
		"compared again, switched to, or discarded: the next call needs no provider or model, and embeds only new chunks. " +
		"The switch is one rename: after an interruption, the base is the old one or the new one. If the model refuses texts, " +
		"it names them, embeds all other files, and leaves the base as it is: change the files, learn, and call it again."
}

// Validate is called by kong.
func (c *ragReembedCmd) Validate() error {
	switch {
	case c.Discard && (c.Switch || c.Queries != "" || c.Qrels != "" || c.given()):
		return errors.New("--discard excludes other flags")
	case c.Qrels != "" && c.Queries == "":
		return errors.New("--qrels needs --queries")
	case c.K < 1:
		return fmt.Errorf("-k %d: not positive", c.K)
	}
	return nil
}

func (c *ragReembedCmd) Run(ctx context.Context, t *tool, r *ragCmd) error {
	e, err := r.engine(t)
	if err != nil {
		return err
	}
	if c.Discard {
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
		if o.Queries, err = readQuestions(c.Queries); err != nil {
			return err
		}
	}
	if c.Qrels != "" {
		if o.Qrels, err = readFile(c.Qrels, eval.ReadQrels); err != nil {
			return err
		}
	}
	p := t.bar("reembed", func() int64 {
		s, err := e.Status(ctx, c.Base)
		if err != nil {
			return 0 // Reembed reports the error
		}
		return int64(s.Files)
	})
	done := 0
	o.Progress = func(files int) { p.add(files - done); done = files }
	report, err := e.Reembed(ctx, c.Base, o)
	p.end()
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
	switched := "not switched: --switch does, --discard gives up"
	if report.Switched {
		switched = "switched"
	}
	return t.answer(report, "%s: %s files, %s chunks; embedded %s; %.1f s; %s", c.Base, humanize.Comma(int64(report.Files)),
		humanize.Comma(int64(report.Chunks)), humanize.Comma(int64(report.Embedded)), report.Seconds, switched)
}
