package torture

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"
)

var (
	states   = flag.Int("torture.states", 1000, "crash states that TestTorture looks at")
	kills    = flag.Int("torture.kills", 10, "processes that TestTorture kills")
	faults   = flag.Int("torture.faults", 50, "operations that TestTorture lets fail")
	ext4     = flag.Int("torture.ext4", 4, "power cuts of TestTorture on ext4")
	xfs      = flag.Int("torture.xfs", 2, "power cuts of TestTorture on XFS")
	keepDir  = flag.String("torture.dir", "", "directory in which TestTorture works and keeps violations; empty: a new one")
	first    = flag.Bool("torture.first", false, "TestTorture ends at the first violation")
	seed     = flag.Uint64("torture.seed", 1, "seed of TestTorture")
	only     = flag.String("torture.profiles", "", "profiles of TestTorture, separated by commas; all when empty")
	duration = flag.Duration("torture.duration", 0, "limit of TestTorture; 0 for none")
)

func TestMain(m *testing.M) {
	if Child() {
		return
	}
	os.Exit(m.Run())
}

// testLog writes to the log of a test.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

func TestTorture(t *testing.T) {
	dir := *keepDir
	if dir == "" {
		var err error
		if dir, err = scratch(os.TempDir()); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{States: *states, Kills: *kills, Faults: *faults, Ext4Cuts: *ext4, XFSCuts: *xfs, Seed: *seed, Duration: *duration, Log: testLog{t}, FailFast: *first}
	if *only != "" {
		o.Profiles = strings.Split(*only, ",")
	}
	report, err := Run(t.Context(), dir, o)
	t.Logf("%d crash states (%d of them during recovery, %d operations recorded), %d kills, %d faults, %d violations, %v",
		report.CrashStates, report.Recoveries, report.Recorded, report.Kills, report.Faults, report.Violations,
		time.Duration(report.Seconds*float64(time.Second)).Round(time.Millisecond))
	t.Logf("faults: %v; power cuts: %v", report.FaultKinds, report.Cuts)
	if err != nil {
		t.Fatal(err)
	}
	if report.Violations > 0 {
		t.Fatalf("%d violations, kept in %s", report.Violations, dir)
	}
	if *keepDir == "" {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}
