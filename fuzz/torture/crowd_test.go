package torture

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

var crowdTime = flag.Duration("torture.crowd", 2*time.Second, "how long TestCrowd goes on")

// The content of a crowd's database keeps its shape whatever order writes come in, so that any
// reader can tell whether an answer is right without knowing what others do: documents x/k and y/k
// are always of the same turn, and the balances of all accounts have the same sum. Who knows what
// was acknowledged before it began knows what it must see.
const (
	crowdKeys     = 60
	crowdAccounts = 20
	crowdBalance  = 100
	crowdDim      = 8
)

// TestCrowd lets 32 goroutines at one database: they write, read, search, take snapshots, flush,
// compact, check, back up, publish and follow, change indexes, and create and drop collections.
// Every reader compares what it sees with what must hold, and searches with brute force over the
// same snapshot. In the end the database is opened again and compared.
func TestCrowd(t *testing.T) {
	base, err := scratch(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(base)
	dir := filepath.Join(base, databaseName)
	vdb, err := db.Open(dir, &db.Options{HeadSize: 64 * kib, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeoutCause(t.Context(), *crowdTime, errEnough)
	c := &crowd{t: t, vdb: vdb, base: base, ctx: ctx}
	defer stop()
	c.fail = func(err error) {
		t.Error(err)
		stop()
	}
	if err := c.fill(); err != nil {
		t.Fatal(err)
	}
	if c.pub, err = vdb.NewPublisher(filepath.Join(base, publishedName), &db.PublishOptions{Keep: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.pub.Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.follower, err = db.Open(filepath.Join(base, publishedName), &db.Options{ReadOnly: true, Follow: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	n := uint64(0)
	for _, job := range []struct {
		n    int
		what string
		do   func(*rand.Rand) error
	}{
		{10, "pairs", c.pairs}, {2, "accounts", c.accounts}, {2, "collections", c.collections}, {5, "snapshot", c.snapshot},
		{5, "read", c.read}, {1, "flush", func(*rand.Rand) error { return vdb.Flush(ctx) }},
		{1, "compact", func(*rand.Rand) error { return vdb.Compact(ctx) }}, {1, "check", c.check}, {1, "text index", c.index},
		{1, "backup", c.backup}, {1, "publish", func(*rand.Rand) error { _, err := c.pub.Publish(ctx); return err }},
		{2, "follow", c.follow},
	} {
		for range job.n {
			n++
			rng := rand.New(rand.NewPCG(*seed, n))
			all.Go(func() {
				for ctx.Err() == nil {
					if err := job.do(rng); err != nil && ctx.Err() == nil {
						c.fail(fmt.Errorf("%s: %w", job.what, err))
						return
					}
					c.calls.Add(1)
				}
			})
		}
	}
	if n != 32 {
		t.Errorf("a crowd of %d", n)
	}
	if err := inTime(func() error { all.Wait(); return nil }); err != nil && *crowdTime < hangTime/2 {
		t.Fatal(err)
	}
	all.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, errEnough) && !t.Failed() {
		t.Fatal(cause)
	}
	c.ctx = t.Context()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	low := c.low()
	must("at the end", c.consistent(vdb, low))
	must("close", errors.Join(c.follower.Close(), c.pub.Close(), vdb.Close()))
	if c.vdb, err = db.Open(dir, nil); err != nil {
		t.Fatal(err)
	}
	must("opened again", errors.Join(c.consistent(c.vdb, low), c.check(rand.New(rand.NewPCG(*seed, 0))), c.vdb.Close()))
	t.Logf("%d calls", c.calls.Load())
}

// errEnough says that the time is up.
var errEnough = errors.New("enough")

type crowd struct {
	t        *testing.T
	ctx      context.Context
	fail     func(error)
	vdb      *db.DB
	follower *db.DB
	pub      *db.Publisher
	base     string
	calls    atomic.Int64
	backups  atomic.Int64

	locks [crowdKeys]sync.Mutex   // held by who writes a key
	acked [crowdKeys]atomic.Int64 // its last turn that was acknowledged
	bank  sync.Mutex
}

// pair adds both documents of a turn to a batch.
func pair(b *db.Batch, k int, turn int64, rng *rand.Rand) {
	vec := randomVector(rng, crowdDim)
	id := fmt.Sprint(k)
	b.Upsert("x", db.Document{ID: id, Vector: vec, Text: fmt.Sprint("turn ", turn), Metadata: db.Metadata{"turn": turn, "group": int64(k % 5)}})
	b.Upsert("y", db.Document{ID: id, Text: fmt.Sprint("turn ", turn), Metadata: db.Metadata{"turn": turn}})
}

func (c *crowd) fill() error {
	ctx := c.t.Context()
	for name, s := range map[string]db.Schema{"x": {Dim: crowdDim, Text: &db.TextIndex{}}, "y": {Text: &db.TextIndex{}}, "accounts": {}} {
		if _, err := c.vdb.CreateCollection(ctx, name, s, nil); err != nil {
			return err
		}
	}
	b, rng := &db.Batch{}, rand.New(rand.NewPCG(*seed, 0))
	for k := range crowdKeys {
		pair(b, k, 0, rng)
	}
	for i := range crowdAccounts {
		b.Upsert("accounts", db.Document{ID: fmt.Sprint(i), Metadata: db.Metadata{"balance": int64(crowdBalance)}})
	}
	return c.vdb.Apply(ctx, b)
}

func randomVector(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(rng.NormFloat64())
	}
	return v
}

func number(d *db.Document, field string) int64 {
	n, _ := d.Metadata[field].(int64)
	return n
}

// pairs writes the next turn of a key; one in four deletes both documents first, in the same batch.
func (c *crowd) pairs(rng *rand.Rand) error {
	k := rng.IntN(crowdKeys)
	c.locks[k].Lock()
	defer c.locks[k].Unlock()
	b, turn := &db.Batch{}, c.acked[k].Load()+1
	if rng.IntN(4) == 0 {
		b.Delete("x", fmt.Sprint(k))
		b.Delete("y", fmt.Sprint(k))
	}
	pair(b, k, turn, rng)
	if err := c.vdb.Apply(context.WithoutCancel(c.ctx), b); err != nil {
		return err
	}
	c.acked[k].Store(turn)
	return nil
}

// accounts moves an amount.
func (c *crowd) accounts(rng *rand.Rand) error {
	c.bank.Lock()
	defer c.bank.Unlock()
	from := rng.IntN(crowdAccounts)
	ids := []string{fmt.Sprint(from), fmt.Sprint((from + 1 + rng.IntN(crowdAccounts-1)) % crowdAccounts)}
	coll, err := c.vdb.Collection("accounts")
	if err != nil {
		return err
	}
	docs, err := coll.GetMany(c.ctx, ids, 0)
	if err != nil {
		return err
	}
	b := &db.Batch{}
	for i, by := range []int64{-1, 1} {
		b.Patch("accounts", db.Patch{ID: ids[i], Set: db.Metadata{"balance": number(docs[i], "balance") + by}})
	}
	return c.vdb.Apply(context.WithoutCancel(c.ctx), b)
}

// collections creates, fills, renames and drops some that others do so to as well.
func (c *crowd) collections(rng *rand.Rand) error {
	name, other := fmt.Sprint("other", rng.IntN(4)), fmt.Sprint("other", rng.IntN(4))
	var err error
	switch rng.IntN(6) {
	case 0:
		_, err = c.vdb.CreateCollection(c.ctx, name, db.Schema{Text: &db.TextIndex{}}, nil)
	case 1:
		err = c.vdb.Drop(c.ctx, name)
	case 2:
		if name != other {
			err = c.vdb.Rename(c.ctx, name, other)
		}
	default:
		var coll *db.Collection
		if coll, err = c.vdb.Collection(name); err == nil {
			_, err = coll.Upsert(c.ctx, db.Document{ID: fmt.Sprint(rng.IntN(30)), Text: "a b c", Vector: randomVector(rng, 2)})
		}
		if err == nil && rng.IntN(5) == 0 {
			_, err = coll.DeleteWhere(c.ctx, filter.And())
		}
	}
	if errors.Is(err, db.ErrNotFound) || errors.Is(err, db.ErrExists) {
		return nil
	}
	return err
}

// low returns the turns that whoever reads from now on must see.
func (c *crowd) low() []int64 {
	low := make([]int64, crowdKeys)
	for k := range low {
		low[k] = c.acked[k].Load()
	}
	return low
}

// consistent compares all that a source holds with what must hold. low is nil for one that may be
// older.
func (c *crowd) consistent(from source, low []int64) error {
	ctx := context.WithoutCancel(c.ctx)
	everything := map[string]map[string]*db.Document{}
	for _, name := range []string{"x", "y", "accounts"} {
		coll, err := from.Collection(name)
		if err != nil {
			return err
		}
		docs := map[string]*db.Document{}
		for d, err := range coll.All(ctx, nil, db.Everything) {
			if err != nil {
				return err
			}
			if docs[d.ID] != nil {
				return &differenceError{fmt.Sprintf("%s/%s comes twice", name, d.ID)}
			}
			docs[d.ID] = d
		}
		everything[name] = docs
	}
	x, y := everything["x"], everything["y"]
	if len(x) != crowdKeys || len(y) != crowdKeys {
		return &differenceError{fmt.Sprintf("%d and %d documents, want %d", len(x), len(y), crowdKeys)}
	}
	for k := range crowdKeys {
		id := fmt.Sprint(k)
		a, b := x[id], y[id]
		if a == nil || b == nil || number(a, "turn") != number(b, "turn") || a.Text != b.Text {
			return &differenceError{fmt.Sprintf("half a batch: x has %+v, y has %+v", a, b)}
		}
		if low != nil && number(a, "turn") < low[k] {
			return &differenceError{fmt.Sprintf("x/%s is of turn %d, acknowledged was %d", id, number(a, "turn"), low[k])}
		}
	}
	sum := int64(0)
	for _, d := range everything["accounts"] {
		sum += number(d, "balance")
	}
	if sum != crowdAccounts*crowdBalance {
		return &differenceError{fmt.Sprintf("all accounts have %d, want %d", sum, crowdAccounts*crowdBalance)}
	}
	return nil
}

// source is also what brute needs: nobody must write to it.
func (c *crowd) brute(from source, rng *rand.Rand) error {
	ctx := context.WithoutCancel(c.ctx)
	coll, err := from.Collection("x")
	if err != nil {
		return err
	}
	q, group := randomVector(rng, crowdDim), int64(rng.IntN(5))
	where := filter.Eq("group", group)
	type hit struct {
		id    string
		score float64
	}
	var want []hit
	for d, err := range coll.All(ctx, where, db.Everything) {
		if err != nil {
			return err
		}
		want = append(want, hit{d.ID, cosine(q, d.Vector)})
	}
	if len(want) != crowdKeys/5 {
		return &differenceError{fmt.Sprintf("%d documents in group %d, want %d", len(want), group, crowdKeys/5)}
	}
	slices.SortFunc(want, func(a, b hit) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.id, b.id)) })
	res, err := coll.Search(ctx, db.Query{Near: db.Vector(q), K: 5, Where: where, Accuracy: db.Exact})
	if err != nil {
		return err
	}
	if len(res.Hits) != 5 {
		return &differenceError{fmt.Sprintf("%d hits, want 5", len(res.Hits))}
	}
	for i, h := range res.Hits {
		if d := h.Score - want[i].score; d > 1e-9 || d < -1e-9 {
			return &differenceError{fmt.Sprintf("hit %d is %s with %v, brute force says %v", i, h.ID, h.Score, want[i])}
		}
	}
	return nil
}

func (c *crowd) snapshot(rng *rand.Rand) (err error) {
	low := c.low()
	snap, err := c.vdb.Snapshot()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	for range 1 + rng.IntN(3) { // and later
		if err := errors.Join(c.consistent(snap, low), c.brute(snap, rng)); err != nil {
			return err
		}
	}
	return nil
}

// read asks the database itself, while others write.
func (c *crowd) read(rng *rand.Rand) error {
	x, err := c.vdb.Collection("x")
	if err != nil {
		return err
	}
	n := crowdKeys
	switch rng.IntN(5) {
	case 0:
		var res *db.Result
		if res, err = x.Search(c.ctx, db.Query{Near: db.Vector(randomVector(rng, crowdDim)), K: 2 * crowdKeys}); err == nil {
			n = len(res.Hits)
		}
	case 1:
		n, err = x.Count(c.ctx, filter.Gte("turn", int64(0)))
	case 2:
		var page *db.Page
		if page, err = x.List(c.ctx, db.ListQuery{Limit: 1000}); err == nil {
			n = len(page.Documents)
		}
	case 3:
		_, err = x.Search(c.ctx, db.Query{Near: db.Vector(randomVector(rng, crowdDim)), Text: "turn", Where: filter.Eq("group", int64(rng.IntN(5))), K: 5})
	default:
		k := rng.IntN(crowdKeys)
		low := c.acked[k].Load()
		var d *db.Document
		if d, err = x.Get(c.ctx, fmt.Sprint(k), 0); err == nil && number(d, "turn") < low {
			return &differenceError{fmt.Sprintf("x/%d is of turn %d, acknowledged was %d", k, number(d, "turn"), low)}
		}
	}
	if err == nil && n != crowdKeys {
		return &differenceError{fmt.Sprintf("%d documents, want %d", n, crowdKeys)}
	}
	return err
}

func (c *crowd) check(rng *rand.Rand) error {
	level := db.CheckBytes
	if rng.IntN(3) == 0 {
		level = db.CheckDeep
	}
	report, err := c.vdb.Check(c.ctx, level)
	if err == nil && !report.OK() {
		err = fmt.Errorf("%v", report.Problems)
	}
	return err
}

// index makes and drops the full-text index of a collection that others write to.
func (c *crowd) index(rng *rand.Rand) error {
	y, err := c.vdb.Collection("y")
	if err != nil {
		return err
	}
	return y.SetText(c.ctx, []*db.TextIndex{nil, {}, {Language: "none"}}[rng.IntN(3)])
}

func (c *crowd) backup(rng *rand.Rand) error {
	at := filepath.Join(c.base, fmt.Sprint("backup", c.backups.Add(1)))
	low := c.low()
	if err := c.vdb.Backup(c.ctx, at); err != nil {
		return err
	}
	restored, err := db.Open(at, &db.Options{ReadOnly: rng.IntN(2) == 0})
	if err != nil {
		return err
	}
	return errors.Join(c.consistent(restored, low), c.brute(restored, rng), restored.Close(), os.RemoveAll(at))
}

// follow compares what a replica shows, which may be behind.
func (c *crowd) follow(rng *rand.Rand) (err error) {
	snap, err := c.follower.Snapshot()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snap.Close()) }()
	return errors.Join(c.consistent(snap, nil), c.brute(snap, rng))
}
