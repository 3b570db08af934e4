package weaviate

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/store"
	"github.com/vecbolt/vecbolt/store/storetest"
)

// holds is what the server makes of a clause.
func (c *clause) holds(terms []string) bool {
	switch c.operator {
	case "":
		return c.constant
	case "ContainsAny":
		return slices.ContainsFunc(c.terms, func(s string) bool { return slices.Contains(terms, s) })
	case "Like":
		prefix := strings.TrimSuffix(c.terms[0], "*")
		return slices.ContainsFunc(terms, func(s string) bool { return strings.HasPrefix(s, prefix) })
	case "Not":
		return !c.operands[0].holds(terms)
	}
	and := c.operator == "And"
	for _, o := range c.operands {
		if o.holds(terms) != and {
			return !and
		}
	}
	return and
}

func (c *clause) size() int {
	n := len(c.terms)
	for _, o := range c.operands {
		n += o.size()
	}
	return n
}

func checkWhere(t rapid.TB, where filter.Expr, docs []db.Document, terms [][]string) {
	cond := translate(where)
	if n := cond.upper.size(); n > 10_000 {
		t.Fatalf("%v: %d terms", where, n)
	}
	for i := range docs {
		upper, lower, want := cond.upper.holds(terms[i]), cond.lower.holds(terms[i]), store.Matches(where, &docs[i])
		if want && !upper || lower && !want || cond.exact() && upper != want {
			t.Fatalf("%v on %v: upper %v, lower %v, exact %v, want %v\n%q", where, docs[i].Metadata, upper, lower, cond.exact(), want, terms[i])
		}
	}
}

func allTerms(t testing.TB, docs []db.Document) [][]string {
	var terms [][]string
	plain := regexp.MustCompile(`^[!-)+->@-~?]+$`) // printable, no * and no space
	for _, d := range docs {
		list := termsOf(d.Metadata)
		for _, term := range list {
			if !plain.MatchString(term) || len(term) > 1200 {
				t.Fatalf("term %q", term)
			}
		}
		terms = append(terms, list)
	}
	return terms
}

// What the server is asked for brackets what is wanted, whatever the condition.
func TestConditionsBracket(t *testing.T) {
	docs := storetest.Documents(2)
	terms := allTerms(t, docs)
	fields := []string{"k", "n", "lang", "author.name", "author", "tags", "a-b", "größe", "k.deep.er", "nowhere"}
	values := []any{nil, true, false, "", "g", "go", "gop", "gopher", "2024-02", "\xf4\x8f\xbf\xbf", strings.Repeat("long ", 200) + "a", strings.Repeat("long ", 25), int64(math.MinInt64), 9007199254740992.5}
	for _, d := range docs {
		if v, ok := d.Metadata["k"]; ok {
			if _, err := filter.Scalar(v); err == nil {
				values = append(values, v)
			}
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var draw func(depth int) filter.Expr
		draw = func(depth int) filter.Expr {
			field, v := rapid.SampledFrom(fields).Draw(t, "field"), rapid.SampledFrom(values).Draw(t, "value")
			kinds := 9
			if depth == 0 {
				kinds = 6 // no connective
			}
			switch rapid.IntRange(0, kinds).Draw(t, "kind") {
			case 0:
				return filter.Eq(field, v)
			case 1:
				return filter.In(field, v, rapid.SampledFrom(values).Draw(t, "other"))
			case 2:
				return filter.Exists(field)
			case 3:
				return filter.Contains(field, v)
			case 4:
				if s, ok := v.(string); ok {
					return filter.Prefix(field, s[:len(s)/2])
				}
				return filter.Ne(field, v)
			case 5, 6:
				switch v.(type) {
				case string, int64, float64:
					return &filter.Comparison{Field: field, Op: rapid.SampledFrom([]filter.Op{filter.OpGt, filter.OpGte, filter.OpLt, filter.OpLte}).Draw(t, "op"), Value: v}
				}
				return filter.And()
			case 7:
				return filter.Not(draw(depth - 1))
			case 8:
				return filter.And(draw(depth-1), draw(depth-1))
			}
			return filter.Or(draw(depth-1), draw(depth-1))
		}
		checkWhere(t, draw(4), docs, terms)
	})
}

// Every pair of numbers, with all comparisons: exact, also beyond 2^53. So are
// dates.
func TestNumbersAreExact(t *testing.T) {
	values := []any{}
	for _, i := range []int64{0, 1, 2, 15, 16, 17, 255, 256, 2020, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<53 + 2, 1<<53 + 3, 1<<62 - 1, 1 << 62, 1<<62 + 1, math.MaxInt64 - 1024, math.MaxInt64 - 1, math.MaxInt64} {
		values = append(values, i, -i)
	}
	values = append(values, int64(math.MinInt64), int64(math.MinInt64)+1)
	for _, f := range []float64{0, 0.1, 0.5, 1.5, 1e-300, math.SmallestNonzeroFloat64, math.MaxFloat64, 1 << 53, 1 << 63, 1<<63 - 1024, 9.3e18, 2020.25} {
		values = append(values, f, -f)
	}
	values = append(values, math.Copysign(0, -1), math.Nextafter(1, 2))
	var docs []db.Document
	for _, v := range values {
		docs = append(docs, db.Document{ID: "x", Metadata: db.Metadata{"n": v}})
	}
	docs = append(docs, db.Document{ID: "x"}, db.Document{ID: "x", Metadata: db.Metadata{"n": "1"}})
	terms := allTerms(t, docs)
	for _, v := range values {
		for _, where := range []filter.Expr{filter.Eq("n", v), filter.Gt("n", v), filter.Gte("n", v), filter.Lt("n", v), filter.Lte("n", v), filter.Not(filter.Lte("n", v))} {
			if !translate(where).exact() {
				t.Fatalf("%v is not decided by the server", where)
			}
			checkWhere(t, where, docs, terms)
		}
	}
	if cond := translate(filter.Range("date", "2024-06-01", "2024-06-30")); !cond.exact() || cond.upper.size() > 500 {
		t.Errorf("dates: %d terms, exact %v", cond.upper.size(), cond.exact())
	}
	if n := len(termsOf(db.Metadata{"year": int64(2024)})); n > 10 {
		t.Errorf("a small number makes %d terms", n)
	}
}

// Trap 11: names that are no names of classes, or that differ by case alone.
func TestClassNames(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"docs", "Docs", "DOCS", "do cs", "do_cs", "do-cs", "do.cs", "dö", "日本", "_64ocs", "docs_", "vecbolt_docs", strings.Repeat("x", 255),
		strings.Repeat("x", 254) + "y", strings.Repeat("Ü", 100), "0", "_"} {
		class := className(name)
		if !validClass(class) {
			t.Errorf("%q: class %q", name, class)
		}
		low := strings.ToLower(class)
		if other, ok := seen[low]; ok {
			t.Errorf("%q and %q share a directory", name, other)
		}
		seen[low] = name
	}
}

// Trap 10: ids become UUIDs, each its own, always the same.
func TestObjectIDs(t *testing.T) {
	if got := objectID("a"); got != objectID("a") || got[14] != '5' {
		t.Errorf("objectID(a) = %s", got)
	}
	seen := map[string]string{}
	for _, d := range storetest.Documents(2) {
		if other, ok := seen[objectID(d.ID)]; ok {
			t.Errorf("%q and %q have the same UUID", d.ID, other)
		}
		seen[objectID(d.ID)] = d.ID
	}
	if got, want := objectID("a"), fixedID; got != want {
		t.Errorf("objectID(a) = %s, %s in collections that exist", got, want)
	}
}

// fixedID is the UUID of the document "a", which must never change.
const fixedID = "4ed902a8-2654-5c9d-92d4-570c706ac010"

// Trap 14: what a server would not take, or would take in another sense, is
// decided here.
func TestConstants(t *testing.T) {
	for where, want := range map[filter.Expr]*clause{
		nil: all, filter.And(): all, filter.Or(): none, filter.In("k"): none, filter.Nin("k"): all, filter.Not(filter.And()): none,
		filter.And(filter.Eq("k", 1), filter.In("k")): none, filter.Or(filter.Eq("k", 1), filter.Nin("k")): all,
	} {
		if got := translate(where); got.upper != want || !got.exact() {
			t.Errorf("%v: %+v", where, got)
		}
	}
	if got := translate(filter.And(filter.Eq("k", " en"), filter.Not(filter.Eq("k", "")))).upper.graphQL(); strings.Contains(got, `" `) || strings.Contains(got, `""`) {
		t.Errorf("blanks and empty strings reach the server: %s", got)
	}
}
