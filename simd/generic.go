package simd

import (
	"encoding/binary"
	"math"
)

// This file defines every kernel; the assembly must agree with it. For the
// float32 kernels "agree" means within ErrorBound, because the order of their
// additions is free and a compiler may fuse a product into a sum. Everything
// else agrees bit for bit.

// dotGeneric returns the sum of a[i]*b[i]. It has four accumulators, because a single one would
// wait for each addition before starting the next, and takes eight components at a time, as many as
// fit in the registers of amd64 without spilling.
func dotGeneric(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	for len(a) >= 8 && len(b) >= 8 {
		s0 += a[0]*b[0] + a[4]*b[4]
		s1 += a[1]*b[1] + a[5]*b[5]
		s2 += a[2]*b[2] + a[6]*b[6]
		s3 += a[3]*b[3] + a[7]*b[7]
		a, b = a[8:], b[8:]
	}
	for i := range a {
		s0 += a[i] * b[i]
	}
	return (s0 + s2) + (s1 + s3)
}

// l2Generic returns the sum of (a[i]-b[i])^2, like dotGeneric.
func l2Generic(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	for len(a) >= 8 && len(b) >= 8 {
		d0, d4 := a[0]-b[0], a[4]-b[4]
		d1, d5 := a[1]-b[1], a[5]-b[5]
		d2, d6 := a[2]-b[2], a[6]-b[6]
		d3, d7 := a[3]-b[3], a[7]-b[7]
		s0 += d0*d0 + d4*d4
		s1 += d1*d1 + d5*d5
		s2 += d2*d2 + d6*d6
		s3 += d3*d3 + d7*d7
		a, b = a[8:], b[8:]
	}
	for i := range a {
		d := a[i] - b[i]
		s0 += d * d
	}
	return (s0 + s2) + (s1 + s3)
}

// dotRowsGeneric sets dst[i] to the dot product of q and row i of rows.
func dotRowsGeneric(dst, q, rows []float32) {
	for i := range dst {
		dst[i] = dotGeneric(q, rows[i*len(q):(i+1)*len(q)])
	}
}

// l2RowsGeneric sets dst[i] to the squared distance of q and row i of rows.
func l2RowsGeneric(dst, q, rows []float32) {
	for i := range dst {
		dst[i] = l2Generic(q, rows[i*len(q):(i+1)*len(q)])
	}
}

// dot64Generic is the definition of Dot64. Eight float64 lanes start at +0;
// lane j adds the terms of the components i with i%8 == j, in ascending order,
// rounding to float64 after each addition; sumLanes adds the lanes up. A term
// is float64(a[i])*float64(b[i]), which is exact: 24 by 24 bits fit in 53, and
// no product of two float32 leaves the range of normal float64 numbers. So a
// fused multiply-add gives the same bits as a multiplication and an addition.
func dot64Generic(a, b []float32) float64 {
	b = b[:len(a)]
	var l [8]float64
	for i := range a {
		l[i%8] += float64(float64(a[i]) * float64(b[i]))
	}
	return sumLanes(&l)
}

// dotSquare64Generic is the definition of DotSquare64.
func dotSquare64Generic(a, b []float32) (dot, square float64) {
	return dot64Generic(a, b), dot64Generic(b, b)
}

// l264Generic is the definition of L264. It has the same lanes as Dot64; a term is d*d rounded to
// float64, where d is float64(a[i])-float64(b[i]) rounded to float64. The conversion around d*d
// keeps the compiler from fusing it with the addition.
func l264Generic(a, b []float32) float64 {
	b = b[:len(a)]
	var l [8]float64
	for i := range a {
		d := float64(a[i]) - float64(b[i])
		l[i%8] += float64(d * d)
	}
	return sumLanes(&l)
}

// sumLanes halves the number of lanes three times, as a vector register is.
func sumLanes(l *[8]float64) float64 {
	return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]))
}

// finiteGeneric reports whether every a[i] is finite. An exponent of all ones, which NaN and
// infinity have, carries into the sign when one is added to it.
func finiteGeneric(a []float32) bool {
	const sign, one = 1 << 31, 1 << 23
	var carry uint32
	for _, x := range a {
		carry |= math.Float32bits(x)&^sign + one
	}
	return carry&sign == 0
}

// rangeGeneric sets bit i of dst if codes[i]-lo <= span, in the wrapping arithmetic of T, and
// leaves every other bit unchanged. It does not branch on codes: they are in document order, and so
// unpredictable.
func rangeGeneric[T uint8 | uint16 | uint32](dst []uint64, codes []T, lo, span T) {
	for w := range dst {
		if len(codes) == 0 {
			return
		}
		n := min(len(codes), 64)
		var word uint64
		for i, c := range codes[:n] {
			above := (uint64(span) - uint64(c-lo)) >> 63 // the sign bit
			word |= (above ^ 1) << i
		}
		dst[w] |= word
		codes = codes[n:]
	}
}

// dotCodesGeneric multiplies two codes by their weights at once: with a and b
// for the codes, u and v for the weights, and B for 2^32,
//
//	(a + b*B) * (v + u*B)  =  a*v + (a*u + b*v)*B  modulo 2^64
//
// The sums of both parts are below 2^31 by the limits of Weights, so that they
// can be told apart in the end.
func dotCodesGeneric(dst []int32, w *Weights, codes []uint8) {
	for i := range dst {
		pairs := w.pairs
		row := codes[i*w.dim:]
		const mask = 0x000000ff_000000ff // codes j and j+4 of eight
		var s0, s1 uint64
		for j := range pairs {
			c := binary.LittleEndian.Uint64(row[8*j:])
			p := &pairs[j]
			s0 += (c&mask)*p[0] + (c>>16&mask)*p[2]
			s1 += (c>>8&mask)*p[1] + (c>>24&mask)*p[3]
		}
		s := s0 + s1
		dst[i] = int32((s-uint64(int32(s)))>>32) + w.bias
	}
}

// codesAboveGeneric is the definition of CodesAbove. The conversions forbid the
// compiler to fuse operations.
func codesAboveGeneric(dst []uint64, dots []int32, scales, levels []float32, mul, add, per, cut float32) {
	scales, levels = scales[:len(dots)], levels[:len(dots)]
	for w := range dst {
		n := min(64, len(dots))
		var word uint64
		for i, d := range dots[:n] {
			v := scales[i] * float32(float32(mul*float32(d))+add)
			if v = float32(v) + float32(per*levels[i]); !(v < cut) {
				word |= 1 << i
			}
		}
		dst[w] = word
		dots, scales, levels = dots[n:], scales[n:], levels[n:]
	}
}

// tileCodesGeneric is the definition of CodeTile.Above.
func tileCodesGeneric(dst []uint64, t *CodeTile, b *CodeBlock) {
	var dots [BlockRows]int32
	for i := range dst {
		dotCodesGeneric(dots[:b.n], t.exact[i], b.codes)
		add, per := int32(*t.param(i, 0)), math.Float32frombits(*t.param(i, 1))
		for j := range dots {
			dots[j] += add
		}
		codesAboveGeneric(dst[i:i+1], dots[:b.n], b.scales[:], b.levels[:], 1, 0, per, t.cut(i))
	}
}

// tileRowsGeneric is the definition of RowTile.Above.
func tileRowsGeneric(dst []uint64, t *RowTile, b *RowBlock) {
	var values [BlockRows]float32
	for i, q := range t.exact[:len(dst)] {
		if t.l2 {
			l2RowsGeneric(values[:b.n], q, b.rows)
		} else {
			dotRowsGeneric(values[:b.n], q, b.rows)
		}
		var word uint64
		for j, v := range values[:b.n] {
			if !(float32(v*b.factors[j]) < t.cut(i)) {
				word |= 1 << j
			}
		}
		dst[i] = word
	}
}

// rowsAboveGeneric is the definition of RowsAbove.
func rowsAboveGeneric(dst []uint64, values, scales []float32, add, mul, least, most, cut float32) {
	for w := range dst {
		n := min(64, len(values))
		var word uint64
		for i, v := range values[:n] {
			s := scales[i]
			x := float32(v * (add + float32(mul*s)))
			if !(x < cut) || !(s > least) || !(s < most) {
				word |= 1 << i
			}
		}
		dst[w] = word
		values, scales = values[n:], scales[n:]
	}
}

func dotCodesAtGeneric(dst []int32, w *Weights, codes []uint8, rows []int32) {
	for i, r := range rows {
		dotCodesGeneric(dst[i:i+1], w, codes[int(r)*w.dim:])
	}
}

func gatherL2Generic(dst []float32, q []uint8, bias int32, mul, add, extra float32, records []uint8, ids []uint32) {
	for i, id := range ids {
		record := records[int(id)*len(q):][:len(q)]
		dst[i] = gatherGeneric(q, bias, mul, add, extra, record, record[len(q)-RecordTail:])
	}
}

func gatherSplitL2Generic(dst []float32, q []uint8, bias int32, mul, add, extra float32, records []uint8, dim int,
	tails []uint8, ids []uint32) {
	for i, id := range ids {
		dst[i] = gatherGeneric(q, bias, mul, add, extra, records[int(id)*dim:][:len(q)], tails[int(id)*RecordTail:])
	}
}

// gatherGeneric is the definition of GatherL2 and GatherSplitL2. bias is -128 times the sum of q,
// because codes are stored 128 too large. The conversions forbid the compiler to fuse operations.
func gatherGeneric(q []uint8, bias int32, mul, add, extra float32, record, tail []uint8) float32 {
	var s0, s1 int32
	for j := 0; j < len(q); j += 4 {
		r, w := record[j:j+4:j+4], q[j:j+4:j+4]
		s0 += int32(int8(w[0]))*int32(r[0]) + int32(int8(w[1]))*int32(r[1])
		s1 += int32(int8(w[2]))*int32(r[2]) + int32(int8(w[3]))*int32(r[3])
	}
	scale := math.Float32frombits(binary.LittleEndian.Uint32(tail))
	level := math.Float32frombits(binary.LittleEndian.Uint32(tail[4:]))
	other := math.Float32frombits(binary.LittleEndian.Uint32(tail[8:]))
	product := float32(float32(mul*scale) * float32(s0+s1+bias))
	return float32(float32(level+add)+float32(extra*other)) + product
}

// dotNibblesGeneric is the definition of DotNibbles.
func dotNibblesGeneric(dst []int32, w *NibbleWeights, nibbles []uint8) {
	stride := (w.dim + 1) / 2
	for i := range dst {
		row := nibbles[i*stride : (i+1)*stride]
		weights := w.plain
		var sum int32
		for len(weights) >= 2 && len(row) > 0 {
			sum += int32(weights[0])*int32(row[0]&15) + int32(weights[1])*int32(row[0]>>4)
			weights, row = weights[2:], row[1:]
		}
		if len(weights) > 0 {
			sum += int32(weights[0]) * int32(row[0]&15)
		}
		dst[i] = 2*sum + w.bias
	}
}

// estimateGeneric is the definition of Estimate. The conversions forbid the
// compiler to fuse operations.
func estimateGeneric(dst *[BlockPoints]float32, table, block []uint8, bias int32, unit, add, limit float32) uint32 {
	var sums [BlockPoints]int32
	for signs := block[blockHead:]; len(signs) >= 16 && len(table) >= 16; signs, table = signs[16:], table[16:] {
		for j, s := range signs[:16] {
			sums[j] += int32(table[s&15])
			sums[j+16] += int32(table[s>>4])
		}
	}
	var below uint32
	for j, s := range sums {
		first := math.Float32frombits(binary.LittleEndian.Uint32(block[4*j:]))
		second := math.Float32frombits(binary.LittleEndian.Uint32(block[128+4*j:]))
		v := float32(add+first) + float32(float32(unit*second)*float32(s-bias))
		dst[j] = v
		if v < limit {
			below |= 1 << j
		}
	}
	return below
}

// belowGeneric is the definition of Below.
func belowGeneric(below []uint32, sums, blocks []uint8, bias int32, unit, add, limit float32) {
	var estimates [BlockPoints]float32
	size := blockHead + len(sums)
	for i := range below {
		below[i] = estimateGeneric(&estimates, sums, blocks[i*size:][:size], bias, unit, add, limit)
	}
}

// signSumsGeneric is the definition of what Table.Set computes: byte n of the 16 for four
// components is base and their sum, with the signs of the bits of n.
func signSumsGeneric(sums []uint8, q []float32, inv float32, base uint8) {
	const each = 0x0101010101010101
	for i := 0; i+4 <= len(q); i += 4 {
		x := (*[4]float32)(q[i:])
		a, b, c, d := whole(x[0]*inv), whole(x[1]*inv), whole(x[2]*inv), whole(x[3]*inv)
		// Bytes may overflow into one another in between, but not in the end.
		low := (uint64(base)-a-b-c-d)*each + 2*a*0x0100010001000100 + 2*b*0x0101000001010000 + 2*c*0x0101010100000000
		out := (*[16]uint8)(sums[4*i:])
		binary.LittleEndian.PutUint64(out[:8], low)
		binary.LittleEndian.PutUint64(out[8:], low+2*d*each)
	}
}

// whole rounds a small number to an integer, modulo 2^64.
func whole(v float32) uint64 {
	// From here to its double, the unit in the last place of a float32 is 1.
	const integers = 3 << 22
	return uint64(int64(int32(math.Float32bits(float32(v)+integers)) - 0x4b400000))
}

// hadamardGeneric is the definition of Hadamard. It takes two steps at once.
func hadamardGeneric(v []float32, scale float32) {
	if len(v) < 4 {
		if len(v) == 2 {
			v[0], v[1] = v[0]+v[1], v[0]-v[1]
		}
		for i := range v {
			v[i] *= scale
		}
		return
	}
	for i := 0; i < len(v); i += 4 {
		q := (*[4]float32)(v[i:])
		s, t, x, y := q[0]+q[1], q[0]-q[1], q[2]+q[3], q[2]-q[3]
		q[0], q[1], q[2], q[3] = (s+x)*scale, (t+y)*scale, (s-x)*scale, (t-y)*scale
	}
	h := 4
	for ; 4*h <= len(v); h *= 4 {
		for i := 0; i < len(v); i += 4 * h {
			a, b, c, d := v[i:i+h:i+h], v[i+h:i+2*h], v[i+2*h:i+3*h], v[i+3*h:i+4*h]
			b, c, d = b[:len(a)], c[:len(a)], d[:len(a)]
			for j, w := range a {
				x, y, z := b[j], c[j], d[j]
				s, t, p, q := w+x, w-x, y+z, y-z
				a[j], b[j], c[j], d[j] = s+p, t+q, s-p, t-q
			}
		}
	}
	if h < len(v) {
		a, b := v[:h], v[h:2*h]
		for j, x := range a {
			y := b[j]
			a[j], b[j] = x+y, x-y
		}
	}
}

// flipGeneric is the definition of Flip.
func flipGeneric(v []float32, signs []uint32) {
	for i, s := range signs[:len(v)] {
		v[i] = math.Float32frombits(math.Float32bits(v[i]) ^ s)
	}
}

// largestGeneric returns the bits of the result of Largest: without their signs,
// floats are in the order of their bits, and NaNs above all others.
func largestGeneric(v []float32) uint32 {
	var top uint32
	for _, x := range v {
		top = max(top, math.Float32bits(x)&^(1<<31))
	}
	return top
}

// centreGeneric is the definition of Centre and returns the bits of its result.
func centreGeneric(dst, v []float32, factor float64, mean []float64) uint32 {
	var top uint32
	mean = mean[:len(v)]
	for i, x := range v {
		d := float32(float64(float64(x)*factor) - mean[i])
		dst[i] = d
		top = max(top, math.Float32bits(d)&^(1<<31))
	}
	return top
}

// encodeGeneric is the definition of Encode.
func encodeGeneric(codes []uint8, v []float32, factor float32) (sum, squares int32) {
	codes = codes[:len(v)]
	for i, x := range v {
		// From here to its double, the unit in the last place of a float32 is 1.
		c := int32(math.Float32bits(float32(x*factor)+3<<22) - 0x4b400000)
		codes[i] = uint8(c + 128)
		sum += c
		squares += c * c
	}
	return sum, squares
}

// loadPointGeneric makes the bytes of a record, codes with 128 added, signed.
func loadPointGeneric(dst, record []uint8) {
	for i := 0; i+8 <= len(record); i += 8 {
		binary.LittleEndian.PutUint64(dst[i:], binary.LittleEndian.Uint64(record[i:])^0x8080808080808080)
	}
}

// sketchGeneric is the definition of Sketch. The squares are exact: see dot64Generic.
func sketchGeneric(plus []uint16, codes []uint8, scale float32, from []float32) (squares, sum, along float64) {
	clear(plus)
	var q, s, a [8]float64
	for i, c := range codes {
		o := float32(scale * float32(int(c)-128))
		d, f := float64(float32(o-from[i])), float64(from[i])
		if d > 0 {
			plus[i/16] |= 1 << (i % 16)
		} else {
			f = -f
		}
		q[i%8] += float64(d * d)
		s[i%8] += math.Abs(d)
		a[i%8] += f
	}
	return sumLanes(&q), sumLanes(&s), sumLanes(&a)
}

// offerGeneric is the definition of Offer.
func offerGeneric(pool []Neighbour, limit, next int, ids []uint32, dists []float32, most float32) (rows, unmarked int) {
	const short = 64 // up to this length rows are moved during the search for their place
	taken := false
	if rows = limit; pool[limit-1] == Vacant {
		rows = behind(pool[:limit], math.MaxFloat32)
	}
	for len(dists) > 0 && limit > short {
		var fresh [32]Neighbour
		n, size := 0, min(32, len(dists))
		worst := pool[limit-1].Dist
		for i, d := range dists[:size] {
			if d = max(d, 0); d < worst && d <= most { // so it is with few rows
				fresh[n] = Neighbour{ids[i], d}
				n++
			}
		}
		if n > 0 {
			var at int
			rows, at = insertAll(pool[:limit], rows, fresh[:n])
			taken, next = true, min(next, at)
		}
		ids, dists = ids[size:], dists[size:]
	}
	for i, d := range dists {
		worst := pool[limit-1].Dist
		if !(d < worst && d <= most) || d <= 0 && !(0 < worst && 0 <= most) { // so it is with most rows
			continue
		}
		taken, d = true, max(d, 0)
		at := min(rows, limit-1)
		rows = at + 1
		for ; at > 0 && pool[at-1].Dist > d; at-- {
			pool[at] = pool[at-1]
		}
		pool[at] = Neighbour{ids[i], d}
		next = min(next, at)
	}
	if !taken {
		return 0, 0
	}
	for next < limit && pool[next].ID >= Marked {
		next++
	}
	return rows, next
}

// insertAll inserts some new rows, at least one of which is near enough, into a pool that has this
// many rows. It returns the new number of rows and the place of the nearest new one. A processor
// finds several places at once, and every row of the pool is moved once.
func insertAll(pool []Neighbour, rows int, fresh []Neighbour) (n, first int) {
	for i := 1; i < len(fresh); i++ {
		for e, j := fresh[i], i; j > 0 && fresh[j-1].Dist > e.Dist; j-- {
			fresh[j], fresh[j-1] = fresh[j-1], e
		}
	}
	var at [32]int
	for i, e := range fresh {
		at[i] = behind(pool[:rows], e.Dist) + i
	}
	last := len(fresh) - 1
	for at[last] >= len(pool) {
		last--
	}
	end := rows
	for i := last; i >= 0; i-- {
		from := at[i] - i
		copy(pool[at[i]+1:], pool[from:end])
		pool[at[i]] = fresh[i]
		end = from
	}
	return min(rows+last+1, len(pool)), at[0]
}

// behind returns the number of rows in the pool that are not farther than dist.
func behind(pool []Neighbour, dist float32) int {
	at := uint(0)
	for n := uint(len(pool)); n > 0; {
		half := (n + 1) / 2
		nearer := uint(0) // no branch, which would often be guessed wrong
		if pool[at+half-1].Dist <= dist {
			nearer = 1
		}
		at += half & -nearer
		n -= half
	}
	return int(at)
}
