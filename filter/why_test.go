package filter

import "testing"

func TestWhy(t *testing.T) {
	doc := map[string]any{"lang": "go", "year": int64(2019), "a/b": map[string]any{"c": true}}
	get := func(path string) (any, bool) { return Lookup(doc, path) }
	for _, c := range []struct{ where, clause, path string }{
		{`{}`, "", ""},
		{`{"lang":"go"}`, "", ""},
		{`{"lang":"c"}`, `{"lang":"c"}`, "/lang"},
		{`{"lang":"go","year":{"$gte":2020}}`, `{"year":{"$gte":2020}}`, "/$and/1/year"},
		{`{"$or":[{"lang":"c"},{"year":1}]}`, `{"$or":[{"lang":"c"},{"year":1}]}`, "/$or"},
		{`{"$or":[{"lang":"c"}]}`, `{"lang":"c"}`, "/$or/0/lang"},
		{`{"$or":[]}`, `{"$or":[]}`, "/$or"},
		{`{"$not":{"$and":[{"lang":"go"},{"year":2019}]}}`, `{"$not":{"$and":[{"lang":"go"},{"year":2019}]}}`, "/$not"},
		{`{"lang":{"$ne":"go"}}`, `{"lang":{"$ne":"go"}}`, "/lang"},
		{`{"lang":{"$nin":["go"]}}`, `{"lang":{"$nin":["go"]}}`, "/lang"},
		{`{"a/b.c":{"$exists":false}}`, `{"a/b.c":{"$exists":false}}`, "/a~1b.c"},
		{`{"$and":[{"$and":[{"lang":"go"},{"a/b.c":false}]}]}`, `{"a/b.c":false}`, "/$and/0/$and/1/a~1b.c"},
	} {
		e := MustParse(c.where)
		clause, path := Why(e, get)
		got := ""
		if clause != nil {
			got = clause.String()
		}
		if got != c.clause || path != c.path {
			t.Errorf("%s: %s at %q, want %s at %q", e, got, path, c.clause, c.path)
		}
		if (clause == nil) != Match(e, get) || clause != nil && Match(clause, get) {
			t.Errorf("%s: %s", e, got)
		}
	}
	if clause, path := Why(nil, get); clause != nil || path != "" {
		t.Error(clause, path)
	}
}
