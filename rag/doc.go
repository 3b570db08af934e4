// Package rag retrieves chunks of text for a prompt. It calls no language model.
//
// A [Retriever] searches by embedding: the caller embeds the question and passes the vector. [Open]
// builds its index from an embedding cache, a directory of files that are named by hash and hold a
// JSON array of floats each; [New] takes any collection. An [AgentConfig], which is validated
// before the search, limits the result, a list of chunks, best first. Large collections are
// searched approximately, with the recall db.DefaultRecall.
//
//	r, err := rag.Open(ctx, ".emb_cache", nil)
//	defer r.Close()
//	chunks, err := r.Retrieve(ctx, embedding,
//		rag.AgentConfig{TopK: 10, Threshold: 0.5, Tags: []string{"go"}})
//	for _, c := range chunks { fmt.Printf("%s: %.3f\n", c.ID, c.Score) }
//
// A [Pipeline] takes the question as text. It embeds the question, searches by vector, by words or
// by both, reranks the chunks and builds a context for a language model.
//
// The index of Open mirrors the cache. The id of a chunk is the name of its file. Its metadata are
// in <name>.meta.json, if that file exists; usual fields are source_file, line_number, tags,
// chunk_index and chunk_length. A file without a vector is skipped with a warning. A vector of
// another dimension is an error. Reading an unchanged cache again writes nothing.
//
// Errors of a Retriever match [ErrLoad], [ErrQuery] or [ErrConfig], each of which matches
// [ErrRetrieval], and wrap their cause.
package rag
