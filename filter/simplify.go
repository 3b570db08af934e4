package filter

import (
	"cmp"
	"slices"
)

// Simplify returns an expression that matches the same documents, in a form that is easier to
// evaluate: Not stands only in front of single conditions; no And is an argument of And and no Or
// of Or, and each has distinct arguments; values of In are sorted and distinct. An expression that
// visibly matches every document becomes And(), one that matches no document Or(). Each step is
// sound because logic is two-valued.
//
// Simplify(nil) is And(). The expression should be valid; the result shares its
// unchanged parts.
func Simplify(e Expr) Expr {
	if e == nil {
		return And()
	}
	return simplify(e, false)
}

// simplify returns the simple form of e, or of Not(e).
func simplify(e Expr, negate bool) Expr {
	switch e := given(e).(type) {
	case *Comparison, *Existence, *TextMatch:
		return leaf(e, negate)
	case *Membership:
		values := distinct(e.Values)
		switch len(values) {
		case 0:
			return constant(negate)
		case 1:
			return leaf(Eq(e.Field, values[0]), negate)
		}
		return leaf(&Membership{e.Field, values}, negate)
	case *Conjunction:
		return connect(e.Args, !negate, negate)
	case *Disjunction:
		return connect(e.Args, negate, negate)
	case *Negation:
		return simplify(e.Arg, !negate)
	}
	return constant(negate) // a nil argument matches nothing
}

// connect joins the simple forms of args, each negated if negate, by And or Or.
func connect(args []Expr, and, negate bool) Expr {
	var out []Expr
	seen := map[string]struct{}{}
	for _, arg := range args {
		arg = simplify(arg, negate)
		flat := []Expr{arg}
		if inner, innerAnd, ok := arguments(arg); ok {
			if innerAnd == and {
				flat = inner
			} else if len(inner) == 0 {
				return arg // a false argument of And, or a true one of Or
			}
		}
		for _, arg := range flat {
			key := arg.String()
			if _, ok := seen[key]; ok {
				continue
			}
			if _, ok := seen[opposite(arg).String()]; ok {
				return constant(!and)
			}
			seen[key] = struct{}{}
			out = append(out, arg)
		}
	}
	switch {
	case len(out) == 1:
		return out[0]
	case and:
		return &Conjunction{out}
	}
	return &Disjunction{out}
}

// arguments returns the arguments of a connective, and whether it is And.
func arguments(e Expr) (args []Expr, and, ok bool) {
	switch e := e.(type) {
	case *Conjunction:
		return e.Args, true, true
	case *Disjunction:
		return e.Args, false, true
	}
	return nil, false, false
}

func leaf(e Expr, negate bool) Expr {
	if negate {
		return Not(e)
	}
	return e
}

func opposite(e Expr) Expr {
	if n, ok := e.(*Negation); ok {
		return n.Arg
	}
	return Not(e)
}

func constant(v bool) Expr {
	if v {
		return And()
	}
	return Or()
}

// distinct returns a sorted copy without repetitions: null, bools, numbers, strings.
func distinct(values []any) []any {
	values = slices.Clone(values)
	slices.SortStableFunc(values, func(a, b any) int {
		if c := cmp.Compare(rank(a), rank(b)); c != 0 {
			return c
		}
		c, _ := Compare(a, b)
		return c
	})
	return slices.CompactFunc(values, equal)
}

func rank(v any) int {
	switch v.(type) {
	case nil:
		return 0
	case bool:
		return 1
	case int64, float64:
		return 2
	case string:
		return 3
	}
	return 4
}
