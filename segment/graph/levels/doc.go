// Package levels chooses how far the searches of a graph go for a recall.
//
// A graph that is built searches for trials, which are queries of many kinds, with many settings. A
// [Chooser] turns the results into levels: a [Level] is a [Setting] with its cost and its recall,
// which is the recall of the worst kind of query. A [Table] keeps the levels that are worth their
// cost. It returns the cheapest setting with the recall that a search asks for. docs/calibration.md
// says how levels are chosen, and docs/format/graph.md how they are stored.
//
// The package needs no vectors and reads no files: a graph gives it samples and prices, and stores
// the levels. The API is for the packages of this module: it may change in any release.
package levels
