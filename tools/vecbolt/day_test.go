package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/vecbolt/vecbolt/internal/browsertest"
)

// chatModel VARIABLE starts a chat model with the API of Ollama, and stores its URL in a variable
// of the environment. It answers with the last line of the first source, and cites it. It breaks
// down at a question with the word "broken", and stops early at one with the word "long".
func chatModel(ts *testscript.TestScript, _ bool, args []string) {
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Stream   bool
			Messages []struct{ Content string }
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || len(body.Messages) == 0 {
			http.Error(w, "no messages", http.StatusBadRequest)
			return
		}
		write := json.NewEncoder(w)
		said := body.Messages[len(body.Messages)-1].Content
		words := []string{reply(said)}
		if body.Stream {
			words = strings.SplitAfter(words[0], " ")
		}
		_, question, _ := strings.Cut(said, "\nQuestion: ")
		broken := strings.Contains(question, "broken")
		for i, word := range words {
			if broken && (i > 0 || !body.Stream) {
				_ = write.Encode(map[string]any{"error": "out of memory"})
				return
			}
			_ = write.Encode(map[string]any{"message": map[string]string{"content": word}})
		}
		if !body.Stream {
			return
		}
		reason := "stop"
		if strings.Contains(question, "long") {
			reason = "length"
		}
		_ = write.Encode(map[string]any{"done": true, "done_reason": reason, "prompt_eval_count": len(strings.Fields(said)), "eval_count": 3})
	}))
	ts.Defer(model.Close)
	ts.Setenv(args[0], model.URL)
}

// reply is the answer of the chat model to a message.
func reply(said string) string {
	if topic, message, ok := strings.Cut(said, "\nMessage: "); ok { // which topic is it about?
		return strings.TrimPrefix(topic, "Topic so far: ") + " " + message
	}
	sources, _, _ := strings.Cut(strings.TrimPrefix(said, "Sources:\n"), "\nQuestion: ")
	first, _, _ := strings.Cut(sources, "\n\n[2]")
	lines := strings.Split(strings.TrimSpace(first), "\n")
	return lines[len(lines)-1] + " [1]."
}

func TestReply(t *testing.T) {
	for said, want := range map[string]string{
		"Sources:\n[1] [Source: a.md:1]\n# A\n\nOne.\n\n[2] [Source: b.md:1]\nTwo.\n\nQuestion: what?": "One. [1].",
		"Topic so far: roses\nMessage: when?": "roses when?",
	} {
		if got := reply(said); got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}

// agent TOOL JSON [TOKEN] calls a tool of the server as an agent does; agent -pipe TOOL JSON
// ARGS... one of a command that serves agents. What it returns goes to the file "answer"; after "!"
// that is an error.
func agent(ts *testscript.TestScript, refused bool, args []string) {
	ctx := context.Background()
	var transport sdk.Transport
	if args[0] == "-pipe" {
		args = args[1:]
		cmd := exec.CommandContext(ctx, "vecbolt", args[2:]...)
		cmd.Dir = ts.MkAbs(".")
		transport = &sdk.CommandTransport{Command: cmd}
	} else {
		token := bearer("")
		if len(args) > 2 {
			token = bearer(args[2])
		}
		transport = &sdk.StreamableClientTransport{Endpoint: ts.Value(servedKey{}).(*served).url + "/mcp", HTTPClient: &http.Client{Transport: token}}
	}
	s, err := sdk.NewClient(&sdk.Implementation{Name: "story", Version: "1"}, nil).Connect(ctx, transport, nil)
	ts.Check(err)
	r, err := s.CallTool(ctx, &sdk.CallToolParams{Name: args[0], Arguments: json.RawMessage(args[1])})
	ts.Check(err)
	ts.Check(s.Close())
	text := r.Content[0].(*sdk.TextContent).Text
	if r.IsError != refused {
		ts.Fatalf("%s: %s", args[0], text)
	}
	ts.Check(os.WriteFile(ts.MkAbs("answer"), []byte(text), 0o600))
}

// A shown is a browser that a story has opened.
type shown struct{ *browsertest.Browser }

type shownKey struct{}

// storyT lets a browser end a story.
type storyT struct{ *testscript.TestScript }

func (storyT) Helper() {}

// browser drives a browser that shows the server:
//
//	browser open TOKEN              opens the page, with a token
//	browser at FRAGMENT             goes to a view
//	browser click SELECTOR          clicks on an element
//	browser type SELECTOR TEXT      replaces the text of a field
//	browser choose SELECTOR VALUE   chooses a value of a list
//	browser sees SELECTOR TEXT      waits until an element has a text
//	browser done                    fails if the page had an error
func browser(ts *testscript.TestScript, _ bool, args []string) {
	p := ts.Value(shownKey{}).(*shown)
	switch verb, args := args[0], args[1:]; verb {
	case "open":
		b, err := browsertest.Open(context.Background(), storyT{ts})
		ts.Check(err)
		p.Browser = b
		ts.Defer(b.Close)
		b.Visit(ts.Value(servedKey{}).(*served).url + "/")
		b.Until(`document.querySelector("#ask").open && document.activeElement.type === "password"`)
		b.Insert(args[0])
		b.Press("Enter")
		b.Says("#status", "healthy")
		b.Errs = nil // the request without a token
	case "at":
		p.Eval(fmt.Sprintf(`location.hash = %q`, args[0]))
		p.Until(`$("busy").textContent === ""`)
	case "click":
		p.Click(args[0])
	case "type":
		p.Click(args[0])
		p.Eval(fmt.Sprintf(`document.querySelector(%q).value = ""`, args[0]))
		p.Insert(args[1])
	case "choose":
		p.Until(fmt.Sprintf(`document.querySelector(%q) !== null`, args[0]))
		p.Eval(fmt.Sprintf(`document.querySelector(%q).value = %q`, args[0], args[1]))
	case "sees":
		p.Says(args[0], args[1])
	case "done":
		if len(p.Errs) > 0 {
			ts.Fatalf("the browser complains: %s", strings.Join(p.Errs, "\n"))
		}
	default:
		ts.Fatalf("browser: no verb %s", verb)
	}
}

// conditions are those of stories, beyond those of testscript.
func conditions(name string) (bool, error) {
	if name == "browser" {
		_, err := browsertest.Find()
		return err == nil, nil
	}
	return false, fmt.Errorf("no condition %s", name)
}
