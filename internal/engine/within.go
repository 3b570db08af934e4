package engine

import (
	"bytes"
	"fmt"
	"runtime"
	"strconv"
	"sync"

	"github.com/vecbolt/vecbolt/internal/document"
)

// within knows the goroutines that run a function of a caller while all writes wait for it. A call
// from one of them that waits for writes would wait for itself.
type within struct {
	mu      sync.Mutex
	callers map[uint64]string // the call that runs the function, by goroutine
}

// Within notes that the calling goroutine runs a function for a call, which is its name, while
// writes wait. end must follow in the same goroutine.
func (e *Engine) Within(call string) (end func()) {
	w, id := &e.within, goroutine()
	if id == 0 {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.callers == nil {
		w.callers = map[uint64]string{}
	}
	w.callers[id] = call
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.callers, id)
	}
}

// MayWait returns an error if the calling goroutine would wait for itself if it waited for writes.
func (e *Engine) MayWait() error {
	w := &e.within
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.callers) == 0 {
		return nil
	}
	if call, found := w.callers[goroutine()]; found {
		return fmt.Errorf("%w: called within the function of %s, which it would wait for: "+
			"that may only read; call it when %s has returned", document.ErrInvalid, call, call)
	}
	return nil
}

// goroutine returns the number of the calling goroutine, from the first line of its stack:
// "goroutine 7 [running]:". It is 0 if a release of Go words that otherwise. A context would tell
// as well, but the function of a delete gets none.
func goroutine() uint64 {
	var line [64]byte
	words := bytes.Fields(line[:runtime.Stack(line[:], false)])
	if len(words) < 2 {
		return 0
	}
	id, err := strconv.ParseUint(string(words[1]), 10, 64)
	if err != nil {
		return 0
	}
	return id
}
