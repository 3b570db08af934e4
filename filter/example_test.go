package filter_test

import (
	"fmt"

	"github.com/vecbolt/vecbolt/filter"
)

func Example() {
	where := filter.And(filter.Eq("lang", "go"), filter.Gte("year", 2020))
	fmt.Println(where)

	meta := map[string]any{"lang": "go", "year": int64(2024)}
	get := func(path string) (any, bool) { return filter.Lookup(meta, path) }
	fmt.Println(filter.Match(where, get))
	// Output:
	// {"$and":[{"lang":"go"},{"year":{"$gte":2020}}]}
	// true
}

func ExampleParse() {
	where, err := filter.Parse([]byte(`{"lang": "go", "year": {"$gte": 2020, "$lt": 2024}}`))
	fmt.Println(where, err)

	_, err = filter.Parse([]byte(`{"$and": [{"lang": "go"}, {"year": {"$from": 2020}}]}`))
	fmt.Println(err.(*filter.SyntaxError).Path)
	// Output:
	// {"$and":[{"lang":"go"},{"year":{"$gte":2020}},{"year":{"$lt":2024}}]} <nil>
	// /$and/1/year/$from
}

func ExampleIn() {
	langs := []string{"go", "rust"}
	fmt.Println(filter.In("lang", langs))
	fmt.Println(filter.Nin("year", 2020, 2021))
	// Output:
	// {"lang":{"$in":["go","rust"]}}
	// {"year":{"$nin":[2020,2021]}}
}

func ExampleNe() {
	missing := func(string) (any, bool) { return nil, false }
	fmt.Println(filter.Match(filter.Eq("lang", "go"), missing))
	fmt.Println(filter.Match(filter.Ne("lang", "go"), missing))
	fmt.Println(filter.Match(filter.And(filter.Exists("lang"), filter.Ne("lang", "go")), missing))
	// Output:
	// false
	// true
	// false
}

func ExampleSimplify() {
	e := filter.Not(filter.Or(filter.Eq("lang", "go"), filter.Not(filter.Exists("year"))))
	fmt.Println(filter.Simplify(e))
	fmt.Println(filter.Simplify(filter.And(e, filter.In("lang"))))
	// Output:
	// {"$and":[{"lang":{"$ne":"go"}},{"year":{"$exists":true}}]}
	// {"$or":[]}
}

func ExampleFlatten() {
	meta := map[string]any{
		"author": map[string]any{"name": "ann"},
		"tags":   []any{"db", "go"},
	}
	filter.Flatten(meta, func(path string, v any) bool {
		fmt.Println(path, v)
		return true
	})
	// Output:
	// author map[name:ann]
	// author.name ann
	// tags [db go]
}
