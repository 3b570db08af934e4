package chroma

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

// A condition is what where and where_document say together. What the
// language of package filter does not know, substrings, regular expressions and
// ids, stands in expr as a filter.TextMatch whose query is a key of own.
type condition struct {
	expr filter.Expr // nil: every document
	own  map[string]func(*db.Document) bool
}

// maxPattern is the most bytes of a regular expression.
const maxPattern = 1000

// parseCondition reads both parts, either of which may be missing.
func parseCondition(where, document json.RawMessage) (*condition, error) {
	c := &condition{own: map[string]func(*db.Document) bool{}}
	var both []filter.Expr
	for _, part := range []struct {
		name string
		raw  json.RawMessage
		read func(any) (filter.Expr, error)
	}{{"where", where, c.where}, {"where_document", document, c.document}} {
		if !given(part.raw) {
			continue
		}
		d := json.NewDecoder(bytes.NewReader(part.raw))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil {
			return nil, invalidf("%s: %v", part.name, err)
		}
		if m, ok := v.(map[string]any); ok && len(m) == 0 {
			continue
		}
		e, err := part.read(v)
		if err != nil {
			return nil, invalidf("%s: %v", part.name, err)
		}
		both = append(both, e)
	}
	if len(both) == 0 {
		return c, nil
	}
	c.expr = filter.And(both...)
	if err := filter.Validate(c.expr); err != nil {
		return nil, invalidf("where: %v", err)
	}
	return c, nil
}

// leaf returns an expression that holds where fn does.
func (c *condition) leaf(fn func(*db.Document) bool) filter.Expr {
	key := strconv.Itoa(len(c.own))
	c.own[key] = fn
	return filter.Text(key)
}

// all reads an object, all members of which must hold.
func all(v any, member func(key string, v any) (filter.Expr, error)) (filter.Expr, error) {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 {
		return nil, invalidf("want an object that is not empty")
	}
	var es []filter.Expr
	for _, key := range slices.Sorted(maps.Keys(m)) {
		e, err := member(key, m[key])
		if err != nil {
			return nil, err
		}
		es = append(es, e)
	}
	if len(es) == 1 {
		return es[0], nil
	}
	return filter.And(es...), nil
}

// connective reads the operands of $and and $or.
func connective(key string, v any, read func(any) (filter.Expr, error)) (filter.Expr, error) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, invalidf("%s: want a list that is not empty", key)
	}
	var es []filter.Expr
	for _, v := range list {
		e, err := read(v)
		if err != nil {
			return nil, err
		}
		es = append(es, e)
	}
	if key == "$or" {
		return filter.Or(es...), nil
	}
	return filter.And(es...), nil
}

// where reads a condition on metadata.
func (c *condition) where(v any) (filter.Expr, error) {
	return all(v, func(key string, v any) (filter.Expr, error) {
		switch {
		case key == "$and" || key == "$or":
			return connective(key, v, c.where)
		case strings.HasPrefix(key, "$"):
			return nil, invalidf("unknown operator %.50q", key)
		case key == "#document":
			return c.document(v)
		}
		if _, ok := v.(map[string]any); !ok {
			v = map[string]any{"$eq": v}
		}
		return all(v, func(op string, v any) (filter.Expr, error) {
			if key == "#id" {
				return c.id(op, v)
			}
			return field(key, op, v)
		})
	})
}

// field reads one comparison.
func field(name, op string, v any) (filter.Expr, error) {
	list, isList := v.([]any)
	if wants := op == "$in" || op == "$nin"; wants != isList {
		return nil, invalidf("field %.100q: %.50q does not take this value", name, op)
	}
	for i, x := range list {
		x, err := filter.Scalar(x)
		if err != nil {
			return nil, invalidf("field %.100q: %v", name, err)
		}
		list[i] = x
	}
	if !isList {
		var err error
		if v, err = filter.Scalar(v); err != nil {
			return nil, invalidf("field %.100q: %v", name, err)
		}
	}
	switch op {
	case "$eq":
		return filter.Eq(name, v), nil
	case "$ne":
		return filter.Ne(name, v), nil
	case "$gt":
		return filter.Gt(name, v), nil
	case "$gte":
		return filter.Gte(name, v), nil
	case "$lt":
		return filter.Lt(name, v), nil
	case "$lte":
		return filter.Lte(name, v), nil
	case "$in":
		return filter.In(name, list...), nil
	case "$nin":
		return filter.Nin(name, list...), nil
	case "$contains":
		return filter.Contains(name, v), nil
	case "$not_contains":
		return filter.Not(filter.Contains(name, v)), nil
	}
	return nil, invalidf("field %.100q: unknown operator %.50q", name, op)
}

// id reads a comparison with the id.
func (c *condition) id(op string, v any) (filter.Expr, error) {
	values, ok := v.([]any)
	if !ok {
		values = []any{v}
	}
	ids := map[string]bool{}
	for _, v := range values {
		id, ok := v.(string)
		if !ok {
			return nil, invalidf("#id: want strings")
		}
		ids[id] = true
	}
	in := c.leaf(func(d *db.Document) bool { return ids[d.ID] })
	switch {
	case op == "$eq" && !ok, op == "$in" && ok:
		return in, nil
	case op == "$ne" && !ok, op == "$nin" && ok:
		return filter.Not(in), nil
	}
	return nil, invalidf("#id: %.50q does not take this value", op)
}

// document reads a condition on the text.
func (c *condition) document(v any) (filter.Expr, error) {
	return all(v, func(op string, v any) (filter.Expr, error) {
		if op == "$and" || op == "$or" {
			return connective(op, v, c.document)
		}
		text, ok := v.(string)
		if !ok || text == "" {
			return nil, invalidf("%.50q: want a string that is not empty", op)
		}
		contains := func(d *db.Document) bool { return strings.Contains(d.Text, text) }
		if op == "$regex" || op == "$not_regex" {
			if len(text) > maxPattern {
				return nil, invalidf("%s: a pattern has %d bytes, the limit is %d", op, len(text), maxPattern)
			}
			pattern, err := regexp.Compile(text)
			if err != nil {
				return nil, invalidf("%s: %v", op, err)
			}
			contains = func(d *db.Document) bool { return pattern.MatchString(d.Text) }
		}
		switch op {
		case "$contains", "$regex":
			return c.leaf(contains), nil
		case "$not_contains", "$not_regex":
			return filter.Not(c.leaf(contains)), nil
		}
		return nil, invalidf("unknown operator %.50q", op)
	})
}

// plain reports whether the database can evaluate all of the condition.
func (c *condition) plain() bool { return len(c.own) == 0 }

// where returns what the database can evaluate: every document that meets the
// condition meets it.
func (c *condition) native() filter.Expr {
	if c.plain() {
		return c.expr
	}
	var parts []filter.Expr
	var split func(e filter.Expr)
	split = func(e filter.Expr) {
		if and, ok := e.(*filter.Conjunction); ok {
			for _, arg := range and.Args {
				split(arg)
			}
		} else if len(filter.Texts(e)) == 0 {
			parts = append(parts, e)
		}
	}
	split(c.expr)
	if len(parts) == 0 {
		return nil
	}
	return filter.And(parts...)
}

// match reports whether a document, with text and metadata, meets the condition.
func (c *condition) match(d *db.Document) bool {
	return filter.Match(c.expr, func(path string) (any, bool) {
		if key, ok := strings.CutPrefix(path, filter.TextPath); ok {
			return c.own[key](d), true
		}
		return filter.Lookup(d.Metadata, path)
	})
}
