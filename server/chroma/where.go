package chroma

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
)

// A condition combines where and where_document. Substrings, regular expressions and ids are
// unknown to package filter. In expr they are a filter.TextMatch whose query is a key of own.
type condition struct {
	ctx      context.Context // of the request
	expr     filter.Expr     // nil: every document
	own      map[string]func(*db.Document) bool
	patterns int
	program  int // size of all patterns together
}

// Limits of where, and of where_document.
const (
	maxWhere    = 1 << 20 // bytes
	maxDepth    = 4 * filter.MaxDepth
	maxElements = 2 * filter.MaxValues
	maxPattern  = 1000 // bytes of a regular expression
	maxPatterns = 32   // per request
	maxProgram  = 4000 // instructions of all patterns together: see programSize
)

// measure refuses JSON that is too large for a condition, before it is decoded.
func measure(raw []byte) error {
	if len(raw) > maxWhere {
		return invalidf("%d bytes, the limit is %d", len(raw), maxWhere)
	}
	depth, elements := 0, 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if depth++; depth > maxDepth {
				return invalidf("nested deeper than %d", maxDepth)
			}
			elements++
		case '}', ']':
			depth--
		case ',':
			elements++
		}
	}
	if elements > maxElements {
		return invalidf("%d values, the limit is %d", elements, maxElements)
	}
	return nil
}

// parseCondition reads both parts. Either may be missing.
func parseCondition(ctx context.Context, where, document json.RawMessage) (*condition, error) {
	c := &condition{ctx: ctx, own: map[string]func(*db.Document) bool{}}
	var both []filter.Expr
	for _, part := range []struct {
		name string
		raw  json.RawMessage
		read func(any) (filter.Expr, error)
	}{{"where", where, c.where}, {"where_document", document, c.document}} {
		if !given(part.raw) {
			continue
		}
		if err := measure(part.raw); err != nil {
			return nil, invalidf("%s: %v", part.name, err)
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

// leaf returns an expression that holds where fn returns true.
func (c *condition) leaf(fn func(*db.Document) bool) filter.Expr {
	key := strconv.Itoa(len(c.own))
	c.own[key] = fn
	return filter.Text(key)
}

// all reads an object whose members must all hold.
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

// id reads a comparison of the id.
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
			var err error
			if contains, err = c.pattern(text); err != nil {
				return nil, invalidf("%s: %v", op, err)
			}
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

// native returns the part that the database can evaluate. It holds for every document that meets
// the condition.
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

// pattern returns a function that matches a regular expression against the text of a document. A
// document without a text matches none, not even the empty pattern.
func (c *condition) pattern(text string) (func(*db.Document) bool, error) {
	if len(text) > maxPattern {
		return nil, invalidf("a pattern has %d bytes, the limit is %d", len(text), maxPattern)
	}
	if c.patterns++; c.patterns > maxPatterns {
		return nil, invalidf("more than %d patterns in one request", maxPatterns)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	size := programSize(parsed)
	if c.program += size; c.program > maxProgram {
		return nil, invalidf("the patterns of the request have %d instructions once repetitions are written out, the limit is %d", c.program, maxProgram)
	}
	pattern, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return func(d *db.Document) bool {
		if d.Text == "" {
			return false
		}
		if len(d.Text)*size <= stepsUnwatched {
			return pattern.MatchString(d.Text)
		}
		return pattern.MatchReader(&watched{ctx: c.ctx, text: d.Text})
	}, nil
}

// programSize estimates how many instructions a regular expression compiles to: a repeated part
// counts as often as it may be repeated, and a class with many ranges counts more. A match takes at
// most that number of steps per character.
func programSize(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	if re.Op == syntax.OpCharClass {
		n = 1 + len(re.Rune)/16
	}
	for _, sub := range re.Sub {
		n += programSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Max, re.Min+1)
	}
	return n
}

// stepsUnwatched is the number of steps that a match may take between checks of the context.
const stepsUnwatched = 1 << 20

// watched reads a text for a match that may take long. It stops when the context ends.
type watched struct {
	ctx  context.Context
	text string
	at   int
	read int
}

// ReadRune implements io.RuneReader.
func (w *watched) ReadRune() (rune, int, error) {
	if w.read++; w.read%256 == 0 && w.ctx.Err() != nil || w.at == len(w.text) {
		return 0, 0, io.EOF
	}
	r, n := utf8.DecodeRuneInString(w.text[w.at:])
	w.at += n
	return r, n, nil
}

// match reports whether a document, with text and metadata, meets the condition. It stops when the
// context of the request ends, and then returns its error.
func (c *condition) match(d *db.Document) (bool, error) {
	matches := filter.Match(c.expr, func(path string) (any, bool) {
		if key, ok := strings.CutPrefix(path, filter.TextPath); ok {
			return c.ctx.Err() == nil && c.own[key](d), true
		}
		return filter.Lookup(d.Metadata, path)
	})
	if err := c.ctx.Err(); err != nil {
		return false, err
	}
	return matches, nil
}
