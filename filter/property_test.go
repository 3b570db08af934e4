package filter_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vecbolt/vecbolt/filter"
	"pgregory.net/rapid"
)

// Few fields and few values, so that random conditions and documents meet.
var (
	fields = []string{"a", "b", "c", "a.x", "a.x.y", "l", "odd \"name\"\n~/é"}

	scalars = rapid.OneOf(
		rapid.SampledFrom([]any{
			nil, true, false, "", "a", "ab", "b", "\U0001f600", int64(0), int64(1), int64(2), 0.0, 0.5, 1.0, 2.0,
			math.Copysign(0, -1), int64(9007199254740993), 9007199254740992.0, int64(math.MaxInt64), float64(1 << 63), 1e300,
		}),
		rapid.Custom(func(t *rapid.T) any { return rapid.Int64().Draw(t, "int") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.String().Draw(t, "string") }),
		rapid.Custom(func(t *rapid.T) any { return rapid.Float64Range(-1e10, 1e10).Draw(t, "float") }),
	)

	ordered = scalars.Filter(func(v any) bool {
		switch v.(type) {
		case nil, bool:
			return false
		}
		return true
	})

	documents = rapid.Custom(func(t *rapid.T) map[string]any { return drawMap(t, 2) })
)

func drawMap(t *rapid.T, depth int) map[string]any {
	meta := map[string]any{}
	for _, key := range append([]string{"x", "y"}, fields...) {
		switch rapid.IntRange(0, 6).Draw(t, "form of "+key) {
		case 0, 1, 2:
			meta[key] = scalars.Draw(t, key)
		case 3:
			meta[key] = rapid.SliceOfN(scalars, 0, 3).Draw(t, key)
		case 4:
			if depth > 0 {
				meta[key] = drawMap(t, depth-1)
			}
		}
	}
	return meta
}

func drawExpr(t *rapid.T, depth int) filter.Expr {
	forms := 12
	if depth > 1 {
		forms = 16
	}
	field := rapid.SampledFrom(fields).Draw(t, "field")
	args := func() []filter.Expr {
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) filter.Expr { return drawExpr(t, depth-1) }), 0, 3).Draw(t, "args")
	}
	switch rapid.IntRange(0, forms-1).Draw(t, "form") {
	case 0:
		return filter.Eq(field, scalars.Draw(t, "value"))
	case 1:
		return filter.Ne(field, scalars.Draw(t, "value"))
	case 2:
		return filter.Gt(field, ordered.Draw(t, "value"))
	case 3:
		return filter.Gte(field, ordered.Draw(t, "value"))
	case 4:
		return filter.Lt(field, ordered.Draw(t, "value"))
	case 5:
		return filter.Lte(field, ordered.Draw(t, "value"))
	case 6:
		return filter.Contains(field, scalars.Draw(t, "value"))
	case 7:
		return filter.Prefix(field, rapid.SampledFrom([]string{"", "a", "ab", "\xf0\x9f\x98\x80"}).Draw(t, "prefix"))
	case 8:
		return filter.In(field, rapid.SliceOfN(scalars, 0, 4).Draw(t, "values")...)
	case 9:
		return filter.Nin(field, rapid.SliceOfN(scalars, 0, 4).Draw(t, "values")...)
	case 10:
		return filter.Exists(field)
	case 11:
		return filter.Text(rapid.SampledFrom([]string{"", "a \"b\"", "+x -y*"}).Draw(t, "query"))
	case 12, 13:
		return filter.And(args()...)
	case 14:
		return filter.Or(args()...)
	}
	return filter.Not(drawExpr(t, depth-1))
}

// expressions are the random expressions of every property.
var expressions = rapid.Custom(func(t *rapid.T) filter.Expr { return drawExpr(t, 4) })

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := expressions.Draw(t, "e")
		if err := filter.Validate(e); err != nil {
			t.Fatal(err)
		}
		text := e.String()
		if !json.Valid([]byte(text)) {
			t.Fatalf("not JSON: %s", text)
		}
		again, err := filter.Parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(e, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s: %s", text, diff)
		}
		if again.String() != text {
			t.Fatalf("%s became %s", text, again)
		}
	})
}

func TestLogic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, y := expressions.Draw(t, "x"), expressions.Draw(t, "y")
		meta := documents.Draw(t, "document")
		mx, my := matches(x, meta), matches(y, meta)
		for _, law := range []struct {
			e    filter.Expr
			want bool
		}{
			{filter.Not(x), !mx},
			{filter.Not(filter.Not(x)), mx},
			{filter.And(x, y), mx && my},
			{filter.Or(x, y), mx || my},
			{filter.Not(filter.And(x, y)), matches(filter.Or(filter.Not(x), filter.Not(y)), meta)},
			{filter.Not(filter.Or(x, y)), matches(filter.And(filter.Not(x), filter.Not(y)), meta)},
		} {
			if got := matches(law.e, meta); got != law.want {
				t.Fatalf("%s: got %v", law.e, got)
			}
		}
	})
}

func TestOperatorsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		field := rapid.SampledFrom(fields).Draw(t, "field")
		v, meta := ordered.Draw(t, "value"), documents.Draw(t, "document")
		for _, law := range [][2]filter.Expr{
			{filter.Gte(field, v), filter.Or(filter.Gt(field, v), filter.Eq(field, v))},
			{filter.Lte(field, v), filter.Or(filter.Lt(field, v), filter.Eq(field, v))},
			{filter.Range(field, v, v), filter.Eq(field, v)},
			{filter.In(field, v), filter.Eq(field, v)},
			{filter.In(field, v, nil), filter.Or(filter.Eq(field, v), filter.Eq(field, nil))},
			{filter.And(filter.Lt(field, v), filter.Gt(field, v)), filter.Or()},
			{filter.And(filter.Eq(field, v), filter.Not(filter.Exists(field))), filter.Or()},
		} {
			if matches(law[0], meta) != matches(law[1], meta) {
				t.Fatalf("%s and %s differ", law[0], law[1])
			}
		}
	})
}

func TestSimplify(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := expressions.Draw(t, "e")
		before := e.String()
		s := filter.Simplify(e)
		if e.String() != before {
			t.Fatalf("%s became %s", before, e)
		}
		if err := filter.Validate(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		if again := filter.Simplify(s); again.String() != s.String() {
			t.Fatalf("not yet simple: %s became %s", s, again)
		}
		checkSimple(t, s, true)
		for range 8 {
			meta := documents.Draw(t, "document")
			if matches(e, meta) != matches(s, meta) {
				t.Fatalf("%s and %s differ on %v", e, s, meta)
			}
		}
	})
}

// checkSimple holds e to the form that Simplify promises.
func checkSimple(t *rapid.T, e filter.Expr, root bool) {
	var args []filter.Expr
	switch e := e.(type) {
	case *filter.Conjunction:
		args = e.Args
	case *filter.Disjunction:
		args = e.Args
	case *filter.Negation:
		switch e.Arg.(type) {
		case *filter.Comparison, *filter.Membership, *filter.Existence, *filter.TextMatch:
		default:
			t.Fatalf("negation of %s", e.Arg)
		}
		return
	default:
		return
	}
	if len(args) == 1 || len(args) == 0 && !root {
		t.Fatalf("%d arguments: %s", len(args), e)
	}
	for _, arg := range args {
		_, outer := e.(*filter.Conjunction)
		_, andArg := arg.(*filter.Conjunction)
		_, orArg := arg.(*filter.Disjunction)
		if outer && andArg || !outer && orArg {
			t.Fatalf("not flat: %s", e)
		}
		checkSimple(t, arg, false)
	}
}

// TestFlattenLookup: Flatten visits exactly what Lookup finds, in documents
// whose paths are unambiguous, that is, visited once.
func TestFlattenLookup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		meta := documents.Draw(t, "document")
		visits, values := map[string]int{}, map[string]any{}
		filter.Flatten(meta, func(path string, v any) bool {
			visits[path]++
			values[path] = v
			return true
		})
		for _, path := range append([]string{"a.a", "a.x.a.x", "c.a.x.y", "l.l"}, fields...) {
			v, ok := filter.Lookup(meta, path)
			if ok != (visits[path] > 0) {
				t.Fatalf("%q: found %v, visited %d times", path, ok, visits[path])
			}
			if visits[path] == 1 && !cmp.Equal(v, values[path]) {
				t.Fatalf("%q: found %v, visited %v", path, v, values[path])
			}
		}
	})
}
