// Package wal keeps a write-ahead log: a sequence of records in numbered files. [Replay] delivers
// the surviving records, a [Log] appends new ones; a [Record] is bytes to this package. Every
// record has a log sequence number (LSN): the first is 1, each next one is greater by 1, across
// files.
//
// Guarantees:
//
//   - A record for which Sync returned nil is delivered by Replay after any crash, in order, with
//     the same bytes.
//   - Replay delivers a prefix of the records that were appended but not synced. An incomplete last
//     write is a torn tail: the log ends before it, without an error.
//   - Damage is distinguished from a torn tail. Every frame says up to which LSN the log was
//     durable when it was written, and a file is begun only after everything before it is durable;
//     so a bad frame before such a witness is a *fileformat.CorruptError and never the silent end
//     of the log. Only damage to the very last synced write of the last file, which has no witness
//     yet, reads as a torn tail.
//   - No write touches a block of 4096 bytes that holds earlier records, and no file is both
//     appended to and trusted after a restart: a new Log always begins a new file.
//   - After the first failed write or sync the Log refuses all further appends and syncs with that
//     error: after a failed fsync nobody knows what the disk holds. Failing to make a new file, for
//     example on a full disk, is harmless: nothing was written, and the append may be tried again.
//
// The file, all little-endian; docs/format/wal.md specifies it:
//
//	wal/0000001f.wal   header 4 KiB | group | group | ... | zeros, or old bytes of a recycled file
//	group              frame | frame | ..., written at once, begins at a multiple of 4096
//	frame              header 40 bytes | payload | padding to 8, after the last frame of a group to 4096
//
// The format is stable. The API is for the packages of this module: it may change in any
// release.
package wal
