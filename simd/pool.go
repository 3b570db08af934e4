package simd

import (
	"fmt"
	"math"
)

// A Neighbour is a row in a pool with its distance from a query.
type Neighbour struct {
	ID   uint32 // below Marked, or with it added
	Dist float32
}

// Marked is the bit of an id that marks a row as done.
const Marked = 1 << 31

// Vacant marks an empty slot: it sorts after every real row, and is marked.
var Vacant = Neighbour{math.MaxUint32, float32(math.Inf(1))}

// PoolLen returns the length of a pool that is fast for this many rows.
func PoolLen(rows int) int {
	for _, n := range []int{32, 64, 128, 192} {
		if rows <= n {
			return n
		}
	}
	return rows
}

// Offer inserts the nearest of some rows, given as ids at dists, into a pool. The first limit slots
// of the pool hold the nearest rows so far, nearest first, followed by Vacant. Slots beyond limit
// have no meaning, and stay Vacant until a row is inserted.
//
// A row is inserted if it is nearer than slot limit-1 and not farther than most, behind all rows
// that are as near. Distances below 0 count as 0; NaN and infinity are never inserted. If any row
// was inserted, Offer returns the number of rows in the pool and the index of the first unmarked
// row, limit if all are marked; next must not be above this index before the call. Otherwise it
// returns 0 and 0. The result is the same from every implementation on every CPU. Offer panics if
// limit is not from 1 to len(pool), or if there are fewer ids than dists.
func Offer(pool []Neighbour, limit, next int, ids []uint32, dists []float32, most float32) (rows, unmarked int) {
	if limit < 1 || limit > len(pool) || len(ids) < len(dists) {
		panic(fmt.Sprintf("simd: Offer of %d ids and %d distances to %d of %d entries", len(ids), len(dists), limit, len(pool)))
	}
	return offer(pool, limit, next, ids, dists, most)
}
