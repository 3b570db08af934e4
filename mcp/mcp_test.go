package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/internal/dbtest"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/vectorize"
)

// database has the collections "plain", of four vectors, and "notes", of embedded texts.
func database(t *testing.T) *db.DB {
	t.Helper()
	vdb, err := db.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { vdb.Close() })
	plain, err := vdb.CreateCollection(t.Context(), "plain", db.Schema{Dim: 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range [][]float32{{1, 0}, {1, 0.1}, {0, 1}, {-1, 0}} {
		if _, err := plain.Upsert(t.Context(), db.Document{ID: string(rune('a' + i)), Vector: v, Metadata: db.Metadata{
			"n": int64(i), "even": i%2 == 0, "big": int64(1)<<53 + 1, "sub": map[string]any{"list": []any{"x"}}}}); err != nil {
			t.Fatal(err)
		}
	}
	notes, err := vdb.CreateCollection(t.Context(), "notes", db.Schema{
		Dim: 64, Text: &db.TextIndex{}, Lineage: db.Lineage{Provider: "hash", Model: "trigram-v1", Normalized: true}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := embed.Trigram(64)
	if err != nil {
		t.Fatal(err)
	}
	for id, text := range map[string]string{"wal": "writes are acknowledged after the log is synced", "seg": "segments are immutable files of vectors",
		"long": strings.Repeat("é", 3000) + " compaction " + strings.Repeat("é", 3000)} {
		v, err := e.Embed(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := notes.Upsert(t.Context(), db.Document{ID: id, Text: text, Vector: v}); err != nil {
			t.Fatal(err)
		}
	}
	return vdb
}

// connect returns a client of a server, in memory.
func connect(t *testing.T, server *sdk.Server) *sdk.ClientSession {
	t.Helper()
	here, there := sdk.NewInMemoryTransports()
	if _, err := server.Connect(t.Context(), there, nil); err != nil {
		t.Fatal(err)
	}
	return session(t, here)
}

func session(t *testing.T, transport sdk.Transport) *sdk.ClientSession {
	t.Helper()
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// call calls a tool and decodes its result; the error is the tool's.
func call[Out any](t *testing.T, s *sdk.ClientSession, tool, arguments string) (out Out, failure string) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		t.Fatalf("%s %.200s: %v", tool, arguments, err)
	}
	text := r.Content[0].(*sdk.TextContent).Text
	if r.IsError {
		return out, text
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&out); err != nil {
		t.Fatalf("%s %.200s: %v in %s", tool, arguments, err, text)
	}
	return out, ""
}

func (h hits) ids() (ids []string) {
	for _, d := range h.Hits {
		ids = append(ids, d.ID)
	}
	return ids
}

func (p page) ids() []string { return hits{Hits: p.Documents}.ids() }

func expect[T any](t *testing.T, have, want T) {
	t.Helper()
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
}

func TestTools(t *testing.T) {
	vdb := database(t)
	for _, write := range []bool{false, true} {
		var names []string
		for tool, err := range connect(t, NewServer(vdb, &Options{AllowWrite: write})).Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, tool.Name)
			if tool.Annotations.ReadOnlyHint == (tool.Name == "upsert_documents" || tool.Name == "delete_documents") {
				t.Errorf("%s: ReadOnlyHint is %v", tool.Name, tool.Annotations.ReadOnlyHint)
			}
			if schema := tool.InputSchema.(map[string]any); schema["type"] != "object" || tool.OutputSchema == nil {
				t.Errorf("%s: schemas %v, %v", tool.Name, schema, tool.OutputSchema)
			}
		}
		want := []string{"describe_collection", "get_documents", "hybrid_search", "list_collections", "list_documents", "search"}
		if write {
			want = []string{"delete_documents", "describe_collection", "get_documents", "hybrid_search", "list_collections", "list_documents", "search", "upsert_documents"}
		}
		expect(t, names, want)
	}
}

func TestListCollections(t *testing.T) {
	s := connect(t, NewServer(database(t), nil))
	all, _ := call[collectionList](t, s, "list_collections", `{}`)
	expect(t, all, collectionList{Collections: []collectionLine{{"notes", 3, 64}, {"plain", 4, 2}}})
	first, _ := call[collectionList](t, s, "list_collections", `{"limit":1}`)
	expect(t, first, collectionList{Collections: []collectionLine{{"notes", 3, 64}}, Next: "notes"})
	rest, _ := call[collectionList](t, s, "list_collections", `{"limit":1,"after":"notes"}`)
	expect(t, rest, collectionList{Collections: []collectionLine{{"plain", 4, 2}}})
}

func TestDescribe(t *testing.T) {
	s := connect(t, NewServer(database(t), nil))
	plain, _ := call[description](t, s, "describe_collection", `{"collection":"plain"}`)
	expect(t, plain, description{Name: "plain", Documents: 4, Dim: 2, Metric: "cosine", Sampled: 4, Fields: []field{
		{"big", []string{"number"}, 4, []string{"9007199254740993"}},
		{"even", []string{"boolean"}, 4, []string{"true", "false"}},
		{"n", []string{"number"}, 4, []string{"0", "1", "2", "3"}},
		{"sub", []string{"map"}, 4, nil},
		{"sub.list", []string{"list"}, 4, nil},
	}})
	notes, _ := call[description](t, s, "describe_collection", `{"collection":"notes"}`)
	expect(t, notes, description{Name: "notes", Documents: 3, Dim: 64, Metric: "cosine", Provider: "hash", Model: "trigram-v1",
		Words: true, Language: "english", Embeds: true, Sampled: 3, Fields: []field{}})
}

func TestSearch(t *testing.T) {
	s := connect(t, NewServer(database(t), nil))
	for _, tt := range []struct {
		name, tool, arguments string
		want                  []string
		ranking               string
	}{
		{"by vector", "search", `{"collection":"plain","vector":[1,0],"k":2}`, []string{"a", "b"}, "vector"},
		{"integers as JSON Schema has them", "search", `{"collection":"plain","vector":[1,0],"k":2.0,"max_text":1e1}`, []string{"a", "b"}, "vector"},
		{"by id, which is left out", "search", `{"collection":"plain","id":"a","k":2}`, []string{"b", "c"}, "vector"},
		{"with a condition", "search", `{"collection":"plain","vector":[1,0],"where":{"n":{"$gte":2}}}`, []string{"c", "d"}, "vector"},
		{"with a condition in a string", "search", `{"collection":"plain","vector":[1,0],"where":"{\"n\":3}"}`, []string{"d"}, "vector"},
		{"no condition", "search", `{"collection":"plain","vector":[1,0],"k":1,"where":{}}`, []string{"a"}, "vector"},
		{"large integers are exact", "search", `{"collection":"plain","vector":[1,0],"where":{"big":9007199254740992}}`, nil, "vector"},
		{"by words", "search", `{"collection":"notes","text":"synced"}`, []string{"wal"}, "words"},
		{"by both", "hybrid_search", `{"collection":"notes","text":"immutable segment","k":1}`, []string{"seg"}, "both"},
		{"by both with a vector", "hybrid_search", `{"collection":"notes","text":"immutable segment","k":1,"vector":[1` + strings.Repeat(",0", 63) + `]}`, []string{"seg"}, "both"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, failure := call[hits](t, s, tt.tool, tt.arguments)
			expect(t, failure, "")
			expect(t, got.ids(), tt.want)
			expect(t, got.Ranking, tt.ranking)
			if !got.Exact || got.Recall != 1 || got.Plan == "" || len(tt.want) > got.Matched {
				t.Errorf("%+v", got)
			}
			for _, h := range got.Hits {
				if h.Score == nil {
					t.Errorf("%s has no score", h.ID)
				}
			}
		})
	}
}

// Every result: the structured content equals the text, and both match the schema.
func TestStructuredContent(t *testing.T) {
	s := connect(t, NewServer(database(t), nil))
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "get_documents", Arguments: json.RawMessage(`{"collection":"plain","ids":["b"]}`)})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"documents":[{"id":"b","metadata":{"big":9007199254740993,"even":false,"n":1,"sub":{"list":["x"]}}}]}`
	expect(t, r.Content[0].(*sdk.TextContent).Text, want)
	structured, err := json.Marshal(r.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, string(structured), strings.Replace(want, "9007199254740993", "9007199254740992", 1)) // the client reads float64
}

// TestTypesOfNumbers: an agent sees which numbers are integers.
func TestTypesOfNumbers(t *testing.T) {
	vdb := database(t)
	c, err := vdb.CreateCollection(t.Context(), "numbers", db.Schema{}, db.Metadata{"share": 1.0})
	if err == nil {
		_, err = c.Upsert(t.Context(), db.Document{ID: "a", Metadata: db.Metadata{"one": 1, "whole": 1.0, "in": []any{2.0, "<"}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	s := connect(t, NewServer(vdb, nil))
	for tool, want := range map[string]string{
		"get_documents":       `"metadata":{"in":[2.0,"\u003c"],"one":1,"whole":1.0}`,
		"describe_collection": `"metadata":{"share":1.0}`,
	} {
		arguments := `{"collection":"numbers","ids":["a"]}`
		if tool == "describe_collection" {
			arguments = `{"collection":"numbers"}`
		}
		r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Content[0].(*sdk.TextContent).Text; !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s in it", tool, got, want)
		}
	}
}

func TestTextWithoutIndex(t *testing.T) {
	vdb := database(t)
	c, err := vdb.CreateCollection(t.Context(), "bare", db.Schema{Lineage: db.Lineage{Provider: "hash", Model: "trigram-v1", Normalized: true}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := connect(t, NewServer(vdb, &Options{AllowWrite: true}))
	w, failure := call[written](t, s, "upsert_documents", `{"collection":"bare","documents":[{"id":"1","text":"red apples"},{"id":"2","text":"green pears"}]}`)
	expect(t, failure, "")
	expect(t, w, written{IDs: []string{"1", "2"}, Embedded: 2})
	info, err := c.Info()
	if err != nil {
		t.Fatal(err)
	}
	expect(t, info.Schema.Dim, embed.TrigramDimensions)
	got, failure := call[hits](t, s, "search", `{"collection":"bare","text":"an apple","k":1}`)
	expect(t, failure, "")
	expect(t, got.ids(), []string{"1"})
	expect(t, got.Ranking, "vector")
}

// heard is an embedder that notes the texts it is given.
type heard struct {
	embed.Embedder
	texts *[]string
}

func (h heard) Embed(ctx context.Context, text string) ([]float32, error) {
	*h.texts = append(*h.texts, text)
	return h.Embedder.Embed(ctx, text)
}

// The vector of a query is that of the words it wants: without excluded words, signs and quotation
// marks.
func TestSyntaxIsNotEmbedded(t *testing.T) {
	vdb := database(t)
	lineage := db.Lineage{Provider: "hash", Model: "trigram-v1", Normalized: true}
	if _, err := vdb.CreateCollection(t.Context(), "bare", db.Schema{Dim: 64, Lineage: lineage}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := vdb.CreateCollection(t.Context(), "words", db.Schema{Text: &db.TextIndex{}}, nil); err != nil {
		t.Fatal(err)
	}
	inner, err := embed.Trigram(64)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	s := connect(t, NewServer(vdb, &Options{Embedders: []embed.Embedder{heard{inner, &texts}}}))
	for _, tt := range []struct{ tool, collection, query, failure, ranking, embedded string }{
		{"search", "bare", `\"red apples\"`, "", "vector", "red apples"},
		{"search", "bare", "apples -5 degrees", "", "vector", "apples 5 degrees"},
		{"search", "bare", "apples -pears", `invalid: the query has "-pears", but collection "bare" has no text index: ` +
			"only with one are words required (+) or excluded (-)", "", ""},
		{"hybrid_search", "notes", "+segment synced -log", "", "both", "segment synced"},
		{"hybrid_search", "notes", "-log", "", "words", ""},
		{"hybrid_search", "words", "-log", "", "words", ""}, // nothing to embed, so no model is missed
		{"hybrid_search", "words", "segment -log",
			"texts cannot be embedded: the collection does not name the model of its vectors; give a vector", "", ""},
	} {
		texts = nil
		got, failure := call[hits](t, s, tt.tool, `{"collection":"`+tt.collection+`","text":"`+tt.query+`"}`)
		expect(t, failure, tt.failure)
		expect(t, got.Ranking, tt.ranking)
		expect(t, strings.Join(texts, "|"), tt.embedded)
	}
}

// Arguments that are null are absent: some models name every argument.
func TestNullArguments(t *testing.T) {
	s := connect(t, NewServer(database(t), &Options{AllowWrite: true}))
	got, failure := call[hits](t, s, "search",
		`{"collection":"plain","id":null,"vector":[1,0],"text":null,"where":null,"k":1,"max_text":null}`)
	expect(t, failure, "")
	expect(t, got.ids(), []string{"a"})
	listed, failure := call[page](t, s, "list_documents", `{"collection":"plain","where":{"n":{"$gte":2}},"after":null,"limit":null}`)
	expect(t, failure, "")
	expect(t, listed.Total, 2)
	_, failure = call[page](t, s, "list_documents", `{"collection":null}`)
	if !strings.Contains(failure, `missing properties: ["collection"]`) {
		t.Error(failure)
	}
	// Of a key that is given twice the last value counts, null too.
	got, failure = call[hits](t, s, "search", `{"collection":"plain","id":"a","vector":[1,0],"id":null,"k":null,"k":1}`)
	expect(t, failure, "")
	expect(t, got.ids(), []string{"a"})
	got, failure = call[hits](t, s, "search", `{"collection":"plain","vector":[1,0],"k":1,"k":null}`)
	expect(t, failure, "")
	expect(t, len(got.ids()) > 1, true)
	// A field of a document that is null is absent as well.
	_, failure = call[written](t, s, "upsert_documents",
		`{"collection":"plain","documents":[{"id":"y","text":null,"vector":null,"metadata":null},{"id":"x","vector":[0,1],"text":null}]}`)
	expect(t, failure, "")
	read, failure := call[page](t, s, "get_documents", `{"collection":"plain","ids":["y","x"]}`)
	expect(t, failure, "")
	expect(t, len(read.Documents), 2)
	// Within metadata null is a value.
	_, failure = call[written](t, s, "upsert_documents", `{"collection":"plain","documents":[{"id":"z","metadata":{"none":null}}]}`)
	expect(t, failure, "")
	listed, failure = call[page](t, s, "list_documents", `{"collection":"plain","where":{"none":null}}`)
	expect(t, failure, "")
	expect(t, len(listed.Documents), 1)
}

// A number that a vector cannot hold is refused in words of the protocol, not of Go.
func TestArgumentOutOfRange(t *testing.T) {
	s := connect(t, NewServer(database(t), nil))
	_, failure := call[hits](t, s, "search", `{"collection":"plain","vector":[1e39,0]}`)
	expect(t, failure, `argument "vector": number 1e39 is out of range`)
}

// A text of white space alone gets no vector, as in the other interfaces.
func TestBlankTextIsNotEmbedded(t *testing.T) {
	s := connect(t, NewServer(database(t), &Options{AllowWrite: true}))
	w, failure := call[written](t, s, "upsert_documents", `{"collection":"notes","documents":[{"id":"blank","text":" \n"}]}`)
	expect(t, failure, "")
	expect(t, w, written{IDs: []string{"blank"}})
}

// configured is an embedder that Options name.
type configured struct{ embed.Embedder }

func (configured) Provider() string { return "openai" }
func (configured) Model() string    { return "small" }

func TestConfiguredEmbedder(t *testing.T) {
	vdb := database(t)
	if _, err := vdb.CreateCollection(t.Context(), "paid", db.Schema{Dim: 64, Text: &db.TextIndex{}, Lineage: db.Lineage{Provider: "openai", Model: "small"}}, nil); err != nil {
		t.Fatal(err)
	}
	inner, err := embed.Trigram(64)
	if err != nil {
		t.Fatal(err)
	}
	const question = `{"collection":"paid","text":"x"}`
	_, failure := call[hits](t, connect(t, NewServer(vdb, nil)), "hybrid_search", question)
	expect(t, failure, `texts cannot be embedded: the vectors come from provider "openai", model "small", which is not available here; give a vector`)
	_, failure = call[hits](t, connect(t, NewServer(vdb, &Options{Embedders: []embed.Embedder{configured{inner}}})), "hybrid_search", question)
	expect(t, failure, "")
}

// A collection that names no model is not said to have one of the name "".
func TestUnnamedModel(t *testing.T) {
	vdb := database(t)
	if _, err := vdb.CreateCollection(t.Context(), "unnamed", db.Schema{Dim: 64, Text: &db.TextIndex{}}, nil); err != nil {
		t.Fatal(err)
	}
	_, failure := call[hits](t, connect(t, NewServer(vdb, nil)), "hybrid_search", `{"collection":"unnamed","text":"x"}`)
	expect(t, failure, "texts cannot be embedded: the collection does not name the model of its vectors; give a vector")
}

// silent is an embedder whose server does not answer.
type silent struct{ embed.Embedder }

func (silent) Embed(context.Context, string) ([]float32, error) {
	return nil, &embed.Error{Kind: embed.ErrOther, Provider: "hash", Err: errors.New("dial localhost:1")}
}

// Agents that only read are not told which server does not answer.
func TestFailingModel(t *testing.T) {
	inner, err := embed.Trigram(64)
	if err != nil {
		t.Fatal(err)
	}
	vdb := database(t)
	for write, want := range map[bool]string{false: "the model of the collection does not answer", true: "hash: embedding failed: dial localhost:1"} {
		withheld := 0
		s := connect(t, NewServer(vdb, &Options{AllowWrite: write, Embedders: []embed.Embedder{silent{inner}}, Withheld: func(error) { withheld++ }}))
		_, failure := call[hits](t, s, "hybrid_search", `{"collection":"notes","text":"x"}`)
		expect(t, failure, want)
		expect(t, withheld == 0, write)
	}
}

// A pin names the model of a collection before its lineage does: questions and new texts use it,
// and texts are refused where the model is missing.
func TestPinnedModel(t *testing.T) {
	vdb := database(t)
	c, err := vdb.CreateCollection(t.Context(), "pinned", db.Schema{Lineage: db.Lineage{Model: "unknown"}}, db.Metadata{
		vectorize.Field: map[string]any{"provider": "openai", "model": "small", "dimensions": int64(64), "normalize": true}})
	if err != nil {
		t.Fatal(err)
	}
	inner, err := embed.Trigram(64)
	if err != nil {
		t.Fatal(err)
	}
	const text = `{"collection":"pinned","documents":[{"id":"1","text":"an apple"}]}`
	const refusal = `texts cannot be embedded: the vectors come from provider "openai", model "small", which is not available here; give a vector`
	_, failure := call[written](t, connect(t, NewServer(vdb, &Options{AllowWrite: true})), "upsert_documents", text)
	expect(t, failure, refusal)
	if n, err := c.Count(t.Context(), nil); n != 0 || err != nil {
		t.Error(n, err)
	}
	s := connect(t, NewServer(vdb, &Options{AllowWrite: true, Embedders: []embed.Embedder{configured{inner}}}))
	w, failure := call[written](t, s, "upsert_documents", text)
	expect(t, failure, "")
	expect(t, w, written{IDs: []string{"1"}, Embedded: 1})
	got, failure := call[hits](t, s, "search", `{"collection":"pinned","text":"an apple"}`)
	expect(t, failure, "")
	expect(t, got.ids(), []string{"1"})
	d, failure := call[description](t, s, "describe_collection", `{"collection":"pinned"}`)
	expect(t, failure, "")
	expect(t, []any{d.Provider, d.Model, d.Embeds}, []any{"openai", "small", true})
}

func TestReadDocuments(t *testing.T) {
	s := connect(t, NewServer(database(t), nil))
	got, _ := call[documents](t, s, "get_documents", `{"collection":"notes","ids":["seg","nothing","wal"],"max_text":8}`)
	expect(t, got, documents{Documents: []document{{ID: "seg", Text: "segments", Cut: 39}, {ID: "wal", Text: "writes a", Cut: 47}}, Missing: []string{"nothing"}})

	first, _ := call[page](t, s, "list_documents", `{"collection":"plain","where":{"even":true},"limit":1}`)
	expect(t, first.ids(), []string{"a"})
	expect(t, []any{first.Total, first.Next}, []any{2, "a"})
	rest, _ := call[page](t, s, "list_documents", `{"collection":"plain","where":{"even":true},"limit":1.0,"after":"a"}`)
	expect(t, rest.ids(), []string{"c"})
	expect(t, rest.Next, "")
}

func TestAnswersAreBounded(t *testing.T) {
	vdb := database(t)
	c, err := vdb.CreateCollection(t.Context(), "large", db.Schema{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range MaxDocuments {
		d := db.Document{ID: fmt.Sprintf("%03d", i), Text: strings.Repeat("ü", 2*MaxText), Metadata: db.Metadata{"m": strings.Repeat("x", 3000)}}
		if i == 0 {
			d.Metadata["m"] = strings.Repeat("x", MaxMetadata)
		}
		if _, err := c.Upsert(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	s := connect(t, NewServer(vdb, nil))
	got, failure := call[page](t, s, "list_documents", fmt.Sprintf(`{"collection":"large","limit":%d,"max_text":%d}`, MaxDocuments, MaxText))
	expect(t, failure, "")
	total, omitted := 0, 0
	for i, d := range got.Documents {
		encoded, err := json.Marshal(d.Metadata)
		if err != nil {
			t.Fatal(err)
		}
		if d.Metadata != nil {
			total += len(encoded)
		}
		if d.Omitted {
			omitted++
		}
		total += len(d.Text)
		if d.Cut != 4*MaxText || len(d.Text) > MaxText || (i == 0) != (d.Omitted && i < 5) {
			t.Errorf("document %d: %d of %d bytes, omitted %v", i, len(d.Text), d.Cut, d.Omitted)
		}
	}
	if len(got.Documents) != MaxDocuments || total > MaxAnswer || total < MaxAnswer-4000 || omitted < 50 {
		t.Errorf("%d documents, %d bytes, %d without metadata", len(got.Documents), total, omitted)
	}

	// A passage that answers stands in for a long text.
	found, _ := call[hits](t, s, "search", `{"collection":"notes","text":"compaction","max_text":100}`)
	if h := found.Hits[0]; !strings.Contains(h.Text, "compaction") || len(h.Text) > 100 || h.Cut != 12012 {
		t.Errorf("%+v", h)
	}
}

// A page of cut texts takes the memory of a few whole ones at a time, and keeps none of them.
func TestCutTextsAreFreed(t *testing.T) {
	vdb, err := db.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	c, err := vdb.CreateCollection(t.Context(), "large", db.Schema{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const size = 200_000
	ids := make([]string, MaxDocuments)
	for i := range ids {
		ids[i] = fmt.Sprintf("%03d", i)
		if _, err := c.Upsert(t.Context(), db.Document{ID: ids[i], Text: strings.Repeat("x", size)}); err != nil {
			t.Fatal(err)
		}
	}
	memory := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := memory()
	docs, missing, err := newAllowance(nil).read(t.Context(), c, ids)
	if err != nil || len(docs) != MaxDocuments || missing != nil {
		t.Fatal(len(docs), missing, err)
	}
	if kept := memory() - before; kept > MaxDocuments*size/4 {
		t.Errorf("%d bytes are kept of %d documents of %d bytes", kept, MaxDocuments, size)
	}
	runtime.KeepAlive(docs)

	list, err := (&service{vdb: vdb}).list(t.Context(), listArgs{Collection: "large", Limit: MaxDocuments})
	if err != nil || len(list.Documents) != MaxDocuments || list.Documents[99].Cut != size {
		t.Fatal(list, err)
	}
}

func TestWrite(t *testing.T) {
	vdb := database(t)
	s := connect(t, NewServer(vdb, &Options{AllowWrite: true}))
	got, failure := call[written](t, s, "upsert_documents",
		`{"collection":"plain","documents":[{"id":"a","vector":[0,2],"metadata":{"n":9007199254740993}},{"text":"no vector"}]}`)
	expect(t, failure, "")
	if len(got.IDs) != 2 || got.IDs[0] != "a" || got.IDs[1] == "" || got.Embedded != 0 {
		t.Errorf("%+v", got)
	}
	plain, err := vdb.Collection("plain")
	if err != nil {
		t.Fatal(err)
	}
	d, err := plain.Get(t.Context(), "a", db.Everything)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, *d, db.Document{ID: "a", Vector: []float32{0, 2}, Metadata: db.Metadata{"n": int64(9007199254740993)}})

	gone, _ := call[deleted](t, s, "delete_documents", `{"collection":"plain","ids":["a","nothing"]}`)
	expect(t, gone, deleted{1})
	if _, failure = call[written](t, s, "upsert_documents", `{"collection":"plain","documents":[{"id":"ok","vector":[1,1]},{"id":"short","vector":[1]}]}`); failure == "" {
		t.Error("a vector of another dimension was written")
	}
	n, err := plain.Count(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, n, 4) // nothing of a batch that fails
}

// A collection of another API is read, and not changed.
func TestOwned(t *testing.T) {
	s := connect(t, NewServer(database(t), &Options{AllowWrite: true, Owned: []string{"plain"}}))
	for tool, arguments := range map[string]string{
		"upsert_documents": `{"collection":"plain","documents":[{"id":"new","vector":[1,1]}]}`,
		"delete_documents": `{"collection":"plain","ids":["a"]}`,
	} {
		if _, failure := call[any](t, s, tool, arguments); !strings.Contains(failure, `collection "plain": read-only: it belongs to another API`) {
			t.Errorf("%s: %s", tool, failure)
		}
	}
	for name, writable := range map[string]bool{"plain": false, "notes": true} {
		d, failure := call[description](t, s, "describe_collection", `{"collection":"`+name+`"}`)
		expect(t, failure, "")
		if d.Writable != writable || name == "plain" && d.Documents != 4 {
			t.Errorf("%+v", d)
		}
	}
}

func TestErrors(t *testing.T) {
	s := connect(t, NewServer(database(t), &Options{AllowWrite: true}))
	for _, tt := range []struct{ tool, arguments, want string }{
		{"search", `{"collection":"none","text":"x"}`, `collection "none": not found; existing collections: ["notes" "plain"]`},
		{"search", `{"collection":"plain"}`, "exactly one of id, vector and text"},
		{"search", `{"collection":"plain","id":"a","text":"x"}`, "exactly one of id, vector and text"},
		{"search", `{"collection":"plain","id":"nothing"}`, "not found"},
		{"search", `{"collection":"plain","text":"x"}`, "no full-text index"},
		{"search", `{"collection":"plain","vector":[1]}`, "dimension"},
		{"search", `{"collection":"plain","vector":[]}`, "minItems"},
		{"search", `{"collection":"plain","vector":[1e300,1]}`, "1e300"},
		{"search", `{"collection":"plain","vector":[1,0],"k":51}`, "maximum"},
		{"search", `{"collection":"plain","vector":[1,0],"k":-1}`, "minimum"},
		{"search", `{"collection":"plain","vector":[1,0],"k":1.5}`, "integer"},
		{"search", `{"collection":"plain","vector":[1,0],"where":{"$or":1}}`, `at "/$or"`},
		{"search", `{"collection":"plain","vector":[1,0],"where":[]}`, "where"},
		{"search", `{"collection":"plain","vector":[1,0],"where":"{"}`, "where"},
		{"search", `{"collection":"plain","vector":[1,0],"unknown":1}`, "unknown"},
		{"search", `{}`, "collection"},
		{"search", `[]`, "arguments: want an object, not array"},
		{"search", `"text"`, "arguments: want an object, not string"},
		{"hybrid_search", `{"collection":"plain","text":"x"}`, "no full-text index"},
		{"hybrid_search", `{"collection":"notes","text":""}`, "minLength"},
		{"get_documents", `{"collection":"plain","ids":[]}`, "minItems"},
		{"get_documents", `{"collection":"plain","ids":["` + strings.Repeat(`","`, MaxDocuments) + `"]}`, "maxItems"},
		{"list_documents", `{"collection":"plain","limit":101}`, "maximum"},
		{"list_documents", `{"collection":"plain","max_text":-1}`, "minimum"},
		{"upsert_documents", `{"collection":"plain","documents":[{"id":"\u0000"}]}`, "id"},
		{"upsert_documents", `{"collection":"plain","documents":[{"id":"\ud800"}]}`, "half a surrogate pair at byte"},
		{"upsert_documents", `{"collection":"plain","documents":[{"id":"x","other":1}]}`, "additional properties"},
		{"upsert_documents", `{"collection":"plain","documents":[{"id":1}]}`, "string"},
		{"delete_documents", `{"collection":"plain"}`, "ids"},
	} {
		if _, failure := call[any](t, s, tt.tool, tt.arguments); !strings.Contains(failure, tt.want) {
			t.Errorf("%s %.100s: %q does not say %q", tt.tool, tt.arguments, failure, tt.want)
		}
	}
	// A tool that is not there is no result: the protocol itself says so.
	if _, err := connect(t, NewServer(database(t), nil)).CallTool(t.Context(), &sdk.CallToolParams{Name: "delete_documents"}); err == nil {
		t.Error("a read-only server deletes")
	}
}

func TestHTTP(t *testing.T) {
	web := httptest.NewServer(Handler(NewServer(database(t), nil), "secret"))
	defer web.Close()
	s := session(t, &sdk.StreamableClientTransport{Endpoint: web.URL, HTTPClient: &http.Client{Transport: bearer("secret")}})
	for range 3 {
		got, failure := call[hits](t, s, "search", `{"collection":"plain","vector":[1,0],"k":1}`)
		expect(t, failure, "")
		expect(t, got.ids(), []string{"a"})
	}
	for name, transport := range map[string]http.RoundTripper{"none": http.DefaultTransport, "wrong": bearer("secre"), "empty": bearer("")} {
		client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
		if s, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: web.URL, HTTPClient: &http.Client{Transport: transport}}, nil); err == nil {
			s.Close()
			t.Errorf("%s token: let in", name)
		}
	}
}

// bearer adds a token to requests.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func TestHTTPRefuses(t *testing.T) {
	web := httptest.NewServer(Handler(NewServer(database(t), &Options{AllowWrite: true}), ""))
	defer web.Close()
	const deletes = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_documents","arguments":{"collection":"plain","ids":["a"]}}}`
	post := func(body io.Reader, change func(*http.Request)) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		change(r)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	for _, tt := range []struct {
		name   string
		body   string
		change func(*http.Request)
		want   int
	}{
		{"a page of another origin", deletes, func(r *http.Request) { r.Header.Set("Origin", "https://example.com") }, http.StatusForbidden},
		{"a page of another site", deletes, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		{"another host name", deletes, func(r *http.Request) { r.Host = "example.com" }, http.StatusForbidden},
		{"a form", deletes, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }, http.StatusUnsupportedMediaType},
		{"no JSON", "{", func(*http.Request) {}, http.StatusBadRequest},
		{"no message", "[]", func(*http.Request) {}, http.StatusBadRequest},
		{"a body that is too large", strings.Repeat(" ", 5<<20) + deletes, func(*http.Request) {}, http.StatusRequestEntityTooLarge},
	} {
		if status, text := post(strings.NewReader(tt.body), tt.change); status != tt.want {
			t.Errorf("%s: status %d, %.200s", tt.name, status, text)
		}
	}
	for id, want := range map[string]int{
		"9007199254740991": http.StatusOK, "9007199254740993": http.StatusBadRequest, "1.5": http.StatusBadRequest,
		`"9007199254740993"`: http.StatusOK,
	} {
		status, text := post(strings.NewReader(`{"jsonrpc":"2.0","method":"ping","id":`+id+`}`), func(*http.Request) {})
		if status != want || want == http.StatusOK != strings.Contains(text, `"id":`+id) {
			t.Errorf("id %s: status %d, %s", id, status, text)
		}
	}
	// A batch is no way around the limits and the check of ids.
	const refused = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the body is no object; batches are not supported"}}`
	for _, batch := range []string{
		"[]", "[" + deletes, "[" + deletes + "]", " \t\r\n[" + deletes + "," + deletes + "]",
		`[{"jsonrpc":"2.0","method":"ping","id":1.5}]`,
	} {
		if status, text := post(strings.NewReader(batch), func(*http.Request) {}); status != http.StatusBadRequest || text != refused {
			t.Errorf("%.40q: status %d, %.200s", batch, status, text)
		}
	}
	if status, text := post(strings.NewReader(deletes), func(*http.Request) {}); status != http.StatusOK || !strings.Contains(text, `{"deleted":1}`) {
		t.Errorf("a plain request: status %d, %s", status, text)
	}
}

// Whatever comes over the wire, the server answers the next request.
func TestHostileMessages(t *testing.T) {
	hostile := func(arguments string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","arguments":` + arguments + `}}`
	}
	for name, message := range map[string]string{
		"deep arguments":  hostile(strings.Repeat("[", 1<<18) + strings.Repeat("]", 1<<18)),
		"deep where":      hostile(`{"collection":"plain","vector":[1,0],"where":` + strings.Repeat(`{"$not":`, 1<<16) + `{}` + strings.Repeat("}", 1<<16) + `}`),
		"deep and open":   hostile(`{"a":` + strings.Repeat(`{"a":`, 1<<18)),
		"arguments null":  hostile("null"),
		"arguments text":  hostile(`"x"`),
		"huge number":     hostile(`{"collection":"plain","vector":[1,0],"k":1` + strings.Repeat("0", 1<<18) + `}`),
		"unknown method":  `{"jsonrpc":"2.0","id":1,"method":"nothing"}`,
		"id of no type":   `{"jsonrpc":"2.0","id":[],"method":"ping"}`,
		"not an object":   `[1,2]`,
		"invalid unicode": hostile("{\"collection\":\"\xff\"}"),
	} {
		t.Run(name, func(t *testing.T) {
			web := httptest.NewServer(Handler(NewServer(database(t), nil), ""))
			defer web.Close()
			ask := func(body string) (string, error) {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL, strings.NewReader(body))
				if err != nil {
					return "", err
				}
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Accept", "application/json, text/event-stream")
				response, err := http.DefaultClient.Do(r)
				if err != nil {
					return "", err
				}
				defer response.Body.Close()
				if response.StatusCode >= 500 {
					return "", fmt.Errorf("status %d", response.StatusCode)
				}
				text, err := io.ReadAll(response.Body)
				return string(text), err
			}
			if _, err := ask(message); err != nil {
				t.Error(err)
			}
			if text, err := ask(hostile(`{"collection":"plain","id":"a"}`)); err != nil || !strings.Contains(text, `"hits"`) {
				t.Errorf("the next request: %v, %s", err, text)
			}
		})
	}
}

// TestCollectionOfAnotherProcess: an agent writes to a collection that another process has just
// created, and then pinned to a model.
func TestCollectionOfAnotherProcess(t *testing.T) {
	leader, other := dbtest.Share(t, db.Open, &db.Options{Sync: db.SyncNever})
	s := connect(t, NewServer(other, &Options{AllowWrite: true}))
	type answer struct {
		IDs      []string
		Embedded int
	}
	for i := range 50 {
		name := fmt.Sprint("notes", i)
		c, err := leader.CreateCollection(t.Context(), name, db.Schema{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		write := func(want int) {
			t.Helper()
			arguments := fmt.Sprintf(`{"collection":%q,"documents":[{"id":"a","text":"tides"}]}`, name)
			if out, failure := call[answer](t, s, "upsert_documents", arguments); failure != "" || out.Embedded != want {
				t.Fatalf("%d texts were embedded: %s", out.Embedded, failure)
			}
		}
		write(0)
		err = vectorize.New(vectorize.Options{}).Collection(c).Pin(t.Context(),
			embed.Config{Provider: "mock", Model: "trigram-v1", Dimensions: 384})
		if err != nil {
			t.Fatal(err)
		}
		write(1)
	}
}
