// Package meta keeps the root of a database, meta.bolt: documents, ids, collections, the table of
// segments with their dead rows, and how far the log has been flushed. A [Store] is the open file;
// everything happens in a [Tx], inside [Store.View] or [Store.Update]. It is the only package that
// knows bbolt.
//
// Guarantees:
//
//   - An Update is there as a whole after a crash, or not at all; once it has returned nil it is durable. After an Update
//     whose commit failed, nothing is known until the file is opened again, so all later ones are refused.
//   - Every value carries a CRC-32C over its bucket, its key and itself, compared on every read. Counts and digests, kept
//     with the values, show a record that is missing or that should not be there; [Store.Check] compares them. What does
//     not hold is a [fileformat.CorruptError] that names the file, the bucket and the key.
//   - bbolt trusts its file. Open looks at the structure of all of it, unless [Store.Seal] has left checksums of its pages:
//     then each page is compared before bbolt first goes there. Whatever else bbolt trips over, panic or fault of the mapped
//     memory, becomes an error.
//
// docs/format/meta.md and docs/format/sums.md are the norm of the formats.
package meta
