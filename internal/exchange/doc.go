// Package exchange reads and writes the formats in which vectors and documents come and go:
// embedding caches, JSONL (BEIR corpora included), .fvecs, .bvecs and .npy. [Open] makes a [Source]
// of a path, [Import] brings a Source into a collection and writes only what differs from what is
// stored; [JSONLWriter], [VecsWriter] and [NPYWriter] write. Whatever a decoder is given, it
// answers with values or an error: it does not panic, and it allocates in proportion to its input.
//
// A source distinguishes three kinds of trouble. A document that cannot be stored (a vector with
// NaN, a cache file that is cut off) is skipped: the import logs it with its name and the reason,
// counts it and goes on. A vector of another dimension is a *[db.DimensionError], a file whose
// structure is broken a *[FormatError]: both end the import. What was imported before stays.
//
// An import leaves alone what its source does not speak of: a vector file without texts keeps the
// texts that are stored, and a JSONL line without the key "metadata" keeps the metadata.
package exchange
