package weaviate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/simd"
	"github.com/vecbolt/vecbolt/store"
	"github.com/vecbolt/vecbolt/store/migrate"
	"github.com/vecbolt/vecbolt/store/storetest"
)

// cluster returns the endpoints of a real cluster, which tools/engines/weaviate.sh
// starts.
func cluster(t testing.TB) []string {
	t.Helper()
	list := os.Getenv("VECBOLT_WEAVIATE")
	if list == "" {
		t.Skip("VECBOLT_WEAVIATE is not set: tools/engines/weaviate.sh start prints what to set it to")
	}
	return strings.Split(list, ",")
}

// The suite on a real cluster. Writes wait for all replicas, so that what is
// searched is what was written (trap 7).
func TestConformance(t *testing.T) {
	endpoints := cluster(t)
	storetest.Run(t, func(t *testing.T) store.Store {
		s, err := Open(t.Context(), endpoints, &Options{WriteAll: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}, storetest.Options{Recall: 0.99})
}

// A collection moves to the cluster and back: everything is as it was, bit by
// bit. Hybrid answers are made by the rules of package db.
func TestMigration(t *testing.T) {
	endpoints := cluster(t)
	ctx := t.Context()
	s, err := Open(ctx, endpoints, &Options{WriteAll: true})
	if err != nil {
		t.Fatal(err)
	}
	const name = "storetest migration"
	drop := func() {
		if err := s.Drop(context.WithoutCancel(ctx), name); err != nil && !errors.Is(err, db.ErrNotFound) {
			t.Errorf("drop: %v", err)
		}
	}
	drop()
	t.Cleanup(drop)
	vdb, err := db.Open(t.TempDir(), &db.Options{Sync: db.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := vdb.Close(); err != nil {
			t.Error(err)
		}
	})
	embedded := store.Embedded(vdb)
	from, err := embedded.Create(ctx, "from", store.Schema{Dim: 8, Text: &db.TextIndex{Language: "none"}, Metadata: db.Metadata{"n": int64(1) << 60}})
	if err != nil {
		t.Fatal(err)
	}
	if err := from.Upsert(ctx, storetest.Documents(8)); err != nil {
		t.Fatal(err)
	}
	if _, err := migrate.Run(ctx, from, s, name, nil); err != nil {
		t.Fatal(err)
	}
	there, err := s.Collection(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrate.Run(ctx, there, embedded, "back", nil); err != nil {
		t.Fatal(err)
	}
	back, err := embedded.Collection(ctx, "back")
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]store.Collection{{from, there}, {there, back}, {from, back}} {
		if v, err := migrate.Verify(ctx, pair[0], pair[1]); err != nil || !v.OK() {
			t.Errorf("%s and %s: %v, %v", pair[0].Name(), pair[1].Name(), v, err)
		} else {
			t.Log(v)
		}
	}
	// Scores of texts depend on how documents fell to shards; the rule does not.
	near := storetest.Documents(8)[101].Vector
	q := db.Query{Near: db.Vector(near), Text: "graph number7", K: 10, Where: filter.Exists("n")}
	result, err := store.NewAdapter(there).Search(ctx, q)
	if err != nil || len(result.Hits) != 10 {
		t.Fatalf("hybrid: %d hits, %v", len(result.Hits), err)
	}
	for i, h := range result.Hits {
		docs, err := from.Get(ctx, []string{h.ID})
		if err != nil || docs[0] == nil || !store.Matches(q.Where, docs[0]) {
			t.Fatalf("hit %q: %v", h.ID, err)
		}
		if leg := h.Legs[0].Score; leg != nil && math.Abs(*leg-simd.Cosine64(near, docs[0].Vector)) > 1e-5 {
			t.Errorf("hit %q: cosine %v", h.ID, *leg)
		}
		if h.Score <= 0 || h.Score > 1.001 || i > 0 && h.Score > result.Hits[i-1].Score {
			t.Errorf("hit %d, %q, has score %v", i, h.ID, h.Score)
		}
	}
}

// One of three nodes is killed while others read and write: no call fails, and
// what was written is there. Then everything else works with two nodes too.
func TestKilledNode(t *testing.T) {
	endpoints := cluster(t)
	control := os.Getenv("VECBOLT_WEAVIATE_CONTROL")
	if control == "" || len(endpoints) < 3 {
		t.Skip("VECBOLT_WEAVIATE_CONTROL is not set to the script that has started three nodes")
	}
	ctx := t.Context()
	s, err := Open(ctx, endpoints, &Options{Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	drop := func(name string) {
		if err := s.Drop(context.WithoutCancel(ctx), name); err != nil && !errors.Is(err, db.ErrNotFound) {
			t.Errorf("drop: %v", err)
		}
	}
	const name = "storetest kill"
	drop(name)
	c, err := s.Create(ctx, name, store.Schema{Dim: 8, Text: &db.TextIndex{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { drop(name) })
	document := func(i int) db.Document {
		d := db.Document{ID: fmt.Sprint("doc ", i), Text: "word" + fmt.Sprint(i%10), Metadata: db.Metadata{"n": int64(i)}, Vector: make([]float32, 8)}
		d.Vector[i%8], d.Vector[(i+3)%8] = 1, float32(i%100)/100
		return d
	}
	const before, during = 200, 400
	var batch []db.Document
	for i := range before {
		batch = append(batch, document(i))
	}
	// All replicas have what the readers will look for: a search reads one (trap 7).
	patient, err := Open(ctx, endpoints, &Options{WriteAll: true})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := patient.Collection(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	if err := whole.Upsert(ctx, batch); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(context.WithoutCancel(ctx), control, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%s", control, args, err, out)
		}
	}
	// A writer and two readers; the node dies at a third of the writes. Readers
	// go on as long as the writer does.
	var reads atomic.Int64
	var slowest atomic.Int64
	timed := func(f func() error) error {
		start := time.Now()
		err := f()
		if d := int64(time.Since(start)); err == nil && d > slowest.Load() {
			slowest.Store(d)
		}
		return err
	}
	done, ended := make(chan struct{}), make(chan struct{})
	ticks := make(chan struct{}, 1<<20) // one for each pair of reads
	await := func(n int) {              // until readers have gone on, or have failed
		for range n {
			select {
			case <-ticks:
			case <-ended:
			}
		}
	}
	var wait sync.WaitGroup
	for reader := range 2 {
		wait.Go(func() {
			for i := reader; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				want := document(i % before)
				err := timed(func() error {
					got, err := c.Get(ctx, []string{want.ID})
					if err == nil && (got[0] == nil || got[0].Text != want.Text) {
						err = fmt.Errorf("document %q is %v", want.ID, got[0])
					}
					return err
				})
				if err == nil {
					err = timed(func() error {
						hits, err := c.Query(ctx, want.Vector, 5, filter.Lt("n", before))
						if err == nil && len(hits) != 5 {
							err = fmt.Errorf("%d hits", len(hits))
						}
						return err
					})
				}
				if err != nil {
					t.Errorf("read %d: %v", i, err)
					return
				}
				reads.Add(2)
				ticks <- struct{}{}
			}
		})
	}
	go func() {
		wait.Wait()
		close(ended)
	}()
	killed := int64(0)
	for i := before; i < before+during; i += 10 {
		if i == before+during/3/10*10 {
			await(10)
			run("kill", "2")
			for len(ticks) > 0 {
				<-ticks
			}
			killed = reads.Load()
		}
		var batch []db.Document
		for j := i; j < i+10; j++ {
			batch = append(batch, document(j))
		}
		if err := timed(func() error { return c.Upsert(ctx, batch) }); err != nil {
			t.Errorf("write %d: %v", i, err)
			break
		}
	}
	await(30)
	close(done)
	<-ended
	t.Logf("%d reads, %d of them after the kill, %d batches written, slowest call %v", reads.Load(), reads.Load()-killed, during/10, time.Duration(slowest.Load()))
	if killed == 0 || reads.Load() == killed {
		t.Errorf("%d reads, %d of them before the kill: nothing was tested", reads.Load(), killed)
	}
	var ids []string
	for i := range before + during {
		ids = append(ids, document(i).ID)
	}
	docs, err := c.Get(ctx, ids)
	if err != nil {
		t.Fatal(err)
	}
	for i, d := range docs {
		if d == nil {
			t.Fatalf("document %q was acknowledged and is not there", ids[i])
		}
	}
	if hits, err := c.TextQuery(ctx, "word3", 100, nil); err != nil || len(hits) != 60 {
		t.Errorf("text query: %d hits, %v", len(hits), err)
	}
	if n, err := c.Delete(ctx, ids[:5]); err != nil || n != 5 {
		t.Errorf("deleted %d by id, %v", n, err)
	}
	if n, err := c.DeleteWhere(ctx, filter.Gte("n", before)); err != nil || n != during {
		t.Errorf("deleted %d, %v", n, err)
	}
	if n, err := c.Count(ctx, nil); err != nil || n != before-5 {
		t.Errorf("count %d, %v", n, err)
	}
	const other = "storetest with two nodes"
	drop(other)
	if _, err := s.Create(ctx, other, store.Schema{Dim: 2}); err != nil {
		t.Errorf("create with two nodes: %v", err)
	}
	drop(other)
	run("start1", "2")
}
