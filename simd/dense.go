package simd

import (
	"fmt"
	"math"
)

// PanelColumns is the number of columns that Mul computes at once. Threads share a product by
// ranges of panels.
const PanelColumns = 32

// Rows are vectors of the same dimension in one slice, row i at Data[i*Stride:].
type Rows struct {
	Data   []float32
	N, Dim int
	Stride int // from row to row, at least Dim; more keeps rows apart
}

// NewRows returns n rows of zeros.
func NewRows(n, dim int) Rows {
	var r Rows
	r.Resize(n, dim)
	return r
}

// Resize makes r n rows of arbitrary values, reusing its memory. Rows of a multiple of 1 KiB are
// kept a cache line apart, because the first cache holds few lines whose addresses differ by a
// multiple of 4 KiB.
func (r *Rows) Resize(n, dim int) {
	stride := (dim + 15) &^ 15
	if stride%256 == 0 {
		stride += 16
	}
	if n*stride > cap(r.Data) {
		r.Data = Make(n * stride)
	}
	*r = Rows{r.Data[:n*stride], n, dim, stride}
}

// Row returns row i.
func (r Rows) Row(i int) []float32 { return r.Data[i*r.Stride:][:r.Dim:r.Dim] }

// Slice returns the rows from..to.
func (r Rows) Slice(from, to int) Rows {
	if from < 0 || to < from || to > r.N {
		panic(fmt.Sprintf("simd: Slice %d to %d of %d rows", from, to, r.N))
	}
	if from == to {
		return Rows{nil, 0, r.Dim, r.Stride}
	}
	return Rows{r.Data[from*r.Stride:], to - from, r.Dim, r.Stride}
}

// Columns returns the columns from..to of all rows.
func (r Rows) Columns(from, to int) Rows {
	if from < 0 || to < from || to > r.Dim {
		panic(fmt.Sprintf("simd: Columns %d to %d of %d", from, to, r.Dim))
	}
	if r.N == 0 {
		return Rows{nil, 0, to - from, r.Stride}
	}
	return Rows{r.Data[from:], r.N, to - from, r.Stride}
}

// check panics if the rows do not lie in the data.
func (r Rows) check(name string) {
	if r.N < 0 || r.Dim < 0 || r.Stride < r.Dim || r.N > 0 && (r.N-1)*r.Stride+r.Dim > len(r.Data) {
		panic(fmt.Sprintf("simd: %s of %d rows of %d floats, %d apart, in %d", name, r.N, r.Dim, r.Stride, len(r.Data)))
	}
}

// A Matrix is the right factor of a product x·wᵀ. It holds w in panels of PanelColumns rows of w,
// which are columns of the product: word by word, the columns of a panel lie side by side. The
// portable code holds w row by row. The zero value is an empty matrix. A matrix that is not being
// packed is safe for concurrent use.
type Matrix struct {
	level   level
	out, in int
	data    []float32
}

// Out returns the number of columns of a product.
func (m *Matrix) Out() int { return m.out }

// In returns the dimension of the rows that the matrix is multiplied with.
func (m *Matrix) In() int { return m.in }

// Panels returns the number of panels.
func (m *Matrix) Panels() int { return panels(m.out) }

func panels(columns int) int { return (columns + PanelColumns - 1) / PanelColumns }

// reset makes room, reusing memory. It keeps the old values.
func (m *Matrix) reset(out, in int) {
	m.level, m.out, m.in = active, out, in
	n := panels(out) * in * PanelColumns
	if cap(m.data) < n {
		m.data = Make(n)
	}
	m.data = m.data[:n]
}

// column returns the weights of column j, one every step floats.
func (m *Matrix) column(j int) (w []float32, step int) {
	if m.level == generic {
		return m.data[j*m.in:], 1
	}
	return m.data[j/PanelColumns*PanelColumns*m.in+j%PanelColumns:], PanelColumns
}

// Pack sets m to w, of which the parts are the rows in order: they are copied. It panics if
// dimensions differ or are 0.
func (m *Matrix) Pack(parts ...Rows) {
	out, in := outIn("Pack", parts)
	m.reset(out, in)
	const block = 64 // elements of all columns of a panel, which stay in the first cache
	j := 0
	for _, w := range parts {
		for i := 0; i < w.N; {
			n := min(w.N-i, PanelColumns-j%PanelColumns)
			for k := 0; k < in; k += block {
				for c := range n {
					to, step := m.column(j + c)
					to = to[k*step:]
					for l, v := range w.Row(i + c)[k:min(k+block, in)] {
						to[l*step] = v
					}
				}
			}
			i, j = i+n, j+n
		}
	}
	for ; j < m.Panels()*PanelColumns; j++ { // beyond the last column
		to, step := m.column(j)
		for k := range in {
			to[k*step] = 0
		}
	}
}

// outIn returns the shape of a matrix of parts.
func outIn(name string, parts []Rows) (out, in int) {
	for i, w := range parts {
		w.check(name)
		if i > 0 && w.Dim != in || w.Dim < 1 {
			panic(fmt.Sprintf("simd: %s of rows of %d floats and of %d", name, in, w.Dim))
		}
		out, in = out+w.N, w.Dim
	}
	return out, in
}

// PackColumns sets m to the transpose of w, which has rows: they are copied. A product x·wᵀ with m
// is the product of x and w.
func (m *Matrix) PackColumns(w Rows) {
	w.check("PackColumns")
	if w.N < 1 {
		panic("simd: PackColumns of no rows")
	}
	m.reset(w.Dim, w.N)
	if m.level == generic {
		for i := range w.N {
			for j, v := range w.Row(i) {
				m.data[j*w.N+i] = v
			}
		}
		return
	}
	for p := range m.Panels() {
		from := p * PanelColumns
		n := min(PanelColumns, w.Dim-from)
		panel := m.data[p*PanelColumns*w.N:]
		for i := range w.N {
			to := panel[i*PanelColumns : (i+1)*PanelColumns]
			clear(to[copy(to[:n], w.Data[i*w.Stride+from:]):])
		}
	}
}

// Unpack returns a copy of w.
func (m *Matrix) Unpack() Rows {
	w := NewRows(m.out, m.in)
	for j := range m.out {
		from, step := m.column(j)
		for k, row := 0, w.Row(j); k < len(row); k++ {
			row[k] = from[k*step]
		}
	}
	return w
}

// Mul sets, for all columns of the panels from..to, dst to the product x·wᵀ plus bias: column j of
// row i is bias[j] + the sum of x[i][k]*w[j][k]. Its error is as for Dot, with bias[j]*1 as one
// more term. A result depends on its row of x
// and on w alone, with the same bits wherever the row stands and whatever the other rows and the
// panels are. dst must not overlap x. No bias stands for zeros. Mul panics if shapes do not fit.
func (m *Matrix) Mul(dst, x Rows, bias []float32, from, to int) {
	dst.check("Mul")
	x.check("Mul")
	checkShape("Mul", m.out, m.in, dst, x.N, x.Dim, bias, from, to)
	if m.level == generic {
		mulFloatsGeneric(dst, x, m, bias, from, to)
		return
	}
	const most = 3 << 19 // multiplications per call of assembly, which cannot be preempted
	rows := rowsAtOnce(x.N, max(16, most/(PanelColumns*m.in)))
	var block [PanelColumns * 64]float32
	for p := from; p < to; p++ {
		var b [PanelColumns]float32
		first := p * PanelColumns
		n := min(PanelColumns, m.out-first)
		if bias != nil {
			copy(b[:], bias[first:][:n])
		}
		panel := m.data[p*PanelColumns*m.in : (p+1)*PanelColumns*m.in]
		if n == PanelColumns {
			for i := 0; i < x.N; i += rows {
				k := min(rows, x.N-i)
				mulFloats(m.level, dst.Data[i*dst.Stride+first:], dst.Stride, x.Data[i*x.Stride:], x.Stride, panel, b[:], k, m.in)
			}
			continue
		}
		for i := 0; i < x.N; i += 64 {
			k := min(64, x.N-i)
			mulFloats(m.level, block[:], PanelColumns, x.Data[i*x.Stride:], x.Stride, panel, b[:], k, m.in)
			for r := range k {
				copy(dst.Data[(i+r)*dst.Stride+first:][:n], block[r*PanelColumns:])
			}
		}
	}
}

func checkShape(name string, out, in int, dst Rows, n, dim int, bias []float32, from, to int) {
	if dim != in || dst.Dim != out || dst.N != n || bias != nil && len(bias) != out || from < 0 || to < from || to > panels(out) {
		panic(fmt.Sprintf("simd: %s of %d rows of %d elements with %d by %d weights and %d biases into %d rows of %d, panels %d to %d",
			name, n, dim, out, in, len(bias), dst.N, dst.Dim, from, to))
	}
}

// rowsAtOnce splits n rows evenly into runs of at most most rows: a short run uses the processor
// badly.
func rowsAtOnce(n, most int) int {
	if n == 0 {
		return most
	}
	runs := (n + most - 1) / most
	return (n + runs - 1) / runs
}

// Softmax replaces x by exp(scale*x) divided by the sum of these, for a scale of at least 0. The
// error of a result is below 1e-6 of it if scale*x spans at most 16, and below 2e-6 of the largest
// one always. It does nothing without elements.
func Softmax(x []float32, scale float32) {
	if len(x) > 0 {
		softmax(x, scale)
	}
}

// GELU replaces each x by x*P(x), where P is the distribution function of the normal distribution:
// the Gaussian error linear unit of Hendrycks and Gimpel, 2016. Its error is below 1e-7 +
// 2e-7*|x|. NaN stays NaN.
func GELU(x []float32) { gelu(x) }

// GELUTanh replaces each x by x/2*(1+tanh(√(2/π)*(x+0.044715*x³))), the approximation of GELU that
// some models were trained with. Its error is below 1e-7 + 4e-7*|x|. NaN stays NaN.
func GELUTanh(x []float32) { geluTanh(x) }

// AddNorm adds y to x and normalises the sum as a layer norm does: less its mean, divided by
// √(variance + epsilon), times w, plus b. Ba, Kiros and Hinton, Layer Normalization, 2016. Sums are
// float32. It panics if lengths differ.
func AddNorm(x, y, w, b []float32, epsilon float32) {
	if len(y) != len(x) || len(w) != len(x) || len(b) != len(x) {
		panic(fmt.Sprintf("simd: AddNorm of vectors of different lengths, %d, %d, %d and %d", len(x), len(y), len(w), len(b)))
	}
	if len(x) > 0 {
		addNorm(x, y, w, b, epsilon)
	}
}

// A CodeMatrix is a Matrix of weights of one byte, with a scale per row of w. It is safe for
// concurrent use.
type CodeMatrix struct {
	level   level
	out, in int
	panels  []uint32  // as in Matrix, in words of the codes of a step
	codes   []int8    // for the generic kernel, row by row
	scales  []float32 // of columns
	sums    []int32   // of the codes of columns
}

// codesPerWord returns the number of codes in a word of 32 bits.
func (l level) codesPerWord() int {
	if l == avx2 {
		return 2
	}
	return 4
}

// NewCodeMatrix returns w rounded to whole multiples from -127 to 127 of a scale per row, the least
// that has room for the row. The values must be finite, the dimension from 1 to 65536.
func NewCodeMatrix(parts ...Rows) *CodeMatrix {
	out, in := outIn("NewCodeMatrix", parts)
	if in > 1<<16 {
		panic(fmt.Sprintf("simd: NewCodeMatrix of rows of %d floats", in))
	}
	l := mulCodesLevel()
	m := &CodeMatrix{level: l, out: out, in: in}
	columns := panels(out) * PanelColumns
	m.scales, m.sums = make([]float32, columns), make([]int32, columns)
	per := l.codesPerWord()
	steps := (in + per - 1) / per
	if l == generic {
		m.codes = make([]int8, out*in)
	} else {
		m.panels = make([]uint32, columns*steps)
	}
	codes := make([]int8, in)
	at := 0
	for _, w := range parts {
		for i := range w.N {
			m.scales[at], m.sums[at] = codeRow(codes, w.Row(i))
			to := m.panels
			if l != generic {
				to = m.panels[at/PanelColumns*PanelColumns*steps+at%PanelColumns:]
			}
			switch l {
			case avx512:
				for j, c := range codes {
					to[j/4*PanelColumns] |= uint32(uint8(c)) << (j % 4 * 8)
				}
			case avx2:
				for j, c := range codes {
					to[j/2*PanelColumns] |= uint32(uint16(c)) << (j % 2 * 16)
				}
			default:
				copy(m.codes[at*in:], codes)
			}
			at++
		}
	}
	return m
}

// codeRow rounds a row to codes.
func codeRow(codes []int8, row []float32) (scale float32, sum int32) {
	most := Largest(row)
	scale = most / 127
	if scale < 0x1p-120 { // so that dividing by it does not overflow
		clear(codes)
		return 0, 0
	}
	per := 1 / scale
	for j, v := range row {
		c := int32(math.RoundToEven(float64(v * per)))
		c = max(-127, min(127, c))
		codes[j] = int8(c)
		sum += c
	}
	return scale, sum
}

// Out returns the number of columns of a product.
func (m *CodeMatrix) Out() int { return m.out }

// In returns the dimension of the rows that the matrix is multiplied with.
func (m *CodeMatrix) In() int { return m.in }

// Panels returns the number of panels.
func (m *CodeMatrix) Panels() int { return panels(m.out) }

// CodeRows are rows rounded to one byte per element, to be multiplied with a CodeMatrix: an element
// is unit times code minus zero, with a unit and a zero per row. The zero value has no rows.
type CodeRows struct {
	level          level
	n, dim, stride int // the stride in words
	words          []uint32
	units          []float32
	zeros          []int32
}

// Reset makes room for n rows, reusing memory. Their values are arbitrary until they are set.
func (c *CodeRows) Reset(n, dim int) {
	if n < 0 || dim < 0 {
		panic(fmt.Sprintf("simd: CodeRows of %d rows of %d elements", n, dim))
	}
	l := mulCodesLevel()
	per := l.codesPerWord()
	stride := ((dim+15)&^15)/per + 4
	if cap(c.words) < n*stride {
		c.words = make([]uint32, n*stride)
	}
	if cap(c.units) < n {
		c.units, c.zeros = make([]float32, n), make([]int32, n)
	}
	*c = CodeRows{l, n, dim, stride, c.words[:n*stride], c.units[:n], c.zeros[:n]}
}

// Set rounds x, finite numbers, to row i: codes from 0 to 255 stand for the interval from the least
// to the largest element and 0, so that 0 is exact. The codes are the same from every
// implementation. Set may be called concurrently for different rows. It panics if the length of x
// differs from the dimension.
func (c *CodeRows) Set(i int, x []float32) {
	if len(x) != c.dim || i < 0 || i >= c.n {
		panic(fmt.Sprintf("simd: CodeRows.Set of row %d of %d, %d elements of %d", i, c.n, len(x), c.dim))
	}
	whole := len(x) &^ 15
	low, high := extent(c.level, x[:whole])
	for _, v := range x[whole:] {
		low, high = min(low, v), max(high, v)
	}
	unit := high/255 - low/255 // the difference may overflow
	var per float32
	if unit >= 0x1p-120 {
		per = 1 / unit
	}
	zero := int32(math.RoundToEven(float64(-low * per)))
	zero = max(0, min(255, zero))
	c.units[i], c.zeros[i] = unit, zero
	row := c.words[i*c.stride : (i+1)*c.stride]
	toCodes(c.level, row, x[:whole], per, zero)
	// The rest, and zeros where weights have padding.
	each := c.level.codesPerWord()
	clear(row[whole/each:])
	for j := whole; j < len(x); j++ {
		row[j/each] |= uint32(code(x[j], per, zero)) << (j % each * (32 / each))
	}
}

// code returns the code of v.
func code(v, per float32, zero int32) uint8 {
	return uint8(max(0, min(255, int32(math.RoundToEven(float64(v*per)))+zero)))
}

// Mul sets, for all columns of the panels from..to, column j of row i of dst to
//
//	float32(sum of (x[i][k]-zero of i)*w[j][k]) * scale of j * unit of i + bias[j]
//
// where the sum of products of codes is exact and every operation is rounded to float32, from left
// to right: the same from every implementation on every CPU. No bias stands for zeros. Mul panics
// if shapes do not fit.
func (m *CodeMatrix) Mul(dst Rows, x *CodeRows, bias []float32, from, to int) {
	dst.check("CodeMatrix.Mul")
	checkShape("CodeMatrix.Mul", m.out, m.in, dst, x.n, x.dim, bias, from, to)
	if m.level != x.level && m.out > 0 && x.n > 0 {
		panic("simd: CodeMatrix.Mul of codes of another implementation")
	}
	per := m.level.codesPerWord()
	steps := (m.in + per - 1) / per
	const most = 3 << 19 // steps per call, as in Matrix.Mul
	rows := rowsAtOnce(x.n, max(16, most/(PanelColumns*steps)))
	var block [PanelColumns * 64]float32
	for p := from; p < to; p++ {
		var b [PanelColumns]float32
		first := p * PanelColumns
		n := min(PanelColumns, m.out-first)
		if bias != nil {
			copy(b[:], bias[first:][:n])
		}
		if n == PanelColumns {
			for i := 0; i < x.n; i += rows {
				mulCodes(m, p, dst.Data[i*dst.Stride+first:], dst.Stride, x, i, min(rows, x.n-i), b[:], steps)
			}
			continue
		}
		for i := 0; i < x.n; i += 64 {
			k := min(64, x.n-i)
			mulCodes(m, p, block[:], PanelColumns, x, i, k, b[:], steps)
			for r := range k {
				copy(dst.Data[(i+r)*dst.Stride+first:][:n], block[r*PanelColumns:])
			}
		}
	}
}
