package filter

import (
	"slices"
	"strings"
)

// Match reports whether a document meets e; get returns the value at a path
// ("author.name") and whether there is one, as [Lookup] does. Values are those
// of the package comment; any other type counts as one that nothing equals.
// A nil e matches every document. Match is the reference: whatever evaluates
// conditions faster gives the same answers.
//
// Metadata does not tell whether a [TextMatch] holds. Match asks get for the
// path [TextPath] followed by the query, which is no path of metadata: it holds
// if the value is true, hence never if get is Lookup.
func Match(e Expr, get func(path string) (any, bool)) bool {
	return e == nil || match(e, get)
}

// TextPath begins the paths by which [Match] asks for a [TextMatch].
const TextPath = "$text "

func match(e Expr, get func(path string) (any, bool)) bool {
	switch e := e.(type) {
	case *Comparison:
		v, ok := get(e.Field)
		return ok && e.holds(v)
	case *Membership:
		v, ok := get(e.Field)
		return ok && slices.ContainsFunc(e.Values, func(w any) bool { return equal(v, w) })
	case *Existence:
		_, ok := get(e.Field)
		return ok
	case *TextMatch:
		v, ok := get(TextPath + e.Query)
		return ok && v == true
	case *Conjunction:
		for _, arg := range e.Args {
			if !match(arg, get) {
				return false
			}
		}
		return true
	case *Disjunction:
		for _, arg := range e.Args {
			if match(arg, get) {
				return true
			}
		}
		return false
	case *Negation:
		return !match(e.Arg, get)
	}
	return false // a nil argument: Validate reports it
}

func (e *Comparison) holds(v any) bool {
	switch e.Op {
	case OpEq:
		return equal(v, e.Value)
	case OpContains:
		list, ok := v.([]any)
		return ok && slices.ContainsFunc(list, func(w any) bool { return equal(w, e.Value) })
	case OpPrefix:
		s, isString := v.(string)
		prefix, ok := e.Value.(string)
		return isString && ok && strings.HasPrefix(s, prefix)
	}
	n, ok := Compare(v, e.Value)
	if !ok || !hasOrder(e.Value) {
		return false
	}
	switch e.Op {
	case OpGt:
		return n > 0
	case OpGte:
		return n >= 0
	case OpLt:
		return n < 0
	case OpLte:
		return n <= 0
	}
	return false
}
