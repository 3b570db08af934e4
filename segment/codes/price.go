package codes

import "math"

// Prices are expected times. The unit is the time in which a scan of codes reads one byte.
// docs/graphs.md says under Planner where they come from.
const (
	// VectorPrice is the price of a component of a vector that is scored: memory delivers it late.
	VectorPrice = 12
	// offerPrice is the price of a candidate of a scan: its bounds, its place among the best, and a
	// sort.
	offerPrice = 6000
)

// RowPrice returns the price of a row in a scan of all rows, and of one that is read alone, which
// memory delivers later. nibbles says that the scan reads nibbles first.
func RowPrice(dim int, nibbles bool) (each, alone float64) {
	d := float64(dim)
	each, alone = 10+d, 400+float64(1.3*d)
	if nibbles {
		each = 10 + float64(0.75*d) // the codes of rows that nibbles do not rule out, too
	}
	return each, alone
}

// BestPrice returns the price of the rows that may be among the k best of n, without their scan. Of
// rows in random order, the i-th is among the k best so far with probability k/i. So there
// are about k (1 + ln(n/k)).
func BestPrice(n, k, dim int) float64 {
	candidates := min(float64(n), float64(k)*(1+math.Log(max(1, float64(n)/float64(k)))))
	return candidates * (offerPrice + VectorPrice*float64(dim))
}
