package simd

import (
	"syscall"
	"testing"
	"unsafe"
)

// A guarded region is memory with an inaccessible page on either side: to read
// or write one byte beyond it ends the test with a fault.
type guarded []byte

func newGuarded(t *testing.T, size int) guarded {
	t.Helper()
	page := syscall.Getpagesize()
	size = (size + page - 1) / page * page
	m, err := syscall.Mmap(-1, 0, size+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Munmap(m); err != nil {
			t.Error(err)
		}
	})
	for _, at := range []int{0, page + size} {
		if err := syscall.Mprotect(m[at:at+page], syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return guarded(m[page : page+size])
}

// at returns n elements at the very end of the region, or at its very start.
func at[T any](g guarded, end bool, n int) []T {
	p := unsafe.Pointer(unsafe.SliceData(g))
	if end {
		var x T
		p = unsafe.Add(p, len(g)-n*int(unsafe.Sizeof(x)))
	}
	return unsafe.Slice((*T)(p), n)
}

// TestDenseBounds multiplies with every argument against an inaccessible page.
func TestDenseBounds(t *testing.T) {
	x, panels, dst := newGuarded(t, 1<<13), newGuarded(t, 1<<14), newGuarded(t, 1<<13)
	forEach(t, func(t *testing.T) {
		for n := range 30 {
			for _, in := range []int{1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33} {
				for _, out := range []int{1, 32, 33, 64} {
					for _, end := range []bool{false, true} {
						rows := Rows{at[float32](x, end, n*in), n, in, in}
						to := Rows{at[float32](dst, end, n*out), n, out, out}
						w := NewRows(out, in)
						var m Matrix
						m.Pack(w)
						m.data = append(at[float32](panels, end, len(m.data))[:0], m.data...)
						m.Mul(to, rows, nil, 0, m.Panels())
						codes := NewCodeMatrix(w)
						codes.panels = append(at[uint32](panels, end, len(codes.panels))[:0], codes.panels...)
						var c CodeRows
						c.Reset(n, in)
						for i := range n {
							c.Set(i, rows.Row(i))
						}
						c.words = append(at[uint32](x, end, len(c.words))[:0], c.words...)
						codes.Mul(to, &c, nil, 0, codes.Panels())
						clear(x)
					}
				}
			}
		}
	})
}

// TestBounds runs every kernel with every argument against an inaccessible page.
func TestBounds(t *testing.T) {
	const most, rows = 1024, 6
	a, b, c := newGuarded(t, 4*most), newGuarded(t, 4*most*rows), newGuarded(t, 4*most)
	check := func(n int, end bool) {
		x, y := at[float32](a, end, n), at[float32](c, end, n)
		Dot(x, y)
		L2(x, y)
		Dot64(x, y)
		L264(x, y)
		DotSquare64(x, y, nil)
		PrefetchVector(x)
		Finite(x)
		Largest(x)
		Flip(x, at[uint32](c, end, n))
		Encode(at[uint8](c, end, n), x, 0)
		Centre(x, y, 0, at[float64](b, end, n))
		if n&(n-1) == 0 && n > 0 {
			Hadamard(x, 0)
		}
		clear(x) // of signs
		for m := range rows + 1 {
			dst, rows := at[float32](c, end, m), at[float32](b, end, m*n)
			DotRows(dst, x, rows)
			L2Rows(dst, x, rows)
		}
		Softmax(x, 1)
		GELU(x)
		GELUTanh(x)
		AddNorm(x, y, x, y, 1)
		clear(x) // of numbers that are not finite
		bits := at[uint64](c, end, (n+63)/64)
		RangeU8(bits, at[uint8](a, end, n), 0, 1)
		RangeU16(bits, at[uint16](a, end, n), 0, 1)
		RangeU32(bits, at[uint32](a, end, n), 0, 1)
		CodesAbove(bits, at[int32](a, end, n), x, y, 1, 1, 1, 1)
		RowsAbove(bits, x, y, 1, 1, 1, 1, 1)
		weights := NewWeights(at[int16](a, end, n))
		for m := range rows + 1 {
			codes := at[uint8](b, end, CodesSize(m, n))
			DotCodes(at[int32](c, end, m), weights, codes)
			DotNibbles(at[int32](c, end, m), NewNibbleWeights(at[int8](a, end, n)), at[uint8](b, end, NibblesSize(m, n)))
			order := make([]int32, m)
			for i := range order {
				order[i] = int32(i)
			}
			DotCodesAt(at[int32](c, end, m), weights, codes, order)
			if n > 0 {
				factors := at[float32](a, end, m)
				new(CodeBlock).Pack(n, codes, factors, factors)
				new(RowBlock).Pack(n, at[float32](b, end, m*n), factors)
			}
		}
	}
	forEach(t, func(t *testing.T) {
		for limit := 1; limit <= 260; limit += 9 {
			for n := range 40 {
				for _, end := range []bool{false, true} {
					pool, dists := at[Neighbour](b, end, PoolLen(limit)), at[float32](a, end, n)
					copy(pool, vacancies(len(pool)))
					clear(dists)
					Offer(pool, limit, 0, at[uint32](c, end, n), dists, 1)
				}
			}
		}
		for n := 0; n <= 64; n += 16 {
			for _, end := range []bool{false, true} {
				Sketch(at[uint16](a, end, n/16), at[uint8](b, end, n), 1, at[float32](c, end, n))
			}
		}
		for stride := RecordAlign; stride <= most; stride += RecordAlign {
			for _, end := range []bool{false, true} {
				records := at[uint8](b, end, 3*stride)
				q := CodedVector{Codes: at[uint8](a, end, stride)}
				for m := range 6 {
					ids := []uint32{2, 0, 1, 2, 0, 1}[:m]
					if got := GatherL2(at[float32](c, end, m), &q, records, ids); got != m {
						t.Fatalf("%d of %d ids", got, m)
					}
					GatherCachedL2(at[float32](c, end, m), &q, records, ids)
				}
				LoadVector(new(CodedVector), records[2*stride:])
				for _, dim := range []int{stride - 63, stride - 1, stride} {
					codes, tails := at[uint8](b, end, 2*dim+stride), at[uint8](c, end, 3*RecordTail)
					for m := range 6 {
						ids := []uint32{2, 0, 1, 2, 0, 1}[:m]
						if got := GatherSplitL2(make([]float32, m), &q, codes, dim, tails, ids); got != m {
							t.Fatalf("%d of %d ids, dimension %d", got, m, dim)
						}
					}
					LoadSplitVector(new(CodedVector), codes[2*dim:], dim, tails)
				}
			}
		}
		for n := 16; n <= most; n += 16 {
			for _, end := range []bool{false, true} {
				signSums(at[uint8](b, end, 4*n), at[float32](a, end, n), 1, 0)
				table, size := Table{sums: at[uint8](a, end, 4*n)}, BlockSize(n)
				dst := (*[BlockPoints]float32)(at[float32](c, end, BlockPoints))
				Estimate(dst, &table, at[uint8](b, end, size), nil, 0, 0, 0)
				for m := range rows - 1 {
					Below(at[uint32](c, end, m), &table, at[uint8](b, end, m*size), 0, 0, 0)
				}
			}
		}
		for _, n := range append(span(0, 300), most-1, most) {
			check(n, false)
			check(n, true)
		}
	})
}
