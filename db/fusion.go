package db

import (
	"github.com/vecbolt/vecbolt/internal/fusion"
	"github.com/vecbolt/vecbolt/internal/query"
)

// A FusionMethod is a way to combine ranked lists.
type FusionMethod uint8

// The methods.
const (
	// Convex is the sum of weight · score, with each score scaled by the best one. The
	// scale starts at the least possible score, not at the least found (Bruch, Gai and
	// Ingber, TOIS 2023), so a vector model whose scores hardly differ has little
	// influence. The scaled score is s / best for the text; (s + 1) / (best + 1) for
	// Cosine; (s + best) / (2 · best), at least 0, for Dot, or best / s if best is negative;
	// and (1 + least) / (1 + d), with squared distances, for L2.
	Convex FusionMethod = iota
	// RRF is reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009): the sum
	// of weight / (C + rank) over the lists that have the document, with ranks from 1.
	RRF
)

// String returns the name that ParseFusionMethod reads.
func (m FusionMethod) String() string { return fusion.Method(m).String() }

// MarshalText implements encoding.TextMarshaler.
func (m FusionMethod) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *FusionMethod) UnmarshalText(b []byte) (err error) {
	*m, err = ParseFusionMethod(string(b))
	return err
}

// ParseFusionMethod reads "rrf" or "convex".
func ParseFusionMethod(s string) (FusionMethod, error) {
	for _, m := range []FusionMethod{Convex, RRF} {
		if s == m.String() {
			return m, nil
		}
	}
	return 0, invalidf("fusion %q: want rrf or convex", s)
}

// A Fusion says how a query with a vector and a text combines the two rankings. The zero
// value is the default.
//
// The true answer is the fusion of complete rankings of all matching documents. For
// Convex, a document with a vector or a match of the text counts with both scores, scaled
// by the best of all documents. For RRF, it counts with its ranks among all documents.
//
// Search first fuses the best documents of each ranking. The answer is exact if no other
// document can reach the last hit and, for RRF, if all ranks of the hits are known.
// Otherwise the search looks at more documents. It continues until the answer is exact if
// the query asks for an exact answer, or if few documents match. Any other search stops:
// for Convex after the best 1,024 texts or eight times Depth, whichever is more, for RRF
// at once. Its answer is not exact: Result.Recall is the share of it that is certain, and
// RRF counts unknown ranks as nothing.
type Fusion struct {
	Method FusionMethod
	// Vector and Text are the weights, from 0 to 1e6. If both are zero, Convex uses equal
	// weights, and RRF uses 0.01 and 0.99: RRF sees no scores, so with more weight a weak
	// vector model would spoil a good text ranking (docs/eval.md has the measurements).
	// For a model that is known to be good, start RRF with equal weights.
	Vector, Text float64
	// C is the constant of RRF, from 0 to 1e6; 0 means 60.
	C float64
	// Depth is the number of the best documents of each ranking that are combined at
	// first, at least the number of wanted hits. 0 means 100 for RRF. For Convex, which
	// looks up both scores of every document, 0 means three times the number of wanted
	// hits and at least 30. Depth does not change exact answers. Pages of one inexact
	// answer should all set the same Depth. Grouping fuses longer lists if necessary.
	Depth int
}

// rules returns f as package fusion takes it.
func (f Fusion) rules() fusion.Rules {
	return fusion.Rules{Method: fusion.Method(f.Method), Weights: [2]float64{f.Vector, f.Text}, C: f.C, Depth: f.Depth}
}

// A Leg is the place of a hit in one ranked list.
type Leg struct {
	// Name is "vector" or "text", or the index of the query in SearchFused.
	Name string `json:"name"`
	// Rank is the place in the list, from 1; 0 if the document is not among the ranked
	// ones.
	Rank int `json:"rank"`
	// Score is the score in this list; nil if the document has none: no vector, or none
	// of the words.
	Score *float64 `json:"score,omitempty"`
}

func legsOf(legs []query.Leg) []Leg {
	if legs == nil {
		return nil
	}
	all := make([]Leg, len(legs))
	for i, l := range legs {
		all[i] = Leg(l)
	}
	return all
}
