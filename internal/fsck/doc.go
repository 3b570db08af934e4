// Package fsck checks databases and salvages damaged ones.
//
// It is given an open engine (Check), or the directory of a database that does not open
// (CheckFiles, Repair). It gives back reports: each problem with its file and offset where they are
// known, and each loss with its id. A check changes nothing. Repair writes only to a new database,
// through its engine, and saves only what checksums prove to be intact.
//
// It must never know how documents are searched, nor the types that users of package db see.
package fsck
