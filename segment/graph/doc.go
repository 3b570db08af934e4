// Package graph keeps a graph over the vectors of one segment, in which the nearest rows of a query
// are found by walking from neighbour to neighbour: a few thousand distances instead of all. The
// answer is approximate; how good it is was measured when the graph was built.
//
// [Write] makes the file of a segment, [Parse] opens it, [Graph.Query] prepares a query,
// [Graph.Setting] says how far walks go that have a recall, and [Query.Search] searches.
// docs/decisions/0006-a-flat-graph-over-codes.md says why this graph.
//
// Guarantees:
//
//   - Search returns min(k, allowed rows) hits, whatever the filter: every row is reached by a walk or stands on a list that
//     every search reads, and rows with the same codes share one node.
//   - The scores of the hits are those that the caller's function gives; codes decide only which rows are scored.
//   - The recall that a Setting promises is a lower estimate from searches for rows of the segment, each left out of its own graph.
//   - Equal rows, seeds and options give equal files, however many goroutines build.
//   - Every byte of a file is covered by a checksum that is compared before its first use. Any bytes may be parsed and
//     searched: no panic, no access out of bounds, no endless loop, no memory beyond a fraction of the file's size, and,
//     in a [Buffer], a bit per row.
//
// Graphs are derived data: whatever is wrong with a file, it can be built anew from the vectors.
// docs/format/graph.md is the norm of the file.
//
// Graphs and Queries are immutable and safe for concurrent use as long as the bytes given to Parse
// stay mapped; a Buffer is for one goroutine. Whatever reads mapped bytes, Search included, belongs
// inside vfs.Guard: an unreadable sector shows as a memory fault.
package graph
