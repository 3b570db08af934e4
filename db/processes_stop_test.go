//go:build linux || darwin

package db

import (
	"flag"
	"math/rand/v2"
	"syscall"
	"testing"
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
		signal(syscall.SIGSTOP)
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
