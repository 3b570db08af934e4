package db

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
)

// Long calls report each step, and all of the work at the end.
func TestWithProgress(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t.vdb")
	vdb, err := Open(dir, &Options{Sync: SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	const rows = 600
	for _, name := range []string{"a", "b"} {
		c, err := vdb.CreateCollection(t.Context(), name, Schema{Text: &TextIndex{}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			d := Document{ID: fmt.Sprint(i), Vector: []float32{float32(i), 1}, Text: "text", Metadata: Metadata{"n": int64(i)}}
			if _, err := c.Upsert(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := vdb.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := vdb.Collection("b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Upsert(t.Context(), Document{ID: "head", Vector: []float32{1, 1}}); err != nil { // in no segment
		t.Fatal(err)
	}
	p, err := vdb.NewPublisher(filepath.Join(t.TempDir(), "published"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, tt := range []struct {
		name  string
		call  func(ctx context.Context) error
		steps int
		total int64 // 0: any
	}{
		// 2 segments, 3 batches of at most 256 documents in each, and the head.
		{"check", func(ctx context.Context) error { _, err := vdb.Check(ctx, CheckBytes); return err }, 9, 4*rows + 1},
		{"deep", func(ctx context.Context) error { _, err := vdb.Check(ctx, CheckDeep); return err }, 9, 4*rows + 1},
		{"publish", func(ctx context.Context) error { _, err := p.Publish(ctx); return err }, 2, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			steps, last, all := 0, int64(0), int64(0)
			ctx := WithProgress(t.Context(), func(done, total int64) {
				if done <= last || done > total || steps > 0 && total != all {
					t.Errorf("%d of %d after %d of %d", done, total, last, all)
				}
				steps, last, all = steps+1, done, total
			})
			if err := tt.call(ctx); err != nil {
				t.Fatal(err)
			}
			if steps != tt.steps || last != all || tt.total != 0 && all != tt.total || all == 0 {
				t.Errorf("%d steps to %d of %d, want %d to %d", steps, last, all, tt.steps, tt.total)
			}
			if err := tt.call(t.Context()); err != nil { // nobody wants to know
				t.Fatal(err)
			}
		})
	}
}

// Compact counts the rows that it reads, and those of each graph that it builds. Done grows to the
// total, which grows with a graph.
func TestCompactProgress(t *testing.T) {
	vdb, err := Open(filepath.Join(t.TempDir(), "t.vdb"), &Options{Sync: SyncNever, Compaction: Manual, tests: testOptions{graphSize: 1, trials: 8}})
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	c, err := vdb.CreateCollection(t.Context(), "c", Schema{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const rows = 1500
	for part := range 2 {
		docs := make([]Document, rows)
		for i := range docs {
			docs[i] = Document{ID: fmt.Sprint(part, i), Vector: []float32{float32(i), float32(part), 1}}
		}
		if _, err := c.Upsert(t.Context(), docs...); err != nil {
			t.Fatal(err)
		}
		if err := vdb.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var done, total int64
	steps := 0
	ctx := WithProgress(t.Context(), func(d, all int64) {
		if d < done || d > all || all < total {
			t.Errorf("%d of %d after %d of %d", d, all, done, total)
		}
		done, total = d, all
		steps++
	})
	if err := vdb.Compact(ctx); err != nil {
		t.Fatal(err)
	}
	const graph = 2 * rows
	if want := int64(2*rows + graph + graph/4); done != want || total != want || steps < 4 {
		t.Errorf("%d of %d in %d steps, want %d", done, total, steps, want)
	}
}
