package segment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sort"

	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/internal/vfs"
	"github.com/vecbolt/vecbolt/simd"
)

// BlockRange is a damaged part of a file: whole blocks, the header, or the checksums.
type BlockRange struct {
	Offset, Len int64 // in bytes
	Err         error // fileformat.ErrChecksum, io.ErrUnexpectedEOF where the file has been cut, or what reading gave
}

// Verify reads the whole file, not through the map, and compares all checksums. It returns a joined
// *fileformat.CorruptError for each damaged range.
func (s *Segment) Verify(ctx context.Context) error {
	bad, err := s.BadBlocks(ctx)
	errs := []error{err}
	for _, r := range bad {
		errs = append(errs, s.corrupt(r.Offset, fmt.Errorf("%d bytes: %w", r.Len, r.Err)))
	}
	return errors.Join(errs...)
}

// BadBlocks returns the damaged ranges that Verify reports, ascending and apart. The error is
// ctx's, or says that the file could not be examined.
func (s *Segment) BadBlocks(ctx context.Context) ([]BlockRange, error) {
	var bad ranges
	page := make([]byte, headerSize)
	if _, err := s.file.ReadAt(page, 0); err != nil {
		bad.add(0, headerSize, readError(err))
	} else if h, _, err := decodeHeader(s.Name(), page); err != nil {
		bad.add(0, headerSize, err)
	} else if h.info.Docs = s.head.info.Docs; h != s.head {
		bad.add(0, headerSize, fileformat.ErrMismatch)
	}
	err := bad.survey(ctx, s.file, &s.lay, &s.head.tableCRC)
	return bad, err
}

// ranges are damaged ranges, ascending and apart.
type ranges []BlockRange

// add appends a range, extending the last one where they touch and have the same cause.
func (r *ranges) add(off, n int64, err error) {
	if i := len(*r) - 1; i >= 0 {
		if last := &(*r)[i]; last.Offset+last.Len == off && errors.Is(err, last.Err) {
			last.Len += n
			return
		}
	}
	*r = append(*r, BlockRange{off, n, err})
}

// overlap tells whether any of the n bytes at off is damaged.
func (r ranges) overlap(off, n int64) bool {
	i := sort.Search(len(r), func(i int) bool { return r[i].Offset+r[i].Len > off })
	return i < len(r) && r[i].Offset < off+n
}

// survey adds the damaged ranges behind the header. Each block counts by its own checksum, even
// where the checksums as a whole are damaged; tableCRC is nil when it is not known. Work and memory
// are bounded by the size of the file.
func (r *ranges) survey(ctx context.Context, file *vfs.File, l *layout, tableCRC *uint32) error {
	size, err := file.Size()
	if err != nil {
		return fmt.Errorf("segment: verify: %w", err)
	}
	if size <= l.table { // nothing is left to compare with
		r.add(headerSize, l.size-headerSize, io.ErrUnexpectedEOF)
		return nil
	}
	raw := make([]byte, min(size, l.size)-l.table)
	_, tableErr := file.ReadAt(raw, l.table)
	if tableErr != nil { // nothing can be compared
		r.add(headerSize, l.size-headerSize, readError(tableErr))
		return nil
	}
	if tableCRC != nil && codec.CRC(raw) != *tableCRC {
		tableErr = fileformat.ErrChecksum
	}
	table := codec.U32sFromBytes(raw)
	buf := make([]byte, blockSize)
	for b := range l.blocks {
		if err := ctx.Err(); err != nil {
			return err
		}
		from, to := l.block(b)
		block := buf[:to-from]
		if b >= int64(len(table)) {
			r.add(from, to-from, io.ErrUnexpectedEOF)
		} else if _, err := file.ReadAt(block, from); err != nil {
			r.add(from, to-from, readError(err))
		} else if codec.CRC(block) != table[b] {
			r.add(from, to-from, fileformat.ErrChecksum)
		}
	}
	if tableErr != nil {
		r.add(l.table, l.size-l.table, readError(tableErr))
	}
	if size > l.size {
		r.add(l.size, size-l.size, fmt.Errorf("%w: bytes behind the end", fileformat.ErrFormat))
	}
	return nil
}

// readError gives the end of the file, where there should be more, its proper name.
func readError(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// maxProblems bounds what VerifyRows reports.
const maxProblems = 100

// VerifyRows checks what the writer derived from the vectors: all components are finite, inverse
// norms are right within one unit in the last place, and MaxNorm follows from them. It reads the
// vectors without the mapping, and does not compare checksums. It returns joined *CorruptErrors, at
// most a hundred.
func (s *Segment) VerifyRows(ctx context.Context) error {
	return s.Guard(func() error { return s.verifyRows(ctx) })
}

func (s *Segment) verifyRows(ctx context.Context) error {
	l := &s.lay
	var errs []error
	per := max(1, bufferSize/max(1, l.dim*floatSize))
	buf := make([]byte, per*l.dim*floatSize)
	for lo := 0; lo < l.rows; lo += per {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, err)...)
		}
		hi := min(lo+per, l.rows)
		b := buf[:(hi-lo)*l.dim*floatSize]
		if _, err := s.file.ReadAt(b, l.vec(lo)); err != nil {
			return errors.Join(append(errs, s.corrupt(l.vec(lo), readError(err)))...)
		}
		vecs := codec.F32sFromBytes(b)
		for row := lo; row < hi; row++ {
			vec := vecs[(row-lo)*l.dim:][:l.dim]
			if !simd.Finite(vec) {
				errs = append(errs, s.corrupt(l.vec(row), fmt.Errorf("%w: vector of document %d is not finite",
					fileformat.ErrFormat, s.docs[row])))
			} else if want := InvNorm(vec); ulps(want, s.invs[row]) > 1 {
				errs = append(errs, s.corrupt(l.inv(row), fmt.Errorf("%w: inverse norm %v of document %d, want %v",
					fileformat.ErrFormat, s.invs[row], s.docs[row], want)))
			}
		}
		if len(errs) >= maxProblems {
			return errors.Join(errs[:maxProblems]...)
		}
	}
	if want := maxNorm(s.invs); want != s.head.info.MaxNorm {
		errs = append(errs, s.corrupt(0, fmt.Errorf("%w: largest norm %v, want %v",
			fileformat.ErrFormat, s.head.info.MaxNorm, want)))
	}
	return errors.Join(errs...)
}

// ulps returns how many float32 values two valid inverse norms are apart.
func ulps(a, b float32) uint32 {
	x, y := math.Float32bits(a), math.Float32bits(b)
	return max(x, y) - min(x, y)
}
