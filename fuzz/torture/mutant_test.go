package torture

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	mutantsFlag  = flag.String("torture.mutants", "", "regular expression: mutants that TestMutants builds and tortures")
	smallestFlag = flag.Int("torture.smallest", 0, "crash states that TestSmallest looks at")
)

// A mutant is a bug: a replacement in a file, or one more where two layers guard against the same.
// It is built with go test -overlay, so that the engine itself knows nothing of it.
//
// TestTorture must notice it, or, if run names a test, that one. A line of the table is all that a
// new one needs:
//
//	{name: "what-is-wrong", file: "db/x.go", old: "right", new: "wrong", pkg: "db", run: "TestThatFails"},
type mutant struct {
	name     string
	file     string // below the root of the module
	old, new string // old occurs once
	profiles string // where it shows soonest; all when empty; or fault, full, ext4: where else
	pkg      string // with run: directory of the test, below the root of the module; this one when empty
	run      string // a test that must fail, or several with | between them: then nothing is tortured
	args     string // with run: flags of the test, separated by spaces
	also     *mutant
}

// notPoisoned lets a file be written to after a failed write or sync.
var notPoisoned = &mutant{file: "internal/vfs/vfs.go", old: "f.poisoned.CompareAndSwap(nil, &err)", new: "_ = err"}

// smallest gives segments of any size every derived file, and uses them. It is no bug: see
// TestSmallest.
var smallest = &mutant{file: "internal/engine/graph.go", old: "const GraphSize = 3_000_000", new: "const GraphSize = 1",
	also: &mutant{file: "internal/nearest/graph.go", old: "dear := cost > scan && !s.GraphAlways", new: "dear := false",
		also: &mutant{file: "internal/engine/codes.go", old: "const CodedBytes = 1 << 20", new: "const CodedBytes = 1"}}}

// mutants are what TestTorture must notice.
var mutants = []mutant{
	{name: "log-not-synced", file: "wal/log.go",
		old: "if err := l.f.Sync(); err != nil {", new: "if err := error(nil); err != nil {"},
	{name: "log-not-synced-on-ext4", file: "wal/log.go",
		old: "if err := l.f.Sync(); err != nil {", new: "if err := error(nil); err != nil {", profiles: "ext4"},
	{name: "no-name-synced-on-ext4", file: "internal/vfs/vfs.go",
		old: "tried, err = f.in().sync(name)", new: "tried = false", profiles: "ext4"},
	{name: "log-synced-only-on-rotation", file: "internal/engine/commit.go",
		old: "err == nil && (e.Opts.SyncAlways || strict)", new: "err == nil && (e.Opts.SyncEvery > 0 || strict)"},
	{name: "follower-not-synced", file: "internal/engine/commit.go", pkg: "db", run: "TestSyncForAFollower",
		old: "(e.Opts.SyncAlways || strict)", new: "e.Opts.SyncAlways"},
	{name: "follower-write-not-synced", file: "internal/share/leader.go", pkg: "internal/share",
		run: "TestFollowerIsSynced",
		old: "m.Ops, m.Size, f.sync, func", new: "m.Ops, m.Size, false, func"},
	{name: "follower-decision-not-synced", file: "internal/share/leader.go", pkg: "internal/share",
		run: "TestFollowerIsSynced",
		old: "ExclusivelyFor(ctx, id, f.sync,", new: "ExclusivelyFor(ctx, id, false,"},
	{name: "leader-ignores-the-policy-of-followers", file: "internal/share/leader.go", profiles: "policies",
		old: "f.sync = hello.SyncWithin < s.engine.Opts.SyncWithin()", new: "f.sync = false"},
	{name: "leader-without-a-policy-of-its-own", file: "internal/engine/commit.go", profiles: "policies,policies-interval",
		old: "(e.Opts.SyncAlways || strict)", new: "strict"},
	{name: "follower-hides-its-policy", file: "internal/share/follower.go", profiles: "policies,policies-interval",
		old: "SyncWithin: m.opts.SyncWithin()})", new: "SyncWithin: engine.NeverSynced})"},
	{name: "records-sent-before-the-sync", file: "internal/engine/commit.go", profiles: "policies",
		old: "\tif err == nil && (e.Opts.SyncAlways || strict) {\n",
		new: "\tvar early [][]byte\n\tfor _, r := range requests {\n\t\tif r.err == nil && len(r.ops) > 0 {\n" +
			"\t\t\tearly = append(early, replacedBy(r.ops))\n\t\t}\n\t}\n\tif o := e.observer(); o != nil && err == nil {\n" +
			"\t\to.Committed(last+1-uint64(len(records)), records, early)\n\t}\n\tif err == nil && (e.Opts.SyncAlways || strict) {\n",
		also: &mutant{file: "internal/engine/commit.go", old: "\t\to.Committed(last+1-uint64(len(records)), records, replaced)\n",
			new: "\t\t_ = replaced\n"}},
	{name: "log-name-not-synced", file: "wal/log.go",
		old: "\t\terr = fsys.SyncDir(dir)\n", new: "\t\terr = nil\n"},
	{name: "new-log-file-not-synced", file: "wal/log.go",
		old: "\treturn raw, f.Sync()\n", new: "\treturn raw, nil\n"},
	{name: "recycled-header-not-synced", file: "wal/log.go",
		old: "\tif _, err := f.WriteAt(h.encode(), 0); err != nil {\n\t\treturn err\n\t}\n\treturn f.Sync()",
		new: "\tif _, err := f.WriteAt(h.encode(), 0); err != nil {\n\t\treturn err\n\t}\n\treturn nil", profiles: "flushes,updates,deletes"},
	{name: "recycled-before-its-old-name-is-gone", file: "wal/log.go",
		old: "\tif err := l.o.FS.SyncDir(dir); err != nil {\n\t\treturn err\n\t}\n", new: "", profiles: "flushes,updates,deletes"},
	{name: "log-released-early", file: "wal/log.go",
		old: "l.files[0].Last <= upTo {", new: "l.files[0].Last <= upTo+8 {"},
	{name: "rotation-without-sync", file: "wal/log.go",
		old: "\tif err := l.sync(); err != nil {\n\t\treturn err\n\t}\n\tl.f.DropCache()", new: "\tl.f.DropCache()", profiles: "unsynced"},
	{name: "log-record-checksum-not-compared", file: "wal/replay.go",
		old: "if codec.Update(r.salt, payload) != h.payload {", new: "if codec.Update(r.salt, payload) != h.payload && h.length == 0 {"},
	{name: "torn-tail-revived", file: "wal/replay.go",
		old: "\t\tr.end = next.base\n", new: "\t\tr.end = math.MaxUint64\n", profiles: "unsynced,writers,batches"},
	{name: "log-replayed-from-the-start", file: "internal/engine/open.go",
		old: "return wal.Replay(o, e.state.Applied, e.replay)", new: "return wal.Replay(o, 0, e.replay)"},
	{name: "log-generation-not-kept", file: "internal/engine/generation.go",
		old: "log.Release(before.Applied)", new: "log.Release(e.state.Applied)"},
	{name: "segment-generation-not-kept", file: "internal/engine/generation.go",
		old: "\tfor _, id := range kept {\n\t\tif !e.inUse(id) {", new: "\tfor _, id := range slices.Clone(e.state.Obsolete) {\n\t\tif true {", profiles: "compaction,mixed,background"},
	{name: "second-commit-of-settle-left-out", file: "internal/engine/generation.go",
		old: "\treturn e.commitMeta(nil, func(tx *meta.Tx) error {\n\t\toldest := e.oldest()",
		new: "\tif log := e.log.Load(); log != nil {\n\t\treturn log.Release(e.state.Applied)\n\t}\n\treturn e.commitMeta(nil, func(tx *meta.Tx) error {\n\t\toldest := e.oldest()"},
	{name: "segment-not-synced", file: "segment/writer.go",
		old: "if err := w.file.Sync(); err != nil {", new: "if err := error(nil); err != nil {"},
	{name: "segment-names-not-synced", file: "internal/vfs/vfs.go",
		old: "tried, err = f.in().sync(name)", new: "if name != \"seg\" {\n\t\t\ttried, err = f.root.sync(name)\n\t\t}"},
	{name: "no-name-synced", file: "internal/vfs/vfs.go",
		old: "tried, err = f.in().sync(name)", new: "tried = false"},
	{name: "dead-rows-not-recorded", file: "internal/engine/flush.go",
		old: "for _, chunk := range dead.Changed(s.dead) {", new: "for range 0 {\n\t\t\t\tchunk := 0"},
	{name: "deletes-not-recorded", file: "internal/engine/flush.go",
		old: "\t\t\terr = tx.DeleteID(coll, id)\n", new: "\t\t\terr = nil\n"},
	{name: "replaced-documents-stay", file: "internal/engine/flush.go",
		old: "\t\t\terr = tx.DeleteDocument(coll, replaced)\n", new: "\t\t\terr = nil\n"},
	{name: "flushed-batch-not-recorded", file: "internal/engine/generation.go",
		old: "e.state.Applied, e.state.NextDoc = v.LSN, v.nextNum", new: "e.state.NextDoc = v.nextNum"},
	{name: "next-docnum-not-recorded", file: "internal/engine/generation.go",
		old: "e.state.Applied, e.state.NextDoc = v.LSN, v.nextNum", new: "e.state.Applied = v.LSN"},
	{name: "next-collection-not-recorded", file: "internal/engine/generation.go",
		old: "\t\t\te.state.NextCollection = e.nextCollection()\n", new: "", profiles: "collections"},
	{name: "root-names-not-synced", file: "internal/vfs/vfs.go",
		old: "tried, err = f.in().sync(name)", new: "if name != \".\" {\n\t\t\ttried, err = f.root.sync(name)\n\t\t}"},
	{name: "database-directory-not-synced", file: "internal/vfs/makedir.go",
		old: `if err = f.SyncDir("."); err != nil {`, new: "if err != nil {"},
	{name: "one-root-at-creation", file: "internal/meta/store.go",
		old: "\treturn s.transact(true, func(*bbolt.Tx) error { return nil })\n", new: "\treturn nil\n"},
	{name: "torn-root-not-restored", file: "internal/engine/open.go",
		old: " || e.store.Torn() || unclean {", new: " {", profiles: "reopen,mixed,compaction"},
	{name: "meta-never-synced", file: "internal/meta/store.go",
		old: "\tbolt.AllocSize = growBy\n", new: "\tbolt.AllocSize = growBy\n\tbolt.NoSync = true\n"},
	{name: "rewrite-not-synced", file: "internal/meta/rewrite.go",
		old: "\tif err := f.Sync(); err != nil {\n\t\treturn err\n\t}\n\treturn check(f, tmp)\n}\n\n// copyRecords", new: "\treturn check(f, tmp)\n}\n\n// copyRecords", profiles: "rewrite"},
	{name: "rewrite-name-not-synced", file: "internal/meta/rewrite.go",
		old: "synced = s.fs.SyncDir(path.Dir(s.name))", new: "synced = nil", profiles: "rewrite"},
	{name: "backup-segment-not-synced", file: "internal/engine/files.go",
		old: "\treturn out.Sync()\n", new: "\treturn nil\n", profiles: "backup"},
	{name: "backup-segment-names-not-synced", file: "internal/replica/backup.go",
		old: "if err := to.SyncDir(engine.SegDir); err != nil {", new: "if err := error(nil); err != nil {", profiles: "backup"},
	{name: "backup-directories-not-synced", file: "internal/vfs/vfs.go", // with meta.sums
		old: "\treturn f.SyncDir(path.Dir(name))\n", new: "\treturn nil\n", profiles: "backup"},
	{name: "backup-first-name-not-synced", file: "internal/replica/backup.go",
		old: "\tif err := to.SyncDir(\".\"); err != nil {\n\t\treturn err\n\t}\n", new: "", profiles: "backup"},
	{name: "backup-of-changed-log-fails", file: "internal/replica/backup.go",
		old: "if unsure == nil && !(alone && newest) {", new: "if unsure == nil && alone && !newest {", pkg: "db", run: "TestBackupBesideWritersThatCome"},
	{name: "backup-first-name-not-refused", file: "internal/engine/open.go",
		old: "if slices.Contains(names, Unfinished) {", new: "if false {", profiles: "backup"},
	{name: "backup-without-flush", file: "internal/share/follower.go",
		old: "err = m.engine.Flush()\n", new: "err = nil\n", profiles: "backup"},
	{name: "failed-log-not-noted", file: "wal/log.go",
		old: "\t\tl.err = fmt.Errorf(\"wal: append: %w\", err)\n\t\treturn 0, l.err\n", new: "\t\treturn 0, fmt.Errorf(\"wal: append: %w\", err)\n", profiles: "fault", also: notPoisoned},
	{name: "failed-sync-tried-again", file: "wal/log.go",
		old: "\t\tl.err = fmt.Errorf(\"wal: sync: %w\", err)\n\t\treturn l.err\n", new: "\t\treturn l.f.Sync()\n", profiles: "fault", also: notPoisoned},
	{name: "derived-file-not-synced", file: "internal/engine/derived.go",
		old: "\t\terr = f.Sync()\n", new: "\t\terr = nil\n", profiles: "flushes,updates,deletes"},
	{name: "full-disk-collections-not-put-back", file: "internal/engine/generation.go",
		old: "e.state, e.segments, e.stored = before, segments, stored", new: "_, e.state, e.segments = stored, before, segments", profiles: "full"},
	{name: "full-disk-and-old-memory", file: "internal/meta/store.go",
		old: "return s.close() == nil && s.open() == nil", new: "return true", profiles: "fault-rewrite"},
	{name: "failed-commit-not-noted", file: "internal/engine/generation.go",
		old: "\t\treturn e.Fail(err)\n\t}\n\te.commits++", new: "\t\treturn nil\n\t}\n\te.commits++", profiles: "fault"},
	{name: "graph-row-wrong", file: "internal/nearest/graph.go",
		old: "Row: int32(row)}", new: "Row: 0}", profiles: "compaction,mixed", also: smallest},
	{name: "graph-of-one-row", file: "internal/engine/graph.go",
		old: "_, err := graph.Write(ctx, w, s.CodesIdent(), s.Rows, opts)", new: "_, err := graph.Write(ctx, w, s.CodesIdent(), func(lo, hi int) ([]float32, error) { return make([]float32, (hi-lo)*s.Info.Dim), nil }, opts)", profiles: "compaction,mixed", also: smallest},
	{name: "published-before-synced", file: "internal/engine/commit.go", run: "TestStalledSync",
		old: "\t\terr = log.Sync()\n\t}\n\tif fenced",
		new: "\t\tfor _, r := range requests {\n\t\t\tif r.err == nil {\n\t\t\t\tg.apply(r.ops)\n\t\t\t}\n\t\t}\n\t\tg.publish(last)\n\t\tif err = log.Sync(); err == nil {\n\t\t\treturn nil\n\t\t}\n\t}\n\tif fenced"},
	{name: "log-groups-not-aligned-to-blocks", file: "wal/format.go", profiles: "puts,batches,updates",
		old: "groupAlign = 4096", new: "groupAlign = 8"},
	{name: "open-sweeps-what-the-older-root-needs", file: "internal/engine/leftovers.go", pkg: "db",
		run: "TestOlderRootAfterOpen", old: " && !slices.Contains(l.state.Obsolete, id)", new: ""},
	{name: "unclean-end-not-committed", file: "internal/engine/open.go", pkg: "db", run: "TestUncleanEndIsCommitted",
		old: "|| e.store.Torn() || unclean {", new: "|| e.store.Torn() {"},
	{name: "rewrite-leaves-one-root", file: "internal/meta/rewrite.go", pkg: "internal/meta", run: "TestRewriteLeavesTwoRoots",
		old: "err = to.Update(func(*bbolt.Tx) error { return nil })", new: "err = nil"},
	{name: "copy-with-roots-in-wrong-pages", file: "internal/meta/rewrite.go", pkg: "internal/meta", run: "TestCopyPlacesRoots",
		old: "%2 == 0 {\n\t\treturn nil", new: "%2 < 2 {\n\t\treturn nil"},
	{name: "publish-does-not-sync-the-log", file: "internal/replica/publish.go", pkg: "db", run: "TestPublishSyncsTheLog",
		old: "if err := e.SyncLog(); err != nil {", new: "if err := error(nil); err != nil {"},
	{name: "published-version-chosen-after-the-sync", file: "internal/replica/publish.go", pkg: "db", run: "TestPublishSyncsTheLog",
		old: "\tp.ver = e.Current()\n\t// A", new: "\t// A",
		also: &mutant{file: "internal/replica/publish.go", old: "\tp.m.Batch = p.ver.LSN\n", new: "\tp.ver = e.Current()\n\tp.m.Batch = p.ver.LSN\n"}},
	{name: "flush-in-doubt-discards-segments", file: "internal/engine/flush.go", pkg: "db", run: "TestFlushInDoubtKeepsSegments",
		old: "if e.Err() == nil { // nothing", new: "if true { // nothing"},
	{name: "compaction-forgets-deletes", file: "internal/engine/compact.go", pkg: "db", run: "TestCompactionKeepsDeletes",
		old: "dead = carryOver(dead, v, v.OpenSegment.dead, fresh)", new: "_ = v"},
	{name: "compaction-forgets-unflushed-deletes", file: "internal/engine/compact.go", pkg: "db", run: "TestCompactionKeepsDeletes",
		old: "dead = carryOver(dead, victim, p.Dead, fresh)", new: "_ = victim"},
	{name: "failed-directory-synced-again", file: "internal/vfs/vfs.go", profiles: "fault",
		old: "f.failed = append(f.failed, failedDir{name, err})", new: "_ = failedDir{name, err}"},
	{name: "failed-directory-not-noted", file: "internal/engine/engine.go", pkg: "db", run: "TestFailedDirectorySync",
		old: "if err := e.FS.Failed(); err != nil {", new: "if err := error(nil); err != nil {"},
	{name: "goroutine-not-guarded", file: "internal/vfs/group.go", pkg: "segment/graph",
		run: "TestVectorsAreCutWhileBuilding",
		old: "err = Catch(name, fn)", new: "err = fn()"},
	{name: "leader-keeps-the-lead", file: "internal/engine/commit.go", pkg: "db",
		run: "TestLeaderPanics", args: "-test.timeout=90s",
		old: "\tdefer e.handOver(r, group) //", new: "\t//",
		also: &mutant{file: "internal/engine/commit.go", old: "\te.commitGroup(group)\n",
			new: "\te.commitGroup(group)\n\te.handOver(r, group)\n"}},
	{name: "derived-file-not-guarded", file: "internal/engine/derived.go", pkg: "db",
		run: "TestVectorsAreCutWhileFilesAreMade",
		old: "err = vfs.Catch(d.Name, func() error { return write(f) })", new: "err = write(f)"},
	{name: "period-of-syncs-not-checked", file: "db/options.go", pkg: "db",
		run: "TestOptionsAreValidated",
		old: "\t\twithin(\"SyncEvery\", o.SyncEvery, 0, maxSyncEvery),\n", new: ""},
	{name: "pipes-waited-for", file: "internal/vfs/regular.go", pkg: "internal/vfs",
		run: "TestOnlyRegularFiles", args: "-test.timeout=60s",
		old: "flag|nonBlock, perm", new: "flag, perm"},
	{name: "group-second-round-free", file: "internal/query/group.go", pkg: "db",
		run: "TestGroupCountsEverySearch",
		old: "q.Ledger.Add(p.Ledger)", new: "_ = p"},
	{name: "convex-no-bound", file: "internal/fusion/bound.go", pkg: "internal/fusion",
		run: "TestFuseIsBruteForce",
		old: "if !f.whole() {", new: "if false {"},
	{name: "fusion-allows-ties", file: "internal/fusion/bound.go", pkg: "internal/fusion",
		run: "TestFuseIsBruteForce",
		old: "d.most < bar)", new: "d.most <= bar)"},
	{name: "ledger-forgets-walks", file: "internal/nearest/ledger.go", pkg: "db",
		run: "TestExactIsBruteForce|TestComplete",
		old: "l.Approximate = l.Approximate || part.Approximate", new: "l.Approximate = part.Approximate"},
	{name: "complete-always", file: "internal/nearest/ledger.go", pkg: "db",
		run: "TestExactIsBruteForce|TestComplete",
		old: "return !l.Approximate || found >= wanted", new: "return true"},
	{name: "seed-by-number", file: "internal/engine/graph.go", pkg: "db",
		run: "TestEqualGraphs",
		old: "graph.Options{Workers: e.Opts.Workers, ", new: "graph.Options{Workers: e.Opts.Workers, Seed: s.Info.ID, "},
	{name: "recall-with-tolerance", file: "internal/nearest/tally.go", pkg: "db",
		run: "TestMeasureRecallOfNearScores",
		old: "worst := truth[len(truth)-1].Score", new: "worst := truth[len(truth)-1].Score; worst -= 4e-6 * max(worst, -worst)"},
	{name: "calibration-with-tolerance", file: "segment/graph/trial.go", pkg: "segment/graph",
		run: "TestCalibrationByScores",
		old: "known && t.truth[at].score == least", new: "known && t.truth[at].score >= least+4e-6*least"},
	{name: "beaten-levels-confirmed", file: "segment/graph/levels/choose.go", pkg: "segment/graph/levels",
		run: "TestToConfirm",
		old: "if i == 0 || !dear {", new: "if i >= 0 || !dear {"},
	{name: "groups-of-rows-unnoticed", file: "segment/graph/stages.go", pkg: "segment/graph",
		run: "TestStages",
		old: "(s.Spread == 0 || q.spread(buf) >= s.Spread)", new: "true"},
	{name: "groups-of-rows-unnoticed-under-a-filter", file: "segment/graph/stages.go", pkg: "segment/graph",
		run: "TestBetweenSmallGroups",
		old: "if q.spread(buf) < s.Spread {", new: "if false {"},
	{name: "queries-beyond-the-rows-unnoticed", file: "segment/graph/stages.go", pkg: "segment/graph",
		run: "TestBeyondTheRows",
		old: "return !out, err", new: "return out || !out, err"},
	{name: "queries-beyond-the-rows-unnoticed-in-one-stage", file: "segment/graph/stages.go", pkg: "segment/graph",
		run: "TestBeyondTheRows",
		old: "return q.outlying(buf)", new: "return false, nil"},
	{name: "rows-equal-but-for-rounding-differ", file: "segment/graph/extent.go", pkg: "segment/graph",
		run: "TestExtents",
		old: "if !(variance > rounding*square) {", new: "if square < 0 {"},
	{name: "far-queries-unnoticed-under-a-filter", file: "segment/graph/stages.go", pkg: "segment/graph",
		run: "TestStages",
		old: "return !easy, err", new: "return false, err"},
	{name: "first-pass-of-a-scan-suffices", file: "segment/graph/sketch.go", pkg: "segment/graph",
		run: "TestScanForManyResults",
		old: "b.stats.Sketched = sketched // the", new: "return nil // the",
		also: &mutant{file: "segment/graph/sketch.go", old: "sketched := b.stats.Sketched\n", new: "\n"}},
	{name: "likely-distance-is-a-bound", file: "segment/graph/sketch.go", pkg: "segment/graph",
		run: "TestScanForManyResults",
		old: "return q.readPassing(k, table, math.MaxFloat32, q", new: "return q.readPassing(k, table, likely, q"},
	{name: "scan-without-a-first-pass", file: "segment/graph/sketch.go", pkg: "segment/graph",
		run: "TestScanForManyResults",
		old: "if likely < b.lastScored(k) {", new: "if false {"},
	{name: "levels-without-spread", file: "segment/graph/levels/stages.go", pkg: "segment/graph",
		run: "TestStagedLevels",
		old: " || s.Spread < l.Spread", new: ""},
	{name: "bounds-on-the-distance-beyond-doubt", file: "segment/graph/levels/stages.go", pkg: "segment/graph/levels",
		run: "TestDistanceInDoubt",
		old: "1-float32(doubt*l.unbounded)", new: "1"},
	{name: "sparse-queries-of-any-component", file: "internal/synthetic/kind.go", pkg: "segment/graph",
		run: "TestPopularComponent",
		old: "query: erased(largest)", new: "query: erased(anyComponent)"},
	{name: "along-the-mean-uncalibrated", file: "internal/synthetic/kind.go", pkg: "segment/graph",
		run: "TestLongMeans",
		old: "query: (*maker).longMean, made: isL2,", new: "query: (*maker).longMean, made: func(*maker) bool { return false },"},
	{name: "dense-regions-uncalibrated", file: "internal/synthetic/kind.go", pkg: "segment/graph",
		run: "TestDefects",
		old: "func isDense(m *maker) bool    { return m.dense }", new: "func isDense(m *maker) bool    { return false }"},
	{name: "rows-alike-uncalibrated", file: "internal/synthetic/kind.go", pkg: "segment/graph",
		run: "TestDrift",
		old: "query: (*maker).meanAlike", new: "query: (*maker).meanNear"},
	{name: "without-components-uncalibrated", file: "internal/synthetic/kind.go", pkg: "segment/graph",
		run: "TestNoLanguage",
		old: "return m.components != nil", new: "return false"},
	{name: "large-components-alone-uncalibrated", file: "internal/synthetic/kind.go", pkg: "segment/graph",
		run: "TestOutliersAlone",
		old: "query: (*maker).largeOf", new: "query: (*maker).longMean"},
	{name: "horizon-beyond-all-trials", file: "segment/graph/horizon.go", pkg: "segment/graph",
		run: "TestHorizonIsMeasured",
		old: "if slices.Max(some[:]) >= levels.Fewest {", new: "if true {"},
	{name: "blind-codes-unnoticed", file: "internal/nearest/graph.go", pkg: "db",
		run: "TestCodesThatTellNothing",
		old: "case inOrder(j.found):", new: "case true:"},
	{name: "blind-codes-of-few-unnoticed", file: "internal/nearest/graph.go", pkg: "db",
		run: "TestCodesThatTellNothingOfFew",
		old: "&& !apart(j.found) {", new: "&& false {"},
	{name: "tags-beside-texts-uncalibrated", file: "internal/synthetic/kind.go", pkg: "segment/graph",
		run: "TestNoTag",
		old: "return (m.zeroed || m.tagged) &&", new: "return m.zeroed &&"},
	{name: "lost-searches-unnoticed", file: "segment/graph/guard.go", pkg: "segment/graph",
		run: "TestFar",
		old: "return float64(nearer) > most, nil", new: "return false, nil"},
	{name: "one-sampled-row-is-enough", file: "segment/graph/guard.go", pkg: "segment/graph",
		run: "TestFarIsConfirmed",
		old: "if excludes && q.guard.excluded > samples {", new: "if false {"},
	{name: "excluded-nodes-not-counted", file: "segment/graph/guard.go", pkg: "segment/graph",
		run: "TestFar",
		old: "n > q.guard.passed {", new: "false {"},
	{name: "excluded-duplicates-count-once", file: "segment/graph/guard.go", pkg: "segment/graph",
		run: "TestFarDuplicates",
		old: "\t\t\texcluded++\n", new: "\t\t\texcluded = 1\n"},
	{name: "judged-after-the-beam", file: "segment/graph/beam.go", pkg: "segment/graph",
		run: "TestFarEnds",
		old: "b.look = firstLook", new: "b.look = math.MaxInt"},
	{name: "judged-on-the-way", file: "segment/graph/guard.go", pkg: "segment/graph",
		run: "TestFarOnTheWay",
		old: "return nearest < (len(b.expanded)+1)/2", new: "return true"},
	{name: "expansions-not-limited", file: "segment/graph/guard.go", pkg: "segment/graph",
		run: "TestFarEnds",
		old: "\tcase b.stats.Expanded >= g.most:\n\t\treturn ErrFar\n", new: ""},
	{name: "filtered-searches-not-guarded", file: "internal/nearest/graph.go", pkg: "db",
		run: "TestExplainSearchesThatFollow",
		old: "query.Guard(need, plan.setting, p.MatchedIn(s.View, j.part))", new: ""},
	{name: "columns-without-digest", file: "internal/engine/columns.go", pkg: "db",
		run: "TestDerivedFilesOfOtherDocuments|TestPublishAfterRestore",
		old: ", Docs: s.Info.Docs,", new: ","},
	{name: "terms-without-digest", file: "internal/engine/terms.go", pkg: "db",
		run: "TestDerivedFilesOfOtherDocuments|TestPublishAfterRestore",
		old: ", Docs: s.Info.Docs}", new: "}"},
	{name: "flush-digests-no-documents", file: "internal/engine/segments.go", pkg: "db",
		run: "TestDerivedFilesOfOtherDocuments|TestPublishAfterRestore",
		old: "docs.document(p.Nums[row], p.docs[row])", new: "docs.number(p.Nums[row])"},
	{name: "version-continues-by-number", file: "internal/engine/folder.go", pkg: "db",
		run: "TestRefreshAfterRestore",
		old: "!m.Continues(f.manifest)", new: "m.Batch < f.manifest.Batch"},
	{name: "pages-not-verified", file: "internal/meta/tree.go", pkg: "internal/meta",
		run: "TestSealedPageIsComparedOnce",
		old: "if p.sums != nil {", new: "if false {"},
	{name: "stale-sums-ignored", file: "internal/meta/store.go", pkg: "db",
		run: "TestStaleRoot",
		old: "err == nil && !s.torn && !s.opts.Lenient", new: "false"},
	{name: "shared-write-repeated", file: "internal/share/follower.go", pkg: "db",
		run: "TestUnansweredWrites",
		old: "case l.bye || !p.sent:", new: "case true:"},
	{name: "shared-applied-write-repeated", file: "internal/share/follower.go", pkg: "db",
		run: "TestUnansweredWrites",
		old: "again = p.result.LSN == 0", new: "again = true"},
	{name: "shared-lost-write-acknowledged", file: "internal/share/follower.go", pkg: "db",
		run: "TestUnansweredWrites",
		old: "again = p.result.LSN == 0", new: "again = false"},
	{name: "shared-request-applied-twice", file: "internal/engine/commit.go", pkg: "db",
		run: "TestRequestTwice",
		old: "e.outcomes.find(r.id); applied {", new: "e.outcomes.find(r.id); applied && false {"},
	{name: "shared-outcomes-not-replayed", file: "internal/engine/open.go", pkg: "db",
		run: "TestUnansweredWrites",
		old: "e.outcomes.note(b.lsn, b.Request, b.Deleted())", new: "_ = b"},
	{name: "shared-received-not-read", file: "internal/engine/files.go", pkg: "db",
		run: "TestTwoProcesses",
		old: "\tif err := e.CatchUp(); err != nil {\n\t\treturn nil, err\n\t}\n\te.mu.Lock()\n", new: "\te.mu.Lock()\n"},
	{name: "shared-received-not-decided-on", file: "internal/engine/shared.go", pkg: "db",
		run: "TestDecisionSeesAll",
		old: "\tif err := e.CatchUp(); err != nil {\n\t\treturn nil, err\n\t}\n\te.commitMu.Lock()\n",
		new: "\te.commitMu.Lock()\n"},
	{name: "shared-received-not-taken-over", file: "internal/engine/lead.go", pkg: "db",
		run: "TestReceivedTellsOutcome",
		old: "\te.catchUpLast()\n\te.lock.Store(lock)\n", new: "\te.lock.Store(lock)\n"},
	{name: "shared-received-not-searched", file: "internal/engine/outcome.go", pkg: "db",
		run: "TestReceivedTellsOutcome",
		old: "if err := e.CatchUp(); err != nil { // others may know", new: "if err := e.Err(); err != nil {"},
	{name: "shared-received-damage-shown-once", file: "internal/engine/received.go", pkg: "internal/engine",
		run: "TestReceivedDamage",
		old: "r.waiting.Store(err != nil || len(r.records) > 0)", new: "r.waiting.Store(len(r.records) > 0)"},
	{name: "shared-submitted-forgotten", file: "internal/engine/commit.go", pkg: "internal/engine",
		run: "TestReceivedRecords", args: "-test.timeout=60s",
		old: "r.decide == nil && o.Submitted(r.done == nil)", new: "r.decide == nil"},
	{name: "shared-writer-left-out", file: "internal/engine/commit.go", pkg: "db",
		run: "TestManyWriters",
		old: "return slices.Contains(group, r)", new: "return true"},
	{name: "shared-loop-stalls", file: "internal/share/loop.go", pkg: "internal/share",
		run: "TestLoopStalls", args: "-test.timeout=60s",
		old: "\t\t\tp.start(p.owner)\n", new: ""},
	{name: "shared-requests-left-in-a-buffer", file: "internal/share/loop.go", pkg: "internal/share",
		run: "TestLoopFull",
		old: "p.set.ready(i) || f.unserved() {", new: "p.set.ready(i) {"},
	{name: "shared-message-in-passing-lost", file: "internal/share/reader.go", pkg: "internal/share",
		run: "TestPassing",
		old: "\t\tl.held = msg\n", new: ""},
	{name: "shared-own-trouble-is-a-lock", file: "internal/share/member.go", pkg: "internal/share",
		run: "TestNotShared",
		old: "if errors.As(joined, &welcomed) {", new: "if false {"},
	{name: "shared-damage-is-a-lock", file: "internal/share/member.go", pkg: "internal/share",
		run: "TestDamageAtOpen",
		old: "engine.ErrRemoved, fileformat.ErrCorrupt,", new: "engine.ErrRemoved, fileformat.ErrVersion,",
		also: &mutant{file: "internal/share/member.go", old: "return &welcomedError{errors.Join(err, l.close(), e.Close())}",
			new: "return errors.Join(err, l.close(), e.Close())"}},
	{name: "shared-close-cuts-calls-off", file: "internal/share/member.go", pkg: "internal/share",
		run: "TestCloseWaitsForAnswers",
		old: "\tcase <-l.ended:\n\tcase <-late.C:\n", new: "\tdefault:\n"},
	{name: "shared-close-waits-for-ever", file: "internal/share/member.go", pkg: "internal/share",
		run: "TestCloseBesideASilentLeader", args: "-test.timeout=60s",
		old: "\tcase <-late.C:\n", new: ""},
	{name: "shared-root-cuts-closing-off", file: "internal/share/reader.go", pkg: "internal/share",
		run: "TestCloseAfterTheLastCall",
		old: "outdated(err) || m.refuses(err):", new: "outdated(err):"},
	{name: "shared-batch-cuts-closing-off", file: "internal/share/reader.go", pkg: "internal/share",
		run: "TestCloseAfterTheLastCall",
		old: "m.engine.Freeze(msg.LSN); err != nil && !m.refuses(err) {", new: "m.engine.Freeze(msg.LSN); err != nil {"},
	{name: "shared-close-refuses-batches", file: "internal/engine/files.go", pkg: "internal/share",
		run: "TestCloseWaitsForDecisions",
		old: "if e.closed && e.running == e.steps {", new: "if e.closed {"},
	{name: "shared-close-refuses-roots", file: "internal/engine/shared.go", pkg: "internal/engine",
		run: "TestReceivedWhileClosing",
		old: "e.beginStep(); err != nil {\n\t\treturn err\n\t}\n\tdefer e.endStep()",
		new: "e.Begin(); err != nil {\n\t\treturn err\n\t}\n\tdefer e.End()"},
	{name: "shared-close-put-off-by-steps", file: "internal/engine/files.go", pkg: "internal/engine",
		run: "TestReceivedWhileClosing",
		old: "if e.closed && e.running == e.steps {", new: "if e.closed && e.running == 0 {"},
	{name: "shared-close-piles-batches-up", file: "internal/engine/received.go", pkg: "internal/share",
		run: "TestCloseAfterTheLastCall",
		old: "\t\t_, _, _ = r.take()\n", new: ""},
	{name: "shared-close-waits-for-compact", file: "internal/share/follower.go", pkg: "internal/share",
		run: "TestCloseEndsCompact", args: "-test.timeout=60s",
		old: "if kind != CallCompact {", new: "if kind > 0 {"},
	{name: "shared-next-leader-knows-no-outcome", file: "internal/share/leader.go", profiles: "policies,policies-interval",
		old: "result.LSN, result.Deleted, err = s.engine.Outcome(f.id(m.Of), m.Seen)", new: "err = engine.ErrUnknown"},
	{name: "shared-outcome-guessed", file: "internal/engine/outcome.go", pkg: "db",
		run: "TestForgottenWrite",
		old: "if seen < since {", new: "if false {"},
	{name: "shared-outcome-while-at-work", file: "internal/share/leader.go", pkg: "db",
		run: "TestLateRequest",
		old: "\t\tbefore.socket.cut()\n\t\t<-before.ended\n", new: ""},
	{name: "shared-roots-of-the-gone-kept", file: "internal/share/lost.go", pkg: "db",
		run: "TestConnectionsEnd",
		old: "\t\t\t\ts.letGo(tx)\n", new: "\t\t\t\t_ = tx\n"},
	{name: "shared-roots-of-the-killed-kept", file: "internal/share/lost.go", pkg: "db",
		run: "TestKilledFollower", args: "-test.timeout=20s",
		old: "l.pid != 0 && gone(l.pid)", new: "false"},
	{name: "shared-roots-of-the-lost-let-go", file: "internal/share/lost.go", pkg: "db",
		run: "TestSnapshotsOutliveConnections",
		old: "left, err := s.engine.LeaveMeta()", new: "left, err := true, error(nil)"},
	{name: "shared-half-a-frame-is-no-end", file: "internal/share/link.go", pkg: "db",
		run: "TestConnectionsEnd",
		old: "errors.Is(err, io.ErrUnexpectedEOF) ||", new: ""},
	{name: "shared-requests-of-the-lost-wait", file: "internal/share/link.go", pkg: "db",
		run: "TestConnectionsEnd",
		old: "\t\tp.lost = true\n\t\tclose(p.done)\n", new: "\t\tp.lost = true\n"},
	{name: "shared-full-disk-ends-writes", file: "internal/meta/store.go",
		run: "TestFullDiskOfProcesses",
		old: "return s.isAt(roots[newest])", new: "return false"},
	{name: "free-pages-of-another-root", file: "internal/meta/store.go", pkg: "internal/meta",
		run: "TestForgetBesidePins",
		old: "listed != (info.Type == \"free\") {", new: "listed && info.Type == \"\" {"},
	{name: "shared-full-disk-waited-for", file: "internal/share/follower.go",
		run: "TestFullDiskOfProcesses",
		old: "case stuck != nil && tried:", new: "case false:"},
	{name: "shared-version-not-compared", file: "internal/share/message.go", pkg: "db",
		run: "TestLeaderOfAnotherVersion",
		old: "if d.Err() == nil && v != Version {", new: "if false {"},
	{name: "shared-version-not-refused", file: "internal/share/leader.go", pkg: "db",
		run: "TestFollowerOfAnotherVersion",
		old: "\t\tf.send(Refused{Err: err})\n", new: ""},
	{name: "shared-exchange-not-synced", file: "internal/engine/fence.go", profiles: "deposed",
		old: "exchanged = true\n\treturn parent.SyncDir(\".\")", new: "exchanged = true\n\treturn nil",
		also: &mutant{file: "internal/engine/fence.go", old: "err == nil {\n\t\t\treturn parent.SyncDir(\".\")",
			new: "err == nil {\n\t\t\treturn nil"}},
	{name: "shared-exchanged-before-it-is-whole", file: "internal/engine/fence.go", profiles: "deposed",
		old: "for _, dir := range []string{WALDir, SegDir, \".\"} {", new: "for _, dir := range []string{} {"},
	{name: "shared-left-before-it-is-durable", file: "internal/engine/fence.go", profiles: "deposed",
		old: "if err = parent.SyncDir(\".\"); err == nil {", new: "if err == nil {"},
	{name: "shared-roots-not-pinned", file: "internal/share/leader.go", pkg: "db",
		run: "TestSharedSnapshots",
		old: "\tp.unpin = append(p.unpin, unpin)\n", new: "\tunpin()\n"},
	{name: "shared-file-in-use-written", file: "internal/meta/store.go", pkg: "db",
		run: "TestSharedSnapshots|TestReaderBesideWriter",
		old: "if s.opts.Shared && !readOnly {", new: "if s.opts.Shared {"},
	{name: "shared-barrier-does-nothing", file: "internal/share/follower.go", pkg: "db",
		run: "TestLinearizableProcesses|TestReaderBesideWriter",
		old: "_, done, err := m.Call(ctx, CallBarrier)\n", new: "done, err := true, ctx.Err()\n"},
	{name: "shared-barrier-of-a-fenced-leader", file: "internal/share/leader.go", pkg: "db",
		run: "TestBarrierOfFormerLeader",
		old: "return s.engine.CheckLead()", new: "return nil"},
	{name: "shared-barrier-of-the-round-before", file: "internal/share/rounds.go", pkg: "internal/share",
		run: "TestRounds",
		old: "before := r.moves.Load()", new: "before := r.moves.Load() &^ 1"},
	{name: "shared-acknowledged-beside-a-fence", file: "internal/engine/commit.go", pkg: "db",
		run: "TestDeposedWhileWriting",
		old: "if fenced := e.fenced(); errors.Is(fenced, errDeposed) {", new: "if fenced := error(nil); fenced != nil {"},
	{name: "shared-fence-without-a-bell", file: "internal/engine/fence.go", pkg: "db",
		run: "TestDeposedWhileWriting",
		old: "if err := from.Ring(LockName); err != nil {", new: "if false {"},
	{name: "shared-stopped-leader-answers", file: "internal/share/takeover.go", pkg: "db",
		run: "TestStoppedLeaderReads", old: "return m.rejoin(ctx)\n		}\n		m.looked", new: "return nil\n		}\n		m.looked"},
	{name: "shared-idle-follower-does-not-look", file: "internal/share/follower.go", pkg: "internal/share",
		run: "TestReaderGoesToNextLeader",
		old: "if !m.opts.ReadOnly {\n\t\t\tunwatch", new: "if false {\n\t\t\tunwatch"},
	{name: "shared-former-leader-keeps-the-folder", file: "internal/engine/fence.go", pkg: "db",
		run: "TestFormerLeaderReleasesFolder",
		old: "\t\t(*fn)()\n", new: "\t\t_ = fn\n"},
	{name: "shared-former-leader-does-not-look", file: "internal/share/leader.go", pkg: "db",
		run: "TestFormerLeaderNotices", args: "-test.timeout=20s",
		old: "_ = s.engine.CheckLead() // whoever", new: "_ = s.engine // whoever"},
	{name: "former-leader-publishes", file: "internal/replica/publish.go", pkg: "db",
		run: "TestDeposedWhilePublishing",
		old: "if !e.Leads() { // it has lost", new: "if false { // it has lost"},
	{name: "shared-stopped-follower-decides", file: "internal/share/leader.go", pkg: "db",
		run: "TestStoppedWhileItDecides",
		old: "if f.pid != 0 && stopped(f.pid) {", new: "if false {"},
	{name: "shared-own-write-without-id", file: "internal/share/follower.go", pkg: "db",
		run: "TestDeposedInAWrite",
		old: "m.leader != nil && m.leader.followed()", new: "m.leader != nil && false"},
	{name: "shared-own-write-taken-for-applied", file: "internal/engine/commit.go", pkg: "db",
		run: "TestDeposedInAWrite",
		old: "applied || err != nil {\n\t\t\t\treturn err", new: "applied || err == nil {\n\t\t\t\treturn err"},
	{name: "shared-place-given-up", file: "internal/engine/fence.go", pkg: "internal/engine",
		run: "TestNewPlaceIsMadeAgain",
		old: "!errors.Is(err, fs.ErrNotExist) && !errors.Is(err, vfs.ErrLocked) {", new: "!errors.Is(err, vfs.ErrLocked) {"},
	{name: "shared-fence-removed-from-its-maker", file: "internal/engine/fence.go", pkg: "db",
		run: "TestFence",
		old: "fence, err := lockFence(e.FS)\n\tif err != nil {\n\t\treturn false, err\n\t}\n",
		new: "fence, err := lockFence(e.FS)\n\tif err != nil {\n\t\treturn false, nil\n\t}\n"},
	{name: "shared-log-not-copied", file: "internal/engine/fence.go", pkg: "db",
		run: "TestDeposed",
		old: "if filepath.Ext(name) != \".wal\" {", new: "if true {"},
	{name: "shared-two-directories", file: "internal/engine/fence.go", pkg: "internal/engine",
		run: "TestLockWhereTheDatabaseIs",
		old: "if moved, err = e.FS.Moved(); err == nil && !moved {\n\t\terr = e.FS.Remove", new: "if true {\n\t\terr = e.FS.Remove"},
	{name: "shared-backup-in-the-place-followed", file: "internal/engine/lead.go", pkg: "db",
		run: "TestDirectoryReplaced",
		old: "e.held.LSN >= e.cur.LSN {", new: "true {"},
	{name: "shared-backup-in-the-place-followed-later", file: "internal/engine/lead.go", pkg: "db",
		run: "TestDirectoryReplacedAndWritten",
		old: "\te.wentBack.Store(&err)\n", new: "\te.replaced.Store(true)\n"},
	{name: "shared-lost-sought-before-an-engine", file: "internal/share/lost.go", pkg: "internal/share",
		run: "TestLongRecovery",
		old: "\tcase <-s.ready:\n", new: "\tdefault:\n"},
	{name: "shared-pins-lost-with-a-copy", file: "internal/meta/rewrite.go", pkg: "internal/meta",
		run: "TestRewriteFailsBesidePins",
		old: "if pinned {", new: "if pinned && false {"},
	{name: "copy-without-a-descriptor-ends-writes", file: "internal/engine/compact.go", pkg: "db",
		run: "TestNoDescriptorForMeta",
		old: "errDeposed) || e.store.Usable() {", new: "errDeposed) || noSpace(err) && e.store.Usable() {"},
	{name: "commit-without-a-descriptor-ends-writes", file: "internal/engine/generation.go", pkg: "db",
		run: "TestNoDescriptorForMeta",
		old: "(noSpace(err) || noDescriptor(err))", new: "noSpace(err)"},
	{name: "log-not-released-ends-writes", file: "internal/engine/generation.go", pkg: "db",
		run: "TestLogIsReleasedLater",
		old: "\t\te.record(\"release of the log\", err)\n",
		new: "\t\tif err != nil {\n\t\t\treturn e.Fail(err)\n\t\t}\n"},
	{name: "shared-number-given-twice", file: "internal/engine/commit.go", pkg: "db",
		run: "TestTwoProcesses",
		old: "\t\t\tg.NextID++\n\t\tcase o.Kind", new: "\t\tcase o.Kind"},
	{name: "shared-dead-rows-forgotten", file: "internal/engine/open.go", pkg: "db",
		run: "TestDeletesOfAnotherLeader",
		old: "\t\tseg.dead = dead\n", new: ""},
	{name: "unexplained-swept", file: "internal/engine/leftovers.go", pkg: "db",
		run: "TestUnexplainedSegment",
		old: "if why != nil {\n\t\t\t\tif err := e.keepUnexplained", new: "if false {\n\t\t\t\tif err := e.keepUnexplained"},
	{name: "no-cleanup-after-a-failed-map", file: "internal/engine/segments.go", pkg: "db",
		run: "TestNoRoomToMap",
		old: "e.removeFiles(id, TmpDir, SegDir)\n\t}()", new: "}()"},
	{name: "writes-take-the-slots-of-reads", file: "server/slots.go", pkg: "server",
		run: "TestServiceWhileTheDiskStandsStill", args: "-test.timeout=120s",
		old: "return s.writes", new: "return s.reads"},
	{name: "patterns-go-on", file: "server/chroma/where.go", pkg: "server/chroma",
		run: "TestPatternsEndWithTheRequest", args: "-test.timeout=120s",
		old: "w.read%256 == 0 && w.ctx.Err() != nil ||", new: ""},
	{name: "repeats-cost-nothing", file: "server/chroma/where.go", pkg: "server/chroma",
		run: "TestProgramSize",
		old: "n *= max(re.Max, re.Min+1)", new: "n += 0"},
	{name: "filters-go-on", file: "segment/columns/eval.go", pkg: "db",
		run: "TestReadsEndWithTheirContext", args: "-test.timeout=120s",
		old: "v.err = v.ctx.Err()", new: "v.err = nil"},
	{name: "root-of-a-base-absolute", file: "rag/knowledge/root.go", pkg: "rag/knowledge",
		run: "TestProjectMoves",
		old: "if rel, ok := below(r.dir, base); ok {", new: "if rel, ok := below(r.dir, base); ok && false {"},
	{name: "root-of-a-base-guessed", file: "rag/knowledge/root.go", pkg: "rag/knowledge",
		run: "TestBasesWithoutRoot",
		old: "r.guess = most == 0", new: "r.guess = false"},
	{name: "reembed-loses-the-root", file: "rag/knowledge/reembed.go", pkg: "rag/knowledge",
		run: "TestWorkingDirectories",
		old: "[]string{learntAt, rooted, learntLanguage, brokenFiles}", new: "[]string{learntAt, learntLanguage, brokenFiles}"},
	{name: "failed-base-stays", file: "rag/knowledge/learner.go", pkg: "rag/knowledge",
		run: "TestFirstLearnFails",
		old: "if l.made {", new: "if false {"},
	{name: "one-kind-of-quote", file: "text/query.go", pkg: "text",
		run: "TestPlain",
		old: "isQuote(r) || r == '*'", new: "r == '\"' || r == '*'"},
	{name: "model-by-dimension", file: "rag/retriever.go", pkg: "rag",
		run: "TestModelInNames",
		old: "r.named(modelsOf(info.Dim))", new: "modelsOf(info.Dim)"},
	{name: "unjudged-base-measured", file: "rag/eval/lab.go", pkg: "rag/eval",
		run: "TestNotJudged",
		old: "if err := qrels.Known(ctx, s.coll); err", new: "if err := error(nil); err"},
	{name: "limit-overflows", file: "db/list.go", pkg: "db",
		run: "TestExtremeNumbers",
		old: "limit := min(cmp.Or(q.Limit, DefaultLimit), total)", new: "limit := cmp.Or(q.Limit, DefaultLimit)"},
	{name: "group-of-the-least-number", file: "internal/query/group.go", pkg: "internal/query",
		run: "TestGroupKeyIsEquality",
		old: "-1<<63 <= f && f < 1<<63", new: "math.Abs(f) < 1<<63"},
	{name: "bodies-cost-nothing", file: "server/internal/rest/rest.go", pkg: "server",
		run: "TestMemoryAtOnce",
		old: "if err := Reserve(r.Context(), docjson.Footprint(body)); err != nil {", new: "if err := Reserve(r.Context(), 0*docjson.Footprint(body)); err != nil {"},
	{name: "log-size-waits", file: "wal/log.go", pkg: "server",
		run: "TestStatsWhileTheDiskStandsStill", args: "-test.timeout=120s",
		old: "func (l *Log) Size() int64 { return l.size.Load() }", new: "func (l *Log) Size() int64 {\n\tl.mu.Lock()\n\tdefer l.mu.Unlock()\n\treturn l.size.Load()\n}"},
	{name: "text-index-by-default", file: "rag/knowledge/learner.go", pkg: "rag/knowledge",
		run: "TestLanguage",
		old: "if !made { // the text", new: "if false { // the text"},
	{name: "json-numbers-are-floats", file: "internal/document/json.go", pkg: "db",
		run: "TestDocumentJSON",
		old: "\td.UseNumber()\n", new: ""},
}

// TestMutants builds the tests of this package with one bug at a time and expects TestTorture to
// fail.
func TestMutants(t *testing.T) {
	if *mutantsFlag == "" {
		t.Skip("takes minutes; -torture.mutants=. runs all of them")
	}
	want := regexp.MustCompile(*mutantsFlag)
	killed, all := 0, 0
	for _, m := range mutants {
		if !want.MatchString(m.name) {
			continue
		}
		all++
		t.Run(m.name, func(t *testing.T) {
			start := time.Now()
			kill := m.torture
			if m.run != "" {
				kill = m.test
			}
			how, ok := kill(t)
			if !ok {
				t.Errorf("survives: %s", how)
				return
			}
			killed++
			t.Logf("killed in %v: %s", time.Since(start).Round(time.Millisecond), how)
		})
	}
	t.Logf("%d of %d mutants killed", killed, all)
}

// TestSmallest is TestTorture of an engine whose segments have codes and graphs from the first row
// on, so that they are written, torn, lost, found and searched as often as everything else.
func TestSmallest(t *testing.T) {
	if *smallestFlag == 0 {
		t.Skip("builds the tests again; -torture.smallest=N looks at so many crash states")
	}
	dir := t.TempDir()
	bin := smallest.build(t, dir, "fuzz/torture")
	cmd := exec.CommandContext(t.Context(), bin, "-test.run=^TestTorture$", "-test.v", "-torture.kills=20", "-torture.xfs=0", "-torture.ext4=0",
		fmt.Sprint("-torture.states=", *smallestFlag), fmt.Sprint("-torture.faults=", *smallestFlag/20), fmt.Sprint("-torture.seed=", *seed), "-torture.profiles="+*only)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// TestMutantsApply finds the place of every replacement, and every test that a mutant names.
func TestMutantsApply(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutants {
		m.sources(t)
		if names[m.name] {
			t.Errorf("two mutants are called %s", m.name)
		}
		names[m.name] = true
		if m.run == "" {
			continue
		}
		tests := m.tests(t)
		for name := range strings.SplitSeq(m.run, "|") {
			if !strings.Contains(tests, "func "+name+"(") {
				t.Errorf("%s: there is no %s in %s", m.name, name, m.dir())
			}
		}
	}
	smallest.sources(t)
}

// dir returns the directory of the test that kills the mutant.
func (m *mutant) dir() string { return cmp.Or(m.pkg, "fuzz/torture") }

// tests returns the text of all tests in that directory.
func (m *mutant) tests(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", filepath.FromSlash(m.dir()), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(b)
	}
	return text.String()
}

// sources returns the changed files, by their paths.
func (m *mutant) sources(t *testing.T) map[string]string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	changed := map[string]string{}
	for e := m; e != nil; e = e.also {
		path := filepath.Join(root, filepath.FromSlash(e.file))
		text, ok := changed[path]
		if !ok {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		if n := strings.Count(text, e.old); n != 1 {
			t.Fatalf("%s: %s holds %d times %q", m.name, e.file, n, e.old)
		}
		changed[path] = strings.Replace(text, e.old, e.new, 1)
	}
	return changed
}

// overlay writes the changed files to dir and returns the name of the list of them that go takes.
func (m *mutant) overlay(t *testing.T, dir string) string {
	t.Helper()
	replace := map[string]string{}
	for path, text := range m.sources(t) {
		changed := filepath.Join(dir, fmt.Sprintf("mutant%d.go", len(replace)))
		if err := os.WriteFile(changed, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[path] = changed
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, list, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// build builds the tests of a directory below the root with the mutant, in dir, and returns the
// program.
func (m *mutant) build(t *testing.T, dir, pkg string) string {
	t.Helper()
	bin := filepath.Join(dir, "mutant.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", m.overlay(t, dir), "-o", bin, ".")
	build.Dir = filepath.Join("../..", filepath.FromSlash(pkg))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

// test builds the tests that the mutant names and reports whether one of them fails, and how.
// Hanging is failing.
func (m *mutant) test(t *testing.T) (how string, killed bool) {
	t.Helper()
	bin := m.build(t, t.TempDir(), m.dir())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, append([]string{"-test.run=^(" + m.run + ")$", "-test.v", "-test.timeout=2m"}, strings.Fields(m.args)...)...)
	cmd.Dir = filepath.Join("../..", filepath.FromSlash(m.dir()))
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	why := "ended by " + fmt.Sprint(err)
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "--- SKIP") {
			t.Skip(line)
		}
		// What a test says comes before the line that says it has failed.
		if strings.Contains(line, "_test.go:") || strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			why = line
			break
		}
	}
	if err == nil {
		return fmt.Sprintf("%s in %s passes", m.run, m.dir()), false
	}
	return fmt.Sprintf("%s: %.300s", m.run, why), true
}

// torture builds the mutant and reports whether torture notices it, and how.
func (m *mutant) torture(t *testing.T) (how string, killed bool) {
	t.Helper()
	dir := t.TempDir()
	bin := m.build(t, dir, "fuzz/torture")
	args := []string{"-test.run=^TestTorture$", "-test.v", "-torture.first", "-torture.kills=0", "-torture.xfs=0", "-torture.dir=" + dir}
	switch m.profiles {
	case "fault":
		args = append(args, "-torture.states=-1", "-torture.faults=800", "-torture.ext4=0")
	case "fault-rewrite":
		args = append(args, "-torture.states=-1", "-torture.faults=800", "-torture.ext4=0", "-torture.profiles="+m.profiles)
	case "full":
		args = []string{"-test.run=^TestFullDisk$", "-torture.full=4"}
	case "ext4":
		args = append(args, "-torture.states=-1", "-torture.faults=0", "-torture.ext4=100")
	default:
		args = append(args, "-torture.states=4000", "-torture.faults=0", "-torture.ext4=0", "-torture.profiles="+m.profiles)
	}
	// A mutant may hang, or take its process down: that is noticed too.
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	const tries = 5 // what few states show may not be among the first few thousand
	for try := range uint64(tries) {
		cmd := exec.CommandContext(ctx, bin, append(args, fmt.Sprint("-torture.seed=", *seed+try))...)
		cmd.Dir = dir
		cmd.WaitDelay = 10 * time.Second
		out, err := cmd.CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if _, what, ok := strings.Cut(line, "VIOLATION: "); ok {
				return fmt.Sprintf("%.300s", strings.TrimSpace(what)), true
			}
		}
		how = string(out[max(0, len(out)-600):])
		if err != nil || ctx.Err() != nil {
			return how, ctx.Err() == nil
		}
	}
	return how, false
}
