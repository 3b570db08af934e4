package torture

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/db"
)

var soakTime = flag.Duration("torture.soak", 3*time.Second, "how long TestSoak goes on")

// soakProfile keeps a bounded number of documents, so that nothing but leaks can grow.
var soakProfile = profile{name: "soak", tracks: 4, head: 128 * kib, sync: db.SyncInterval, compact: true, ids: 80, text: 2000, docs: 5,
	weights: []weight{{stepBatch, 10}, {stepCross, 6}, {stepDelete, 3}, {stepWhere, 1}, {stepCreate, 1}, {stepDrop, 1}, {stepRename, 1}, {stepMeta, 1}, {stepText, 1}}}

// soakRound is how long the database stays open, at most.
const soakRound = 20 * time.Second

// TestSoak writes with several goroutines while others read snapshots, search, flush, compact,
// check and back up, round after round on one database. Everything that is read is compared with
// the model. After each round, with the database closed, there must be as many goroutines, open
// files, mappings and bytes of memory as after the first, and no more on disk than what is alive
// explains.
func TestSoak(t *testing.T) {
	dir, err := scratch(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s := &soak{workload: newWorkload(&soakProfile, *seed, dir, func(string, ...any) error { return nil })}
	ctx, stop := context.WithCancelCause(t.Context())
	defer stop(nil)
	end := time.Now().Add(*soakTime)
	var first usage
	for round := 0; round < 2 || time.Now().Before(end); round++ {
		length := min(soakRound, *soakTime/3)
		if err := s.round(ctx, stop, length); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		now, err := measure(dir)
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			first = now
		}
		if err := now.compare(first, s.live()); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		t.Logf("round %d: %d batches, %d snapshots compared, %d backups; %v", round, s.batches.Load(), s.snapshots.Load(), s.backups, now)
	}
}

type soak struct {
	*workload
	batches, snapshots atomic.Int64
	backups            int
}

// round opens the database, works on it for a while, closes it, and compares.
func (s *soak) round(ctx context.Context, stop func(error), length time.Duration) error {
	if err := s.open(); err != nil {
		return err
	}
	if err := s.compare(ctx, s.vdb, rand.New(rand.NewPCG(*seed, 5))); err != nil {
		return fmt.Errorf("opened: %w", err)
	}
	short, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var all sync.WaitGroup
	start := func(what string, do func() error) {
		all.Go(func() {
			for short.Err() == nil {
				if err := do(); err != nil {
					stop(fmt.Errorf("%s: %w", what, err))
					return
				}
			}
		})
	}
	// Who writes holds its lock for reading; the contents of tracks fit together while it is held
	// for writing.
	var still sync.RWMutex
	for _, track := range s.tracks {
		start("write", func() error {
			still.RLock()
			defer still.RUnlock()
			step := track.next()
			track.history = track.history[len(track.history)-1:]
			s.batches.Add(1)
			return step.write(ctx, s.vdb)
		})
	}
	for i := range 2 {
		rng := rand.New(rand.NewPCG(*seed, uint64(10+i)))
		start("snapshot", func() (err error) {
			still.Lock()
			snap, err := s.vdb.Snapshot()
			want := make([]content, len(s.tracks))
			for i, t := range s.tracks {
				want[i] = t.now()
			}
			still.Unlock()
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, snap.Close()) }()
			for range 2 { // later as well
				if err := s.same(ctx, snap, want, rng); err != nil {
					return err
				}
			}
			s.snapshots.Add(1)
			return nil
		})
	}
	rng := rand.New(rand.NewPCG(*seed, 6))
	start("maintain", func() error {
		switch rng.IntN(6) {
		case 0:
			return s.vdb.Compact(ctx)
		case 1:
			return s.check(ctx, s.vdb)
		case 2:
			return s.backUp(ctx)
		}
		return s.vdb.Flush(ctx)
	})
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := errors.Join(s.compare(ctx, s.vdb, rng), s.vdb.Compact(ctx), s.check(ctx, s.vdb)); err != nil {
		return err
	}
	return s.close()
}

// compare compares the database, to which nobody writes, with the model.
func (s *soak) compare(ctx context.Context, from source, rng *rand.Rand) error {
	want := make([]content, len(s.tracks))
	for i, t := range s.tracks {
		want[i] = t.now()
	}
	return s.same(ctx, from, want, rng)
}

func (s *soak) same(ctx context.Context, from source, want []content, rng *rand.Rand) error {
	got, err := read(ctx, from, len(want))
	if err != nil {
		return err
	}
	for i := range want {
		if got[i].sum() != want[i].sum() {
			return fmt.Errorf("track %d: %s", i, difference(got[i], want[i]))
		}
	}
	return search(ctx, from, want[rng.IntN(len(want))], rng)
}

func (s *soak) check(ctx context.Context, vdb *db.DB) error {
	report, err := vdb.Check(ctx, db.CheckBytes)
	if err == nil && !report.OK() {
		err = fmt.Errorf("check: %v", report.Problems)
	}
	return err
}

// backUp makes a backup, opens it, and removes it. Writers go on: it is compared in that it is
// whole.
func (s *soak) backUp(ctx context.Context) error {
	at := filepath.Join(s.dir, "backup")
	if err := s.vdb.Backup(ctx, at); err != nil {
		return err
	}
	vdb, err := db.Open(at, &db.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	_, err = read(ctx, vdb, len(s.tracks))
	s.backups++
	return errors.Join(err, s.check(ctx, vdb), vdb.Close(), os.RemoveAll(at))
}

// live returns how many bytes the documents have.
func (s *soak) live() (n int64) {
	for _, t := range s.tracks {
		for _, tab := range t.now() {
			for _, d := range tab.docs {
				n += int64(len(d.ID)+len(d.Text)+4*len(d.Vector)) + 100
			}
		}
	}
	return n
}

// usage is what a process holds while no database is open.
type usage struct {
	goroutines, files, maps int
	heap, disk              int64
}

func (u usage) String() string {
	return fmt.Sprintf("%d goroutines, %d files, %d mappings, heap %d KiB, disk %d KiB", u.goroutines, u.files, u.maps, u.heap/kib, u.disk/kib)
}

// goroutines returns the least number of goroutines within a moment: one that runs finalizers after
// a collection, or has told its end and not returned yet, is no leak.
func goroutines() int {
	least := runtime.NumGoroutine()
	for start := time.Now(); time.Since(start) < 100*time.Millisecond; runtime.Gosched() {
		least = min(least, runtime.NumGoroutine())
	}
	return least
}

// measure measures. Only Linux tells about files and mappings.
func measure(dir string) (u usage, err error) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.goroutines, u.heap = goroutines(), int64(m.HeapAlloc)
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		u.files = len(fds)
	}
	if maps, err := os.ReadFile("/proc/self/maps"); err == nil {
		u.maps = strings.Count(string(maps), dir)
	}
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		st, err := e.Info()
		if err == nil {
			u.disk += st.Size()
		}
		return err
	})
	return u, err
}

// compare says what has leaked since the first measurement, when so many bytes are alive.
func (u usage) compare(first usage, live int64) error {
	const (
		slackHeap = 4 << 20
		slackDisk = 4 << 20 // bbolt grows by a MiB, and each segment file has a header
	)
	switch {
	case u.goroutines > first.goroutines:
		return fmt.Errorf("goroutines leak: %v, first %v", u, first)
	case u.files > first.files:
		return fmt.Errorf("files leak: %v, first %v", u, first)
	case u.maps > 0:
		return fmt.Errorf("mappings leak: %v", u)
	case u.heap > first.heap+slackHeap:
		return fmt.Errorf("memory leaks: %v, first %v", u, first)
	case u.disk > 2*live+slackDisk:
		return fmt.Errorf("space leaks: %v, alive are %d KiB", u, live/kib)
	}
	return nil
}
