// Package codes keeps the vectors of a segment as one byte per component, with error bounds. From
// the codes of a row and a query it computes an interval that certainly holds the row's true score.
// It scans many rows at the speed of memory for those that may reach a given score. Where it pays,
// the file also holds nibbles, half a byte per component, so that a scan reads an eighth of the
// bytes of the vectors.
//
// [Write] makes the file of a segment, [WriteSmall] one without nibbles, [Parse] opens it,
// [Codes.Query] prepares a query, [Query.Candidates] scans rows, [Query.Among] checks single rows
// and [Query.Interval] gives the bounds of one. [Codes.Batch] scans for many queries at once.
//
// Guarantees:
//
//   - The interval of a row holds its canonical score: simd.Dot64(q, x) for dot, -simd.L264(q, x)
//     for L2, and for cosine simd.Dot64(q, x) / (|q|*|x|), limited to [-1, 1], where |v| is
//     sqrt(simd.Dot64(v, v)), and 0 if either vector is zero. The bounds cover all errors: of
//     coding rows and query, and of floating-point arithmetic here and in the definition.
//     docs/codes.md has the proof.
//   - A row that Candidates, Among or a Batch leaves out has a score below cut.
//   - Every byte of a file is covered by a checksum that is compared before its first use. Equal
//     rows give equal files on every CPU, except for the presence of nibbles, which is decided by
//     measurement.
//   - Any bytes may be parsed: no panic, no access out of bounds, no memory beyond a fraction of
//     the file's size.
//
// Codes are derived data: a damaged or missing file can be rebuilt from the vectors.
// docs/format/codes.md specifies the file.
//
// Codes and Queries are immutable and safe for concurrent use as long as the bytes given to Parse
// stay mapped; a [Buffer] is for one goroutine. Code that reads mapped bytes, Candidates and
// Interval included, belongs inside vfs.Guard: an unreadable sector shows as a memory fault.
//
// The format is stable. The API is for the packages of this module: it may change in any
// release.
package codes
