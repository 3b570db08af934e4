package db

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/vecbolt/vecbolt/filter"
)

// hostileValues are the metadata values at which types and ranges meet.
func hostileValues() []any {
	values := []any{"", "0", "false", "\x00", "é", true, false, math.Copysign(0, -1), math.SmallestNonzeroFloat64,
		math.MaxFloat64, -math.MaxFloat64, math.Nextafter(1<<63, math.Inf(-1)), math.Nextafter(-1<<63, math.Inf(-1))}
	for _, n := range []int64{0, 1, -1, 1 << 53, 1<<53 + 1, -1 << 53, -1<<53 - 1, math.MaxInt64, math.MaxInt64 - 1,
		math.MinInt64, math.MinInt64 + 1} {
		values = append(values, n, float64(n))
	}
	return values
}

func equalByFilter(a, b any) bool {
	return filter.Match(filter.Eq("x", a), func(string) (any, bool) { return b, true })
}

// A group of an answer holds the documents that filter.Eq says are equal.
func TestGroupsAreEquality(t *testing.T) {
	vdb := open(t, t.TempDir(), nil)
	c := collection(t, vdb, "c", Schema{Dim: 2, Metric: Dot})
	values := hostileValues()
	of := map[string]any{}
	for i, v := range values {
		id := fmt.Sprint(i)
		of[id] = v
		upsert(t, c, Document{ID: id, Vector: []float32{1, float32(i)}, Metadata: Metadata{"x": v}})
	}
	for range 2 { // in the head, then in a segment
		res := find(t, c, Query{Near: Vector{1, 1}, K: 1000, Group: &Group{Field: "x", Size: 1000}, Accuracy: Exact})
		groups := map[string]int{} // by id
		n := 0
		for i, h := range res.Hits {
			if i == 0 || !equalByFilter(h.Group, res.Hits[i-1].Group) {
				n++
			}
			groups[h.ID] = n
		}
		if len(groups) != len(values) {
			t.Fatalf("%d of %d documents", len(groups), len(values))
		}
		for a, va := range of {
			for b, vb := range of {
				if got, want := groups[a] == groups[b], equalByFilter(va, vb); got != want {
					t.Errorf("%T %v and %T %v: one group %v, equal %v", va, va, vb, vb, got, want)
				}
			}
		}
		flush(t, vdb)
	}
}

// extremes are where sums, products and conversions of an int overflow.
var extremes = []int64{math.MinInt64, math.MinInt64 + 1, math.MinInt32, -1, 0, 1, math.MaxInt16, math.MaxInt16 + 1,
	math.MaxInt32 - 1, math.MaxInt32, math.MaxInt32 + 1, math.MaxInt64 / 5, math.MaxInt64 / 4, math.MaxInt64/4 + 1, math.MaxInt64/3 + 1,
	math.MaxInt64/2 + 1, math.MaxInt64 - 1, math.MaxInt64}

// setEach calls fn with each integer field below v set to each extreme, all other
// fields unchanged, and with every pair of fields set to the same extreme.
func setEach(v reflect.Value, fn func(what string)) {
	type field struct {
		name string
		v    reflect.Value
	}
	var fields []field
	var walk func(name string, v reflect.Value)
	walk = func(name string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Pointer:
			if !v.IsNil() {
				walk(name, v.Elem())
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if v.Type().Field(i).IsExported() {
					walk(name+"."+v.Type().Field(i).Name, v.Field(i))
				}
			}
		case reflect.Int:
			fields = append(fields, field{name, v})
		}
	}
	walk("", v)
	for i, a := range fields {
		for _, b := range fields[i:] {
			for _, x := range extremes {
				wasA, wasB := a.v.Int(), b.v.Int()
				a.v.SetInt(x)
				b.v.SetInt(x)
				fn(fmt.Sprintf("%s %s %d", a.name, b.name, x))
				a.v.SetInt(wasA)
				b.v.SetInt(wasB)
			}
		}
	}
}

// Every number that a caller may pass is refused with ErrInvalid, or gives the same
// answer as a number as large as the collection.
func TestExtremeNumbers(t *testing.T) {
	const n = 50
	vdb := open(t, t.TempDir(), nil)
	c := collection(t, vdb, "c", Schema{Dim: 2, Text: &TextIndex{}})
	fill(t, c, n, func(i int) Document {
		return Document{ID: fmt.Sprintf("%02d", i), Vector: []float32{1, float32(i)}, Text: "word", Metadata: Metadata{"g": i % 7}}
	})
	flush(t, vdb)
	ctx := t.Context()

	list := ListQuery{Select: IDsOnly}
	setEach(reflect.ValueOf(&list), func(what string) {
		page, err := c.List(ctx, list)
		if list.Limit < 0 || list.Offset < 0 {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("list%s: %v", what, err)
			}
			return
		}
		from := min(list.Offset, n)
		want := min(cmp.Or(list.Limit, DefaultLimit), n-from)
		next := ""
		if from+want < n {
			next = fmt.Sprintf("%02d", from+want-1)
		}
		if err != nil || len(page.Documents) != want || page.Total != n || page.Next != next {
			t.Fatalf("list%s: %d documents, next %q, want %d and %q; %v", what, len(page.Documents), page.Next, want, next, err)
		}
	})

	ids := func(hits []Hit) (ids []string) {
		for _, h := range hits {
			ids = append(ids, h.ID)
		}
		return ids
	}
	for name, q := range map[string]Query{
		"vector": {Near: Vector{1, 0}},
		"text":   {Text: "word"},
		"hybrid": {Near: Vector{1, 0}, Text: "word", Fusion: Fusion{Method: Convex}},
		"group":  {Near: Vector{1, 0}, Group: &Group{Field: "g"}},
		"mmr":    {Near: Vector{1, 0}, MMR: &MMR{Lambda: 0.5}},
	} {
		q.Select = IDsOnly
		asked := struct {
			Query
			EF int
		}{Query: q}
		setEach(reflect.ValueOf(&asked), func(what string) {
			q := asked.Query
			if asked.EF != 0 {
				q.Accuracy = EF(asked.EF)
			}
			res, err := c.Search(ctx, q)
			if err != nil {
				if !errors.Is(err, ErrInvalid) {
					t.Errorf("%s%s: %v", name, what, err)
				}
				return
			}
			small := q // every number as large as it can matter
			if q.Group != nil {
				small.Group = &Group{Field: "g", Size: min(q.Group.Size, n)}
			}
			if q.MMR != nil {
				small.MMR = &MMR{Lambda: 0.5, Fetch: min(q.MMR.Fetch, 2*n)}
			}
			small.K, small.Offset = min(q.K, n), min(q.Offset, n)
			if asked.EF != 0 {
				small.Accuracy = EF(min(asked.EF, n))
			}
			small.Snippet, small.Fusion.Depth = min(q.Snippet, n), min(q.Fusion.Depth, n)
			want, err := c.Search(ctx, small)
			if err != nil {
				t.Fatalf("%s%s: the small query: %v", name, what, err)
			}
			if got, want := ids(res.Hits), ids(want.Hits); !slices.Equal(got, want) {
				t.Errorf("%s%s: %q, want %q", name, what, got, want)
			}
		})
	}

	test := RecallTest{Accuracies: []Accuracy{Recall(0.9)}}
	setEach(reflect.ValueOf(&test), func(what string) {
		all, err := c.MeasureRecall(ctx, test)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("measure%s: %v", what, err)
			}
			return
		}
		if all[0].Queries != n && test.Sample == 0 || all[0].Found != all[0].Wanted {
			t.Errorf("measure%s: %+v", what, all[0])
		}
	})
}

func TestDocumentJSON(t *testing.T) {
	const text = `{"id":"a","metadata":{"big":9007199254740993,"float":1.0,"list":[-9223372036854775808,1e2],"map":{"x":null}}}`
	want := Metadata{"big": int64(9007199254740993), "float": 1.0, "list": []any{int64(math.MinInt64), 100.0}, "map": map[string]any{"x": nil}}
	var d Document
	if err := json.Unmarshal([]byte(text), &d); err != nil || !reflect.DeepEqual(d.Metadata, want) {
		t.Errorf("%#v, want %#v; %v", d.Metadata, want, err)
	}
	if err := json.Unmarshal([]byte(`{"metadata":null}`), &d); err != nil || d.Metadata != nil {
		t.Errorf("null: %v, %v", d.Metadata, err)
	}
	for _, s := range []string{`9223372036854775808`, `-9223372036854775809`, `1e999`, `{"a":1,"a":1}`, "\"\xff\""} {
		if err := json.Unmarshal([]byte(`{"metadata":{"x":`+s+`}}`), &d); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, read as %v", s, err, d.Metadata)
		}
	}
	if err := json.Unmarshal([]byte(`{"metadata":[1]}`), &d); !errors.Is(err, ErrInvalid) {
		t.Errorf("a list: %v", err)
	}

	all := Metadata{}
	for i, v := range hostileValues() {
		all[fmt.Sprint(i)] = v
	}
	all["list"] = slices.Collect(maps.Values(all))
	b, err := json.Marshal(Hit{Document: Document{ID: "a", Metadata: all}})
	if err != nil {
		t.Fatal(err)
	}
	var hit Hit
	if err := json.Unmarshal(b, &hit); err != nil || !reflect.DeepEqual(hit.Metadata, all) {
		t.Errorf("%v\nwant %v\n%v", hit.Metadata, all, err)
	}
	b, err = json.Marshal(Metadata{"year": 2024, "tags": []string{"<a>"}, "bad": nil})
	if want := `{"bad":null,"tags":["\u003ca\u003e"],"year":2024}`; err != nil || string(b) != want {
		t.Errorf("%s, want %s; %v", b, want, err)
	}
	if _, err := json.Marshal(Metadata{"x": math.NaN()}); !errors.Is(err, ErrInvalid) {
		t.Errorf("NaN: %v", err)
	}
}
