// Package engine keeps a database: the versions of its collections, the rows and documents of each
// version, and the files that they lie in.
//
// It is given a directory, Options and writes (Op). It gives back versions, whose parts hold rows,
// and derived files: columns, codes, graphs and terms. A write goes one way: request, group,
// record, log, head, version. Later a flush moves heads to segments and meta.bolt, and compaction
// merges segments. docs/design.md walks through both.
//
// It must never know how a query is ranked, nor the types that users of package db see.
package engine
