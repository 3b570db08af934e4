// Package db is an embedded vector database that can prove its answers.
//
// A [DB] is a directory that any number of processes of one machine read and write: see [Open]. It
// holds collections of documents: see [Collection] and [Document]. A document has an id and,
// optionally, a vector, a text and metadata. A [Query] finds the documents nearest to a vector,
// among the documents that match a [filter.Expr]. A [Batch] changes documents of several
// collections at once. A [Snapshot] is the whole database at one moment.
//
//	vdb, err := db.Open("notes.vdb", nil)
//	defer vdb.Close()
//	notes, err := vdb.OpenCollection(ctx, "notes", db.Schema{Dim: 384})
//	_, err = notes.Upsert(ctx, db.Document{ID: "a", Vector: v, Text: "…", Metadata: db.Metadata{"lang": "go"}})
//	res, err := notes.Search(ctx, db.Query{Near: db.Vector(q), K: 5, Where: filter.Eq("lang", "go")})
//	for _, h := range res.Hits { fmt.Println(h.ID, h.Score) }
//
// Guarantees (docs/guarantees.md names the tests):
//
//   - Durability: when a write returns nil it survives power loss, unless [Options.Sync] says
//     otherwise. Writers that wait together share an fsync.
//   - Atomicity: after any crash, a batch is there whole or not at all.
//   - Isolation: a read sees one version of all collections. A write is visible to every read that
//     starts after it returned. Readers never wait for writers, flushes or compactions, and never
//     hold them up.
//   - Exactness: an answer with [Result.Exact] set has the hits of brute force by the canonical
//     score: float64 products summed in a fixed order, with the same bits on every CPU. Ties go by
//     id. A search by vector is exact unless it uses a graph.
//   - Recall: where it costs less, a search uses the graph of a large segment (three million vector
//     components or more). The answer is then not exact and states the recall that it promises,
//     [Result.Recall]: [DefaultRecall], unless [Query.Accuracy] asks for another one, or for
//     [Exact]. A promise is about the mean over queries of one kind, whether they resemble the
//     stored vectors or not. Hits always have canonical scores.
//   - Filters: a query with a filter finds min(K, matching documents) hits, exact or not. Only
//     [Query.Threshold] and [Query.Group] can leave fewer.
//   - Integrity: every byte that can influence an answer is under a checksum that is verified
//     before its first use. Damage is an error that matches [ErrCorrupt] and names file and offset,
//     never a wrong answer.
//
// Results are copies and belong to the caller. No goroutine outlives [DB.Close].
package db
