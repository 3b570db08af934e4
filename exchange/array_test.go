package exchange

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vecbolt/vecbolt/db"
)

// sourced reads all documents of a file; a skipped one has its reason as the text.
func sourced(t testing.TB, path string) (docs []db.Document, places []string, err error) {
	t.Helper()
	src, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for doc, err := range src.Documents(t.Context()) {
		if err != nil {
			return docs, places, err
		}
		if doc.Skip != nil {
			doc.Document = db.Document{ID: "skipped", Text: doc.Skip.Error()}
		}
		if doc.Done < 1 || doc.Done > src.Total() {
			t.Errorf("%v: done %d of %d", doc.Position, doc.Done, src.Total())
		}
		docs = append(docs, doc.Document)
		places = append(places, fmt.Sprint(doc.Position.Unit, " ", doc.Position.N))
	}
	return docs, places, nil
}

// TestKeysOfOtherStores reads texts and vectors under their other names, if there is none under the
// first name.
func TestKeysOfOtherStores(t *testing.T) {
	for _, tt := range []struct {
		in    string
		want  db.Document
		named db.Select
	}{
		{`{"document":"d"}`, db.Document{Text: "d"}, db.WithText},
		{`{"content":"c","page_content":"p"}`, db.Document{Text: "p", Metadata: db.Metadata{"content": "c"}}, db.WithText | db.WithMetadata},
		{`{"body":"b","text":"t"}`, db.Document{Text: "t", Metadata: db.Metadata{"body": "b"}}, db.WithText | db.WithMetadata},
		{`{"content":["c"]}`, db.Document{Metadata: db.Metadata{"content": []any{"c"}}}, db.WithMetadata},
		{`{"values":[1,2.5]}`, db.Document{Vector: []float32{1, 2.5}}, db.WithVector},
		{`{"values":[1,"x"]}`, db.Document{Metadata: db.Metadata{"values": []any{int64(1), "x"}}}, db.WithMetadata},
		{`{"values":[1],"vector":[2]}`, db.Document{Vector: []float32{2}, Metadata: db.Metadata{"values": []any{int64(1)}}}, db.WithVector | db.WithMetadata},
		{`{"values":[]}`, db.Document{Metadata: db.Metadata{"values": []any{}}}, db.WithMetadata},
	} {
		d, named, err := ParseDocument([]byte(tt.in))
		if diff := cmp.Diff(tt.want, d); err != nil || named != tt.named || diff != "" {
			t.Errorf("%s: %b, %v (-want +got)\n%s", tt.in, named, err, diff)
		}
	}
	if _, _, err := ParseDocument([]byte(`{"id":"a","values":[1,1e39]}`)); !errors.Is(err, ErrNotFinite) {
		t.Error(err)
	}
}

// TestArrays reads documents from arrays as from lines.
func TestArrays(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		word := rapid.StringOf(rapid.SampledFrom([]rune(`ab"\{}[],:` + "\n é")))
		var lines, elements strings.Builder
		space := rapid.SampledFrom([]string{"", " ", "\n", "\r\n\t"})
		for i := range rapid.IntRange(0, 5).Draw(rt, "n") {
			m := map[string]any{"id": fmt.Sprint(i), "text": word.Draw(rt, "text"), "list": []any{word.Draw(rt, "word"), map[string]any{"x": word.Draw(rt, "x")}}}
			b, err := json.Marshal(m)
			if err != nil {
				rt.Fatal(err)
			}
			lines.Write(append(b, '\n'))
			if i > 0 {
				elements.WriteString(space.Draw(rt, "space") + ",")
			}
			elements.WriteString(space.Draw(rt, "space") + string(b))
		}
		dir := t.TempDir()
		want, _, err := sourced(t, write(t, filepath.Join(dir, "a.jsonl"), lines.String()))
		if err != nil {
			rt.Fatal(err)
		}
		got, _, err := sourced(t, write(t, filepath.Join(dir, "a.json"), space.Draw(rt, "space")+"["+elements.String()+space.Draw(rt, "space")+"]\n"))
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("(-want +got)\n%s", diff)
		}
	})
	for in, say := range map[string]string{
		"[":                            "offset 0: unexpected EOF",
		"[{}":                          "unexpected EOF",
		"[{} {}]":                      "offset 4: '{' instead of a comma",
		"[{},]":                        "']' instead of an object",
		"[[{}]]":                       "'[' instead of an object",
		"[{}] x":                       "'x' after the array",
		`[{"id":"a"},{"id":"b`:         "unexpected EOF",
		`[{"id":"a"},{"text":x}]`:      `offset 20: "text": 'x' instead of a string`,
		"\xef\xbb\xbf[{\"id\":truth}]": `offset 7: "id": 't' instead of a string`,
	} {
		_, _, err := sourced(t, write(t, filepath.Join(t.TempDir(), "a.json"), in))
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), say) || !strings.Contains(err.Error(), "a.json") {
			t.Errorf("%s: %v, want %q", in, err, say)
		}
	}
}

// TestArraySkips: an element that is no document does not end the array.
func TestArraySkips(t *testing.T) {
	docs, places, err := sourced(t, write(t, filepath.Join(t.TempDir(), "a.json"), `[{"id":"a"},{"id":"b","text":1},{"id":"c"}]`))
	if err != nil {
		t.Fatal(err)
	}
	want := []db.Document{{ID: "a"}, {ID: "skipped", Text: `document "b": offset 17: "text": a number instead of a string`}, {ID: "c"}}
	if diff := cmp.Diff(want, docs) + cmp.Diff([]string{"element 0", "element 1", "element 2"}, places); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestLongHeaderOfCSV: names are compared in time linear in their number. If each is compared with
// all others, the test does not end.
func TestLongHeaderOfCSV(t *testing.T) {
	var header strings.Builder
	header.WriteString("id")
	for i := range 400_000 {
		fmt.Fprintf(&header, ",c%d", i)
	}
	path := write(t, filepath.Join(t.TempDir(), "a.csv"), header.String()+",c7\n")
	src, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range src.Documents(t.Context()) {
		if err == nil || !strings.Contains(err.Error(), `two columns are named "c7"`) {
			t.Error(err)
		}
	}
}

func TestCSV(t *testing.T) {
	tests := []struct {
		name, file, content string
		want                []db.Document
		places              []string
	}{
		{"all parts", "a.csv", "\xef\xbb\xbf_id,text,vector,metadata,year\r\nx,\"two\nlines\",\"[1,2]\",\"{\"\"a\"\":1}\",1999\r\ny,b,,,\r\n",
			[]db.Document{{ID: "x", Text: "two\nlines", Vector: []float32{1, 2}, Metadata: db.Metadata{"a": int64(1), "year": int64(1999)}}, {ID: "y", Text: "b"}},
			[]string{"line 2", "line 4"}},
		{"semicolons", "a.csv", "id;content\n1;a,b\n", []db.Document{{ID: "1", Text: "a,b"}}, []string{"line 2"}},
		{"tabs", "a.tsv", "id\tbody\n1\ta,b;c\n", []db.Document{{ID: "1", Text: "a,b;c"}}, []string{"line 2"}},
		{"separator", "a.csv", "\xef\xbb\xbfsep=|\r\nid|text|n\r\n1|a;b,c|2\r\n3|d\r\n", []db.Document{{ID: "1", Text: "a;b,c", Metadata: db.Metadata{"n": int64(2)}},
			{ID: "skipped", Text: "2 cells under 3 names"}}, []string{"line 3", "line 4"}},
		{"row numbers of pandas", "a.csv", ",text\n0,a\n", []db.Document{{Text: "a"}}, []string{"line 2"}},
		{"numbers", "a.csv", "a,b,c,d,e,f,g\n-3,0.50,1e-05,-1.5E+3,-0,9223372036854775807,1e400\n", []db.Document{{Metadata: db.Metadata{
			"a": int64(-3), "b": 0.5, "c": 1e-5, "d": -1500.0, "e": int64(0), "f": int64(math.MaxInt64), "g": "1e400"}}}, []string{"line 2"}},
		{"no numbers", "a.csv", "a,b,c,d,e,f,g,h,i,j,k\n007,+4,.5,5.,1e,-, 5,5 ,1 2,-Infinity,9223372036854775808\n", []db.Document{{Metadata: db.Metadata{
			"a": "007", "b": "+4", "c": ".5", "d": "5.", "e": "1e", "f": "-", "g": " 5", "h": "5 ", "i": "1 2", "j": "-Infinity", "k": "9223372036854775808"}}},
			[]string{"line 2"}},
		{"rows to skip", "a.csv", "id,values\na,[1]\nb,[x]\nc\nd,[2]\n", []db.Document{{ID: "a", Vector: []float32{1}},
			{ID: "skipped", Text: `document "b": column "values": element 0 at byte 1: 'x' instead of a number`}, {ID: "skipped", Text: "1 cells under 2 names"}, {ID: "d", Vector: []float32{2}}},
			[]string{"line 2", "line 3", "line 4", "line 5"}},
		{"only a header", "a.csv", "id,text\n", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, places, err := sourced(t, write(t, filepath.Join(t.TempDir(), tt.file), tt.content))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got) + cmp.Diff(tt.places, places); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	for in, say := range map[string]string{
		"":                "no header",
		"a,b,a\n":         `two columns are named "a"`,
		"a,\xe9\n1,2\n":   "the name of column 2 is not valid UTF-8",
		"a,b\n\"x\n":      "line",
		"a,b\nx,y\"z\"\n": "line 2",
		"sep=;\n":         "no header",
		"sep=;\na;b\n\"x": "line 3",
	} {
		_, _, err := sourced(t, write(t, filepath.Join(t.TempDir(), "a.csv"), in))
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), say) {
			t.Errorf("%q: %v, want %q", in, err, say)
		}
	}
}
