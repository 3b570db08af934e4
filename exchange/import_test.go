package exchange

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/dbtest"
)

func open(t testing.TB, dim int) *db.Collection {
	t.Helper()
	vdb, err := db.Open(t.TempDir(), &db.Options{Sync: db.SyncNever})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := vdb.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := vdb.OpenCollection(t.Context(), "c", db.Schema{Dim: dim})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func write(t testing.TB, name, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func importAll(t testing.TB, c *db.Collection, path string, o *OpenOptions) Report {
	t.Helper()
	src, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Import(t.Context(), c, src, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func documents(t testing.TB, c *db.Collection) []db.Document {
	t.Helper()
	var docs []db.Document
	for d, err := range c.All(t.Context(), nil, db.Everything) {
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, *d)
	}
	return docs
}

const (
	sha1Name = "ns0123456789abcdef0123456789abcdef01234567"
	uuidName = "text-embedding-ada-00200161478-2cda-5cc0-a355-5e360bc4fd09"
)

func TestCache(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) { write(t, filepath.Join(dir, filepath.FromSlash(name)), content) }
	file(uuidName, "[1, 2.5, -3e-2]")
	file(uuidName+sidecarSuffix, `{"source_file":"a.go","line_number":7,"tags":["x","y"],"chunk_index":0,"own":{"n":1.0}}`)
	file("sub/dir/"+sha1Name+".txt", " [0.1,0.2,0.3]\n")
	file("named-otherwise", "[4,5,6]")
	file("llm.db", "SQLite format 3\x00")
	file("README.md", "about this cache")
	file(".hidden", "[1,2,3]")
	// Broken documents are skipped, with a reason.
	file("a-torn-"+sha1Name, "[1, 2.5, -3e")
	file("b-nan-"+sha1Name, "[1, NaN, 2]")
	file("c-inf-"+sha1Name, "[1, -Infinity, 2]")
	file("d-type-"+sha1Name, `{"a":1}`)
	file("e-huge-"+sha1Name, "[1e39, 0, 0]")
	file("f-empty-"+sha1Name, "[]")
	file("g-side-"+sha1Name, "[1,2,3]")
	file("g-side-"+sha1Name+sidecarSuffix, `{"a":`)
	file("h-nothing-"+sha1Name, "")
	file("i-whatever", "not JSON")
	texts := write(t, filepath.Join(t.TempDir(), "texts.jsonl"), `{"key":"`+uuidName+`","text":"hello"}`+"\n"+
		`{"id":"`+sha1Name+`","text":"deep"}`+"\n")

	c := open(t, 0)
	src, err := Open(dir, &OpenOptions{Texts: texts})
	if err != nil {
		t.Fatal(err)
	}
	skipped := map[string]error{}
	r, err := Import(t.Context(), c, src, &ImportOptions{OnSkip: func(i *ImportedDocument) { skipped[filepath.Base(i.Position.File)[:6]] = i.Skip }})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Report{Added: 3, Skipped: 9, Ignored: 2}); r != want || len(skipped) != 9 {
		t.Errorf("%+v, want %+v; %v", r, want, skipped)
	}
	for name, want := range map[string]error{"a-torn": ErrFormat, "b-nan-": ErrNotFinite, "c-inf-": ErrNotFinite, "d-type": ErrFormat, "i-what": ErrFormat, "e-huge": ErrNotFinite, "g-side": ErrFormat} {
		if !errors.Is(skipped[name], want) {
			t.Errorf("%s: %v", name, skipped[name])
		}
	}
	want := []db.Document{
		{ID: "named-otherwise", Vector: []float32{4, 5, 6}},
		{ID: "sub/dir/" + sha1Name + ".txt", Vector: []float32{0.1, 0.2, 0.3}, Text: "deep"},
		{ID: uuidName, Vector: []float32{1, 2.5, -0.03}, Text: "hello", Metadata: db.Metadata{
			"source_file": "a.go", "line_number": int64(7), "tags": []any{"x", "y"}, "chunk_index": int64(0), "own": map[string]any{"n": 1.0}}},
	}
	if diff := cmp.Diff(want, documents(t, c)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// A second import writes only the changes.
	if r := importAll(t, c, dir, nil); r.Unchanged != 3 || r.Added+r.Updated != 0 {
		t.Errorf("again: %+v", r)
	}
	file("named-otherwise", "[4,5,7]")
	file(uuidName+sidecarSuffix, `{"source_file":"b.go"}`)
	if r := importAll(t, c, dir, nil); r.Updated != 2 || r.Unchanged != 1 || r.Added != 0 {
		t.Errorf("changed: %+v", r)
	}
	d, err := c.Get(t.Context(), uuidName, 0)
	if err != nil || d.Text != "hello" || d.Metadata["source_file"] != "b.go" {
		t.Errorf("%+v %v", d, err)
	}
	// Another dimension ends the import and names the file.
	file("x-other-"+sha1Name, "[1,2]")
	src, err = Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Import(t.Context(), c, src, nil)
	var dim *db.DimensionError
	if !errors.As(err, &dim) || dim.Expected != 3 || dim.Got != 2 || !strings.Contains(err.Error(), "x-other-") {
		t.Errorf("%v", err)
	}
	if _, err := Open(filepath.Join(dir, "none"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing directory: %v", err)
	}
}

// TestImportOneByOne: what becomes of a document, and the counts, do not depend on the batches.
func TestImportOneByOne(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		embed bool // with a model of two dimensions
		want  Report
		docs  string // ids, and as many signs as the vector has components
		err   string
		asked int // texts
	}{
		{name: "vector of another length than the model makes", embed: true, lines: []string{
			`{"id":"1","text":"a"}`, `{"id":"2","text":"b"}`, `{"id":"3","vector":[1,2,3]}`, `{"id":"4","text":"d"}`},
			want: Report{Added: 2}, docs: "1-- 2--", asked: 2,
			err: `s: line 3: dimension mismatch: document "3" has 3 components`},
		{name: "only such a vector", embed: true, lines: []string{`{"id":"3","vector":[1,2,3]}`},
			err: `s: line 1: dimension mismatch: document "3" has 3 components`},
		{name: "such a vector, replaced", embed: true,
			lines: []string{`{"id":"1","vector":[1,2,3]}`, `{"id":"1","text":""}`},
			err:   `s: line 1: dimension mismatch: document "1" has 3 components`},
		{name: "vector of another length than the first", lines: []string{
			`{"id":"1","vector":[1,2]}`, `{"id":"2"}`, `{"id":"3","vector":[1]}`, `{"id":"4"}`},
			want: Report{Added: 2}, docs: "1-- 2",
			err: `s: line 3: dimension mismatch in collection "c": expected 2, got 1 (document "3")`},
		{name: "first vector of a refused document",
			lines: []string{`{"id":"1","metadata":{"":1},"vector":[1,2,3]}`, `{"id":"2","vector":[1,2]}`},
			want:  Report{Added: 1, Skipped: 1}, docs: "2--"},
		{name: "refused line after one of the same id", lines: []string{
			`{"id":"1","text":"good","vector":[1,2]}`, `{"id":"2","text":"other"}`, `{"id":"1","metadata":{"":1}}`},
			want: Report{Added: 2, Skipped: 1}, docs: "1-- 2"},
		{name: "refused line before one of the same id",
			lines: []string{`{"id":"1","text":"bad","metadata":{"":1},"vector":[1,2]}`, `{"id":"1","metadata":{"n":1}}`},
			want:  Report{Added: 1, Skipped: 1}, docs: "1"},
		{name: "refused line between two of the same id", embed: true, lines: []string{
			`{"id":"1","text":"good"}`, `{"id":"1","text":"bad","metadata":{"":1}}`, `{"id":"1","metadata":{"n":1}}`},
			want: Report{Added: 1, Updated: 1, Skipped: 1}, docs: "1--", asked: 1},
		{name: "repeated id", lines: []string{
			`{"id":"1","text":"a"}`, `{"id":"1","text":"b"}`, `{"id":"1","text":"b"}`, `{"id":"1","metadata":{"n":1}}`},
			want: Report{Added: 1, Updated: 2, Unchanged: 1}, docs: "1"},
		{name: "repeated text", embed: true,
			lines: []string{`{"id":"1","text":"a"}`, `{"id":"1","text":"a"}`, `{"id":"1","metadata":{"n":1}}`},
			want:  Report{Added: 1, Updated: 1, Unchanged: 1}, docs: "1--", asked: 1},
		{name: "text without words", embed: true, lines: []string{`{"id":"1","text":" "}`, `{"id":"1","text":" "}`, `{"id":"1","text":""}`},
			want: Report{Added: 1, Updated: 1, Unchanged: 1}, docs: "1"},
		{name: "no ids", lines: []string{`{"vector":[1]}`, `{"vector":[1]}`, `{"vector":[1,2]}`},
			want: Report{Added: 2}, docs: "new- new-", err: `s: line 3: dimension mismatch in collection "c": expected 1, got 2`},
		{name: "no object with the keys of a document", lines: []string{`{"id":"1"}`, `{"id":"1","text":5}`, `{"id":"1"}`},
			want: Report{Added: 1, Unchanged: 1, Skipped: 1}, docs: "1"},
	} {
		for _, size := range []int{0, 1, 2, 3} {
			t.Run(fmt.Sprintf("%s/%d", tt.name, size), func(t *testing.T) {
				o, asked := &ImportOptions{BatchSize: size}, 0
				if tt.embed {
					o.Vectors = func(_ context.Context, docs []*db.Document) error {
						for _, d := range docs {
							if n := len(d.Vector); n != 0 && n != 2 {
								return fmt.Errorf("%w: document %q has %d components", db.ErrDimensionMismatch, d.ID, n)
							}
						}
						for _, d := range docs {
							if len(d.Vector) == 0 {
								d.Vector = []float32{1, 1}
								asked++
							}
						}
						return nil
					}
				}
				c := open(t, 0)
				r, err := Import(t.Context(), c, Stream(strings.NewReader(strings.Join(tt.lines, "\n")), "s"), o)
				if r != tt.want {
					t.Errorf("%+v, want %+v", r, tt.want)
				}
				if err == nil && tt.err != "" || err != nil && err.Error() != tt.err {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				var docs []string
				for _, d := range documents(t, c) {
					if len(d.ID) > 1 {
						d.ID = "new"
					}
					docs = append(docs, d.ID+strings.Repeat("-", len(d.Vector)))
				}
				if got := strings.Join(docs, " "); got != tt.docs {
					t.Errorf("stored %q, want %q", got, tt.docs)
				}
				if asked != tt.asked {
					t.Errorf("made vectors of %d texts, want %d", asked, tt.asked)
				}
			})
		}
	}
}

// TestImportRefusesModel: an error of the model ends the import, also one that would skip a
// document if the database returned it.
func TestImportRefusesModel(t *testing.T) {
	asked := 0
	r, err := Import(t.Context(), open(t, 0), Stream(strings.NewReader(`{"text":"a"}`+"\n"+`{"text":"b"}`), "s"), &ImportOptions{
		Vectors: func(context.Context, []*db.Document) error {
			asked++
			return fmt.Errorf("%w: no model", db.ErrInvalid)
		}})
	if !errors.Is(err, db.ErrInvalid) || r != (Report{}) || asked != 1 {
		t.Errorf("%+v, %v, asked %d times", r, err, asked)
	}
}

// TestVectorsOfRepeatedIDs makes a vector for the last text of an id, whatever the batches are.
func TestVectorsOfRepeatedIDs(t *testing.T) {
	lines := strings.Join([]string{
		`{"id":"new text","text":"one","vector":[9,9]}`,
		`{"id":"new text","text":"three"}`,
		`{"id":"same text","text":"one","vector":[9,9]}`,
		`{"id":"same text","text":"one","metadata":{"n":1}}`,
		`{"id":"metadata","text":"one","vector":[9,9]}`,
		`{"id":"metadata","metadata":{"n":1}}`,
		`{"id":"new vector","text":"one","vector":[9,9]}`,
		`{"id":"new vector","text":"three","vector":[8,8]}`,
		`{"id":"empty vector","text":"one","vector":[9,9]}`,
		`{"id":"empty vector","text":"three","vector":[]}`,
		`{"id":"no text","text":"one","vector":[9,9]}`,
		`{"id":"no text","text":""}`,
	}, "\n")
	want := map[string][]float32{"new text": {5, 0}, "same text": {9, 9}, "metadata": {9, 9}, "new vector": {8, 8},
		"empty vector": {5, 0}, "no text": nil}
	for _, size := range []int{0, 1} {
		c := open(t, 2)
		_, err := Import(t.Context(), c, Stream(strings.NewReader(lines), "s"), &ImportOptions{BatchSize: size,
			Vectors: func(_ context.Context, docs []*db.Document) error {
				for _, d := range docs {
					if len(d.Vector) == 0 {
						d.Vector = []float32{float32(len(d.Text)), 0}
					}
				}
				return nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]float32{}
		for _, d := range documents(t, c) {
			got[d.ID] = d.Vector
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("batches of %d: %s", size, diff)
		}
	}
}

// TestEmptyCellsOfCSV keeps the parts of stored documents whose cells are empty.
func TestEmptyCellsOfCSV(t *testing.T) {
	c := open(t, 2)
	for _, content := range []string{
		"id,text,vector,metadata,n\n1,one,\"[1,1]\",\"{\"\"m\"\":1}\",1\n",
		"id,text,vector,metadata,n\n1,,,,\n2,,,,\n",
		"id,text,vector,metadata,n\n1,,,,2\n",
	} {
		importAll(t, c, write(t, filepath.Join(t.TempDir(), "a.csv"), content), nil)
	}
	want := map[string]db.Document{
		"1": {ID: "1", Text: "one", Vector: []float32{1, 1}, Metadata: db.Metadata{"n": int64(2)}}, "2": {ID: "2"},
	}
	got := map[string]db.Document{}
	for _, d := range documents(t, c) {
		got[d.ID] = d
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestMetadataBesideTexts: the lines of texts may carry the metadata of vectors without a sidecar.
func TestMetadataBesideTexts(t *testing.T) {
	dir, texts := t.TempDir(), filepath.Join(t.TempDir(), "texts.jsonl")
	for _, name := range []string{"both", "line", "none", "null"} {
		write(t, filepath.Join(dir, name), "[1,2]")
	}
	write(t, filepath.Join(dir, "both"+sidecarSuffix), `{"from":"sidecar"}`)
	write(t, texts, `{"key":"both","text":"a","metadata":{"from":"line"}}
{"id":"line","text":"b","metadata":{"from":"line","n":1,"tags":["x"]}}
{"key":"none","text":"c"}
{"key":"null","text":"d","metadata":null}
`)
	c := open(t, 0)
	if r := importAll(t, c, dir, &OpenOptions{Texts: texts}); r.Added != 4 {
		t.Errorf("%+v", r)
	}
	want := []db.Document{
		{ID: "both", Vector: []float32{1, 2}, Text: "a", Metadata: db.Metadata{"from": "sidecar"}},
		{ID: "line", Vector: []float32{1, 2}, Text: "b",
			Metadata: db.Metadata{"from": "line", "n": int64(1), "tags": []any{"x"}}},
		{ID: "none", Vector: []float32{1, 2}, Text: "c"},
		{ID: "null", Vector: []float32{1, 2}, Text: "d"},
	}
	if diff := cmp.Diff(want, documents(t, c)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	write(t, texts, `{"key":"none","text":"c","metadata":[1]}`)
	if _, err := Open(dir, &OpenOptions{Texts: texts}); !errors.Is(err, ErrFormat) {
		t.Errorf("a list as metadata: %v", err)
	}
}

// TestDirectoryOfTexts: a directory with the name of a vector is not its text, nor is a name inside
// of a file.
func TestDirectoryOfTexts(t *testing.T) {
	dir, texts := t.TempDir(), t.TempDir()
	for _, name := range []string{"a", "b"} {
		write(t, filepath.Join(dir, name), "[1,2]")
	}
	if err := os.MkdirAll(filepath.Join(texts, "a"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(texts, "a.txt"), "first")
	write(t, filepath.Join(texts, "b"), "second")
	write(t, filepath.Join(dir, "b.d", "c"), "[3,4]")
	write(t, filepath.Join(texts, "b.d"), "no directory")
	write(t, filepath.Join(texts, "c.txt"), "third")
	c := open(t, 0)
	if r := importAll(t, c, dir, &OpenOptions{Texts: texts}); r.Added != 3 {
		t.Errorf("%+v", r)
	}
	var got []string
	for _, d := range documents(t, c) {
		got = append(got, d.ID+": "+d.Text)
	}
	if want := []string{"a: first", "b: second", "b.d/c: third"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestDetectJSONL: a byte order mark or white space may come before the first object.
func TestDetectJSONL(t *testing.T) {
	for _, before := range []string{"", "\xef\xbb\xbf", "      ", "\xef\xbb\xbf \r\n\t  "} {
		path := write(t, filepath.Join(t.TempDir(), "a"), before+`{"id":"a"}`)
		if f, err := Detect(path); f != JSONL || err != nil {
			t.Errorf("behind %q: %q, %v", before, f, err)
		}
	}
}

// A cache written by a real run of LangChain.
func TestRealCache(t *testing.T) {
	root := filepath.Join("..", "..", "shared", "data", "emb-cache-ada002")
	if _, err := os.Stat(root); err != nil {
		t.Skip("the real cache is not here:", err)
	}
	c := open(t, 0)
	o := &OpenOptions{Texts: filepath.Join(root, "texts.jsonl")}
	if r := importAll(t, c, filepath.Join(root, "cache"), o); r.Added != 500 || r.Skipped != 0 {
		t.Fatalf("%+v", r)
	}
	if r := importAll(t, c, filepath.Join(root, "cache"), o); r.Unchanged != 500 {
		t.Fatalf("again: %+v", r)
	}
	if info, err := c.Info(); err != nil || info.Schema.Dim != 1536 {
		t.Errorf("%+v, %v", info, err)
	}
	withText := 0
	for _, d := range documents(t, c) {
		if d.Text != "" {
			withText++
		}
	}
	if withText < 400 {
		t.Errorf("%d documents have a text", withText)
	}
}

// TestCellsOfCSV takes rows with empty cells, null, and several columns for one part.
func TestCellsOfCSV(t *testing.T) {
	const other = `document "1": key "n" is given both inside and outside of the metadata`
	for _, tt := range []struct {
		name, header, row string
		want              db.Document
		carries           db.Select
		skip              string
	}{
		{name: "key beside the metadata", header: "id,n,metadata", row: `1,-0,"{""n"":5}"`, skip: other},
		{name: "key behind the metadata", header: "id,metadata,n", row: `1,"{""n"":5}",-0`, skip: other},
		{name: "empty cell beside the metadata", header: "id,n,metadata", row: `1,,"{""n"":5}"`,
			want: db.Document{ID: "1", Metadata: db.Metadata{"n": int64(5)}}, carries: db.WithMetadata},
		{name: "text and document", header: "id,document,text", row: "1,b,a",
			want: db.Document{ID: "1", Text: "a", Metadata: db.Metadata{"document": "b"}}, carries: db.WithText | db.WithMetadata},
		{name: "empty text", header: "id,content,document,text", row: "1,c,b,",
			want: db.Document{ID: "1", Text: "b", Metadata: db.Metadata{"content": "c"}}, carries: db.WithText | db.WithMetadata},
		{name: "empty vector", header: "id,vector,values", row: `1,,"[1,2]"`,
			want: db.Document{ID: "1", Vector: []float32{1, 2}}, carries: db.WithVector},
		{name: "empty id", header: "id,_id", row: ",1", want: db.Document{ID: "1"}},
		{name: "null", header: "id,vector,metadata", row: "1,null, null ",
			want: db.Document{ID: "1"}, carries: db.WithVector | db.WithMetadata},
		{name: "no fields", header: "id,metadata", row: "1,{}", want: db.Document{ID: "1"}, carries: db.WithMetadata},
		{name: "null and a field", header: "id,metadata,n", row: "1,null,5",
			want: db.Document{ID: "1", Metadata: db.Metadata{"n": int64(5)}}, carries: db.WithMetadata},
		{name: "more than a vector", header: "id,vector", row: `1,"[1] 2"`, skip: `document "1": column "vector": '2' after the value`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			src, err := Open(write(t, filepath.Join(t.TempDir(), "a.csv"), tt.header+"\n"+tt.row+"\n"), nil)
			if err != nil {
				t.Fatal(err)
			}
			for doc, err := range src.Documents(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if tt.skip != "" {
					if fmt.Sprint(doc.Skip) != tt.skip {
						t.Errorf("%v, want %q", doc.Skip, tt.skip)
					}
					continue
				}
				if diff := cmp.Diff(tt.want, doc.Document); doc.Skip != nil || diff != "" || doc.Carries != tt.carries {
					t.Errorf("%v, carries %b: %s", doc.Skip, doc.Carries, diff)
				}
			}
		})
	}
}

// A file of vectors has one dimension: the writers refuse to make another one.
func TestWritersRefuseOtherDimensions(t *testing.T) {
	var fvecs, npy bytes.Buffer
	fw := NewVecsWriter(&fvecs)
	nw, err := NewNPYWriter(&npy, 2, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, vec := range [][]float32{{}, {1, 2}, {1}, {1, 2, 3}, {3, 4}} {
		for name, err := range map[string]error{"fvecs": fw.Write(vec), "npy": nw.Write(vec)} {
			if (err == nil) != (len(vec) == 2) {
				t.Errorf("%s: %v: %v", name, vec, err)
			}
		}
	}
	path := write(t, filepath.Join(t.TempDir(), "v.fvecs"), fvecs.String())
	if r := importAll(t, open(t, 0), path, nil); r.Added != 2 {
		t.Errorf("%+v", r)
	}
}

func TestRows(t *testing.T) {
	vecs := [][]float32{{1, -2.5, float32(math.Copysign(0, -1))}, {math.MaxFloat32, math.SmallestNonzeroFloat32, 3}}
	dir := t.TempDir()
	var fvecs, npy bytes.Buffer
	fw := NewVecsWriter(&fvecs)
	nw, err := NewNPYWriter(&npy, len(vecs), 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vecs {
		if err := errors.Join(fw.Write(v), nw.Write(v)); err != nil {
			t.Fatal(err)
		}
	}
	if err := nw.Close(); err != nil {
		t.Fatal(err)
	}
	if i := bytes.IndexByte(npy.Bytes(), '\n'); (i+1)%npyAlign != 0 {
		t.Errorf("the data begin at %d", i+1)
	}
	meta := write(t, filepath.Join(dir, "meta.jsonl"), `{"i":0}`+"\r\n"+`{"i":1}`+"\n\n")
	docs := write(t, filepath.Join(dir, "docs.jsonl"), `{"id":"a","text":"x","metadata":{"f":1.0}}`+"\n"+`{"id":"b"}`)
	for name, b := range map[string][]byte{"v.fvecs": fvecs.Bytes(), "v.npy": npy.Bytes()} {
		path := write(t, filepath.Join(dir, name), string(b))
		c := open(t, 0)
		if r := importAll(t, c, path, &OpenOptions{Metadata: meta}); r.Added != 2 {
			t.Fatalf("%s: %+v", name, r)
		}
		want := []db.Document{{ID: "0", Vector: vecs[0], Metadata: db.Metadata{"i": int64(0)}}, {ID: "1", Vector: vecs[1], Metadata: db.Metadata{"i": int64(1)}}}
		if diff := cmp.Diff(want, documents(t, c)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		c = open(t, 0)
		importAll(t, c, path, &OpenOptions{Documents: docs})
		want = []db.Document{{ID: "a", Text: "x", Vector: vecs[0], Metadata: db.Metadata{"f": 1.0}}, {ID: "b", Vector: vecs[1]}}
		if diff := cmp.Diff(want, documents(t, c)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
		// Truncated anywhere: an error that names the file, never a panic.
		for n := range b {
			short := write(t, filepath.Join(dir, "cut-"+name), string(b[:n]))
			src, err := Open(short, nil)
			rows := 0
			if err == nil {
				for doc, e := range src.Documents(t.Context()) {
					if err = e; err != nil {
						break
					}
					rows += min(1, len(doc.Document.Vector))
				}
			}
			whole := name == "v.fvecs" && n%16 == 0
			var bad *FormatError
			if whole != (err == nil) || err != nil && (!errors.As(err, &bad) || bad.Name != short) {
				t.Errorf("%s cut at %d: %d rows, %v", name, n, rows, err)
			}
		}
	}
	if rows, err := ReadIVecs(write(t, filepath.Join(dir, "t.ivecs"), "\x02\x00\x00\x00\x07\x00\x00\x00\x09\x00\x00\x00")); err != nil || fmt.Sprint(rows) != "[[7 9]]" {
		t.Errorf("%v %v", rows, err)
	}
	bvecs := write(t, filepath.Join(dir, "v.bvecs"), "\x02\x00\x00\x00\x07\xff")
	for v, err := range ReadVectors(bvecs) {
		if err != nil || fmt.Sprint(v) != "[7 255]" {
			t.Errorf("%v %v", v, err)
		}
	}
	src, err := Open(filepath.Join(dir, "v.fvecs"), &OpenOptions{Metadata: write(t, filepath.Join(dir, "short.jsonl"), "{}\n")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Import(t.Context(), open(t, 0), src, nil); !errors.Is(err, ErrFormat) {
		t.Errorf("too little metadata: %v", err)
	}
}

// What can be told without reading the rows is an error of Open, before anything is made for them.
func TestOpenLooksAtHeader(t *testing.T) {
	dir := t.TempDir()
	vecs := write(t, filepath.Join(dir, "v.fvecs"), "\x01\x00\x00\x00\x00\x00\x80\x3f")
	none := filepath.Join(dir, "none.jsonl")
	for _, o := range []OpenOptions{{Metadata: none}, {Documents: none}} {
		if _, err := Open(vecs, &o); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	var bad *FormatError
	if _, err := Open(vecs, &OpenOptions{Format: NPY}); !errors.As(err, &bad) || bad.Name != vecs {
		t.Errorf("fvecs as npy: %v", err)
	}
}

// A compressed file is refused as one, so that its user knows what to do.
func TestOpenCompressed(t *testing.T) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(`{"id":"a"}`))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"a.jsonl.gz": b.String(), "a.npz": "PK\x03\x04\x14\x00", "a.zst": "\x28\xb5\x2f\xfd"} {
		path := write(t, filepath.Join(t.TempDir(), name), content)
		if _, err := Open(path, nil); !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), "is compressed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNPYHeaders(t *testing.T) {
	file := func(version byte, header string, data int) string {
		b := npyMagic + string([]byte{version, 0, byte(len(header)), byte(len(header) >> 8)})
		if version > 1 {
			b += "\x00\x00"
		}
		return b + header + strings.Repeat("\x00", data)
	}
	for _, tt := range []struct {
		name, content string
		rows          int
		say           string
	}{
		{"v1", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24), 2, ""},
		{"v2", file(2, "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3)}", 48), 2, ""},
		{"vector", file(3, "{'descr': '<f4', 'fortran_order': True, 'shape': (3,)}", 12), 1, ""},
		{"empty", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3)}", 0), 0, ""},
		{"big-endian", file(1, "{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3)}", 24), 0, ">f4"},
		{"fortran", file(1, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}", 24), 0, "Fortran"},
		{"cube", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 3)}", 24), 0, "shape"},
		{"lies", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 3)}", 24), 0, "fill"},
		{"overflow", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", 0), 0, "fill"},
		{"negative", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (-2, 3)}", 24), 0, "shape"},
		{"wide", file(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 70000)}", 280000), 0, "dimension"},
		{"version 9", file(9, "{}", 0), 0, "version"},
		{"no header", npyMagic, 0, ".npy"},
	} {
		src, err := Open(write(t, filepath.Join(t.TempDir(), "x.npy"), tt.content), nil)
		rows := 0
		if err == nil {
			for _, e := range src.Documents(t.Context()) {
				if err = e; err == nil {
					rows++
				}
			}
		}
		if rows != tt.rows || (tt.say == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%s: %d rows, %v", tt.name, rows, err)
		}
	}
}

func TestJSONLRoundTrip(t *testing.T) {
	want := []db.Document{
		{ID: "a", Text: "line\nbreak \"quoted\" \u2028 漢", Vector: []float32{0.1, -1e-45, 3.4028235e38}, Metadata: db.Metadata{
			"i": int64(math.MaxInt64), "whole": 2.0, "f": 0.1, "null": nil, "list": []any{"x", int64(1), 1.5, nil, true}, "m": map[string]any{"d": "v"}}},
		{ID: "b"},
	}
	from := open(t, 3)
	if _, err := from.Upsert(t.Context(), want...); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := NewJSONLWriter(&out, db.Everything)
	for _, d := range documents(t, from) {
		if err := w.Write(&d); err != nil {
			t.Fatal(err)
		}
	}
	to := open(t, 3)
	path := write(t, filepath.Join(t.TempDir(), "x.jsonl"), out.String())
	if r := importAll(t, to, path, nil); r.Added != 2 {
		t.Fatalf("%+v", r)
	}
	if diff := cmp.Diff(want, documents(t, to)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if r := importAll(t, to, path, nil); r.Unchanged != 2 {
		t.Errorf("again: %+v", r)
	}
}

func TestBEIR(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "corpus.jsonl"), `{"_id":"1","title":"T","text":"x","metadata":{"url":"u"}}`+"\n"+`{"_id":"1","title":"T2","text":"y"}`+"\n")
	c := open(t, 0)
	if r := importAll(t, c, dir, nil); r != (Report{Added: 1, Updated: 1}) { // the last document of an id wins
		t.Fatalf("%+v", r)
	}
	if diff := cmp.Diff([]db.Document{{ID: "1", Text: "y", Metadata: db.Metadata{"title": "T2"}}}, documents(t, c)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestJSONLErrors imports a bad line between two good ones. A line that is an object of JSON is
// skipped, and the next one is read; any other line ends the import.
func TestJSONLErrors(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, tt := range []struct {
		line, say string
		ends      bool
	}{
		{`{"id":1.5}`, `offset 9: "id": invalid: id 1.5 is neither a string nor an integer`, false},
		{`{"id":true}`, `offset 6: "id": a boolean instead of a string`, false},
		{`{"id":["x"]}`, "an array instead of a string", false},
		{`{"id":"x\u0001"}`, "control character", false},
		{`{"id":"x","$y":1}`, `document "x": invalid: metadata key "$y"`, false},
		{`{"id":"x","text":5}`, `document "x": offset 17: "text": a number instead of a string`, false},
		{`{"id":"x","vector":"abc"}`, `document "x": "vector": element 0 at byte 19: a string instead of an array`, false},
		{`{"vector":[1,"2"],"id":"x"}`, `"vector": element 1 at byte 13: a string instead of a number`, false},
		{`{"id":"x","vector":[1,NaN]}`, `document "x": "vector": element 1 at byte 22: not a finite float32: NaN`, false},
		{`{"id":"x","metadata":5}`, `document "x": offset 21: "metadata": a number instead of an object`, false},
		{`{"id":"x","metadata":{"n":99999999999999999999}}`, "does not fit int64", false},
		{`{"id":"x","metadata":{"y":` + deep(20) + `}}`, `document "x": invalid: metadata`, false},
		{`{"id":"x","metadata":{"y":` + deep(100) + `}}`, `document "x": offset 90: "metadata": nested deeper`, false},
		{`{"id":"x","vector":[1],"embedding":[1]}`, `key "embedding" repeats a part`, false},
		{`{"id":"x","id":"y"}`, `key "id" repeats a part`, false},
		{`{"id":"x","y":1,"metadata":{"y":2}}`, `key "y" is given both inside and outside`, false},
		{`{"id":"x\ud800"}`, `offset 8: "id": string with half a surrogate pair`, false},
		{`{"id":"x","\ud800":1}`, `document "x": offset 11: string with half a surrogate pair`, false},
		{`{"id":"x"`, "unexpected EOF", true},
		{`{"id":"x"} {}`, "'{' after the value", true},
		{`{"id":true`, "a boolean instead of a string", true},
		{`{"id":x}`, "'x' instead of a string", true},
		{"{\"id\":\"\xff\"}", "not valid UTF-8", true},
		{`["x"]`, "an array instead of an object", true},
		{`null`, "null instead of an object", true},
	} {
		t.Run(tt.line[:min(len(tt.line), 30)], func(t *testing.T) {
			path := write(t, filepath.Join(t.TempDir(), "x.jsonl"), `{"id":"a"}`+"\n"+tt.line+"\n"+`{"id":"b"}`)
			src, err := Open(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			var skipped []string
			r, err := Import(t.Context(), open(t, 0), src, &ImportOptions{OnSkip: func(d *ImportedDocument) {
				skipped = append(skipped, fmt.Sprintf("%v: %v", d.Position, d.Skip))
			}})
			want, got := Report{Added: 2, Skipped: 1}, strings.Join(skipped, "\n")
			if tt.ends {
				want, got = Report{Added: 1}, fmt.Sprint(err)
				err = nil
			}
			if err != nil || r != want || !strings.Contains(got, tt.say) || !strings.Contains(got, "x.jsonl: line 2") {
				t.Errorf("%+v, %v, %s; want %q", r, err, got, tt.say)
			}
		})
	}
}

// TestBesideSkips: a line beside a row of vectors that is no document skips the row.
func TestBesideSkips(t *testing.T) {
	dir := t.TempDir()
	vectors := write(t, filepath.Join(dir, "v.bvecs"), "\x01\x00\x00\x00\x07\x01\x00\x00\x00\x08")
	for name, o := range map[string]*OpenOptions{
		"documents": {Documents: write(t, filepath.Join(dir, "docs.jsonl"), `{"id":"a","text":5}`+"\n"+`{"text":"t"}`)},
		"metadata":  {Metadata: write(t, filepath.Join(dir, "meta.jsonl"), `{"n":99999999999999999999}`+"\n"+`{"n":1}`)},
	} {
		c := open(t, 0)
		r := importAll(t, c, vectors, o)
		if docs := documents(t, c); r != (Report{Added: 1, Skipped: 1}) || docs[0].ID != "1" || docs[0].Vector[0] != 8 {
			t.Errorf("%s: %+v, %+v", name, r, docs)
		}
	}
}

// TestBesideVectors: a document beside a row brings no vector of its own, which would be lost.
func TestBesideVectors(t *testing.T) {
	dir := t.TempDir()
	vectors := write(t, filepath.Join(dir, "v.bvecs"), "\x01\x00\x00\x00\x07\x01\x00\x00\x00\x08")
	for second, want := range map[string]string{
		`{"id":"b","vector":[8]}`:    "docs.jsonl: line 2, byte 0: this line has a vector, and so has row 1 of " + vectors,
		`{"id":"b","embedding":[9]}`: "docs.jsonl: line 2, byte 0: this line has a vector, and so has row 1 of " + vectors,
		`{"id":"b","values":[9]}`:    "docs.jsonl: line 2, byte 0: this line has a vector, and so has row 1 of " + vectors,
		`{"id":"b","vector":null}`:   "",
		`{"id":"b","values":9}`:      "",
	} {
		docs := write(t, filepath.Join(dir, "docs.jsonl"), `{"id":"a"}`+"\n"+second+"\n")
		src, err := Open(vectors, &OpenOptions{Documents: docs})
		if err != nil {
			t.Fatal(err)
		}
		c := open(t, 0)
		r, err := Import(t.Context(), c, src, nil)
		if want != "" {
			if !errors.Is(err, ErrFormat) || !strings.HasSuffix(err.Error(), want) || r != (Report{Added: 1}) {
				t.Errorf("%s: %+v, %v; want %q", second, r, err, want)
			}
		} else if got := documents(t, c); err != nil || len(got) != 2 || got[1].Vector[0] != 8 {
			t.Errorf("%s: %+v, %v, %+v", second, r, err, got)
		}
	}
}

// TestNullMetadata: null is no metadata, wherever an object of metadata is expected.
func TestNullMetadata(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "cache", sha1Name), "[7]")
	write(t, filepath.Join(dir, "cache", sha1Name+sidecarSuffix), "null\n")
	vectors := write(t, filepath.Join(dir, "v.bvecs"), "\x01\x00\x00\x00\x07")
	for path, o := range map[string]*OpenOptions{
		filepath.Join(dir, "cache"): nil,
		vectors:                     {Metadata: write(t, filepath.Join(dir, "meta.jsonl"), "null\n")},
		write(t, filepath.Join(dir, "a.csv"), "id,vector,metadata\n1,[7],null\n"):               nil,
		write(t, filepath.Join(dir, "a.jsonl"), `{"id":"1","vector":[7],"metadata":null}`+"\n"): nil,
	} {
		src, err := Open(path, o)
		if err != nil {
			t.Fatal(err)
		}
		for doc, err := range src.Documents(t.Context()) {
			if err != nil || doc.Skip != nil || doc.Carries != db.WithVector|db.WithMetadata || doc.Document.Metadata != nil {
				t.Errorf("%s: %+v, %v", path, doc, err)
			}
		}
	}
}

// TestBesideBlankLines: a blank line must not shift the lines below it to other rows.
func TestBesideBlankLines(t *testing.T) {
	dir := t.TempDir()
	vectors := write(t, filepath.Join(dir, "v.bvecs"), "\x01\x00\x00\x00\x07\x01\x00\x00\x00\x08\x01\x00\x00\x00\x09")
	name := write(t, filepath.Join(dir, "lines.jsonl"), "{}\n \r\n{}\n{}\n")
	for part, o := range map[string]*OpenOptions{"documents": {Documents: name}, "metadata": {Metadata: name}} {
		src, err := Open(vectors, o)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Import(t.Context(), open(t, 0), src, nil)
		const want = "lines.jsonl: line 2, byte 0: blank line for row 1"
		if !errors.Is(err, ErrFormat) || !strings.HasSuffix(fmt.Sprint(err), want) || r != (Report{Added: 1}) {
			t.Errorf("%s: %+v, %v; want %q", part, r, err, want)
		}
	}
}

// A pausing source calls a function before each document.
type pausing struct {
	docs   []*ImportedDocument
	before func(i int)
}

func (p *pausing) Total() int64 { return 0 }

func (p *pausing) Documents(context.Context) iter.Seq2[*ImportedDocument, error] {
	return func(yield func(*ImportedDocument, error) bool) {
		for i, doc := range p.docs {
			if p.before(i); !yield(doc, nil) {
				return
			}
		}
	}
}

// TestImportBesideAnotherProcess: a batch keeps the parts that another process has just written,
// while the batches before it were imported.
func TestImportBesideAnotherProcess(t *testing.T) {
	collection := func(vdb *db.DB) *db.Collection {
		c, err := vdb.OpenCollection(t.Context(), "c", db.Schema{Dim: 1})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first, second := dbtest.Share(t, db.Open, &db.Options{Sync: db.SyncNever})
	leader, follower := collection(first), collection(second)
	const n = 300
	src := &pausing{before: func(i int) {
		text := db.Document{ID: fmt.Sprint(i), Text: "of the leader"}
		if _, err := leader.Upsert(t.Context(), text); err != nil {
			t.Error(err)
		}
	}}
	for i := range n {
		src.docs = append(src.docs, &ImportedDocument{Carries: db.WithVector,
			Document: db.Document{ID: fmt.Sprint(i), Vector: []float32{1}}})
	}
	r, err := Import(t.Context(), follower, src, &ImportOptions{BatchSize: 1})
	if want := (Report{Updated: n}); err != nil || r != want {
		t.Errorf("%+v, %v, want %+v", r, err, want)
	}
	for d, err := range leader.All(t.Context(), nil, db.Everything) {
		if err != nil || d.Text != "of the leader" || len(d.Vector) != 1 {
			t.Fatal(d, err)
		}
	}
}

// The sign of zero is a bit of a stored number, and so is its type.
func TestImportRestoresBits(t *testing.T) {
	c := open(t, 0)
	path := filepath.Join(t.TempDir(), "docs.jsonl")
	for _, value := range []string{"0.0", "-0.0", "[0.0]", "[-0.0]", `{"g":[-0.0]}`, `{"g":[0.0]}`, "0", "0.0"} {
		line := `{"id":"a","metadata":{"f":` + value + `}}`
		write(t, path, line)
		importAll(t, c, path, nil)
		got, err := AppendDocument(nil, &documents(t, c)[0], db.WithMetadata)
		if want := line + "\n"; err != nil || string(got) != want {
			t.Errorf("stored %s, imported %s: %v", got, want, err)
		}
		if r := importAll(t, c, path, nil); r.Unchanged != 1 {
			t.Errorf("%s, imported again: %+v", value, r)
		}
	}
}

// Decoded metadata counts towards the size of a batch, whatever its text takes.
func TestBatchesCountMetadata(t *testing.T) {
	c := open(t, 0)
	const docs, numbers = 6, 200_000 // about 5 MB each, decoded
	list := "[1" + strings.Repeat(",1", numbers-1) + "]"
	var lines strings.Builder
	for i := range docs {
		fmt.Fprintf(&lines, `{"id":"%d","metadata":{"a":%s}}`+"\n", i, list)
	}
	batches := 0
	o := &ImportOptions{Progress: func(int64, Report) { batches++ }}
	r, err := Import(t.Context(), c, Stream(strings.NewReader(lines.String()), "lines"), o)
	if err != nil || r.Added != docs {
		t.Fatalf("%+v, %v", r, err)
	}
	if batches < docs/2 {
		t.Errorf("%d batches, want %d", batches, docs/2)
	}
}

// A document whose metadata is beyond the limit of the database is skipped without its values.
func TestRefusedMetadataIsDropped(t *testing.T) {
	for _, value := range []string{"1.0", "1e1", "1000"} {
		list := "[" + value + strings.Repeat(","+value, 400_000) + "]"
		doc, err := NewJSONLReader(strings.NewReader(`{"id":"a","text":"x","metadata":{"a":`+list+`}}`), "").Next()
		if err != nil || !errors.Is(doc.Skip, db.ErrInvalid) || doc.Document.ID != "a" {
			t.Fatalf("%+v, %v", doc, err)
		}
		if doc.Document.Metadata != nil || doc.Document.Text != "" {
			t.Errorf("%s: values of a refused document are kept", value)
		}
		if !strings.Contains(doc.Skip.Error(), `document "a": invalid: metadata takes`) {
			t.Error(doc.Skip)
		}
	}
}
