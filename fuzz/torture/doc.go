// Package torture proves, on a whole database, that a crash loses no acknowledged write: it cuts
// the power at every operation on files, in every way a disk can lie about what it had not yet been
// told to keep, and compares what the database then holds with a model. Run is the whole of it;
// `vecbolt torture` and the tests of this package call it.
//
// Three things happen to a database here.
//
//   - Crash states. Workloads run on a file system of our own (FUSE, in a process of its own) that records every change
//     of a file or directory, those of bbolt included. From the recording, a Disk computes what may be there after a
//     power cut at each point; every such state is opened, checked, compared, written to, closed and opened again. The
//     recovery of some is recorded too and cut in its turn.
//   - Faults. Every operation on files fails in turn, once or from then on; a failed sync loses its bytes for good.
//   - Kills. A process that writes, reads, flushes and compacts is killed again and again.
//
// A violation is anything but: the database opens, all checks pass, it holds all batches that were
// acknowledged, and nothing else but whole batches that were being written, in their order.
// docs/torture.md has the details.
//
// The recorder needs Linux, root and /dev/fuse. Without them crash states and faults are skipped,
// and the Report says so.
package torture
