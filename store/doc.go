// Package store is a small interface of vector databases, for programs that
// begin with one machine and may outgrow it: collections of documents that are
// written, read, deleted, listed, and found by vector, by text and by conditions
// on metadata. What each method means is said here once, and package
// store/storetest holds every implementation to it:
//
//   - Embedded is a database of this module, in a directory.
//   - Package store/weaviate is a cluster of Weaviate.
//   - Package store/pgvector, a module of its own, is PostgreSQL with pgvector.
//
// A Searcher makes of a Collection what a pipeline of package rag retrieves from:
// one vector query and one text query, fused by the rules of package db, so that
// rankings are made the same way everywhere. Package store/migrate moves
// collections from one store to another. docs/stores.md compares the stores.
//
// # What is the same everywhere
//
//   - Ids are those of db: any string of 1 to db.MaxIDLen bytes of UTF-8 without
//     control characters.
//   - Metadata comes back as it was: strings, bools, int64 of all 64 bits,
//     float64, null, lists and nested maps, with any key that db allows. So do
//     texts, and vectors bit by bit.
//   - A condition holds for a document exactly if filter.Match says so, also on
//     keys that nobody has and in front of Not.
//   - Scores of vector queries are cosines in [-1, 1], within 1e-5; that of a
//     zero vector is 0. Hits are in order of score, and of id where scores are
//     equal.
//   - Writes are visible to Get, Scan and Count when they return; for a cluster
//     see its package.
//
// # Errors
//
// They match those of db: db.ErrInvalid for arguments against the rules,
// db.ErrDimensionMismatch for vectors of another dimension, db.ErrNotFound for
// collections that do not exist, db.ErrExists for names that are taken,
// db.ErrClosed. Whatever else happens, a network that fails or a context that
// ends, is an error that matches none of these. Arguments are looked at before
// anything is sent: with one of the first two, nothing was written.
package store
