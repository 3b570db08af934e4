package simd_test

import (
	"fmt"

	"github.com/vecbolt/vecbolt/simd"
)

func Example() {
	query := []float32{1, 2}
	rows := []float32{3, 4, 5, 6, -1, 0} // three vectors, one after the other
	dots := make([]float32, 3)
	simd.DotRows(dots, query, rows)
	fmt.Println(dots)
	fmt.Println(simd.Dot64(query, rows[:2]), simd.L264(query, rows[:2])) // the same bits on every CPU
	// Output:
	// [11 17 -1]
	// 11 8
}
