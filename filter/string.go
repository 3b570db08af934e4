package filter

import (
	"bytes"
	"fmt"
	"strconv"
)

// String returns {"field":value} for equality, {"field":{"$op":value}} otherwise.
func (e *Comparison) String() string { return string(appendExpr(nil, e)) }

// String returns {"field":{"$in":[...]}}.
func (e *Membership) String() string { return string(appendExpr(nil, e)) }

// String returns {"field":{"$exists":true}}.
func (e *Existence) String() string { return string(appendExpr(nil, e)) }

// String returns {"$text":"query"}.
func (e *TextMatch) String() string { return string(appendExpr(nil, e)) }

// String returns {"$and":[...]}, or {} if there are no arguments.
func (e *Conjunction) String() string { return string(appendExpr(nil, e)) }

// String returns {"$or":[...]}.
func (e *Disjunction) String() string { return string(appendExpr(nil, e)) }

// String returns {"$not":...}, or the form with $ne, $nin or "$exists":false if the argument is a
// single condition that has one.
func (e *Negation) String() string { return string(appendExpr(nil, e)) }

func appendExpr(b []byte, e Expr) []byte {
	switch e := given(e).(type) {
	case *Comparison:
		b = appendName(b, e.Field)
		if e.Op == OpEq {
			b = appendValue(b, e.Value)
		} else {
			b = appendName(b, string(e.Op))
			b = append(appendValue(b, e.Value), '}')
		}
		return append(b, '}')
	case *Membership:
		return appendMembership(b, e, "$in")
	case *Existence:
		return append(appendName(b, e.Field), `{"$exists":true}}`...)
	case *TextMatch:
		return append(appendString(appendName(b, "$text"), e.Query), '}')
	case *Conjunction:
		if len(e.Args) == 0 {
			return append(b, "{}"...)
		}
		return appendArgs(b, "$and", e.Args)
	case *Disjunction:
		return appendArgs(b, "$or", e.Args)
	case *Negation:
		return appendNegation(b, e.Arg)
	}
	return append(b, "null"...) // a nil argument: Validate reports it
}

func appendNegation(b []byte, arg Expr) []byte {
	switch arg := given(arg).(type) {
	case *Comparison:
		if arg.Op == OpEq {
			b = appendName(appendName(b, arg.Field), "$ne")
			return append(appendValue(b, arg.Value), "}}"...)
		}
	case *Membership:
		return appendMembership(b, arg, "$nin")
	case *Existence:
		return append(appendName(b, arg.Field), `{"$exists":false}}`...)
	}
	return append(appendExpr(appendName(b, "$not"), arg), '}')
}

func appendMembership(b []byte, e *Membership, op string) []byte {
	b = append(appendName(appendName(b, e.Field), op), '[')
	for i, v := range e.Values {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendValue(b, v)
	}
	return append(b, "]}}"...)
}

func appendArgs(b []byte, op string, args []Expr) []byte {
	b = append(appendName(b, op), '[')
	for i, arg := range args {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendExpr(b, arg)
	}
	return append(b, "]}"...)
}

// appendName opens an object with its only name.
func appendName(b []byte, name string) []byte {
	return append(appendString(append(b, '{'), name), ':')
}

func appendValue(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		start := len(b)
		b = strconv.AppendFloat(b, v, 'g', -1, 64)
		if !bytes.ContainsAny(b[start:], ".eIN") {
			b = append(b, ".0"...) // otherwise it would be read as an int64
		}
		return b
	case string:
		return appendString(b, v)
	}
	return fmt.Appendf(b, "!%T(%v)", v, v) // not JSON, so that it cannot be parsed as something else
}

// appendString escapes only what JSON requires, so that text stays readable and
// different strings stay different even if they are not UTF-8.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
