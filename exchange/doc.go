// Package exchange reads and writes vectors and documents in common formats: embedding caches
// (directories with one JSON array of numbers per file), JSONL (BEIR corpora and arrays of objects
// included), CSV, .fvecs, .bvecs and .npy. [Open] opens a path as a [Source]; [Import] writes the
// documents of a Source that differ from the stored ones into a collection; [JSONLWriter],
// [VecsWriter] and [NPYWriter] write. Decoders accept any input: they return values or an error,
// never panic, and allocate in proportion to the input. A reader or writer is for one goroutine.
//
// A source distinguishes three kinds of failure. A document that cannot be stored (a vector with
// NaN, a truncated cache file, an object of JSON with a number as its text) is skipped: the import
// logs its name and the reason, counts it and continues. A vector of another dimension matches
// [db.ErrDimensionMismatch], a file with a broken structure (a line that is not JSON) is a
// *[FormatError]: both end the import. Documents imported before the error stay.
//
// An import keeps the stored parts that its source does not carry: a vector file without texts
// keeps the stored texts, and a JSONL line without metadata keeps the metadata. Metadata is one
// part: a line with any of it replaces all of it.
package exchange
