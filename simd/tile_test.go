package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// tileShapes are numbers of queries and of rows that fill tiles and blocks, or not.
var tileShapes = []struct{ queries, rows int }{{0, 64}, {1, 1}, {4, 64}, {5, 17}, {6, 16}, {7, 63}, {11, 0}, {13, 64}, {30, 33}}

// TestCodeTile compares bits with those of the definition.
func TestCodeTile(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(11, 12))
		var block CodeBlock
		for i, dim := range lengths[1:] {
			shape := tileShapes[i%len(tileShapes)]
			offset := r.IntN(64)
			codes := randomCodes(r, offset+CodesSize(shape.rows, dim))[offset:]
			if i%5 == 0 { // the extreme sums
				for j := range codes {
					codes[j] = 255 * uint8(j/max(dim, 1)%2)
				}
			}
			scales, levels := make([]float32, shape.rows), make([]float32, shape.rows)
			for j := range scales {
				scales[j], levels[j] = r.Float32(), r.Float32()-0.5
			}
			if shape.rows > 3 {
				scales[0], scales[1], levels[2] = float32(math.Inf(1)), float32(math.NaN()), float32(math.Inf(-1))
			}
			block.Pack(dim, codes, scales, levels)
			tile := NewCodeTile(shape.queries, dim)
			want := make([]uint64, shape.queries)
			for q := range want {
				w, wide := make([]int8, dim), make([]int16, dim)
				for j := range w {
					w[j] = int8(r.IntN(255) - 127)
					if i%5 == 0 {
						w[j] = 127 - int8(q%2)*127 - int8(q%2)*127
					}
					wide[j] = int16(w[j])
				}
				add, per := int32(r.IntN(1000)), r.Float32()*100
				tile.Set(q, w, add, per)
				values := make([]float32, shape.rows)
				for j := range values {
					sum := dotCode(wide, codes[j*dim:(j+1)*dim]) + add
					values[j] = float32(scales[j]*float32(sum)) + float32(per*levels[j])
				}
				cut := r.Float32() * 100
				if len(values) > 5 { // a tie, where the order of roundings counts
					cut = values[4+r.IntN(len(values)-4)]
				}
				if q%4 == 3 {
					cut = float32(math.Inf(-1))
				}
				tile.SetCut(q, cut)
				for j, v := range values {
					if !(v < cut) {
						want[q] |= 1 << j
					}
				}
			}
			fork := tile.Fork()
			for q := range want {
				tile.SetCut(q, float32(math.Inf(1))) // the fork has its own
			}
			got := make([]uint64, fork.Words()+1)
			got[fork.Words()] = 42
			fork.Above(got, &block)
			if !slices.Equal(got[:len(want)], want) || got[fork.Words()] != 42 {
				t.Fatalf("dimension %d, %d queries, %d rows:\n%x, want\n%x", dim, shape.queries, shape.rows, got, want)
			}
		}
	})
}

// TestRowTile compares bits with those of the canonical values: rows within ErrorBound of the cut
// may have either.
func TestRowTile(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(13, 14))
		var block RowBlock
		for i, dim := range lengths[1:] {
			for _, squared := range []bool{false, true} {
				shape := tileShapes[i%len(tileShapes)]
				src := source{r, kinds[i%3].draw}
				rows := src.vector(shape.rows*dim, r.IntN(16))
				factors := make([]float32, shape.rows)
				for j := range factors {
					factors[j] = r.Float32() - 0.3
				}
				if shape.rows > 3 {
					factors[1] = float32(math.NaN())
				}
				block.Pack(dim, rows, factors)
				tile := NewDotTile(shape.queries, dim)
				if squared {
					tile = NewL2Tile(shape.queries, dim)
				}
				queries, cuts := make([][]float32, shape.queries), make([]float32, shape.queries)
				for q := range queries {
					queries[q] = src.vector(dim, q)
					tile.Set(q, queries[q])
					cuts[q] = float32(r.NormFloat64())
				}
				tile = tile.Fork()
				for q, cut := range cuts {
					tile.SetCut(q, cut)
				}
				got := make([]uint64, tile.Words())
				tile.Above(got, &block)
				for q, query := range queries {
					for j, f := range factors {
						row := rows[j*dim : (j+1)*dim]
						want, bound := dot64Generic(query, row), ErrorBound(dim)*math.Sqrt(dot64Generic(query, query)*dot64Generic(row, row))
						if squared {
							want = l264Generic(query, row)
							bound = ErrorBound(dim) * want
						}
						bound = (bound+float64(dim)*0x1p-149+math.Abs(want)*0x1p-24)*math.Abs(float64(f)) + 0x1p-149
						want *= float64(f)
						bit := got[q]>>j&1 != 0
						if bit && want+bound < float64(cuts[q]) || !bit && !(want-bound < float64(cuts[q])) {
							t.Fatalf("dimension %d, squared %v, query %d of %d, row %d of %d: value %v, cut %v, bit %v",
								dim, squared, q, shape.queries, j, shape.rows, want, cuts[q], bit)
						}
					}
					if shape.rows < 64 && got[q]>>shape.rows != 0 {
						t.Fatalf("dimension %d: bits beyond %d rows: %x", dim, shape.rows, got[q])
					}
				}
			}
		}
	})
}

func TestRowsAbove(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	odd := []float32{0, inf, -inf, nan, math.SmallestNonzeroFloat32, 0x1p100, 0x1p-100, -1}
	forEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(15, 16))
		draw := func() float32 {
			if r.IntN(8) == 0 {
				return odd[r.IntN(len(odd))]
			}
			return r.Float32() - 0.5
		}
		for n := range 300 {
			values, scales := make([]float32, n+n%4)[n%4:], make([]float32, n+n%3)[n%3:]
			for i := range n {
				values[i], scales[i] = draw(), draw()
			}
			add, mul, least, most, cut := draw(), draw(), draw(), draw(), draw()
			if n%2 == 1 { // ties
				i := r.IntN(n)
				cut, least, most = values[i]*(add+float32(mul*scales[i])), scales[r.IntN(n)], scales[r.IntN(n)]
			}
			words := (n + 63) / 64
			got, want := make([]uint64, words+1), make([]uint64, words+1)
			for i := range got {
				got[i], want[i] = 42, 42
			}
			RowsAbove(got, values, scales, add, mul, least, most, cut)
			rowsAboveGeneric(want[:words], values, scales, add, mul, least, most, cut)
			if !slices.Equal(got, want) {
				t.Fatalf("%d rows: %x, want %x", n, got, want)
			}
		}
	})
}

func TestTileLengths(t *testing.T) {
	forEach(t, func(t *testing.T) {
		code, row := NewCodeTile(7, 100), NewDotTile(7, 100)
		var codes CodeBlock
		var rows RowBlock
		codes.Pack(100, make([]uint8, 300), make([]float32, 2), make([]float32, 2))
		rows.Pack(100, make([]float32, 200), make([]float32, 2))
		for i, f := range []func(){
			func() { RowsAbove(make([]uint64, 1), make([]float32, 65), make([]float32, 65), 0, 0, 0, 0, 0) },
			func() { RowsAbove(make([]uint64, 1), make([]float32, 2), make([]float32, 1), 0, 0, 0, 0, 0) },
			func() { NewCodeTile(1, 0) },
			func() { NewL2Tile(-1, 1) },
			func() { code.Set(0, make([]int8, 99), 0, 0) },
			func() { code.Set(0, slices.Repeat([]int8{-128}, 100), 0, 0) },
			func() { row.Set(0, make([]float32, 99)) },
			func() { code.Above(make([]uint64, 6), &codes) },
			func() { row.Above(make([]uint64, 6), &rows) },
			func() { NewCodeTile(1, 99).Above(make([]uint64, 12), &codes) },
			func() { new(CodeBlock).Pack(100, make([]uint8, 200), make([]float32, 2), make([]float32, 2)) },
			func() { new(CodeBlock).Pack(100, make([]uint8, 300), make([]float32, 2), make([]float32, 1)) },
			func() { new(CodeBlock).Pack(1, make([]uint8, 300), make([]float32, 65), make([]float32, 65)) },
			func() { new(RowBlock).Pack(100, make([]float32, 300), make([]float32, 2)) },
			func() { new(RowBlock).Pack(1, make([]float32, 65), make([]float32, 65)) },
		} {
			func() {
				defer func() {
					if msg := fmt.Sprint(recover()); !strings.HasPrefix(msg, "simd: ") {
						t.Errorf("call %d: panic %q", i, msg)
					}
				}()
				f()
			}()
		}
	})
}

// BenchmarkTile compares 1000 queries with blocks of rows, one after the other and all in a cache,
// packing included. The metric is the best rate in billions of operations, two for every component
// of a query and a row.
func BenchmarkTile(b *testing.B) {
	const queries, blocks = 1000, 4
	for _, dim := range []int{100, 384, 768} {
		for _, l := range available() {
			r := rand.New(rand.NewPCG(1, 2))
			run := func(name string, f func(i int)) {
				b.Run(fmt.Sprintf("%s/%d/%s", name, dim, l), func(b *testing.B) {
					use(b, l)
					best := newTimer()
					for b.Loop() {
						best.run(1, func() {
							for i := range blocks {
								f(i)
							}
						})
					}
					b.ReportMetric(float64(2*queries*blocks*BlockRows*dim)/float64(best), "Gop/s")
				})
			}
			old := active
			active = l
			tile := NewCodeTile(queries, dim)
			w := make([]int8, dim)
			for i := range queries {
				for j := range w {
					w[j] = int8(r.IntN(255) - 127)
				}
				tile.Set(i, w, 0, 1)
				tile.SetCut(i, float32(math.Inf(1)))
			}
			dots, squares := NewDotTile(queries, dim), NewL2Tile(queries, dim)
			q := make([]float32, dim)
			for i := range queries {
				dots.Set(i, q)
				squares.Set(i, q)
			}
			active = old
			codes, floats := randomCodes(r, CodesSize(blocks*BlockRows, dim)), make([]float32, blocks*BlockRows*dim)
			dst, ones := make([]uint64, queries+10), slices.Repeat([]float32{1}, BlockRows)
			var codeBlock CodeBlock
			var rowBlock RowBlock
			pack := func(i int) { rowBlock.Pack(dim, floats[i*BlockRows*dim:][:BlockRows*dim], ones) }
			run("codes", func(i int) {
				codeBlock.Pack(dim, codes[i*BlockRows*dim:], ones, ones)
				tile.Above(dst, &codeBlock)
			})
			run("dot", func(i int) { pack(i); dots.Above(dst, &rowBlock) })
			run("l2", func(i int) { pack(i); squares.Above(dst, &rowBlock) })
		}
	}
}
