// Package pgvector stores collections in PostgreSQL with its extension pgvector: a store.Store for
// programs that already use PostgreSQL, or have outgrown one machine. It needs pgvector 0.8 and a
// database in UTF-8; it is tested with PostgreSQL 17. It is a module of its own, so that other
// programs need not link pgx.
//
//	s, err := pgvector.Open(ctx, "postgres://user@host/database?vecbolt_hnsw=on", nil)
//	defer s.Close()
//	notes, err := s.Create(ctx, "notes", store.Schema{Dim: 384})
//
// # Storage
//
// A collection is a table in the schema Options.Schema, and a row of the table "collections" there.
// Ids are text in byte order. Metadata is jsonb that any client can query: meta->'author'->>'name'.
// Every float64 has a fraction there ("1.0"), which distinguishes it from an int64, and -0 is
// "0.00". PostgreSQL does not accept U+0000: in strings it is stored as U+0001 U+0001, and U+0001
// as U+0001 U+0002.
//
// # Guarantees
//
//   - Every condition is evaluated by the server, as filter.Match defines it, and values are always
//     parameters.
//   - Scores are the canonical scores of package db, bit by bit. Without an HNSW index the hits are
//     those of brute force, except among documents whose scores differ by less than pgvector's
//     float32 arithmetic resolves. With an HNSW index hits are approximate; there are k whenever k
//     documents match.
//   - Text queries find the same words as the text index of package db, because the tsvector is
//     made from its terms. They are ranked by PostgreSQL's ts_rank, not by BM25. If a text has more
//     than half a megabyte of distinct words, only the first words are found.
//   - Each call is one transaction, and pages come in order of id.
//   - Vectors have at most MaxDim components, with an HNSW index MaxHNSWDim.
package pgvector
