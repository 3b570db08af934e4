// Package terms is the full-text index of a segment: the rows of each term with frequencies and
// positions. It finds the best rows for a query by BM25 without reading all of them.
//
// An [Index] in memory takes rows one after the other; [Write] makes the file of a segment from
// Indexes and other files, without dead rows; [Parse] opens it. Both are a [Source]. [Prepare]
// takes a query and all sources of a collection, with their live rows, and returns a [Search].
//
// Guarantees:
//
//   - The score of a row is a function of its own terms and of three numbers of the live rows of
//     the whole collection: their number, their total length, and the number of them that have a
//     term. It has the same bits on every CPU, however rows are spread over sources and however
//     many dead rows lie between them.
//   - The answer is exact: a row that a Search does not offer cannot be among the best.
//   - Every byte of a file is covered by a checksum that is compared before its first use, and
//     equal input gives equal files.
//   - Any bytes may be parsed: no panic, no access out of bounds, no memory beyond a fraction of
//     the file's size.
//
// The file is derived data: it can be rebuilt from the documents. docs/format/terms.md specifies
// the file.
//
// A Search and its sources are safe for concurrent use, as long as the bytes given to Parse stay
// mapped; a [Buffer] is for one goroutine. Code that reads mapped bytes belongs inside vfs.Guard:
// an unreadable sector shows as a memory fault.
//
// The format is stable. The API is for the packages of this module: it may change in any
// release.
package terms
