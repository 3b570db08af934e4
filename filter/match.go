package filter

import (
	"slices"
	"strings"
)

// Match reports whether a document meets e; get returns the value at a path ("author.name") and
// whether it exists, as [Lookup] does. Values are of the types in the package comment; a value of
// any other type equals nothing. A nil e matches every document. Match is the reference: faster
// evaluations must give the same answers.
//
// Metadata does not tell whether a [TextMatch] holds. Match asks get for the path [TextPath]
// followed by the query, which is no metadata path. The TextMatch holds if the value is true, so
// never with Lookup.
func Match(e Expr, get func(path string) (any, bool)) bool {
	return e == nil || match(e, get)
}

// TextPath is the prefix of the paths by which [Match] asks for a [TextMatch].
const TextPath = "$text "

func match(e Expr, get func(path string) (any, bool)) bool {
	switch e := given(e).(type) {
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
