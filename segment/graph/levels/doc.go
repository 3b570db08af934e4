// Package levels chooses how far the searches of a graph go for a recall.
//
// When a graph is built, it searches for queries of many kinds, the trials, with many settings. A
// [Chooser] makes levels of what they found: a [Level] is a [Setting] with the recall that every
// kind of query gets, and with its cost. A [Table] has the levels that are worth keeping, and
// answers a search with the cheapest setting that gives the recall it asks for. docs/calibration.md
// says how levels are chosen, and docs/format/graph.md how they are stored.
//
// The package needs no vectors and reads no files: a graph gives it samples and prices, and stores
// the levels. The API is for the packages of this module: it may change in any release.
package levels
