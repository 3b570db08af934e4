package engine

import (
	"context"
	"io"
	"sync"

	"github.com/vecbolt/vecbolt/internal/meta"
)

// An Inspector is for tests of other packages: it shows them the inside of an engine, and lets them
// run parts of its work one by one. No other code uses it.
type Inspector struct{ e *Engine }

// Inspect returns the inspector of an engine.
func Inspect(e *Engine) Inspector { return Inspector{e} }

// Locked returns the names of the mutexes that somebody holds.
func (in Inspector) Locked() (names []string) {
	for name, mu := range map[string]*sync.Mutex{"commitMu": &in.e.commitMu, "metaMu": &in.e.metaMu, "mu": &in.e.mu} {
		if mu.TryLock() {
			mu.Unlock()
		} else {
			names = append(names, name)
		}
	}
	return names
}

// Waiting returns how many writes wait for others.
func (in Inspector) Waiting() int {
	in.e.queue.mu.Lock()
	defer in.e.queue.mu.Unlock()
	return len(in.e.queue.waiting)
}

// Pinned reports whether somebody uses the current version.
func (in Inspector) Pinned() bool {
	in.e.mu.Lock()
	defer in.e.mu.Unlock()
	return in.e.cur.refs > 1
}

// Mapped returns how many segments are open, in old versions too.
func (in Inspector) Mapped() int {
	in.e.mu.Lock()
	defer in.e.mu.Unlock()
	return len(in.e.mapped)
}

// State returns the state that is recorded in meta.bolt.
func (in Inspector) State() meta.State {
	in.e.metaMu.Lock()
	defer in.e.metaMu.Unlock()
	return in.e.state
}

// Base returns the segment whose graph the graph of s will start from; nil for none.
func (in Inspector) Base(s *OpenSegment) *OpenSegment {
	in.e.mu.Lock()
	defer in.e.mu.Unlock()
	return s.base
}

// WriteGraph writes the graph of s to w, as if it were made for its file now.
func (in Inspector) WriteGraph(ctx context.Context, s *OpenSegment, w io.WriterAt) error {
	return in.e.Guard(func() error { return s.Graph.write(ctx, w) })
}

// Merges plans the merges of Compact, and returns a function for each that does it.
func (in Inspector) Merges() (merges []func(context.Context) error) {
	for _, job := range in.e.plan(everyVictim) {
		merges = append(merges, func(ctx context.Context) error {
			in.e.compactMu.Lock()
			defer in.e.compactMu.Unlock()
			return in.e.compactPart(ctx, job)
		})
	}
	return merges
}
