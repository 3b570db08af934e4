// Package storetest holds implementations of store.Store to what the interface
// says. Its oracles are package filter for conditions, and scores computed from
// the vectors for searches.
package storetest
