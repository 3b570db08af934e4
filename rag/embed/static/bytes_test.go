package static

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Sums of bytes equal sums of numbers, for more rows than fit into 16 bits, too.
func TestAddBytes(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		dim := block * rapid.IntRange(1, 3).Draw(r, "blocks")
		size := rapid.IntRange(1, 4).Draw(r, "rows")
		table := rapid.SliceOfN(rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte{0, 0x7f, 0x80, 0xff})), dim*size, dim*size).Draw(r, "table")
		n := rapid.SampledFrom([]int{0, 1, 2, 255, 256, 257, 512, 700}).Draw(r, "n")
		rows := rapid.SliceOfN(rapid.IntRange(0, size-1), n, n).Draw(r, "ids")
		want := make([]float64, dim)
		for _, row := range rows {
			for i := range want {
				want[i] += float64(int8(table[row*dim+i]))
			}
		}
		got := make([]float64, dim)
		addBytes(got, table, rows)
		if !cmp.Equal(got, want) {
			r.Fatal(cmp.Diff(want, got))
		}
	})
}
