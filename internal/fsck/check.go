package fsck

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/bitset"
	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/manifest"
	"github.com/vecbolt/vecbolt/internal/match"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/segment/columns"
	"github.com/vecbolt/vecbolt/segment/terms"
)

// A Level says how much a check trusts.
type Level uint8

// The levels.
const (
	// Bytes reads every byte and verifies every checksum and invariant. It finds errors of disks.
	Bytes Level = iota
	// Deep also recomputes the derived files, whose checksums a wrong program may have written, and
	// follows every id. It finds errors of programs as well.
	Deep
)

// A Member is the part of this process among those that have the database open.
type Member interface {
	// CheckLog reads the log from the first batch that is not flushed, and returns the damage in
	// it. err says that no process could read it.
	CheckLog(ctx context.Context) (damage, err error)
	// Present returns an error if the directory does not hold the database any more.
	Present() error
}

// Check checks an open database. It changes nothing. Readers and writers go on; writers pause while
// the log is read. Flushes of this process wait while meta.bolt is checked, and writers that fill
// the head wait for them. An error says that the check itself could not be done.
func Check(ctx context.Context, e *engine.Engine, level Level, member Member) (*Report, error) {
	ver, err := e.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer e.Done(ver)
	c := &checker{engine: e, ctx: ctx, ver: ver, deep: level == Deep, report: &Report{Problems: []Problem{}},
		progress: engine.ProgressOf(ctx)}
	c.expect()
	damage, err := member.CheckLog(ctx)
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	logged := func() error { return damage }
	steps := []func() error{member.Present, c.published, c.store, logged, c.segments, c.leftovers, c.documents}
	for _, step := range steps {
		if err := e.Guard(step); err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			c.report.problem(err)
		}
	}
	if err := ctx.Err(); err != nil { // a step skips derived files that cannot be built, also because ctx has ended
		return nil, err
	}
	c.report.tell()
	for i, p := range c.report.Problems {
		c.report.Problems[i] = located(p, c.manifest)
	}
	return c.report, nil
}

// checker is one run of Check.
type checker struct {
	engine *engine.Engine
	ctx    context.Context
	ver    *engine.Version
	deep   bool
	report *Report

	manifest *manifest.Manifest // in a published folder
	progress *engine.Progress   // in rows: once for the files of a segment, once for its documents
}

// store checks meta.bolt: its pages, checksums, digests and counts.
func (c *checker) store() error {
	return c.ver.Files.Store.Check(c.ctx, func(file string, offset int64, bucket, key, detail string) {
		c.report.add(recordProblem(file, offset, bucket, key, detail))
	})
}

// segments reads all vector files and the derived files beside them.
func (c *checker) segments() error {
	for _, s := range c.ver.Files.Segments {
		c.report.Segments++
		c.segment(s)
		c.progress.Add(int64(s.Info.Rows))
	}
	return c.ctx.Err()
}

func (c *checker) segment(s *engine.OpenSegment) {
	if err := s.Verify(c.ctx); err != nil {
		c.report.problem(err)
		return
	}
	if err := s.VerifyRows(c.ctx); err != nil {
		c.report.problem(err)
	}
	for _, d := range s.Derived { // the files on disk, not their content in memory
		err := d.Check()
		if err == nil && c.deep {
			err = d.Recompute(c.ctx)
		}
		if err != nil && c.ctx.Err() == nil {
			c.report.add(Problem{File: d.File(), Offset: -1, Detail: fmt.Sprintf("%v; %v", err, engine.ErrDerived)})
		}
	}
}

// expect counts the rows to check.
func (c *checker) expect() {
	for _, s := range c.ver.Files.Segments {
		c.progress.Expect(int64(s.Info.Rows))
	}
	for _, v := range c.ver.SortedViews() {
		for _, p := range v.Parts {
			c.progress.Expect(int64(p.Live()))
		}
	}
}

// leftovers reports segment files that meta.bolt does not account for.
func (c *checker) leftovers() error {
	if c.engine.IsFolder() {
		return nil // a published folder holds the files that its manifests name
	}
	l := &engine.Leftovers{FS: c.engine.FS}
	look := func() error {
		problems, err := l.Problems()
		for _, p := range problems {
			c.report.problem(p)
		}
		return err
	}
	if c.engine.Role() != engine.Reader { // a leader checked when it opened, and may be writing segments now
		return look()
	}
	alone, err := c.engine.Alone(func() error {
		l = c.engine.Leftovers()
		return look()
	})
	if alone || err != nil {
		return err
	}
	return look()
}

// documents checks that ids, documents and rows refer to each other.
func (c *checker) documents() error {
	for _, v := range c.ver.SortedViews() {
		c.report.Collections++
		c.report.Documents += v.Count
		live := 0
		for _, p := range v.Parts {
			n, err := c.part(v, p)
			if err != nil {
				return err
			}
			live += n
		}
		if c.deep {
			if err := c.ids(v, idsAtOnce); err != nil {
				return err
			}
		}
		if live != v.Count {
			c.report.add(Problem{File: engine.MetaName, Offset: -1,
				Detail: fmt.Sprintf("collection %q has %d ids and %d live rows", v.Def.Name, v.Count, live)})
		}
	}
	return nil
}

func (c *checker) part(v *engine.View, p *engine.Part) (live int, err error) {
	var cols *columns.Columns
	if p.Segment != nil {
		if cols, err = p.Segment.Cols.Need(c.ctx); err != nil {
			c.progress.Add(int64(p.Live()))
			return p.Live(), nil // segments has reported it
		}
		if p.Dim != 0 && p.Dim != v.Def.Schema.Dim {
			c.report.add(Problem{File: segment.FileName(p.Segment.Info.ID), Offset: -1,
				Detail: fmt.Sprintf("dimension %d in collection %q of dimension %d", p.Dim, v.Def.Name,
					v.Def.Schema.Dim)})
		}
	}
	set := p.Alive()
	if err := c.texts(v, p, set); err != nil {
		return 0, err
	}
	rows := slices.Collect(set.All())
	for batch := range slices.Chunk(rows, 256) {
		if err := c.ctx.Err(); err != nil {
			return 0, err
		}
		err := c.ver.Read(func(tx *meta.Tx) error {
			for _, row := range batch {
				if err := c.row(tx, v, p, row, cols); err != nil {
					c.report.document(err)
				}
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
		c.progress.Add(int64(len(batch)))
	}
	return len(rows), nil
}

// row checks one live row: its document exists, the id of the document leads back to the
// row, and the columns agree with the metadata.
func (c *checker) row(tx *meta.Tx, v *engine.View, p *engine.Part, row int, cols *columns.Columns) error {
	b, err := v.Stored(tx, p, row)
	if err != nil {
		return err
	}
	d, err := document.Decode(b, document.All)
	if err != nil {
		return engine.CorruptDocument(p.Nums[row], err)
	}
	num, err := c.ver.Num(tx, v, d.ID)
	if err != nil {
		return err
	}
	if num != p.Nums[row] {
		return &fileformat.CorruptError{File: engine.MetaName, Offset: -1,
			Err: fmt.Errorf("document %d names id %q, which names document %d", p.Nums[row], d.ID, num)}
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
		if !ok || !engine.SameValue(got, want) {
			wrong = path
		}
		return wrong == ""
	})
	if wrong != "" {
		return &fileformat.CorruptError{File: p.Segment.Cols.Name, Offset: -1,
			Err: fmt.Errorf("field %q of document %q differs from its metadata", wrong, d.ID)}
	}
	return nil
}

// texts checks that the index of a part, if it is there, says what the documents
// say.
func (c *checker) texts(v *engine.View, p *engine.Part, live bitset.Set) error {
	a := v.Def.Analysis
	if a == nil || p.Segment == nil {
		return nil
	}
	d := p.Segment.Terms.Of(a)
	compare := func(index *terms.Terms) error {
		var b blocks.Memory
		if err := p.Segment.WriteTerms(c.ctx, &b, a); err != nil {
			return err
		}
		fresh, err := terms.Parse(b, p.Segment.TermsIdent(a))
		if err == nil {
			err = terms.Compare(index, fresh, live)
		}
		if err != nil {
			c.report.add(Problem{File: d.Name, Offset: -1, Detail: fmt.Sprintf("%v; %v", err, engine.ErrDerived)})
		}
		return nil
	}
	if c.deep {
		return d.OnDisk(compare)
	}
	if index := d.Get(); index != nil {
		return compare(index)
	}
	return nil
}

// published compares all files of the current version of a published folder with its manifest, and
// reports newer versions: readers pass over them, which must not hide that they are lost.
func (c *checker) published() error {
	if !c.engine.IsFolder() {
		return nil
	}
	m, rejected, err := c.engine.Published(c.ctx)
	c.manifest = m
	if err != nil {
		return err
	}
	for _, err := range rejected {
		c.report.add(passedOver(err, m.Number))
	}
	for _, file := range m.Files {
		if err := engine.Compare(c.ctx, c.engine.FS, file); err != nil {
			c.report.problem(err)
		}
	}
	return nil
}

// idsAtOnce is how many ids a check holds in memory, and follows in one transaction.
const idsAtOnce = 1 << 16

// ids follows every id of the version to its document and checks that the document has that id. It
// takes a page of ids at a time. It ends at a flush: the tree has no ids of the version any more.
func (c *checker) ids(v *engine.View, page int) error {
	var all []bitset.Set
	for _, p := range v.Parts {
		all = append(all, p.Alive())
	}
	found := 0
	l := match.Lister{Version: c.ver, View: v, Sets: all, Want: page}
	for more := true; more; more = len(l.Found) == page {
		l.Found = l.Found[:0]
		flushed := false
		err := c.ver.Read(func(tx *meta.Tx) error {
			state, err := tx.State()
			if flushed = state.Applied != c.ver.Applied; flushed || err != nil {
				return err
			}
			if err := l.Run(c.ctx, tx, v.Count); err != nil {
				return err
			}
			for i, m := range l.Found {
				if i%1024 == 0 && c.ctx.Err() != nil {
					return c.ctx.Err()
				}
				id, err := v.IDAt(tx, m.Part, m.Row)
				if err == nil && id != m.ID {
					err = engine.CorruptDocument(m.Part.Nums[m.Row],
						fmt.Errorf("has id %q, but id %q leads to it", id, m.ID))
				}
				if err != nil {
					c.report.problem(err)
				}
			}
			return nil
		})
		if flushed || err != nil {
			return err
		}
		if found += len(l.Found); len(l.Found) > 0 {
			l.After = l.Found[len(l.Found)-1].ID
		}
	}
	if found != v.Count {
		c.report.add(Problem{File: engine.MetaName, Offset: -1,
			Detail: fmt.Sprintf("collection %q has %d documents, but %d ids lead to documents",
				v.Def.Name, v.Count, found)})
	}
	return nil
}
