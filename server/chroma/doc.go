// Package chroma answers the HTTP API of the Chroma database, version 2
// (/api/v2/…), from a Vecbolt database, so that programs written for Chroma's
// clients work unchanged:
//
//	api := chroma.New(vdb, nil)
//	srv, err := server.New(vdb, &server.Options{Extensions: []server.Extension{
//		{Pattern: chroma.Pattern, Handler: api, Writes: chroma.Writes, Owns: []string{chroma.Registry}}}})
//
// A Chroma collection is a collection of the database. In the default database of the default
// tenant it has the same name, elsewhere the name tenant/database/name. Records are documents.
// Distances are computed from scores: for "l2" the negated score, which is the squared distance;
// for "cosine" and "ip" 1 - score. Answers are as exact as the answers of package db.
//
// docs/chroma.md lists the supported calls and the differences. The API does not check tokens: the
// server that it is mounted on does.
package chroma
