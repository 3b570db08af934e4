package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/score"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/columns"
)

// Recompute compares the derived file on disk with its sources. It must be called inside
// Guard.
func (d *Derived[T]) Recompute(ctx context.Context) error {
	if d.deep == nil {
		return nil
	}
	return d.OnDisk(func(v *T) error { return d.deep(ctx, v) })
}

// OnDisk calls fn with the content of the file on disk. It skips missing files, and
// unreadable ones, because check reports these.
func (d *Derived[T]) OnDisk(fn func(*T) error) error {
	m, err := mapFile(d.engine.Files(), d.Name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer m.Close()
	v, err := d.parse(m.Bytes())
	if err != nil {
		return nil
	}
	return fn(v)
}

// compareColumns compares columns with the metadata of all rows that still have a
// document.
func (s *OpenSegment) compareColumns(ctx context.Context, have *columns.Columns) error {
	b, there := columns.NewBuilder(), bitset.New(s.Info.Rows)
	err := s.EachMetadata(ctx, func(row int, m map[string]any) error {
		there.Set(row)
		return b.Add(row, m)
	})
	if err != nil {
		return err
	}
	want, err := columns.Parse(b.Bytes(s.Info.Rows, s.ColumnsIdent()), s.ColumnsIdent())
	if err != nil {
		return err
	}
	_, err = compareFields(ctx, have, want, there)
	return err
}

// compareFields compares the fields of some rows in two columns, and returns the number of values
// that it has compared. It looks only at rows that have a field in one of them: with every row for
// every field, a segment of documents with many fields of their own would take hours.
func compareFields(ctx context.Context, have, want *columns.Columns, rows bitset.Set) (compared int, err error) {
	var paths []string
	for _, f := range slices.Concat(have.Fields(), want.Fields()) {
		paths = append(paths, f.Path)
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		for _, c := range []*columns.Columns{have, want} {
			for row := range c.Rows(path) {
				if !rows.Has(row) {
					continue
				}
				if compared%1024 == 0 && ctx.Err() != nil {
					return compared, ctx.Err()
				}
				compared++
				got, ok := have.Value(row, path)
				should, has := want.Value(row, path)
				if ok != has || !SameValue(got, should) {
					return compared, fmt.Errorf("field %q of row %d is %v, but %v in the document",
						path, row, got, should)
				}
			}
		}
	}
	return compared, nil
}

// compareCodes checks that the codes bound the true score of each row, for a few queries:
// stored vectors, whose scores reach the extremes, and their sum.
func (s *OpenSegment) compareCodes(ctx context.Context, have *codes.Codes) error {
	const queries = 4
	sum := make([]float32, s.Info.Dim)
	for i := range queries + 1 {
		query := sum
		if i < queries {
			at := i * (s.Info.Rows - 1) / queries
			vec, err := s.Rows(at, at+1)
			if err != nil {
				return err
			}
			query = slices.Clone(vec)
			for j, x := range query {
				if sum[j] += x; math.IsInf(float64(sum[j]), 0) {
					sum[j] = 0
				}
			}
		}
		q, scorer := have.Query(query), score.New(s.metric, query)
		for row := range s.Info.Rows {
			if row%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			vec, err := s.Rows(row, row+1)
			if err != nil {
				return err
			}
			coded, err := q.Row(row)
			if err != nil {
				return err
			}
			least, most := q.Interval(coded)
			if score := scorer.Score(vec); !(least <= score && score <= most) {
				return fmt.Errorf("row %d has score %v, outside the bounds %v to %v of its codes", row,
					score, least, most)
			}
		}
	}
	return nil
}

// SameValue compares a value of a column with a value of metadata. The fields of maps are
// compared at their own paths.
func SameValue(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, SameValue)
	case map[string]any:
		_, ok := b.(map[string]any)
		return ok
	}
	n, ok := filter.Compare(a, b)
	return ok && n == 0
}
