package db

import (
	"cmp"
	"math"
	"unicode/utf8"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/engine"
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

	// Text is a text to look for, in the syntax that text.Analyzer.Parse reads:
	// words, "phrases", prefix*, +required, -excluded. Documents are ranked by
	// BM25; those that have nothing of it are not found. The collection must
	// have a text index. With a vector as well, both rankings are fused;
	// what is required and excluded holds for both.
	Text string
	// Fusion says how; Score is then that of the fusion, and Threshold, Offset,
	// Group and MMR apply to what was fused.
	Fusion Fusion
	// Snippet asks for the passage of each hit that answers Text best, of about
	// that many bytes.
	Snippet int

	// K is the most hits wanted; 0 means DefaultK. If fewer documents match,
	// all of them are returned. With Group it is the most groups.
	K int
	// Offset skips that many of the best hits first; of groups, with Group.
	Offset int
	// Where restricts the search to documents that match; nil to all. It is
	// applied before ranking: K hits are found whenever K documents match.
	Where filter.Expr
	// Threshold is the least score wanted, inclusive; nil is no bound.
	Threshold *float64
	// Group, if set, asks for the best hits of each group of documents.
	Group *Group
	// MMR, if set, asks for hits that differ from each other.
	MMR *MMR
	// Accuracy says how good the answer has to be: Exact, a Recall or an EF; nil means
	// DefaultRecall.
	Accuracy Accuracy
	// Select says what a hit carries; the zero value means text and metadata.
	Select Select
}

// A Group makes groups of the documents that have the same value in a field,
// such as the chunks of one text. The hits are those of the K best groups, a
// group being as good as its best document; hits of a group are together,
// the best first.
//
// Values are strings, numbers (1 and 1.0 are the same) and booleans:
// documents without the field, or where it is null, a list or a map, are in no
// group and are not found.
type Group struct {
	// Field is the path of the field, dotted as in filters.
	Field string
	// Size is the most hits of each group; 0 means 1.
	Size int
}

func (g *Group) size() int { return max(1, g.Size) }

// An MMR asks for maximal marginal relevance (Carbonell and Goldstein, SIGIR
// 1998): one after the other, of the Fetch best documents, the one is taken for
// which
//
//	Lambda · its score − (1 − Lambda) · its greatest similarity to one that was taken
//
// is greatest; of equal ones the one with the higher score. Similarities are scores under the
// metric of the collection; documents without a vector are like no other. If the query has a text,
// the score is divided by the best one. Hits come in the order in which they were taken; MMR
// does not change their Score.
type MMR struct {
	// Lambda is between 0, nothing but diversity, and 1, nothing but
	// relevance. 0.7 is a good start where near-duplicates are to be avoided.
	Lambda float64
	// Fetch is how many of the best documents to choose from; 0 means five
	// times K plus Offset. Pages of one answer should name it.
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
	// Legs is what each of the rankings says that were fused, if any were.
	Legs []Leg `json:"legs,omitempty"`
	// Snippet is the best passage of the text, if Query.Snippet asks for it.
	Snippet *text.Snippet `json:"snippet,omitempty"`
}

// A Result answers one Query.
type Result struct {
	// Hits are ordered by score, best first, and by id where scores are equal;
	// see Group and MMR for the order that these make.
	Hits []Hit `json:"hits"`
	// Exact means that the hits are the true answer: no other document belongs
	// here, and no other score or order. It holds for every search that the
	// answer took: that of each part of the collection, of each group, and of
	// both rankings of a fusion, where the truth is what rankings of all
	// matching documents give; see Fusion.
	Exact bool `json:"exact"`
	// Complete means that nothing can be added: there are as many hits as were
	// asked for, or all that match and reach the Threshold; with Group, as many
	// groups, and as many hits of each. An exact answer is complete. Another one
	// can lack hits above a Threshold, or groups, that the search did not see.
	Complete bool `json:"complete"`
	// Recall is the share of the true answer that is promised; 1 if the answer
	// is exact. Where a graph was used it is the least that any of the
	// searches promises, as a mean over queries. Where rankings were fused that
	// do not show everything, it is a bound for this answer: the share of the hits
	// that certainly belong here. A bound and a promise are multiplied. With Offset
	// and MMR it is about the documents that hits are taken from.
	Recall float64 `json:"recall"`
	// Matched is the number of documents with a vector that match Where, or, if
	// the query has a text, of all documents that match Where and have what
	// the text requires and nothing that it excludes; of
	// those that are in a group, with Group, and that are no examples, with Examples.
	Matched int `json:"matched"`
	// Considered is the number of vectors whose score was looked at, of all
	// searches together, so that one that several of them saw counts again. It
	// is 0 if the query is but a text.
	Considered int `json:"considered"`
	// Plan says how the answer was found.
	Plan string `json:"plan"`
}

// limit returns how many of the best hits have to be known.
func (q *Query) limit() int { return cmp.Or(q.K, DefaultK) + q.Offset }

func (q *Query) validate(def *engine.Definition) error {
	switch {
	case q.K < 0:
		return engine.Invalidf("k is %d", q.K)
	case q.Offset < 0:
		return engine.Invalidf("offset is %d", q.Offset)
	case q.K > math.MaxInt32 || q.Offset > math.MaxInt32:
		return engine.Invalidf("k %d with offset %d is beyond 2^31", q.K, q.Offset)
	case q.Snippet < 0 || q.Snippet > MaxTextLen:
		return engine.Invalidf("snippet of %d bytes", q.Snippet)
	case !utf8.ValidString(q.Text):
		return engine.Invalidf("the text of the query is not valid UTF-8")
	case q.Near == nil && q.Text == "":
		return engine.Invalidf("query has neither a target to be near to nor a text")
	case q.Group != nil && q.MMR != nil:
		return engine.Invalidf("query has groups and maximal marginal relevance")
	case q.Group != nil && (q.Group.Size < 0 || q.Group.Size > math.MaxInt16):
		return engine.Invalidf("group size is %d", q.Group.Size)
	case q.MMR != nil && !(q.MMR.Lambda >= 0 && q.MMR.Lambda <= 1):
		return engine.Invalidf("lambda is %v, not between 0 and 1", q.MMR.Lambda)
	case q.MMR != nil && (q.MMR.Fetch < 0 || q.MMR.Fetch > math.MaxInt32 || q.MMR.Fetch > 0 && q.MMR.Fetch < q.limit()):
		return engine.Invalidf("maximal marginal relevance among %d for %d hits", q.MMR.Fetch, q.limit())
	case q.Threshold != nil && math.IsNaN(*q.Threshold):
		return engine.Invalidf("threshold is NaN")
	}
	if err := q.Fusion.validate(); err != nil {
		return err
	}
	if _, err := goalOf(q.Accuracy); err != nil {
		return err
	}
	if err := validateTarget(q.Near, def); err != nil {
		return err
	}
	if q.Group != nil {
		if err := filter.Validate(filter.Exists(q.Group.Field)); err != nil {
			return engine.Invalidf("group: %v", err)
		}
	}
	if q.Where != nil {
		if err := filter.Validate(q.Where); err != nil {
			return engine.Invalidf("where: %v", err)
		}
	}
	return nil
}
