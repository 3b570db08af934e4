// Package knowledge keeps knowledge bases: directories of documents that are read, split, embedded
// and indexed for questions.
//
// A base has one embedding configuration, in BASE/config.yaml and pinned inside its database,
// because vectors of different models cannot be compared. The first [Engine.Learn] creates it;
// later calls must agree with it, or the base must be cleaned first. Learning again costs nothing
// for unchanged files and removes deleted files from the base.
//
//	engine, err := knowledge.New("knowledge", nil)
//	report, err := engine.Learn(ctx, "notes", knowledge.LearnOptions{Paths: []string{"docs"}})
//	response, err := engine.Query(ctx, "notes", "how are writes made durable?",
//		knowledge.QueryOptions{K: 5})
//	fmt.Println(response.Context)
//
// The database of a base is a normal Vecbolt database with the collections "chunks" and "files".
package knowledge
