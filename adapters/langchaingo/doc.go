// Package langchaingo makes a Vecbolt database a vector store of github.com/tmc/langchaingo, and
// Vecbolt's embedders embedders of it. It is a module of its own, because langchaingo brings many
// others.
//
//	store, err := langchaingo.New(vdb, langchaingo.Embedder(model), nil)
//	ids, err := store.AddDocuments(ctx, docs)
//	chain := chains.NewRetrievalQAFromLLM(llm, vectorstores.ToRetriever(store, 5))
//
// Any other embeddings.Embedder will do as well.
package langchaingo
