package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/segment/codes"
	"github.com/vecbolt/vecbolt/segment/columns"
	"github.com/vecbolt/vecbolt/wal"
)

// CheckDeep is Check without trust in derived files whose checksums hold. It recomputes
// columns from documents and compares them in both directions. It compares the bounds of
// codes with true scores, and the graph with recomputed codes. It searches the graph for
// each row, and follows every id to its document. That takes longer. Check finds errors
// of disks; CheckDeep also finds errors of programs.
func (db *DB) CheckDeep(ctx context.Context) (*CheckReport, error) { return db.check(ctx, true) }

// CheckFiles checks a database even if Open fails. The error of Open is then the first
// problem of the report, followed by the damage in all files that can be examined without
// it. The returned error means that the check itself failed.
func CheckFiles(ctx context.Context, dir string, deep bool) (*CheckReport, error) {
	vdb, err := Open(dir, &Options{ReadOnly: true})
	if err == nil {
		report, err := vdb.check(ctx, deep)
		return report, errors.Join(err, vdb.Close())
	}
	if !errors.Is(err, ErrCorrupt) {
		return nil, err
	}
	x := &fileChecker{checker: checker{ctx: ctx, report: &CheckReport{Problems: []Problem{}}}}
	x.problem(err)
	if err := x.run(dir); err != nil {
		return nil, fmt.Errorf("db: check %q: %w", dir, translate(err))
	}
	return x.report, nil
}

// fileChecker checks the files of a database that does not open.
type fileChecker struct {
	checker
	fs *vfs.FS
}

// note adds a problem unless the report has it.
func (x *fileChecker) note(err error) {
	for _, err := range flatten(err) {
		if p := problemOf(err); !slices.ContainsFunc(x.report.Problems, func(old Problem) bool {
			return old.File == p.File && (old.Offset == p.Offset || p.Offset < 0)
		}) {
			x.add(p)
		}
	}
}

func (x *fileChecker) run(dir string) (err error) {
	if x.fs, err = vfs.Open(dir, nil); err != nil {
		return err
	}
	defer x.fs.Close()
	lock, err := x.fs.Lock(lockName, false)
	if err != nil {
		return err
	}
	defer lock.Close()
	store, err := meta.Open(x.fs, metaName, meta.Options{ReadOnly: true, Verify: true, Lenient: true})
	if err == nil {
		defer store.Close()
		err = x.store(store)
	} else {
		x.note(err)
		err = x.loose()
	}
	return errors.Join(err, x.ctx.Err())
}

// store checks meta.bolt and the files that it lists.
func (x *fileChecker) store(store *meta.Store) error {
	err := store.Check(x.ctx, func(file, bucket, key, detail string) {
		x.add(Problem{File: file, Offset: -1, Detail: strings.TrimSpace(fmt.Sprintf("%s %s: %s", bucket, key, detail))})
	})
	if err != nil {
		return err
	}
	var state meta.State
	var segments []segment.Info
	err = store.View(func(tx *meta.Tx) (err error) {
		if state, err = tx.State(); err != nil {
			return err
		}
		segments, err = tx.Segments()
		return err
	})
	if err != nil {
		x.note(err)
		return x.loose()
	}
	for _, info := range segments {
		x.report.Segments++
		seg, err := segment.Open(x.fs, state.DB, info)
		if err == nil {
			err = errors.Join(seg.Verify(x.ctx), seg.VerifyRows(x.ctx), seg.Close())
		}
		if err != nil && x.ctx.Err() == nil {
			x.note(err)
			if !errors.Is(err, fs.ErrNotExist) {
				x.file(segment.FileName(info.ID), info)
			}
		}
	}
	_, err = wal.Replay(wal.Options{FS: x.fs, DB: state.DB, ReadOnly: true}, state.Applied, func(_ uint64, b []byte) error {
		_, _, err := decodeRecord(b)
		return errors.Join(err, x.ctx.Err())
	})
	if err != nil && x.ctx.Err() == nil {
		x.note(err)
	}
	problems, err := newLeftovers(x.fs, state, segments).problems()
	for _, p := range problems {
		x.note(p)
	}
	if err != nil && x.ctx.Err() == nil {
		x.note(err)
	}
	return nil
}

// loose checks all vector files by their own headers, because meta.bolt cannot list them.
func (x *fileChecker) loose() error {
	names, err := x.fs.ReadDir(segDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		if _, ext, ok := parseSegmentName(name); ok && ext == ".vec" {
			x.file(segDir+"/"+name, segment.Info{})
		}
	}
	return err
}

// file lists every damaged range of a vector file.
func (x *fileChecker) file(name string, hint segment.Info) {
	found, err := segment.Salvage(x.ctx, x.fs, name, hint, func(uint64, []float32) error { return nil })
	if err != nil && x.ctx.Err() == nil {
		x.note(err)
	}
	for _, bad := range found.Bad {
		x.note(&CorruptError{File: name, Offset: bad.Offset, Err: fmt.Errorf("%d bytes: %w", bad.Len, bad.Err)})
	}
}

// recompute compares the derived file on disk with its sources. It must be called inside
// guard.
func (d *derived[T]) recompute(ctx context.Context) error {
	if d.deep == nil {
		return nil
	}
	return d.onDisk(func(v *T) error { return d.deep(ctx, v) })
}

// onDisk calls fn with the content of the file on disk. It skips missing files, and
// unreadable ones, because check reports these.
func (d *derived[T]) onDisk(fn func(*T) error) error {
	m, err := mapFile(d.db.files(), d.name)
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
func (s *openSegment) compareColumns(ctx context.Context, have *columns.Columns) error {
	b, there := columns.NewBuilder(), bitset.New(s.info.Rows)
	err := s.eachMetadata(ctx, func(row int, m Metadata) error {
		there.Set(row)
		return b.Add(row, m)
	})
	if err != nil {
		return err
	}
	want, err := columns.Parse(b.Bytes(s.info.Rows, s.columnsIdent()), s.columnsIdent())
	if err != nil {
		return err
	}
	var paths []string
	for _, f := range slices.Concat(have.Fields(), want.Fields()) {
		paths = append(paths, f.Path)
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		for row := range there.All() {
			got, ok := have.Value(row, path)
			should, has := want.Value(row, path)
			if ok != has || !sameValue(got, should) {
				return fmt.Errorf("field %q of row %d is %v, but %v in the document", path, row, got, should)
			}
		}
	}
	return nil
}

// compareCodes checks that the codes bound the true score of each row, for a few queries:
// stored vectors, whose scores reach the extremes, and their sum.
func (s *openSegment) compareCodes(ctx context.Context, have *codes.Codes) error {
	const queries = 4
	sum := make([]float32, s.info.Dim)
	for i := range queries + 1 {
		query := sum
		if i < queries {
			at := i * (s.info.Rows - 1) / queries
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
		q, scorer := have.Query(query), newScorer(s.metric, query)
		for row := range s.info.Rows {
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
			if score := scorer.score(vec); !(least <= score && score <= most) {
				return fmt.Errorf("row %d has score %v, outside the bounds %v to %v of its codes", row, score, least, most)
			}
		}
	}
	return nil
}

// ids follows every id of the version to its document and checks that the document has
// that id.
func (c *checker) ids(v *view) error {
	var all []bitset.Set
	for _, p := range v.parts {
		all = append(all, p.alive())
	}
	return c.ver.read(func(tx *meta.Tx) error {
		l := lister{ver: c.ver, v: v, sets: all, want: math.MaxInt}
		if err := l.run(c.ctx, tx, v.count); err != nil {
			return err
		}
		for _, m := range l.found {
			id, err := v.idAt(tx, m.part, m.row)
			if err == nil && id != m.id {
				err = corruptDocument(m.part.nums[m.row], fmt.Errorf("has id %q, but id %q leads to it", id, m.id))
			}
			if err != nil {
				c.problem(err)
			}
		}
		if len(l.found) != v.count {
			c.add(Problem{File: metaName, Offset: -1,
				Detail: fmt.Sprintf("collection %q has %d documents, but %d ids lead to documents", v.def.name, v.count, len(l.found))})
		}
		return nil
	})
}
