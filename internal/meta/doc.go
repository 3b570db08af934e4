// Package meta keeps the root of a database, meta.bolt: documents, ids, collections, the table of
// segments with their dead rows, and the flushed part of the log. A [Store] is the open file; all
// access is through a [Tx], inside [Store.View] or [Store.Update]. No other package knows bbolt.
//
// Guarantees:
//
//   - An Update is atomic across a crash, and durable once it has returned nil. If its commit
//     failed, the content on disk is unknown until the file is reopened, so later Updates are
//     refused.
//   - Every value carries a CRC-32C over its bucket, its key and itself, verified on every read.
//     Counts and digests, stored with the values, reveal missing and extra records; [Store.Check]
//     compares them. Damage is a [fileformat.CorruptError] with the file, the bucket and the key.
//   - bbolt trusts its file. Open therefore verifies the structure of the whole file, unless
//     [Store.Seal] has left page checksums: then each page is verified before bbolt first reads it.
//     A panic of bbolt and a fault of the mapped memory become errors.
//
// docs/format/meta.md and docs/format/sums.md specify the formats.
package meta
