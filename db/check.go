package db

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/segment/columns"
	"github.com/vecbolt/vecbolt/wal"
)

// A Problem is one thing that Check found wrong.
type Problem struct {
	File   string `json:"file"`   // relative to the database directory
	Offset int64  `json:"offset"` // in bytes; -1 when it is not known
	Detail string `json:"detail"`
}

// String returns the problem as one readable line.
func (p Problem) String() string {
	if p.Offset < 0 {
		return fmt.Sprintf("%s: %s", p.File, p.Detail)
	}
	return fmt.Sprintf("%s at offset %d: %s", p.File, p.Offset, p.Detail)
}

// A CheckReport is what Check looked at and what it found wrong.
type CheckReport struct {
	Problems    []Problem `json:"problems"`
	Collections int       `json:"collections"`
	Documents   int       `json:"documents"`
	Segments    int       `json:"segments"`
}

// OK reports whether nothing is wrong.
func (r *CheckReport) OK() bool { return len(r.Problems) == 0 }

// maxProblems bounds a report: a broken disk can yield any number of problems.
const maxProblems = 1000

// Check reads every byte on disk and verifies every checksum and invariant
// (docs/design.md lists them). It changes nothing. Readers and writers go on;
// writers pause while the log is read. The error says that the check itself
// could not be done; what is wrong with the data is in the report.
func (db *DB) Check(ctx context.Context) (*CheckReport, error) { return db.check(ctx, false) }

func (db *DB) check(ctx context.Context, deep bool) (*CheckReport, error) {
	ver, err := db.acquire()
	if err != nil {
		return nil, fmt.Errorf("db: check: %w", err)
	}
	defer db.done(ver)
	c := &checker{db: db, ctx: ctx, ver: ver, deep: deep, report: &CheckReport{Problems: []Problem{}}}
	for _, step := range []func() error{c.published, c.store, c.log, c.segments, c.leftovers, c.documents} {
		if err := db.guard(step); err != nil {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("db: check: %w", ctx.Err())
			}
			c.problem(err)
		}
	}
	return c.report, nil
}

// checker is one run of Check.
type checker struct {
	db     *DB
	ctx    context.Context
	ver    *version
	deep   bool
	report *CheckReport
}

func (c *checker) add(p Problem) {
	if len(c.report.Problems) < maxProblems {
		c.report.Problems = append(c.report.Problems, p)
	}
}

// problem adds an error to the report.
func (c *checker) problem(err error) {
	for _, err := range flatten(err) {
		c.add(problemOf(err))
	}
}

// problemOf describes an error, with file and offset where it has them.
func problemOf(err error) Problem {
	var corrupt *CorruptError
	if errors.As(translate(err), &corrupt) {
		return Problem{File: corrupt.File, Offset: corrupt.Offset, Detail: corrupt.Err.Error()}
	}
	return Problem{File: metaName, Offset: -1, Detail: err.Error()}
}

// flatten takes joined errors apart.
func flatten(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, flatten(e)...)
		}
		return all
	}
	return []error{err}
}

// store checks meta.bolt: its pages, checksums, digests and counts.
func (c *checker) store() error {
	return c.ver.files.store.Check(c.ctx, func(file, bucket, key, detail string) {
		c.add(Problem{File: file, Offset: -1, Detail: fmt.Sprintf("%s %s: %s", bucket, key, detail)})
	})
}

// log reads the log from the first batch that is not flushed (I5: no hole; frames whole).
func (c *checker) log() error {
	c.db.metaMu.Lock() // keeps log files from being removed
	defer c.db.metaMu.Unlock()
	c.db.commitMu.Lock() // keeps batches from being written
	defer c.db.commitMu.Unlock()
	_, err := wal.Replay(wal.Options{FS: c.db.files(), DB: c.db.state.DB}, c.db.cur.applied, func(_ uint64, b []byte) error {
		_, _, err := decodeRecord(b)
		return errors.Join(err, c.ctx.Err())
	})
	return err
}

// segments reads all vector files and the derived files beside them.
func (c *checker) segments() error {
	for _, s := range c.ver.files.segments {
		c.report.Segments++
		if err := s.Verify(c.ctx); err != nil {
			c.problem(err)
			continue
		}
		if err := s.VerifyRows(c.ctx); err != nil {
			c.problem(err)
		}
		for _, d := range s.derived { // the files on disk, not their content in memory
			err := d.check()
			if err == nil && c.deep {
				err = d.recompute(c.ctx)
			}
			if err != nil && c.ctx.Err() == nil {
				c.add(Problem{File: d.file(), Offset: -1, Detail: fmt.Sprintf("%v; %v", err, errDerived)})
			}
		}
	}
	return c.ctx.Err()
}

// leftovers reports segment files that meta.bolt does not account for.
func (c *checker) leftovers() error {
	if c.db.following != nil {
		return nil // a published folder holds the files that its manifests name
	}
	l := &leftovers{fs: c.db.fs}
	if c.db.opts.ReadOnly { // a writer checked when it opened, and may be writing segments now
		l = c.db.leftovers()
	}
	problems, err := l.problems()
	for _, p := range problems {
		c.problem(p)
	}
	return err
}

// documents checks that ids, documents and rows refer to each other.
func (c *checker) documents() error {
	for _, v := range c.ver.sortedViews() {
		c.report.Collections++
		c.report.Documents += v.count
		live := 0
		for _, p := range v.parts {
			n, err := c.part(v, p)
			if err != nil {
				return err
			}
			live += n
		}
		if c.deep {
			if err := c.ids(v); err != nil {
				return err
			}
		}
		if live != v.count {
			c.add(Problem{File: metaName, Offset: -1,
				Detail: fmt.Sprintf("collection %q has %d ids and %d live rows", v.def.name, v.count, live)})
		}
	}
	return nil
}

func (c *checker) part(v *view, p *part) (live int, err error) {
	var cols *columns.Columns
	if p.segment != nil {
		if cols, err = p.segment.cols.need(c.ctx); err != nil {
			return p.live(), nil // segments has reported it
		}
		if p.dim != 0 && p.dim != v.def.schema.Dim {
			c.add(Problem{File: segment.FileName(p.segment.info.ID), Offset: -1,
				Detail: fmt.Sprintf("dimension %d in collection %q of dimension %d", p.dim, v.def.name, v.def.schema.Dim)})
		}
	}
	set := p.alive()
	if err := c.texts(v, p, set); err != nil {
		return 0, err
	}
	rows := slices.Collect(set.All())
	for batch := range slices.Chunk(rows, 256) {
		if err := c.ctx.Err(); err != nil {
			return 0, err
		}
		err := c.ver.read(func(tx *meta.Tx) error {
			for _, row := range batch {
				if err := c.row(tx, v, p, row, cols); err != nil {
					c.problem(err)
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	return len(rows), nil
}

// row checks one live row: its document exists, the id of the document leads back to the
// row, and the columns agree with the metadata.
func (c *checker) row(tx *meta.Tx, v *view, p *part, row int, cols *columns.Columns) error {
	b, err := v.stored(tx, p, row)
	if err != nil {
		return err
	}
	d, err := document.Decode(b, document.All)
	if err != nil {
		return corruptDocument(p.nums[row], err)
	}
	num, err := c.ver.num(tx, v, d.ID)
	if err != nil {
		return err
	}
	if num != p.nums[row] {
		return &CorruptError{File: metaName, Offset: -1,
			Err: fmt.Errorf("document %d names id %q, which names document %d", p.nums[row], d.ID, num)}
	}
	if cols == nil {
		return nil
	}
	var wrong string
	filter.Flatten(d.Metadata, func(path string, want any) bool {
		if _, isMap := want.(map[string]any); isMap {
			return true
		}
		got, ok := cols.Value(row, path)
		if !ok || !sameValue(got, want) {
			wrong = path
		}
		return wrong == ""
	})
	if wrong != "" {
		return &CorruptError{File: p.segment.cols.name, Offset: -1,
			Err: fmt.Errorf("field %q of document %q differs from its metadata", wrong, d.ID)}
	}
	return nil
}

// sameValue compares a value of a column with a value of metadata. The fields of maps are
// compared at their own paths.
func sameValue(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameValue)
	case map[string]any:
		_, ok := b.(map[string]any)
		return ok
	}
	n, ok := filter.Compare(a, b)
	return ok && n == 0
}
