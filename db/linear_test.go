package db

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

var histories = flag.Int("histories", 40, "concurrent histories that TestLinearizable records and checks")

// The object of the linearizability check: two collections of three ids each. A
// cell is the document of one id: the value put, as its text and vector and as its
// metadata; zero if there is no document. Values are never used twice.
type (
	cell  struct{ put, meta int }
	row   [3]cell
	world [2]row
)

var worldNames = [len(world{})]string{"left", "right"}

// A call is one operation. Its writes are the parts of a batch.
type call struct {
	kind   string
	coll   int
	id     int
	value  int // of a put or patch; least value of a filter
	writes []call
}

// An answer is the return value of a call.
type answer struct {
	world world
	n     int
	err   string
}

// sequential returns the effect of a call on the world when no other call runs, and
// its answer.
func sequential(w world, in call) (world, answer) {
	c := &w[in.coll]
	switch in.kind {
	case "upsert":
		c[in.id] = cell{in.value, in.value}
	case "insert":
		if c[in.id] != (cell{}) {
			return w, answer{err: "exists"}
		}
		c[in.id] = cell{in.value, in.value}
	case "patch":
		if c[in.id] == (cell{}) {
			return w, answer{err: "not found"}
		}
		c[in.id].meta = in.value
	case "delete":
		n := 0
		if c[in.id] != (cell{}) {
			n = 1
		}
		c[in.id] = cell{}
		return w, answer{n: n}
	case "delete where":
		n := 0
		for id := range c {
			if c[id].meta >= in.value {
				c[id] = cell{}
				n++
			}
		}
		return w, answer{n: n}
	case "batch":
		before := w
		for _, part := range in.writes {
			var a answer
			if w, a = sequential(w, part); a.err != "" {
				return before, a
			}
		}
	case "get":
		var a answer
		a.world[in.coll][in.id] = c[in.id]
		return w, a
	case "count":
		n := 0
		for _, d := range c {
			if d.meta >= in.value {
				n++
			}
		}
		return w, answer{n: n}
	case "many", "list", "all", "search":
		var a answer
		a.world[in.coll] = *c
		return w, a
	case "snapshot":
		return w, answer{world: w}
	}
	return w, answer{}
}

var linearModel = porcupine.Model{
	Init: func() any { return world{} },
	Step: func(state, input, output any) (bool, any) {
		next, want := sequential(state.(world), input.(call))
		return want == output.(answer), next
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v -> %+v", input, output) },
}

// A client performs calls. TestLinearizabilityCanFail replaces clients by ones with
// seeded bugs.
type client struct {
	db    *DB
	colls [len(worldNames)]*Collection
}

func newClient(t testing.TB, vdb *DB) *client {
	c := &client{db: vdb}
	for i, name := range worldNames {
		c.colls[i] = collection(t, vdb, name, Schema{Dim: 1, Metric: Dot})
	}
	return c
}

func linearDoc(id, value int) Document {
	return Document{ID: strconv.Itoa(id), Text: strconv.Itoa(value), Vector: []float32{float32(value)}, Metadata: Metadata{"n": value}}
}

// see notes a document that was read, all of whose parts must be of the same
// version.
func (a *answer) see(coll int, d *Document) error {
	id, err := strconv.Atoi(d.ID)
	put, err2 := strconv.Atoi(d.Text)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if len(d.Vector) != 1 || d.Vector[0] != float32(put) {
		return fmt.Errorf("document %s has text %q and vector %v", d.ID, d.Text, d.Vector)
	}
	a.world[coll][id] = cell{put, int(d.Metadata["n"].(int64))}
	return nil
}

// do performs a call. What the API says by an error is an answer too.
func (c *client) do(ctx context.Context, in call) (a answer, err error) {
	coll, id := c.colls[in.coll], strconv.Itoa(in.id)
	least := filter.Gte("n", in.value)
	switch in.kind {
	case "upsert":
		_, err = coll.Upsert(ctx, linearDoc(in.id, in.value))
	case "insert":
		_, err = coll.Insert(ctx, linearDoc(in.id, in.value))
	case "patch":
		err = coll.Patch(ctx, Patch{ID: id, Set: Metadata{"n": in.value}})
	case "delete":
		a.n, err = coll.Delete(ctx, id)
	case "delete where":
		a.n, err = coll.DeleteWhere(ctx, least)
	case "batch":
		b := &Batch{}
		for _, part := range in.writes {
			part.addTo(b)
		}
		err = c.db.Apply(ctx, b)
	case "count":
		a.n, err = coll.Count(ctx, least)
	case "get":
		var d *Document
		if d, err = coll.Get(ctx, id, Everything); err == nil {
			return a, a.see(in.coll, d)
		}
		if errors.Is(err, ErrNotFound) {
			err = nil
		}
	case "snapshot":
		var snap *Snapshot
		if snap, err = c.db.Snapshot(); err == nil {
			a, err = readSnapshot(ctx, snap)
			err = errors.Join(err, snap.Close())
		}
	default:
		err = a.read(ctx, in, coll)
	}
	switch {
	case errors.Is(err, ErrExists):
		return answer{err: "exists"}, nil
	case errors.Is(err, ErrNotFound):
		return answer{err: "not found"}, nil
	}
	return a, err
}

// addTo adds a write to a batch.
func (in call) addTo(b *Batch) {
	name := worldNames[in.coll]
	switch in.kind {
	case "upsert":
		b.Upsert(name, linearDoc(in.id, in.value))
	case "insert":
		b.Insert(name, linearDoc(in.id, in.value))
	case "patch":
		b.Patch(name, Patch{ID: strconv.Itoa(in.id), Set: Metadata{"n": in.value}})
	case "delete":
		b.Delete(name, strconv.Itoa(in.id))
	case "delete where":
		b.DeleteWhere(name, filter.Gte("n", in.value))
	}
}

// read reads a whole collection in the way that the call says.
func (a *answer) read(ctx context.Context, in call, coll *Collection) error {
	var docs []*Document
	var err error
	switch in.kind {
	case "many":
		docs, err = coll.GetMany(ctx, []string{"0", "1", "2"}, Everything)
	case "list":
		var page *Page
		if page, err = coll.List(ctx, ListQuery{Select: Everything}); err == nil {
			docs = page.Documents
		}
	case "all":
		for d, err := range coll.All(ctx, nil, Everything) {
			if err != nil {
				return err
			}
			docs = append(docs, d)
		}
	case "search":
		var res *Result
		if res, err = coll.Search(ctx, Query{Near: Vector{1}, K: 10, Select: Everything}); err == nil {
			for _, h := range res.Hits {
				docs = append(docs, &h.Document)
			}
		}
	}
	for _, d := range docs {
		if err == nil && d != nil {
			err = a.see(in.coll, d)
		}
	}
	return err
}

func readSnapshot(ctx context.Context, snap *Snapshot) (a answer, err error) {
	for i, name := range worldNames {
		c, err := snap.Collection(name)
		if err == nil {
			err = a.read(ctx, call{kind: "all", coll: i}, c)
		}
		if err != nil {
			return a, err
		}
	}
	return a, nil
}

// A recorder notes calls with the order of their beginnings and ends. One
// counter for both is a clock that no two events share.
type recorder struct {
	clock atomic.Int64
	mu    sync.Mutex
	ops   []porcupine.Operation
}

func (r *recorder) record(who int, in call, do func(call) (answer, error)) error {
	begin := r.clock.Add(1)
	runtime.Gosched() // so that others get in between
	out, err := do(in)
	runtime.Gosched()
	end := r.clock.Add(1)
	if err != nil {
		return fmt.Errorf("%+v: %w", in, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, porcupine.Operation{ClientId: who, Input: in, Output: out, Call: begin, Return: end})
	return nil
}

func drawCall(rng *rand.Rand, value func() int) call {
	in := call{coll: rng.IntN(len(world{})), id: rng.IntN(len(row{}))}
	switch n := rng.IntN(20); {
	case n < 8:
		in.kind = []string{"upsert", "upsert", "insert", "insert", "patch", "patch", "delete", "delete where"}[n]
		in.value = value()
		if in.kind == "delete where" {
			in.value = max(1, in.value-20)
		}
	case n < 11:
		in.kind = "batch"
		if rng.IntN(3) == 0 { // it comes before the other writes
			in.writes = append(in.writes, call{kind: "delete where", coll: rng.IntN(len(world{})), value: max(1, value()-20)})
		}
		for range 2 + rng.IntN(4) {
			in.writes = append(in.writes, call{
				kind: []string{"upsert", "upsert", "upsert", "insert", "patch", "delete"}[rng.IntN(6)],
				coll: rng.IntN(len(world{})), id: rng.IntN(len(row{})), value: value(),
			})
		}
	default:
		in.kind = []string{"get", "get", "many", "list", "all", "search", "count", "snapshot", "snapshot"}[n-11]
		if in.kind == "count" {
			in.value = max(1, value()-20)
		}
	}
	return in
}

// linearHistory runs clients concurrently on one database, while it is flushed and
// compacted, and returns the history.
func linearHistory(t *testing.T, seed uint64, clients, calls int) []porcupine.Operation {
	t.Helper()
	vdb := open(t, memDir(t), &Options{Sync: SyncNever, HeadSize: []int64{1, 4 << 10, 64 << 20}[seed%3], Workers: 2,
		tests: testOptions{codedBytes: 1, hook: func(vfs.Op) error { runtime.Gosched(); return nil }}})
	c, r := newClient(t, vdb), &recorder{}
	var values atomic.Int64
	var work, upkeep sync.WaitGroup
	stop := make(chan struct{})
	upkeep.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := errors.Join(vdb.Flush(t.Context()), vdb.Compact(t.Context())); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for who := range clients {
		work.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(who)))
			for range calls {
				in := drawCall(rng, func() int { return int(values.Add(1)) })
				if err := r.record(who, in, func(in call) (answer, error) { return c.do(t.Context(), in) }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
	close(stop)
	upkeep.Wait()
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	return r.ops
}

// judge has porcupine look at a history (Lowe, "Testing for linearizability",
// 2017). The time limit is for a search that explodes: no history has come
// near it.
func judge(t *testing.T, ops []porcupine.Operation) porcupine.CheckResult {
	t.Helper()
	result := porcupine.CheckOperationsTimeout(linearModel, ops, time.Minute)
	if result == porcupine.Unknown {
		t.Fatal("porcupine came to no result")
	}
	return result
}

// Every operation takes effect at one moment between its call and its return, in
// every collection that it touches, regardless of concurrent work.
func TestLinearizable(t *testing.T) {
	total, overlapping := 0, 0
	for seed := range uint64(*histories) {
		ops := linearHistory(t, seed, 6, 40)
		if judge(t, ops) != porcupine.Ok {
			t.Fatalf("history %d is not linearizable", seed)
		}
		total += len(ops)
		for _, op := range ops {
			if op.Return > op.Call+1 {
				overlapping++
			}
		}
	}
	t.Logf("%d histories, %d operations, %d of them beside others, all linearizable", *histories, total, overlapping)
	if overlapping == 0 {
		t.Error("no operation ran beside another: this shows nothing")
	}
}

// The check must find wrong histories: changed answers, and clients with seeded
// bugs.
func TestLinearizabilityCanFail(t *testing.T) {
	ctx := t.Context()
	t.Run("answers changed", func(t *testing.T) {
		found, tried := 0, 0
		for seed := range uint64(4) {
			ops := linearHistory(t, 1000+seed, 3, 25)
			for i, op := range ops {
				in, out := op.Input.(call), op.Output.(answer)
				switch in.kind {
				case "get", "many", "list", "all", "search", "snapshot":
					seen := &out.world[in.coll][in.id]
					if *seen == (cell{}) {
						*seen = cell{1 << 20, 1 << 20} // never written
					} else {
						seen.meta += 1 << 20
					}
				case "delete":
					out.n = 2
				case "insert":
					out.err = "not found"
				default:
					continue
				}
				tried++
				ops[i].Output = out
				if judge(t, ops) == porcupine.Illegal {
					found++
				}
				ops[i].Output = op.Output
			}
			if judge(t, ops) != porcupine.Ok {
				t.Fatal("the history as it was is not linearizable")
			}
		}
		t.Logf("%d changed answers, %d found", tried, found)
		if found != tried || tried < 100 {
			t.Errorf("%d of %d changed answers found", found, tried)
		}
	})

	put := func(coll, id, value int) call { return call{kind: "upsert", coll: coll, id: id, value: value} }
	both := call{kind: "batch", writes: []call{put(0, 0, 10), put(1, 0, 11)}}
	for name, bug := range map[string]func(c *client, r *recorder) error{
		"stale read": func(c *client, r *recorder) error {
			snap, err := c.db.Snapshot()
			if err != nil {
				return err
			}
			defer snap.Close()
			return errors.Join(
				r.record(0, put(0, 0, 1), func(in call) (answer, error) { return c.do(ctx, in) }),
				r.record(0, call{kind: "snapshot"}, func(call) (answer, error) { return readSnapshot(ctx, snap) }))
		},
		"torn batch": func(c *client, r *recorder) error {
			return r.record(0, both, func(in call) (a answer, err error) {
				for i, part := range in.writes {
					_, err2 := c.do(ctx, part)
					err = errors.Join(err, err2)
					if i == 0 {
						err = errors.Join(err, r.record(1, call{kind: "snapshot"}, func(in call) (answer, error) { return c.do(ctx, in) }))
					}
				}
				return a, err
			})
		},
		"two collections read one after the other": func(c *client, r *recorder) error {
			return r.record(0, call{kind: "snapshot"}, func(in call) (a answer, err error) {
				for i, coll := range c.colls {
					if i > 0 {
						err = errors.Join(err, r.record(1, both, func(in call) (answer, error) { return c.do(ctx, in) }))
					}
					err = errors.Join(err, a.read(ctx, call{kind: "all", coll: i}, coll))
				}
				return a, err
			})
		},
		"lost write": func(c *client, r *recorder) error {
			return errors.Join(
				r.record(0, put(0, 0, 1), func(call) (answer, error) { return answer{}, nil }),
				r.record(0, call{kind: "get"}, func(in call) (answer, error) { return c.do(ctx, in) }))
		},
		"insert decided too early": func(c *client, r *recorder) error {
			return r.record(0, call{kind: "insert", value: 1}, func(in call) (answer, error) {
				err := errors.Join( // two clients have both seen that the id is free
					r.record(1, call{kind: "insert", value: 2}, func(in call) (answer, error) { return c.do(ctx, in) }),
					r.record(1, call{kind: "get"}, func(in call) (answer, error) { return c.do(ctx, in) }))
				_, err2 := c.do(ctx, put(in.coll, in.id, in.value))
				return answer{}, errors.Join(err, err2)
			})
		},
		"deleted twice": func(c *client, r *recorder) error {
			return errors.Join(
				r.record(0, put(0, 0, 1), func(in call) (answer, error) { return c.do(ctx, in) }),
				r.record(0, call{kind: "delete"}, func(in call) (answer, error) { return c.do(ctx, in) }),
				r.record(0, call{kind: "delete"}, func(call) (answer, error) { return answer{n: 1}, nil }))
		},
	} {
		t.Run(name, func(t *testing.T) {
			vdb := open(t, t.TempDir(), &Options{Sync: SyncNever})
			r := &recorder{}
			if err := bug(newClient(t, vdb), r); err != nil {
				t.Fatal(err)
			}
			if judge(t, r.ops) != porcupine.Illegal {
				t.Errorf("not found in %+v", r.ops)
			}
		})
	}
}
