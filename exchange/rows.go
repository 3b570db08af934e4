package exchange

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"strconv"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/docjson"
)

// rowSource reads a file of vectors, one per row. The id of a document is its row number in
// decimal.
type rowSource struct {
	in        *input
	metadata  string // JSONL: line i is the metadata of row i
	documents string // JSONL: line i is the document of row i, without its vector
	rows      func(r *bufio.Reader, in *input) (rowReader, error)
}

// A rowReader reads the next row into dst, or returns io.EOF.
type rowReader interface {
	next(dst []float32) ([]float32, error)
	rows() int64 // in the file; 0 if unknown before its end
	offset() int64
}

const rowBuffer = 1 << 20

func (s *rowSource) reader(ctx context.Context) (io.Closer, rowReader, error) {
	f, err := s.in.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	r, err := s.rows(bufio.NewReaderSize(f, rowBuffer), s.in)
	if err != nil {
		f.Close()
		return nil, nil, &FormatError{Name: s.in.path, Err: err}
	}
	return f, r, nil
}

// Total returns the number of rows, 0 if the bytes that tell it come once.
func (s *rowSource) Total() int64 {
	if !s.in.mode.IsRegular() {
		return 0
	}
	f, r, err := s.reader(context.Background())
	if err != nil {
		return 0
	}
	defer f.Close()
	return r.rows()
}

func (s *rowSource) Documents(ctx context.Context) iter.Seq2[*ImportedDocument, error] {
	return func(yield func(*ImportedDocument, error) bool) {
		f, r, err := s.reader(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		beside, end, stop := s.beside()
		defer stop()
		for row := int64(0); ; row++ {
			if err := ctx.Err(); err != nil {
				yield(nil, err)
				return
			}
			vec, err := r.next(nil)
			if err == io.EOF {
				if err := end(row); err != nil {
					yield(nil, err)
				}
				return
			}
			if err != nil {
				yield(nil, &FormatError{Name: s.in.path, Offset: r.offset(), Err: err})
				return
			}
			doc := &ImportedDocument{
				Document: db.Document{ID: strconv.FormatInt(row, 10)}, Carries: db.WithVector,
				Position: Position{File: s.in.path, Unit: "row", N: row}, Done: row + 1,
			}
			if err := beside(doc); err != nil {
				yield(nil, err)
				return
			}
			doc.Document.Vector = vec
			if i := notFinite(vec); i >= 0 && doc.Skip == nil {
				doc.Skip = fmt.Errorf("element %d: %w", i, ErrNotFinite)
			}
			if !yield(doc, nil) {
				return
			}
		}
	}
}

// beside returns a function that adds the metadata or document of the next line of the accompanying
// file to a row, and one that refuses lines behind the last row. Call the first once per row, in
// order.
func (s *rowSource) beside() (add func(*ImportedDocument) error, end func(rows int64) error, stop func()) {
	name := s.metadata + s.documents
	if name == "" {
		return func(*ImportedDocument) error { return nil }, func(int64) error { return nil }, func() {}
	}
	next, stop := iter.Pull2(lines(name))
	parser := documentParser{new([]float32)}
	end = func(rows int64) error {
		for n := rows; ; n++ {
			line, err, ok := next()
			switch {
			case err != nil || !ok:
				return err
			case !isBlank(line):
				err := fmt.Errorf("no row for this line: there are %d", rows)
				return &FormatError{Name: name, Line: n + 1, Err: err}
			}
		}
	}
	add = func(doc *ImportedDocument) error {
		line, err, ok := next()
		pos := Position{File: name, Unit: "line", N: doc.Position.N + 1}
		switch {
		case err != nil:
			return err
		case !ok:
			return &FormatError{Name: name, Line: pos.N, Err: fmt.Errorf("no line for row %d", doc.Position.N)}
		case isBlank(line): // without it, the lines below would shift to other rows
			return &FormatError{Name: name, Line: pos.N, Err: fmt.Errorf("blank line for row %d", doc.Position.N)}
		case s.metadata != "":
			doc.Carries |= db.WithMetadata
			doc.Document.Metadata, err = docjson.ReadMetadata(line)
			if err == nil {
				err = tooMuch(doc.Document.Metadata, line)
			}
			if err != nil && onlyValue(line, err) {
				doc.Document.Metadata = nil
				doc.Skip = fmt.Errorf("%v: %w", pos, err)
				return nil
			}
			return locate(err, name, pos.N)
		}
		d, err := parser.document(line, pos)
		if err != nil {
			return err
		}
		if d.Skip != nil {
			doc.Skip = fmt.Errorf("%v: %w", pos, d.Skip)
			return nil
		}
		if len(d.Document.Vector) > 0 { // which of the two is meant, only the user knows
			err := fmt.Errorf("this line has a vector, and so has row %d of %s", doc.Position.N, s.in.path)
			return &FormatError{Name: name, Line: pos.N, Err: err}
		}
		d.Document.ID = cmp.Or(d.Document.ID, doc.Document.ID)
		doc.Document, doc.Carries = d.Document, d.Carries|db.WithVector
		return nil
	}
	return add, end, stop
}

// lines yields the lines of a file, line ends included.
func lines(name string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		stopped := errors.New("stopped")
		err := eachLine(name, func(_ int64, line []byte) error {
			if !yield(line, nil) {
				return stopped
			}
			return nil
		})
		if err != nil && err != stopped {
			yield(nil, err)
		}
	}
}

// eachLine calls fn with every line of a file, line end included. The line is valid during the
// call.
func eachLine(name string, fn func(n int64, line []byte) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	r := blockReader{r: f, name: name}
	for {
		b := r.next()
		if b.err == io.EOF {
			return nil
		}
		if b.err != nil {
			return b.err
		}
		r.spare = b.lines
		for n, line := range b.all() {
			if err := fn(n, line); err != nil {
				return err
			}
		}
	}
}

// isBlank reports whether a line has nothing but white space.
func isBlank(line []byte) bool {
	_, ok := docjson.First(line)
	return !ok
}

// notFinite returns the index of the first component that is NaN or infinite, -1 if all are finite.
func notFinite(v []float32) int {
	for i, x := range v {
		if math.Float32bits(x)&0x7f800000 == 0x7f800000 {
			return i
		}
	}
	return -1
}

// vecsReader reads .fvecs, .bvecs and .ivecs. Each row is its dimension, a little-endian int32,
// followed by its components: float32, uint8 or int32 (http://corpus-texmex.irisa.fr).
type vecsReader struct {
	r     *bufio.Reader
	read  int64
	width int // bytes of a component
	total int64
	buf   []byte
}

func openVecs(width int) func(*bufio.Reader, *input) (rowReader, error) {
	return func(r *bufio.Reader, in *input) (rowReader, error) {
		v := &vecsReader{r: r, width: width}
		if head, err := r.Peek(4); err == nil {
			if dim := int64(int32(binary.LittleEndian.Uint32(head))); dim > 0 {
				v.total = in.size / (4 + dim*int64(width))
			}
		}
		return v, nil
	}
}

func (v *vecsReader) rows() int64   { return v.total }
func (v *vecsReader) offset() int64 { return v.read }

// raw returns the component bytes of the next row, io.EOF after the last.
func (v *vecsReader) raw() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(v.r, head[:]); err != nil {
		return nil, err
	}
	dim := int64(int32(binary.LittleEndian.Uint32(head[:])))
	if dim <= 0 || dim > db.MaxDim {
		return nil, fmt.Errorf("dimension %d is outside 1..%d", dim, db.MaxDim)
	}
	n := dim * int64(v.width)
	if int64(cap(v.buf)) < n {
		v.buf = make([]byte, n)
	}
	b := v.buf[:n]
	got, err := io.ReadFull(v.r, b)
	if err = unexpectedEnd(err); errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: a row of dimension %d needs %d bytes, %d are left", err, dim, n, got)
	}
	if err != nil {
		return nil, err
	}
	v.read += 4 + n
	return b, nil
}

func (v *vecsReader) next(dst []float32) ([]float32, error) {
	b, err := v.raw()
	if err != nil {
		return nil, err
	}
	if v.width == 1 {
		for _, x := range b {
			dst = append(dst, float32(x))
		}
		return dst, nil
	}
	return appendFloats(dst, b), nil
}

func appendFloats(dst []float32, b []byte) []float32 {
	if dst == nil {
		dst = make([]float32, 0, len(b)/4)
	}
	for i := 0; i+4 <= len(b); i += 4 {
		dst = append(dst, math.Float32frombits(binary.LittleEndian.Uint32(b[i:])))
	}
	return dst
}

// ReadIVecs reads an .ivecs file: lists of numbers, such as the true neighbours of queries. Damage
// is a *FormatError.
func ReadIVecs(name string) ([][]int32, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	v := &vecsReader{r: bufio.NewReaderSize(f, rowBuffer), width: 4}
	var rows [][]int32
	for {
		b, err := v.raw()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return nil, &FormatError{Name: name, Offset: v.read, Err: err}
		}
		row := make([]int32, 0, len(b)/4)
		for i := 0; i < len(b); i += 4 {
			row = append(row, int32(binary.LittleEndian.Uint32(b[i:])))
		}
		rows = append(rows, row)
	}
}

// ReadVectors yields the vectors of an .fvecs, .bvecs or .npy file, each in memory of its own. The
// first error ends the loop, with a nil vector; a vector with NaN or an infinity is one, which
// matches ErrNotFinite.
func ReadVectors(name string) iter.Seq2[[]float32, error] {
	return func(yield func([]float32, error) bool) {
		src, err := Open(name, nil)
		if err != nil {
			yield(nil, err)
			return
		}
		for doc, err := range src.Documents(context.Background()) {
			if err == nil {
				err = doc.Skip
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(doc.Document.Vector, nil) {
				return
			}
		}
	}
}

// A VecsWriter writes .fvecs.
type VecsWriter struct {
	w   io.Writer
	dim int // 0 before the first row
	buf []byte
}

// NewVecsWriter returns a writer to w.
func NewVecsWriter(w io.Writer) *VecsWriter { return &VecsWriter{w: w} }

// Write writes one vector. It refuses an empty one, and one of another dimension than the first:
// each would make a file that no reader takes.
func (w *VecsWriter) Write(vec []float32) error {
	if len(vec) == 0 {
		return errors.New("an empty row")
	}
	if w.dim != 0 && len(vec) != w.dim {
		return fmt.Errorf("a row of %d elements, behind rows of %d", len(vec), w.dim)
	}
	w.dim = len(vec)
	w.buf = binary.LittleEndian.AppendUint32(w.buf[:0], uint32(len(vec)))
	w.buf = putFloats(w.buf, vec)
	_, err := w.w.Write(w.buf)
	return err
}

func putFloats(dst []byte, vec []float32) []byte {
	for _, x := range vec {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(x))
	}
	return dst
}
