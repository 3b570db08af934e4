// Package fusion combines several rankings of the same keys into one, by Convex or by RRF, and
// proves how much of the result is certain.
//
// It is given an Input: the best entries of each list, the number of wanted hits and, as function
// values, the ways to look deeper into the lists. It gives back an Output: the best keys in order,
// their places in each list, and the share of them that is certainly right. The true result is the
// fusion of complete lists.
//
// It must never know what a key is, nor how a list is ranked.
package fusion
