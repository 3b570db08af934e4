package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vecbolt/vecbolt/db"
)

const hello = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`

// A request and the answer to it.
const (
	ping = `{"jsonrpc":"2.0","id":"ping","method":"ping"}`
	pong = `"ping" answered`
)

// talk serves an input until it ends, and returns the ids of all answers but that to hello, with
// the codes of errors, in order.
func talk(t *testing.T, server *sdk.Server, in io.Reader) (answers []string) {
	t.Helper()
	var out bytes.Buffer
	if err := server.Run(t.Context(), Stdio(in, &out)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		var a struct {
			ID    json.RawMessage
			Error *struct{ Code int }
		}
		if err := json.Unmarshal([]byte(line), &a); err != nil || !strings.HasSuffix(line, "\n") {
			t.Fatalf("%.200q: %v", line, err)
		}
		switch {
		case a.ID == nil: // a notification
		case a.Error != nil:
			answers = append(answers, fmt.Sprint(string(a.ID), " ", a.Error.Code))
		case string(a.ID) != `"hello"`:
			answers = append(answers, string(a.ID)+" answered")
		}
	}
	slices.Sort(answers)
	return answers
}

// Lines that are no messages are answered, and the session goes on.
func TestLinesThatAreNoMessages(t *testing.T) {
	long := strings.Repeat("x", sdk.DefaultMaxLineLength-2)
	for _, tt := range []struct {
		line string
		want []string
	}{
		{"", nil},
		{" \t\r", nil},
		{"not json", []string{"null -32700"}},
		{`{"jsonrpc":"2.0","id":1`, []string{"null -32700"}},
		{ping + ping, []string{"null -32700"}},
		{"[]", []string{"null -32600"}},
		{"[" + ping + "]", []string{"null -32600"}},
		{"null", []string{"null -32600"}},
		{`"text"`, []string{"null -32600"}},
		{"{}", []string{"null -32600"}},
		{`{"jsonrpc":"1.0","id":1,"method":"ping"}`, []string{"1 -32600"}},
		{`{"id":"x","method":"ping"}`, []string{`"x" -32600`}},
		{`{"jsonrpc":"2.0","id":true,"method":"ping"}`, []string{"null -32600"}},
		{`{"jsonrpc":"2.0","id":1,"method":1}`, []string{"1 -32600"}},
		{`{"jsonrpc":"2.0","id":9007199254740991,"method":"none"}`, []string{"9007199254740991 -32601"}},
		{`{"jsonrpc":"2.0","id":-9007199254740993,"method":"ping"}`, []string{"null -32600"}},
		{`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, []string{"null -32600"}},
		{`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, []string{"null -32600"}},
		{`{"jsonrpc":"2.0","id":99999999999999999999999,"method":"ping"}`, []string{"null -32600"}},
		{`{"jsonrpc":"2.0","id":1}`, []string{"1 -32600"}},
		{`{"jsonrpc":"2.0","id":1,"result":{}}`, nil}, // the answer to nothing
		{`"` + long + `"`, []string{"null -32600"}},
		{`"` + long + `x"`, []string{"null -32600"}},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + long + `"}}`, []string{"null -32600"}},
	} {
		for _, end := range []string{"\n" + ping + "\n", "\r\n" + ping, "\n"} {
			want := slices.Clone(tt.want)
			if strings.Contains(end, ping) {
				want = append(want, pong)
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, talk(t, NewServer(nil, nil), strings.NewReader(hello+tt.line+end))); diff != "" {
				t.Errorf("%.100s, then %q: (-want +got)\n%s", tt.line, end, diff)
			}
			if len(tt.line) > 1<<20 {
				break // one end is enough
			}
		}
	}
	// Before the session begins, too.
	want := []string{pong, "1 0", "null -32600", "null -32700"}
	slices.Sort(want)
	first := "{\n[]\n" + `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n" + ping + "\n"
	if diff := cmp.Diff(want, talk(t, NewServer(nil, nil), strings.NewReader(first+hello))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// ending calls a function when its text is read, before it ends.
type ending struct {
	io.Reader
	before func()
}

func (e ending) Read(b []byte) (int, error) {
	n, err := e.Reader.Read(b)
	if err != nil {
		e.before()
	}
	return n, err
}

// A request that is under way when the input ends is answered.
func TestInputEndsEarly(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{}}}` + "\n"
	const listen = `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true},"_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n"
	var many strings.Builder
	var manyAnswers []string
	for i := range 100 {
		fmt.Fprintf(&many, call, i, "slow")
		manyAnswers = append(manyAnswers, fmt.Sprint(i, " answered"))
	}
	slices.Sort(manyAnswers)
	for name, tt := range map[string]struct {
		in    string
		stuck string // what follows when the tool "stuck" has begun
		want  []string
	}{
		"call":    {hello + fmt.Sprintf(call, 1, "slow"), "", []string{"1 answered"}},
		"many":    {hello + many.String(), "", manyAnswers},
		"no line": {hello + strings.TrimSpace(fmt.Sprintf(call, 1, "slow")), "", []string{"1 answered"}},
		// The end of the input is seen once the last line is taken, and so the second call refused.
		"same id": {hello + strings.Repeat(fmt.Sprintf(call, 1, "slow"), 2) + ping + "\n", "", []string{pong, "1 answered", "null -32600"}},
		"cancelled": {hello + fmt.Sprintf(call, 1, "stuck"),
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n", []string{"1 answered"}},
		// A subscription has no answer while it lasts.
		"subscription": {listen + ping, "", []string{pong}},
	} {
		t.Run(name, func(t *testing.T) {
			ended, begun := make(chan struct{}), make(chan struct{})
			server := NewServer(nil, nil)
			sdk.AddTool(server, &sdk.Tool{Name: "slow"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
				<-ended
				return nil, nil, ctx.Err()
			})
			sdk.AddTool(server, &sdk.Tool{Name: "stuck"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
				close(begun)
				<-ctx.Done()
				return nil, nil, ctx.Err()
			})
			var in io.Reader = strings.NewReader(tt.in)
			if tt.stuck != "" {
				in = io.MultiReader(ending{in, func() { <-begun }}, strings.NewReader(tt.stuck))
			}
			in = ending{in, func() { close(ended) }}
			if diff := cmp.Diff(tt.want, talk(t, server, in)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// A write whose client goes away at once is done.
func TestWriteAtTheEnd(t *testing.T) {
	vdb := database(t)
	server := NewServer(vdb, &Options{AllowWrite: true})
	in := hello + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"upsert_documents","arguments":` +
		`{"collection":"plain","documents":[{"id":"m","vector":[1,0]}]}}}`
	if diff := cmp.Diff([]string{"1 answered"}, talk(t, server, strings.NewReader(in))); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	plain, err := vdb.Collection("plain")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plain.Get(t.Context(), "m", db.IDsOnly); err != nil {
		t.Error(err)
	}
}

// An interruption ends requests that wait for something, such as a model.
func TestInterrupted(t *testing.T) {
	for _, open := range []bool{false, true} {
		t.Run(fmt.Sprint("input open: ", open), func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			server := NewServer(nil, nil)
			sdk.AddTool(server, &sdk.Tool{Name: "stuck"}, func(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
				interrupt()
				<-ctx.Done()
				return nil, nil, ctx.Err()
			})
			var in io.Reader = strings.NewReader(hello + `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"stuck","arguments":{}}}` + "\n")
			if open {
				more, end := io.Pipe()
				defer end.Close()
				in = io.MultiReader(in, more)
			}
			ended := make(chan error, 1)
			go func() { ended <- server.Run(ctx, Stdio(in, io.Discard)) }()
			select {
			case err := <-ended:
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			case <-time.After(30 * time.Second): // it would wait for ever
				t.Fatal("the request goes on")
			}
		})
	}
}
