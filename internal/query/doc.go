// Package query ranks the documents of a view for whole queries: by vector, by text, or by both
// fused; best of each group, or diversified.
//
// It is given a Query and the view to answer it on. It finds the query vector and the rows that
// match, has package nearest rank vectors, package match score texts and package fusion fuse both,
// and gives back an Answer: rows in order, their promised recall and the work they took (a Ledger),
// and a plan in words. Fused answers several queries with one fused answer. Explain says where a
// document ranks and which step lost it. MeasureRecall compares answers with exact ones.
//
// It must never know the public types of package db, or which parts of a document a caller wants:
// the caller reads the documents of the rows. It reads the metadata of groups and the texts of
// passages.
package query
