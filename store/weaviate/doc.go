// Package weaviate is a store.Store over a cluster of Weaviate, by plain REST
// and GraphQL: what a database that has outgrown one machine moves to.
//
//	s, err := weaviate.Open(ctx, []string{"10.0.0.1:8080", "10.0.0.2:8080", "10.0.0.3:8080"}, nil)
//
// # How documents are kept
//
// A collection is a class; names.go says how it is called. The description of
// the class is JSON: the name and the schema of the collection. An object has
// the UUIDv5 of the id, the vector, and four properties: docid, text, meta (the
// metadata as JSON, exact, not indexed) and terms.
//
// Terms are words made of the metadata, one list of them per object, and all that
// conditions look at: there is no property per key, so that keys may be what they
// like, documents need not agree on types, no write changes the schema of the
// cluster, and integers are compared with all of their 64 bits. A number gives
// the prefixes of a sortable form, by which a range is a small set of words, as
// in the numeric fields of Lucene (Schindler and Diepenbroek, "Generic
// XML-based framework for metadata portals", Computers & Geosciences 34, 2008).
// Strings have ten bytes of that, enough for dates; where this is not enough, and for prefixes of
// more than 120 bytes, the server finds a superset and this package looks at the
// metadata. terms.go has the words, where.go the conditions.
//
// # Consistency
//
// With replicas, writes and reads by id are done at QUORUM: what was written is
// read, also when one of three nodes is down. Searches, Scan, Count and
// DeleteWhere read one replica of each shard and may miss a write for a moment;
// they see all of it at once when writes wait for all replicas (Options.WriteAll).
//
// Each call is tried on the endpoints in turn until one answers or the deadline
// ends; all calls can be repeated without harm. Only the counts that Delete and
// DeleteWhere return may be too low after such a repetition.
package weaviate
