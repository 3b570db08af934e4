package share

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/vecbolt/vecbolt/internal/engine"
)

// connected returns the two ends of a connection that holds few bytes.
func connected(t *testing.T) (a *socket, b *net.UnixConn) {
	at := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"}
	l, err := net.ListenUnix("unix", at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.DialUnix("unix", nil, at)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetWriteBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	if a, err = newSocket(conn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// TestQueue adds frames of all sizes from many goroutines, some of which may wait. They arrive
// whole and in the order in which they were added.
func TestQueue(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes cannot share databases here")
	}
	conn, other := connected(t)
	q := newQueue(conn)
	sent := make(chan error)
	go func() { sent <- q.send() }()
	const adders, each = 8, 500
	var (
		all   sync.WaitGroup
		mu    sync.Mutex
		order [][2]uint32 // number and size of each frame
	)
	for a := range adders {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(a)))
			for range each {
				size := 8 + rng.IntN(64)
				if rng.IntN(20) == 0 {
					size = rng.IntN(200 << 10)
				}
				frame := make([]byte, max(size, 8))
				mu.Lock()
				binary.LittleEndian.PutUint32(frame, uint32(len(order)))
				binary.LittleEndian.PutUint32(frame[4:], uint32(len(frame)))
				order = append(order, [2]uint32{uint32(len(order)), uint32(len(frame))})
				add := []func([]byte) bool{q.add, q.addLater, q.addSoon}[rng.IntN(3)]
				if !add(frame) {
					t.Error("refused")
				}
				mu.Unlock()
				q.flush(time.Now().Add(gatherTime))
			}
		})
	}
	go func() { // the last of addLater
		all.Wait()
		for q.flush(time.Now().Add(gatherTime)) > 0 {
			runtime.Gosched()
		}
	}()
	for i := range adders * each {
		var head [8]byte
		if _, err := io.ReadFull(other, head[:]); err != nil {
			t.Fatal(err)
		}
		number, size := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
		mu.Lock()
		want := order[i]
		mu.Unlock()
		if want != [2]uint32{number, size} {
			t.Fatalf("frame %d of %d bytes instead of %v", number, size, want)
		}
		if _, err := io.CopyN(io.Discard, other, int64(size)-8); err != nil {
			t.Fatal(err)
		}
	}
	all.Wait()
	q.addLater([]byte("last"))
	q.close()
	if q.add([]byte("late")) {
		t.Error("a closed queue takes a frame")
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if rest, err := io.ReadAll(other); err != nil || string(rest) != "last" {
		t.Fatalf("%q, %v", rest, err)
	}
}

// TestQueueLost: when the other side is gone, the sender ends and frames are refused.
func TestQueueLost(t *testing.T) {
	if !engine.CanShare {
		t.Skip("processes cannot share databases here")
	}
	conn, other := connected(t)
	q := newQueue(conn)
	other.Close()
	for q.add(make([]byte, 100)) && q.bytes == 0 { // until the socket has noticed
	}
	if err := q.send(); err == nil {
		t.Error("no error")
	}
	if q.add(nil) || q.addLater(nil) {
		t.Error("a queue whose connection has ended takes a frame")
	}
}
