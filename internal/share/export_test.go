package share

import "time"

// MaxOps is the limit of a batch.
const MaxOps = maxOps

// SetReadersTime changes readersTime and returns the former value.
func SetReadersTime(d time.Duration) (before time.Duration) {
	before, readersTime = readersTime, d
	return before
}

// SetOpenTime changes openTime and returns the former value.
func SetOpenTime(d time.Duration) (before time.Duration) {
	before, openTime = openTime, d
	return before
}

// SetLookTime changes lookTime and returns the former value.
func SetLookTime(d time.Duration) (before time.Duration) {
	before, lookTime = lookTime, d
	return before
}

// SetRestTime changes restTime and returns the former value.
func SetRestTime(d time.Duration) (before time.Duration) {
	before, restTime = restTime, d
	return before
}

// SetMaxQueued changes maxQueued and returns the former value.
func SetMaxQueued(n int) (before int) {
	before, maxQueued = maxQueued, n
	return before
}

// SetDecideTimes changes decideTime and beatTime, and returns the former values.
func SetDecideTimes(decide, beat time.Duration) (beforeDecide, beforeBeat time.Duration) {
	beforeDecide, beforeBeat = decideTime, beatTime
	decideTime, beatTime = decide, beat
	return beforeDecide, beforeBeat
}
