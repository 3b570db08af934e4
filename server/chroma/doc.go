// Package chroma answers the HTTP API of the Chroma database, version 2
// (/api/v2/…), from a Vecbolt database, so that programs written for Chroma's
// clients work unchanged:
//
//	api := chroma.New(vdb, nil)
//	srv, err := server.New(vdb, &server.Options{Extensions: []server.Extension{
//		{Pattern: chroma.Pattern, Handler: api, Writes: chroma.Writes}}})
//
// A collection of Chroma is a collection of the database, of the same name if
// it is in the default database of the default tenant, else of the name
// tenant/database/name. Records are documents; distances are made of scores:
// for "l2" the negated score, which is the squared distance, for "cosine" and
// "ip" one less the score. Answers are as exact as those of package db.
//
// docs/chroma.md says which calls there are and what differs. The API knows
// nothing of tokens: what may be read and written is decided by the server that
// it is mounted on.
package chroma
