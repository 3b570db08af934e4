package fsck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/wal"
)

// CheckFiles checks the files of a database that does not open, because of why. That error is the
// first problem of the report, followed by the damage in all files that can be examined without it.
// The returned error means that the check itself failed.
func CheckFiles(ctx context.Context, dir string, why error) (*Report, error) {
	x := &fileChecker{place: &place{}, ctx: ctx, report: &Report{Problems: []Problem{}}}
	x.report.problem(why)
	if err := x.run(dir, why); err != nil {
		return nil, err
	}
	return x.report, nil
}

// fileChecker is one run of CheckFiles.
type fileChecker struct {
	*place
	ctx    context.Context
	report *Report
}

// note adds a problem unless the report has it.
func (x *fileChecker) note(err error) {
	for _, err := range flatten(err) {
		x.add(problemOf(err))
	}
}

func (x *fileChecker) add(p Problem) {
	p = located(p, x.version)
	if !slices.ContainsFunc(x.report.Problems, func(old Problem) bool {
		return old.File == p.File && (old.Offset == p.Offset || p.Offset < 0)
	}) {
		x.report.add(p)
	}
}

// gap notes lost batches. The report may have the damage, without their number.
func (x *fileChecker) gap(g wal.Gap) {
	p := located(gapOf(g), x.version)
	i := slices.IndexFunc(x.report.Problems, func(old Problem) bool {
		return old.File == p.File && old.Offset == p.Offset &&
			(p.Offset >= 0 || strings.HasPrefix(p.Detail, old.Detail))
	})
	if i < 0 {
		x.report.add(p)
	} else {
		x.report.Problems[i] = p
	}
}

func (x *fileChecker) run(dir string, why error) error {
	found, err := look(dir, nil)
	if unusable := (*engine.VersionError)(nil); errors.As(err, &unusable) {
		x.note(err)
		return nil // no version of the folder can be examined
	}
	if err != nil {
		return err
	}
	defer found.close()
	x.place = found
	if opened := (*engine.VersionError)(nil); errors.As(why, &opened) && x.version != nil &&
		opened.Number > x.version.Number {
		x.report.Problems = x.report.Problems[:0] // it is one of those that are passed over
	}
	if x.unlocked != nil {
		x.note(x.unlocked)
	}
	for _, p := range x.passedOver() {
		x.add(p)
	}
	if x.store != nil {
		defer x.store.Close()
		err = x.listed()
	} else {
		x.note(x.why)
		err = x.loose()
	}
	if x.version != nil {
		for _, f := range x.version.Files {
			if err := engine.Compare(x.ctx, x.root, f); err != nil && x.ctx.Err() == nil {
				x.note(err)
			}
		}
	}
	return errors.Join(err, x.ctx.Err())
}

// listed checks meta.bolt and the files that it lists.
func (x *fileChecker) listed() error {
	err := x.store.Check(x.ctx, func(file string, offset int64, bucket, key, detail string) {
		x.report.add(located(recordProblem(file, offset, bucket, key, detail), x.version))
	})
	if err != nil {
		return err
	}
	var state meta.State
	var segments []segment.Info
	err = x.store.View(func(tx *meta.Tx) (err error) {
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
	err = x.log(state, func(engine.Batch) error { return x.ctx.Err() }, x.gap)
	if err != nil && x.ctx.Err() == nil {
		x.note(err)
	}
	problems, err := engine.NewLeftovers(x.fs, state, segments).Problems()
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
	names, err := x.fs.ReadDir(engine.SegDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, name := range names {
		if _, ext, ok := engine.ParseSegmentName(name); ok && ext == ".vec" {
			x.file(engine.SegDir+"/"+name, segment.Info{})
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
		x.note(&fileformat.CorruptError{File: name, Offset: bad.Offset,
			Err: fmt.Errorf("%d bytes: %w", bad.Len, bad.Err)})
	}
}
