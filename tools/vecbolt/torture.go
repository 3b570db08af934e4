package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/vecbolt/vecbolt/fuzz/torture"
)

type tortureCmd struct {
	Dir      string        `arg:"" help:"Directory to work in, on the disk to test; created if missing."`
	Duration time.Duration `default:"1m" help:"Duration of the test."`
	Seed     uint64        `default:"1" help:"Seed of the workloads."`
}

func (tortureCmd) Help() string {
	return "Cuts the power at every operation of many workloads, with every failure mode of unsynced " +
		"data; makes operations fail; cuts the power of an ext4 and an XFS; kills processes. Compares the database afterwards " +
		"with the acknowledged writes. Crash states and faults need Linux, root and /dev/fuse, power cuts loop devices, " +
		"mkfs.ext4 and mkfs.xfs: unavailable tests are skipped and listed. States that violate a guarantee are kept in DIR, and the exit " +
		"status is then 1."
}

// Validate is called by kong.
func (c *tortureCmd) Validate() error {
	if c.Duration <= 0 {
		return fmt.Errorf("--duration %v: not positive", c.Duration)
	}
	return nil
}

func (c *tortureCmd) Run(ctx context.Context, t *tool) error {
	if torture.Child() {
		return nil
	}
	err := os.Mkdir(c.Dir, 0o700)
	if made := err == nil; made {
		defer os.Remove(c.Dir) // fails if a violation was kept there
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	r, err := torture.Run(ctx, c.Dir, torture.Options{
		Duration: c.Duration, Seed: c.Seed, Log: t.report,
		Args: []string{"torture", c.Dir},
	})
	if err != nil {
		return err
	}
	cuts := 0
	for _, n := range r.Cuts {
		cuts += n
	}
	err = t.answer(r, "%s crash states, %s faults, %s kills, %s power cuts: %d violations in %.0f s",
		humanize.Comma(int64(r.CrashStates)), humanize.Comma(int64(r.Faults)),
		humanize.Comma(int64(r.Kills)), humanize.Comma(int64(cuts)),
		r.Violations, r.Seconds)
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	if r.Violations > 0 {
		return errReported
	}
	return nil
}
