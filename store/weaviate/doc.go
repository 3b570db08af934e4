// Package weaviate is a store.Store on a cluster of Weaviate, over plain REST and GraphQL: for
// databases that have outgrown one machine.
//
//	s, err := weaviate.Open(ctx, []string{"10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:8080"}, nil)
//
// # Storage
//
// A collection is a class; names.go defines its name. The description of the class is JSON: the
// name and the schema of the collection. An object has the UUIDv5 of the id, the vector, and four
// properties: docid, text, meta (the metadata as JSON, exact, not indexed) and terms.
//
// Conditions use only terms: one list of words per object, made from the metadata. There is no
// property per key. Therefore keys are unrestricted, documents may disagree on types, no write
// changes the schema of the cluster, and integers are compared with all 64 bits. A number
// contributes the prefixes of a sortable form, by which a range is a small set of words, as in the
// numeric fields of Lucene (Schindler and Diepenbroek, "Generic XML-based framework for metadata
// portals", Computers & Geosciences 34, 2008). Strings contribute prefixes of ten bytes, enough for
// dates. Where this is not enough, and for prefixes of more than 120 bytes, the server finds a
// superset and this package checks the metadata. terms.go defines the words, where.go the
// conditions.
//
// # Consistency
//
// With replicas, writes and reads by id use QUORUM: a read finds every completed write, also when
// one of three nodes is down. Searches, Scan, Count and DeleteWhere read one replica of each shard
// and may miss a recent write; they see all writes at once if writes wait for all replicas
// (Options.WriteAll).
//
// Each call is tried on the endpoints in turn until one answers or the deadline ends; all calls are
// idempotent. Only the counts that Delete and DeleteWhere return may be too low after a retry.
package weaviate
