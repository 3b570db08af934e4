package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
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

	answer = `{"choices":[{"message":{"role":"assistant","content":"forty-two [1]"}}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`
	got, err := openai.Answer(t.Context(), "what?", "[1] all", nil)
	if err != nil || got.Text != "forty-two [1]" || got.PromptTokens != 9 || got.AnswerTokens != 3 || path != "/v1/chat/completions" || key != "Bearer key" || !strings.Contains(body, `Sources:\n[1] all\nQuestion: what?`) {
		t.Error(got, err, path, body)
	}
	answer = `{"message":{"role":"assistant","content":"six"},"done":true,"prompt_eval_count":7}`
	if got, err := ollama.Answer(t.Context(), "what?", "", nil); err != nil || got.Text != "six" || got.PromptTokens != 7 || path != "/api/chat" || key != "" {
		t.Error(got, err, path)
	}
	answer = `{"choices":[{"message":{"content":"forty"},"finish_reason":"length"}]}`
	if got, err := openai.Answer(t.Context(), "what?", "", nil); err != nil || got != (chat.Reply{Text: "forty", Cut: "length"}) {
		t.Error(got, err)
	}
	for _, none := range []string{`""`, `{}`, `{ }`, `[]`, `0`, `false`, `null`} { // as the error beside an answer
		answer = `{"error":` + none + `,"message":"done","choices":[{"message":{"content":"six"}}]}`
		if got, err := openai.Answer(t.Context(), "what?", "", nil); err != nil || got.Text != "six" {
			t.Error(none, got, err)
		}
		answer = `{"error":` + none + `,"message":{"content":"six"}}`
		if got, err := ollama.Answer(t.Context(), "what?", "", nil); err != nil || got.Text != "six" {
			t.Error(none, got, err)
		}
	}
	for _, wrong := range []string{"", "{}", `{"choices":[]}`, `{"choices":[{"message":{}}]}`, `{"choices":[{"message":{"content":" \n"}}]}`, `{"error":""}`, `{"message":""}`} {
		answer = wrong
		if _, err := openai.Answer(t.Context(), "what?", "", nil); err == nil || !strings.Contains(err.Error(), "invalid response") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	answer = `{"error":"no memory for key"}`
	if _, err := openai.Answer(t.Context(), "what?", "", nil); err == nil || err.Error() != `chat: the server gave up: "no memory for [secret]"` {
		t.Error(err)
	}
	answer = `{"object":"error","message":"no memory for key"}`
	if _, err := openai.Answer(t.Context(), "what?", "", nil); err == nil || err.Error() != `chat: the server gave up: "no memory for [secret]"` {
		t.Error(err)
	}
	status, answer = http.StatusUnauthorized, "who are you"
	if _, err := openai.Answer(t.Context(), "what?", "", nil); err == nil || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "key") {
		t.Error(err)
	}
}

func TestStream(t *testing.T) {
	answer, status := "", http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Stream bool }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || !body.Stream {
			t.Error(body, err)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	key := func(context.Context) (string, error) { return "secret-key", nil }
	clients := map[string]*chat.Client{"openai": {Base: server.URL, Model: "m", Secret: key}, "ollama": {API: chat.Ollama, Base: server.URL, Model: "m"}}
	stop, half := errors.New("enough"), strings.Repeat("x", 1<<19)
	for _, tt := range []struct {
		client, answer, parts string
		reply                 chat.Reply
		err                   string
	}{
		{"openai", ": hello\n\ndata: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"forty\"}}]}\n\ndata:{\"choices\":[{\"delta\":{\"content\":\"-two\"},\"finish_reason\":\"stop\"}]}\n\n" +
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n", "forty|-two|", chat.Reply{Text: "forty-two", PromptTokens: 9, AnswerTokens: 3}, ""},
		{"ollama", "{\"message\":{\"content\":\"forty\"}}\n{\"message\":{\"content\":\"-two\"}}\n{\"message\":{\"content\":\"\"},\"done\":true,\"prompt_eval_count\":9,\"eval_count\":3}\n", "forty|-two|",
			chat.Reply{Text: "forty-two", PromptTokens: 9, AnswerTokens: 3}, ""},
		{"openai", "data: {\"choices\":[{\"delta\":{\"content\":\"forty\"}}]}\n\n", "forty|", chat.Reply{}, "the answer ends early"},
		{"ollama", "{\"message\":{\"content\":\"forty\"}}\n{\"error\":\"out of memory\"}\n", "forty|", chat.Reply{}, "the server gave up: \"out of memory\""},
		{"openai", "data: {\"error\":{\"message\":\"overloaded, key Bearer secret-key\"}}\n\n", "", chat.Reply{}, "the server gave up: {\"message\":\"overloaded, key Bearer [secret]\"}"},
		{"openai", "event: error\ndata: {\"message\":\"overloaded, key secret-key\"}\n\n", "", chat.Reply{}, "the server gave up: \"overloaded, key [secret]\""},
		{"openai", "data: {\"error\":{},\"choices\":[{\"delta\":{\"content\":\"forty\"},\"finish_reason\":\"stop\"}]}\n\n", "forty|", chat.Reply{Text: "forty"}, ""},
		{"ollama", "{\"message\":{\"content\":\"forty\"},\"done\":true,\"error\":\"\"}\n", "forty|", chat.Reply{Text: "forty"}, ""},
		{"openai", "\ufeffdata: {\"choices\":[{\"delta\":{\"content\":\"forty\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"-two\"},\"finish_reason\":\"stop\"}]}\n\n", "forty|-two|", chat.Reply{Text: "forty-two"}, ""},
		{"ollama", "\ufeff{\"message\":{\"content\":\"forty\"},\"done\":true}\n", "forty|", chat.Reply{Text: "forty"}, ""},
		{"openai", "data: nonsense\n\n", "", chat.Reply{}, "invalid response"},
		{"openai", "data: [DONE]\n\n", "", chat.Reply{}, "no content"},
		{"ollama", "{\"message\":{\"content\":\" \\n\"},\"done\":true}\n", " \n|", chat.Reply{}, "invalid response: no content"},
		{"openai", "data: {\"choices\":[{\"delta\":{\"content\":\"\\n\"},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n", "\n|", chat.Reply{}, "no content: the model stopped (length)"},
		{"ollama", "{\"message\":{\"content\":\"stop\"}}\n{\"message\":{\"content\":\"more\"}}\n", "stop|", chat.Reply{}, "enough"},
		{"ollama", strings.Repeat("x", 2<<20), "", chat.Reply{}, "an event of more than 1048576 bytes"},

		// A model that stops before its answer ends.
		{"openai", "data: {\"choices\":[{\"delta\":{\"content\":\"forty\"},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n", "forty|", chat.Reply{Text: "forty", Cut: "length"}, ""},
		{"openai", "data: {\"choices\":[{\"delta\":{\"content\":\"forty\"}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"content_filter\"}]}\n\n", "forty|", chat.Reply{Text: "forty", Cut: "content_filter"}, ""},
		{"openai", "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n", "", chat.Reply{}, "no content: the model stopped (length)"},
		{"ollama", "{\"message\":{\"content\":\"forty\"},\"done\":true,\"done_reason\":\"length\"}\n", "forty|", chat.Reply{Text: "forty", Cut: "length"}, ""},
		{"ollama", "{\"message\":{\"content\":\"forty\"},\"done\":true,\"done_reason\":\"stop\"}\n", "forty|", chat.Reply{Text: "forty"}, ""},

		// Answers that are no streams.
		{"openai", "{\n  \"choices\": [{\"message\": {\"content\": \"secret-key\"}}]\n}\n", "", chat.Reply{}, "no event stream, but text/plain: { \"choices\": [{\"message\": {\"content\": \"[secret]\"}}] }"},
		{"openai", "<!DOCTYPE html>\n<title>Sign in</title>", "", chat.Reply{}, "no event stream, but text/html: <!DOCTYPE html> <title>Sign in"},
		{"openai", "", "", chat.Reply{}, "no event stream, but nothing"},
		{"ollama", "<!DOCTYPE html>\n<title>Sign in</title>", "", chat.Reply{}, "<!DOCTYPE html>"},

		// Long answers. Reasoning, which is no part of the text, may be longer than it.
		{"openai", strings.Repeat(": wait"+strings.Repeat(".", 1<<16)+"\n\n", 1<<10), "", chat.Reply{}, "more than 67108864 bytes"},
		{"ollama", strings.Repeat("{\"message\":{\"thinking\":\""+strings.Repeat("x", 1<<19)+"\"}}\n", 1<<7), "", chat.Reply{}, "more than 67108864 bytes"},
		{"ollama", strings.Repeat("{\"message\":{\"thinking\":\""+strings.Repeat("x", 1<<19)+"\"}}\n", 1<<5) + "{\"message\":{\"content\":\"forty\"},\"done\":true}\n", "forty|", chat.Reply{Text: "forty"}, ""},
		{"ollama", strings.Repeat("{\"message\":{\"content\":\""+half+"\"}}\n", 17), strings.Repeat(half+"|", 16), chat.Reply{}, "a text of more than 8388608 bytes"},
	} {
		answer = tt.answer
		parts := ""
		reply, err := clients[tt.client].Answer(t.Context(), "what?", "", func(text string) error {
			parts += text + "|"
			if text == "stop" {
				return stop
			}
			return nil
		})
		if reply != tt.reply || parts != tt.parts || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%.60q: %+v, %q, %v", tt.answer, reply, parts, err)
		}
	}
	status, answer = http.StatusUnauthorized, "secret-key is wrong"
	if _, err := clients["openai"].Answer(t.Context(), "what?", "", func(string) error { return nil }); err == nil || !strings.Contains(err.Error(), "401") || strings.Contains(err.Error(), "secret-key") {
		t.Error(err)
	}
}

// TestStreamOfManyParts: the text of an answer is not copied for each part of it.
func TestStreamOfManyParts(t *testing.T) {
	const parts = 8000
	part := strings.Repeat("x", 200)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range parts {
			_, _ = io.WriteString(w, "{\"message\":{\"content\":\""+part+"\"}}\n")
		}
		_, _ = io.WriteString(w, "{\"done\":true}\n")
	}))
	defer server.Close()
	client := &chat.Client{API: chat.Ollama, Base: server.URL, Model: "m"}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	reply, err := client.Answer(t.Context(), "what?", "", func(string) error { return nil })
	runtime.ReadMemStats(&after)
	if err != nil || reply.Text != strings.Repeat(part, parts) {
		t.Fatal(len(reply.Text), err)
	}
	// Copies would be parts/2 times the text, more than 6 GB.
	if got := after.TotalAlloc - before.TotalAlloc; got > 200<<20 {
		t.Errorf("%d bytes allocated for a text of %d", got, len(reply.Text))
	}
}

// TestStreamWithoutEvents: the error for a body that is no event stream quotes it. An event stream
// that has comments only is an answer that ends early.
func TestStreamWithoutEvents(t *testing.T) {
	kind, answer := "", ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	client := &chat.Client{Base: server.URL, Model: "m"}
	const stream, early = "text/event-stream; charset=utf-8", "the answer ends early"
	for _, tt := range []struct{ kind, answer, err string }{
		{stream, ": keepalive\n\n: keepalive\n\n", early},
		{stream, "event: ping\ndata:\n\n", early},
		{stream, "retry: 1000\nid: 1\n\n", early},
		{stream, "", early},
		{"text/plain", ": keepalive\n\n", early},
		{"text/plain", "event: ping\n", early},
		{stream, "{\"detail\": \"overloaded\"}\n", "an event stream without events: {\"detail\": \"overloaded\"}"},
		{"application/json", "{\"detail\": \"overloaded\"}\n", "no event stream, but application/json: {\"detail\": \"overloaded\"}"},
		{"text/html", "<title>note: sign in</title>", "no event stream, but text/html: <title>note: sign in</title>"},
		{"text/html", "", "no event stream, but nothing"},
	} {
		kind, answer = tt.kind, tt.answer
		_, err := client.Answer(t.Context(), "what?", "", func(string) error { return nil })
		if err == nil || err.Error() != "chat: invalid response: "+tt.err {
			t.Errorf("%s, %q: %v, want %s", tt.kind, tt.answer, err, tt.err)
		}
	}
}
