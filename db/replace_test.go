package db

import (
	"errors"
	"fmt"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
)

// TestBatchDeleteWhere: the documents that match when a batch is applied are removed before its
// other writes, in the collections that it names, and only if all of it takes effect.
func TestBatchDeleteWhere(t *testing.T) {
	ctx := t.Context()
	vdb := open(t, memDir(t), nil)
	a, b := collection(t, vdb, "a", Schema{}), collection(t, vdb, "b", Schema{})
	for _, c := range []*Collection{a, b} {
		for i := range 6 {
			upsert(t, c, Document{ID: fmt.Sprint(i), Metadata: Metadata{"of": i % 2}})
		}
	}
	check := func(c *Collection, want ...string) {
		t.Helper()
		var ids []string
		for d, err := range c.All(ctx, nil, IDsOnly) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, d.ID)
		}
		if fmt.Sprint(ids) != fmt.Sprint(want) {
			t.Errorf("documents %v, want %v", ids, want)
		}
	}
	var batch Batch
	batch.Upsert("a", Document{ID: "1", Metadata: Metadata{"of": 1}})
	batch.Insert("a", Document{ID: "3", Metadata: Metadata{"of": 1}}) // its id is free by then
	batch.DeleteWhere("a", filter.Eq("of", 1))
	batch.DeleteWhere("b", filter.Gte("of", 1))
	if batch.Len() != 4 || len(batch.IDs()) != 2 {
		t.Errorf("%d writes, ids %v", batch.Len(), batch.IDs())
	}
	upsert(t, a, Document{ID: "late", Metadata: Metadata{"of": 1}})
	if err := vdb.Apply(ctx, &batch); err != nil {
		t.Fatal(err)
	}
	check(a, "0", "2", "4", "1", "3")
	check(b, "0", "2", "4")
	batch.Reset()
	batch.DeleteWhere("a", filter.And())
	batch.Insert("b", Document{ID: "0"})
	if err := vdb.Apply(ctx, &batch); !errors.Is(err, ErrExists) {
		t.Errorf("an insert of a taken id: %v", err)
	}
	check(a, "0", "2", "4", "1", "3")
	batch.Reset()
	batch.DeleteWhere("a", filter.And())
	if err := b.Apply(ctx, &batch); err != nil { // it writes to b, whatever name the batch has
		t.Fatal(err)
	}
	check(a, "0", "2", "4", "1", "3")
	check(b)
	batch.Upsert("b", Document{ID: "x"})
	if err := b.Apply(ctx, &batch); !errors.Is(err, ErrInvalid) {
		t.Errorf("two names: %v", err)
	}
}

// TestReplaceTogether: two processes replace the parts of a file at the same time, by more or fewer
// parts. Every reader sees all parts of one version.
func TestReplaceTogether(t *testing.T) {
	bounded(t)
	const rounds = 40
	ctx := t.Context()
	one, two := openBoth(t, t.TempDir())
	collection(t, one, "parts", Schema{})
	if err := two.Barrier(ctx); err != nil {
		t.Fatal(err)
	}
	check := func(vdb *DB) error {
		c, err := vdb.Collection("parts")
		if err != nil {
			return err
		}
		var parts []*Document
		for d, err := range c.All(ctx, nil, WithMetadata) {
			if err != nil {
				return err
			}
			parts = append(parts, d)
		}
		for _, d := range parts {
			if d.Metadata["version"] != parts[0].Metadata["version"] || d.Metadata["parts"] != int64(len(parts)) {
				return fmt.Errorf("%d parts, one of them %s: %v", len(parts), d.ID, d.Metadata)
			}
		}
		return nil
	}
	done := make(chan error)
	for n, vdb := range []*DB{one, two, one, two} {
		go func() {
			for i := range rounds {
				if n >= 2 {
					if err := check(vdb); err != nil {
						done <- err
						return
					}
					continue
				}
				var b Batch
				parts := 1 + (7*i+3*n)%9
				b.DeleteWhere("parts", filter.Eq("of", "file"))
				for j := range parts {
					b.Upsert("parts", Document{ID: fmt.Sprint("file#", j),
						Metadata: Metadata{"of": "file", "version": fmt.Sprint(n, i), "parts": parts}})
				}
				if err := vdb.Apply(ctx, &b); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for _, vdb := range []*DB{one, two} {
		if err := errors.Join(vdb.Barrier(ctx), check(vdb)); err != nil {
			t.Error(err)
		}
	}
}
