// Package filter is the condition language on document metadata. An [Expr] is
// built from Go values ([Eq], [Gt], [In], [And], [Not], ...) or read from JSON
// by [Parse]; its String is JSON again. [Match] decides whether a document
// meets it and is the definition that every index must agree with.
//
//	filter.And(filter.Eq("lang", "go"), filter.Gte("year", 2020))
//
//	{"$and":[{"lang":"go"},{"year":{"$gte":2020}}]}
//
// # Values
//
// Conditions compare with null, bool, int64, float64 and string; [Scalar]
// widens the other Go numbers to these. Documents hold the same five types and
// also lists ([]any) and maps (map[string]any), which are never compared as a
// whole. A field is named by its dotted path ("author.name").
//
// # Guarantees
//
//   - Logic is two-valued. A comparison with a missing field or with a value of
//     another kind is false, and Match(Not(x)) is always !Match(x). Hence [Ne]
//     and [Nin] hold where the field is missing, and De Morgan's laws hold.
//   - Numbers compare by value, exactly, across int64 and float64; strings
//     compare bytewise; only numbers and strings have an order.
//   - Parse(x.String()) equals x for every x that [Validate] accepts, as long
//     as the text is within [MaxText].
//   - Parse takes any bytes: it does not panic, and depth, size and number of
//     conditions are limited. A mistake is a [*SyntaxError] with a path to it,
//     never ignored.
//
// Expressions are immutable once built and may be shared by goroutines. The
// user manual is docs/where.md. The package follows semantic versioning.
package filter
