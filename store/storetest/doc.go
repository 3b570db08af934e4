// Package storetest tests implementations of store.Store against the interface. Its oracles are
// package filter for conditions, and scores computed from the vectors for searches.
package storetest
