package filter

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/vecbolt/vecbolt/internal/jsontext"
)

// Parse reads a condition from JSON; docs/where.md describes the language.
// {} matches every document. The error is a [*SyntaxError].
func Parse(where []byte) (Expr, error) {
	var p parser
	if len(where) > MaxText {
		return nil, p.errorf("%d bytes exceed the limit of %d", len(where), MaxText)
	}
	if at := jsontext.Bad(where); at >= 0 {
		return nil, p.errorf("invalid UTF-8 or half a surrogate pair at byte %d", at)
	}
	if len(bytes.TrimSpace(where)) == 0 {
		return nil, p.errorf("no condition; {} matches every document")
	}
	p.dec = json.NewDecoder(bytes.NewReader(where))
	p.dec.UseNumber()
	e, err := p.condition(1)
	if err != nil {
		return nil, err
	}
	end := p.dec.InputOffset()
	if _, err := p.dec.Token(); err != io.EOF {
		return nil, p.errorf("text after the condition, which ends at byte %d", end)
	}
	if err := Validate(e); err != nil { // only the limits can still be exceeded
		return nil, err
	}
	return e, nil
}

// MustParse is Parse for conditions in source code: it panics on a mistake.
func MustParse(where string) Expr {
	e, err := Parse([]byte(where))
	if err != nil {
		panic(err)
	}
	return e
}

// A parser reads tokens in one pass; pointer is its position.
type parser struct {
	pointer
	dec *json.Decoder
}

// condition reads an object: fields and logical operators, joined by "and".
// Depth counts the conditions around it, itself included.
func (p *parser) condition(depth int) (Expr, error) {
	tok, err := p.token()
	if err != nil {
		return nil, err
	}
	if tok != json.Delim('{') {
		return nil, p.errorf("a condition is an object such as {\"field\":1}, not %s", describeToken(tok))
	}
	if depth > MaxDepth {
		return nil, p.errorf("nested deeper than %d", MaxDepth)
	}
	var args []Expr
	err = p.members(func(key string) error {
		switch key {
		case "$and", "$or":
			list, err := p.conditions(depth + 1)
			if err != nil {
				return err
			}
			if key == "$and" {
				args = append(args, And(list...))
			} else {
				args = append(args, Or(list...))
			}
			return nil
		case "$not":
			arg, err := p.condition(depth + 1)
			args = append(args, Not(arg))
			return err
		case "$text":
			tok, err := p.token()
			if err != nil {
				return err
			}
			query, ok := tok.(string)
			if !ok {
				return p.errorf("a query is a string, not %s", describeToken(tok))
			}
			args = append(args, Text(query))
			return nil
		}
		if strings.HasPrefix(key, "$") {
			if isFieldOp(key) {
				return p.errorf("%s needs a field: {\"field\":{%q:...}}", key, key)
			}
			return p.errorf("unknown operator %q; around fields there are $and $or $not $text", key)
		}
		field, err := p.field(key, depth)
		args = append(args, field...)
		return err
	})
	return join(args), err
}

// join returns the conjunction of args, or the only argument itself.
func join(args []Expr) Expr {
	if len(args) == 1 {
		return args[0]
	}
	return And(args...)
}

// conditions reads the array of $and and $or.
func (p *parser) conditions(depth int) ([]Expr, error) {
	var args []Expr
	err := p.elements("conditions", func() error {
		arg, err := p.condition(depth)
		args = append(args, arg)
		return err
	})
	return args, err
}

// field reads the value or the operators after a field name.
func (p *parser) field(field string, depth int) ([]Expr, error) {
	if err := p.checkField(); err != nil { // members has pushed it
		return nil, err
	}
	tok, err := p.token()
	if err != nil {
		return nil, err
	}
	switch tok {
	case json.Delim('{'):
		return p.operators(field, depth)
	case json.Delim('['):
		return nil, p.errorf("a field is not compared with a list: use {\"$in\":[...]} for any of these values, $contains for a list that has one")
	}
	e, err := p.comparison(field, OpEq, tok)
	return []Expr{e}, err
}

// operators reads the members of the open object below a field.
func (p *parser) operators(field string, depth int) ([]Expr, error) {
	var args []Expr
	err := p.members(func(op string) error {
		arg, err := p.operator(field, op, depth)
		args = append(args, arg)
		return err
	})
	if err == nil && len(args) == 0 {
		err = p.errorf("no operator: write a value, or an operator such as {\"$exists\":true}")
	}
	return args, err
}

func (p *parser) operator(field, op string, depth int) (Expr, error) {
	switch op {
	case "$in", "$nin":
		return p.membership(field, op)
	case "$and", "$or":
		return nil, p.errorf("%s goes around fields: {%q:[{%q:...},...]}", op, op, field)
	}
	if !strings.HasPrefix(op, "$") {
		return nil, p.errorf("nested field: write its path, %q", field+"."+op)
	}
	if op != "$not" && !isFieldOp(op) {
		return nil, p.errorf("unknown operator %q; for fields there are %s $not", op, fieldOps)
	}
	tok, err := p.token()
	if err != nil {
		return nil, err
	}
	switch op {
	case "$not":
		if tok != json.Delim('{') {
			return nil, p.errorf("$not takes operators, not %s: use $ne", describeToken(tok))
		}
		if depth >= MaxDepth {
			return nil, p.errorf("nested deeper than %d", MaxDepth)
		}
		args, err := p.operators(field, depth+1)
		return Not(join(args)), err
	case "$exists":
		switch tok {
		case true:
			return Exists(field), nil
		case false:
			return Not(Exists(field)), nil
		}
		return nil, p.errorf("$exists takes true or false, not %s", describeToken(tok))
	case "$ne":
		e, err := p.comparison(field, OpEq, tok)
		return Not(e), err
	}
	return p.comparison(field, Op(op), tok)
}

func (p *parser) comparison(field string, op Op, tok json.Token) (Expr, error) {
	v, err := p.scalar(tok)
	if err != nil {
		return nil, err
	}
	if err := checkOperand(op, v); err != nil {
		return nil, p.errorf("%s", err.Error())
	}
	return &Comparison{field, op, v}, nil
}

func (p *parser) membership(field, op string) (Expr, error) {
	values := []any{}
	err := p.elements("values", func() error {
		tok, err := p.token()
		if err != nil {
			return err
		}
		if len(values) == MaxValues {
			return p.errorf("more than %d values", MaxValues)
		}
		v, err := p.scalar(tok)
		values = append(values, v)
		return err
	})
	var e Expr = &Membership{field, values}
	if op == "$nin" {
		e = Not(e)
	}
	return e, err
}

func (p *parser) scalar(tok json.Token) (any, error) {
	if _, ok := tok.(json.Delim); ok {
		return nil, p.errorf("expected a string, number, bool or null, not %s", describeToken(tok))
	}
	v, err := Scalar(tok)
	if err != nil {
		return nil, p.errorf("%s", err.Error())
	}
	return v, nil
}

// members calls each for every key of an open object, and closes it.
func (p *parser) members(each func(key string) error) error {
	seen := map[string]struct{}{}
	for p.dec.More() {
		tok, err := p.token()
		if err != nil {
			return err
		}
		key := tok.(string) // the decoder refuses other keys
		p.push(key)
		if _, ok := seen[key]; ok {
			return p.errorf("duplicate key")
		}
		seen[key] = struct{}{}
		if err := each(key); err != nil {
			return err
		}
		p.pop()
	}
	_, err := p.token()
	return err
}

// elements opens an array, calls each at every element, and closes it.
func (p *parser) elements(what string, each func() error) error {
	tok, err := p.token()
	if err != nil {
		return err
	}
	if tok != json.Delim('[') {
		return p.errorf("expected an array of %s, not %s", what, describeToken(tok))
	}
	for i := 0; p.dec.More(); i++ {
		p.push(strconv.Itoa(i))
		if err := each(); err != nil {
			return err
		}
		p.pop()
	}
	_, err = p.token()
	return err
}

func (p *parser) token() (json.Token, error) {
	tok, err := p.dec.Token()
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return nil, p.errorf("the text ends too early")
	case err != nil:
		return nil, p.errorf("malformed JSON near byte %d: %s", p.dec.InputOffset(), err.Error())
	}
	return tok, nil
}

// fieldOps are the operators below a field, besides $not.
const fieldOps = "$eq $ne $gt $gte $lt $lte $in $nin $exists $contains $prefix"

func isFieldOp(s string) bool { return slices.Contains(strings.Fields(fieldOps), s) }

func describeToken(tok json.Token) string {
	switch tok := tok.(type) {
	case json.Delim:
		if tok == '{' {
			return "an object"
		}
		return "an array"
	case json.Number:
		return "a number"
	}
	return describe(tok)
}
