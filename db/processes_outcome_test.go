//go:build linux || darwin

package db

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/share"
)

// A wire stands between a leader and the processes that connect to it.
type wire struct {
	t        *testing.T
	listener *net.UnixListener
	leader   string // path of its socket
	group    sync.WaitGroup

	mu    sync.Mutex
	conns []*wireConn
	// pass is called with each message, by one goroutine at a time, and may keep it back. nil lets
	// everything through.
	pass func(c *wireConn, m share.Message) bool
	// send writes the frame of a message. If it returns an error, the connection is cut.
	send func(c *wireConn, to *net.UnixConn, m share.Message, frame []byte) error
}

// A wireConn is one connection: down to the process that follows, up to the leader.
type wireConn struct {
	down, up *net.UnixConn
	kept     bool // one end does not learn that the other one has ended
}

// shortDir returns a directory with room for the path of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "vecbolt-")
	if err != nil {
		dir, err = os.MkdirTemp("", "v")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// newWire puts a wire before the socket of the leader of a database.
func newWire(t *testing.T, dir string) *wire {
	t.Helper()
	path := filepath.Join(dir, engine.SocketName)
	w := &wire{t: t, leader: filepath.Join(shortDir(t), "leader")}
	w.send = func(_ *wireConn, to *net.UnixConn, _ share.Message, frame []byte) error {
		_, err := to.Write(frame)
		return err
	}
	err := os.Rename(path, w.leader)
	if err == nil {
		w.listener, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	}
	if err != nil {
		t.Fatal(err)
	}
	w.listener.SetUnlinkOnClose(false)
	w.group.Go(w.accept)
	t.Cleanup(func() {
		w.listener.Close()
		w.cut()
		w.group.Wait()
	})
	return w
}

// cut ends all connections.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.cut()
	}
}

func (w *wire) accept() {
	for {
		down, err := w.listener.AcceptUnix()
		if err != nil {
			return
		}
		up, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: w.leader, Net: "unix"})
		if err != nil { // the leader has ended
			down.Close()
			continue
		}
		c := &wireConn{down: down, up: up}
		w.mu.Lock()
		w.conns = append(w.conns, c)
		w.mu.Unlock()
		w.group.Go(func() { w.carry(c, down, up) })
		w.group.Go(func() { w.carry(c, up, down) })
	}
}

// carry takes messages from one end of a connection to the other, until one of them ends.
func (w *wire) carry(c *wireConn, from, to *net.UnixConn) {
	in := bufio.NewReader(from)
	for {
		var frame bytes.Buffer
		m, err := share.Read(io.TeeReader(in, &frame))
		if err != nil {
			break
		}
		w.mu.Lock()
		ok, send := w.pass == nil || w.pass(c, m), w.send
		w.mu.Unlock()
		if !ok {
			continue
		}
		var ended *net.OpError
		switch err := send(c, to, m, frame.Bytes()); {
		case err == nil:
			continue
		case errors.As(err, &ended):
			return // what the other end has sent before it closed is still on its way
		}
		break
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !c.kept {
		c.cut()
	}
}

func (c *wireConn) cut() {
	c.down.Close()
	c.up.Close()
}

// arm sets the function that is called with messages.
func (w *wire) arm(pass func(c *wireConn, m share.Message) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pass = pass
}

// lost returns a function for arm. Once a write is on its way, messages of the leader are kept
// back. When the leader has committed the write, or before it gets it, it calls end and cuts the
// connection, and lets everything through from then on.
func (w *wire) lost(committed bool, end func()) func(c *wireConn, m share.Message) bool {
	var writer *wireConn // the connection of the write
	over := func() bool {
		w.pass = nil
		end()
		writer.cut()
		return false
	}
	return func(c *wireConn, m share.Message) bool {
		switch m.(type) {
		case share.WriteOps, share.Decided:
			writer, c.kept = c, true
			return committed || over()
		case share.Result:
			return c != writer || over()
		}
		return c != writer
	}
}

// An unansweredWrite is a write whose leader ends before it answers.
type unansweredWrite struct {
	name  string
	write func(t *testing.T, vdb *DB, docs *Collection) error
}

func wantDeleted(n, want int, err error) error {
	if err == nil && n != want {
		err = fmt.Errorf("%d documents deleted, want %d", n, want)
	}
	return err
}

var unansweredWrites = []unansweredWrite{
	{"insert", func(t *testing.T, _ *DB, docs *Collection) error {
		_, err := docs.Insert(t.Context(), Document{ID: "new", Text: "Tea."})
		return err
	}},
	{"delete", func(t *testing.T, _ *DB, docs *Collection) error {
		n, err := docs.Delete(t.Context(), "0", "1", "not there", "0")
		return wantDeleted(n, 2, err)
	}},
	{"delete by a filter", func(t *testing.T, _ *DB, docs *Collection) error {
		n, err := docs.DeleteWhere(t.Context(), filter.Gte("n", 7))
		return wantDeleted(n, 3, err)
	}},
	{"create a collection", func(t *testing.T, vdb *DB, _ *Collection) error {
		c, err := vdb.CreateCollection(t.Context(), "new", Schema{Dim: 2}, nil)
		if err != nil {
			return err
		}
		info, err := c.Info()
		if err == nil && info.Name != "new" {
			err = fmt.Errorf("collection %q", info.Name)
		}
		return err
	}},
}

// unanswered opens a database with ten documents in a leader, and the same one in followers over a
// wire.
func unanswered(t *testing.T, followers int) (w *wire, leader *DB, others []*DB) {
	t.Helper()
	dir := filepath.Join(shortDir(t), "db")
	leader = open(t, dir, nil)
	docs := collection(t, leader, "docs", Schema{})
	for i := range 10 {
		upsert(t, docs, Document{ID: fmt.Sprint(i), Metadata: Metadata{"n": i}})
	}
	w = newWire(t, dir)
	for range followers {
		others = append(others, open(t, dir, nil))
	}
	return w, leader, others
}

// TestUnansweredWrites loses the answer to a write, after the leader has committed it or before the
// leader has got it. Whoever leads then, the write is acknowledged and was applied once.
func TestUnansweredWrites(t *testing.T) {
	bounded(t)
	for _, next := range []string{"this process", "another process", "the same process"} {
		for _, committed := range []bool{true, false} {
			for _, u := range unansweredWrites {
				t.Run(fmt.Sprintf("%s leads, committed %v, %s", next, committed, u.name), func(t *testing.T) {
					followers, batches := 1, uint64(1)
					if next == "another process" {
						followers, batches = 2, 2
					}
					w, leader, others := unanswered(t, followers)
					vdb := others[0]
					docs := existing(t, vdb, "docs")
					var ended error
					w.arm(w.lost(committed, func() {
						switch next {
						case "this process":
							leader.abandon()
							ended = leader.Close()
						case "another process":
							leader.abandon()
							w.mu.Unlock() // the other process uses the wire
							ended = leader.Close()
							_, err := existing(t, others[1], "docs").Upsert(t.Context(), Document{ID: "of the next leader"})
							ended = errors.Join(ended, err)
							w.mu.Lock()
						}
					}))
					before := vdb.engine.Seen()
					if err := u.write(t, vdb, docs); err != nil {
						t.Fatal(err)
					}
					w.arm(nil) // waits for end
					if ended != nil {
						t.Fatal(ended)
					}
					if err := vdb.Barrier(t.Context()); err != nil {
						t.Fatal(err)
					}
					if n := vdb.engine.Seen() - before; n != batches {
						t.Fatalf("%d batches, want %d", n, batches)
					}
					check(t, vdb)
				})
			}
		}
	}
}

// TestForgottenWrite loses the answer to a write whose batch the leader has flushed: the log no
// longer tells the next leader whose it was.
func TestForgottenWrite(t *testing.T) {
	bounded(t)
	w, leader, others := unanswered(t, 1)
	docs := existing(t, others[0], "docs")
	var ended error
	w.arm(w.lost(true, func() { ended = leader.Close() }))
	_, err := docs.Insert(t.Context(), Document{ID: "new"})
	w.arm(nil) // waits for the end of the leader
	if ended != nil || !errors.Is(err, ErrUnknown) || strings.Contains(err.Error(), "reopen") {
		t.Fatal(ended, err)
	}
	if _, err := docs.Insert(t.Context(), Document{ID: "new"}); !errors.Is(err, ErrExists) {
		t.Fatal(err)
	}
}

// TestNoOutcome asks a leader for the outcome of a write that never answers. The write waits as
// long as its context, and its error says that the outcome is unknown.
func TestNoOutcome(t *testing.T) {
	bounded(t)
	w, leader, others := unanswered(t, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := false
	w.arm(w.lost(true, func() {
		w.pass = func(_ *wireConn, m share.Message) bool {
			_, asks := m.(share.Outcome)
			if asks {
				asked = true
				cancel()
			}
			return !asks
		}
	}))
	_, err := existing(t, others[0], "docs").Insert(ctx, Document{ID: "new"})
	w.arm(nil)
	if !asked || !errors.Is(err, ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Error(asked, err)
	}
	for _, vdb := range []*DB{leader, others[0]} {
		if err := vdb.Barrier(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := existing(t, vdb, "docs").Get(t.Context(), "new", WithText); err != nil {
			t.Error(err)
		}
	}
}

// TestRequestTwice gives the leader a request again when it has applied it. The second answer is as
// the first, and nothing is applied.
func TestRequestTwice(t *testing.T) {
	bounded(t)
	for _, u := range unansweredWrites[:2] {
		t.Run(u.name, func(t *testing.T) {
			w, leader, others := unanswered(t, 1)
			var request share.Message
			var answers []share.Result
			w.arm(func(c *wireConn, m share.Message) bool {
				switch m := m.(type) {
				case share.WriteOps:
					request = m
				case share.Result:
					if answers = append(answers, m); len(answers) == 1 {
						if err := share.Write(c.up, request); err != nil {
							t.Error(err)
						}
						return false
					}
				}
				return true
			})
			before := leader.engine.Seen()
			if err := u.write(t, others[0], existing(t, others[0], "docs")); err != nil {
				t.Error(err)
			}
			w.arm(nil)
			if len(answers) != 2 || answers[0].Deleted != answers[1].Deleted || answers[1].Err != nil {
				t.Errorf("%+v", answers)
			}
			if n := leader.engine.Seen() - before; n != 1 {
				t.Errorf("%d batches", n)
			}
		})
	}
}

// TestLateRequest loses a connection on which a write is still under way when the process asks over
// another connection for its outcome. Its answer must stay true.
func TestLateRequest(t *testing.T) {
	bounded(t)
	w, leader, others := unanswered(t, 1)
	var request share.Message
	var first *wireConn
	asked := uint64(0)
	w.arm(func(c *wireConn, m share.Message) bool {
		switch m := m.(type) {
		case share.WriteOps:
			if first == nil {
				request, first = m, c
				c.kept = true
				c.down.Close()
				return false
			}
		case share.Outcome:
			asked = m.Request
		case share.Result:
			switch {
			case c == first:
				t.Errorf("the leader has worked on a connection that was given up: %+v", m)
			case m.Request == asked && asked != 0:
				asked = 0
				_ = share.Write(first.up, request)
				w.mu.Unlock()
				in := bufio.NewReader(first.up)
				for { // until the leader ends the connection
					late, err := share.Read(in)
					if err != nil {
						break
					}
					if _, answered := late.(share.Result); answered {
						t.Errorf("the leader has worked on a connection that was given up: %+v", late)
						break
					}
				}
				w.mu.Lock()
			}
		}
		return true
	})
	before := leader.engine.Seen()
	if err := unansweredWrites[0].write(t, others[0], existing(t, others[0], "docs")); err != nil {
		t.Error(err)
	}
	w.arm(nil)
	if n := leader.engine.Seen() - before; n != 1 || first == nil {
		t.Errorf("%d batches", n)
	}
}
