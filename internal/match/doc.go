// Package match decides which documents a filter or a text accepts.
//
// It is given a view of the engine and a filter, or a text query. It gives back the rows of each
// part that match, or the matches in order of id. It must never know how rows are ranked.
package match
