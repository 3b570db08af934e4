// Package score holds the scores of vectors: the canonical one in float64, with the same bits on
// every CPU, and a fast one in float32 with a bound on its error.
//
// It is given a metric, a query vector and the vectors of rows. It must never know where rows come
// from, nor which of them are wanted.
package score
