package codes

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/vecbolt/vecbolt/internal/blocks"
	"github.com/vecbolt/vecbolt/internal/codec"
	"github.com/vecbolt/vecbolt/internal/fileformat"
	"github.com/vecbolt/vecbolt/simd"
)

// A Source returns the vectors of rows lo to hi-1, one after the other. They are read only until
// the next call.
type Source func(lo, hi int) ([]float32, error)

// sampled is how many rows, evenly spread, the mean is computed from. It need not be exact: bounds
// hold for any.
const sampled = 8192

// readBytes is about how many bytes of vectors are asked for at once.
const readBytes = 1 << 18

// Rows whose largest component, after subtracting the mean, is outside these limits are not coded,
// so that no product can over- or underflow. Only a direction below tiny is coded, as the mean
// itself.
const (
	tiny = 0x1p-54
	huge = 0x1p62
)

// Write writes the code file of a segment to w, which must be empty, and returns its size. It reads
// a part of the rows, for their mean and to find out whether nibbles pay, then all of them from
// first to last, and needs 20 bytes of memory per row. It does not sync.
func Write(w io.WriterAt, ident Ident, rows Source) (int64, error) {
	if err := ident.check(); err != nil {
		return 0, err
	}
	nibbles, err := nibblesPay(ident, rows)
	if err != nil {
		return 0, err
	}
	return write(w, ident, rows, nibbles)
}

// WriteSmall is Write without nibbles, which take up to a third of the file. Where they would have
// paid, a scan of it takes longer.
func WriteSmall(w io.WriterAt, ident Ident, rows Source) (int64, error) {
	if err := ident.check(); err != nil {
		return 0, err
	}
	pay, err := nibblesPay(ident, rows)
	if err != nil {
		return 0, err
	}
	return writeAround(w, ident, rows, header{small: pay}, nil)
}

func write(w io.WriterAt, ident Ident, rows Source, nibbles bool) (int64, error) {
	return writeAround(w, ident, rows, header{nibbles: nibbles}, nil)
}

// writeAround is write around a given mean, unless that is nil. The header says whether to write
// nibbles.
func writeAround(w io.WriterAt, ident Ident, rows Source, head header, mean []float32) (int64, error) {
	lay := layoutOf(ident.Rows, ident.Dim, head.nibbles)
	e := encoder{ident: ident, lay: lay, Writer: blocks.NewWriter(w, headerSize),
		nibbles: blocks.NewWriter(w, lay.nibbles), head: head}
	e.head.ident = ident
	if mean == nil {
		var err error
		if mean, err = e.sample(rows); err != nil {
			return 0, err
		}
	}
	e.mean = mean
	e.floor = floor(ident.Metric, mean)
	e.mean64 = make([]float64, ident.Dim)
	for i, m := range mean {
		e.mean64[i] = float64(m)
	}
	if err := e.codes(rows); err != nil {
		return 0, err
	}
	e.PadTo(lay.mean)
	for _, words := range [][]byte{codec.BytesFromF32s(mean), codec.BytesFromF32s(e.scales),
		codec.BytesFromF32s(e.levels),
		codec.BytesFromF32s(e.resids), codec.BytesFromU32s(e.squares)} {
		e.Add(words)
		e.Pad(sectionEnd)
	}
	runs := []*blocks.Writer{e.Writer}
	if head.nibbles {
		e.PadTo(lay.nibbles)
		e.nibbles.PadTo(lay.coarse)
		e.nibbles.Add(codec.BytesFromF32s(e.coarse))
		e.nibbles.Pad(sectionEnd)
		runs = append(runs, e.nibbles)
	}
	err := format.Finish(w, func(_ int64, tableCRC uint32) []byte {
		e.head.tableCRC = tableCRC
		return e.head.encode(&e.lay)
	}, runs...)
	if err != nil {
		return 0, err
	}
	return e.lay.size, nil
}

// Build returns the file that Write writes.
func Build(ident Ident, rows Source) ([]byte, error) {
	if err := ident.check(); err != nil {
		return nil, err
	}
	nibbles, err := nibblesPay(ident, rows)
	if err != nil {
		return nil, err
	}
	return build(ident, rows, nibbles)
}

func build(ident Ident, rows Source, nibbles bool) ([]byte, error) {
	l := layoutOf(ident.Rows, ident.Dim, nibbles)
	if l.size > math.MaxInt {
		return nil, fmt.Errorf("codes: file of %d bytes does not fit into memory", l.size)
	}
	b := make(blocks.Memory, l.size)
	if _, err := write(&b, ident, rows, nibbles); err != nil {
		return nil, err
	}
	return b, nil
}

func (id *Ident) check() error {
	if id.Rows < 1 || id.Rows > MaxRows || id.Dim < 1 || id.Dim > MaxDim || id.Metric > fileformat.L2 {
		return fmt.Errorf("codes: cannot code %d rows of dimension %d for metric %d", id.Rows, id.Dim, id.Metric)
	}
	return nil
}

// An encoder is a file while it is being written.
type encoder struct {
	*blocks.Writer // from the codes to the squares
	nibbles        *blocks.Writer
	ident          Ident
	lay            layout
	head           header
	mean           []float32
	mean64         []float64
	floor          float64

	scales, levels, resids, coarse []float32
	squares                        []uint32
}

// inverse returns the factor that makes a direction of x for Cosine, and 1 otherwise.
func (e *encoder) inverse(x []float32) float64 {
	if e.ident.Metric != fileformat.Cosine {
		return 1
	}
	if sq := simd.Dot64(x, x); sq > 0 {
		return 1 / math.Sqrt(sq)
	}
	return 0
}

// sample returns the mean of some of the rows, or of their directions. Components that are not
// finite count as zero.
func (e *encoder) sample(rows Source) ([]float32, error) {
	n, dim := e.ident.Rows, e.ident.Dim
	sum := make([]float64, dim)
	count := min(n, sampled)
	run := min(max(1, readBytes/4/dim), 16) // few reads of some rows each
	for i := 0; i < count; i += run {
		lo := int(int64(i) * int64(n) / int64(count))
		hi := min(lo+min(run, count-i), n)
		x, err := rows(lo, hi)
		if err != nil {
			return nil, err
		}
		for ; len(x) >= dim; x = x[dim:] {
			inv := e.inverse(x[:dim])
			for j, v := range x[:dim] {
				sum[j] += float64(float64(v) * inv)
			}
		}
	}
	mean := make([]float32, dim)
	for j, s := range sum {
		if m := float32(s / float64(count)); m-m == 0 { // finite
			mean[j] = m
		}
	}
	return mean, nil
}

// codes appends the codes of all rows.
func (e *encoder) codes(rows Source) error {
	n, dim := e.ident.Rows, e.ident.Dim
	step := max(1, readBytes/4/dim)
	y, c := simd.Make(dim), simd.Make(dim)
	e.scales = make([]float32, 0, n)
	e.levels = make([]float32, 0, n)
	e.resids = make([]float32, 0, n)
	e.squares = make([]uint32, 0, n)
	for lo := 0; lo < n; lo += step {
		hi := min(lo+step, n)
		x, err := rows(lo, hi)
		if err != nil {
			return err
		}
		if len(x) != (hi-lo)*dim {
			return fmt.Errorf("codes: source gave %d floats for %d rows of %d", len(x), hi-lo, dim)
		}
		start := len(e.Out)
		e.Out = slices.Grow(e.Out, len(x))[:start+len(x)]
		for dst := e.Out[start:]; len(x) > 0; x, dst = x[dim:], dst[dim:] {
			e.row(dst[:dim], x[:dim], y, c)
			if e.head.nibbles {
				e.nibble(dst[:dim], y, c)
			}
		}
		if err := errors.Join(e.Spill(), e.nibbles.Spill()); err != nil {
			return format.Failed(err)
		}
	}
	return nil
}

// row codes x into dst. y and c are for its use. docs/codes.md derives the residual.
func (e *encoder) row(dst []byte, x, y, c []float32) {
	inv := e.inverse(x)
	y = y[:len(x)]
	most := simd.Centre(y, x, inv, e.mean64[:len(x)])
	yy := simd.Dot64(y, y)
	level := float32(yy)
	if e.ident.Metric != fileformat.L2 {
		level = float32(simd.Dot64(e.mean, y))
	}
	var scale, resid float32
	var square uint32
	switch {
	case most == 0 || most < tiny && e.ident.Metric == fileformat.Cosine:
		level, resid = 0, above(e.floor)
		setAll(dst, center)
	case most >= tiny && most <= huge && level-level == 0:
		quantise(dst, c, y, largest/most)
		var r float64
		scale, square, r = fit(y, c)
		resid = above(r + e.floor)
		e.head.slope = max(e.head.slope, slope(r, scale))
		e.head.square = max(e.head.square, square)
	default: // also NaN
		scale, level, resid = float32(math.Inf(1)), 0, float32(math.Inf(1))
		setAll(dst, center)
	}
	e.scales = append(e.scales, scale)
	e.levels = append(e.levels, level)
	e.resids = append(e.resids, resid)
	e.squares = append(e.squares, square)
}

// fit returns the scale s with the least residual y - s*c, which then is at right angles to c, the
// square of c, and at least the length of the residual.
func fit(y, c []float32) (scale float32, square uint32, resid float64) {
	yy, yc, cc := simd.Dot64(y, y), simd.Dot64(y, c), simd.Dot64(c, c)
	scale = float32(yc / cc)
	s := float64(scale)
	coded := s * s * cc
	// The conversions forbid the compiler to fuse operations.
	sq := yy - float64(2*s*yc) + float64(coded) + float64(float64(len(y)+16)*0x1p-51*(yy+float64(coded)))
	return scale, uint32(cc), math.Sqrt(max(0, sq)) + float64(1.01*unit32*math.Sqrt(yy))
}

// slope returns a number that resid/scale does not exceed.
func slope(resid float64, scale float32) float32 {
	return above(resid / float64(scale) * (1 + 0x1p-22))
}

// nibble codes y again, as row left it: it takes the upper halves of the codes. It overwrites c. A
// row whose nibbles say little gets a scale of NaN. That makes it a candidate of every query, and
// keeps it from spoiling the slope of all others.
func (e *encoder) nibble(codes []byte, y, c []float32) {
	start := len(e.nibbles.Out)
	e.nibbles.Out = append(e.nibbles.Out, make([]byte, stride(len(codes)))...)
	dst := e.nibbles.Out[start:]
	for i, b := range codes {
		h := b >> 4
		dst[i/2] |= h << (i % 2 * 4)
		c[i] = float32(2*int(h) - odd)
	}
	scale := math.Float32frombits(0x7fc00000)
	switch row := len(e.coarse); {
	case e.scales[row] == 0:
		scale = 0 // the mean itself
	case e.squares[row] > 0:
		s, square, resid := fit(y, c)
		// If every component is off by a step, the residual of the row is sqrt(dim) steps.
		if k := slope(resid, s); s > 0 && k < float32(3*math.Sqrt(float64(len(y)))) {
			scale = s
			e.head.coarseSlope = max(e.head.coarseSlope, k)
			e.head.coarseSquare = max(e.head.coarseSquare, square)
		}
	}
	e.coarse = append(e.coarse, scale)
}

// quantise sets c to y*f rounded to integers, which must be from -127 to 127, and dst to their
// codes.
func quantise(dst []byte, c, y []float32, f float32) {
	// From here to its double, the unit in the last place of a float32 is 1, and the lowest byte
	// zero.
	const integers = 3 << 22
	c, dst = c[:len(y)], dst[:len(y)]
	for i, v := range y {
		r := float32(v*f) + integers
		c[i] = r - integers
		dst[i] = byte(math.Float32bits(r)) + center
	}
}

func setAll(dst []byte, b byte) {
	for i := range dst {
		dst[i] = b
	}
}

// unit32 is the unit roundoff of float32.
const unit32 = 0x1p-24

// floor bounds the part of a residual that does not shrink with the scale: of the errors in a
// direction of length 1, and of taking a tiny direction for none.
func floor(m fileformat.Metric, mean []float32) float64 {
	if m != fileformat.Cosine {
		return 0
	}
	return float64(len(mean)+16) * 0x1p-50 * (1 + math.Sqrt(simd.Dot64(mean, mean)))
}

// above returns a float32 that is not below v, which is not negative.
func above(v float64) float32 {
	f := float32(v)
	if float64(f) < v {
		f = math.Nextafter32(f, float32(math.Inf(1)))
	}
	return f
}

// below returns a float32 that is not above v.
func below(v float64) float32 {
	f := float32(v)
	if float64(f) > v {
		f = math.Nextafter32(f, float32(math.Inf(-1)))
	}
	return f
}
