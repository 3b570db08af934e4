package simd

import (
	"fmt"
	"math"
)

// An Entry is a row of a pool, at its distance from a query.
type Neighbour struct {
	ID   uint32 // below Marked, or with it added
	Dist float32
}

// Marked is the bit of an id that says that its entry needs no more attention.
const Marked = 1 << 31

// Vacant is an entry that is none: it is farther than any, and marked.
var Vacant = Neighbour{math.MaxUint32, float32(math.Inf(1))}

// PoolLen returns the length that a pool for so many rows should have to be fast.
func PoolLen(rows int) int {
	for _, n := range []int{32, 64, 128, 192} {
		if rows <= n {
			return n
		}
	}
	return rows
}

// Offer takes the nearest of some rows, which are ids at dists, into a pool: the first limit
// entries of it are those rows that were the nearest so far, nearest first, and behind them all
// that are left are Vacant. What lies behind limit has no meaning, and is Vacant as long as nothing
// was taken in.
//
// A row is taken in if it is nearer than entry limit-1 and not farther than most, and comes behind
// all that are as near. Distances below 0 count as 0; NaN and infinity are never taken in. If any
// row was, Offer returns the number of rows in the pool and the index of the first that is not
// marked, limit if all are; next must be at most the index of the first that was not before.
// Otherwise it returns 0 and 0. The result is the same from every implementation on every CPU.
// Offer panics if limit is not from 1 to len(pool), or if there are fewer ids than dists.
func Offer(pool []Neighbour, limit, next int, ids []uint32, dists []float32, most float32) (rows, unmarked int) {
	if limit < 1 || limit > len(pool) || len(ids) < len(dists) {
		panic(fmt.Sprintf("simd: Offer of %d ids and %d distances to %d of %d entries", len(ids), len(dists), limit, len(pool)))
	}
	return offer(pool, limit, next, ids, dists, most)
}
