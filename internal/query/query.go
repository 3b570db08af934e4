package query

import (
	"math"
	"unicode/utf8"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/document"
	"github.com/vecbolt/vecbolt/internal/engine"
	"github.com/vecbolt/vecbolt/internal/fusion"
	"github.com/vecbolt/vecbolt/internal/nearest"
	"github.com/vecbolt/vecbolt/simd"
)

// A Query says which rows to rank, and how. Its fields mean what the fields of db.Query mean.
type Query struct {
	Near      Target // nil: it has Text alone
	Text      string
	Fusion    fusion.Rules
	K         int
	Offset    int
	Where     filter.Expr // nil: all
	Threshold *float64    // nil: none
	Group     *Group      // nil: no groups
	MMR       *MMR        // nil: by score alone
	Accuracy  nearest.Goal
}

// A Group asks for the best rows of each value of a field.
type Group struct {
	Field string
	Size  int // 0: 1
}

func (g *Group) size() int { return max(1, g.Size) }

// An MMR asks for maximal marginal relevance.
type MMR struct {
	Lambda float64
	Fetch  int // 0: five times the sum of K and Offset
}

// A Target says whose neighbours a query looks for: a Vector, Stored, HeldOut or Examples.
type Target interface{ isTarget() }

type (
	// Vector is the query vector.
	Vector []float32
	// Stored is the id of a document, whose vector is the query vector.
	Stored string
	// HeldOut is Stored, and the search treats the document as not stored.
	HeldOut string
	// Examples are ids of documents: the query vector is 2·mean(Like) − mean(Unlike).
	Examples struct{ Like, Unlike []string }
)

func (Vector) isTarget()   {}
func (Stored) isTarget()   {}
func (HeldOut) isTarget()  {}
func (Examples) isTarget() {}

// limit returns how many of the best rows have to be known.
func (q *Query) limit() int { return q.K + q.Offset }

// check returns ErrInvalid or a *DimensionError unless a collection can answer q.
func (q *Query) check(def *engine.Definition) error {
	switch {
	case q.K < 0:
		return document.Invalidf("k is %d", q.K)
	case q.Offset < 0:
		return document.Invalidf("offset is %d", q.Offset)
	case q.K > math.MaxInt32 || q.Offset > math.MaxInt32:
		return document.Invalidf("k %d with offset %d is beyond 2^31", q.K, q.Offset)
	case !utf8.ValidString(q.Text):
		return document.Invalidf("the text of the query is not valid UTF-8")
	case q.Near == nil && q.Text == "":
		return document.Invalidf("query has neither a target to be near to nor a text")
	case q.Group != nil && q.MMR != nil:
		return document.Invalidf("query has groups and maximal marginal relevance")
	case q.Group != nil && (q.Group.Size < 0 || q.Group.Size > math.MaxInt16):
		return document.Invalidf("group size is %d", q.Group.Size)
	case q.MMR != nil && !(q.MMR.Lambda >= 0 && q.MMR.Lambda <= 1):
		return document.Invalidf("lambda is %v, not between 0 and 1", q.MMR.Lambda)
	case q.MMR != nil && (q.MMR.Fetch < 0 || q.MMR.Fetch > math.MaxInt32 || q.MMR.Fetch > 0 && q.MMR.Fetch < q.limit()):
		return document.Invalidf("maximal marginal relevance among %d for %d hits", q.MMR.Fetch, q.limit())
	case q.Threshold != nil && math.IsNaN(*q.Threshold):
		return document.Invalidf("threshold is NaN")
	}
	if err := q.Fusion.Check(); err != nil {
		return document.Invalidf("%v", err)
	}
	if err := checkTarget(q.Near, def); err != nil {
		return err
	}
	if q.Group != nil {
		if err := filter.Validate(filter.Exists(q.Group.Field)); err != nil {
			return document.Invalidf("group: %v", err)
		}
	}
	if q.Where != nil {
		if err := filter.Validate(q.Where); err != nil {
			return document.Invalidf("where: %v", err)
		}
	}
	return nil
}

// checkTarget returns an error if a target cannot be looked for; nil means no target.
func checkTarget(t Target, def *engine.Definition) error {
	switch t := t.(type) {
	case Vector:
		switch {
		case len(t) == 0:
			return document.Invalidf("the query vector is empty")
		case def.Schema.Dim != 0 && len(t) != def.Schema.Dim:
			return &engine.DimensionError{Collection: def.Name, Expected: def.Schema.Dim, Got: len(t)}
		case !simd.Finite(t):
			return document.Invalidf("query vector holds NaN or infinity")
		}
	case Stored:
		if t == "" {
			return document.Invalidf("the id of the document to look for is empty")
		}
	case Examples:
		switch {
		case len(t.Like) == 0 && len(t.Unlike) == 0:
			return document.Invalidf("query has no examples")
		case len(t.Like) == 0:
			return document.Invalidf("query has examples of what is not wanted only")
		}
	}
	return nil
}
