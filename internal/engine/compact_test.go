package engine

import (
	"math"
	"testing"
	"time"
)

// Merges while the database is idle wait for the end of writing and for a rest after the last one.
func TestUntilIdle(t *testing.T) {
	e := new(Engine)
	within := func(what string, age, least, most time.Duration) {
		t.Helper()
		if wait := e.untilIdle(age); wait < least || wait > most {
			t.Errorf("%s: %v, want %v to %v", what, wait, least, most)
		}
	}
	const ever = math.MaxInt64
	within("nothing was written", time.Hour, -ever, 0)
	e.lastWrite = time.Now()
	within("just written", time.Hour, time.Minute, time.Hour)
	within("idle from the start", 0, -ever, 0)
	e.rest(time.Minute)
	within("after a merge", 0, (restFactor-1)*time.Minute, restFactor*time.Minute)
	within("written after a merge", 30*time.Minute, 20*time.Minute, 30*time.Minute)
	e.rest(0)
	within("rested", 0, -ever, 0)
}
