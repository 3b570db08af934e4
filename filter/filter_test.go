package filter_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vecbolt/vecbolt/filter"
)

func parse(t *testing.T, where string) filter.Expr {
	t.Helper()
	e, err := filter.Parse([]byte(where))
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	return e
}

// sameExpr compares structure; arguments nil and empty mean the same.
func sameExpr(t *testing.T, got, want filter.Expr) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%v and %v differ (-want +got):\n%s", want, got, diff)
	}
}

func TestConstructors(t *testing.T) {
	for _, tt := range []struct {
		expr filter.Expr
		want string
	}{
		{filter.Eq("a", 1), `{"a":1}`},
		{filter.Eq("a", nil), `{"a":null}`},
		{filter.Eq("a", uint8(200)), `{"a":200}`},
		{filter.Eq("a", float32(0.1)), `{"a":0.10000000149011612}`},
		{filter.Eq("a", 2.0), `{"a":2.0}`},
		{filter.Eq("a", 1e21), `{"a":1e+21}`},
		{filter.Eq("a", int64(math.MinInt64)), `{"a":-9223372036854775808}`},
		{filter.Eq("a", json.Number("7")), `{"a":7}`},
		{filter.Eq("a \"\\\n\x00<é", "\t\"\\</script>\u2028\x7f"), `{"a \"\\\u000a\u0000<é":"\u0009\"\\</script>` + "\u2028\x7f" + `"}`},
		{filter.Ne("a", "x"), `{"a":{"$ne":"x"}}`},
		{filter.Gt("a", 1), `{"a":{"$gt":1}}`},
		{filter.Gte("a", 1), `{"a":{"$gte":1}}`},
		{filter.Lt("a", "x"), `{"a":{"$lt":"x"}}`},
		{filter.Lte("a", -0.5), `{"a":{"$lte":-0.5}}`},
		{filter.Range("a", 1, 2), `{"$and":[{"a":{"$gte":1}},{"a":{"$lte":2}}]}`},
		{filter.Contains("a", true), `{"a":{"$contains":true}}`},
		{filter.Prefix("a", "x"), `{"a":{"$prefix":"x"}}`},
		{filter.In("a"), `{"a":{"$in":[]}}`},
		{filter.In("a", 1, "x", nil, false), `{"a":{"$in":[1,"x",null,false]}}`},
		{filter.In("a", []string{"x", "y"}, 1), `{"a":{"$in":["x","y",1]}}`},
		{filter.In("a", []any{int8(1)}, []int{2}, []int64{3}, []float64{4}), `{"a":{"$in":[1,2,3,4.0]}}`},
		{filter.Nin("a", 1), `{"a":{"$nin":[1]}}`},
		{filter.Exists("a.b"), `{"a.b":{"$exists":true}}`},
		{filter.Not(filter.Exists("a")), `{"a":{"$exists":false}}`},
		{filter.Not(filter.Gt("a", 1)), `{"$not":{"a":{"$gt":1}}}`},
		{filter.Not(filter.Ne("a", 1)), `{"$not":{"a":{"$ne":1}}}`},
		{filter.And(), `{}`},
		{filter.Or(), `{"$or":[]}`},
		{filter.And(filter.Eq("a", 1)), `{"$and":[{"a":1}]}`},
		{filter.Or(filter.And(), filter.Or()), `{"$or":[{},{"$or":[]}]}`},
	} {
		if got := tt.expr.String(); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
		if err := filter.Validate(tt.expr); err != nil {
			t.Errorf("%s: %v", tt.want, err)
		}
		sameExpr(t, parse(t, tt.want), tt.expr)
	}
}

func TestConstructorsCopy(t *testing.T) {
	args := []filter.Expr{filter.Eq("a", 1)}
	values := []any{1}
	and, or, in := filter.And(args...), filter.Or(args...), filter.In("a", values...)
	args[0], values[0] = nil, 2
	for _, e := range []filter.Expr{and, or, in} {
		if !matches(e, map[string]any{"a": int64(1)}) {
			t.Errorf("%s changed with the caller's slice", e)
		}
	}
}

func TestValidate(t *testing.T) {
	deep := func(n int) filter.Expr {
		e := filter.Gt("a", 1)
		for range n - 1 {
			e = filter.Not(e)
		}
		return e
	}
	for _, tt := range []struct {
		name string
		expr filter.Expr
		want string // "" if valid
	}{
		{"nil", nil, ""},
		{"depth", deep(filter.MaxDepth), ""},
		{"too deep", deep(filter.MaxDepth + 1), "filter: at \"" + strings.Repeat("/$not", filter.MaxDepth-1) + "\": nested deeper than 32"},
		{"expressions", filter.Or(slices.Repeat([]filter.Expr{filter.Exists("a")}, filter.MaxExprs-1)...), ""},
		{"too many", filter.Or(slices.Repeat([]filter.Expr{filter.Exists("a")}, filter.MaxExprs)...), "filter: more than 1000 expressions"},
		{"values", filter.In("a", make([]any, filter.MaxValues)...), ""},
		{"too many values", filter.And(filter.In("a", 1), filter.Nin("b", make([]any, filter.MaxValues)...)), `filter: at "/$and/1/b": more than 10000 values in lists`},
		{"NaN", filter.Eq("a", math.NaN()), `filter: at "/a": number NaN is not finite`},
		{"Inf", filter.Lt("a", float32(math.Inf(-1))), `filter: at "/a": number -Inf is not finite`},
		{"uint64", filter.Eq("a", uint64(math.MaxInt64+1)), `filter: at "/a": number 9223372036854775808 exceeds int64`},
		{"type", filter.Eq("a", time.Second), `filter: at "/a": a value of type time.Duration is not supported`},
		{"list", filter.Eq("a", []any{1}), `filter: at "/a": a list is no value to compare with`},
		{"list in list", filter.In("a", []any{[]any{1}}), `filter: at "/a": a list is no value to compare with`},
		{"utf8", filter.Eq("a", "\xff"), `filter: at "/a": string "\xff" is not valid UTF-8`},
		{"utf8 field", filter.Exists("\xff"), `filter: at "/\xff": field name "\xff" is not valid UTF-8`},
		{"empty field", filter.Exists(""), `filter: at "/": empty field name`},
		{"dollar field", filter.Or(filter.Eq("$a", 1)), `filter: at "/$or/0/$a": field name "$a" begins with $`},
		{"longest field", filter.Exists(strings.Repeat("é", filter.MaxPath/2)), ""},
		{"long field", filter.And(filter.Exists(strings.Repeat("é", filter.MaxPath/2+1))), `filter: at "/$and/0": field name "` + strings.Repeat("é", 40) + `"… has 4112 bytes, the limit is 4111`},
		{"order of bool", filter.Not(filter.And(filter.Ne("b", true), filter.Gt("a", true))), `filter: at "/$not/$and/1/a": $gt takes a number or a string, not a bool`},
		{"order of null", filter.Range("a", nil, 1), `filter: at "/$and/0/a": $gte takes a number or a string, not null`},
		{"not widened", &filter.Comparison{Field: "a", Op: filter.OpEq, Value: 1}, `filter: at "/a": a value of type int has to be widened to int64`},
		{"operator", &filter.Comparison{Field: "a", Op: "$like", Value: "x"}, `filter: at "/a": unknown operator "$like"`},
		{"prefix", &filter.Comparison{Field: "a", Op: filter.OpPrefix, Value: int64(1)}, `filter: at "/a": $prefix takes a string, not a number`},
		{"nil argument", filter.And(nil), `filter: at "/$and/0": a nil condition`},
		{"nil negation", filter.Not(nil), `filter: at "/$not": a nil condition`},
		{"nil of a type", filter.And((*filter.Comparison)(nil)), `filter: at "/$and/0": a nil condition`},
		{"nil of a type, negated", filter.Not((*filter.Disjunction)(nil)), `filter: at "/$not": a nil condition`},
		{"nil leaf", (*filter.Existence)(nil), `filter: a nil condition`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := filter.Validate(tt.expr)
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			var syntax *filter.SyntaxError
			if !errors.As(err, &syntax) {
				t.Errorf("%T", err)
			}
			// An expression that Validate refuses is safe to use and does not parse as another one.
			if _, err := filter.Parse([]byte(tt.expr.String())); err == nil {
				t.Errorf("%s parses", tt.expr)
			}
			matches(tt.expr, map[string]any{"a": int64(1)})
			filter.Simplify(tt.expr)
			filter.Fields(tt.expr)
		})
	}
}

// TestInvalidOperands: an expression that Validate reports matches nothing.
func TestInvalidOperands(t *testing.T) {
	get := func(string) (any, bool) { return int64(1), true }
	for _, e := range []filter.Expr{
		filter.Eq("a", math.NaN()), filter.Eq("a", uint64(math.MaxUint64)), filter.Eq("a", []any{1}),
		filter.In("a", []any{[]any{1}}), filter.Lte("a", math.NaN()), filter.Gte("a", math.NaN()),
		filter.And(nil), filter.Or(nil), &filter.Comparison{Field: "a", Op: "$like", Value: int64(1)},
	} {
		if filter.Match(e, get) {
			t.Errorf("%s matches", e)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", filter.MaxText-8) + `"}`
	if _, err := filter.Parse([]byte(long)); err != nil {
		t.Errorf("%d bytes: %v", len(long), err)
	}
	nested := func(n int) string {
		return strings.Repeat(`{"$not":`, n) + `{"a":{"$gt":1}}` + strings.Repeat(`}`, n)
	}
	parse(t, nested(filter.MaxDepth-1))
	nots := func(n int) string {
		return `{"a":` + strings.Repeat(`{"$not":`, n) + `{"$gt":1}` + strings.Repeat(`}`, n) + `}`
	}
	parse(t, nots(filter.MaxDepth-1))
	for _, tt := range []struct{ name, where, want string }{
		{"size", long + " ", "65537 bytes exceed the limit of 65536"},
		{"raw byte", "{\"a\":\"\xff\"}", "invalid UTF-8 or half a surrogate pair at byte 6"},
		{"raw surrogate", "{\"a\":\"\xed\xa0\x80\"}", "invalid UTF-8 or half a surrogate pair at byte 6"},
		{"field escape", `{"\udfff":1}`, "invalid UTF-8 or half a surrogate pair at byte 2"},
		{"high then plain", `{"a":"\ud83dx"}`, "invalid UTF-8 or half a surrogate pair at byte 6"},
		{"high then high", `{"a":"\ud83d\ud83d\ude00"}`, "invalid UTF-8 or half a surrogate pair at byte 6"},
		{"short escape", `{"a":"\ud83`, "the text ends too early"},
		{"bad escape", `{"a":"\uzzzz"}`, "malformed JSON"},
		{"empty", " \n", "no condition"},
		{"arrays", strings.Repeat(`[`, filter.MaxText), "not an array"},
		{"depth", nested(filter.MaxDepth), "nested deeper than 32"},
		{"field depth", nots(filter.MaxDepth), "nested deeper than 32"},
		{"implicit depth", strings.Repeat(`{"$not":`, filter.MaxDepth-1) + `{"a":1,"b":1}` + strings.Repeat(`}`, filter.MaxDepth-1), "nested deeper than 32"},
		{"expressions", `{"$or":[` + strings.Repeat(`{"a":1},`, filter.MaxExprs-1) + `{}]}`, "more than 1000 expressions"},
		{"values", `{"a":{"$in":[` + strings.Repeat(`1,`, filter.MaxValues) + `1]}}`, "more than 10000 values"},
		{"long field", `{"` + strings.Repeat("a.", filter.MaxPath/2+1) + `":{"$in":[1]}}`, "has 4112 bytes, the limit is 4111"},
		{"values in all", `{"a":{"$in":[` + strings.Repeat(`1,`, filter.MaxValues-1) + `1]},"b":{"$nin":[1]}}`, "more than 10000 values in lists"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := filter.Parse([]byte(tt.where))
			var syntax *filter.SyntaxError
			if !errors.As(err, &syntax) || !strings.Contains(syntax.Msg, tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := filter.Parse([]byte(`{"\ud83d\ude00":"\ufffd \\ud800"}`)); err != nil {
		t.Error(err)
	}
	for _, where := range [][]byte{nil, {}} {
		if e, err := filter.Parse(where); err == nil || e != nil {
			t.Errorf("got %v, %v", e, err)
		}
	}
}

func TestMustParse(t *testing.T) {
	sameExpr(t, filter.MustParse(`{"a":1}`), filter.Eq("a", 1))
	defer func() {
		if _, ok := recover().(*filter.SyntaxError); !ok {
			t.Error("no panic with a SyntaxError")
		}
	}()
	filter.MustParse(`{"a":[]}`)
}

func TestNilMatchesAll(t *testing.T) {
	if !filter.Match(nil, func(string) (any, bool) { return nil, false }) {
		t.Error("Match(nil) is false")
	}
	sameExpr(t, filter.Simplify(nil), filter.And())
	if fields := filter.Fields(nil); len(fields) != 0 {
		t.Errorf("Fields(nil) = %q", fields)
	}
}

func TestFields(t *testing.T) {
	e := parse(t, `{"$or":[{"b":1},{"a.x":{"$in":[1]}},{"$not":{"c":{"$exists":true},"b":2}}]}`)
	if diff := cmp.Diff([]string{"a.x", "b", "c"}, filter.Fields(e)); diff != "" {
		t.Error(diff)
	}
}

func TestFlatten(t *testing.T) {
	meta := map[string]any{
		"b": map[string]any{"z": nil, "y.x": map[string]any{"k": true}, "e": map[string]any{}},
		"a": []any{"1", map[string]any{"in": 1}},
		"":  int64(1),
	}
	want := []string{"", "a", "b", "b.e", "b.y.x", "b.y.x.k", "b.z"}
	for stop := 1; stop <= len(want); stop++ {
		var got []string
		filter.Flatten(meta, func(path string, v any) bool {
			if found, ok := filter.Lookup(meta, path); !ok || !cmp.Equal(found, v) {
				t.Errorf("Lookup(%q) = %v, %v, want %v", path, found, ok, v)
			}
			got = append(got, path)
			return len(got) < stop
		})
		if diff := cmp.Diff(want[:stop], got); diff != "" {
			t.Errorf("stopping at %d: %s", stop, diff)
		}
	}
	filter.Flatten(nil, func(string, any) bool { t.Error("visited nil"); return true })
}

func TestLookupMissing(t *testing.T) {
	meta := map[string]any{"a": map[string]any{"b": int64(1)}, "l": []any{map[string]any{"b": 1}}}
	for _, path := range []string{"", ".", "a.", ".a", "a.b.", "a..b", "a.b.c", "l.b", "l.0", "b", "a.a"} {
		if v, ok := filter.Lookup(meta, path); ok {
			t.Errorf("Lookup(%q) = %v", path, v)
		}
	}
	if _, ok := filter.Lookup(nil, "a"); ok {
		t.Error("found in nil")
	}
}

// TestLookupOfALongPath ends: with every prefix of the path hashed, it would take hours.
func TestLookupOfALongPath(t *testing.T) {
	long := strings.Repeat("a.", 16<<20)
	meta := map[string]any{"a": map[string]any{"a": int64(1)}}
	for i := range 20 { // in small maps keys are not hashed
		meta[strconv.Itoa(i)] = int64(i)
	}
	if v, ok := filter.Lookup(meta, long); ok {
		t.Errorf("found %v", v)
	}
	if v, ok := filter.Lookup(meta, "a.a"); !ok || v != int64(1) {
		t.Errorf("found %v, %v", v, ok)
	}
	meta["a."+long] = map[string]any{"b": int64(2)}
	if v, ok := filter.Lookup(meta, "a."+long+".b"); !ok || v != int64(2) {
		t.Errorf("found %v, %v", v, ok)
	}
}

// benchWhere is a condition of ordinary size.
const benchWhere = `{"lang":"go","year":{"$gte":2020,"$lt":2024},"$or":[{"tags":{"$contains":"db"}},{"author.name":{"$in":["ann","bob"]}}]}`

func BenchmarkParse(b *testing.B) {
	for _, tt := range []struct{ name, where string }{
		{"ordinary", benchWhere},
		{"longest", `{"a":{"$in":[` + strings.Repeat(`12345,`, filter.MaxValues) + `1]}}`},
		{"widest", `{"$or":[` + strings.Repeat(`{"some.field.name":{"$ne":"some value"}},`, filter.MaxExprs/2-2) + `{}]}`},
	} {
		b.Run(tt.name, func(b *testing.B) {
			for b.Loop() {
				_, _ = filter.Parse([]byte(tt.where))
			}
		})
	}
}

func BenchmarkMatch(b *testing.B) {
	e := filter.MustParse(benchWhere)
	meta := map[string]any{"lang": "go", "year": int64(2022), "author": map[string]any{"name": "bob"}, "tags": []any{"ml"}}
	get := func(path string) (any, bool) { return filter.Lookup(meta, path) }
	for b.Loop() {
		if !filter.Match(e, get) {
			b.Fatal("no match")
		}
	}
}

// Match asks get whether a text matches; metadata does not tell.
func TestText(t *testing.T) {
	e := filter.And(filter.Eq("a", 1), filter.Not(filter.Text("+x y")))
	get := func(found bool) func(string) (any, bool) {
		return func(path string) (any, bool) {
			if path == filter.TextPath+"+x y" {
				return found, true
			}
			return int64(1), path == "a"
		}
	}
	if filter.Match(e, get(true)) || !filter.Match(e, get(false)) {
		t.Error("the text is not asked for")
	}
	meta := map[string]any{"a": int64(1)}
	if !filter.Match(e, func(path string) (any, bool) { return filter.Lookup(meta, path) }) {
		t.Error("a text matches without an index")
	}
	if texts := filter.Texts(filter.Or(e, filter.Text("z"))); len(texts) != 2 || texts[0].Query != "+x y" || texts[1].Query != "z" {
		t.Errorf("texts %v", texts)
	}
	if _, err := filter.Parse([]byte(`{"$text":1}`)); err == nil || !strings.Contains(err.Error(), "/$text") {
		t.Errorf("error %v", err)
	}
}
