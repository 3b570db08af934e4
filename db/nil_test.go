package db

import (
	"context"
	"errors"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
)

// A nil argument is ErrInvalid where a call needs one, and the error names it.
func TestNilArguments(t *testing.T) {
	vdb := open(t, Memory, nil)
	c := collection(t, vdb, "c", Schema{Dim: 2})
	upsert(t, c, Document{ID: "a", Vector: []float32{1, 2}})
	snap := must(vdb.Snapshot())
	defer snap.Close()
	ctx := t.Context()
	where := func(x filter.Expr) error {
		_, err := c.Count(ctx, x)
		_, deletes := c.DeleteWhere(ctx, x)
		_, searches := c.Search(ctx, Query{Near: Vector([]float32{1, 2}), Where: x})
		if !errors.Is(deletes, ErrInvalid) || !errors.Is(searches, ErrInvalid) {
			t.Errorf("%v, %v", deletes, searches)
		}
		return err
	}
	for call, err := range map[string]error{
		"DB.Apply":             vdb.Apply(ctx, nil),
		"Apply":                c.Apply(ctx, nil),
		"Snapshot.Of":          func() error { _, err := snap.Of(nil); return err }(),
		"Update":               c.Update(ctx, nil),
		"UpdateMetadata":       c.UpdateMetadata(ctx, nil),
		"Load":                 func() error { _, err := c.Load(ctx, nil, nil); return err }(),
		"DeleteWhere":          func() error { _, err := c.DeleteWhere(ctx, nil); return err }(),
		"DeleteFunc":           func() error { _, err := c.DeleteFunc(ctx, nil, nil); return err }(),
		"DeleteIf":             func() error { _, err := c.DeleteIf(ctx, []string{"a"}, 0, nil); return err }(),
		"Search":               func() error { _, err := c.Search(ctx, Query{}); return err }(),
		"SearchFused":          func() error { _, err := c.SearchFused(ctx, nil); return err }(),
		"Explain":              func() error { _, err := c.Explain(ctx, Query{}); return err }(),
		"a conjunction of nil": where(filter.And(nil)),
		"a negation of nil":    where(filter.Not(nil)),
		"a nil conjunction":    where((*filter.Conjunction)(nil)),
		"a nil comparison":     where((*filter.Comparison)(nil)),
		"a nil membership":     where((*filter.Membership)(nil)),
		"a nil text":           where((*filter.TextMatch)(nil)),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", call, err)
		}
	}
}

// Nil stands for the default, for everything or for nothing where the documentation says so.
func TestNilIsTheDefault(t *testing.T) {
	vdb := open(t, Memory, nil)
	c := collection(t, vdb, "c", Schema{Dim: 2})
	upsert(t, c, Document{ID: "a", Vector: []float32{1, 2}})
	ctx := t.Context()
	for call, do := range map[string]func(context.Context) error{
		"Compact":     vdb.Compact,
		"Check":       func(ctx context.Context) error { _, err := vdb.Check(ctx, CheckBytes); return err },
		"SetMetadata": func(ctx context.Context) error { return c.SetMetadata(ctx, nil) },
		"SetText":     func(ctx context.Context) error { return c.SetText(ctx, nil) },
		"Upsert":      func(ctx context.Context) error { _, err := c.Upsert(ctx); return err },
		"Count":       func(ctx context.Context) error { _, err := c.Count(ctx, nil); return err },
		"GetMany":     func(ctx context.Context) error { _, err := c.GetMany(ctx, nil, Everything); return err },
		"SearchBatch": func(ctx context.Context) error { _, err := c.SearchBatch(ctx, nil); return err },
		"NewPublisher": func(ctx context.Context) error {
			p, err := vdb.NewPublisher(t.TempDir(), nil)
			return errors.Join(err, p.Close())
		},
	} {
		if err := do(WithProgress(ctx, nil)); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
}
