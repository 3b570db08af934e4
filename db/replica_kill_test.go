package db

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestReplicaKill kills processes that write and publish, and processes that follow
// them, and starts them again. Batch i of the writer puts document i, and i into
// document "n", of two collections, so that a reader can tell whole versions.
func TestReplicaKill(t *testing.T) {
	dir, folder := os.Getenv("VECBOLT_PUBLISH_FROM"), os.Getenv("VECBOLT_PUBLISH_TO")
	switch {
	case dir != "":
		publishUntilKilled(dir, folder)
	case folder != "":
		followUntilKilled(folder)
	default:
		replicaKill(t)
	}
}

func replicaKill(t *testing.T) {
	dir, folder := filepath.Join(t.TempDir(), "db"), filepath.Join(t.TempDir(), "published")
	rng := rand.New(rand.NewPCG(3, 4))
	start := func(env ...string) (*exec.Cmd, *bufio.Scanner) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestReplicaKill$")
		cmd.Env = append(append(os.Environ(), "VECBOLT_PUBLISH_TO="+folder), env...)
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd, bufio.NewScanner(out)
	}
	number := func(lines *bufio.Scanner, before string) int {
		t.Helper()
		if !lines.Scan() {
			t.Fatal("a process ended by itself")
		}
		n, err := strconv.Atoi(strings.TrimPrefix(lines.Text(), before+" "))
		if err != nil {
			t.Fatalf("a process says %q", lines.Text())
		}
		return n
	}
	kill := func(cmd *exec.Cmd, lines *bufio.Scanner) {
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
		}
		_ = cmd.Wait()
	}
	published := 0
	rounds := max(1, *kills/8)
	for range rounds {
		writer, written := start("VECBOLT_PUBLISH_FROM=" + dir)
		published = max(published, number(written, "published"))
		follower, followed := start()
		if seen := number(followed, "state"); seen < published {
			t.Errorf("a follower that starts sees batch %d, published is %d", seen, published)
		}
		last := 0
		for range 3 + rng.IntN(12) {
			published = number(written, "published")
			for seen := 0; seen < published; {
				if seen = number(followed, "state"); seen < last {
					t.Fatalf("state %d after %d", seen, last)
				}
				last = seen
			}
		}
		kill(writer, written) // wherever it is by now
		kill(follower, followed)
		before := snapshotDir(t, folder)
		replica := open(t, folder, &Options{ReadOnly: true, Follow: byHand})
		n, err := wholeState(replica)
		if err != nil || n < published {
			t.Fatalf("state %d, %v; published is %d", n, err, published)
		}
		check(t, replica)
		if err := replica.Close(); err != nil {
			t.Fatal(err)
		}
		for name, content := range snapshotDir(t, folder) {
			if before[name] != content {
				t.Errorf("a reader changed %s", name)
			}
			delete(before, name)
		}
		if len(before) > 0 {
			t.Errorf("a reader removed %d files", len(before))
		}
	}
	t.Logf("%d kills, %d batches", 2*rounds, published)
}

// wholeState returns the last batch in the database, or describes an inconsistency.
func wholeState(vdb *DB) (int, error) {
	ctx := context.Background()
	snap, err := vdb.Snapshot()
	if err != nil {
		return 0, err
	}
	defer snap.Close()
	last := -1
	for _, name := range []string{"a", "b"} {
		c, err := snap.Collection(name)
		if err != nil {
			return 0, err
		}
		d, err := c.Get(ctx, "n", Everything)
		if err != nil {
			return 0, err
		}
		n, _ := d.Metadata["n"].(int64)
		if last >= 0 && int(n) != last || must(c.Info()).Documents != int(n)+1 {
			return 0, fmt.Errorf("collection %s is of batch %d with %d documents, another of %d", name, n, must(c.Info()).Documents, last)
		}
		last = int(n)
		res, err := c.Search(ctx, Query{Near: Vector{float32(n), 1}, K: must(c.Info()).Documents})
		if err != nil {
			return 0, err
		}
		if len(res.Hits) != must(c.Info()).Documents {
			return 0, fmt.Errorf("batch %d: %d hits", n, len(res.Hits))
		}
	}
	return last, nil
}

func publishUntilKilled(dir, folder string) {
	fail := func(err error) {
		if err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
	}
	ctx := context.Background()
	vdb, err := Open(dir, &Options{HeadSize: 4000, tests: testOptions{codedBytes: 1}, Sync: SyncNever})
	fail(err)
	p, err := vdb.NewPublisher(folder, &PublishOptions{Keep: 1000}) // so that a reader that is slow finds its files
	fail(err)
	n := 0
	for _, name := range []string{"a", "b"} {
		c, err := vdb.OpenCollection(ctx, name, Schema{Dim: 2})
		fail(err)
		if d, err := c.Get(ctx, "n", Everything); err == nil {
			at, _ := d.Metadata["n"].(int64)
			n = int(at)
		} else if !errors.Is(err, ErrNotFound) {
			fail(err)
		}
	}
	for {
		n++
		var b Batch
		for _, name := range []string{"a", "b"} {
			b.Upsert(name, Document{ID: fmt.Sprint(n), Vector: []float32{float32(n), 2}})
			b.Upsert(name, Document{ID: "n", Vector: []float32{1, float32(n)}, Metadata: Metadata{"n": int64(n)}})
		}
		fail(vdb.Apply(ctx, &b))
		if n%3 == 0 {
			_, err := p.Publish(ctx)
			fail(err)
			fmt.Println("published", n)
		}
	}
}

func followUntilKilled(folder string) {
	vdb, err := Open(folder, &Options{ReadOnly: true, Follow: time.Millisecond})
	for err == nil {
		var n int
		if n, err = wholeState(vdb); err == nil {
			fmt.Println("state", n)
		}
	}
	fmt.Println("error:", err)
	os.Exit(1)
}

// TestRefreshBesideReaders has readers at work while versions come and go.
func TestRefreshBesideReaders(t *testing.T) {
	vdb := open(t, t.TempDir(), &Options{tests: testOptions{codedBytes: 1}, HeadSize: 4000})
	folder := t.TempDir()
	p := publisher(t, vdb, folder, &PublishOptions{Keep: 2})
	write := func(n int) {
		var b Batch
		for _, name := range []string{"a", "b"} {
			b.Upsert(name, Document{ID: fmt.Sprint(n), Vector: []float32{float32(n), 2}})
			b.Upsert(name, Document{ID: "n", Vector: []float32{1, float32(n)}, Metadata: Metadata{"n": int64(n)}})
		}
		if err := vdb.Apply(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b"} {
		collection(t, vdb, name, Schema{Dim: 2})
	}
	write(1)
	publish(t, p)
	replica := open(t, folder, &Options{ReadOnly: true, Follow: time.Millisecond, tests: testOptions{codedBytes: 1}})
	stop := make(chan struct{})
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() {
			for last := 0; ; {
				select {
				case <-stop:
					return
				default:
				}
				n, err := wholeState(replica)
				if err != nil || n < last {
					t.Errorf("state %d after %d: %v", n, last, err)
					return
				}
				last = n
			}
		})
	}
	for n := 2; n <= 30; n++ {
		write(n)
		if n%10 == 0 {
			if err := vdb.Compact(t.Context()); err != nil {
				t.Error(err)
			}
		}
		publish(t, p)
		if _, err := replica.Refresh(t.Context()); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wait.Wait()
	if n, err := wholeState(replica); n != 30 || err != nil {
		t.Errorf("state %d, %v", n, err)
	}
	if v := must(replica.Stats()).Versions; v != 1 {
		t.Errorf("%d versions are open", v)
	}
}
