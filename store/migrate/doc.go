// Package migrate copies collections from one store.Store to another: all documents, whole, in
// batches, with a checkpoint after each batch, so that an interrupted migration can resume, and
// with a comparison at the end.
package migrate
