package share

import (
	"sync"
	"time"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

const (
	// loopTime is how long the loop waits in the system call until it looks for other things to do.
	loopTime = 2 * time.Millisecond
	// quietTime is the time after which a follower that has all its answers leaves the loop.
	quietTime = 4 * time.Millisecond
	// stallTime is about how long the loop commits until another goroutine reads in its place.
	stallTime = 5 * time.Millisecond
)

// A loop serves the followers that send many requests. One goroutine reads what all of them have
// sent and then commits it, so that one thread wakes for many requests, and reads those that arrive
// during a commit together. Other followers are waited for without a thread.
type loop struct {
	serve  func(f *session) // handles what has arrived
	commit func()           // commits a group of it
	set    *pollSet
	single bool // the process has one processor, which is not to be kept while the loop waits
	pause  pause
	group  vfs.Group

	mu         sync.Mutex
	active     []*session
	polled     []*session // copy of active, for the goroutine of the loop
	changed    *sync.Cond
	owner      uint64    // which goroutine serves
	asleep     bool      // it waits in the system call
	work       bool      // there is something to commit
	committing time.Time // since when the owner commits; zero if it does not
	watched    bool      // watch runs
	ended      bool
}

func newLoop(single bool, serve func(*session), commit func()) (*loop, error) {
	set, err := newPollSet()
	if err != nil {
		return nil, err
	}
	p := &loop{serve: serve, commit: commit, set: set, single: single}
	p.changed = sync.NewCond(&p.mu)
	p.start(0)
	return p, nil
}

func (p *loop) start(owner uint64) {
	p.group.Go(engine.SocketName, func() error {
		p.run(owner)
		return nil
	})
}

// add gives a follower to the loop, which gives it back by f.quiet.
func (p *loop) add(f *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.heard.Store(ticks(time.Now()))
	p.active = append(p.active, f)
	if !p.watched {
		p.watched = true
		p.group.Go(engine.SocketName, p.watch)
	}
	p.rouse()
}

// submitted says that there is something to commit. Without followers the loop leaves an own
// write, of this process, to the caller, and returns false.
func (p *loop) submitted(own bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || own && len(p.active) == 0 {
		return false
	}
	p.work = true
	p.rouse()
	return true
}

// rouse wakes the goroutine of the loop. mu is held.
func (p *loop) rouse() {
	p.changed.Signal()
	if p.asleep {
		p.asleep = false
		p.set.wake()
	}
}

// end ends the loop, which has no followers any more.
func (p *loop) end() error {
	p.mu.Lock()
	p.ended = true
	p.changed.Broadcast()
	p.mu.Unlock()
	_ = p.group.Wait() // requests have the error of a panic
	return p.set.close()
}

func (p *loop) run(owner uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.ended || p.work {
		if len(p.active) == 0 && !p.work {
			p.changed.Wait()
			continue
		}
		wait, since := p.mayWait(), time.Now()
		if !p.single {
			since = since.Add(-quietTime)
		}
		p.work, p.asleep = false, wait > 0
		p.polled = append(p.polled[:0], p.active...)
		p.mu.Unlock()
		p.turn(wait)
		p.mu.Lock()
		p.release(since)
		if !p.commits(owner) {
			return
		}
	}
}

// mayWait returns how long the loop may wait in the system call. mu is held.
func (p *loop) mayWait() time.Duration {
	full := false
	for _, f := range p.active {
		if f.unserved() {
			return 0
		}
		full = full || f.full()
	}
	// With one processor the loop must not block in the system call, unless a follower is full:
	// then it can only wait for the results of that follower's requests.
	if p.work || p.single && !full {
		return 0
	}
	return loopTime
}

// turn waits until something has arrived, and has it handled.
func (p *loop) turn(wait time.Duration) {
	ready := p.set.wait(p.polled, wait)
	p.mu.Lock()
	p.asleep = false
	p.mu.Unlock()
	now := time.Now()
	if ready {
		p.pause.yield(now)
	}
	for i, f := range p.polled {
		if ready && p.set.ready(i) || f.unserved() {
			f.heard.Store(ticks(now))
			p.serve(f)
		}
	}
}

// release gives back the followers that have ended, or were not heard since some time. If the
// process has one processor, others wait for it without a thread for a request that is being worked
// on. mu is held.
func (p *loop) release(since time.Time) {
	kept := p.active[:0]
	for _, f := range p.active {
		if f.failed == nil && (f.heard.Load() >= ticks(since) || f.in.ready() || f.busy() && !p.single) {
			kept = append(kept, f)
			continue
		}
		f.quiet <- struct{}{}
	}
	clear(p.active[len(kept):])
	p.active = kept
}

// commits commits what has arrived. It is false if another goroutine serves in place of this one
// since: the commit took long. mu is held.
func (p *loop) commits(owner uint64) bool {
	p.committing = time.Now()
	p.mu.Unlock()
	p.commit()
	p.mu.Lock()
	if p.owner != owner {
		return false
	}
	p.committing = time.Time{}
	return true
}

// watch has another goroutine serve in place of one that commits for long, while there are
// followers.
func (p *loop) watch() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.ended && len(p.active) > 0 {
		p.mu.Unlock()
		time.Sleep(stallTime)
		p.mu.Lock()
		if since := p.committing; !since.IsZero() && time.Since(since) > stallTime && !p.ended {
			p.committing = time.Time{}
			p.owner++
			p.start(p.owner)
		}
	}
	p.watched = false
	return nil
}
