package db

import (
	"context"
	"errors"
	"fmt"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fsck"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// A CheckLevel says how thorough a check is.
type CheckLevel uint8

// The levels of a check. The zero value is CheckBytes.
const (
	// CheckBytes reads every byte on disk and verifies every checksum and invariant
	// (docs/design.md lists them). It finds errors of disks.
	CheckBytes CheckLevel = iota
	// CheckDeep also distrusts derived files whose checksums hold, and so finds errors of
	// programs as well. It recomputes columns from documents and compares them in both
	// directions. It compares the bounds of codes with true scores, and the graph with
	// recomputed codes. It searches the graph for each row, and follows every id to its
	// document. That takes longer.
	CheckDeep
)

// String returns "bytes" or "deep".
func (l CheckLevel) String() string {
	switch l {
	case CheckBytes:
		return "bytes"
	case CheckDeep:
		return "deep"
	}
	return fmt.Sprintf("CheckLevel(%d)", uint8(l))
}

// validate is the only check of a CheckLevel.
func (l CheckLevel) validate() error { return within("level", l, CheckBytes, CheckDeep) }

// A CheckReport counts the data that a check read and lists its problems.
type CheckReport struct {
	Problems    []Problem `json:"problems"`
	Collections int       `json:"collections"`
	Documents   int       `json:"documents"`
	Segments    int       `json:"segments"`
}

// OK reports whether nothing is wrong.
func (r *CheckReport) OK() bool { return len(r.Problems) == 0 }

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

// Check examines the database and its files. It changes nothing. Readers and writers go on;
// writers pause while the log is read, by the process that leads. Flushes of this process wait
// while it reads meta.bolt, and writers that fill Options.HeadSize wait for them. Damage is in
// the report, and so is that the directory does not hold this database any more, although its
// open files can be read. An error means that the check could not be done.
func (db *DB) Check(ctx context.Context, level CheckLevel) (*CheckReport, error) {
	err := level.validate()
	var found *fsck.Report
	if err == nil {
		err = db.engine.MayWait()
	}
	if err == nil {
		found, err = fsck.Check(ctx, db.engine, fsck.Level(level), db.member) // both count from Bytes to Deep
	}
	if err != nil {
		return nil, fmt.Errorf("db: check: %w", err)
	}
	return checkReport(found), nil
}

// CheckFiles checks a database even if Open fails. The error of Open is then the first
// problem of the report, followed by the damage in all files that can be examined without
// it; the level makes no difference. While another process leads the database, files that the
// database does not know are not reported: it may be making them. The returned error means that the
// check itself failed.
func CheckFiles(ctx context.Context, dir string, level CheckLevel) (*CheckReport, error) {
	if err := level.validate(); err != nil {
		return nil, fmt.Errorf("db: check %q: %w", dir, err)
	}
	vdb, err := Open(dir, &Options{ReadOnly: true, Exclusive: true})
	if errors.Is(err, ErrLocked) {
		vdb, err = Open(dir, &Options{ReadOnly: true}) // beside a process that writes
	}
	if err == nil {
		report, err := vdb.Check(ctx, level)
		return report, errors.Join(err, vdb.Close())
	}
	version := (*engine.VersionError)(nil) // a file of it is missing
	_, notRegular := errors.AsType[*vfs.NotRegularError](err)
	if !fsck.Damaged(err) && !notRegular && !(errors.As(err, &version) && errors.Is(err, ErrNotFound)) {
		return nil, err
	}
	found, err := fsck.CheckFiles(ctx, dir, err)
	if err != nil {
		return nil, fmt.Errorf("db: check %q: %w", dir, engine.Translate(err))
	}
	return checkReport(found), nil
}

func checkReport(r *fsck.Report) *CheckReport {
	return &CheckReport{
		Problems: problems(r.Problems), Collections: r.Collections, Documents: r.Documents, Segments: r.Segments,
	}
}

func problems(found []fsck.Problem) []Problem {
	all := make([]Problem, len(found))
	for i, p := range found {
		all[i] = Problem(p)
	}
	return all
}
