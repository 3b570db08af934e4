package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/wal"
)

// A tap observes a leader and keeps its records and its newest root, as a follower would receive
// them.
type tap struct {
	records []Record
	frozen  uint64 // Froze was called with it last
	root    Root
	unpin   []func()
}

func (o *tap) Committed(first uint64, records []wal.Record, replaced [][]byte) {
	for i, r := range records {
		o.records = append(o.records, Record{LSN: first + uint64(i), Data: slices.Concat(r.Parts...),
			Replaced: replaced[i], Resolved: true})
	}
}

func (o *tap) Rooted(root Root, unpin func()) {
	o.root = root
	o.unpin = append(o.unpin, unpin)
}

func (o *tap) Froze(lsn uint64) { o.frozen = lsn }

func (o *tap) Made()               {}
func (o *tap) Submitted(bool) bool { return false }

// A lonely upstream leads to no leader. It counts how often the follower has to join again.
type lonely struct{ broken int }

func (u *lonely) Forward(context.Context, []Op, int, func() ([]Op, error)) (int, bool, error) {
	return 0, true, ErrLocked
}
func (u *lonely) OwnID() RequestID { return RequestID{} }
func (u *lonely) Outcome(context.Context, RequestID, uint64) (int, bool, error) {
	return 0, false, ErrUnknown
}
func (u *lonely) Left(Root)    {}
func (u *lonely) Broken(error) { u.broken++ }

// A pair is a leader and a follower in one process, without a connection.
type pair struct {
	t        testing.TB
	tap      tap
	up       lonely
	leader   *Engine
	follower *Engine
	root     Root     // what the follower began with
	begin    []Record // the records after it
}

func newPair(t testing.TB) *pair {
	t.Helper()
	if !CanShare {
		t.Skip("processes do not share here")
	}
	p := &pair{t: t}
	dir := t.TempDir()
	o := Options{HeadSize: 64 << 20, Workers: 1, Shared: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		OnLead: func(*Engine) bool { return true }, Upstream: &p.up}
	var err error
	if p.leader, err = Open(dir, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.leader.Close() })
	p.leader.Observe(&p.tap)
	p.decide(func(g *Group) ([]Op, error) {
		ops := []Op{{Kind: OpDefine, Coll: g.NextID, Def: &Definition{ID: g.NextID, Name: "docs",
			Schema: Schema{Dim: 2, Metric: fileformat.L2}}}}
		return ops, g.Accept(ops)
	})
	if p.follower, err = NewFollower(dir, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.follower.Close() })
	p.adopt()
	return p
}

// adopt gives the follower the state of the leader.
func (p *pair) adopt() {
	p.t.Helper()
	p.begin = nil
	err := p.leader.Join(func(r Root, _ uint64, unpin func()) {
		p.root = r
		p.t.Cleanup(unpin)
	}, func(record []byte) error {
		p.begin = append(p.begin, Record{LSN: p.root.Applied + uint64(len(p.begin)) + 1, Data: bytes.Clone(record)})
		return nil
	})
	if err == nil {
		err = p.follower.Adopt(p.root, p.begin)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.tap.records = nil
}

func (p *pair) decide(decide func(*Group) ([]Op, error)) {
	p.t.Helper()
	if _, err := p.leader.Exclusively(p.t.Context(), decide); err != nil {
		p.t.Fatal(err)
	}
}

// put writes documents in the leader.
func (p *pair) put(texts map[string]string) {
	p.t.Helper()
	var ops []Op
	for id, text := range texts {
		doc, err := document.Append(nil, &document.Document{ID: id, Text: text})
		if err != nil {
			p.t.Fatal(err)
		}
		ops = append(ops, Op{Kind: OpPut, Collection: "docs", ID: id, Doc: doc, Vec: []float32{1, 2}})
	}
	if _, err := p.leader.Write(p.t.Context(), ops, 1); err != nil {
		p.t.Fatal(err)
	}
}

// receive gives the follower the records that the leader has reported, and uses their memory for
// something else then, as a connection does.
func (p *pair) receive() error {
	records := p.tap.records
	p.tap.records = nil
	err := p.follower.Receive(records)
	for _, r := range records {
		for i := range r.Data {
			r.Data[i] = 0xee
		}
		for i := range r.Replaced {
			r.Replaced[i] = 0xee
		}
	}
	return err
}

// TestBatchOfPatches: a batch whose patches make documents beyond the limit is refused, and nothing
// else is.
func TestBatchOfPatches(t *testing.T) {
	defer func(before int) { maxBatchLen = before }(maxBatchLen)
	maxBatchLen = 4 << 10
	p := newPair(t)
	p.put(map[string]string{"a": strings.Repeat("x", 1<<10), "b": "short"})
	patches := func(id string) (ops []Op) {
		for i := range 4 {
			ops = append(ops, Op{Kind: OpPut, Collection: "docs", ID: id, Patch: &Patch{Set: map[string]any{"n": int64(i)}}})
		}
		return ops
	}
	_, err := p.leader.Write(t.Context(), patches("a"), 1)
	if !errors.Is(err, document.ErrInvalid) || !strings.Contains(err.Error(), "4096 bytes") {
		t.Error(err)
	}
	if _, err := p.leader.Write(t.Context(), patches("b"), 1); err != nil {
		t.Error(err)
	}
}

// content returns the texts of an engine by id, and the number of dead rows. Before the ids of
// collections other than docs are their names.
func content(t *testing.T, e *Engine) (texts map[string]string, dead int) {
	t.Helper()
	ver, err := e.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Done(ver)
	texts = map[string]string{}
	for _, v := range ver.SortedViews() {
		before, prefix := len(texts), ""
		if v.Def.Name != "docs" {
			prefix = v.Def.Name + "/"
		}
		for _, p := range v.Parts {
			live := p.Alive()
			dead += p.N - p.Live()
			err := ver.Read(func(tx *meta.Tx) error {
				for row := range live.All() {
					b, err := v.Stored(tx, p, row)
					if err != nil {
						return err
					}
					d, err := document.Decode(b, document.All)
					if err != nil {
						return err
					}
					texts[prefix+d.ID] = d.Text
					if num, err := ver.Num(tx, v, d.ID); err != nil || num != p.Nums[row] {
						t.Errorf("document %s has docnum %d in the row and %d by id, %v", d.ID, p.Nums[row], num, err)
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if n := len(texts) - before; n != v.Count {
			t.Errorf("%d documents in %s, %d are counted", n, v.Def.Name, v.Count)
		}
	}
	return texts, dead
}

// TestReceivedRecords compares a follower with its leader after random writes. The leader tells
// which documents each one replaces; a follower that joins looks them up.
func TestReceivedRecords(t *testing.T) {
	p := newPair(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		texts := map[string]string{}
		for range 1 + rng.IntN(3) {
			texts[fmt.Sprint(rng.IntN(20))] = fmt.Sprint(round)
		}
		p.put(texts)
		if rng.IntN(3) == 0 {
			op := Op{Kind: OpDelete, Collection: "docs", ID: fmt.Sprint(rng.IntN(20))}
			if _, err := p.leader.Write(t.Context(), []Op{op}, 1); err != nil {
				t.Fatal(err)
			}
		}
		if rng.IntN(50) == 0 {
			p.adopt()
		} else if rng.IntN(4) == 0 {
			if err := p.receive(); err != nil {
				t.Fatal(err)
			}
			if now, want := p.follower.Seen(), p.leader.Seen(); now != want {
				t.Fatalf("the follower has batch %d, the leader %d", now, want)
			}
		} else {
			continue
		}
		want, wantDead := content(t, p.leader)
		got, dead := content(t, p.follower)
		if fmt.Sprint(got) != fmt.Sprint(want) || dead != wantDead {
			t.Fatalf("round %d: %v and %d dead rows, the leader has %v and %d", round, got, dead, want, wantDead)
		}
	}
}

// TestNextRoot: when the leader has flushed, a follower takes its root and keeps the batches that
// came after it, which it has applied or not. It does not make their rows again if it was told
// where the leader froze its head, or if the root has no more batches than the one before.
func TestNextRoot(t *testing.T) {
	p := newPair(t)
	rng := rand.New(rand.NewPCG(5, 6))
	write := func(round int) {
		t.Helper()
		for range 1 + rng.IntN(4) {
			p.put(map[string]string{fmt.Sprint(rng.IntN(12)): fmt.Sprint(round), fmt.Sprint(rng.IntN(12)): "b"})
		}
		op := Op{Kind: OpDelete, Collection: "docs", ID: fmt.Sprint(rng.IntN(12))}
		if _, err := p.leader.Write(t.Context(), []Op{op}, 1); err != nil {
			t.Fatal(err)
		}
		if err := p.receive(); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(2) == 0 {
			if err := p.follower.CatchUp(); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(0)
	define := func(round int) {
		t.Helper()
		name, id := fmt.Sprint("other ", round), uint32(0)
		p.decide(func(g *Group) ([]Op, error) {
			id = g.NextID
			ops := []Op{{Kind: OpDefine, Coll: id, Def: &Definition{ID: id, Name: name, Schema: Schema{Metric: fileformat.L2}}}}
			return ops, g.Accept(ops)
		})
		doc, err := document.Append(nil, &document.Document{ID: "a", Text: name})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.leader.Write(t.Context(), []Op{{Kind: OpPut, Collection: name, ID: "a", Doc: doc}}, 1); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(2) == 0 {
			p.decide(func(*Group) ([]Op, error) { return []Op{{Kind: OpDrop, Coll: id}}, nil })
		}
		if err := p.receive(); err != nil {
			t.Fatal(err)
		}
	}
	adopt := func(round int, root Root, keeps bool) {
		t.Helper()
		if err := p.follower.CatchUp(); err != nil {
			t.Fatal(err)
		}
		head := p.follower.head
		if err := p.follower.AdoptNext(root); err != nil {
			t.Fatal(err)
		}
		if kept := p.follower.head == head; kept != keeps {
			t.Fatalf("round %d: the follower keeps the rows after the root: %v", round, kept)
		}
	}
	root := p.root
	for round := range 40 {
		write(round)
		p.leader.metaMu.Lock() // the flush comes later
		p.leader.commitMu.Lock()
		err := p.leader.freeze()
		p.leader.commitMu.Unlock()
		told := rng.IntN(4) > 0
		if err == nil && told {
			err = p.follower.Freeze(p.tap.frozen)
		}
		if err != nil {
			t.Fatal(err)
		}
		for range rng.IntN(3) {
			write(round)
		}
		if rng.IntN(3) == 0 {
			define(round)
			write(round)
		}
		if rng.IntN(3) == 0 { // a root with the same batches, as after a compaction
			adopt(round, root, true)
			write(round)
		}
		p.leader.metaMu.Unlock()
		if err := p.leader.flushFrozen(); err != nil {
			t.Fatal(err)
		}
		root = p.tap.root
		adopt(round, root, told)
		if p.follower.shared.received.frozen != nil {
			t.Fatalf("round %d: the follower keeps rows that the root has", round)
		}
		if n := p.follower.cur.Applied; n != p.tap.root.Applied {
			t.Fatalf("round %d: the root has batch %d, not %d", round, n, p.tap.root.Applied)
		}
		want, _ := content(t, p.leader)
		got, _ := content(t, p.follower)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("round %d: %v, the leader has %v", round, got, want)
		}
	}
}

// TestReceivedIsBounded: records that no call needs are applied when many wait.
func TestReceivedIsBounded(t *testing.T) {
	p := newPair(t)
	text := string(bytes.Repeat([]byte("x"), 100<<10))
	applied := p.follower.cur.LSN
	for range 3 * maxReceived / len(text) {
		p.put(map[string]string{"a": text})
		if err := p.receive(); err != nil {
			t.Fatal(err)
		}
		if n := p.follower.shared.received.bytes; n > maxReceived {
			t.Fatalf("%d bytes wait", n)
		}
	}
	if now := p.follower.cur.LSN; now == applied || now == p.leader.cur.LSN {
		t.Fatalf("batch %d of %d is applied, after %d", now, p.leader.cur.LSN, applied)
	}
}

// TestReceivedDamage receives records that do not fit. No call sees a version that lacks them,
// until the follower has joined again.
func TestReceivedDamage(t *testing.T) {
	for name, spoil := range map[string]func(*Record){
		"a hole":           func(r *Record) { r.LSN++ },
		"cut":              func(r *Record) { r.Data = r.Data[:len(r.Data)-1] },
		"too few docnums":  func(r *Record) { r.Replaced = nil },
		"too many docnums": func(r *Record) { r.Replaced = append(r.Replaced, 0) },
		"a later docnum":   func(r *Record) { r.Replaced[0] = 100 },
		"half a docnum":    func(r *Record) { r.Replaced[0] = 0x80 },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t)
			p.put(map[string]string{"a": "1"})
			spoil(&p.tap.records[0])
			if err := p.receive(); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if _, err := p.follower.Acquire(t.Context()); !errors.Is(err, fileformat.ErrCorrupt) {
					t.Fatal(err)
				}
			}
			if p.up.broken != 1 {
				t.Errorf("told to join again %d times", p.up.broken)
			}
			p.adopt()
			if got, _ := content(t, p.follower); got["a"] != "1" {
				t.Error(got)
			}
		})
	}
}

// BenchmarkCatchUp applies the records of documents with 384 components, 16 at a time, as one of 16
// A follower whose head is split keeps both parts when it cannot take a root, and leads with the
// rows of both, which the log has.
func TestSplitHead(t *testing.T) {
	p := newPair(t)
	write := func(i int) {
		t.Helper()
		p.put(map[string]string{fmt.Sprint(i % 7): fmt.Sprint("text ", i)})
		if err := errors.Join(p.receive(), p.follower.CatchUp()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 10 {
		write(i)
	}
	p.leader.metaMu.Lock() // the flush comes later
	p.leader.commitMu.Lock()
	err := p.leader.freeze()
	p.leader.commitMu.Unlock()
	if err := errors.Join(err, p.follower.Freeze(p.tap.frozen), p.follower.Freeze(p.tap.frozen)); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		write(10 + i)
	}
	p.leader.metaMu.Unlock()
	want, _ := content(t, p.leader)
	same := func(when string) {
		t.Helper()
		if got, _ := content(t, p.follower); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	if err := p.leader.flushFrozen(); err != nil {
		t.Fatal(err)
	}
	other := p.tap.root
	other.DB[0]++
	frozen := p.follower.shared.received.frozen
	if err := p.follower.AdoptNext(other); !errors.Is(err, fileformat.ErrCorrupt) {
		t.Fatalf("a root of another database: %v", err)
	}
	if frozen == nil || p.follower.shared.received.frozen != frozen {
		t.Error("the follower has lost a part of its head")
	}
	same("after a root that it cannot take")
	if err := p.leader.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.follower.TryLead(); err != nil {
		t.Fatal(err)
	}
	if p.follower.shared.received.frozen != nil {
		t.Error("the leader has a part of the head that it had as a follower")
	}
	same("as the leader")
}

// processes that write does.
func BenchmarkCatchUp(b *testing.B) {
	const documents, together = 1 << 14, 16
	p := newPair(b)
	root := p.root
	p.decide(func(g *Group) ([]Op, error) {
		return []Op{{Kind: OpDefine, Coll: g.NextID, Def: &Definition{ID: g.NextID, Name: "rows",
			Schema: Schema{Dim: 384, Metric: fileformat.L2}}}}, nil
	})
	for i := range documents {
		id := fmt.Sprint("document ", i)
		doc, err := document.Append(nil, &document.Document{ID: id, Text: strings.Repeat("text ", 40)})
		if err != nil {
			b.Fatal(err)
		}
		r := &request{id: RequestID{[16]byte{1}, uint64(i + 1)},
			ops: []Op{{Kind: OpPut, Collection: "rows", ID: id, Doc: doc, Vec: make([]float32, 384)}}}
		if err := errors.Join(p.leader.enqueue(b.Context(), r), r.err); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		if err := p.follower.Close(); err != nil {
			b.Fatal(err)
		}
		var err error
		if p.follower, err = NewFollower(p.leader.Dir, p.leader.Opts); err != nil {
			b.Fatal(err)
		}
		if err := p.follower.Adopt(root, p.begin); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		for some := range slices.Chunk(p.tap.records, together) {
			if err := p.follower.Receive(some); err != nil {
				b.Fatal(err)
			}
			if err := p.follower.CatchUp(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*documents), "ns/record")
}

// BenchmarkNextRoot takes the root of a flush during which 2,048 documents of 384 components were
// written.
func BenchmarkNextRoot(b *testing.B) {
	const documents = 2048
	p := newPair(b)
	doc := func(i int) Op {
		id := fmt.Sprint("document ", i)
		stored, err := document.Append(nil, &document.Document{ID: id, Text: strings.Repeat("text ", 40)})
		if err != nil {
			b.Fatal(err)
		}
		return Op{Kind: OpPut, Collection: "rows", ID: id, Doc: stored, Vec: make([]float32, 384)}
	}
	p.decide(func(g *Group) ([]Op, error) {
		ops := []Op{{Kind: OpDefine, Coll: g.NextID, Def: &Definition{ID: g.NextID, Name: "rows",
			Schema: Schema{Dim: 384, Metric: fileformat.L2}}}}
		return ops, g.Accept(ops)
	})
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		if _, err := p.leader.Write(b.Context(), []Op{doc(n * (documents + 1))}, 1); err != nil {
			b.Fatal(err)
		}
		if err := errors.Join(p.receive(), p.leader.Flush(), p.follower.Freeze(p.tap.frozen)); err != nil {
			b.Fatal(err)
		}
		for i := range documents {
			if _, err := p.leader.Write(b.Context(), []Op{doc(n*(documents+1) + i + 1)}, 1); err != nil {
				b.Fatal(err)
			}
		}
		if err := errors.Join(p.receive(), p.follower.CatchUp()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if err := p.follower.AdoptNext(p.tap.root); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*documents), "ns/record")
}
