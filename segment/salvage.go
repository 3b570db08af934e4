package segment

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/simd"
)

// ReadHeader returns the Info in the header of the named file. It verifies the header and nothing
// else.
func ReadHeader(fsys *vfs.FS, name string) (db [16]byte, info Info, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return db, info, fmt.Errorf("segment: open: %w", err)
	}
	defer f.Close()
	h, _, err := readHeader(f)
	return h.db, h.info, err
}

func readHeader(f *vfs.File) (header, layout, error) {
	page := make([]byte, headerSize)
	if n, err := f.ReadAt(page, 0); err != nil {
		return header{}, layout{}, &fileformat.CorruptError{File: f.Name(), Offset: int64(n), Err: readError(err)}
	}
	return decodeHeader(f.Name(), page)
}

// Salvaged says what Salvage found.
type Salvaged struct {
	DB           [16]byte     // from the header; zero if that is damaged
	Info         Info         // from the header, or the caller's hint
	Intact, Lost int          // rows
	Bad          []BlockRange // damaged ranges, ascending
}

// Salvage calls fn, in ascending order, for each row of a damaged file whose document number and
// vector are proven intact by the checksums of their blocks. The caller recomputes inverse norms.
// Where the header is damaged, hint (from the manifest) takes its place; without a hint (Rows 0)
// Salvage returns the error of the header. vec belongs to Salvage and is valid until fn returns.
//
// A truncated file has lost its checksums, which come last, and with them all its rows: nothing
// proves that they are intact.
func Salvage(ctx context.Context, fsys *vfs.FS, name string, hint Info,
	fn func(doc uint64, vec []float32) error) (Salvaged, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return Salvaged{}, fmt.Errorf("segment: salvage: %w", err)
	}
	defer f.Close()

	var bad ranges
	h, l, err := readHeader(f)
	tableCRC := &h.tableCRC
	if err != nil {
		if hint.Rows == 0 {
			return Salvaged{}, err
		}
		bad.add(0, headerSize, err)
		h.info, tableCRC = hint, nil
		if l, err = layoutOf(hint.Rows, hint.Dim); err != nil {
			return Salvaged{}, fmt.Errorf("segment: salvage %q: manifest: %w", name, err)
		}
	}
	if err := bad.survey(ctx, f, &l, tableCRC); err != nil {
		return Salvaged{}, err
	}
	out := Salvaged{DB: h.db, Info: h.info, Lost: l.rows, Bad: bad}
	if slices.ContainsFunc(bad, func(r BlockRange) bool {
		return r.Offset == headerSize &&
			r.Len >= l.table-headerSize
	}) {
		return out, nil // and no loop over rows that a damaged file merely claims to have
	}
	b := make([]byte, docSize+l.dim*floatSize)
	var last uint64
	for row := range l.rows {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		if bad.overlap(l.doc(row), docSize) || bad.overlap(l.vec(row), int64(l.dim)*floatSize) {
			continue
		}
		_, err := f.ReadAt(b[:docSize], l.doc(row))
		_, verr := f.ReadAt(b[docSize:], l.vec(row))
		if err = errors.Join(err, verr); err != nil {
			return out, fmt.Errorf("segment: salvage: %w", err) // it could be read a moment ago
		}
		doc, vec := binary.LittleEndian.Uint64(b), codec.F32sFromBytes(b[docSize:])
		if doc <= last || !simd.Finite(vec) {
			continue // intact, but nothing that a Writer has accepted
		}
		last = doc
		if err := fn(doc, vec); err != nil {
			return out, err
		}
		out.Intact++
		out.Lost--
	}
	return out, nil
}
