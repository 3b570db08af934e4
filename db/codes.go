package db

import (
	"context"
	"errors"
	"io"

	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/segment/codes"
)

// Segments whose vectors take at least this much get codes: one byte per
// component, with bounds, which a scan reads in place of the vectors. Below,
// there is nothing to gain.
const codedBytes = 1 << 20

func (s *openSegment) codesName() string { return derivedName(s.info.ID, "codes") }

// wantsCodes reports whether the segment is large enough for codes.
func (s *openSegment) wantsCodes() bool {
	return 4*int64(s.info.Dim)*int64(s.info.Rows) >= s.db.opts.codedBytes
}

func (s *openSegment) codesIdent(m Metric) codes.Ident {
	return codes.Ident{DB: s.db.state.DB, Segment: s.info.ID, Rows: s.info.Rows, Dim: s.info.Dim,
		Metric: map[Metric]codes.Metric{Cosine: codes.Cosine, Dot: codes.Dot, L2: codes.L2}[m], CRC: s.info.CRC}
}

// codes returns the codes, or nil if there are none yet: the caller then
// scans the vectors. It must be called inside guard.
func (s *openSegment) codes(m Metric) *codes.Codes {
	if !s.wantsCodes() {
		return nil
	}
	s.codesMu.Lock()
	defer s.codesMu.Unlock()
	if s.coded == nil && !s.uncoded {
		if err := s.mapCodes(m); err != nil {
			s.uncoded = true // until they are built
			s.db.opts.Logger.Debug("no codes", "file", s.codesName(), "reason", err)
		}
	}
	return s.coded
}

// mapCodes opens the file of codes. codesMu is held.
func (s *openSegment) mapCodes(m Metric) error {
	mapped, err := s.db.mapFile(s.codesName())
	if err != nil {
		return err
	}
	coded, err := codes.Parse(mapped.Bytes(), s.codesIdent(m))
	if err != nil {
		mapped.Close()
		return err
	}
	s.coded, s.codesFile = coded, mapped
	return nil
}

// distrust stops the use of damaged codes. Their memory stays mapped: others
// may be reading it.
func (s *openSegment) distrust(err error) {
	s.codesMu.Lock()
	defer s.codesMu.Unlock()
	if s.coded != nil {
		s.coded, s.uncoded = nil, true
		s.db.opts.Logger.Warn("codes are damaged, scanning vectors", "file", s.codesName(), "error", err)
	}
}

// mapFile maps a whole file.
func (db *DB) mapFile(name string) (*vfs.Mapping, error) {
	f, err := db.fs.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	return f.Map(size)
}

// buildCodes writes the codes of segments that want them and have none. A
// derived file that cannot be written costs speed, not data.
func (db *DB) buildCodes(ctx context.Context) error {
	db.metaMu.Lock()
	ver := db.current() // keeps the segments mapped
	db.metaMu.Unlock()
	defer db.drop(ver)
	for _, v := range ver.views {
		for _, p := range v.parts {
			s := p.segment
			if s == nil || p.dim == 0 || !s.wantsCodes() {
				continue
			}
			err := db.guard(func() error { return s.buildCodes(ctx, v.def.schema.Metric) })
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				db.opts.Logger.Warn("cannot keep codes", "file", s.codesName(), "error", err)
			}
		}
	}
	return nil
}

func (s *openSegment) buildCodes(ctx context.Context, m Metric) error {
	if s.codes(m) != nil {
		return nil
	}
	err := s.db.writeDerived(s.codesName(), func(w io.WriterAt) error {
		_, err := codes.Write(w, s.codesIdent(m), func(lo, hi int) ([]float32, error) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			return s.Rows(lo, hi)
		})
		return err
	})
	if err != nil {
		return err
	}
	s.codesMu.Lock()
	defer s.codesMu.Unlock()
	if s.codesFile != nil {
		return nil // damaged ones are mapped: the new file is for the next open
	}
	s.uncoded = false
	return s.mapCodes(m)
}

// writeDerived makes a derived file durable under its name, replacing one that
// is there.
func (db *DB) writeDerived(name string, write func(io.WriterAt) error) error {
	temp := tmpDir + name[len(segDir):]
	f, err := db.fs.Create(temp)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = db.fs.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, db.fs.Remove(temp))
	}
	return db.fs.SyncDir(segDir)
}
