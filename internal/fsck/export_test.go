package fsck

import (
	"context"

	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// RepairOn is Repair with a hook for the files of the damaged database.
func RepairOn(ctx context.Context, src, dst string, opts engine.Options, hook vfs.Hook) (*RepairReport, error) {
	r := &repairer{ctx: ctx, hook: hook, report: &RepairReport{}}
	return r.report, r.run(src, dst, opts)
}

// CheckIDs is the part of a deep Check that follows the ids, with pages of a given size.
func CheckIDs(ctx context.Context, e *engine.Engine, page int) (*Report, error) {
	ver, err := e.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer e.Done(ver)
	c := &checker{engine: e, ctx: ctx, ver: ver, deep: true, report: &Report{}}
	for _, v := range ver.SortedViews() {
		if err := e.Guard(func() error { return c.ids(v, page) }); err != nil {
			return nil, err
		}
	}
	return c.report, nil
}
