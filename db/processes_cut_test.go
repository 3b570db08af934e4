//go:build linux || darwin

package db

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/share"
)

var (
	allCuts = flag.Bool("cuts", false, "TestConnectionsEnd and TestConnectionsStall try every message, not a sample")
	cutSeed = flag.Uint64("cutseed", 0, "seed of TestConnectionsEnd; 0: a random one")
	storms  = flag.Int("storms", 20, "sessions whose connections TestConnectionsEnd ends again and again")
)

// A spot is a place among the messages of a session.
type spot struct {
	kind string // of a message
	nth  int    // of these messages, from 1 on, counted from the spot before
	part int    // of cutParts
	late bool   // the leader learns of the end only when the process connects again
}

// cutParts are the places in a frame.
var cutParts = []string{"before", "in the header", "after the header", "in the payload", "at the last byte", "after"}

// frameHeader is the size of a frame without its payload.
const frameHeader = 9

func (s spot) offset(frame []byte) int {
	n := len(frame)
	return []int{0, frameHeader / 2, frameHeader, (frameHeader + n) / 2, n - 1, n}[s.part]
}

func (s spot) String() string {
	text := fmt.Sprintf("%s %d %s", s.kind, s.nth, cutParts[s.part])
	if s.late {
		text += " late"
	}
	return text
}

// kindOf returns the name of the kind of a message.
func kindOf(m share.Message) string { return strings.TrimPrefix(fmt.Sprintf("%T", m), "share.") }

// errCut ends a connection.
var errCut = errors.New("the connection is cut")

// A cutter carries messages over a wire and ends connections on the way.
type cutter struct {
	wire   *wire
	drip   bool              // bytes are sent one by one
	stalls bool              // a message stands still at a spot, instead of the end of the connection
	stall  func(kind string) // called then
	sent   chan struct{}     // has an element after each message

	mu       sync.Mutex
	spots    []spot                      // that are to come
	storm    func() (part int, yes bool) // ends connections at other spots
	seen     map[string]int              // messages of each kind, since the last spot
	before   map[string]func()           // called before the next message of a kind
	met      []spot                      // where connections have ended
	deciding int                         // requests to decide that were sent and not decided
}

// at returns the spot that a message is at.
func (c *cutter) at(kind string) (s spot, yes bool, before func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[kind]++
	switch kind {
	case "Exclusive":
		c.deciding++
	case "Decided":
		c.deciding--
	}
	before = c.before[kind]
	delete(c.before, kind)
	if len(c.spots) > 0 && c.spots[0].kind == kind && c.spots[0].nth == c.seen[kind] {
		s, yes = c.spots[0], true
		c.spots = c.spots[1:]
		clear(c.seen)
	} else if c.storm != nil {
		s = spot{kind: kind, nth: c.seen[kind]}
		s.part, yes = c.storm()
	}
	if yes {
		c.met = append(c.met, s)
	}
	return s, yes, before
}

func (c *cutter) send(conn *wireConn, to *net.UnixConn, m share.Message, frame []byte) error {
	s, yes, before := c.at(kindOf(m))
	if before != nil {
		before()
	}
	n := len(frame)
	if yes {
		n = s.offset(frame)
	}
	if err := c.write(to, frame[:n]); err != nil {
		return err
	}
	select {
	case c.sent <- struct{}{}:
	default:
	}
	switch {
	case !yes:
		return nil
	case c.stalls:
		c.stall(s.kind)
		return c.write(to, frame[n:])
	case s.late:
		c.wire.mu.Lock()
		conn.kept = true
		c.wire.mu.Unlock()
		conn.down.Close()
	}
	return errCut
}

func (c *cutter) write(to *net.UnixConn, b []byte) error {
	for len(b) > 0 {
		n := len(b)
		if c.drip {
			n = 1
		}
		if _, err := to.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// next has a function called before the next message of a kind.
func (c *cutter) next(kind string, before func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before[kind] = before
}

// A cutSession is a process that works beside a leader, with all kinds of messages. Its connection
// to the leader is in the hands of a cutter.
type cutSession struct {
	t      *testing.T
	ctx    context.Context
	cutter *cutter
	dir    string
	leader *DB
	vdb    *DB                // beside it
	opened atomic.Pointer[DB] // vdb, for other goroutines

	docs map[string]int64 // what the collection of that name holds: ids with the field n
	last uint64           // the newest batch
	side atomic.Int64     // batches that were written while a message stood still
	kept atomic.Int64     // documents with the field kept that are acknowledged
}

// runCut runs a session and returns the spots that it has met.
func runCut(t *testing.T, c *cutter) []spot {
	bounded(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	parent := shortDir(t)
	s := &cutSession{t: t, ctx: ctx, cutter: c, dir: filepath.Join(parent, "db"), docs: map[string]int64{}}
	s.leader = open(t, s.dir, nil)
	for _, name := range []string{"docs", "side"} {
		collection(t, s.leader, name, Schema{})
	}
	for i := range 5 {
		id := fmt.Sprint("old ", i)
		upsert(t, existing(t, s.leader, "docs"), Document{ID: id, Metadata: Metadata{"n": i}})
		s.docs[id] = int64(i)
	}
	s.last = s.leader.engine.Seen()
	c.seen, c.before, c.sent = map[string]int{}, map[string]func(){}, make(chan struct{}, 1)
	c.stall = s.stall
	c.wire = newWire(t, s.dir)
	c.wire.mu.Lock()
	c.wire.send = c.send
	c.wire.mu.Unlock()

	s.enter()
	reading, ended := make(chan struct{}), make(chan struct{})
	go s.read(reading, ended)
	s.work()
	close(reading)
	<-ended
	s.leave()
	s.follow()
	alone(t, parent, "db")
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.met
}

// enter opens the database beside the leader.
func (s *cutSession) enter() {
	s.vdb = open(s.t, s.dir, nil)
	s.opened.Store(s.vdb)
}

func (s *cutSession) must(what string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}

// read finds, whenever a message has been sent, all that had been acknowledged before.
func (s *cutSession) read(stop, ended chan struct{}) {
	defer close(ended)
	c, err := s.vdb.Collection("docs")
	for err == nil {
		select {
		case <-stop:
			return
		case <-s.cutter.sent:
		}
		low, n := s.kept.Load(), 0
		if n, err = c.Count(s.ctx, filter.Exists("kept")); err == nil && int64(n) < low {
			err = fmt.Errorf("%d documents, %d were acknowledged", n, low)
		}
	}
	s.t.Error("reading: ", err)
}

// holds compares a collection with the acknowledged writes.
func (s *cutSession) holds(vdb *DB) {
	s.t.Helper()
	got := map[string]int64{}
	for d, err := range existing(s.t, vdb, "docs").All(s.ctx, nil, Everything) {
		s.must("read", err)
		got[d.ID], _ = d.Metadata["n"].(int64)
	}
	if !maps.Equal(got, s.docs) {
		s.t.Fatalf("the documents are %v, acknowledged are %v", got, s.docs)
	}
}

// waits reports whether the leader waits for a decision: nobody writes until it comes, behind the
// message that stands still.
func (c *cutter) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deciding > 0
}

// stall is what goes on while a message stands still.
func (s *cutSession) stall(kind string) {
	for _, vdb := range []*DB{s.leader, s.opened.Load()} {
		if vdb == nil { // it is being opened
			continue
		}
		c, err := vdb.Collection("docs")
		if err == nil {
			_, err = c.Get(s.ctx, "old 3", WithText)
		}
		if err != nil && !errors.Is(err, ErrClosed) {
			s.t.Errorf("reading while %s stands still: %v", kind, err)
		}
	}
	if kind == "Decided" || kind == "Bye" || s.cutter.waits() {
		return
	}
	c, err := s.leader.Collection("side")
	if err == nil {
		_, err = c.Insert(s.ctx, Document{})
	}
	switch {
	case err == nil:
		s.side.Add(1)
	case !errors.Is(err, ErrClosed): // the leader ends
		s.t.Errorf("writing while %s stands still: %v", kind, err)
	}
}

// wrote counts an acknowledged batch, and compares the documents of both processes with all
// acknowledged writes.
func (s *cutSession) wrote() {
	s.t.Helper()
	s.last++
	s.holds(s.vdb)
	s.holds(s.leader)
}

func (s *cutSession) insert(vdb *DB, id string, n int64) error {
	_, err := existing(s.t, vdb, "docs").Insert(s.ctx, Document{ID: id, Metadata: Metadata{"n": n, "kept": true}})
	if err == nil || errors.Is(err, ErrExists) {
		s.docs[id] = n
	}
	if err == nil && vdb == s.vdb {
		s.kept.Add(1)
	}
	return err
}

// work does what a process can do beside a leader. No call may fail.
func (s *cutSession) work() {
	ctx, docs := s.ctx, existing(s.t, s.vdb, "docs")
	s.must("insert", s.insert(s.vdb, "new", 1))
	s.wrote()
	s.must("patch", docs.Patch(ctx, Patch{ID: "new", Set: Metadata{"n": 2}}))
	s.docs["new"] = 2
	s.wrote()
	n, err := docs.Delete(ctx, "old 0", "absent", "old 1", "old 0")
	s.must("delete", wantDeleted(n, 2, err))
	delete(s.docs, "old 0")
	delete(s.docs, "old 1")
	s.wrote()
	s.must("insert in the leader", s.insert(s.leader, "of the leader", 3))
	s.must("barrier", s.vdb.Barrier(ctx))
	s.wrote()

	n, err = docs.DeleteWhere(ctx, filter.Eq("n", 4))
	s.must("delete by a filter", wantDeleted(n, 1, err))
	delete(s.docs, "old 4")
	s.wrote()
	n, err = docs.DeleteWhere(ctx, filter.Eq("n", -1))
	s.must("delete nothing", wantDeleted(n, 0, err))
	if _, err := s.vdb.CreateCollection(ctx, "more", Schema{}, nil); err != nil {
		s.t.Fatal("create a collection: ", err)
	}
	s.wrote()
	if _, err := s.vdb.CreateCollection(ctx, "more", Schema{}, nil); !errors.Is(err, ErrExists) {
		s.t.Fatal("create it again: ", err)
	}
	s.must("flush", s.vdb.Flush(ctx))
	s.must("set a text index", docs.SetText(ctx, &TextIndex{}))
	s.wrote()

	b := &Batch{}
	b.Upsert("docs", Document{ID: "of a batch", Text: "Tea.", Metadata: Metadata{"n": 5}})
	b.Upsert("more", Document{ID: "of a batch"})
	b.Delete("docs", "old 2")
	s.must("batch", s.vdb.Apply(ctx, b))
	s.docs["of a batch"] = 5
	delete(s.docs, "old 2")
	s.wrote()
	if n, err := existing(s.t, s.vdb, "more").Count(ctx, nil); err != nil || n != 1 {
		s.t.Fatal("the other collection of a batch: ", n, err)
	}
	s.cancelled()
	s.must("compact", s.vdb.Compact(ctx))
	list, err := s.vdb.Processes(ctx)
	if s.must("list processes", err); len(list) == 0 || list[0].Role != RoleLeader {
		s.t.Fatal("processes: ", list)
	}
	least := s.last + uint64(s.side.Load())
	s.must("barrier", s.vdb.Barrier(ctx))
	s.holds(s.vdb)
	got := s.vdb.engine.Seen()
	// More may have been written while the answer stood still.
	if most := s.last + uint64(s.side.Load()); got < least || got > most {
		s.t.Fatalf("the newest batch is %d, want %d to %d: a write was lost or applied twice", got, least, most)
	}
}

// cancelled gives up an insert that is on its way. It takes effect as a whole or not at all, and a
// second one tells which.
func (s *cutSession) cancelled() {
	ctx, cancel := context.WithCancel(s.ctx)
	gone := make(chan struct{})
	s.cutter.next("WriteOps", func() {
		cancel()
		<-gone
	})
	docs := existing(s.t, s.vdb, "docs")
	_, err := docs.Insert(ctx, Document{ID: "given up", Metadata: Metadata{"n": 6, "kept": true}})
	close(gone)
	if !errors.Is(err, ErrUnknown) || !errors.Is(err, context.Canceled) {
		s.t.Fatal("an insert that was given up: ", err)
	}
	s.again("given up", 6)
	s.wrote()
}

// again inserts a document whose insert with field n has an unknown outcome.
func (s *cutSession) again(id string, n int64) {
	s.t.Helper()
	switch err := s.insert(s.vdb, id, n+1); {
	case errors.Is(err, ErrExists):
		s.docs[id] = n
	default:
		s.must("insert "+id+" again", err)
	}
}

// leave ends the process. The leader then holds nothing for it any more.
func (s *cutSession) leave() {
	s.must("close", s.vdb.Close())
	s.cutter.wire.cut()
	for others, pinned := 1, 1; others > 0 || pinned > 0; runtime.Gosched() {
		list, err := s.leader.Processes(s.ctx)
		s.must("list processes", err)
		others, pinned = len(list)-1, storeOf(s.leader).Pinned()
		if s.ctx.Err() != nil {
			s.t.Fatalf("the leader has %d followers and holds %d roots for them", others, pinned)
		}
	}
}

// follow begins again, and takes the place of the leader, which ends while a write is on its way.
func (s *cutSession) follow() {
	s.enter()
	s.must("insert", s.insert(s.vdb, "second time", 8))
	s.wrote()
	ended := make(chan error)
	s.cutter.next("WriteOps", func() {
		go func() { ended <- s.leader.Close() }()
	})
	err := s.insert(s.vdb, "last", 9)
	s.must("close the leader", <-ended)
	if errors.Is(err, ErrUnknown) { // it was flushed and forgotten
		s.again("last", 9)
	} else {
		s.must("insert while the leader ends", err)
	}
	s.last++
	if s.must("insert", s.insert(s.vdb, "alone", 11)); !s.vdb.engine.Leads() {
		s.t.Fatal("nobody leads")
	}
	s.last++
	s.holds(s.vdb)
	if got, want := s.vdb.engine.Seen(), s.last+uint64(s.side.Load()); got != want {
		s.t.Fatalf("the newest batch is %d, want %d: a write was lost or applied twice", got, want)
	}
	check(s.t, s.vdb)
	s.must("close", s.vdb.Close())
	s.enter()
	s.holds(s.vdb)
	s.must("close", s.vdb.Close())
}

// cutKinds are all messages but Refused, in which a session has no part, and Outcome, which needs a
// write without an answer.
var cutKinds = []string{"Hello", "Welcome", "Records", "Root", "Derived", "Release", "WriteOps", "Exclusive", "Grant",
	"Decided", "Call", "Cancel", "Result", "Bye"}

// TestConnectionsEnd ends the connection between a leader and a process that works beside it at
// every message, in every part of it. The process joins again by itself, no call fails, each write
// is applied once, and nothing is left in the leader.
func TestConnectionsEnd(t *testing.T) {
	seed := *cutSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("-cutseed=%d", seed)
		}
	})
	rng := rand.New(rand.NewPCG(seed, 0))
	met := map[string]int{}
	all := 0
	try := func(name string, c *cutter) (reached bool) {
		if t.Failed() { // others may take as long to fail
			return false
		}
		all++
		want := len(c.spots)
		t.Run(name, func(t *testing.T) {
			spots := runCut(t, c)
			if reached = len(spots) >= want; reached && want > 0 {
				last := spots[want-1]
				met[last.kind+" "+cutParts[last.part]]++
			}
		})
		return reached
	}
	// every ends a connection at each message of a kind, after other spots.
	every := func(kind string, first ...spot) {
		for nth, reached := 1, true; reached; nth++ {
			reached = false
			chosen := rng.IntN(len(cutParts))
			for part := range cutParts {
				if !*allCuts && part != chosen && (nth > 1 || testing.Short()) {
					continue
				}
				ends := []bool{rng.IntN(3) == 0}
				if *allCuts {
					ends = []bool{false, true}
				}
				for _, late := range ends {
					spots := append(slices.Clone(first), spot{kind, nth, part, late})
					// A busy machine may let a session end without its first Bye, say.
					for tries, got := 0, false; !got && (tries == 0 || nth == 1 && tries < 5); tries++ {
						got = try(fmt.Sprint(spots), &cutter{spots: spots})
						reached = reached || got
					}
				}
			}
			if !*allCuts && len(first) > 0 {
				break
			}
		}
	}
	for _, kind := range cutKinds {
		every(kind)
	}
	// While the process finds out what became of a write, the connection ends once more.
	for _, write := range []string{"WriteOps", "Decided"} {
		for _, kind := range []string{"Hello", "Welcome", "Records", "Outcome", "Result"} {
			every(kind, spot{kind: write, nth: 1, part: 5})
		}
	}
	for n := range *storms {
		rng, left := rand.New(rand.NewPCG(seed, uint64(n)+1)), 20
		try(fmt.Sprint("storm ", n), &cutter{storm: func() (part int, yes bool) {
			if left == 0 || rng.IntN(6) > 0 {
				return 0, false
			}
			left--
			return rng.IntN(len(cutParts)), true
		}})
	}
	for _, kind := range append(slices.Clone(cutKinds), "Outcome") {
		for _, part := range cutParts {
			if met[kind+" "+part] == 0 && !testing.Short() && !t.Failed() {
				t.Errorf("no connection has ended %s %s", part, kind)
			}
		}
	}
	t.Logf("%d sessions", all)
}

// TestConnectionsStall lets every message stand still, half sent, until the leader and others have
// read, and written where no process decides what to write.
func TestConnectionsStall(t *testing.T) {
	for _, kind := range cutKinds {
		for nth, reached := 1, true; reached && (nth == 1 || *allCuts); nth++ {
			for _, part := range []int{1, 3} {
				s := spot{kind: kind, nth: nth, part: part}
				t.Run(s.String(), func(t *testing.T) {
					reached = len(runCut(t, &cutter{spots: []spot{s}, stalls: true})) > 0
				})
			}
			if !reached && nth == 1 {
				t.Errorf("there is no %s", kind)
			}
		}
	}
}

// TestConnectionsDrip sends all messages byte by byte.
func TestConnectionsDrip(t *testing.T) { runCut(t, &cutter{drip: true}) }

// TestSnapshotsOutliveConnections ends the connection of a process that holds a snapshot, and which
// joins again, while its leader goes on: no page that the snapshot reads is used again. Once many
// pages wait for that, the leader goes on in a copy of meta.bolt.
func TestSnapshotsOutliveConnections(t *testing.T) {
	bounded(t)
	ctx := t.Context()
	w, leader, others := unanswered(t, 1)
	vdb, docs := others[0], collectionOf(t, leader, "docs")
	write := func(text string) {
		t.Helper()
		var all []Document
		for i := range 100 {
			all = append(all, Document{ID: fmt.Sprint(i), Text: strings.Repeat(text, 1000)})
		}
		upsert(t, docs, all...)
		if err := errors.Join(leader.Flush(ctx), vdb.Barrier(ctx)); err != nil {
			t.Fatal(err)
		}
	}
	write("first ")
	snap, err := vdb.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	w.cut()
	file := func() os.FileInfo { return must(os.Stat(filepath.Join(leader.engine.Dir, engine.MetaName))) }
	for n, before, copied := 0, file(), -1; copied < 0 || n < copied+5; n++ {
		write(fmt.Sprint("later ", n))
		if copied < 0 && !os.SameFile(before, file()) {
			copied = n
		}
		d, err := must(snap.Collection("docs")).Get(ctx, "50", WithText)
		if err != nil {
			t.Fatalf("round %d, copied in %d: %v", n, copied, err)
		}
		if !strings.HasPrefix(d.Text, "first ") {
			t.Fatalf("round %d, copied in %d: the snapshot has %.20q", n, copied, d.Text)
		}
		if n > 100 {
			t.Fatal("there is no copy")
		}
	}
	check(t, vdb)
	if err := errors.Join(snap.Close(), vdb.Close()); err != nil {
		t.Fatal(err)
	}
	for storeOf(leader).Pinned() > 0 {
		runtime.Gosched()
	}
}
