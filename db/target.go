package db

import (
	"math"

	"github.com/vecbolt/vecbolt/internal/nearest"
	"github.com/vecbolt/vecbolt/internal/query"
)

// A Target says whose neighbours a query looks for: a Vector, a Stored document or Examples.
type Target interface{ isTarget() }

// Vector looks for the neighbours of a vector. It has the dimension of the collection and finite
// components.
type Vector []float32

// Stored looks for the neighbours of a stored document, named by its id. The document itself is
// among the hits. If it does not exist, the search returns ErrNotFound.
type Stored string

// Examples looks for documents like some and unlike others, named by their ids. The query vector is
// 2·mean(Like) − mean(Unlike), or mean(Like) without Unlike; with Cosine, examples are normalised
// first. Like must not be empty. The examples themselves are not among the hits.
type Examples struct {
	Like   []string
	Unlike []string
}

// heldOut is Stored, and the document counts as not stored: for tests of recall.
type heldOut string

func (Vector) isTarget()   {}
func (Stored) isTarget()   {}
func (Examples) isTarget() {}
func (heldOut) isTarget()  {}

// targetOf returns a target as the search takes it; nil stays nil.
func targetOf(t Target) (query.Target, error) {
	switch t := t.(type) {
	case nil:
		return nil, nil
	case Vector:
		return query.Vector(t), nil
	case Stored:
		return query.Stored(t), nil
	case heldOut:
		return query.HeldOut(t), nil
	case Examples:
		return query.Examples(t), nil
	}
	return nil, invalidf("query target of type %T", t)
}

// An Accuracy says how good an answer has to be: a Recall, such as Exact, or an EF.
type Accuracy interface{ isAccuracy() }

// A Recall is the share of the true answer that is enough, above 0 and up to 1. It is a promise
// about the mean over queries of one kind: queries that resemble the stored vectors, and others,
// such as questions to passages or means of examples. Queries that resemble the vectors find more.
// The answer is exact where an exact one costs no more. Recall(0) means DefaultRecall.
type Recall float64

const (
	// Exact asks for the true answer, whatever it costs.
	Exact Recall = 1
	// DefaultRecall is promised when Query.Accuracy is nil.
	DefaultRecall Recall = 0.95
)

// An EF is the beam width of a graph search, the parameter ef of HNSW (Malkov and Yashunin, TPAMI
// 2020): the number of candidates that it keeps, at least 1. It asks for no recall; Result.Recall
// is the recall that calibration measured at this width. For a query that is farther from the rows
// than any that calibration has asked, Result.Recall is 0: none is known. With a Recall, a scan
// answers such queries.
type EF int

func (Recall) isAccuracy() {}
func (EF) isAccuracy()     {}

// goalOf validates an accuracy; nil is DefaultRecall.
func goalOf(a Accuracy) (nearest.Goal, error) {
	switch a := a.(type) {
	case nil:
		return nearest.Goal{Recall: float64(DefaultRecall)}, nil
	case Recall:
		switch {
		case a == 0:
			a = DefaultRecall
		case !(a > 0 && a <= 1):
			return nearest.Goal{}, invalidf("recall is %v, not between 0 and 1", float64(a))
		}
		return nearest.Goal{Recall: float64(a)}, nil
	case EF:
		if a < 1 || a > math.MaxInt32 {
			return nearest.Goal{}, invalidf("ef is %d, not between 1 and 2^31-1", int(a))
		}
		return nearest.Goal{EF: int(a)}, nil
	default:
		return nearest.Goal{}, invalidf("query accuracy of type %T", a)
	}
}
