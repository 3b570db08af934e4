// Package store is a small interface of vector databases, for programs that start on one machine
// and may outgrow it. Collections of documents are written, read, deleted, listed, and searched by
// vector, by text and by conditions on metadata. This package defines the meaning of each method;
// package store/storetest tests every implementation against it:
//
//   - Embedded is a database of this module, in a directory.
//   - Package store/weaviate is a cluster of Weaviate.
//   - Package store/pgvector, a module of its own, is PostgreSQL with pgvector.
//
// An Adapter turns a Collection into the store that a pipeline of package rag retrieves from: one
// vector query and one text query, fused by the rules of package db, so that rankings are made the
// same way everywhere. Package store/migrate moves collections between stores. docs/stores.md
// compares the stores.
//
// # Guarantees of every store
//
//   - Ids follow the rules of db: any string of 1 to db.MaxIDLen bytes of UTF-8 without control
//     characters.
//   - Metadata is returned unchanged: strings, bools, int64 of all 64 bits, float64, null, lists
//     and nested maps, with any key that db allows. Texts are returned unchanged, and vectors bit
//     by bit.
//   - A condition holds for a document exactly if filter.Match says so, also for missing keys and
//     inside Not.
//   - Scores of vector queries are cosines in [-1, 1], within 1e-5; a zero vector scores 0. Hits
//     are ordered by score, and by id where scores are equal.
//   - Writes are visible to Get, Scan and Count when they return; for a cluster see its package.
//
// # Errors
//
// Errors match the errors of db: db.ErrInvalid for invalid arguments, db.ErrDimensionMismatch for
// vectors of another dimension, db.ErrNotFound for collections that do not exist, db.ErrExists for
// names that are taken, db.ErrClosed. All other errors, such as a network failure or the end of a
// context, match none of these. Arguments are checked before anything is sent: after one of the
// first two errors, nothing was written.
package store
