package nearest

import (
	"sync/atomic"
	"time"
)

// A Trace records the stages of a search. A nil trace records nothing.
type Trace struct {
	Stages []Stage
	bytes  atomic.Int64 // read by searches since the last call of Taken
}

// A Stage is one step of a search: how many rows it considered and kept, how many bytes of
// vectors and codes it read, and how long it took.
type Stage struct {
	Name       string
	Rows, Kept int
	Bytes      int64
	Time       time.Duration
}

// Read counts bytes; it is safe for concurrent use.
func (t *Trace) Read(bytes int64) {
	if t != nil {
		t.bytes.Add(bytes)
	}
}

// Taken returns the bytes read since the last call.
func (t *Trace) Taken() int64 {
	if t == nil {
		return 0
	}
	return t.bytes.Swap(0)
}

// Clock begins a stage, which Clock.Done ends.
func (t *Trace) Clock(name string) Clock {
	if t == nil {
		return Clock{}
	}
	return Clock{t, name, time.Now()}
}

// A Clock measures one stage.
type Clock struct {
	trace *Trace
	name  string
	start time.Time
}

// Done ends the stage.
func (c Clock) Done(rows, kept int, bytes int64) {
	if c.trace != nil {
		c.trace.Stages = append(c.trace.Stages, Stage{c.name, rows, kept, bytes, time.Since(c.start)})
	}
}
