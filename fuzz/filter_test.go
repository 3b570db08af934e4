package fuzz_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
)

// whereSeeds has each production of the grammar and each kind of mistake.
var whereSeeds = []string{
	// Conditions.
	`{}`,
	`{"a":1}`,
	`{"a":"x","b":true}`,
	`{"a":null}`,
	`{"a.b.c":{"$eq":1.5}}`,
	`{"a":{"$ne":"x"}}`,
	`{"a":{"$ne":null}}`,
	`{"a":{"$gt":1}}`,
	`{"a":{"$gte":-1,"$lt":5e3}}`,
	`{"a":{"$lte":"é"}}`,
	`{"a":{"$in":[1,"x",null,true,1.0]}}`,
	`{"a":{"$in":[]}}`,
	`{"a":{"$nin":[2,2.0,2]}}`,
	`{"a":{"$exists":true}}`,
	`{"a":{"$exists":false}}`,
	`{"a":{"$contains":"x"}}`,
	`{"a":{"$contains":null}}`,
	`{"a":{"$prefix":""}}`,
	`{"a":{"$prefix":"\ud83d\ude00"}}`,
	`{"a":{"$not":{"$gt":3}}}`,
	`{"a":{"$not":{"$not":{"$gte":1,"$lt":2}}}}`,
	`{"$and":[]}`,
	`{"$or":[]}`,
	`{"$not":{}}`,
	`{"$and":[{"lang":"go"},{"year":{"$gte":2020}}]}`,
	`{"$or":[{"a":1},{"$and":[{"b":2},{"$or":[{"c":3},{}]}]}]}`,
	`{"$not":{"$or":[{"a":1},{"$not":{"b":{"$in":[1,2]}}}]}}`,
	`{"$and":[{"a":1},{"a":{"$ne":1}}]}`,
	`{"$or":[{"a":{"$lt":1}},{"$not":{"a":{"$lt":1}}}]}`,
	`{"$or":[{"a":1}],"$and":[{"b":2}],"$not":{"c":3},"d":4}`,
	" {\t\"a\" :\r\n 1 } ",
	`{"a~/b":{"$gt":"/~01"}}`,
	`{"\u0061\u0000\"\\\n":"\b\f\/\u2028"}`,
	// Numbers.
	`{"a":-0}`,
	`{"a":-0.0}`,
	`{"a":9007199254740993}`,
	`{"a":{"$gt":9007199254740992.0}}`,
	`{"a":9223372036854775807}`,
	`{"a":9223372036854775808}`,
	`{"a":-9223372036854775809}`,
	`{"a":{"$lte":1E-400}}`,
	`{"a":1.7976931348623157e308}`,
	`{"a":1e999}`,
	`{"a":01}`,
	// Mistakes.
	``,
	`null`,
	`[]`,
	`{"a":1`,
	`{"a":1}}`,
	`{"a":1,}`,
	`{"a":1,"\u0061":2}`,
	`{"a":{"$gt":1,"$gt":2}}`,
	`{"":1}`,
	`{"$a":1}`,
	`{"$gt":1}`,
	`{"a":[1]}`,
	`{"a":{}}`,
	`{"a":{"b":1}}`,
	`{"a":{"$foo":1}}`,
	`{"a":{"$gt":true}}`,
	`{"a":{"$in":[[1]]}}`,
	`{"a":{"$in":{"b":1}}}`,
	`{"a":{"$exists":1}}`,
	`{"a":{"$prefix":1}}`,
	`{"a":{"$or":[{"$gt":1}]}}`,
	`{"$and":{"a":1}}`,
	`{"$or":[1]}`,
	`{"a":"\ud800"}`,
	"{\"a\":\"\xff\"}",
	"\ufeff{}",
}

// FuzzFilterParse: Parse takes any bytes; what it accepts is JSON, valid, and
// has one canonical form; Simplify and Not mean what they say on random
// documents that hold the values the condition asks for.
func FuzzFilterParse(f *testing.F) {
	for i, where := range whereSeeds {
		f.Add([]byte(where), uint64(i))
	}
	f.Fuzz(func(t *testing.T, where []byte, seed uint64) {
		e, err := filter.Parse(where)
		if err != nil {
			var syntax *filter.SyntaxError
			if !errors.As(err, &syntax) || syntax.Msg == "" || e != nil {
				t.Fatalf("got %v, %v", e, err)
			}
			return
		}
		if !json.Valid(where) {
			t.Fatal("accepted what is not JSON")
		}
		if err := filter.Validate(e); err != nil {
			t.Fatal(err)
		}
		text := e.String()
		if len(text) <= filter.MaxText { // the canonical form can be longer than what was written
			again, err := filter.Parse([]byte(text))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if again.String() != text {
				t.Fatalf("%s became %s", text, again)
			}
		}
		simple := filter.Simplify(e)
		if err := filter.Validate(simple); err != nil {
			t.Fatalf("%s: %v", simple, err)
		}
		if again := filter.Simplify(simple); again.String() != simple.String() {
			t.Fatalf("not yet simple: %s became %s", simple, again)
		}
		r := rand.New(rand.NewPCG(seed, uint64(len(where))))
		fields, values := filter.Fields(e), operandsOf(e)
		for range 8 {
			doc := randomDocument(r, fields, values)
			get := func(path string) (any, bool) { v, ok := doc[path]; return v, ok }
			want := filter.Match(e, get)
			if filter.Match(simple, get) != want {
				t.Fatalf("%s and %s differ on %v", e, simple, doc)
			}
			if filter.Match(filter.Not(e), get) == want {
				t.Fatalf("%s and its negation agree on %v", e, doc)
			}
		}
	})
}

// randomDocument maps paths to values that are likely to matter to a condition.
func randomDocument(r *rand.Rand, fields []string, values []any) map[string]any {
	doc := map[string]any{}
	pick := func() any { return values[r.IntN(len(values))] }
	for _, field := range fields {
		switch r.IntN(6) {
		case 0, 1, 2:
			doc[field] = pick()
		case 3:
			doc[field] = []any{pick(), pick()}
		case 4:
			doc[field] = map[string]any{}
		}
	}
	return doc
}

// operandsOf returns the operands of e, neighbours of its numbers and strings,
// and one value of every kind.
func operandsOf(e filter.Expr) []any {
	values := []any{nil, true, false, int64(0), 0.5, "x"}
	add := func(v any) {
		values = append(values, v)
		switch v := v.(type) {
		case int64:
			values = append(values, v-1, v+1, float64(v))
		case float64:
			values = append(values, -v, v/2)
		case string:
			values = append(values, v+"x", v[:len(v)/2])
		}
	}
	var walk func(filter.Expr)
	walk = func(e filter.Expr) {
		switch e := e.(type) {
		case *filter.Comparison:
			add(e.Value)
		case *filter.Membership:
			for _, v := range e.Values {
				add(v)
			}
		case *filter.Conjunction:
			for _, arg := range e.Args {
				walk(arg)
			}
		case *filter.Disjunction:
			for _, arg := range e.Args {
				walk(arg)
			}
		case *filter.Negation:
			walk(e.Arg)
		}
	}
	walk(e)
	return values
}
