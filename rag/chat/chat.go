// Package chat asks a language model to answer from a context, over the chat
// endpoint of any OpenAI-compatible server or of Ollama. Nothing else in Vecbolt
// calls a language model.
package chat

import (
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
)

// API says how a server is spoken to.
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
	// Secret returns the key when it is needed; nil means none.
	Secret func(context.Context) (string, error)
	// HTTP sends the request; nil means one with a timeout of five minutes
	// that follows no redirects.
	HTTP *http.Client
}

// Instructions tell a model to answer from a context and to cite it.
const Instructions = "Answer the question from the numbered sources only. Cite them as [1], [2]. If they do not answer it, say so."

// maxAnswer bounds what is read of an answer.
const maxAnswer = 8 << 20

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
	body, err := json.Marshal(map[string]any{"model": c.Model, "stream": false, "messages": []message{
		{"system", Instructions}, {"user", "Sources:\n" + sources + "\nQuestion: " + question}}})
	if err != nil {
		return "", err
	}
	path := "/chat/completions"
	if c.API == Ollama {
		path = "/api/chat"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(c.Base, "/")+path, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.Secret != nil {
		key, err := c.Secret(ctx)
		if err != nil {
			return "", fmt.Errorf("secret: %w", err)
		}
		if key != "" {
			req.Header.Set("Authorization", "Bearer "+key)
		}
	}
	client := cmp.Or(c.HTTP, &http.Client{Timeout: 5 * time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }})
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %s: %.200s", resp.Status, b)
	}
	var answer struct {
		Message message // Ollama
		Choices []struct{ Message message }
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		return "", fmt.Errorf("invalid response: %w", err)
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
