// Package torture tests, on a whole database, that a crash loses no acknowledged write. It cuts the
// power at every file operation, with every failure mode of unsynced data, and compares the content
// of the recovered database with a model. Run is the entry point; `vecbolt torture` and the tests
// of this package call it.
//
// It does three things to a database.
//
//   - Crash states. Workloads run on a recording file system (FUSE, in a separate process) that
//     records every change of a file or directory, including changes by bbolt. From the recording,
//     a Disk computes possible states after a power failure at each point. Every such state is
//     opened, checked, compared, written to, closed and opened again. Some recoveries are recorded
//     and cut in turn.
//   - Faults. Every file operation fails in turn, once or permanently; a failed sync loses its
//     bytes for good.
//   - Kills. A process that writes, reads, flushes and compacts is killed repeatedly.
//
// A run passes if the database opens, all checks pass, and it contains all acknowledged batches
// and, beyond them, only whole batches that were being written, in order. Anything else is a
// violation. docs/torture.md has the details.
//
// The recorder needs Linux, root and /dev/fuse. Without them crash states and faults are skipped,
// and the Report says so.
package torture
