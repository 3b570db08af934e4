// Package replica copies a database while it is open: to a folder of versions that read-only
// processes follow (Publisher), and to a database of its own (Backup).
//
// It is given an engine, whose current version it holds while it copies, and a directory outside
// the database. It gives back complete copies only: the manifest of a version, and the meta.bolt of
// a backup, are written last. A copy never has a batch that the database may still lose.
//
// Following a published folder is part of package engine, because its reader replaces the version
// that readers see. This package must never know how a version is searched, nor the types that
// users of package db see.
package replica
