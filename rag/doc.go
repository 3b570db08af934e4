// Package rag retrieves chunks of text for a prompt from cached embeddings, without calling a
// model. A [Retriever] holds an index; [Open] makes one of an embedding cache, a directory of files
// named by hash, each a JSON array of floats, and [New] of any collection. A query is the embedding
// of a question, and an [AgentConfig], which is validated before anything is searched; the answer
// is a list of [Chunk]s, best first, the same that brute force would give.
//
//	r, err := rag.Open(ctx, ".emb_cache", nil)
//	defer r.Close()
//	chunks, err := r.Retrieve(ctx, embedding, rag.AgentConfig{Name: "code-analyzer", TopK: 10, Threshold: 0.5, Tags: []string{"go"}})
//	for _, c := range chunks { fmt.Printf("%s: %.3f\n", c.ID, c.Score) }
//
// The index mirrors the cache: the id of a chunk is the name of its file, and <name>.meta.json, if
// there is one, its metadata, of which source_file, line_number, tags, chunk_index and chunk_length
// are the usual fields. A file that holds no vector is skipped with a warning; one whose vector has
// another dimension is an error. Reading an unchanged cache again writes nothing.
//
// Errors match [ErrLoad], [ErrQuery] or [ErrConfig], each of which matches [ErrRetrieval], and
// whatever caused them.
package rag
