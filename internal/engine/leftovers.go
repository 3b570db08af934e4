package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/meta"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment"
	"github.com/vecbolt/vecbolt/wal"
)

// unexplained is the suffix that a segment file gets if neither a crash nor
// meta.bolt explains it. Such files are kept.
const Unexplained = ".unexplained"

// Leftovers tells the segment files that a crash left behind from those that
// hint at lost data. For example, a meta.bolt restored from an old copy names
// none of the newer segments.
type Leftovers struct {
	FS    *vfs.FS
	state meta.State
	named map[uint64]bool // segments of the database
	// has reports whether a segment of the database has a row.
	has func(coll uint32, num uint64) bool

	logged uint64 // DocNums in the log are below this; 0: not read yet
}

// Leftovers uses the state in which meta.bolt was found, before the log is
// replayed.
func (e *Engine) Leftovers() *Leftovers {
	l := &Leftovers{FS: e.FS, state: e.state, named: map[uint64]bool{}}
	for id := range e.segments {
		l.named[id] = true
	}
	l.has = func(coll uint32, num uint64) bool {
		_, _, ok := e.findRow(coll, num)
		return ok
	}
	return l
}

// NewLeftovers is for a database that is not open.
func NewLeftovers(fsys *vfs.FS, state meta.State, segments []segment.Info) *Leftovers {
	l := &Leftovers{FS: fsys, state: state, named: map[uint64]bool{}}
	for _, info := range segments {
		l.named[info.ID] = true
	}
	l.has = func(coll uint32, num uint64) bool { // an upper bound: rows may be gone
		for _, info := range segments {
			if info.Collection == coll && info.MinDoc <= num && num <= info.MaxDoc {
				return true
			}
		}
		return false
	}
	return l
}

// find returns the files of segments that nothing names, by segment. It ignores
// files that the database does not write.
func (l *Leftovers) find() (map[uint64][]string, error) {
	names, err := l.FS.ReadDir(SegDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	files := map[uint64][]string{}
	for _, name := range names {
		if id, _, ok := ParseSegmentName(name); ok && !l.named[id] && !slices.Contains(l.state.Obsolete, id) {
			files[id] = append(files[id], SegDir+"/"+name)
		}
	}
	return files, nil
}

// explain says why a segment cannot be a leftover of a crash; nil if it can.
// There are three kinds of leftovers:
//
//   - A segment that was replaced, or never committed, before the last commit
//     of meta.bolt: its number is below the next one.
//   - A compaction that did not commit: its rows are rows of committed segments.
//   - A flush that did not commit: its rows are in the log, which is synced
//     before a flush begins.
//
// Any other segment holds rows that neither meta.bolt nor the log knows. err
// means that the segment or the log could not be read.
func (l *Leftovers) explain(id uint64) (why, err error) {
	name := segment.FileName(id)
	owner, info, err := segment.ReadHeader(l.FS, name)
	bad := (*fileformat.CorruptError)(nil)
	known := id < l.state.NextSegment
	switch {
	case errors.As(err, &bad) && (known || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, fileformat.ErrFormat)):
		return nil, nil // in the last two cases it does not even begin like a segment
	case errors.As(err, &bad):
		return err, nil
	case err != nil:
		return nil, err
	case owner != l.state.DB:
		return &fileformat.CorruptError{File: name, Offset: -1, Err: errors.New("belongs to another database")}, nil
	case known && info.MaxDoc < l.state.NextDoc:
		return nil, nil
	}
	s, err := segment.Open(l.FS, l.state.DB, info)
	if errors.As(err, &bad) {
		return err, nil
	}
	if err != nil {
		return nil, err
	}
	err = s.Guard(func() error {
		for _, num := range s.DocNums() {
			if l.has(info.Collection, num) {
				continue
			}
			if err := l.readLog(); err != nil {
				return err
			}
			if num < l.state.NextDoc || num >= l.logged {
				why = &fileformat.CorruptError{File: name, Offset: -1, Err: fmt.Errorf(
					"neither meta.bolt nor the log explains this segment: %d rows of collection %d, documents %d to %d; "+
						"meta.bolt may be an older copy", info.Rows, info.Collection, info.MinDoc, info.MaxDoc)}
				return nil
			}
		}
		return nil
	})
	return why, errors.Join(err, s.Close())
}

// readLog finds the DocNums that the log assigns. They start at the next one
// that meta.bolt knows and have no gap.
func (l *Leftovers) readLog() error {
	if l.logged > 0 {
		return nil
	}
	next := l.state.NextDoc
	_, err := wal.Replay(wal.Options{FS: l.FS, DB: l.state.DB, ReadOnly: true}, l.state.Applied,
		func(lsn uint64, b []byte) error {
			batch, err := DecodeRecord(b)
			if err != nil {
				return BadBatch(lsn, err)
			}
			for _, o := range batch.Ops {
				if o.Kind == OpPut {
					next = max(next, o.Num+1)
				}
			}
			return nil
		})
	if err == nil {
		l.logged = next
	}
	return err
}

// Problems lists the unexplained segments that were kept before and, unless has
// is nil, those that are unexplained now.
func (l *Leftovers) Problems() ([]error, error) {
	var all []error
	names, err := l.FS.ReadDir(SegDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, name := range names {
		if strings.Contains(name, ".vec"+Unexplained) {
			all = append(all, &fileformat.CorruptError{File: SegDir + "/" + name, Offset: -1,
				Err: errors.New("was kept because neither meta.bolt nor the log explained it; remove it when it is not needed")})
		}
	}
	if l.has == nil {
		return all, nil
	}
	files, err := l.find()
	if err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(files)) {
		if !slices.Contains(files[id], segment.FileName(id)) {
			continue
		}
		why, err := l.explain(id)
		if err != nil {
			return nil, err
		}
		if why != nil {
			all = append(all, why)
		}
	}
	return all, nil
}

// sweep removes temporary files and segments that a crash left behind. A
// segment that a crash does not explain is renamed and kept, and Check reports
// it.
func (e *Engine) sweep() error {
	if err := LayOut(e.FS); err != nil {
		return err
	}
	if err := e.wipe(TmpDir); err != nil {
		return err
	}
	l := e.Leftovers()
	files, err := l.find()
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(files)) {
		name := segment.FileName(id)
		if slices.Contains(files[id], name) {
			why, err := l.explain(id)
			if err != nil {
				return err
			}
			if why != nil {
				if err := e.keepUnexplained(name, why); err != nil {
					return err
				}
				files[id] = slices.DeleteFunc(files[id], func(n string) bool { return n == name })
			}
		}
		for _, name := range files[id] {
			e.Opts.Logger.Info("removing leftover", "file", name)
			if err := e.clear(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepUnexplained renames a segment so that nothing removes it and no new
// segment overwrites it.
func (e *Engine) keepUnexplained(name string, why error) error {
	to := name + Unexplained
	for n := 2; ; n++ {
		_, err := e.FS.Size(to)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return err
		}
		to = fmt.Sprintf("%s%s-%d", name, Unexplained, n)
	}
	if err := e.FS.Rename(name, to); err != nil {
		return err
	}
	e.Opts.Logger.Error("keeping a segment that nothing explains", "file", to, "reason", why)
	return e.FS.SyncDir(SegDir)
}
