package share

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A link is the connection to a leader.
type link struct {
	number uint64 // no other link of this process has it
	socket *socket
	pid    int // of the leader, or 0: see checkPeer
	since  time.Time
	failed time.Time // when taking its place failed last; guarded by Member.deposing
	source *source
	wait   time.Duration // for each message while the leader is joined, or 0
	in     *reader       // of source
	out    *queue
	sender vfs.Group

	// One goroutine at a time reads, and turn has an element then. See reader.go.
	turn      chan struct{}
	held      Message       // read in passing, to be handled by the background; guarded by turn
	pause     pause         // guarded by turn
	uses      atomic.Uint64 // number of turns of calls
	glanced   atomic.Int64  // ticks of the last glance
	deciding  atomic.Int64  // ticks when the decision that runs began; or 0
	attention chan struct{} // has an element if the background is to read at once
	single    bool          // the process has one processor, which no call may keep while it waits
	ended     chan struct{} // closed when reading has failed
	err       error         // why; set before

	welcome Welcome
	token   string          // of the leader
	records []engine.Record // of the present state, until it is adopted

	mu      sync.Mutex
	cause   error // why taking its place failed
	given   error // why joining it was given up
	lost    bool
	bye     bool // the leader has said that it closes
	pending map[uint64]*pending
	parked  int // pending requests that leave reading to the background
}

var links atomic.Uint64 // made by this process

// A pending request waits for its result.
type pending struct {
	decide  func() ([]engine.Op, error) // of an Exclusive
	decided error                       // of decide
	sent    bool                        // ops that the leader may apply have been sent
	id      uint64
	asks    bool // it changes no document: it does not wait for ever for a leader that is stopped
	parks   bool // it leaves reading to the background
	done    chan struct{}
	result  Result
	lost    bool // the connection ended first
}

func newLink(s *socket) *link {
	in := &source{socket: s, parks: true}
	return &link{number: links.Add(1), socket: s, since: time.Now(),
		source: in, in: newReader(in, true), out: newQueue(s),
		turn: make(chan struct{}, 1), attention: make(chan struct{}, 1), ended: make(chan struct{}),
		single: runtime.GOMAXPROCS(0) == 1, pending: map[uint64]*pending{}}
}

// root completes a root that the leader has sent.
func (l *link) root(tx, applied uint64) engine.Root {
	return engine.Root{DB: l.welcome.DB, Leader: l.token, Link: l.number, Tx: tx, Applied: applied}
}

// greet exchanges Hello and Welcome, and reads the records of the present state.
func (l *link) greet(hello Hello) error {
	if !l.send(hello) {
		return errNoLeader
	}
	m, err := l.receive()
	if err != nil {
		return err
	}
	welcome, ok := m.(Welcome)
	if !ok {
		return fmt.Errorf("%T instead of Welcome", m)
	}
	l.welcome = welcome
	for next := welcome.Applied + 1; next <= welcome.LSN; {
		m, err := l.receive()
		if err != nil {
			return err
		}
		records, ok := m.(Records)
		if !ok {
			return fmt.Errorf("%T instead of Records", m)
		}
		if records.First != next {
			return fmt.Errorf("records from %d instead of %d", records.First, next)
		}
		l.keep(records)
		next += uint64(len(records.Records))
	}
	return nil
}

// receive reads a message of a leader that is being joined. errNoLeader says that it has ended,
// closes, or does not answer yet.
func (l *link) receive() (Message, error) {
	if l.wait > 0 {
		l.source.deadline = time.Now().Add(l.wait)
	}
	m, err := l.in.next()
	if isLost(err) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.given != nil {
			return nil, l.given
		}
		return nil, fmt.Errorf("%w: %w", errNoLeader, err)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("%w: %w", errNoLeader, err)
	}
	if err != nil {
		return nil, err
	}
	switch m := m.(type) {
	case Refused:
		return nil, m.Err
	case Bye:
		return nil, fmt.Errorf("%w: it closes", errNoLeader)
	}
	return m, nil
}

// keep adds records of the present state. Their memory belongs to the frame.
func (l *link) keep(m Records) {
	for _, r := range m.records() {
		r.Data, r.Replaced = bytes.Clone(r.Data), bytes.Clone(r.Replaced)
		l.records = append(l.records, r)
	}
}

// records returns the records for the engine.
func (m Records) records() []engine.Record {
	records := make([]engine.Record, len(m.Records))
	for i, data := range m.Records {
		records[i] = engine.Record{LSN: m.First + uint64(i), Data: data, Resolved: m.Replaced != nil}
		if m.Replaced != nil {
			records[i].Replaced = m.Replaced[i]
		}
	}
	return records
}

// outdated reports whether a root could not be adopted because the leader has a newer one: the file
// has another root, or has lost a segment meanwhile.
func outdated(err error) bool { return errors.Is(err, meta.ErrRoot) || errors.Is(err, fs.ErrNotExist) }

// isLost reports whether an error is the end of a connection.
func isLost(err error) bool {
	var op *net.OpError
	return err != nil && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || errors.As(err, &op))
}

// close ends the connection. Requests without a result are lost. Nobody reads any more.
func (l *link) close() error {
	l.socket.cut()
	l.out.close()
	_ = l.sender.Wait() // its error is the end of the connection
	err := l.socket.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = true
	for _, p := range l.pending {
		l.take(p.id)
		p.lost = true
		close(p.done)
	}
	return err
}

// send queues a message; false if the connection has ended.
func (l *link) send(m Message) bool {
	frame, err := Append(nil, m)
	return err == nil && l.out.add(frame)
}

// beats says to the leader that a decision still runs, until the function that it returns is
// called.
func (l *link) beats() (end func()) {
	ended := make(chan struct{})
	var beating vfs.Group
	beating.Go(engine.SocketName, func() error {
		beat := time.NewTicker(beatTime)
		defer beat.Stop()
		for {
			select {
			case <-ended:
				return nil
			case <-beat.C:
				l.send(Deciding{})
			}
		}
	})
	return func() {
		close(ended)
		_ = beating.Wait() // it has none
	}
}

// late reports whether a decision has run for lateTime. No message is read until it ends.
func (l *link) late() bool {
	since := l.deciding.Load()
	return since != 0 && ticks(time.Now())-since > int64(lateTime)
}

// finish gives a request its result.
func (l *link) finish(r Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.take(r.Request); p != nil {
		p.result = r
		close(p.done)
	}
}

// take removes a request from those that are pending; nil if it is not. mu is held.
func (l *link) take(id uint64) *pending {
	p := l.pending[id]
	if p != nil {
		delete(l.pending, id)
		if p.parks {
			l.parked--
		}
	}
	return p
}

// drop gives up a request, unless it has its result. It reports whether ops of it have been sent.
func (l *link) drop(id uint64) (dropped, sent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.take(id)
	return p != nil, p != nil && p.sent
}
