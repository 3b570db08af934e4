// Package chat asks a language model, over the chat endpoint of any OpenAI-compatible server or of
// Ollama: to answer from a context, to put a question in other words, or anything else. Nothing
// else in Vecbolt calls a language model.
package chat

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/vecbolt/vecbolt/internal/httpjson"
)

// API is the protocol of a server.
type API string

// The APIs.
const (
	OpenAI API = "openai" // POST BASE/chat/completions
	Ollama API = "ollama" // POST BASE/api/chat
)

// A Client asks one model. It is safe for concurrent use.
type Client struct {
	API   API    // empty means OpenAI
	Base  string // such as https://api.openai.com/v1 or http://localhost:11434
	Model string
	// Secret returns the API key; it is called for each request. nil means no key.
	Secret func(context.Context) (string, error)
	// HTTP sends the request; nil means a client with a timeout of five minutes that follows no
	// redirects.
	HTTP *http.Client
}

// A Message is one message to the model.
type Message struct {
	Role    string `json:"role"` // system, user or assistant
	Content string `json:"content"`
}

// A Reply is the answer of the model.
type Reply struct {
	Text string
	// Cut says, in the word of the server, why the model stopped before its answer ended: "length",
	// at a limit of tokens, or "content_filter". It is empty if the answer is whole.
	Cut string
	// The tokens read and written, as the server counts them; 0 if it does not say.
	PromptTokens, AnswerTokens int
}

const instructions = "Answer the question from the numbered sources only. Cite them as [1], [2]. If they do not answer it, say so."

// Answer asks the model to answer a question from a context, whose sources are numbered, and to
// cite the sources by number. part is as in Chat.
func (c *Client) Answer(ctx context.Context, question, sources string, part func(text string) error) (Reply, error) {
	return c.Chat(ctx, []Message{
		{"system", instructions}, {"user", "Sources:\n" + sources + "\nQuestion: " + question},
	}, part)
}

// Chat sends messages and returns the reply. If part is not nil, the answer is streamed: part is
// called with each piece of the text as it arrives, and ends the request by an error. A reply of
// white space is an error, as one without text. So is a response of more than 8 MiB, or a stream of
// more than 8 MiB of text or 64 MiB of everything.
func (c *Client) Chat(ctx context.Context, messages []Message, part func(text string) error) (Reply, error) {
	ask := c.ask
	if part != nil {
		ask = func(ctx context.Context, path string, body map[string]any) (Reply, error) {
			return c.stream(ctx, path, body, part)
		}
	}
	path := "/chat/completions"
	if c.API == Ollama {
		path = "/api/chat"
	}
	reply, err := ask(ctx, strings.TrimSuffix(c.Base, "/")+path,
		map[string]any{"model": c.Model, "stream": part != nil, "messages": messages})
	switch {
	case err != nil || strings.TrimSpace(reply.Text) != "":
	case reply.Cut != "":
		err = fmt.Errorf("no content: the model stopped (%s)", reply.Cut)
	default:
		err = errors.New("invalid response: no content")
	}
	if err != nil {
		return Reply{}, fmt.Errorf("chat: %w", err)
	}
	return reply, nil
}

// An event is a response, or a part of one.
type event struct {
	Message said // Ollama
	Done    bool
	Reason  string `json:"done_reason"`
	Prompt  int    `json:"prompt_eval_count"`
	Answer  int    `json:"eval_count"`

	Choices []struct { // OpenAI
		Message, Delta Message
		Finish         string `json:"finish_reason"`
	}
	Usage struct {
		Prompt int `json:"prompt_tokens"`
		Answer int `json:"completion_tokens"`
	}

	Error json.RawMessage
}

// said is a message of the model, or the text by which a server says what went wrong.
type said struct {
	Message
	text json.RawMessage
}

// UnmarshalJSON decodes both.
func (s *said) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		s.text = bytes.Clone(b)
		return nil
	}
	return json.Unmarshal(b, &s.Message)
}

// failure returns the error that a server sends in place of an answer, or nil. Some servers send an
// empty error, or a text about success, beside each answer.
func (e *event) failure(answer *httpjson.Answer) error {
	text := e.Error
	if httpjson.Blank(text) && len(e.Choices) == 0 {
		text = e.Message.text
	}
	return answer.Failure(text)
}

// add adds what an event says about the reply, and returns its part of the text.
func (r *Reply) add(e *event) string {
	text, reason := e.Message.Content, e.Reason
	if len(e.Choices) > 0 {
		text, reason = cmp.Or(e.Choices[0].Message.Content, e.Choices[0].Delta.Content), e.Choices[0].Finish
	}
	if reason == "length" || reason == "content_filter" {
		r.Cut = reason
	}
	r.PromptTokens = max(r.PromptTokens, e.Prompt, e.Usage.Prompt)
	r.AnswerTokens = max(r.AnswerTokens, e.Answer, e.Usage.Answer)
	return text
}

func (c *Client) open(ctx context.Context, url string, body map[string]any) (*httpjson.Answer, error) {
	caller := httpjson.Caller{Client: c.HTTP, Timeout: 5 * time.Minute, Secret: c.Secret}
	return caller.Open(ctx, url, body)
}

func (c *Client) ask(ctx context.Context, url string, body map[string]any) (reply Reply, err error) {
	resp, err := c.open(ctx, url, body)
	if err != nil {
		return reply, err
	}
	defer resp.Body.Close()
	var answer event
	if err := resp.Decode(&answer); err != nil {
		return reply, err
	}
	if err := answer.failure(resp); err != nil {
		return reply, err
	}
	if c.API != Ollama && len(answer.Choices) == 0 {
		return reply, errors.New("invalid response: no choices")
	}
	reply.Text = reply.add(&answer)
	return reply, nil
}

// Limits of a stream, in bytes: one event, the text of the answer, and all that arrives. Each token
// is an event of some 300 bytes, and the reasoning before an answer is many tokens of no text.
const (
	maxEvent  = 1 << 20
	maxText   = 8 << 20
	maxStream = 64 << 20
)

var errEarly = errors.New("invalid response: the answer ends early")

func (c *Client) stream(ctx context.Context, url string, body map[string]any,
	part func(string) error) (reply Reply, err error) {
	if c.API != Ollama {
		body["stream_options"] = map[string]bool{"include_usage": true}
	}
	resp, err := c.open(ctx, url, body)
	if err != nil {
		return reply, err
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(http.MaxBytesReader(nil, resp.Body, maxStream))
	in.Buffer(nil, maxEvent)
	var other []byte // the first lines without data
	streamed, begun, complete := false, false, false
	var whole strings.Builder
	defer func() { reply.Text = whole.String() }()
	for first := true; in.Scan(); first = false {
		line := in.Bytes()
		if first { // as HTML has it for event streams; the mark would hide the first event
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		data, ok := c.data(line)
		if !ok {
			streamed = streamed || ofStream(line)
			if len(other) < maxEvent {
				other = append(append(other, line...), '\n')
			}
			continue
		}
		if string(data) == "[DONE]" {
			return reply, nil
		}
		begun = true
		var e event
		if err := json.Unmarshal(data, &e); err != nil {
			if in.Err() != nil { // the stream broke in the middle of the event
				break
			}
			return reply, fmt.Errorf("invalid response: %w: %s", err, resp.Shown(data))
		}
		if err := e.failure(resp); err != nil {
			return reply, err
		}
		text := reply.add(&e)
		if whole.Len()+len(text) > maxText {
			return reply, fmt.Errorf("invalid response: a text of more than %d bytes", maxText)
		}
		whole.WriteString(text)
		if text != "" {
			if err := part(text); err != nil {
				return reply, err
			}
		}
		complete = complete || e.Done || len(e.Choices) > 0 && e.Choices[0].Finish != ""
	}
	switch err, large := in.Err(), (*http.MaxBytesError)(nil); {
	case errors.As(err, &large):
		return reply, fmt.Errorf("invalid response: more than %d bytes", large.Limit)
	case errors.Is(err, bufio.ErrTooLong):
		return reply, fmt.Errorf("invalid response: an event of more than %d bytes", maxEvent)
	case err != nil:
		return reply, err
	case !begun && !streamed:
		return reply, notStream(resp, bytes.TrimSpace(other))
	case !complete:
		return reply, errEarly
	}
	return reply, nil
}

// data returns the data in a line of a stream. The other lines of an event stream are empty,
// comments, or names of events.
func (c *Client) data(line []byte) (data []byte, ok bool) {
	if c.API != Ollama {
		if line, ok = bytes.CutPrefix(line, []byte("data:")); !ok {
			return nil, false
		}
	}
	data = bytes.TrimSpace(line)
	return data, len(data) > 0
}

// ofStream reports whether a line without data is a comment or a field of an event stream.
func ofStream(line []byte) bool {
	name, _, ok := bytes.Cut(line, []byte(":"))
	return ok && slices.Contains([]string{"", "event", "data", "id", "retry"}, string(name))
}

// notStream is the error for an answer without a line of an event stream, such as the page of a
// proxy.
func notStream(answer *httpjson.Answer, text []byte) error {
	kind, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";")
	switch stream := kind == "text/event-stream"; {
	case stream && len(text) == 0:
		return errEarly
	case stream:
		return fmt.Errorf("invalid response: an event stream without events: %s", answer.Shown(text))
	case len(text) == 0:
		return errors.New("invalid response: no event stream, but nothing")
	}
	return fmt.Errorf("invalid response: no event stream, but %s: %s", answer.Shown([]byte(kind)), answer.Shown(text))
}
