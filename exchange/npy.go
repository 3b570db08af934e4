package exchange

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/vecbolt/vecbolt/db"
)

// The .npy format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
const (
	npyMagic     = "\x93NUMPY"
	npyHeaderMax = 64 << 10
	npyAlign     = 64
)

var (
	npyDescr   = regexp.MustCompile(`'descr'\s*:\s*'([^']*)'`)
	npyFortran = regexp.MustCompile(`'fortran_order'\s*:\s*(True|False)`)
	npyShape   = regexp.MustCompile(`'shape'\s*:\s*\(([^)]*)\)`)
)

// npyReader reads the rows of a matrix of float32 or float64; a vector is one row.
type npyReader struct {
	r     *bufio.Reader
	count int64
	row   int64
	dim   int64
	width int64 // bytes of a component
	start int64 // of the data
	buf   []byte
}

func openNPY(r *bufio.Reader, in *input) (rowReader, error) {
	head := make([]byte, 10)
	if _, err := io.ReadFull(r, head); err != nil || string(head[:6]) != npyMagic {
		return nil, errors.New("not a .npy file")
	}
	n, start := int64(binary.LittleEndian.Uint16(head[8:])), int64(10)
	switch major := head[6]; major {
	case 1:
	case 2, 3:
		var more [2]byte
		if _, err := io.ReadFull(r, more[:]); err != nil {
			return nil, io.ErrUnexpectedEOF
		}
		n |= int64(binary.LittleEndian.Uint16(more[:])) << 16
		start = 12
	default:
		return nil, fmt.Errorf(".npy version %d is not known", major)
	}
	if n > npyHeaderMax {
		return nil, fmt.Errorf("header of %d bytes", n)
	}
	header := make([]byte, n)
	if _, err := io.ReadFull(r, header); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	m := &npyReader{r: r, start: start + n}
	if err := m.parse(string(header)); err != nil {
		return nil, err
	}
	left := in.size - m.start
	if in.mode.IsRegular() && (m.count > 0 && left/m.count != m.dim*m.width || left != m.count*m.dim*m.width) {
		return nil, fmt.Errorf("%d rows of %d elements of %d bytes do not fill %d bytes", m.count, m.dim, m.width, left)
	}
	return m, nil
}

func (m *npyReader) parse(header string) error {
	descr, fortran, shape := npyDescr.FindStringSubmatch(header),
		npyFortran.FindStringSubmatch(header), npyShape.FindStringSubmatch(header)
	if descr == nil || fortran == nil || shape == nil {
		return fmt.Errorf("header %.80q lacks descr, fortran_order or shape", header)
	}
	switch descr[1] {
	case "<f4":
		m.width = 4
	case "<f8":
		m.width = 8
	default:
		return fmt.Errorf("elements are %q; float32 (<f4) and float64 (<f8) can be read", descr[1])
	}
	var dims []int64
	for _, s := range strings.Split(shape[1], ",") {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("shape (%s)", shape[1])
		}
		dims = append(dims, n)
	}
	switch len(dims) {
	case 1:
		m.count, m.dim = 1, dims[0]
	case 2:
		m.count, m.dim = dims[0], dims[1]
	default:
		return fmt.Errorf("shape (%s): want a matrix or a vector", shape[1])
	}
	if fortran[1] == "True" && m.count > 1 && m.dim > 1 {
		return errors.New("the matrix is in Fortran order; save it in C order")
	}
	if m.dim == 0 && m.count > 0 || m.dim > db.MaxDim {
		return fmt.Errorf("dimension %d is outside 1..%d", m.dim, db.MaxDim)
	}
	return nil
}

func (m *npyReader) rows() int64   { return m.count }
func (m *npyReader) offset() int64 { return m.start + m.row*m.dim*m.width }

func (m *npyReader) next(dst []float32) ([]float32, error) {
	if m.row == m.count {
		if _, err := m.r.ReadByte(); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("bytes after the %d rows of the header", m.count)
	}
	if m.buf == nil {
		m.buf = make([]byte, m.dim*m.width)
	}
	if _, err := io.ReadFull(m.r, m.buf); err != nil {
		return nil, unexpectedEnd(err)
	}
	m.row++
	if m.width == 4 {
		return appendFloats(dst, m.buf), nil
	}
	for i := 0; i < len(m.buf); i += 8 {
		dst = append(dst, float32(math.Float64frombits(binary.LittleEndian.Uint64(m.buf[i:]))))
	}
	return dst, nil
}

// An NPYWriter writes a matrix of float32 as .npy, version 1.
type NPYWriter struct {
	w    io.Writer
	rows int
	dim  int
	buf  []byte
}

// NewNPYWriter writes the header of a matrix of rows × dim to w. Exactly that many rows must
// follow.
func NewNPYWriter(w io.Writer, rows, dim int) (*NPYWriter, error) {
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d), }", rows, dim)
	pad := npyAlign - (10+len(header)+1)%npyAlign
	header += strings.Repeat(" ", pad%npyAlign) + "\n"
	b := append([]byte(npyMagic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	_, err := w.Write(append(b, header...))
	return &NPYWriter{w: w, rows: rows, dim: dim}, err
}

// Write writes one row.
func (w *NPYWriter) Write(vec []float32) error {
	if len(vec) != w.dim || w.rows == 0 {
		return fmt.Errorf("a row of %d elements, with %d rows of %d to come", len(vec), w.rows, w.dim)
	}
	w.rows--
	w.buf = putFloats(w.buf[:0], vec)
	_, err := w.w.Write(w.buf)
	return err
}

// Close reports rows that are missing. It does not close the underlying writer.
func (w *NPYWriter) Close() error {
	if w.rows != 0 {
		return fmt.Errorf("%d rows are missing", w.rows)
	}
	return nil
}
