package knowledge

import (
	"context"
	"errors"
	"sync"

	"github.com/vecbolt/vecbolt/db"
)

// A gate lets the goroutines of one Engine share a database, which many may
// have open for reading, or one for writing: questions are answered from the
// database of whoever learns, who waits for those that had it open before.
type gate struct {
	mu      sync.Mutex
	changed *sync.Cond
	readers int
	waiting int    // who want to open or close it for writing
	writer  *db.DB // open for writing, or nil
}

// gate returns that of a database.
func (e *Engine) gate(dir string) *gate {
	e.mu.Lock()
	defer e.mu.Unlock()
	g, ok := e.gates[dir]
	if !ok {
		g = &gate{}
		g.changed = sync.NewCond(&g.mu)
		e.gates[dir] = g
	}
	return g
}

// answering marks the context of a question: what its strategy asks for in
// turn must not wait for a writer that waits for the question.
type answering struct{}

func nested(ctx context.Context) bool { return ctx.Value(answering{}) != nil }

// read opens the database for reading.
func (g *gate) read(ctx context.Context, dir string) (*db.DB, func() error, error) {
	g.mu.Lock()
	for g.waiting > 0 && !nested(ctx) {
		g.changed.Wait()
	}
	g.readers++
	shared := g.writer
	g.mu.Unlock()
	leave := func() error {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.readers--
		g.changed.Broadcast()
		return nil
	}
	if shared != nil {
		return shared, leave, nil
	}
	vdb, err := db.Open(dir, &db.Options{ReadOnly: true})
	if err != nil {
		return nil, nil, errors.Join(err, leave())
	}
	return vdb, func() error { return errors.Join(vdb.Close(), leave()) }, nil
}

// write opens the database for writing.
func (g *gate) write(ctx context.Context, dir string) (vdb *db.DB, err error) {
	g.alone(ctx, func() {
		if vdb, err = db.Open(dir, nil); err == nil {
			g.writer = vdb
		}
	})
	return vdb, err
}

// close closes what write has opened.
func (g *gate) close(ctx context.Context) (err error) {
	g.alone(ctx, func() {
		err = g.writer.Close()
		g.writer = nil
	})
	return err
}

// alone calls fn when nobody reads.
func (g *gate) alone(ctx context.Context, fn func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting++
	for g.readers > 0 && !nested(ctx) {
		g.changed.Wait()
	}
	fn()
	g.waiting--
	g.changed.Broadcast()
}
