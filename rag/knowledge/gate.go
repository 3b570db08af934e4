package knowledge

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/vecbolt/vecbolt/db"
)

// A gate lets the goroutines of one Engine share one open database, which costs less than if each
// opened it. While a writer has it open, questions use the writer's database. A writer waits for
// earlier readers to finish. Engine.lock admits one writer at a time.
type gate struct {
	places *semaphore.Weighted // a reader holds one; opening or closing the database for writing takes all
	writer *db.DB              // open for writing, or nil; changes only while all places are held

	keep time.Duration // how long the database stays open after the last reader; 0: not at all
	mu   sync.Mutex
	kept *db.DB      // open for reading, or nil; closed only while all places are held
	idle *time.Timer // closes kept; nil before the first reader
}

const allPlaces = 1 << 30

// gate returns the gate of a database.
func (e *Engine) gate(dir string) *gate {
	e.mu.Lock()
	defer e.mu.Unlock()
	g, ok := e.gates[dir]
	if !ok {
		g = &gate{places: semaphore.NewWeighted(allPlaces), keep: e.opts.KeepOpen}
		e.gates[dir] = g
	}
	return g
}

// questionKey marks the context of a question that holds a place already. Further reads on behalf
// of that question must not wait for a writer, because the writer waits for the question.
type questionKey struct{}

// enter acquires places, first come, first served, and returns the function that releases them.
func (g *gate) enter(ctx context.Context, places int64) (leave func(), err error) {
	if ctx.Value(questionKey{}) != nil {
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
	if g.keep > 0 {
		vdb, err := g.open(dir)
		if err != nil {
			leave()
			return nil, nil, err
		}
		return vdb, func() error { leave(); g.rest(); return nil }, nil
	}
	vdb, err := db.Open(dir, &db.Options{ReadOnly: true})
	if err != nil {
		leave()
		return nil, nil, err
	}
	return vdb, func() error { defer leave(); return vdb.Close() }, nil
}

// open returns the database that stays open for readers.
func (g *gate) open(dir string) (vdb *db.DB, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.kept == nil {
		if g.kept, err = db.Open(dir, &db.Options{ReadOnly: true}); err != nil {
			g.kept = nil
			return nil, err
		}
	}
	return g.kept, nil
}

// rest begins the time that the database stays open without a reader.
func (g *gate) rest() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.idle == nil {
		g.idle = time.AfterFunc(g.keep, func() {
			if !g.places.TryAcquire(allPlaces) { // a reader will call rest again
				return
			}
			defer g.places.Release(allPlaces)
			_ = g.shut() // nothing was written
		})
		return
	}
	g.idle.Reset(g.keep)
}

// shut closes the database that stays open for readers. All places are held.
func (g *gate) shut() (err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.kept != nil {
		err = g.kept.Close()
		g.kept = nil
	}
	if g.idle != nil {
		g.idle.Stop()
	}
	return err
}

// release closes the database that stays open for readers, when they have finished.
func (g *gate) release() error {
	if g.keep == 0 {
		return nil
	}
	if err := g.places.Acquire(context.Background(), allPlaces); err != nil {
		return err
	}
	defer g.places.Release(allPlaces)
	return g.shut()
}

// write opens the database for writing.
func (g *gate) write(ctx context.Context, dir string) (*db.DB, error) {
	leave, err := g.enter(ctx, allPlaces)
	if err != nil {
		return nil, err
	}
	defer leave()
	if g.writer == nil && ctx.Value(questionKey{}) == nil {
		if err := g.shut(); err != nil {
			return nil, err
		}
	}
	vdb, err := db.Open(dir, nil)
	if err == nil {
		g.writer = vdb
	}
	return vdb, err
}

// close closes the database opened by write, even if ctx has ended.
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
