package simd

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func randomBlock(r *rand.Rand, dim int) []uint8 {
	block := randomCodes(r, BlockSize(dim))
	for i := range 2 * BlockPoints {
		binary.LittleEndian.PutUint32(block[4*i:], math.Float32bits(float32(r.NormFloat64())))
	}
	return block
}

// TestEstimate compares with sums of signed components, one by one.
func TestEstimate(t *testing.T) {
	forEach(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(9, 10))
		var table Table
		for _, dim := range []int{16, 32, 48, 64, 80, 112, 384, 768, 1536, 2048, 2064, MaxSign} {
			block := randomBlock(r, dim)
			q := make([]float32, dim)
			for i := range q {
				q[i] = float32(r.NormFloat64())
				if dim == MaxSign || dim == 2048 {
					q[i] = 2 // the largest sums
				}
			}
			if dim == MaxSign || dim == 2048 {
				for i := blockHead; i < len(block); i++ {
					block[i] = 0xff
				}
			}
			table.Set(q)
			var dst [BlockPoints]float32
			const add = 0.5
			slack, unit, more := []float32{0, 0.75, -1, float32(math.NaN()), 3e7}[dim/16%5], table.unit, 0.0
			switch {
			case slack > 1e7: // out of all proportion
				more, unit = 1<<22, slack/(1<<22)
			case slack > 0:
				more = math.Floor(float64(slack / unit))
			}
			below := Estimate(&dst, &table, block, nil, add, 0, slack)
			for j := range BlockPoints {
				var sum, all, exact float64
				for i, v := range q {
					b := block[blockHead+i/4*16+j%16] >> (j / 16 * 4)
					sign := float64(int(b>>(i%4)&1)*2 - 1)
					sum += sign * math.RoundToEven(float64(v/table.unit))
					exact += sign * float64(v)
					all += math.Abs(float64(v))
				}
				f := func(at int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(block[at+4*j:])) }
				want := float32(add+f(0)) + float32(float32(unit*f(128))*float32(sum+more))
				if diff := math.Abs(float64(dst[j] - want)); diff > 4e-3*(1+math.Abs(float64(want))) || math.IsNaN(diff) {
					t.Fatalf("dimension %d, point %d: %g, want %g", dim, j, dst[j], want)
				}
				if math.Abs(exact-sum*float64(table.unit)) > 0.04*all {
					t.Fatalf("dimension %d, point %d: sum %g is far from %g", dim, j, sum*float64(table.unit), exact)
				}
				if below>>j&1 == 1 != (dst[j] < 0) {
					t.Fatalf("dimension %d, point %d: %g is below 0: %v", dim, j, dst[j], below>>j&1)
				}
			}
		}
	})
}

// TestEstimateSame: every implementation gives the same bits.
func TestEstimateSame(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for _, dim := range []int{16, 160, 784, MaxSign} {
		block, next := randomBlock(r, dim), randomBlock(r, dim)
		q := make([]float32, dim)
		for i := range q {
			q[i] = float32(r.NormFloat64())
		}
		var table Table
		table.Set(q)
		var want [BlockPoints]float32
		below := estimateGeneric(&want, table.sums, block, table.bias, table.unit, 1, 0.5)
		forEach(t, func(t *testing.T) {
			var got [BlockPoints]float32
			if b := Estimate(&got, &table, block, next, 1, 0.5, 0); got != want || b != below {
				t.Errorf("dimension %d: %v, want %v", dim, got, want)
			}
		})
	}
}

// TestBelow: of blocks one after the other, the points below the limit are those of Estimate.
func TestBelow(t *testing.T) {
	const seed = 15
	r := rand.New(rand.NewPCG(seed, 16))
	for _, dim := range []int{16, 112, 384, 784, MaxSign} {
		for _, n := range []int{0, 1, 2, 7} {
			var blocks []uint8
			for range n {
				blocks = append(blocks, randomBlock(r, dim)...)
			}
			q := make([]float32, dim)
			for i := range q {
				q[i] = float32(r.NormFloat64())
			}
			var table Table
			table.Set(q)
			const add, limit, slack = 0.25, 0.75, 1.5
			want, size := make([]uint32, n), BlockSize(dim)
			for i := range want {
				var estimates [BlockPoints]float32
				want[i] = Estimate(&estimates, &table, blocks[i*size:][:size], nil, add, limit, slack)
				if want[i] == 0 || want[i] == math.MaxUint32 {
					t.Fatalf("dimension %d: %x tells nothing", dim, want[i])
				}
			}
			forEach(t, func(t *testing.T) {
				got := make([]uint32, n)
				if Below(got, &table, blocks, add, limit, slack); !slices.Equal(got, want) {
					t.Errorf("dimension %d, %d blocks, seed %d: %x, want %x", dim, n, seed, got, want)
				}
			})
		}
	}
}

// TestTableSame: every implementation makes the same table, of components that round either way.
func TestTableSame(t *testing.T) {
	const seed = 13
	r := rand.New(rand.NewPCG(seed, 14))
	for _, dim := range []int{16, 64, 400, 2048, 2064, MaxSign} {
		q := make([]float32, dim)
		for i := range q {
			switch q[i] = float32(r.NormFloat64()); i % 5 {
			case 0:
				q[i] = float32(r.IntN(63)-31) / 2 // ties, with the largest component that follows
			case 1:
				q[i] = 0
			}
		}
		q[dim/2] = 31
		var want Table
		want.Set(q)
		signSumsGeneric(want.sums, q, 1/want.unit, uint8(want.bias/int32(dim)*4))
		forEach(t, func(t *testing.T) {
			var got Table
			got.Set(q)
			if !slices.Equal(got.sums, want.sums) {
				t.Errorf("dimension %d, seed %d: the tables differ", dim, seed)
			}
		})
	}
}

// TestPackSigns compares the signs of points with where Estimate reads them.
func TestPackSigns(t *testing.T) {
	const per = 3
	r := rand.New(rand.NewPCG(3, 4))
	plus := make([]uint16, BlockPoints*per)
	for i := range plus {
		plus[i] = uint16(r.Uint32())
	}
	got, want := make([]uint32, 16*per), make([]uint32, 16*per)
	PackSigns(got, plus)
	for j := range BlockPoints {
		for i := range 16 * per { // component
			bit := uint32(plus[j*per+i/16]>>(i%16)) & 1
			want[i/4*4+j%16/4] |= bit << (j%4*8 + j/16*4 + i%4)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%08x, want %08x", got, want)
	}
}

func BenchmarkEstimate(b *testing.B) {
	r := rand.New(rand.NewPCG(11, 12))
	const dim = 768
	block := randomBlock(r, dim)
	q := make([]float32, dim)
	for i := range q {
		q[i] = float32(r.NormFloat64())
	}
	var table Table
	b.Run("table", func(b *testing.B) {
		for b.Loop() {
			table.Set(q)
		}
	})
	b.Run("block", func(b *testing.B) {
		var dst [BlockPoints]float32
		for b.Loop() {
			Estimate(&dst, &table, block, nil, 1, 0.5, 0)
		}
	})
}
