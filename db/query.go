package db

import (
	"cmp"
	"fmt"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/query"
	"github.com/vecbolt/vecbolt/text"
)

// DefaultK is the number of hits when Query.K is zero.
const DefaultK = 10

// A Query asks for the documents nearest to a target, for the documents whose text answers a text
// best, or for both.
type Query struct {
	// Near says whose neighbours to look for: a Vector, a Stored document or Examples. Nil means
	// that the query has Text alone.
	Near Target

	// Text searches the text index of the collection, which must have one, in the syntax of
	// text.Analyzer.Parse: words, "phrases", prefix*, +required, -excluded. Documents are ranked by
	// BM25; documents without any of the words are not found. With Near as well, both rankings are
	// fused, and required and excluded words restrict both.
	Text string
	// Fusion says how the rankings of Near and Text are fused. Hit.Score is then the fused score,
	// and Threshold, Offset, Group and MMR apply to the fused ranking.
	Fusion Fusion
	// Snippet asks for the best passage of each hit, of about this number of bytes; 0 means none.
	Snippet int

	// K is the maximum number of hits, below 2^31; 0 means DefaultK. With Group it counts groups.
	K int
	// Offset is the number of best hits to skip, below 2^31. With Group it counts groups.
	// Approximate pages may repeat some of equal hits and leave out others. So without Text, Group
	// and MMR, a page whose first hit has the score of the last one skipped is exact, whatever
	// Accuracy is.
	Offset int
	// Where restricts the search to documents that match; nil means all. It is applied before
	// ranking: K hits are found whenever K documents match.
	Where filter.Expr
	// Threshold is the minimum score, inclusive, not NaN; nil means none.
	Threshold *float64
	// Group, if set, asks for the best hits of each group of documents.
	Group *Group
	// MMR, if set, asks for hits that differ from each other. A query has Group or MMR, not both.
	MMR *MMR
	// Accuracy says how good the answer has to be: Exact, a Recall or an EF; nil means
	// DefaultRecall.
	Accuracy Accuracy
	// Select says what a hit carries; the zero value means text and metadata.
	Select Select
}

// A Group groups documents by the value of a field, such as the chunks of one text. The answer has
// the best hits of the K best groups. Groups are ordered by their best documents; hits of a group
// stand together, best first.
//
// Values are strings, numbers (1 and 1.0 are equal) and booleans. A document without the field, or
// with null, a list or a map in it, belongs to no group and is not found.
type Group struct {
	// Field is the path of the field, dotted as in filters.
	Field string
	// Size is the maximum number of hits per group, below 2^15; 0 means 1.
	Size int
}

// An MMR asks for maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998). Hits are taken
// from the Fetch best documents, one after the other: each time the document with the greatest
//
//	Lambda · score − (1 − Lambda) · greatest similarity to a document taken before
//
// and of equal ones the one with the higher score. Similarities are scores under the metric of the
// collection; documents without a vector are like no other. If the query has a text, the score is
// divided by the best one. Hits come in the order in which they were taken; MMR does not change
// their Score.
type MMR struct {
	// Lambda weighs relevance against diversity, from 0 (diversity alone) to 1 (relevance alone).
	// 0.7 is a good start against near-duplicates.
	Lambda float64
	// Fetch is the number of best documents to choose from, K plus Offset or more; 0 means five
	// times their sum. Set it when paging with Offset, so that all pages choose from the same
	// documents.
	Fetch int
}

// A Hit is a document with its score.
type Hit struct {
	Document
	// Score is higher for better hits under every metric; see Metric. It is
	// computed in float64 by one definition: the same bits on every machine.
	Score float64 `json:"score"`
	// Group is the value of Group.Field, if the query has one.
	Group any `json:"group,omitempty"`
	// Legs are the rank and the score of the document in each ranking of a fusion.
	Legs []Leg `json:"legs,omitempty"`
	// Snippet is the best passage of the text, if Query.Snippet asks for it.
	Snippet *text.Snippet `json:"snippet,omitempty"`
}

// A Result answers one Query.
type Result struct {
	// Hits are ordered by descending score, then by id; Group and MMR have orders of their own.
	Hits []Hit `json:"hits"`
	// Exact reports that the hits are the true answer: the same documents, scores and order as
	// brute force. It covers every search behind the answer: of each part of the collection, of
	// each group, and of both rankings of a fusion, whose true answer fuses the rankings of all
	// matching documents; see Fusion.
	Exact bool `json:"exact"`
	// Complete reports that there are K hits, or all that match and reach the Threshold; with
	// Group, K groups with Size hits each, or all there are. An exact answer is complete. An
	// approximate one may lack groups, or hits above the Threshold, that the search did not see.
	Complete bool `json:"complete"`
	// Recall is the promised share of the true answer; 1 if the answer is exact, 0 if nothing is
	// promised: see EF. If graphs were searched, it is the lowest promise of any search, as a mean
	// over queries. If fused rankings were cut off, it is a bound for this answer: the share of
	// hits that certainly belong to it. If both hold, they are multiplied. With Offset and MMR it
	// is about the documents that the hits are chosen from.
	Recall float64 `json:"recall"`
	// UsualRecall is the recall that was measured, with the settings of this search, for queries
	// that resemble the stored vectors. Recall is for the kind of queries that finds least. It is 1
	// if the answer is exact, and Recall where nothing else was measured: with EF, and with
	// settings that were raised or extrapolated.
	UsualRecall float64 `json:"usual_recall"`
	// Poor is the share of queries that found less than half of the true answer, as measured with
	// the settings of this search, in the kind of queries that has most of these. It is 0 if the
	// answer is exact, and where it was not measured.
	Poor float64 `json:"poor"`
	// Matched is the number of documents that match Where and have a vector. If the query has a
	// Text, it is the number of documents that match Where and the required and excluded words.
	// Group leaves out documents without a group, and Examples the examples.
	Matched int `json:"matched"`
	// Considered is the number of vectors compared with the query, summed over all searches of the
	// answer. It is 0 for a query by Text alone.
	Considered int `json:"considered"`
	// Plan says how the answer was found.
	Plan string `json:"plan"`
}

// IDs returns the ids of the hits, in order.
func (r *Result) IDs() []string {
	ids := make([]string, len(r.Hits))
	for i := range r.Hits {
		ids[i] = r.Hits[i].ID
	}
	return ids
}

// resolve returns q as the search takes it.
func (q *Query) resolve() (r query.Query, err error) {
	if q.Snippet < 0 || q.Snippet > MaxTextLen {
		return r, invalidf("snippet of %d bytes", q.Snippet)
	}
	r = query.Query{
		Text: q.Text, Fusion: q.Fusion.rules(), K: cmp.Or(q.K, DefaultK), Offset: q.Offset,
		Where: q.Where, Threshold: q.Threshold, Group: (*query.Group)(q.Group), MMR: (*query.MMR)(q.MMR),
	}
	if r.Near, err = targetOf(q.Near); err == nil {
		r.Accuracy, err = goalOf(q.Accuracy)
	}
	return r, err
}

// resolveAll resolves queries; an error names the query by its index if there are several.
func resolveAll(queries []Query) ([]query.Query, error) {
	all := make([]query.Query, len(queries))
	for i := range queries {
		var err error
		if all[i], err = queries[i].resolve(); err != nil && len(queries) > 1 {
			err = fmt.Errorf("query %d: %w", i, err)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
