package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Stdio returns a transport for Server.Run: one message per line, from standard input to standard
// output or from any other reader to any writer. When the input ends, requests under way are still
// answered before Run returns; sdk.IOTransport cancels them. They are cancelled when the context of
// Run ends. A line that is no JSON-RPC message, a batch, a line of more than
// sdk.DefaultMaxLineLength bytes, a request with the id of one under way and one whose id is a
// number but no integer below 2^53 are answered with an error, and the session goes on. Each
// message is written with one call of Write. Run does not close in, and may return while a Read of
// it still blocks.
func Stdio(in io.Reader, out io.Writer) sdk.Transport {
	return &stdio{in: in, out: out}
}

type stdio struct {
	in  io.Reader
	out io.Writer
}

// Connect implements sdk.Transport.
func (s *stdio) Connect(ctx context.Context) (sdk.Connection, error) {
	c := &stdioConn{run: ctx, out: s.out, lines: make(chan inputLine), closed: make(chan struct{}),
		open: map[jsonrpc.ID]bool{}, answered: make(chan struct{}, 1)}
	c.close = sync.OnceFunc(func() { close(c.closed) })
	go c.scan(bufio.NewReaderSize(s.in, 64<<10))
	return c, nil
}

type stdioConn struct {
	// run is the context of Run. The SDK hides its end from Read and from the tools, and waits for
	// the tools. It cancels them when Read fails.
	run context.Context

	lines  chan inputLine // closed after err is set
	err    error          // why the input ended
	closed chan struct{}
	close  func()

	writing sync.Mutex // held while a line is written
	out     io.Writer

	mu   sync.Mutex
	open map[jsonrpc.ID]bool // requests without an answer, and whether the end of the input waits

	waiting  atomic.Int64  // requests that the end of the input waits for
	answered chan struct{} // signals that waiting has changed
}

// inputLine is a line of the input.
type inputLine struct {
	text []byte // without space around it
	long bool   // the line is too long, and text is empty
}

// subscribe is the method of requests that have no answer before the client cancels them.
const subscribe = "subscriptions/listen"

// scan reads lines until the input ends or the connection is closed.
func (c *stdioConn) scan(r *bufio.Reader) {
	defer close(c.lines)
	for {
		line, err := nextLine(r)
		if line.long || len(line.text) > 0 {
			select {
			case c.lines <- line:
			case <-c.closed:
				err = io.EOF
			}
		}
		if err != nil {
			c.err = err
			return
		}
	}
}

// nextLine reads a line. The last one needs no newline.
func nextLine(r *bufio.Reader) (line inputLine, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if line.long = line.long || len(line.text)+len(bytes.TrimRight(part, "\r\n")) > sdk.DefaultMaxLineLength; line.long {
			line.text = nil
		} else {
			line.text = append(line.text, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			line.text = bytes.TrimSpace(line.text)
			return line, err
		}
	}
}

// Read implements sdk.Connection.
func (c *stdioConn) Read(context.Context) (jsonrpc.Message, error) {
	for {
		select {
		case <-c.run.Done():
			return nil, c.run.Err()
		case <-c.closed:
			return nil, io.EOF
		case line, ok := <-c.lines:
			if !ok {
				return nil, c.end()
			}
			msg, bad := c.accept(line)
			if bad == nil {
				return msg, nil
			}
			if err := c.reject(bad, line.text); err != nil {
				return nil, err
			}
		}
	}
}

// end waits for the answers to all requests and returns why the input ended. The SDK answers
// cancelled requests as well.
func (c *stdioConn) end() error {
	for c.waiting.Load() > 0 {
		select {
		case <-c.answered:
		case <-c.closed:
			return io.EOF
		case <-c.run.Done():
			return c.run.Err()
		}
	}
	return c.err
}

// accept decodes a line, and notes a request until it is answered.
func (c *stdioConn) accept(line inputLine) (jsonrpc.Message, *jsonrpc.Error) {
	invalid := func(format string, args ...any) (jsonrpc.Message, *jsonrpc.Error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
	}
	if line.long {
		return invalid("the line is longer than %d bytes", sdk.DefaultMaxLineLength)
	}
	var value json.RawMessage
	if err := json.Unmarshal(line.text, &value); err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: fmt.Sprintf("the line is not JSON: %v", err)}
	}
	if value[0] != '{' {
		return invalid("the line is no object; batches are not supported")
	}
	if id := idOf(line.text); isChanged(id) {
		return nil, changedID(id)
	}
	msg, err := jsonrpc.DecodeMessage(line.text)
	if err != nil {
		return invalid("%v", err)
	}
	if r, ok := msg.(*jsonrpc.Response); ok && r.Result == nil && r.Error == nil {
		return invalid("the message has no method, result or error")
	}
	req, ok := msg.(*jsonrpc.Request)
	if !ok || !req.IsCall() {
		return msg, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, used := c.open[req.ID]; used {
		return invalid("the id %v is that of a request under way", req.ID.Raw())
	}
	awaited := req.Method != subscribe
	if c.open[req.ID] = awaited; awaited {
		c.waiting.Add(1)
	}
	return msg, nil
}

// idOf returns the id of a line as it is written, or nil.
func idOf(line []byte) json.RawMessage {
	var sent struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal(line, &sent) // DecodeMessage has the error
	return sent.ID
}

// isChanged reports whether an id is a number that the SDK, which reads numbers as float64, would
// answer with another one.
func isChanged(id json.RawMessage) bool {
	if len(id) == 0 || !strings.ContainsRune("-0123456789", rune(id[0])) {
		return false
	}
	n, err := strconv.ParseInt(string(id), 10, 64)
	return err != nil || n <= -1<<53 || n >= 1<<53
}

// changedID is the error for an id that isChanged.
func changedID(id json.RawMessage) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf("the id %.50s is no integer below 2^53", id)}
}

// reject answers a line with an error. The id is null unless the line has one that no request under
// way has.
func (c *stdioConn) reject(why *jsonrpc.Error, line []byte) error {
	sent := idOf(line)
	var value any
	_ = json.Unmarshal(sent, &value) // of no id: nil
	id, err := jsonrpc.MakeID(value)
	c.mu.Lock()
	if _, used := c.open[id]; used || err != nil || isChanged(sent) {
		sent = nil
	}
	c.mu.Unlock()
	b, err := encodeError(sent, why)
	if err != nil {
		return fmt.Errorf("mcp: %w", err)
	}
	return c.writeLine(b)
}

// encodeError returns an answer with an error. The id is null if it is nil: jsonrpc.EncodeMessage
// leaves such an id out, which JSON-RPC requires.
func encodeError(id json.RawMessage, why *jsonrpc.Error) ([]byte, error) {
	return json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *jsonrpc.Error  `json:"error"`
	}{"2.0", id, why})
}

// Write implements sdk.Connection.
func (c *stdioConn) Write(_ context.Context, msg jsonrpc.Message) error {
	if r, ok := msg.(*jsonrpc.Response); ok {
		// Before the answer is written: with it, the client may use the id again.
		c.mu.Lock()
		awaited := c.open[r.ID]
		delete(c.open, r.ID)
		c.mu.Unlock()
		if awaited {
			defer func() {
				c.waiting.Add(-1)
				select {
				case c.answered <- struct{}{}:
				default: // signalled already
				}
			}()
		}
	}
	b, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("mcp: %w", err)
	}
	return c.writeLine(b)
}

func (c *stdioConn) writeLine(b []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.out.Write(append(b, '\n'))
	return err
}

// Close implements sdk.Connection.
func (c *stdioConn) Close() error {
	c.close()
	return nil
}

// SessionID implements sdk.Connection. Sessions over pipes have no ids.
func (c *stdioConn) SessionID() string { return "" }
