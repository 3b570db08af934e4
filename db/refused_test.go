package db

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/vfs"
)

// What a call must not take it refuses, saying why, and changes nothing.
func TestRefused(t *testing.T) {
	ctx := t.Context()
	vdb := open(t, t.TempDir(), smallestOptions())
	c := collection(t, vdb, "c", Schema{Dim: 2, Text: &TextIndex{Language: "none"}})
	bare := collection(t, vdb, "bare", Schema{Dim: 2})
	upsert(t, c, Document{ID: "a", Vector: []float32{1, 2}, Text: "some words", Metadata: Metadata{"x": 1}})
	snap, err := vdb.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close()
	frozen, err := snap.Collection("c")
	if err != nil {
		t.Fatal(err)
	}
	gone := collection(t, vdb, "gone", Schema{})
	if err := vdb.Drop(ctx, "gone"); err != nil {
		t.Fatal(err)
	}
	before := dump(t, c)
	lsn := must(c.Version())
	invalid := filter.Eq("$x", 1)
	vec, long, path := []float32{1, 2}, strings.Repeat("x", 2000), strings.Repeat("a.", filter.MaxPath/2)+"aa"
	search := func(q Query) error { _, err := c.Search(ctx, q); return err }
	fused := func(weights []float64, queries ...Query) error {
		_, err := c.SearchFused(ctx, queries, weights...)
		return err
	}
	put := func(d Document) error { _, err := c.Upsert(ctx, d); return err }
	with := func(v any) error { return put(Document{ID: "b", Metadata: Metadata{"field": v}}) }
	create := func(name string, s Schema) error { _, err := vdb.CreateCollection(ctx, name, s, nil); return err }
	words := func(t TextIndex) error { return create("new", Schema{Text: &t}) }
	batch := func(fn func(b *Batch)) error { b := &Batch{}; fn(b); return vdb.Apply(ctx, b) }
	patch := func(text string) error { b := &Batch{}; b.Patch("c", Patch{ID: "a", Text: &text}); return b.Err() }
	var many []string
	for i := range MaxTextFields + 1 {
		many = append(many, fmt.Sprint("f", i))
	}
	deep := any(1)
	for range MaxMetadataDepth + 1 {
		deep = map[string]any{"m": deep}
	}
	first := func(_ any, err error) error { return err }
	for what, got := range map[string]struct {
		err  error
		kind error
		says string
	}{
		"empty id":                    {batch(func(b *Batch) { b.Delete("c", "") }), ErrInvalid, "id is empty"},
		"patch of an empty id":        {c.Patch(ctx, Patch{Set: Metadata{"x": 1}}), ErrInvalid, "id is empty"},
		"id of many bytes":            {put(Document{ID: long}), ErrInvalid, "the limit is 1024"},
		"id that is no UTF-8":         {put(Document{ID: "\xff"}), ErrInvalid, "UTF-8"},
		"id of lines":                 {put(Document{ID: "a\nb"}), ErrInvalid, "control character at byte 1"},
		"text that is no UTF-8":       {put(Document{ID: "b", Text: "\xff"}), ErrInvalid, "UTF-8"},
		"vector too long":             {put(Document{ID: "b", Vector: make([]float32, MaxDim+1)}), ErrInvalid, "the limit is 65536"},
		"infinite component":          {put(Document{ID: "b", Vector: []float32{1, float32(math.Inf(1))}}), ErrInvalid, "component 1 is +Inf"},
		"other dimension":             {put(Document{ID: "b", Vector: []float32{1}}), ErrDimensionMismatch, "expected 2, got 1"},
		"value that is no UTF-8":      {with("\xff"), ErrInvalid, `field "field" is not valid UTF-8`},
		"key that is no UTF-8":        {with(map[string]any{"\xff": 1}), ErrInvalid, "not valid UTF-8"},
		"long key":                    {with(map[string]any{long: 1}), ErrInvalid, "has 2000 bytes, the limit is 256"},
		"empty key":                   {with(map[string]any{"": 1}), ErrInvalid, `empty key under "field"`},
		"key for operators":           {with(map[string]any{"$eq": 1}), ErrInvalid, "starts with $"},
		"key given twice":             {put(Document{ID: "b", Metadata: Metadata{"a.b": 1, "a": map[string]any{"b": 2}}}), ErrInvalid, `"a.b" is given twice`},
		"key given twice, named map":  {put(Document{ID: "b", Metadata: Metadata{"a.b": 1, "a": Metadata{"b": 2}}}), ErrInvalid, `"a.b" is given twice`},
		"key of a value and a map":    {put(Document{ID: "b", Metadata: Metadata{"a.b": map[string]any{"c": 1}, "a": map[string]any{"b": 2}}}), ErrInvalid, `"a.b" is given twice`},
		"patch of a key given twice":  {c.Patch(ctx, Patch{ID: "a", Set: Metadata{"a.b": 1, "a": Metadata{"b": 2}}}), ErrInvalid, `"a.b" is given twice`},
		"bytes":                       {with([]byte{1}), ErrInvalid, "has type []uint8"},
		"number as text":              {with(json.Number("1")), ErrInvalid, "has type json.Number"},
		"map of numbers":              {with(map[int]string{1: "a"}), ErrInvalid, "has type map[int]string"},
		"list of maps":                {with([]map[string]any{{}}), ErrInvalid, "a map inside a list"},
		"value of another type":       {with(struct{}{}), ErrInvalid, "has type struct {}"},
		"number that is none":         {with(math.NaN()), ErrInvalid, "is NaN"},
		"number too large":            {with(uint64(1 << 63)), ErrInvalid, "beyond the range of int64"},
		"nested too deep":             {with(deep), ErrInvalid, "nested deeper than 16"},
		"much metadata":               {with(strings.Repeat("x", MaxMetadataLen)), ErrInvalid, "the limit is 1048576"},
		"patch of no UTF-8":           {patch("\xff"), ErrInvalid, "text is not valid UTF-8"},
		"patch of a long text":        {patch(strings.Repeat("x", MaxTextLen+1)), ErrInvalid, "the limit is 16777216"},
		"patch of bad metadata":       {c.Patch(ctx, Patch{ID: "a", Set: Metadata{"": 1}}), ErrInvalid, "empty key"},
		"patch of nothing":            {c.Patch(ctx, Patch{ID: "none", Set: Metadata{"x": 1}}), ErrNotFound, `"none"`},
		"no name":                     {create("", Schema{}), ErrInvalid, "name"},
		"no dimension":                {create("new", Schema{Dim: -1}), ErrInvalid, "dimension"},
		"other dimension wanted":      {first(vdb.OpenCollection(ctx, "c", Schema{Dim: 3})), ErrDimensionMismatch, "3"},
		"other metric wanted":         {first(vdb.OpenCollection(ctx, "c", Schema{Dim: 2, Metric: L2})), ErrSchema, "opened with l2"},
		"unknown metric of a schema":  {create("new", Schema{Metric: 9}), ErrInvalid, "unknown metric 9"},
		"long model":                  {create("new", Schema{Lineage: Lineage{Model: strings.Repeat("x", 4097)}}), ErrInvalid, "4097 bytes"},
		"provider in no UTF-8":        {create("new", Schema{Lineage: Lineage{Provider: "\xff"}}), ErrInvalid, "UTF-8"},
		"unknown language":            {words(TextIndex{Language: "klingon"}), ErrInvalid, "klingon"},
		"many text fields":            {words(TextIndex{Fields: many}), ErrInvalid, "65 text fields"},
		"long text field":             {words(TextIndex{Fields: []string{"a", path}}), ErrInvalid, "the limit is 4111"},
		"long text field, opened":     {first(vdb.OpenCollection(ctx, "new", Schema{Text: &TextIndex{Fields: []string{path}}})), ErrInvalid, "the limit is 4111"},
		"long text field, set":        {bare.SetText(ctx, &TextIndex{Fields: []string{path}}), ErrInvalid, "the limit is 4111"},
		"long field of groups":        {search(Query{Near: Vector(vec), K: 1, Group: &Group{Field: path}}), ErrInvalid, "the limit is 4111"},
		"long field of a condition":   {search(Query{Near: Vector(vec), K: 1, Where: filter.Exists(path)}), ErrInvalid, "the limit is 4111"},
		"text field without a name":   {words(TextIndex{Fields: []string{""}}), ErrInvalid, "empty field name"},
		"text field twice":            {words(TextIndex{Fields: []string{"a", "a"}}), ErrInvalid, "given twice"},
		"text parameters":             {words(TextIndex{K1: new(float64(-1))}), ErrInvalid, "k1 = -1 is outside 0..100"},
		"text parameter b":            {words(TextIndex{B: new(math.NaN())}), ErrInvalid, "b = NaN is outside 0..1"},
		"exists already":              {create("c", Schema{}), ErrExists, `"c"`},
		"rename to no name":           {vdb.Rename(ctx, "c", ""), ErrInvalid, "name"},
		"rename of nothing":           {vdb.Rename(ctx, "none", "some"), ErrNotFound, `"none"`},
		"rename to another one":       {vdb.Rename(ctx, "c", "bare"), ErrExists, `"bare"`},
		"drop of nothing":             {vdb.Drop(ctx, "none"), ErrNotFound, `"none"`},
		"metadata of collections":     {c.SetMetadata(ctx, Metadata{"": 1}), ErrInvalid, "empty key"},
		"metadata of the dropped":     {gone.SetMetadata(ctx, Metadata{"a": 1}), ErrNotFound, "dropped"},
		"put to the dropped":          {first(gone.Upsert(ctx, Document{ID: "x"})), ErrNotFound, "dropped"},
		"metadata of a snapshot":      {frozen.SetMetadata(ctx, Metadata{"a": 1}), ErrReadOnly, ""},
		"put to a snapshot":           {first(frozen.Upsert(ctx, Document{ID: "x"})), ErrReadOnly, ""},
		"collection of snapshots":     {first(snap.Collection("none")), ErrNotFound, `"none"`},
		"condition of a delete":       {first(c.DeleteWhere(ctx, invalid)), ErrInvalid, "where"},
		"condition in a batch":        {batch(func(b *Batch) { b.DeleteWhere("c", invalid) }), ErrInvalid, "where"},
		"no condition in a batch":     {batch(func(b *Batch) { b.DeleteWhere("c", nil) }), ErrInvalid, "nil filter"},
		"condition for no collection": {batch(func(b *Batch) { b.DeleteWhere("none", filter.And()) }), ErrNotFound, `"none"`},
		"function of a delete":        {first(c.DeleteFunc(ctx, nil, nil)), ErrInvalid, "no function"},
		"documents of a load":         {first(c.Load(ctx, nil, nil)), ErrInvalid, "no documents"},
		"batch":                       {vdb.Apply(ctx, nil), ErrInvalid, "no batch"},
		"function of a delete of ids": {first(c.DeleteIf(ctx, []string{"a"}, 0, nil)), ErrInvalid, "no function"},
		"limit of a delete of ids":    {first(c.DeleteIf(ctx, []string{"a"}, -1, func(*Document) (bool, error) { return true, nil })), ErrInvalid, "limit is -1"},
		"condition of a count":        {first(c.Count(ctx, invalid)), ErrInvalid, "where"},
		"condition of a search":       {search(Query{Near: Vector(vec), K: 1, Where: invalid}), ErrInvalid, "where"},
		"condition of a list":         {first(c.List(ctx, ListQuery{Where: invalid})), ErrInvalid, "where"},
		"negative limit":              {first(c.List(ctx, ListQuery{Limit: -1})), ErrInvalid, "limit -1"},
		"large k":                     {search(Query{Near: Vector(vec), K: 1 << 31}), ErrInvalid, "beyond 2^31"},
		"no query":                    {search(Query{K: 1}), ErrInvalid, ""},
		"negative ef":                 {search(Query{Near: Vector(vec), K: 1, Accuracy: EF(-2)}), ErrInvalid, "ef is -2"},
		"snippets of less":            {search(Query{Text: "a", K: 1, Snippet: -1}), ErrInvalid, "snippet of -1"},
		"words without index":         {first(bare.Search(ctx, Query{Text: "a", K: 1})), ErrInvalid, "no text index"},
		"words in a condition":        {first(bare.Count(ctx, filter.Text("a"))), ErrInvalid, "no text index"},
		"like what is not there":      {search(Query{Near: Examples{Like: []string{"none"}}, K: 1}), ErrNotFound, `"none"`},
		"fusion of nothing":           {fused(nil), ErrInvalid, "0 queries"},
		"weights":                     {fused([]float64{1}, Query{Near: Vector(vec), K: 1}, Query{Text: "a", K: 1}), ErrInvalid, "2 queries with 1 weights"},
		"weight that is none":         {fused([]float64{-1}, Query{Near: Vector(vec), K: 1}), ErrInvalid, "weight of query 0 is -1"},
		"weights that are 0":          {fused([]float64{0, 0}, Query{Near: Vector(vec), K: 1}, Query{Text: "a", K: 1}), ErrInvalid, "the weights of all queries are 0"},
		"fusion of groups":            {fused(nil, Query{Near: Vector(vec), K: 1}, Query{Near: Vector(vec), K: 1, Group: &Group{Field: "x"}}), ErrInvalid, "query 1: fused queries have no groups"},
		"unknown fusion":              {fused(nil, Query{Near: Vector(vec), K: 1, Fusion: Fusion{Method: 9}}), ErrInvalid, "query 0"},
		"bad query of a fusion":       {fused(nil, Query{Near: Vector(vec), K: 1}, Query{Near: Vector{1}, K: 1}), ErrDimensionMismatch, "query 1"},
		"negative k of a fusion":      {fused(nil, Query{Near: Vector(vec), K: -1}), ErrInvalid, "query 0: invalid: k is -1"},
		"negative offset of fusion":   {fused(nil, Query{Near: Vector(vec), K: 1, Offset: -3}), ErrInvalid, "query 0: invalid: offset is -3"},
		"unknown metric":              {first(ParseMetric("manhattan")), ErrInvalid, "want cosine, dot or l2"},
		"unknown fusion method":       {new(FusionMethod).UnmarshalText([]byte("sum")), ErrInvalid, "want rrf or convex"},
		"backup into a database":      {vdb.Backup(ctx, vdb.engine.Dir), ErrExists, ""},
	} {
		if !errors.Is(got.err, got.kind) || !strings.Contains(got.err.Error(), got.says) {
			t.Errorf("%s: %v, want %v with %q", what, got.err, got.kind, got.says)
		}
	}
	if diff := cmp.Diff(before, dump(t, c)); diff != "" || must(c.Version()) != lsn {
		t.Errorf("version %d, was %d; (-before +after)\n%s", must(c.Version()), lsn, diff)
	}
	if snap.Batch() == 0 || len(must(snap.Collections())) != 2 || must(snap.Collections())[1].Documents != 1 {
		t.Errorf("snapshot of batch %d has %+v", snap.Batch(), must(snap.Collections()))
	}
}

func smallestOptions() *Options {
	opts := smallest
	opts.Sync = SyncNever
	return &opts
}

// Metadata of every allowed type comes back as one of six types.
func TestMetadataTypes(t *testing.T) {
	type words []string
	type word string
	vdb := open(t, t.TempDir(), smallestOptions())
	c := collection(t, vdb, "c", Schema{})
	upsert(t, c, Document{ID: "x", Metadata: Metadata{
		"int8": int8(-1), "int16": int16(-2), "int32": int32(-3), "int": -4, "int64": int64(-5), "uint8": uint8(1), "uint16": uint16(2), "uint32": uint32(3),
		"uint": uint(4), "uint64": uint64(5), "float32": float32(0.5), "float64": 0.25, "bool": true, "null": nil, "string": "s", "map": Metadata{"a": 1},
		"any": []any{1, "a", nil}, "strings": []string{"a"}, "ints": []int{1}, "int64s": []int64{2}, "floats": []float64{0.5}, "float32s": []float32{1.5}, "bools": []bool{true},
		"duration": time.Second, "named": words{"a"}, "int8s": []int8{-1}, "durations": []time.Duration{2}, "texts": map[string]string{"b": "c"}, "counts": map[word]int{"d": 1},
	}})
	want := Metadata{
		"int8": int64(-1), "int16": int64(-2), "int32": int64(-3), "int": int64(-4), "int64": int64(-5), "uint8": int64(1), "uint16": int64(2), "uint32": int64(3),
		"uint": int64(4), "uint64": int64(5), "float32": 0.5, "float64": 0.25, "bool": true, "null": nil, "string": "s", "map": map[string]any{"a": int64(1)},
		"any": []any{int64(1), "a", nil}, "strings": []any{"a"}, "ints": []any{int64(1)}, "int64s": []any{int64(2)}, "floats": []any{0.5}, "float32s": []any{1.5}, "bools": []any{true},
		"duration": int64(time.Second), "named": []any{"a"}, "int8s": []any{int64(-1)}, "durations": []any{int64(2)},
		"texts": map[string]any{"b": "c"}, "counts": map[string]any{"d": int64(1)},
	}
	flush(t, vdb)
	for _, from := range []string{"head", "segment"} {
		d, err := c.Get(t.Context(), "x", Everything)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, d.Metadata); diff != "" {
			t.Errorf("from the %s: (-want +got)\n%s", from, diff)
		}
		flush(t, vdb)
	}
}

// sameAgain reads values from the texts that they are printed as.
func sameAgain[T interface {
	comparable
	encoding.TextMarshaler
}, P interface {
	*T
	encoding.TextUnmarshaler
}](t *testing.T, values ...T) {
	t.Helper()
	for _, v := range values {
		var back T
		b, err := v.MarshalText()
		if err == nil {
			err = P(&back).UnmarshalText(b)
		}
		if err != nil || back != v {
			t.Errorf("%v: %q, %v, %v", v, b, back, err)
		}
	}
}

// Names of options are read as they are printed.
func TestNames(t *testing.T) {
	sameAgain(t, Cosine, Dot, L2)
	sameAgain(t, Convex, RRF)
	sameAgain(t, SyncAlways, SyncInterval, SyncNever)
	sameAgain(t, RoleUnknown, RoleLeader, RoleFollower, RoleReader)
	if err := new(SyncPolicy).UnmarshalText([]byte("often")); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	for want, v := range map[string]any{`"sync":"interval"`: Stats{Sync: SyncInterval}, `"Role":"reader"`: Process{Role: RoleReader}} {
		if b, err := json.Marshal(v); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s, %v, want %s", b, err, want)
		}
	}
	for want, got := range map[string]fmt.Stringer{"always": SyncAlways, "interval": SyncInterval, "never": SyncNever, "SyncPolicy(9)": SyncPolicy(9), "Role(9)": Role(9),
		"metric(9)": Metric(9), "fusion(9)": FusionMethod(9), "f at offset 3: d": Problem{"f", 3, "d"}, "f: d": Problem{"f", -1, "d"},
		`document "x" in collection "c": r`:           Lost{Collection: "c", ID: "x", DocNum: 3, What: "document", Reason: "r"},
		`vector of document "x" in collection "c": r`: Lost{Collection: "c", ID: "x", What: "vector", Reason: "r"},
		`document number 3 in collection "c": r`:      Lost{Collection: "c", DocNum: 3, What: "document", Reason: "r"},
		"documents: r":                                Lost{What: "document", Reason: "r"}} {
		if got.String() != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Text conditions combine with other conditions in every way.
func TestTextInConditions(t *testing.T) {
	vdb := open(t, t.TempDir(), smallestOptions())
	c := collection(t, vdb, "c", Schema{Text: &TextIndex{Language: "none"}})
	fill(t, c, 40, func(i int) Document {
		return Document{ID: fmt.Sprint(i), Text: fmt.Sprintf("two%d three%d", i%2, i%3), Metadata: Metadata{"i": i}}
	})
	for _, where := range []string{"the head", "a segment"} {
		for _, x := range []struct {
			e    filter.Expr
			want func(i int) bool
		}{
			{filter.And(filter.Text("two0"), filter.Text("three0"), filter.Lt("i", 30)), func(i int) bool { return i%6 == 0 && i < 30 }},
			{filter.Or(filter.Text("two0"), filter.Text("two0"), filter.Eq("i", 1)), func(i int) bool { return i%2 == 0 || i == 1 }},
			{filter.Or(filter.And(filter.Text("two1"), filter.Text("three1")), filter.Not(filter.Text("two1"))), func(i int) bool { return i%6 == 1 || i%2 == 0 }},
		} {
			want := 0
			for i := range 40 {
				if x.want(i) {
					want++
				}
			}
			if n, err := c.Count(t.Context(), x.e); err != nil || n != want {
				t.Errorf("%v in %s: %d, want %d, %v", x.e, where, n, want, err)
			}
			if r, err := c.Search(t.Context(), Query{Text: "two0 two1", K: 100, Where: x.e}); err != nil || len(r.Hits) != want {
				t.Errorf("%v in %s: %d hits, want %d, %v", x.e, where, len(r.Hits), want, err)
			}
		}
		flush(t, vdb)
	}
}

// Directories that hold something else are no databases, and are left alone.
func TestNoDatabase(t *testing.T) {
	for _, c := range []struct {
		what  string
		files map[string][]byte
		opts  Options
		kind  error
		says  string
	}{
		{"segments without meta.bolt", map[string][]byte{"seg/00000001.vec": {1}}, Options{}, ErrCorrupt, "seg/00000001.vec is there"},
		{"a log without meta.bolt", map[string][]byte{"wal/00000001.wal": {1}}, Options{}, ErrCorrupt, "wal/00000001.wal is there"},
		{"checksums without meta.bolt", map[string][]byte{"meta.sums": {1}}, Options{}, ErrCorrupt, "meta.sums is there"},
		{"segments without meta.bolt, read-only", map[string][]byte{"seg/00000001.vec": {1}, "letter.txt": {1}}, Options{ReadOnly: true}, ErrCorrupt, "seg/00000001.vec is there"},
		{"a log without meta.bolt, that must exist", map[string][]byte{"wal/00000001.wal": {1}}, Options{MustExist: true}, ErrCorrupt, "wal/00000001.wal is there"},
		{"no files of a database, read-only", map[string][]byte{"letter.txt": {1}}, Options{ReadOnly: true}, ErrNotFound, ""},
		{"other files", map[string][]byte{"letter.txt": {1}}, Options{}, nil, "letter.txt"},
		{"nothing, read-only", map[string][]byte{}, Options{ReadOnly: true}, ErrNotFound, ""},
		{"nothing that must exist", map[string][]byte{}, Options{MustExist: true}, ErrNotFound, ""},
	} {
		dir := memDir(t) + "/db"
		writeFiles(t, dir, c.files)
		before := snapshotDir(t, dir)
		vdb, err := Open(dir, &c.opts)
		if err == nil {
			vdb.Close()
		}
		if err == nil || c.kind != nil && !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.what, err)
		}
		if diff := cmp.Diff(before, snapshotDir(t, dir)); diff != "" {
			t.Errorf("%s: %s", c.what, diff)
		}
	}
	// Creating a database may fail at any step, and then leaves no database behind.
	for n := 1; ; n++ {
		dir, count := memDir(t)+"/parent/db", 0
		vdb, err := Open(dir, &Options{tests: testOptions{hook: func(vfs.Op) error {
			if count++; count == n {
				return syscall.EIO
			}
			return nil
		}}})
		if err == nil {
			vdb.Close()
			if count < n {
				break
			}
			continue
		}
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("operation %d: %v", n, err)
		}
		vdb = open(t, dir, nil)
		check(t, vdb)
		vdb.Close()
	}
}
