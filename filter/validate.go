package filter

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of an expression. [Parse] and [Validate] refuse larger ones.
const (
	MaxText   = 64 << 10 // bytes of JSON that Parse takes
	MaxDepth  = 32       // nesting of expressions; a single comparison has depth 1
	MaxExprs  = 1000     // expressions in all: comparisons, connectives and negations
	MaxValues = 10_000   // values of all $in and $nin together
	MaxPath   = 4111     // bytes of the path of a field: 16 keys of 256 bytes, and dots
)

// A SyntaxError describes a mistake in a condition and its position.
type SyntaxError struct {
	Path string // a JSON pointer (RFC 6901) such as "/$and/1/year"; empty for the whole condition
	Msg  string
}

// Error returns the message with the path, quoted.
func (e *SyntaxError) Error() string {
	if e.Path == "" {
		return "filter: " + e.Msg
	}
	return fmt.Sprintf("filter: at %q: %s", e.Path, e.Msg)
}

// Validate returns nil if e is nil or can be evaluated and written as JSON, and otherwise a
// [*SyntaxError]. It reports the mistakes that the constructors accept: operands that [Scalar]
// refuses or that do not suit the operator, field names that are empty, begin with "$" or are not
// UTF-8, nil arguments, and expressions beyond the limits. The path refers to the expression's
// String; it leaves out a field that is too long.
func Validate(e Expr) error {
	if e == nil {
		return nil
	}
	return new(validator).check(e, 1)
}

type validator struct {
	pointer
	exprs, values int
}

func (c *validator) check(e Expr, depth int) error {
	c.exprs++
	if c.exprs > MaxExprs {
		return pointer(nil).errorf("more than %d expressions", MaxExprs)
	}
	if depth > MaxDepth {
		return c.errorf("nested deeper than %d", MaxDepth)
	}
	switch e := given(e).(type) {
	case *Comparison:
		return c.leaf(e.Field, checkOperand(e.Op, e.Value))
	case *Membership:
		c.values += len(e.Values)
		if c.values > MaxValues {
			return c.leaf(e.Field, fmt.Errorf("more than %d values in lists", MaxValues))
		}
		var err error
		for i := 0; i < len(e.Values) && err == nil; i++ {
			err = checkScalar(e.Values[i])
		}
		return c.leaf(e.Field, err)
	case *Existence:
		return c.leaf(e.Field, nil)
	case *TextMatch:
		c.push("$text")
		defer c.pop()
		if !utf8.ValidString(e.Query) {
			return c.errorf("the query is not valid UTF-8")
		}
		return nil
	case *Conjunction:
		return c.args("$and", e.Args, depth)
	case *Disjunction:
		return c.args("$or", e.Args, depth)
	case *Negation:
		if isLeaf(e.Arg) { // written as $ne and the like, without a step of its own
			return c.check(e.Arg, depth+1)
		}
		c.push("$not")
		defer c.pop()
		return c.check(e.Arg, depth+1)
	}
	return c.errorf("a nil condition")
}

func (c *validator) args(op string, args []Expr, depth int) error {
	c.push(op)
	defer c.pop()
	for i, arg := range args {
		c.push(strconv.Itoa(i))
		if err := c.check(arg, depth+1); err != nil {
			return err
		}
		c.pop()
	}
	return nil
}

// leaf reports a bad field, or err as an error of that field.
func (c *validator) leaf(field string, err error) error {
	c.push(field)
	defer c.pop()
	if fieldErr := c.checkField(); fieldErr != nil {
		return fieldErr
	}
	if err != nil {
		return c.errorf("%s", err.Error())
	}
	return nil
}

func isLeaf(e Expr) bool {
	switch e.(type) {
	case *Comparison, *Membership, *Existence:
		return true
	}
	return false
}

// checkField reports a bad field, which is the last step of p.
func (p pointer) checkField() error {
	above, field := p[:len(p)-1], p[len(p)-1]
	switch {
	case field == "":
		return p.errorf("empty field name")
	case len(field) > MaxPath:
		return above.errorf("field name %.40q… has %d bytes, the limit is %d", field, len(field), MaxPath)
	case field[0] == '$':
		return p.errorf("field name %q begins with $", field)
	case !utf8.ValidString(field):
		return p.errorf("field name %q is not valid UTF-8", field)
	}
	return nil
}

func checkOperand(op Op, v any) error {
	if err := checkScalar(v); err != nil {
		return err
	}
	switch op {
	case OpEq, OpContains:
		return nil
	case OpGt, OpGte, OpLt, OpLte:
		if !hasOrder(v) {
			return fmt.Errorf("%s takes a number or a string, not %s", op, describe(v))
		}
	case OpPrefix:
		if _, ok := v.(string); !ok {
			return fmt.Errorf("%s takes a string, not %s", op, describe(v))
		}
	default:
		return fmt.Errorf("unknown operator %q", op)
	}
	return nil
}

// checkScalar accepts the five types only, not the types that Scalar would widen: the constructors
// have widened them already, and Match does not.
func checkScalar(v any) error {
	s, err := Scalar(v)
	if err == nil && s != v {
		err = fmt.Errorf("a value of type %T has to be widened to %T", v, s)
	}
	return err
}

func describe(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a bool"
	case int64, float64:
		return "a number"
	case string:
		return "a string"
	}
	return fmt.Sprintf("a %T", v)
}

// pointer is a position in a condition: the steps of a JSON pointer, joined only
// when an error needs them, because a long path can have many values below it.
type pointer []string

func (p *pointer) push(step string) { *p = append(*p, step) }
func (p *pointer) pop()             { *p = (*p)[:len(*p)-1] }

func (p pointer) errorf(format string, args ...any) error {
	return &SyntaxError{p.String(), fmt.Sprintf(format, args...)}
}

// String returns the pointer in its JSON form.
func (p pointer) String() string {
	var b strings.Builder
	for _, step := range p {
		b.WriteByte('/')
		b.WriteString(escape.Replace(step))
	}
	return b.String()
}

var escape = strings.NewReplacer("~", "~0", "/", "~1")
