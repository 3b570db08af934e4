package filter

import "strconv"

// Why returns the innermost part of e that a document fails, and the JSON pointer (RFC 6901) of
// that part in the String of e; nil if the document meets e. A conjunction fails in its first
// failing argument; a disjunction or a negation fails as a whole. get is as in [Match].
func Why(e Expr, get func(path string) (any, bool)) (clause Expr, path string) {
	if Match(e, get) {
		return nil, ""
	}
	var at pointer
	for {
		args, op := []Expr(nil), ""
		switch e := e.(type) {
		case *Conjunction:
			args, op = e.Args, "$and"
		case *Disjunction:
			if len(e.Args) == 1 {
				args, op = e.Args, "$or"
			}
		}
		i := 0
		for i < len(args) && match(args[i], get) {
			i++
		}
		if i == len(args) {
			break
		}
		at.push(op)
		at.push(strconv.Itoa(i))
		e = args[i]
	}
	leaf := e
	if n, ok := e.(*Negation); ok && isLeaf(n.Arg) { // written as $ne and the like
		leaf = n.Arg
	}
	switch leaf := leaf.(type) {
	case *Comparison:
		at.push(leaf.Field)
	case *Membership:
		at.push(leaf.Field)
	case *Existence:
		at.push(leaf.Field)
	case *TextMatch:
		at.push("$text")
	case *Negation:
		at.push("$not")
	case *Disjunction:
		at.push("$or")
	}
	return e, at.String()
}
