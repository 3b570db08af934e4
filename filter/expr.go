package filter

import (
	"maps"
	"reflect"
	"slices"
)

// An Expr is a condition on the metadata of a document. Its dynamic type is one
// of *[Comparison], *[Membership], *[Existence], *[TextMatch], *[Conjunction],
// *[Disjunction] and *[Negation]. Where an Expr is asked for, nil means "every document".
type Expr interface {
	// String returns the expression as JSON, in the one form that [Parse] maps
	// back to an equal expression.
	String() string

	isExpr()
}

// Op is the operator of a [Comparison], spelled as in JSON.
type Op string

// The operators of a [Comparison].
const (
	OpEq       Op = "$eq"       // equal
	OpGt       Op = "$gt"       // greater; numbers and strings only, like the next three
	OpGte      Op = "$gte"      // greater or equal
	OpLt       Op = "$lt"       // less
	OpLte      Op = "$lte"      // less or equal
	OpContains Op = "$contains" // the field is a list with an element equal to the value
	OpPrefix   Op = "$prefix"   // the field is a string that begins with the value
)

// A Comparison holds if the field exists and relates to Value by Op.
type Comparison struct {
	Field string // dotted path
	Op    Op
	Value any // nil, bool, int64, float64 or string
}

// A Membership holds if the field equals one of Values; an empty list matches nothing.
type Membership struct {
	Field  string // dotted path
	Values []any  // each nil, bool, int64, float64 or string
}

// An Existence holds if the field exists, whatever its value, null included.
type Existence struct {
	Field string // dotted path
}

// A TextMatch holds if the text of the document meets a query, in the syntax of package text. Only
// a database with a full-text index can decide it; see [Match].
type TextMatch struct{ Query string }

// A Conjunction holds if all of Args hold, so also without Args.
type Conjunction struct{ Args []Expr }

// A Disjunction holds if at least one of Args holds, so never without Args.
type Disjunction struct{ Args []Expr }

// A Negation holds if Arg does not.
type Negation struct{ Arg Expr }

func (*Comparison) isExpr()  {}
func (*Membership) isExpr()  {}
func (*Existence) isExpr()   {}
func (*TextMatch) isExpr()   {}
func (*Conjunction) isExpr() {}
func (*Disjunction) isExpr() {}
func (*Negation) isExpr()    {}

// The constructors below widen their operands with [Scalar]. An operand that is not a scalar is
// kept unchanged: it matches nothing, and [Validate] reports it.

// Eq holds if the field equals v; Eq(field, nil) if the field is stored as null.
func Eq(field string, v any) Expr { return compare(field, OpEq, v) }

// Ne is Not(Eq(field, v)): it also holds if the field is missing or of another kind.
func Ne(field string, v any) Expr { return Not(Eq(field, v)) }

// Gt holds if the field is greater than v, a number or a string.
func Gt(field string, v any) Expr { return compare(field, OpGt, v) }

// Gte holds if the field is greater than or equal to v, a number or a string.
func Gte(field string, v any) Expr { return compare(field, OpGte, v) }

// Lt holds if the field is less than v, a number or a string.
func Lt(field string, v any) Expr { return compare(field, OpLt, v) }

// Lte holds if the field is less than or equal to v, a number or a string.
func Lte(field string, v any) Expr { return compare(field, OpLte, v) }

// Range is And(Gte(field, lo), Lte(field, hi)): both ends are included.
func Range(field string, lo, hi any) Expr { return And(Gte(field, lo), Lte(field, hi)) }

// Contains holds if the field is a list with an element equal to v.
func Contains(field string, v any) Expr { return compare(field, OpContains, v) }

// Prefix holds if the field is a string that begins, bytewise, with prefix.
func Prefix(field, prefix string) Expr { return compare(field, OpPrefix, prefix) }

// In holds if the field equals one of vs. An argument of type []any, []string,
// []int, []int64 or []float64 stands for its elements.
func In(field string, vs ...any) Expr { return &Membership{field, operands(vs)} }

// Nin is Not(In(field, vs...)): it also holds if the field is missing.
func Nin(field string, vs ...any) Expr { return Not(In(field, vs...)) }

// Exists holds if the field exists, whatever its value, null included.
func Exists(field string) Expr { return &Existence{field} }

// Text holds if the text of the document meets a query, such as
// `+vector "nearest neighbour" -graph`. The collection must have a full-text index.
func Text(query string) Expr { return &TextMatch{query} }

// And holds if all of xs hold. And() matches every document.
func And(xs ...Expr) Expr { return &Conjunction{slices.Clone(xs)} }

// Or holds if at least one of xs holds. Or() matches no document.
func Or(xs ...Expr) Expr { return &Disjunction{slices.Clone(xs)} }

// Not holds if x does not.
func Not(x Expr) Expr { return &Negation{x} }

func compare(field string, op Op, v any) Expr { return &Comparison{field, op, operand(v)} }

func operand(v any) any {
	if s, err := Scalar(v); err == nil {
		return s
	}
	return v
}

func operands(vs []any) []any {
	out := make([]any, 0, len(vs))
	for _, v := range vs {
		switch v := v.(type) {
		case []any:
			out = appendOperands(out, v)
		case []string:
			out = appendOperands(out, v)
		case []int:
			out = appendOperands(out, v)
		case []int64:
			out = appendOperands(out, v)
		case []float64:
			out = appendOperands(out, v)
		default:
			out = append(out, operand(v))
		}
	}
	return out
}

func appendOperands[T any](out []any, vs []T) []any {
	for _, v := range vs {
		out = append(out, operand(v))
	}
	return out
}

// Texts returns the TextMatches in e, from left to right.
func Texts(e Expr) []*TextMatch {
	switch e := e.(type) {
	case *TextMatch:
		return []*TextMatch{e}
	case *Conjunction:
		return textsOf(e.Args)
	case *Disjunction:
		return textsOf(e.Args)
	case *Negation:
		return Texts(e.Arg)
	}
	return nil
}

func textsOf(args []Expr) (all []*TextMatch) {
	for _, arg := range args {
		all = append(all, Texts(arg)...)
	}
	return all
}

// Fields returns the distinct paths that e uses, sorted.
func Fields(e Expr) []string {
	set := map[string]struct{}{}
	addFields(set, e)
	return slices.Sorted(maps.Keys(set))
}

// given returns e, and nil for a nil pointer of any type.
func given(e Expr) Expr {
	if e == nil || reflect.ValueOf(e).IsNil() {
		return nil
	}
	return e
}

func addFields(set map[string]struct{}, e Expr) {
	switch e := given(e).(type) {
	case *Comparison:
		set[e.Field] = struct{}{}
	case *Membership:
		set[e.Field] = struct{}{}
	case *Existence:
		set[e.Field] = struct{}{}
	case *Conjunction:
		for _, arg := range e.Args {
			addFields(set, arg)
		}
	case *Disjunction:
		for _, arg := range e.Args {
			addFields(set, arg)
		}
	case *Negation:
		addFields(set, e.Arg)
	}
}
