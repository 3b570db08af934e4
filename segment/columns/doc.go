// Package columns keeps the metadata of a segment by field, so that a filter is answered for all
// rows at once. A [Builder] takes rows of metadata, or rows of older columns, and returns a file;
// [Parse] opens such a file, usually mapped, as [Columns]; [Columns.Eval] turns a [filter.Expr]
// into the set of rows that match it.
//
// Guarantees:
//
//   - Eval gives the answer of [filter.Match] for every row and every expression.
//   - Parse takes any bytes: it does not panic, copies nothing where the machine allows views, and
//     accepts only files on which no method of Columns can fail. Every byte is covered by a
//     CRC-32C.
//   - A file belongs to one version of one segment: Parse refuses it for any other.
//   - Equal rows give equal bytes.
//
// Columns are derived data: a damaged or missing file can be rebuilt from the documents.
//
// A column holds one code per row and a sorted dictionary of the distinct values. An operator
// selects a few ranges of codes by binary search, and the scan compares integers of 1, 2 or 4
// bytes. Equal numbers share a code, whether int64 or float64. Lists and maps have codes of their
// own in the column of their path; the elements of lists are a second column of the same path, in
// which a row may have many codes. Columns that few rows have store the rows beside the codes.
// docs/format/columns.md specifies the file.
//
// A Builder is not safe for concurrent use. Columns are, as long as the bytes given to Parse stay
// mapped; they are immutable, and no result shares memory with them. Code that reads mapped bytes,
// Parse and AddFrom and Bytes included, belongs inside vfs.Guard: an unreadable sector shows as a
// memory fault.
//
// The format is stable. The API is for the packages of this module: it may change in any
// release.
package columns
