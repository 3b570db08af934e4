// Package terms is the full-text index of a segment: which rows have a term, how often and where,
// so that the best rows for a query by BM25 are found without looking at all of them.
//
// An [Index] in memory takes rows one after the other; [Write] makes the file of a segment from
// Indexes and other files, leaving out dead rows; [Parse] opens it. Both are a [Source]. [Prepare]
// takes a query and all sources of a collection, with their live rows, and gives a [Search].
//
// Guarantees:
//
//   - The score of a row is a function of its own terms and of three numbers of the live rows of the whole collection: how
//     many there are, how long they are together, and in how many a term occurs. It has the same bits however rows are
//     spread over sources, how many dead ones lie between, and on every CPU.
//   - The answer is exact: a row that a Search does not offer cannot be among the best.
//   - Every byte of a file is covered by a checksum that is compared before its first use, and equal input gives equal files.
//   - Any bytes may be parsed: no panic, no access out of bounds, no memory beyond a fraction of the file's size.
//
// The file is derived data: it can be made anew from the documents. docs/format/terms.md is its
// norm.
//
// A Search and its sources are safe for concurrent use, as long as the bytes given to Parse stay
// mapped; a [Buffer] is for one goroutine. Whatever reads mapped bytes belongs inside vfs.Guard: an
// unreadable sector shows as a memory fault.
package terms
