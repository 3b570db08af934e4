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
	"io"
	"net/http"
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
// called with each piece of the text as it arrives, and ends the request by an error.
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
	if err == nil && reply.Text == "" {
		err = errors.New("invalid response: no content")
	}
	if err != nil {
		return Reply{}, fmt.Errorf("chat: %w", err)
	}
	return reply, nil
}

// An event is a response, or a part of one.
type event struct {
	Message Message // Ollama
	Done    bool
	Prompt  int `json:"prompt_eval_count"`
	Answer  int `json:"eval_count"`

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

// add appends an event to the reply and returns its text.
func (r *Reply) add(e *event) string {
	text := e.Message.Content
	if len(e.Choices) > 0 {
		text = cmp.Or(e.Choices[0].Message.Content, e.Choices[0].Delta.Content)
	}
	r.Text += text
	r.PromptTokens = max(r.PromptTokens, e.Prompt, e.Usage.Prompt)
	r.AnswerTokens = max(r.AnswerTokens, e.Answer, e.Usage.Answer)
	return text
}

const timeout = 5 * time.Minute

func (c *Client) ask(ctx context.Context, url string, body map[string]any) (reply Reply, err error) {
	var answer event
	caller := httpjson.Caller{Client: c.HTTP, Timeout: timeout, Secret: c.Secret}
	if err := caller.Post(ctx, url, body, &answer); err != nil {
		return reply, err
	}
	if c.API != Ollama && len(answer.Choices) == 0 {
		return reply, errors.New("invalid response: no choices")
	}
	reply.add(&answer)
	return reply, nil
}

// Limits of a stream: bytes of one event, of the whole answer, and of the text of an error.
const (
	maxEvent   = 1 << 20
	maxAnswer  = 8 << 20
	maxRefusal = 200
)

func (c *Client) stream(ctx context.Context, url string, body map[string]any,
	part func(string) error) (reply Reply, err error) {
	if c.API != Ollama {
		body["stream_options"] = map[string]bool{"include_usage": true}
	}
	key := ""
	if c.Secret != nil {
		if key, err = c.Secret(ctx); err != nil {
			return reply, fmt.Errorf("secret: %w", err)
		}
		key = strings.TrimSpace(key)
	}
	b, err := json.Marshal(body)
	if err != nil {
		return reply, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(b))
	if err != nil {
		return reply, err
	}
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	client := cmp.Or(c.HTTP, &http.Client{Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }})
	resp, err := client.Do(req)
	if err != nil {
		return reply, err
	}
	defer resp.Body.Close()
	in := bufio.NewScanner(io.LimitReader(resp.Body, maxAnswer))
	in.Buffer(nil, maxEvent)
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxEvent)) // as much of the reason as there is
		return reply, fmt.Errorf("status %s: %.*s", resp.Status, maxRefusal, withoutKey(text, key))
	}
	complete := false
	for in.Scan() {
		line := in.Text()
		if c.API != Ollama {
			data, ok := strings.CutPrefix(line, "data:")
			if line = strings.TrimSpace(data); !ok {
				continue // an empty line, a comment, or the name of an event
			}
			if line == "[DONE]" {
				return reply, nil
			}
		}
		if line == "" {
			continue
		}
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return reply, fmt.Errorf("invalid response: %w", err)
		}
		if len(e.Error) > 0 && string(e.Error) != "null" {
			return reply, fmt.Errorf("the server gave up: %.*s", maxRefusal, withoutKey(e.Error, key))
		}
		if text := reply.add(&e); text != "" {
			if err := part(text); err != nil {
				return reply, err
			}
		}
		complete = complete || e.Done || len(e.Choices) > 0 && e.Choices[0].Finish != ""
	}
	if err := in.Err(); err != nil {
		return reply, err
	}
	if !complete {
		return reply, errors.New("invalid response: the answer ends early")
	}
	return reply, nil
}

// withoutKey returns the text of an error without the API key, which some servers repeat.
func withoutKey(text []byte, key string) []byte {
	if key == "" {
		return text
	}
	return bytes.ReplaceAll(text, []byte(key), []byte("[secret]"))
}
