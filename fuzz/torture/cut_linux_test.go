package torture

import (
	"context"
	"math/rand/v2"
	"os"
	"testing"
)

// TestCutsOutOfTime: when the time is over while a file system is made, no mount and no image stay
// behind.
func TestCutsOutOfTime(t *testing.T) {
	for i := range realFSs {
		fs := &realFSs[i]
		t.Run(fs.name, func(t *testing.T) {
			if err := fs.available(); err != nil {
				t.Skip(err)
			}
			dir := t.TempDir()
			r := &run{dir: dir, report: Report{FaultKinds: map[string]int{}, Cuts: map[string]int{}}}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := r.cutDatabase(ctx, fs, rand.New(rand.NewPCG(1, 1)), func() bool { return false }); err != nil {
				t.Log(err) // the time is over, or nothing can be mounted here
			}
			left, err := os.ReadDir(dir)
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
