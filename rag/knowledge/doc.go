// Package knowledge keeps knowledge bases: directories of documents that were read,
// split, embedded and indexed, ready to be asked.
//
// A base has one embedding configuration, in BASE/config.yaml and pinned inside
// its database, because vectors of different models cannot be compared. The first
// [Engine.Learn] makes it; later ones must agree, or clean the base first.
// Learning again costs nothing for files that have not changed; files that are
// gone disappear.
//
//	engine, err := knowledge.New("knowledge", nil)
//	report, err := engine.Learn(ctx, "notes", knowledge.LearnOptions{Paths: []string{"docs"}})
//	response, err := engine.Query(ctx, "notes", "how are writes made durable?", knowledge.QueryOptions{K: 5})
//	fmt.Println(response.Context)
//
// The database is a Vecbolt database like any other, with the collections
// "chunks" and "files".
package knowledge
