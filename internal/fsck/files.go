package fsck

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/wal"
)

// CheckFiles checks the files of a database that does not open, because of why. That error is the
// first problem of the report, followed by the damage in all files that can be examined without it.
// The returned error means that the check itself failed.
func CheckFiles(ctx context.Context, dir string, why error) (*Report, error) {
	x := &fileChecker{ctx: ctx, report: &Report{Problems: []Problem{}}}
	x.report.problem(why)
	if err := x.run(dir); err != nil {
		return nil, err
	}
	return x.report, nil
}

// fileChecker is one run of CheckFiles.
type fileChecker struct {
	ctx    context.Context
	fs     *vfs.FS
	report *Report
}

// note adds a problem unless the report has it.
func (x *fileChecker) note(err error) {
	for _, err := range flatten(err) {
		if p := problemOf(err); !slices.ContainsFunc(x.report.Problems, func(old Problem) bool {
			return old.File == p.File && (old.Offset == p.Offset || p.Offset < 0)
		}) {
			x.report.add(p)
		}
	}
}

// lock opens the directory of a database that no process writes, and keeps writers out until unlock
// is called.
func lock(dir string) (fsys *vfs.FS, unlock func(), err error) {
	if fsys, err = vfs.Open(dir, nil); err != nil {
		return nil, nil, err
	}
	held, err := fsys.Lock(engine.LockName, false)
	if err != nil {
		fsys.Close()
		return nil, nil, err
	}
	return fsys, func() { held.Close(); fsys.Close() }, nil
}

func (x *fileChecker) run(dir string) error {
	fsys, unlock, err := lock(dir)
	if err != nil {
		return err
	}
	defer unlock()
	x.fs = fsys
	store, err := meta.Open(x.fs, engine.MetaName, meta.Options{ReadOnly: true, Verify: true, Lenient: true})
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
		x.report.add(recordProblem(file, bucket, key, detail))
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
	_, err = wal.Replay(wal.Options{FS: x.fs, DB: state.DB, ReadOnly: true}, state.Applied,
		func(_ uint64, b []byte) error {
			_, err := engine.DecodeRecord(b)
			return errors.Join(err, x.ctx.Err())
		})
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
