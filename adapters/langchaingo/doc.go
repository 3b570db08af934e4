// Package langchaingo makes a Vecbolt database a vector store of github.com/tmc/langchaingo, and
// Vecbolt's embedders embedders of langchaingo. It is a separate module, because langchaingo has
// many dependencies.
//
//	store, err := langchaingo.New(vdb, langchaingo.Embedder(model), nil)
//	ids, err := store.AddDocuments(ctx, docs)
//	chain := chains.NewRetrievalQAFromLLM(llm, vectorstores.ToRetriever(store, 5))
//
// Any other embeddings.Embedder works as well.
package langchaingo
