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
