// Package codes keeps the vectors of a segment as one byte per element, with bounds: from the codes
// of a row and a query it says an interval that certainly holds the row's true score, and from many
// rows, at the speed of memory, which of them may reach a score at all. Where it pays there are
// nibbles too, half a byte per element, so that a scan reads an eighth of the bytes of the vectors.
//
// [Write] makes the file of a segment, [Parse] opens it, [Codes.Query] prepares a query,
// [Query.Candidates] scans rows, [Query.Among] looks at single ones and [Query.Interval] gives the
// bounds of one. [Codes.Batch] scans for many queries at once.
//
// Guarantees:
//
//   - The interval of a row holds the score that the canonical definition gives: simd.Dot64(q, x) for [Dot],
//     -simd.L264(q, x) for [L2], and for [Cosine] simd.Dot64(q, x) / (|q|*|x|), limited to [-1, 1], where
//     |v| is sqrt(simd.Dot64(v, v)), and 0 if either vector is zero. All errors are accounted for: those of
//     coding rows and query, and those of floating-point arithmetic here and in the definition.
//     docs/decisions/0005-int8-codes-with-bounds.md has the proof.
//   - A row that Candidates, Among or a Batch leaves out has a score below cut.
//   - Every byte of a file is covered by a checksum that is compared before its first use, and equal rows give equal files,
//     on every CPU, but for whether there are nibbles, which is measured.
//   - Any bytes may be parsed: no panic, no access out of bounds, no memory beyond a fraction of the file's size.
//
// Codes are derived data: whatever is wrong with a file, it can be built anew from the vectors.
// docs/format/codes.md is the norm of the file.
//
// Codes and Queries are immutable and safe for concurrent use as long as the bytes given to Parse
// stay mapped; a [Buffer] is for one goroutine. Whatever reads mapped bytes, Candidates and
// Interval included, belongs inside vfs.Guard: an unreadable sector shows as a memory fault.
package codes
