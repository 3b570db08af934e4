// Package migrate moves collections from one store.Store to another: all of
// their documents, whole, in batches; with a checkpoint after each, so that what
// was cut short goes on where it stopped; and with a comparison at the end.
package migrate
