package chat_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/rag/chat"
)

func TestAnswer(t *testing.T) {
	var path, body, key string
	answer, status := "", http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil || !json.Valid(b) {
			t.Error(err)
		}
		path, body, key = r.URL.Path, string(b), r.Header.Get("Authorization")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	openai := &chat.Client{Base: server.URL + "/v1/", Model: "m", Secret: func(context.Context) (string, error) { return "key", nil }}
	ollama := &chat.Client{API: chat.Ollama, Base: server.URL, Model: "m"}

	answer = `{"choices":[{"message":{"role":"assistant","content":"forty-two [1]"}}]}`
	got, err := openai.Answer(t.Context(), "what?", "[1] all")
	if err != nil || got != "forty-two [1]" || path != "/v1/chat/completions" || key != "Bearer key" || !strings.Contains(body, `Sources:\n[1] all\nQuestion: what?`) {
		t.Error(got, err, path, body)
	}
	answer = `{"message":{"role":"assistant","content":"six"},"done":true}`
	if got, err := ollama.Answer(t.Context(), "what?", ""); err != nil || got != "six" || path != "/api/chat" || key != "" {
		t.Error(got, err, path)
	}
	for _, wrong := range []string{"", "{}", `{"choices":[]}`, `{"choices":[{"message":{}}]}`} {
		answer = wrong
		if _, err := openai.Answer(t.Context(), "what?", ""); err == nil || !strings.Contains(err.Error(), "invalid response") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	status, answer = http.StatusUnauthorized, "who are you"
	if _, err := openai.Answer(t.Context(), "what?", ""); err == nil || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "key") {
		t.Error(err)
	}
}
