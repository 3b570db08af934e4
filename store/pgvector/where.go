package pgvector

import (
	"fmt"
	"strings"

	"github.com/vecbolt/vecbolt/filter"
)

// A statement collects the parameters of an SQL statement: values never become
// part of its text.
type statement struct{ args []any }

// arg adds a parameter and returns its name.
func (s *statement) arg(v any) string {
	s.args = append(s.args, v)
	return fmt.Sprintf("$%d", len(s.args))
}

// where returns an SQL expression that is true for the rows whose metadata meets e, as filter.Match
// defines it, and false, never null, for all other rows.
func (s *statement) where(e filter.Expr) string { return s.condition(filter.Simplify(e)) }

func (s *statement) condition(e filter.Expr) string {
	switch e := e.(type) {
	case *filter.Conjunction:
		return s.join(e.Args, " AND ", "true")
	case *filter.Disjunction:
		return s.join(e.Args, " OR ", "false")
	case *filter.Negation:
		return "NOT " + s.condition(e.Arg)
	case *filter.Existence:
		return s.test(e.Field, func(v string) string { return v + " IS NOT NULL" })
	case *filter.Membership:
		return s.membership(e)
	case *filter.Comparison:
		return s.comparison(e)
	}
	return "false"
}

func (s *statement) join(args []filter.Expr, by, none string) string {
	if len(args) == 0 {
		return none
	}
	parts := make([]string, len(args))
	for i, a := range args {
		parts[i] = s.condition(a)
	}
	return "(" + strings.Join(parts, by) + ")"
}

// contained is the number of values up to which $in uses the index on meta, which serves
// containment only.
const contained = 32

func (s *statement) membership(e *filter.Membership) string {
	values := make([]string, len(e.Values))
	for i, v := range e.Values {
		values[i] = literal(v)
	}
	if len(values) > contained || strings.Contains(e.Field, ".") {
		list := s.arg(values)
		return s.test(e.Field, func(v string) string { return v + " = ANY(" + list + "::text[]::jsonb[])" })
	}
	for i := range values {
		values[i] = member(e.Field, values[i])
	}
	return fmt.Sprintf("(meta @> ANY(%s::text[]::jsonb[]))", s.arg(values))
}

func (s *statement) comparison(c *filter.Comparison) string {
	switch c.Op {
	case filter.OpEq:
		return s.holds(c.Field, literal(c.Value), "%s = %s::jsonb")
	case filter.OpContains:
		return s.holds(c.Field, "["+literal(c.Value)+"]", "%s @> %s::jsonb")
	}
	test := ""
	operand, isString := c.Value.(string)
	switch {
	case !isString:
		// Numbers of jsonb compare by value, without rounding.
		operand, test = literal(c.Value), "jsonb_typeof(%[1]s) = 'number' AND %[1]s "+orders[c.Op]+" %[2]s::text::jsonb"
	case c.Op == filter.OpPrefix:
		operand, test = escape(operand), "jsonb_typeof(%[1]s) = 'string' AND starts_with(%[1]s #>> '{}', %[2]s::text)"
	default:
		operand, test = escape(operand), `jsonb_typeof(%[1]s) = 'string' AND (%[1]s #>> '{}') COLLATE "C" `+orders[c.Op]+" %[2]s::text"
	}
	arg := s.arg(operand)
	return s.test(c.Field, func(v string) string { return fmt.Sprintf(test, v, arg) })
}

var orders = map[filter.Op]string{filter.OpGt: ">", filter.OpGte: ">=", filter.OpLt: "<", filter.OpLte: "<="}

// holds returns test with an added containment test of value, JSON, at the path, so that the index
// on meta applies. A path with dots can be contained in several ways, and a document may have two
// of them: test decides.
func (s *statement) holds(path, value, test string) string {
	var ways []string
	if strings.Count(path, ".") < coalesced {
		for _, keys := range splits(path) {
			nested := value
			for i := range keys {
				nested = member(keys[len(keys)-1-i], nested)
			}
			ways = append(ways, fmt.Sprintf("meta @> %s::text::jsonb", s.arg(nested)))
		}
		if len(ways) == 1 && !strings.Contains(path, ".") {
			return "(" + ways[0] + ")"
		}
	}
	arg := s.arg(value) + "::text"
	exact := s.test(path, func(v string) string { return fmt.Sprintf(test, v, arg) })
	if len(ways) == 0 {
		return exact
	}
	return fmt.Sprintf("((%s) AND %s)", strings.Join(ways, " OR "), exact)
}

// member returns an object with one member, whose value is JSON.
func member(key, value string) string {
	b, err := appendString([]byte{'{'}, key)
	if err != nil {
		return "null"
	}
	return string(b) + ":" + value + "}"
}

// literal returns a scalar as JSON; null for values that filter.Validate refuses.
func literal(v any) string {
	b, err := appendJSON(nil, v)
	if err != nil {
		return "null"
	}
	return string(b)
}

// coalesced is the number of path segments up to which a lookup tries each of the 2^(n-1) ways to
// split the path.
const coalesced = 4

// test returns an expression that is true if test holds for the jsonb value at a path, as
// filter.Lookup finds it, and false otherwise; the value is null if the path does not exist.
func (s *statement) test(path string, test func(v string) string) string {
	if strings.Count(path, ".") >= coalesced {
		// Try the keys of the document; lengths gives the longest first key.
		return fmt.Sprintf(`COALESCE((WITH RECURSIVE walk(v, rest, lengths) AS (
	SELECT meta, %s::text, '{}'::int[]
	UNION ALL
	SELECT value, CASE WHEN rest <> key THEN substr(rest, length(key) + 2) END, lengths || length(key)
	FROM walk, jsonb_each(CASE jsonb_typeof(v) WHEN 'object' THEN v ELSE '{}' END)
	WHERE rest = key OR starts_with(rest, key || '.')
) SELECT %s FROM walk WHERE rest IS NULL ORDER BY lengths DESC LIMIT 1), false)`, s.arg(escape(path)), test("v"))
	}
	ways := splits(path)
	if len(ways) == 0 {
		return "false"
	}
	tries := make([]string, len(ways))
	for i, keys := range ways {
		tries[i] = "meta"
		for _, k := range keys {
			tries[i] += " -> " + s.arg(escape(k)) + "::text"
		}
	}
	return "COALESCE(" + test("COALESCE("+strings.Join(tries, ", ")+")") + ", false)"
}

// splits returns the ways to split a path at dots into keys that are not empty,
// in the order in which filter.Lookup tries them.
func splits(path string) (ways [][]string) {
	if path != "" {
		ways = append(ways, []string{path})
	}
	for end := strings.LastIndexByte(path, '.'); end > 0; end = strings.LastIndexByte(path[:end], '.') {
		for _, rest := range splits(path[end+1:]) {
			ways = append(ways, append([]string{path[:end]}, rest...))
		}
	}
	return ways
}
