package share

import "time"

// MaxOps is the limit of a batch.
const MaxOps = maxOps

// SetOpenTime changes openTime and returns the former value.
func SetOpenTime(d time.Duration) (before time.Duration) {
	before, openTime = openTime, d
	return before
}
