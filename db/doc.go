// Package db is an embedded vector database that can prove its answers.
//
// A [DB] is a directory that one process writes or many read. It holds
// [Collection]s of [Document]s: an id, a vector, a text and metadata, each but
// the id optional. A [Query] finds the documents nearest to a vector among
// those that a [filter.Expr] lets through; a [Batch] changes documents of any
// number of collections at once; a [Snapshot] is the whole database frozen at
// one moment.
//
//	vdb, err := db.Open("notes.vdb", nil)
//	defer vdb.Close()
//	notes, err := vdb.OpenCollection(ctx, "notes", db.Schema{Dim: 384})
//	_, err = notes.Upsert(ctx, db.Document{ID: "a", Vector: v, Text: "…", Metadata: db.Metadata{"lang": "go"}})
//	res, err := notes.Search(ctx, db.Query{Vector: q, K: 5, Where: filter.Eq("lang", "go")})
//	for _, h := range res.Hits { fmt.Println(h.ID, h.Score) }
//
// What holds (docs/guarantees.md has the tests that prove it):
//
//   - Durability: when a write returns nil it survives power loss, unless
//     [Options.Sync] says otherwise. Writers that wait together share an fsync.
//   - Atomicity: a batch is there whole or not at all, after any crash.
//   - Isolation: a read sees one state of all collections; a write is visible
//     to every read that starts after it returned. Readers never wait for
//     writers, flushes or compactions, and never hold them up.
//   - Exactness: the hits are those of brute force by the canonical score:
//     float64 products summed in a fixed order, the same bits on every CPU.
//     Ties go by id.
//   - Integrity: every byte that can influence an answer is under a checksum
//     which is verified before its first use. Damage is an error that matches
//     [ErrCorrupt] and names file and offset, never a wrong answer.
//
// Results are copies and belong to the caller. No goroutine outlives
// [DB.Close].
package db
