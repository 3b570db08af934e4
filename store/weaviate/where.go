package weaviate

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/vecbolt/vecbolt/filter"
)

// A clause is a Weaviate condition on terms. all and none are constants, which Weaviate lacks.
type clause struct {
	operator string // ContainsAny, Like, And, Or, Not; empty: a constant
	constant bool
	terms    []string
	operands []*clause
}

var (
	all  = &clause{constant: true}
	none = &clause{}
)

func anyOf(terms ...string) *clause {
	if len(terms) == 0 {
		return none
	}
	return &clause{operator: "ContainsAny", terms: terms}
}

func not(c *clause) *clause {
	switch {
	case c == all:
		return none
	case c == none:
		return all
	case c.operator == "Not":
		return c.operands[0]
	}
	return &clause{operator: "Not", operands: []*clause{c}}
}

func and(cs ...*clause) *clause { return join("And", all, none, cs) }
func or(cs ...*clause) *clause  { return join("Or", none, all, cs) }

func join(operator string, neutral, dominant *clause, cs []*clause) *clause {
	var out []*clause
	for _, c := range cs {
		switch {
		case c == dominant:
			return dominant
		case c != neutral:
			out = append(out, c)
		}
	}
	switch len(out) {
	case 0:
		return neutral
	case 1:
		return out[0]
	}
	return &clause{operator: operator, operands: out}
}

// graphQL returns the clause as the value of a where argument.
func (c *clause) graphQL() string {
	switch c.operator {
	case "ContainsAny":
		return fmt.Sprintf(`{path:["terms"],operator:ContainsAny,valueText:%s}`, quoteAll(c.terms))
	case "Like":
		return fmt.Sprintf(`{path:["terms"],operator:Like,valueText:%s}`, quote(c.terms[0]))
	case "idAbove":
		return fmt.Sprintf(`{path:["id"],operator:GreaterThan,valueText:%s}`, quote(c.terms[0]))
	}
	operands := make([]string, len(c.operands))
	for i, o := range c.operands {
		operands[i] = o.graphQL()
	}
	return fmt.Sprintf(`{operator:%s,operands:[%s]}`, c.operator, strings.Join(operands, ","))
}

// rest returns the clause as the where object of the REST interface.
func (c *clause) rest() map[string]any {
	switch c.operator {
	case "ContainsAny":
		return map[string]any{"path": []string{"terms"}, "operator": c.operator, "valueTextArray": c.terms}
	case "Like":
		return map[string]any{"path": []string{"terms"}, "operator": c.operator, "valueText": c.terms[0]}
	case "idAbove":
		return map[string]any{"path": []string{"id"}, "operator": "GreaterThan", "valueText": c.terms[0]}
	}
	operands := make([]map[string]any, len(c.operands))
	for i, o := range c.operands {
		operands[i] = o.rest()
	}
	return map[string]any{"operator": c.operator, "operands": operands}
}

// A condition is the approximation of a filter that the server can evaluate.
type condition struct {
	// Documents that match upper are a superset of the result, documents that match lower a subset.
	upper, lower *clause
}

func exactly(c *clause) condition { return condition{c, c} }

// exact reports whether the server decides alone.
func (c condition) exact() bool { return c.upper == c.lower }

// translate returns the condition for a valid filter without $text.
func translate(e filter.Expr) condition { return walk(filter.Simplify(e)) }

func walk(e filter.Expr) condition {
	switch e := e.(type) {
	case *filter.Conjunction:
		return connect(and, e.Args)
	case *filter.Disjunction:
		return connect(or, e.Args)
	case *filter.Negation:
		c := walk(e.Arg)
		if c.exact() {
			return exactly(not(c.upper))
		}
		return condition{not(c.lower), not(c.upper)}
	case *filter.Existence:
		return exactly(anyOf(string(termExists) + escapePath(e.Field)))
	case *filter.Membership:
		var terms []string
		for _, v := range e.Values {
			if value, ok := valueTerm(v); ok {
				terms = append(terms, string(termEqual)+escapePath(e.Field)+":"+value)
			}
		}
		return exactly(anyOf(terms...))
	case *filter.Comparison:
		return compare(escapePath(e.Field), e.Op, e.Value)
	}
	return exactly(none)
}

func connect(join func(...*clause) *clause, args []filter.Expr) condition {
	var upper, lower []*clause
	exact := true
	for _, arg := range args {
		c := walk(arg)
		upper, lower = append(upper, c.upper), append(lower, c.lower)
		exact = exact && c.exact()
	}
	if exact {
		return exactly(join(upper...))
	}
	return condition{join(upper...), join(lower...)}
}

func compare(path string, op filter.Op, v any) condition {
	value, _ := valueTerm(v)
	equal := anyOf(string(termEqual) + path + ":" + value)
	switch op {
	case filter.OpEq:
		return exactly(equal)
	case filter.OpContains:
		return exactly(anyOf(string(termElement) + path + ":" + value))
	case filter.OpPrefix:
		return prefixed(path, v.(string))
	}
	// The other operators are built from greater-or-equal: a value is less if it has the same kind
	// and is not greater or equal.
	kind, _ := sortable(v)
	kindOnly := anyOf(prefixTerm(path, kind, ""))
	least := atLeast(path, v)
	above := condition{and(least.upper, not(equal)), and(least.lower, not(equal))}
	if least.exact() {
		above = exactly(above.upper)
	}
	below := func(c condition) condition {
		if c.exact() {
			return exactly(and(kindOnly, not(c.upper)))
		}
		return condition{and(kindOnly, not(c.lower)), and(kindOnly, not(c.upper))}
	}
	switch op {
	case filter.OpGte:
		return least
	case filter.OpGt:
		return above
	case filter.OpLt:
		return below(least)
	}
	return below(above) // OpLte
}

// atLeast returns the condition for values of the kind of v that are at least v.
func atLeast(path string, v any) condition {
	kind, key := sortable(v)
	var terms []string
	for i := range len(key) {
		// Same digits up to i, and a greater digit next.
		for _, next := range "0123456789abcdef"[strings.IndexByte("0123456789abcdef", key[i])+1:] {
			terms = append(terms, prefixTerm(path, kind, key[:i]+string(next)))
		}
	}
	upper := append(terms[:len(terms):len(terms)], prefixTerm(path, kind, key))
	if s, ok := v.(string); ok && len(s) > sortBytes {
		// Values with the same digits may be less than v.
		equal, _ := valueTerm(v)
		return condition{anyOf(upper...), anyOf(append(terms, string(termEqual)+path+":"+equal)...)}
	}
	return exactly(anyOf(upper...))
}

func prefixed(path, prefix string) condition {
	if len(prefix) <= sortBytes {
		_, key := sortable(prefix)
		return exactly(anyOf(prefixTerm(path, kindString, key)))
	}
	like := func(s string) *clause {
		return &clause{operator: "Like", terms: []string{string(termEqual) + path + ":" +
			string(kindString) + escape(s) + "*"}}
	}
	if len(prefix) <= wholeBytes {
		return exactly(like(prefix))
	}
	return condition{like(prefix[:wholeBytes]), none}
}

// quote returns s as a GraphQL string, which uses the escapes of JSON.
func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""` // strings always have a form
	}
	return string(b)
}

func quoteAll(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = quote(s)
	}
	return "[" + strings.Join(quoted, ",") + "]"
}
