package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/rag"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/provider"
	"github.com/vecbolt/vecbolt/server"
)

// requirements is the document whose scenarios these are, where it is at hand.
const requirements = "../../shared/seeds/001_95e4feb009273ef0.txt"

// where is the path that lists documents with a filter.
func where(collection, filter string) string {
	return "/collections/" + collection + "/documents?where=" + url.QueryEscape(filter)
}

// add writes documents, given as JSON.
func (s *service) add(collection, docs string) map[string]any {
	s.Helper()
	return s.must(200, "POST", "/collections/"+collection+"/documents", `{"documents":[`+docs+`]}`)
}

// field returns a field of the metadata of each document of an answer, as text.
func field(page map[string]any, name string) (values []string) {
	for _, d := range page["documents"].([]any) {
		values = append(values, fmt.Sprint(d.(map[string]any)["metadata"].(map[string]any)[name]))
	}
	return values
}

// ids returns the ids of the documents, or hits, of an answer.
func ids(page map[string]any, list string) (ids []string) {
	for _, d := range page[list].([]any) {
		ids = append(ids, d.(map[string]any)["id"].(string))
	}
	return ids
}

// expect compares parts of an answer with JSON.
func (s *service) expect(what string, got any, want string) {
	s.Helper()
	var parsed any
	if err := json.Unmarshal([]byte(want), &parsed); err != nil {
		s.Fatalf("%s: %v", want, err)
	}
	if diff := cmp.Diff(parsed, got); diff != "" {
		s.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// A scenarioFunc runs one scenario of the requirements as a test of its name, on a new service.
type scenarioFunc func(name string, test func(s *service))

// TestScenarios runs every scenario of the requirements over HTTP, in their order. Scenarios of
// conversations use package rag on the side of the client, as the requirements do.
func TestScenarios(t *testing.T) {
	var told []string
	scenario := func(name string, test func(s *service)) {
		told = append(told, name)
		t.Run(name, func(t *testing.T) { test(start(t, nil)) })
	}
	registryScenarios(scenario)
	providerScenarios(scenario)
	conversationScenarios(scenario)
	documentScenarios(scenario)
	metadataScenarios(scenario)
	filterScenarios(scenario)
	t.Run("the requirements have no others", func(t *testing.T) {
		document, err := os.ReadFile(requirements)
		if err != nil {
			t.Skipf("skipped: the requirements are not at hand: %v", err)
		}
		var want []string
		for _, m := range regexp.MustCompile(`(?m)^#### Scenario: (.*\S)\s*$`).FindAllStringSubmatch(string(document), -1) {
			want = append(want, m[1])
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("scenarios (-required +tested):\n%s", diff)
		}
	})
}

// registryScenarios: RAG Provider Registry Integration.
func registryScenarios(scenario scenarioFunc) {
	scenario("RAG Provider Registration", func(s *service) {
		registry := provider.NewRegistry()
		s = start(s.T, &server.Options{Providers: registry})
		s.must(404, "GET", "/providers/other", "")
		other := provider.Embedded()
		other.Name = "other"
		if err := registry.Register(other); err != nil {
			s.Fatal(err)
		}
		if got := s.must(200, "GET", "/providers/other", ""); got["name"] != "other" {
			s.Errorf("registered, and found %v", got)
		}
		if got := s.must(200, "GET", "/providers", ""); got["count"] != 2.0 {
			s.Errorf("registered, and discovered %v", got)
		}
	})
	scenario("RAG Provider Discovery", func(s *service) {
		all := s.must(200, "GET", "/providers", "")
		s.expect("count", all["count"], `1`)
		first := all["providers"].([]any)[0].(map[string]any)
		s.expect("name", first["name"], `"vecbolt"`)
		s.expect("capabilities", first["capabilities"], `["collections","search","embeddings","metadata_filtering"]`)
	})
	scenario("RAG Provider Selection", func(s *service) {
		s.expect("selected", s.must(200, "GET", "/providers", "")["active"], `"vecbolt"`)
		s.refuses(404, "Provider 'pinecone' not found", "GET", "/providers/pinecone", "")
		s.refuses(404, "Provider 'pinecone' not found", "POST", "/providers/pinecone/validate", `{"config":{}}`)
		// What a program selects is opened with its configuration, and errors have kinds.
		c, err := provider.NewRegistry().Open(s.Context(), "vecbolt", map[string]any{"path": s.TempDir(), "create": true})
		if err != nil {
			s.Fatal(err)
		}
		if err := c.Close(); err != nil {
			s.Error(err)
		}
	})
}

// providerScenarios: Base RAG Provider Interface.
func providerScenarios(scenario scenarioFunc) {
	scenario("Provider Initialization with Schema", func(s *service) {
		schema := s.must(200, "GET", "/providers/vecbolt/schema", "")
		s.expect("type", schema["type"], `"object"`)
		s.expect("required", schema["required"], `["path"]`)
		s.expect("valid", s.must(200, "POST", "/providers/vecbolt/validate", `{"config":{"path":"notes.vdb"}}`), `{"valid":true,"error":null}`)
		for _, bad := range []string{`{}`, `{"path":1}`, `{"path":"x","port":1}`} {
			got := s.must(200, "POST", "/providers/vecbolt/validate", `{"config":`+bad+`}`)
			if got["valid"] != false || got["error"] == nil {
				s.Errorf("%s: %v", bad, got)
			}
		}
	})
	scenario("Provider Capabilities Declaration", func(s *service) {
		s.expect("capabilities", s.must(200, "GET", "/providers/vecbolt/capabilities", ""),
			`{"capabilities":["collections","search","embeddings","metadata_filtering"]}`)
	})
	scenario("Health Check with Details", func(s *service) {
		s.must(201, "POST", "/collections", `{"name":"docs"}`)
		s.add("docs", `{"text":"a","embedding":[1]},{"text":"b","embedding":[2]}`)
		for _, path := range []string{"/health", "/providers/vecbolt/health"} {
			got := s.must(200, "GET", path, "")
			if at, err := time.Parse(time.RFC3339Nano, got["timestamp"].(string)); err != nil || at.IsZero() {
				s.Errorf("%s: timestamp %v, %v", path, got["timestamp"], err)
			}
			s.expect("status", got["status"], `"healthy"`)
			s.expect("error", got["error"], `null`)
			details := got["details"].(map[string]any)
			if details["collection_count"] != 1.0 || details["document_count"] != 2.0 || details["storage_bytes"].(float64) < 100 {
				s.Errorf("%s: details %v", path, details)
			}
		}
		if err := s.db.Close(); err != nil {
			s.Fatal(err)
		}
		got := s.must(503, "GET", "/health", "")
		if got["status"] != "unhealthy" || got["error"] == nil || got["timestamp"] == nil {
			s.Errorf("of a closed database: %v", got)
		}
	})
}

// conversationScenarios: Hybrid Query Strategy for Contextual Continuity.
func conversationScenarios(scenario scenarioFunc) {
	texts := []string{"Retention of backups and archives", "InstructLab and OpenShift AI integration", "How to bake bread"}
	conversation := func(s *service) (embed.Embedder, func(turn *rag.Turn, collection string) string) {
		e, err := embed.Open(s.Context(), embed.DefaultConfig(), nil)
		if err != nil {
			s.Fatal(err)
		}
		vectors, err := e.EmbedBatch(s.Context(), texts)
		if err != nil {
			s.Fatal(err)
		}
		for _, name := range []string{"docs", "more"} {
			s.must(201, "POST", "/collections", `{"name":"`+name+`"}`)
			for i, text := range texts {
				s.add(name, fmt.Sprintf(`{"id":"%d","text":%q,"embedding":%s}`, i, text, toJSON(vectors[i])))
			}
		}
		return e, func(turn *rag.Turn, collection string) string {
			v, err := turn.Embed(s.Context(), "here", e)
			if err != nil {
				s.Fatal(err)
			}
			got := s.must(200, "POST", "/collections/"+collection+"/search", `{"k":1,"vector":`+toJSON(v)+`}`)
			return got["hits"].([]any)[0].(map[string]any)["text"].(string)
		}
	}
	turn := func(s *service, message, topic string) (*rag.Turn, *bytes.Buffer) {
		var log bytes.Buffer
		return rag.NewTurn(s.Context(), message, topic, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))), &log
	}
	scenario("First Message Query Strategy", func(s *service) {
		_, ask := conversation(s)
		turn, log := turn(s, "how do I bake bread?", "")
		if turn.Text() != "how do I bake bread?" || !strings.Contains(log.String(), "first message (raw query)") {
			s.Errorf("text %q, log %s", turn.Text(), log)
		}
		if got := ask(turn, "docs"); got != texts[2] {
			s.Errorf("found %q", got)
		}
	})
	scenario("Follow-up Message Query Strategy", func(s *service) {
		_, ask := conversation(s)
		turn, log := turn(s, "and for how long?", "retention of archives")
		if turn.Text() != "retention of archives" || !strings.Contains(log.String(), "follow-up (contextualized topic)") {
			s.Errorf("text %q, log %s", turn.Text(), log)
		}
		if got := ask(turn, "docs"); got != texts[0] {
			s.Errorf("found %q", got)
		}
	})
	scenario("Pronoun Resolution via Topic Context", func(s *service) {
		_, ask := conversation(s)
		turn, _ := turn(s, "Does it integrate with OpenShift AI?", "InstructLab and OpenShift AI integration")
		if got := ask(turn, "docs"); got != texts[1] {
			s.Errorf("found %q", got)
		}
	})
	scenario("Query Text Selection Logic", func(s *service) {
		for _, tt := range []struct{ topic, text string }{{"", "message"}, {" \n\t", "message"}, {"  the\n topic ", "the topic"}} {
			if turn, _ := turn(s, "message", tt.topic); turn.Text() != tt.text {
				s.Errorf("topic %q: text %q", tt.topic, turn.Text())
			}
		}
	})
	scenario("Embedding Cache Efficiency", func(s *service) {
		e, ask := conversation(s)
		turn, log := turn(s, "how do I bake bread?", "")
		if a, b := ask(turn, "docs"), ask(turn, "more"); a != texts[2] || b != texts[2] {
			s.Errorf("found %q and %q", a, b)
		}
		if n := strings.Count(log.String(), "embedding cache hit"); n != 1 || !strings.Contains(log.String(), "key=here:"+e.Model()) {
			s.Errorf("%d hits logged: %s", n, log)
		}
	})
}

// documentScenarios: RAG Wrapper Document Storage with Pre-computed Embeddings.
func documentScenarios(scenario scenarioFunc) {
	scenario("Add Documents with Pre-computed Embeddings", func(s *service) {
		s.must(201, "POST", "/collections", `{"name":"docs"}`)
		got := s.add("docs", `{"text":"one","metadata":{"n":1},"embedding":[0.5,1]},{"id":"b","text":"two","metadata":{},"embedding":[1,-2e-3]}`)
		s.expect("success", got["success"], `true`)
		s.expect("count", got["count"], `2`)
		if list := got["ids"].([]any); len(list) != 2 || list[1] != "b" {
			s.Errorf("ids %v", list)
		}
		s.expect("stored", s.must(200, "GET", "/collections/docs/documents/b?include=text,embedding", ""), `{"id":"b","text":"two","embedding":[1,-0.002]}`)
		s.expect("count", s.must(200, "GET", "/collections/docs", "")["count"], `2`)
	})
	unchanged := func(s *service, message, docs string) {
		s.Helper()
		s.must(201, "POST", "/collections", `{"name":"docs"}`)
		got := s.must(400, "POST", "/collections/docs/documents", `{"documents":`+docs+`}`)
		if !regexp.MustCompile(message).MatchString(got["error"].(string)) {
			s.Errorf("error %q, want %q", got["error"], message)
		}
		s.expect("stored", s.must(200, "GET", "/collections/docs/documents", "")["total"], `0`)
		s.must(200, "DELETE", "/collections/docs", "")
	}
	scenario("Add Documents Without Embeddings", func(s *service) {
		const message = `^All documents must include pre-computed embeddings$`
		unchanged(s, message, `[{"text":"a","metadata":{}}]`)
		unchanged(s, message, `[{"text":"a","embedding":[1]},{"text":"b"}]`)
		unchanged(s, message, `[{"text":"a","embedding":null}]`)
	})
	scenario("Add Documents with Invalid Embedding Format", func(s *service) {
		const message = `^Document 1: invalid embedding: must be an array of finite numbers: `
		for _, bad := range []string{`"[1]"`, `1`, `{}`, `{"0":1}`, `["1"]`, `[null]`, `[[1]]`, `[true]`, `[1e39]`, `[NaN]`, `[]`} {
			unchanged(s, message, `[{"text":"a","embedding":[1]},{"text":"b","embedding":`+bad+`}]`)
		}
		unchanged(s, `^Document 0: invalid vector: .*: element 1 at byte 38: a string instead of a number$`, `[{"text":"a","vector":[1,"2"]}]`)
	})
	scenario("Add Documents with Mismatched Embedding Dimensions", func(s *service) {
		unchanged(s, `^Embedding dimension mismatch: document 0 has 2 dimensions, document 1 has 3$`, `[{"text":"a","embedding":[1,2]},{"text":"b","embedding":[1,2,3]}]`)
		s.must(201, "POST", "/collections", `{"name":"docs"}`)
		s.add("docs", `{"embedding":[1,2]}`)
		s.refuses(400, `upsert: dimension mismatch in collection "docs": expected 2, got 3 (document "x")`,
			"POST", "/collections/docs/documents", `{"documents":[{"id":"x","embedding":[1,2,3]}]}`)
		s.expect("stored", s.must(200, "GET", "/collections/docs/documents", "")["total"], `1`)
	})
	scenario("Empty Documents Array", func(s *service) {
		for _, docs := range []string{`[]`, `null`, `{}`, `"x"`} {
			unchanged(s, `^Documents array is required$`, docs)
		}
		s.must(201, "POST", "/collections", `{"name":"docs"}`)
		s.refuses(400, "Documents array is required", "POST", "/collections/docs/documents", `{}`)
	})
}

// metadataScenarios: Collection Metadata Storage.
func metadataScenarios(scenario scenarioFunc) {
	const created = `{"name":"docs","embedding_provider":"no-such-provider","embedding_model":"m-1","metadata":{"description":"notes","size":384}}`
	const stored = `{"description":"notes","size":384,"embedding_provider":"no-such-provider","embedding_model":"m-1"}`
	scenario("Create Collection with Metadata", func(s *service) {
		s.expect("metadata", s.must(201, "POST", "/collections", created)["metadata"], stored)
		s.expect("metadata", s.must(201, "POST", "/collections", `{"name":"bare"}`)["metadata"], `{}`)
		s.expect("metadata", s.must(201, "POST", "/collections", `{"name":"one","metadata":{"embedding_model":"old"},"embedding_model":"new"}`)["metadata"],
			`{"embedding_model":"new"}`)
		s.must(409, "POST", "/collections", `{"name":"docs"}`)
		s.refuses(400, "Collection name is required", "POST", "/collections", `{"metadata":{}}`)
	})
	scenario("Retrieve Collection with Metadata", func(s *service) {
		s.must(201, "POST", "/collections", created)
		got := s.must(200, "GET", "/collections/docs", "")
		s.expect("name", got["name"], `"docs"`)
		s.expect("count", got["count"], `0`)
		s.expect("metadata", got["metadata"], stored)
		s.refuses(404, "Collection 'none' not found", "GET", "/collections/none", "")
	})
	scenario("Update Collection Metadata", func(s *service) {
		s.must(201, "POST", "/collections", created)
		s.expect("success", s.must(200, "PUT", "/collections/docs/metadata", `{"metadata":{"description":"new"}}`)["success"], `true`)
		s.expect("metadata", s.must(200, "GET", "/collections/docs", "")["metadata"], `{"description":"new"}`)
		s.refuses(404, "Collection 'none' not found", "PUT", "/collections/none/metadata", `{"metadata":{}}`)
	})
	scenario("Retrieve All Collections with Metadata", func(s *service) {
		s.expect("none", s.must(200, "GET", "/collections", ""), `{"collections":[],"count":0}`)
		s.must(201, "POST", "/collections", created)
		s.must(201, "POST", "/collections", `{"name":"bare"}`)
		all := s.must(200, "GET", "/collections", "")["collections"].([]any)
		s.expect("first", all[0].(map[string]any)["metadata"], `{}`)
		s.expect("second", all[1].(map[string]any)["metadata"], stored)
	})
}

// filterScenarios: Metadata-Based Document Querying.
func filterScenarios(scenario scenarioFunc) {
	book := func(s *service) {
		s.must(201, "POST", "/collections", `{"name":"book"}`)
		n := 0
		for chapter := 1; chapter <= 3; chapter++ {
			for _, kind := range []string{"heading", "paragraph", "paragraph", "code", "list"} {
				s.add("book", fmt.Sprintf(`{"id":"%02d","text":"%s of chapter %d","metadata":{"chapter":"%[3]d","chapter_id":"%[3]d","doc_type":%[2]q,"section_id":"section-%[3]d"},"embedding":[%[1]d,1]}`, n, kind, chapter))
				n++
			}
		}
	}
	scenario("Simple equality filter", func(s *service) {
		book(s)
		got := s.must(200, "GET", where("book", `{"section_id":"section-2"}`), "")
		s.expect("count", got["count"], `5`)
		s.expect("total", got["total"], `5`)
		s.expect("first", got["documents"].([]any)[0],
			`{"id":"05","text":"heading of chapter 2","metadata":{"chapter":"2","chapter_id":"2","doc_type":"heading","section_id":"section-2"}}`)
		if got := slices.Compact(field(got, "section_id")); !slices.Equal(got, []string{"section-2"}) {
			s.Errorf("sections %v", got)
		}
	})
	scenario("Multiple field filter (implicit AND)", func(s *service) {
		book(s)
		got := s.must(200, "GET", where("book", `{"chapter_id":"1","doc_type":"paragraph"}`), "")
		if got := ids(got, "documents"); !slices.Equal(got, []string{"01", "02"}) {
			s.Errorf("ids %v", got)
		}
	})
	scenario("Complex filter with operators", func(s *service) {
		book(s)
		got := s.must(200, "GET", where("book", `{"doc_type":{"$in":["heading","paragraph"]}}`), "")
		kinds := field(got, "doc_type")
		slices.Sort(kinds)
		if got["total"] != 9.0 || !slices.Equal(slices.Compact(kinds), []string{"heading", "paragraph"}) {
			s.Errorf("total %v, kinds %v", got["total"], kinds)
		}
	})
	scenario("Logical OR operator", func(s *service) {
		book(s)
		got := s.must(200, "GET", where("book", `{"$or":[{"chapter":"1"},{"chapter":"3"}]}`), "")
		if chapters := slices.Compact(field(got, "chapter")); got["total"] != 10.0 || !slices.Equal(chapters, []string{"1", "3"}) {
			s.Errorf("total %v, chapters %v", got["total"], chapters)
		}
	})
	many := func(s *service, n int) {
		s.must(201, "POST", "/collections", `{"name":"many"}`)
		var docs []string
		for i := range n {
			docs = append(docs, fmt.Sprintf(`{"id":"%04d","metadata":{"part":%d},"embedding":[1]}`, i+1, i%2))
		}
		s.add("many", strings.Join(docs, ","))
	}
	scenario("No filter provided", func(s *service) {
		many(s, 500)
		got := s.must(200, "GET", "/collections/many/documents", "")
		list := ids(got, "documents")
		if got["count"] != 100.0 || got["total"] != 500.0 || len(list) != 100 || list[0] != "0001" || list[99] != "0100" {
			s.Errorf("count %v, total %v, %d from %s to %s", got["count"], got["total"], len(list), list[0], list[len(list)-1])
		}
	})
	scenario("Pagination with limit and offset", func(s *service) {
		many(s, 500)
		got := s.must(200, "GET", where("many", `{"part":1}`)+"&limit=50&offset=100", "")
		list := ids(got, "documents")
		if got["count"] != 50.0 || got["total"] != 250.0 || len(list) != 50 || list[0] != "0202" || list[49] != "0300" {
			s.Errorf("count %v, total %v, %d from %s to %s", got["count"], got["total"], len(list), list[0], list[len(list)-1])
		}
	})
	scenario("Empty results", func(s *service) {
		book(s)
		s.expect("answer", s.must(200, "GET", where("book", `{"chapter":"9"}`), ""), `{"documents":[],"count":0,"total":0}`)
	})
	scenario("Collection not found", func(s *service) {
		s.refuses(404, "Collection 'nonexistent' not found", "GET", "/collections/nonexistent/documents", "")
	})
	scenario("Invalid JSON filter", func(s *service) {
		book(s)
		for _, bad := range []string{"invalid-json-string", "{", `{"a":}`, `{"a":1}}`, ""} {
			s.refuses(400, "Invalid 'where' filter: must be valid JSON", "GET", where("book", bad), "")
		}
		s.refuses(400, `Invalid 'where' filter: at "/a/$from": unknown operator "$from"; for fields there are $eq $ne $gt $gte $lt $lte $in $nin $exists $contains $prefix $not`,
			"GET", where("book", `{"a":{"$from":1}}`), "")
	})
	scenario("Limit enforcement", func(s *service) {
		many(s, 1500)
		for _, limit := range []string{"5000", "1001", "99999999999999999999"} {
			got := s.must(200, "GET", "/collections/many/documents?limit="+limit, "")
			if got["count"] != 1000.0 || got["total"] != 1500.0 || len(got["documents"].([]any)) != 1000 {
				s.Errorf("limit %s: count %v, total %v", limit, got["count"], got["total"])
			}
		}
		s.expect("none", s.must(200, "GET", "/collections/many/documents?limit=0", ""), `{"documents":[],"count":0,"total":1500}`)
		s.refuses(400, "Invalid 'limit': must be an integer, 0 or more", "GET", "/collections/many/documents?limit=-1", "")
		s.refuses(400, "Invalid 'offset': must be an integer, 0 or more", "GET", "/collections/many/documents?offset=x", "")
	})
	scenario("Sibling gathering use case", func(s *service) {
		s.must(201, "POST", "/collections", `{"name":"manual"}`)
		s.add("manual", `{"id":"p2","text":"keep for 30 days","metadata":{"section_id":"retention-config","doc_type":"paragraph"},"embedding":[1,0.1]},
			{"id":"h","text":"Retention","metadata":{"section_id":"retention-config","doc_type":"heading"},"embedding":[0.5,0.5]},
			{"id":"c","text":"retention: 30d","metadata":{"section_id":"retention-config","doc_type":"code"},"embedding":[0,1]},
			{"id":"p1","text":"what retention is","metadata":{"section_id":"retention-config","doc_type":"paragraph"},"embedding":[0.3,0.5]},
			{"id":"other","text":"install","metadata":{"section_id":"install","doc_type":"paragraph"},"embedding":[-1,0]}`)
		found := s.must(200, "POST", "/collections/manual/search", `{"vector":[1,0],"k":1}`)["hits"].([]any)[0].(map[string]any)
		s.expect("found", found["id"], `"p2"`)
		section := found["metadata"].(map[string]any)["section_id"].(string)
		got := s.must(200, "GET", where("manual", `{"section_id":"`+section+`"}`), "")
		order := []string{"heading", "paragraph", "code"}
		docs := got["documents"].([]any)
		slices.SortStableFunc(docs, func(a, b any) int {
			kind := func(d any) int {
				return slices.Index(order, d.(map[string]any)["metadata"].(map[string]any)["doc_type"].(string))
			}
			return kind(a) - kind(b)
		})
		if got := ids(got, "documents"); !slices.Equal(got, []string{"h", "p1", "p2", "c"}) {
			s.Errorf("section %v", got)
		}
	})
}

func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
