package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vecbolt/vecbolt/db"
)

// killProfile is the workload of processes that get killed.
var killProfile = profile{name: "kill", tracks: 4, head: 16 * kib, compact: true, ids: 40, text: 600, docs: 4,
	weights: []weight{{stepBatch, 8}, {stepCross, 4}, {stepDelete, 2}, {stepWhere, 1}, {stepCreate, 1}, {stepDrop, 1}, {stepRename, 1},
		{stepMeta, 1}, {stepFlush, 1}, {stepCompact, 1}}}

const (
	killsPerDatabase = 25 // then a new one is begun: the model remembers every batch
	marksPerKill     = 80 // at most, until a process is killed
)

// killOrder tells a child what to do.
type killOrder struct {
	Seed   uint64
	Resume []int // after which batch of each track the database is
}

// killedProcess writes with several goroutines, reads with others, and says on out when a batch begins and when it is
// acknowledged, until it is killed.
func killedProcess(dir string, in io.Reader, out io.Writer) {
	var mu sync.Mutex
	say := func(format string, args ...any) error {
		mu.Lock()
		defer mu.Unlock()
		_, err := fmt.Fprintf(out, format+"\n", args...)
		return err
	}
	var order killOrder
	if err := json.NewDecoder(in).Decode(&order); err != nil {
		_ = say("error %v", err)
		return
	}
	w := newWorkload(&killProfile, order.Seed, dir, say)
	for i, t := range w.tracks {
		t.advance(order.Resume[i])
		t.acked = order.Resume[i]
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if err := w.open(); err != nil {
		_ = say("error %v", strings.ReplaceAll(err.Error(), "\n", " "))
		return
	}
	var all sync.WaitGroup
	start := func(do func() error) {
		all.Go(func() {
			if err := do(); err != nil {
				_ = say("error %v", strings.ReplaceAll(err.Error(), "\n", " "))
				stop()
			}
		})
	}
	for _, t := range w.tracks {
		start(func() error { return w.follow(ctx, t) })
	}
	for i := range 2 {
		start(func() error { return keepReading(ctx, w.vdb, i) })
	}
	all.Wait()
}

// keepReading reads a collection that stays, again and again.
func keepReading(ctx context.Context, vdb *db.DB, track int) error {
	for ctx.Err() == nil {
		c, err := vdb.Collection(fmt.Sprintf("%d/a", track))
		if errors.Is(err, db.ErrNotFound) {
			time.Sleep(time.Millisecond) // its creation may be the first batch
			continue
		}
		if err != nil {
			return err
		}
		if _, err := c.Search(ctx, db.Query{Vector: make([]float32, dim), K: 3}); err != nil && ctx.Err() == nil {
			return err
		}
		for _, err := range c.All(ctx, nil, db.Everything) {
			if err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
	return nil
}

// advance takes steps until there have been so many batches.
func (t *track) advance(batches int) {
	for len(t.history)-1 < batches {
		t.next()
	}
}

// kills kills processes as long as more says so.
func (r *run) kills(ctx context.Context, more func() bool) error {
	rng := rand.New(rand.NewPCG(r.o.Seed, 3))
	for more() {
		if err := r.killDatabase(ctx, rng, more); err != nil {
			return err
		}
	}
	return nil
}

// killDatabase makes a database and kills the processes that write to it.
func (r *run) killDatabase(ctx context.Context, rng *rand.Rand, more func() bool) error {
	dir, err := os.MkdirTemp(r.dir, "kill-")
	if err != nil {
		return err
	}
	order := killOrder{Seed: rng.Uint64(), Resume: make([]int, killProfile.tracks)}
	w := newWorkload(&killProfile, order.Seed, dir, nil)
	for range killsPerDatabase {
		if !more() {
			break
		}
		b := newBounds(len(w.tracks))
		copy(b.safe, order.Resume)
		copy(b.acked, order.Resume)
		copy(b.begun, order.Resume)
		what := fmt.Sprintf("profile kill, seed %d, batches %v", order.Seed, order.Resume)
		if err := r.kill(ctx, dir, order, rng, b); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			r.violation(what, fmt.Errorf("%w (database kept in %s)", err, dir), nil, nil)
			return nil
		}
		r.add(func(r *Report) { r.Kills++ })
		for i, t := range w.tracks {
			t.advance(b.begun[i])
		}
		e := &expectation{p: &killProfile, tracks: w.tracks, bounds: b, kill: true}
		found, err := e.verify(context.WithoutCancel(ctx), dir, rng)
		if err != nil {
			r.violation(what, fmt.Errorf("%w (database kept in %s)", err, dir), nil, nil)
			return nil
		}
		order.Resume = slices.Clone(found)
	}
	return os.RemoveAll(dir)
}

// kill starts a process, kills it, and notes in b what it said.
func (r *run) kill(ctx context.Context, dir string, order killOrder, rng *rand.Rand, b *bounds) error {
	cmd, err := command(r.o.Args, killEnv+"="+dir)
	if err != nil {
		return err
	}
	what, err := json.Marshal(order)
	if err != nil {
		return err
	}
	cmd.Stdin = strings.NewReader(string(what))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	kill := func() { _ = cmd.Process.Kill() }
	stop := context.AfterFunc(ctx, kill)
	defer stop()
	hang := time.AfterFunc(hangTime, kill)
	defer hang.Stop()
	left := 1 + rng.IntN(marksPerKill)
	if rng.IntN(4) == 0 { // soon, while it still opens
		left = marksPerKill
		time.AfterFunc(time.Duration(rng.IntN(20))*time.Millisecond, kill)
	}
	var failed error
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "error "):
			failed = errors.Join(failed, errors.New(line))
		case line != opened:
			failed = errors.Join(failed, b.note(line))
		}
		if left--; left == 0 {
			kill()
		}
	}
	if err := cmd.Wait(); err == nil && failed == nil {
		failed = errors.New("the process ended by itself")
	}
	if !hang.Stop() {
		failed = errors.Join(failed, errHang)
	}
	return errors.Join(failed, lines.Err())
}
