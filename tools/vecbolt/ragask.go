package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/errtext"
	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/knowledge"
)

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
	a := &ragAnswer{
		Chunks: []ragChunk{}, Context: r.Context, ContextTokens: r.ContextTokens, Citations: r.Citations,
		FromCache: r.FromCache, Strategy: r.Strategy, Candidates: r.Candidates,
		RetrievalMS: float64(r.RetrievalTime) / float64(time.Millisecond),
		Query:       r.Query, Answer: r.Answer, Cited: r.Cited, AnswerCut: r.AnswerCut,
	}
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
	return t.found(response, "")
}

// found answers with the context of a question, after a note, or says why it is missing.
func (t *tool) found(r *rag.Response, note string) error {
	if t.json {
		return t.line(newRAGAnswer(r))
	}
	switch {
	case len(r.Chunks) == 0:
		t.notef("nothing found")
	case r.Context == "":
		t.notef("max_context_tokens is too small for any of the %d chunks found", len(r.Chunks))
	case note != "":
		t.notef("%s", note)
	}
	_, err := fmt.Fprint(t.out, r.Context)
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
		return t.found(response, "no chat model is configured (--model): this is the context")
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
	return errors.Is(err, knowledge.ErrNotFound) || errors.Is(err, knowledge.ErrConfig) ||
		errors.Is(err, embed.ErrMismatch)
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
