// Package segment stores immutable runs of rows: a [Writer] streams document numbers and vectors
// into a file, and a [Segment] maps that file and returns the vectors without copying. [Info] is
// the record of a segment in the manifest; [Open] refuses a file that does not match its Info.
// [Salvage] reads the intact rows of a damaged file.
//
// Guarantees:
//
//   - A file appears under its final name whole and durable, or not at all.
//   - Every byte is covered by a CRC-32C that is compared before the first use of the byte after
//     Open: header, document numbers and inverse norms in Open, vectors when Rows first touches
//     their block. Damaged bytes are reported as a [fileformat.CorruptError] with file and offset,
//     never returned.
//   - Vectors come back bit for bit.
//   - Any bytes may be opened: no panic, no access out of bounds, no memory beyond a fraction of
//     the file's size.
//
// A Segment is safe for concurrent use, a Writer is not. Slices that a Segment returns are mapped
// memory: they must not be written to, end with Close, and must be read inside [Segment.Guard] (or
// vfs.Guard and [Segment.Fault]), because an unreadable disk sector or a truncated file shows as a
// memory fault.
//
// The file, all little-endian; docs/format/segment.md specifies it:
//
//	┌────────────┬──────────────────────┬─────┬────────────────┬─────────────────┬───────────────────────┐
//	│ header 4 K │ vectors f32[n × dim] │ pad │ docnums u64[n] │ invnorms f32[n] │ checksums u32[blocks] │
//	└────────────┼──────────────────────┴─────┴────────────────┴─────────────────┼───────────────────────┘
//	             └────────── blocks of 64 KiB, the last one shorter ─────────────┘
//
// The format is stable. The API is for the packages of this module: it may change in any
// release.
package segment
