//go:build linux || darwin

package db

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
)

var stops = flag.Int("stops", 6, "leading processes that TestProcessesStopped stops")

// TestProcessesStopped is TestProcessesKilled with a leader that is stopped until others have
// written documents, and goes on then: it must not write what the next leader does not have, nor
// remove what that one has, and follow it.
func TestProcessesStopped(t *testing.T) {
	disturbLeaders(t, 4, *stops, func(k *killed, w *worker, rng *rand.Rand) (again bool) {
		signal := func(s syscall.Signal) {
			t.Helper()
			if err := w.cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		signal(syscall.SIGSTOP)
		k.disturbed(start)
		wait := k.count("") + 20 + rng.IntN(300)
		k.await(t, func() bool { return k.count("") >= wait })
		if rng.IntN(4) == 0 {
			k.kill(t, w)
			return false
		}
		signal(syscall.SIGCONT)
		goes := k.count(w.name) + 5
		k.await(t, func() bool { return k.count(w.name) >= goes })
		return true
	})
}

// stopsItself runs the test in another process, with this environment, and waits until that process
// has stopped itself.
func stopsItself(t *testing.T, env string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), env)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatal(status, err)
	}
	return cmd
}

// TestStoppedWhileItDecides stops a follower while it decides what to write, for which all others
// wait. They go on without it, and it decides again when it goes on. Its snapshot stays as it was.
func TestStoppedWhileItDecides(t *testing.T) {
	bounded(t)
	if dir := os.Getenv("VECBOLT_DECIDES"); dir != "" {
		if err := stopAndDecide(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	ctx, dir := t.Context(), t.TempDir()
	vdb := open(t, dir, nil)
	c := collection(t, vdb, "c", Schema{})
	upsert(t, c, Document{ID: "before", Text: "first"})
	if err := vdb.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	cmd := stopsItself(t, "VECBOLT_DECIDES="+dir)
	if _, err := c.Insert(ctx, Document{ID: "beside"}); err != nil {
		t.Fatal(err)
	}
	for n := range 10 { // pages of meta.bolt are used again
		upsert(t, c, Document{ID: "before", Text: strings.Repeat(fmt.Sprint("later ", n), 1000)})
		if err := vdb.Flush(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if d, err := c.Get(ctx, "decided", WithText); err != nil || d.Text != "3 documents" {
		t.Fatal(d.Text, err)
	}
}

// stopAndDecide writes a document that tells how many there are with it. It stops itself in
// between.
func stopAndDecide(dir string) (err error) {
	vdb, err := Open(dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, vdb.Close()) }()
	snap, err := vdb.Snapshot()
	if err != nil {
		return err
	}
	defer func() {
		c, failed := snap.Collection("c")
		if failed == nil {
			var d *Document
			if d, failed = c.Get(context.Background(), "before", WithText); failed == nil && d.Text != "first" {
				failed = fmt.Errorf("the snapshot has %.20q", d.Text)
			}
		}
		err = errors.Join(err, failed, snap.Close())
	}()
	stopped, goes := false, make(chan os.Signal, 1)
	signal.Notify(goes, syscall.SIGCONT)
	_, err = vdb.engine.Exclusively(context.Background(), func(g *engine.Group) ([]engine.Op, error) {
		if !stopped {
			stopped = true
			if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
				return nil, err
			}
			<-goes // this thread need not be the first that stops
		}
		id := g.Base.Names["c"]
		doc := Document{ID: "decided", Text: fmt.Sprintf("%d documents", g.Base.Views[id].Count+1)}
		b, err := document.Append(nil, doc.stored())
		return []engine.Op{{Kind: engine.OpPut, Collection: "c", ID: doc.ID, Doc: b}}, err
	})
	return err
}

// TestKilledFollower: the leader keeps the roots of a process that is stopped, and no longer when
// it is killed, though another process reads the same file.
func TestKilledFollower(t *testing.T) {
	bounded(t)
	if dir := os.Getenv("VECBOLT_IS_KILLED"); dir != "" {
		if _, err := Open(dir, nil); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	dir := t.TempDir()
	leader, other := openBoth(t, dir)
	c := collection(t, leader, "c", Schema{})
	flush := func() {
		upsert(t, c, Document{ID: "a"})
		if err := errors.Join(leader.Flush(t.Context()), other.Barrier(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	flush()
	cmd := stopsItself(t, "VECBOLT_IS_KILLED="+dir)
	for range 3 {
		flush()
	}
	if n := storeOf(leader).Pinned(); n < 2 {
		t.Errorf("%d roots are pinned beside a process that is stopped", n)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	for storeOf(leader).Pinned() > 1 {
		runtime.Gosched()
	}
	flush()
	check(t, other)
}

// TestStoppedLeaderReads stops a leader while it does nothing, until another process has written.
// The first calls of the one that goes on see the write.
func TestStoppedLeaderReads(t *testing.T) {
	bounded(t)
	if dir := os.Getenv("VECBOLT_READS"); dir != "" {
		if err := stopAndRead(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	ctx, dir := t.Context(), t.TempDir()
	vdb := open(t, dir, nil)
	upsert(t, collection(t, vdb, "c", Schema{}), Document{ID: "before"})
	if err := vdb.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := stopsItself(t, "VECBOLT_READS="+dir)
	c := collection(t, open(t, dir, nil), "c", Schema{}) // takes the place of the leader
	upsert(t, c, Document{ID: "beside"})
	if _, err := c.Delete(ctx, "before"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// stopAndRead leads, stops its process, and reads what another one has written meanwhile.
func stopAndRead(dir string) (err error) {
	vdb, err := Open(dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, vdb.Close()) }()
	c, err := vdb.Collection("c")
	if err != nil {
		return err
	}
	if !vdb.engine.Leads() {
		return errors.New("this process does not lead")
	}
	goes := make(chan os.Signal, 1)
	signal.Notify(goes, syscall.SIGCONT)
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	<-goes // this thread need not be the first that stops
	const readers = 8
	found := make(chan error, readers)
	for range readers {
		go func() {
			_, err := c.Get(context.Background(), "beside", IDsOnly)
			if _, gone := c.Get(context.Background(), "before", IDsOnly); err == nil && !errors.Is(gone, ErrNotFound) {
				err = fmt.Errorf("a document that was deleted: %v", gone)
			}
			found <- err
		}()
	}
	for range readers {
		err = errors.Join(err, <-found)
	}
	return err
}
