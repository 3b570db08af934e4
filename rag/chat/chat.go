// Package chat asks a language model to answer from a context, over the chat endpoint of any
// OpenAI-compatible server or of Ollama. Nothing else in Vecbolt calls a language model.
package chat

import (
	"context"
	"errors"
	"fmt"
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

// Instructions tell a model to answer from a context and to cite it.
const Instructions = "Answer the question from the numbered sources only. Cite them as [1], [2]. If they do not answer it, say so."

// Answer asks the model to answer a question from a context.
func (c *Client) Answer(ctx context.Context, question, sources string) (string, error) {
	answer, err := c.ask(ctx, question, sources)
	if err != nil {
		return "", fmt.Errorf("chat: %w", err)
	}
	return answer, nil
}

func (c *Client) ask(ctx context.Context, question, sources string) (string, error) {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	path := "/chat/completions"
	if c.API == Ollama {
		path = "/api/chat"
	}
	body := map[string]any{"model": c.Model, "stream": false, "messages": []message{
		{"system", Instructions}, {"user", "Sources:\n" + sources + "\nQuestion: " + question}}}
	var answer struct {
		Message message // Ollama
		Choices []struct{ Message message }
	}
	caller := httpjson.Caller{Client: c.HTTP, Timeout: 5 * time.Minute, Secret: c.Secret}
	if err := caller.Post(ctx, strings.TrimSuffix(c.Base, "/")+path, body, &answer); err != nil {
		return "", err
	}
	if c.API != Ollama {
		if len(answer.Choices) == 0 {
			return "", errors.New("invalid response: no choices")
		}
		answer.Message = answer.Choices[0].Message
	}
	if answer.Message.Content == "" {
		return "", errors.New("invalid response: no content")
	}
	return answer.Message.Content, nil
}
