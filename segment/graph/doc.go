// Package graph keeps a proximity graph over the vectors of one segment. A beam search follows its
// links to the nearest rows of a query and computes a few thousand distances instead of one per
// row. Queries for which that finds too little go on with a scan of the sketches of all rows, one
// bit per component. The answer is approximate; its recall was measured when the graph was built.
//
// [Write] makes the file of a segment, [Parse] opens it, [Graph.Query] prepares a query, the
// [levels.Table] of the graph returns how far to search for a recall, and [Query.Search] searches.
// docs/graphs.md tells how the parts work and why, docs/decisions/0018-sketches-of-all-rows.md the
// same of the sketches.
//
// Guarantees:
//
//   - Search returns min(k, allowed rows) hits, whatever the filter: every node can be reached from
//     the entry points or stands on the overflow list, which every search reads, and rows with the
//     same codes share one node.
//   - Hits carry the scores of the caller's function; codes decide only which rows are scored.
//   - The recall that a Setting promises is measured by searches for rows of the segment, each left
//     out, and for queries of other kinds that are made of rows. It is the mean of the kind that
//     finds least, less 1.5 standard errors:
//     docs/calibration.md.
//   - Equal rows, seeds and options give equal files, however many goroutines build.
//   - Every byte of a file is covered by a checksum that is compared before its first use. Any
//     bytes may be parsed and searched: no panic, no access out of bounds, no endless loop, no
//     memory beyond a fraction of the file's size, and, in a [Buffer], a bit per row.
//
// Graphs are derived data: a damaged or missing file can be rebuilt from the vectors.
// docs/format/graph.md specifies the file.
//
// Graphs and Queries are immutable and safe for concurrent use as long as the bytes given to Parse
// stay mapped; a Buffer is for one goroutine. Code that reads mapped bytes, Search included,
// belongs inside vfs.Guard: an unreadable sector shows as a memory fault.
//
// The format is stable. The API is for the packages of this module: it may change in any
// release.
package graph
