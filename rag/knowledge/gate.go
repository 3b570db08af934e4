package knowledge

import (
	"context"

	"golang.org/x/sync/semaphore"

	"github.com/vecbolt/vecbolt/db"
)

// A gate lets the goroutines of one Engine share a database, which many may
// have open for reading, or one for writing: questions are answered from the
// database of whoever learns, who waits for those that had it open before.
type gate struct {
	places *semaphore.Weighted // one for each reader, all to open or close the database for writing
	writer *db.DB              // open for writing, or nil; changes with all places taken
}

const allPlaces = 1 << 30

// gate returns that of a database.
func (e *Engine) gate(dir string) *gate {
	e.mu.Lock()
	defer e.mu.Unlock()
	g, ok := e.gates[dir]
	if !ok {
		g = &gate{places: semaphore.NewWeighted(allPlaces)}
		e.gates[dir] = g
	}
	return g
}

// answering marks the context of a question, which has its place: what its
// strategy asks for in turn must not wait for a writer that waits for it.
type answering struct{}

// enter takes places, in the order of coming, and returns what gives them back.
func (g *gate) enter(ctx context.Context, places int64) (leave func(), err error) {
	if ctx.Value(answering{}) != nil {
		return func() {}, nil
	}
	return func() { g.places.Release(places) }, g.places.Acquire(ctx, places)
}

// read opens the database for reading.
func (g *gate) read(ctx context.Context, dir string) (*db.DB, func() error, error) {
	leave, err := g.enter(ctx, 1)
	if err != nil {
		return nil, nil, err
	}
	if g.writer != nil {
		return g.writer, func() error { leave(); return nil }, nil
	}
	vdb, err := db.Open(dir, &db.Options{ReadOnly: true})
	if err != nil {
		leave()
		return nil, nil, err
	}
	return vdb, func() error { defer leave(); return vdb.Close() }, nil
}

// write opens the database for writing.
func (g *gate) write(ctx context.Context, dir string) (*db.DB, error) {
	leave, err := g.enter(ctx, allPlaces)
	if err != nil {
		return nil, err
	}
	defer leave()
	vdb, err := db.Open(dir, nil)
	if err == nil {
		g.writer = vdb
	}
	return vdb, err
}

// close closes what write has opened, also when ctx has ended.
func (g *gate) close(ctx context.Context) error {
	leave, err := g.enter(context.WithoutCancel(ctx), allPlaces)
	if err != nil {
		return err
	}
	defer leave()
	vdb := g.writer
	g.writer = nil
	return vdb.Close()
}
