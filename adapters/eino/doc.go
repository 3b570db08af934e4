// Package eino makes a Vecbolt database a retriever and an indexer of github.com/cloudwego/eino,
// and Vecbolt's embedders embedders of eino. It is a separate module, because eino has many
// dependencies.
//
//	store, err := eino.New(vdb, eino.Embedder(model), nil)
//	ids, err := store.Store(ctx, docs)
//	err = graph.AddRetrieverNode("retriever", store)
//
// A rag.RetrieverNode needs no adapter: its method Run is a function for compose.InvokableLambda.
package eino
