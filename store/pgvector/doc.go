// Package pgvector keeps collections in PostgreSQL, with its extension pgvector:
// a store.Store for those who run PostgreSQL already, or have outgrown one
// machine. It needs pgvector 0.8 and a database in UTF-8; it is tested with
// PostgreSQL 17. The module is apart so that others need not link pgx.
//
//	s, err := pgvector.Open(ctx, "postgres://user@host/database?vecbolt_hnsw=on", nil)
//	defer s.Close()
//	notes, err := s.Create(ctx, "notes", store.Schema{Dim: 384})
//
// # What is kept, and how
//
// A collection is a table in the schema Options.Schema, and a row of the table
// "collections" there. Ids are text in the order of bytes. Metadata is jsonb that
// anybody can query: meta->'author'->>'name'. Every float64 has a fraction there
// ("1.0"), which tells it from an int64, and -0 is "0.00"; U+0000, which PostgreSQL
// does not take, is U+0001 U+0001 in strings, and U+0001 is U+0001 U+0002.
//
// # What holds
//
//   - Every condition is evaluated by the server, as filter.Match defines it, and
//     values are always parameters.
//   - Scores are the canonical ones of package db, bit by bit. Without an HNSW
//     index the hits are those of brute force, except among documents whose scores
//     differ by less than the float32 arithmetic of pgvector resolves. With one
//     they are approximate; there are k whenever k documents match.
//   - Words are found as by the text index of package db, of whose terms a tsvector
//     is made; they are ranked by PostgreSQL's ts_rank, not by BM25. In a text of
//     more than half a megabyte of distinct words, the words that come first
//     are found.
//   - Each call is one transaction, and pages come in order of id.
//   - Vectors have at most MaxDim components, with an HNSW index MaxHNSWDim.
package pgvector
