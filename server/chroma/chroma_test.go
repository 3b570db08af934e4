package chroma

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/internal/dbtest"
	"github.com/vecbolt/vecbolt/rag/embed"
	"github.com/vecbolt/vecbolt/rag/vectorize"
	"github.com/vecbolt/vecbolt/server/internal/rest"
)

// A client asks the API as Chroma's clients do.
type client struct {
	t *testing.T
	h http.Handler
}

func newClient(t *testing.T, opts *Options) (*client, *db.DB) {
	t.Helper()
	vdb, err := db.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { vdb.Close() })
	return &client{t, New(vdb, opts)}, vdb
}

// ask returns status and body. The path is below /api/v2.
func (c *client) ask(method, path, body string) (int, string) {
	r := httptest.NewRequestWithContext(c.t.Context(), method, "/api/v2"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	c.h.ServeHTTP(w, r)
	return w.Code, strings.TrimSpace(w.Body.String())
}

// ok expects an answer, given as JSON.
func (c *client) ok(method, path, body, want string) {
	c.t.Helper()
	status, have := c.ask(method, path, body)
	if status != http.StatusOK {
		c.t.Errorf("%s %s %.300s: status %d, %s", method, path, body, status, have)
		return
	}
	if want == "" {
		return
	}
	if diff := cmp.Diff(decode(c.t, want), decode(c.t, have)); diff != "" {
		c.t.Errorf("%s %s %.300s:\n%s", method, path, body, diff)
	}
}

func decode(t *testing.T, text string) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// fails expects an error.
func (c *client) fails(method, path, body string, status int, message string) {
	c.t.Helper()
	have, text := c.ask(method, path, body)
	var e struct{ Error, Message string }
	if err := json.Unmarshal([]byte(text), &e); err != nil || have != status || e.Error == "" || !strings.Contains(e.Message, message) {
		c.t.Errorf("%s %s %.300s: status %d, %.300s; want %d, %q", method, path, body, have, text, status, message)
	}
}

const home = "/tenants/default_tenant/databases/default_database/collections"

// create makes a collection and returns its path.
func (c *client) create(body string) string {
	c.t.Helper()
	status, text := c.ask("POST", home, body)
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(text), &made); err != nil || status != http.StatusOK {
		c.t.Fatalf("%s: status %d, %s", body, status, text)
	}
	return home + "/" + made.ID
}

// fruits is a collection with three records.
func (c *client) fruits() string {
	c.t.Helper()
	path := c.create(`{"name":"fruits"}`)
	c.ok("POST", path+"/add", `{"ids":["a","b","c"],"embeddings":[[1,0],[0,1],[3,4]],
		"metadatas":[{"kind":"pome","n":1,"tags":["x","y"]},{"kind":"pome","n":2.5},null],
		"documents":["an apple a day","one pear",null],"uris":["file:a",null,null]}`, `{}`)
	return path
}

func TestSystem(t *testing.T) {
	c, _ := newClient(t, nil)
	c.ok("GET", "/version", "", `"1.0.0"`)
	c.ok("GET", "/healthcheck", "", `{"is_executor_ready":true,"is_log_client_ready":true}`)
	c.ok("GET", "/pre-flight-checks", "", `{"max_batch_size":10000,"supports_base64_encoding":true}`)
	c.ok("GET", "/auth/identity", "", `{"user_id":"","tenant":"default_tenant","databases":["default_database"]}`)
	if _, text := c.ask("GET", "/heartbeat", ""); !regexp.MustCompile(`^{"nanosecond heartbeat":\d{19}}$`).MatchString(text) {
		t.Error(text)
	}
	for _, call := range []string{"POST /reset", "POST " + home + "/x/search", "POST " + home + "/x/fork", "GET /nothing", "PATCH " + home} {
		method, path, _ := strings.Cut(call, " ")
		c.fails(method, path, "{}", http.StatusBadRequest, "not supported")
	}
}

// indexed is a schema with the vector index that clients look for.
func indexed(source, space, more string) string {
	const hnsw = `"hnsw":{"ef_construction":100,"ef_search":100,"max_neighbors":16,"resize_factor":1.2,"sync_threshold":1000}`
	index := func(enabled bool, source string) string {
		return fmt.Sprintf(`{"float_list":{"vector_index":{"enabled":%t,"config":{"space":%q,%s%s}}}}`, enabled, space, hnsw, source)
	}
	return `{"defaults":` + index(false, "") + `,"keys":{"#embedding":` + index(true, source) + more + `}}`
}

// The schema that a client stored comes back unchanged, with the vector index added.
func TestSchema(t *testing.T) {
	c, _ := newClient(t, nil)
	for name, tt := range map[string]struct{ given, want string }{
		"none":     {`null`, indexed("", "l2", "")},
		"empty":    {`{}`, indexed("", "l2", "")},
		"strange":  {`{"defaults":null,"keys":{"#embedding":{"float_list":null}}}`, indexed("", "l2", "")},
		"numbers":  {`{"keys":{"n":{"int":9007199254740993}}}`, indexed("", "l2", `,"n":{"int":9007199254740993}`)},
		"embedded": {`{"keys":{"#embedding":{"float_list":{"vector_index":{"config":{"source_key":"#document","space":"ip"}}}}}}`, indexed(`,"source_key":"#document"`, "ip", "")},
	} {
		c.create(fmt.Sprintf(`{"name":%q,"schema":%s}`, name, tt.given))
		_, body := c.ask("GET", home+"/"+name, "")
		var got struct{ Schema json.RawMessage }
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(decoded(t, tt.want), decoded(t, string(got.Schema))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// decoded reads JSON and keeps the digits of numbers.
func decoded(t *testing.T, text string) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestCollections(t *testing.T) {
	c, vdb := newClient(t, nil)
	path := c.create(`{"name":"first","metadata":{"owner":"me","n":1},"configuration":{"hnsw":{"space":"cosine"},"embedding_function":{"type":"known","name":"x","config":{"k":1}}}}`)
	id := path[len(home)+1:]
	describe := func(name, metadata string) string {
		return fmt.Sprintf(`{"id":%q,"name":%q,"metadata":%s,"schema":`+indexed("", "cosine", "")+`,"dimension":null,"tenant":"default_tenant","database":"default_database","log_position":0,"version":0,
			"configuration_json":{"hnsw":{"space":"cosine","ef_construction":100,"ef_search":100,"max_neighbors":16,"resize_factor":1.2,"sync_threshold":1000},
			"spann":null,"embedding_function":{"type":"known","name":"x","config":{"k":1}}}}`, id, name, metadata)
	}
	for _, key := range []string{"/first", "/" + id, "/by-id/" + id} {
		c.ok("GET", home+key, "", describe("first", `{"owner":"me","n":1}`))
	}
	c.fails("POST", home, `{"name":"first"}`, http.StatusConflict, `"first" already exists`)
	c.ok("POST", home, `{"name":"first","get_or_create":true,"metadata":{"owner":"you"}}`, describe("first", `{"owner":"me","n":1}`))
	if m := metricOf(t, vdb, "first"); m != db.Cosine {
		t.Error(m)
	}

	c.ok("PUT", path, `{"new_metadata":{"owner":"you"}}`, `{}`)
	c.ok("PUT", path, `{"new_name":"renamed"}`, `{}`)
	c.ok("GET", path, "", describe("renamed", `{"owner":"you"}`))
	c.fails("GET", home+"/first", "", http.StatusNotFound, "first")
	c.ok("GET", path+"/indexing_status", "", `{"num_indexed_ops":0,"num_unindexed_ops":0,"op_indexing_progress":1,"total_ops":0}`)

	c.create(`{"name":"second"}`)
	c.fails("PUT", path, `{"new_name":"second"}`, http.StatusConflict, "second")
	c.ok("GET", home+"?limit=1&offset=0", "", "["+describe("renamed", `{"owner":"you"}`)+"]")
	c.ok("GET", home+"?limit=1&offset=9", "", "[]")
	c.ok("GET", strings.TrimSuffix(home, "/collections")+"/collections_count", "", "2")
	c.ok("DELETE", home+"/second", "", `{}`)
	c.ok("DELETE", path, "", `{}`)
	c.fails("GET", path, "", http.StatusNotFound, "not found")
	c.fails("DELETE", path, "", http.StatusNotFound, "not found")
	c.ok("GET", home, "", "[]")
	// A new one of the same name is another one.
	if again := c.create(`{"name":"renamed"}`); again == path {
		t.Error("an id was given twice")
	}
}

// A collection that is renamed during a request is found by its id, not by the name that it had.
func TestRenamedDuringARequest(t *testing.T) {
	c, vdb := newClient(t, nil)
	path := c.fruits()
	fruits, err := vdb.Collection("fruits")
	if err != nil {
		t.Fatal(err)
	}
	c.ok("PUT", path, `{"new_name":"renamed"}`, `{}`)
	for _, another := range []bool{false, true} {
		if another {
			c.create(`{"name":"fruits"}`)
		}
		then, end, err := fruits.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		defer end()
		if n, err := then.Count(t.Context(), nil); n != 3 || err != nil {
			t.Errorf("another collection has the name: %t: %d records, %v", another, n, err)
		}
	}
}

// So is one that is renamed while a new API, which has seen no collection, lists them all.
func TestRenamedDuringALookup(t *testing.T) {
	vdb, err := db.Open(db.Memory, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer vdb.Close()
	c := &client{t, New(vdb, nil)}
	path := c.fruits()
	end := make(chan struct{})
	var renaming sync.WaitGroup
	renaming.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			default:
				c.ok("PUT", path, fmt.Sprintf(`{"new_name":"renamed-%d"}`, i%2), `{}`)
			}
		}
	})
	for range 2000 {
		fresh := &client{t, New(vdb, nil)}
		fresh.ok("GET", path+"/count", "", "3")
	}
	close(end)
	renaming.Wait()
}

// TestWriteDuringASwap: another collection takes the name of the one that a request is about to
// write to. The write goes to the collection with the id of the request.
func TestWriteDuringASwap(t *testing.T) {
	c, vdb := newClient(t, nil)
	path := c.create(`{"name":"live"}`)
	swapped := false
	c.h.(*API).mux.HandleFunc("POST /swap/{tenant}/{database}/{collection}",
		c.h.(*API).serve(func(ctx context.Context, r *request) (any, error) {
			return c.h.(*API).write(ctx, r, true, func(b *db.Batch, collection string, rec *record, _ bool) {
				if !swapped {
					swapped = true
					c.ok("PUT", path, `{"new_name":"old"}`, `{}`)
					c.create(`{"name":"live"}`)
				}
				b.Insert(collection, rec.document())
			})
		}))
	id := path[strings.LastIndexByte(path, '/')+1:]
	request := httptest.NewRequest("POST", "/swap/default_tenant/default_database/"+id,
		strings.NewReader(`{"ids":["a"],"embeddings":[[1]]}`))
	answer := httptest.NewRecorder()
	c.h.(*API).mux.ServeHTTP(answer, request)
	if answer.Code != http.StatusOK || !swapped {
		t.Fatal(answer.Code, answer.Body)
	}
	for name, want := range map[string]int{"old": 1, "live": 0} {
		coll, err := vdb.Collection(name)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := coll.Count(t.Context(), nil); n != want || err != nil {
			t.Errorf("%s has %d records, want %d: %v", name, n, want, err)
		}
	}
}

// TestCopiesHaveIDsOfTheirOwn: a collection that was made with the metadata of another one does not
// get the requests for that one, whatever the names are and whoever renames.
func TestCopiesHaveIDsOfTheirOwn(t *testing.T) {
	c, vdb := newClient(t, nil)
	path := c.fruits()
	space := path[:strings.LastIndexByte(path, '/')]
	copyTo := func(from, to string) {
		t.Helper()
		coll, err := vdb.Collection(from)
		if err != nil {
			t.Fatal(err)
		}
		info, err := coll.Info()
		if err == nil {
			_, err = vdb.CreateCollection(t.Context(), to, info.Schema, info.Metadata)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	idOf := func(name string) string {
		t.Helper()
		status, text := c.ask("GET", space+"/"+name, "")
		if status != http.StatusOK {
			t.Fatal(text)
		}
		return decode(t, text).(map[string]any)["id"].(string)
	}
	copyTo("fruits", "apples") // before fruits in order of name
	copyTo("fruits", "zebras")
	seen := map[string]string{}
	for _, name := range []string{"fruits", "apples", "zebras"} {
		id := idOf(name)
		if other := seen[id]; other != "" || name == "fruits" && space+"/"+id != path {
			t.Errorf("%s has the id %s of %q", name, id, other)
		}
		seen[id] = name
		for range 2 { // found by the list, then remembered
			fresh := &client{t, New(vdb, nil)}
			want := map[string]string{"fruits": "3"}[name]
			fresh.ok("GET", space+"/"+id+"/count", "", max(want, "0"))
		}
	}
	_, text := c.ask("GET", space, "")
	for _, listed := range decode(t, text).([]any) {
		m := listed.(map[string]any)
		if id, name := m["id"].(string), m["name"].(string); seen[id] != name {
			t.Errorf("the list has %s with the id %s", name, id)
		}
	}
	// A copy that is modified keeps its id, also under another name.
	apples := idOf("apples")
	c.ok("PUT", space+"/"+apples, `{"new_name":"pears"}`, `{}`)
	if id := idOf("pears"); id != apples {
		t.Errorf("the id of apples was %s, and is %s now", apples, id)
	}
	// A retry of a delete does not reach a copy.
	c.ok("DELETE", path, "", `{}`)
	c.fails("DELETE", path, "", http.StatusNotFound, "not found")
	// The name goes with the id: a collection that was renamed by other means has another id, and
	// a copy under its old name has the id. The remembered handle of a client changes nothing.
	path = c.create(`{"name":"plums"}`)
	c.ok("GET", path+"/count", "", "0")
	if err := vdb.Rename(t.Context(), "plums", "prunes"); err != nil {
		t.Fatal(err)
	}
	c.fails("GET", path+"/count", "", http.StatusNotFound, "not found")
	copyTo("prunes", "plums")
	if id := idOf("plums"); space+"/"+id != path {
		t.Errorf("plums have the id %s, want %s", id, path)
	}
	c.ok("DELETE", path, "", `{}`)
	idOf("prunes")
	// Copies of a collection whose id was stored without a name cannot be told from it.
	figs, err := vdb.CreateCollection(t.Context(), "figs", db.Schema{}, db.Metadata{own: map[string]any{"id": path[len(space)+1:]}})
	if err != nil {
		t.Fatal(err)
	}
	fresh := &client{t, New(vdb, nil)}
	fresh.ok("GET", path+"/count", "", "0")
	copyTo("figs", "dates")
	(&client{t, New(vdb, nil)}).fails("GET", path+"/count", "", http.StatusNotFound, "not found")
	if err := figs.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	(&client{t, New(vdb, nil)}).ok("GET", path+"/count", "", "0")
}

func metricOf(t *testing.T, vdb *db.DB, name string) db.Metric {
	t.Helper()
	c, err := vdb.Collection(name)
	if err != nil {
		t.Fatal(err)
	}
	info, err := c.Info()
	if err != nil {
		t.Fatal(err)
	}
	return info.Schema.Metric
}

func TestSpaces(t *testing.T) {
	c, vdb := newClient(t, nil)
	for body, want := range map[string]db.Metric{
		`{"name":"none"}`: db.L2,
		`{"name":"euclid","configuration":{"hnsw":{"space":"l2"}}}`: db.L2,
		`{"name":"inner","configuration":{"spann":{"space":"ip"}}}`: db.Dot,
		`{"name":"old","metadata":{"hnsw:space":"cosine"}}`:         db.Cosine,
		`{"name":"schema","schema":{"defaults":{},"keys":{"#embedding":{"float_list":{"vector_index":{"enabled":true,"config":{"space":"cosine"}}}}}}}`: db.Cosine,
		`{"name":"defaults","schema":{"keys":{},"defaults":{"float_list":{"vector_index":{"config":{"space":"ip"}}}}}}`:                                 db.Dot,
	} {
		c.create(body)
		var named struct{ Name string }
		if err := json.Unmarshal([]byte(body), &named); err != nil {
			t.Fatal(err)
		}
		if m := metricOf(t, vdb, named.Name); m != want {
			t.Errorf("%s: %v", body, m)
		}
	}
	c.fails("POST", home, `{"name":"bad","configuration":{"hnsw":{"space":"hamming"}}}`, http.StatusBadRequest, "hamming")
	for _, name := range []string{"", "ab", "-abc", "a/b", "abc.", ".chroma", "über", strings.Repeat("x", 256)} {
		c.fails("POST", home, fmt.Sprintf(`{"name":%q}`, name), http.StatusBadRequest, "collection name")
	}
}

// Distances are Chroma's, for each metric.
func TestDistances(t *testing.T) {
	c, _ := newClient(t, nil)
	for space, want := range map[string]string{
		"l2":     `[[0,5,20]]`, // squared
		"cosine": `[[0,0.2928932188134524,1]]`,
		"ip":     `[[0,-1,1]]`,
	} {
		path := c.create(fmt.Sprintf(`{"name":%q,"configuration":{"hnsw":{"space":%q}}}`, "space-"+space, space))
		vectors := map[string]string{"l2": `[[1,0],[3,1],[3,4]]`, "cosine": `[[2,0],[3,3],[0,4]]`, "ip": `[[1,0],[2,1],[0,9]]`}[space]
		ids := `["a","b","c"]`
		c.ok("POST", path+"/add", `{"ids":`+ids+`,"embeddings":`+vectors+`}`, `{}`)
		if space == "ip" { // the greatest product first
			ids, want = `["b","a","c"]`, `[[-1,0,1]]`
		}
		answer := `{"ids":[` + ids + `],"distances":` + want + `,"documents":null,"embeddings":null,"metadatas":null,"uris":null,"include":["distances"]}`
		c.ok("POST", path+"/query", `{"query_embeddings":[[1,0]],"include":["distances"]}`, answer)
		// The other way to find documents has the same distances.
		c.ok("POST", path+"/query", `{"query_embeddings":[[1,0]],"include":["distances"],"ids":["c","b","a","nothing"]}`, answer)
	}
}

func TestAddUpsertUpdate(t *testing.T) {
	c, vdb := newClient(t, nil)
	path := c.fruits()
	c.ok("GET", path+"/count", "", "3")
	everything := func(ids, want string) {
		t.Helper()
		c.ok("POST", path+"/get", `{"ids":`+ids+`,"include":["documents","metadatas","embeddings","uris"]}`, want)
	}
	everything(`["c","a","nothing"]`, `{"ids":["c","a"],"documents":[null,"an apple a day"],"embeddings":[[3,4],[1,0]],
		"metadatas":[null,{"kind":"pome","n":1,"tags":["x","y"]}],"uris":[null,"file:a"],"include":["documents","metadatas","embeddings","uris"]}`)

	// Add leaves existing records alone.
	c.ok("POST", path+"/add", `{"ids":["a","d"],"embeddings":[[9,9],[5,5]],"documents":["other","new"]}`, `{}`)
	c.ok("GET", path+"/count", "", "4")
	everything(`["a","d"]`, `{"ids":["a","d"],"documents":["an apple a day","new"],"embeddings":[[1,0],[5,5]],
		"metadatas":[{"kind":"pome","n":1,"tags":["x","y"]},null],"uris":["file:a",null],"include":["documents","metadatas","embeddings","uris"]}`)

	// Upsert changes it: fields of metadata one by one, and null leaves a field as before.
	c.ok("POST", path+"/upsert", `{"ids":["a","e"],"embeddings":[[2,2],[6,6]],"metadatas":[{"n":7,"kind":null},{"only":null}],"documents":[null,"newer"]}`, `{}`)
	everything(`["a","e"]`, `{"ids":["a","e"],"documents":["an apple a day","newer"],"embeddings":[[2,2],[6,6]],
		"metadatas":[{"n":7,"tags":["x","y"]},null],"uris":["file:a",null],"include":["documents","metadatas","embeddings","uris"]}`)

	// Update leaves out what is not there, and needs no embeddings.
	c.ok("POST", path+"/update", `{"ids":["b","nothing"],"documents":["two pears","?"],"uris":["file:b",null]}`, `{}`)
	c.ok("POST", path+"/update", `{"ids":["c","d"],"embeddings":[null,[8,8]],"metadatas":[{"late":true},null]}`, `{}`)
	everything(`["b","c","d"]`, `{"ids":["b","c","d"],"documents":["two pears",null,"new"],"embeddings":[[0,1],[3,4],[8,8]],
		"metadatas":[{"kind":"pome","n":2.5},{"late":true},null],"uris":["file:b",null,null],"include":["documents","metadatas","embeddings","uris"]}`)
	c.ok("GET", path+"/count", "", "5")

	// Vectors may come in base64, and integers keep their digits.
	var raw bytes.Buffer
	if err := binary.Write(&raw, binary.LittleEndian, []float32{0.1, -2}); err != nil {
		t.Fatal(err)
	}
	c.ok("POST", path+"/upsert", fmt.Sprintf(`{"ids":["f"],"embeddings":[%q],"metadatas":[{"big":9007199254740993}]}`, base64.StdEncoding.EncodeToString(raw.Bytes())), `{}`)
	everything(`["f"]`, `{"ids":["f"],"documents":[null],"embeddings":[[0.1,-2]],"metadatas":[{"big":9007199254740993}],"uris":[null],"include":["documents","metadatas","embeddings","uris"]}`)
	plain, err := vdb.Collection("fruits")
	if err != nil {
		t.Fatal(err)
	}
	if d, err := plain.Get(t.Context(), "f", db.Everything); err != nil || d.Metadata["big"] != int64(9007199254740993) {
		t.Error(d, err)
	}

	// All of a request or nothing.
	c.fails("POST", path+"/upsert", `{"ids":["a","z"],"embeddings":[[0,0],[1]]}`, http.StatusBadRequest, "dimension")
	everything(`["a","z"]`, `{"ids":["a"],"documents":["an apple a day"],"embeddings":[[2,2]],"metadatas":[{"n":7,"tags":["x","y"]}],"uris":["file:a"],"include":["documents","metadatas","embeddings","uris"]}`)
}

func TestGet(t *testing.T) {
	c, _ := newClient(t, nil)
	path := c.fruits()
	c.ok("POST", path+"/get", `{}`, `{"ids":["a","b","c"],"documents":["an apple a day","one pear",null],"embeddings":null,"uris":null,
		"metadatas":[{"kind":"pome","n":1,"tags":["x","y"]},{"kind":"pome","n":2.5},null],"include":["metadatas","documents"]}`)
	for body, want := range map[string]string{
		`{"limit":2}`:                                                                `["a","b"]`,
		`{"limit":1,"offset":1}`:                                                     `["b"]`,
		`{"offset":3}`:                                                               `[]`,
		`{"offset":9}`:                                                               `[]`,
		`{"limit":0}`:                                                                `[]`,
		`{"ids":["b","a"],"limit":1}`:                                                `["b"]`,
		`{"ids":["b","a","b"],"offset":1}`:                                           `["a"]`,
		`{"ids":[]}`:                                                                 `[]`,
		`{"where":{"kind":"pome"}}`:                                                  `["a","b"]`,
		`{"where":{"kind":"pome"},"offset":1}`:                                       `["b"]`,
		`{"where":{"n":{"$gt":1}}}`:                                                  `["b"]`,
		`{"where":{"n":{"$gte":1}}}`:                                                 `["a","b"]`,
		`{"where":{"n":{"$lt":2.5}}}`:                                                `["a"]`,
		`{"where":{"n":{"$lte":2.5}}}`:                                               `["a","b"]`,
		`{"where":{"n":{"$ne":1}}}`:                                                  `["b","c"]`,
		`{"where":{"n":{"$in":[1,5]}}}`:                                              `["a"]`,
		`{"where":{"n":{"$nin":[1,5]}}}`:                                             `["b","c"]`,
		`{"where":{"tags":{"$contains":"x"}}}`:                                       `["a"]`,
		`{"where":{"tags":{"$not_contains":"x"}}}`:                                   `["b","c"]`,
		`{"where":{"$and":[{"kind":"pome"},{"n":1}]}}`:                               `["a"]`,
		`{"where":{"$or":[{"n":2.5},{"n":1}]}}`:                                      `["a","b"]`,
		`{"where":{"#id":{"$in":["c","x"]}}}`:                                        `["c"]`,
		`{"where":{"#id":{"$ne":"c"}}}`:                                              `["a","b"]`,
		`{"where":{"$or":[{"n":1},{"#document":{"$contains":"pear"}}]}}`:             `["a","b"]`,
		`{"where":{}}`:                                                               `["a","b","c"]`,
		`{"where_document":{"$contains":"pp"}}`:                                      `["a"]`,
		`{"where_document":{"$contains":"PP"}}`:                                      `[]`,
		`{"where_document":{"$not_contains":"pp"}}`:                                  `["b","c"]`,
		`{"where_document":{"$regex":"^(an|one)\\b"}}`:                               `["a","b"]`,
		`{"where_document":{"$not_regex":"pear$"}}`:                                  `["a","c"]`,
		`{"where_document":{"$regex":"x*"}}`:                                         `["a","b"]`,
		`{"where_document":{"$not_regex":".*"}}`:                                     `["c"]`,
		`{"where_document":{"$and":[{"$contains":"a"},{"$not_contains":"day"}]}}`:    `["b"]`,
		`{"where_document":{"$or":[{"$contains":"day"},{"$contains":"one"}]}}`:       `["a","b"]`,
		`{"where_document":{"$contains":"a"},"where":{"n":1}}`:                       `["a"]`,
		`{"where_document":{"$contains":"e"},"offset":1}`:                            `["b"]`,
		`{"ids":["b","c"],"where_document":{"$contains":"e"}}`:                       `["b"]`,
		`{"ids":["b","c"],"where":{"kind":"pome"}}`:                                  `["b"]`,
		`{"ids":null,"where":null,"where_document":null,"limit":null,"offset":null}`: `["a","b","c"]`,
	} {
		include := `,"include":[]}`
		if body == "{}" {
			include = `"include":[]}`
		}
		c.ok("POST", path+"/get", strings.TrimSuffix(body, "}")+include, `{"ids":`+want+`,"documents":null,"embeddings":null,"uris":null,"metadatas":null,"include":[]}`)
	}
}

func TestQuery(t *testing.T) {
	c, _ := newClient(t, nil)
	path := c.fruits()
	c.ok("POST", path+"/query", `{"query_embeddings":[[1,0],[0,1]],"n_results":2}`, `{"ids":[["a","b"],["b","a"]],"distances":[[0,2],[0,2]],"embeddings":null,"uris":null,
		"documents":[["an apple a day","one pear"],["one pear","an apple a day"]],
		"metadatas":[[{"kind":"pome","n":1,"tags":["x","y"]},{"kind":"pome","n":2.5}],[{"kind":"pome","n":2.5},{"kind":"pome","n":1,"tags":["x","y"]}]],
		"include":["metadatas","documents","distances"]}`)
	c.ok("POST", path+"/query", `{"query_embeddings":[[1,0]],"n_results":1,"include":["embeddings","uris"]}`,
		`{"ids":[["a"]],"distances":null,"embeddings":[[[1,0]]],"uris":[["file:a"]],"documents":null,"metadatas":null,"include":["embeddings","uris"]}`)
	for body, want := range map[string]string{
		`"where":{"n":{"$gt":1}}`:                    `["b"]`,
		`"where_document":{"$contains":"a"}`:         `["a","b"]`,
		`"where_document":{"$not_contains":"apple"}`: `["b","c"]`,
		`"where_document":{"$contains":"no such"}`:   `[]`,
		`"ids":["c","b"]`:                            `["b","c"]`,
		`"ids":["c","b"],"where":{"n":2.5}`:          `["b"]`,
		`"ids":[]`:                                   `[]`,
	} {
		c.ok("POST", path+"/query", `{"query_embeddings":[[1,0]],"include":[],`+body+`}`,
			`{"ids":[`+want+`],"distances":null,"embeddings":null,"uris":null,"documents":null,"metadatas":null,"include":[]}`)
	}
	// A collection that has nothing finds nothing.
	empty := c.create(`{"name":"empty"}`)
	c.ok("POST", empty+"/query", `{"query_embeddings":[[1,0,0]]}`, `{"ids":[[]],"distances":[[]],"embeddings":null,"uris":null,"documents":[[]],"metadatas":[[]],"include":["metadatas","documents","distances"]}`)
}

// Whatever the condition, a query finds what a look at all documents finds, in the same order and
// with the same distances.
func TestQueryIsExact(t *testing.T) {
	const n, dim = 2000, 8
	c, vdb := newClient(t, nil)
	rng := rand.New(rand.NewPCG(1, 2))
	for space := range metrics {
		path := c.create(fmt.Sprintf(`{"name":%q,"configuration":{"hnsw":{"space":%q}}}`, "exact-"+space, space))
		coll, err := vdb.Collection("exact-" + space)
		if err != nil {
			t.Fatal(err)
		}
		docs := make([]db.Document, n)
		for i := range docs {
			v := make([]float32, dim)
			for j := range v {
				v[j] = float32(rng.NormFloat64())
			}
			docs[i] = db.Document{ID: fmt.Sprintf("%04d", i), Vector: v, Text: fmt.Sprintf("document %d of %d", i, i%7), Metadata: db.Metadata{"m": int64(i % 10)}}
		}
		if _, err := coll.Upsert(t.Context(), docs...); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			condition string
			match     func(i int) bool
		}{
			{`"where":{"m":3}`, func(i int) bool { return i%10 == 3 }},
			{`"where_document":{"$contains":"of 3"}`, func(i int) bool { return i%7 == 3 }},
			{`"where_document":{"$contains":"document 77"}`, func(i int) bool { return i == 77 || i/10 == 77 }},
			{`"where_document":{"$regex":"ment 1?[5] "},"where":{"m":5}`, func(i int) bool { return i == 5 || i == 15 }},
		} {
			q := make([]float32, dim)
			for j := range q {
				q[j] = float32(rng.NormFloat64())
			}
			type hit struct {
				id    string
				score float64
			}
			var want []hit
			for i, d := range docs {
				if tt.match(i) {
					want = append(want, hit{d.ID, score(metrics[space], q, d.Vector)})
				}
			}
			slices.SortFunc(want, func(x, y hit) int {
				if x.score != y.score {
					return int(math.Copysign(1, y.score-x.score))
				}
				return strings.Compare(x.id, y.id)
			})
			want = want[:min(20, len(want))]
			vector, err := json.Marshal(q)
			if err != nil {
				t.Fatal(err)
			}
			status, text := c.ask("POST", path+"/query", fmt.Sprintf(`{"query_embeddings":[%s],"n_results":20,"include":["distances"],%s}`, vector, tt.condition))
			var have struct {
				IDs       [][]string
				Distances [][]float64
			}
			if err := json.Unmarshal([]byte(text), &have); err != nil || status != http.StatusOK {
				t.Fatal(status, text, err)
			}
			for i, h := range want {
				if i >= len(have.IDs[0]) || have.IDs[0][i] != h.id || have.Distances[0][i] != distance(metrics[space], h.score) {
					t.Fatalf("%s, %s: %v %v, want %v at %d", space, tt.condition, have.IDs, have.Distances, h, i)
				}
			}
			if len(want) != len(have.IDs[0]) {
				t.Errorf("%s, %s: %d hits, want %d", space, tt.condition, len(have.IDs[0]), len(want))
			}
		}
	}
}

func TestDelete(t *testing.T) {
	c, _ := newClient(t, nil)
	path := c.fruits()
	c.fails("POST", path+"/delete", `{}`, http.StatusBadRequest, "what to delete")
	c.ok("POST", path+"/delete", `{"ids":["a","nothing"]}`, `{"deleted":1}`)
	c.ok("POST", path+"/delete", `{"where_document":{"$contains":"apple"}}`, `{"deleted":0}`)
	c.ok("POST", path+"/delete", `{"ids":["c"],"where":{"kind":"pome"}}`, `{"deleted":0}`)
	c.ok("POST", path+"/delete", `{"ids":["b","c"],"limit":0}`, `{"deleted":0}`)
	c.ok("POST", path+"/delete", `{"where":{"n":{"$ne":77}},"limit":1}`, `{"deleted":1}`)
	c.ok("POST", path+"/delete", `{"where":{"n":{"$ne":77}}}`, `{"deleted":1}`)
	c.ok("GET", path+"/count", "", "0")
	c.ok("POST", path+"/delete", `{"ids":[]}`, `{"deleted":0}`)
}

func TestTenantsAndDatabases(t *testing.T) {
	c, vdb := newClient(t, nil)
	const acme, lab = "/tenants/acme", "/tenants/acme/databases/lab"
	c.ok("GET", "/tenants/default_tenant", "", `{"name":"default_tenant"}`)
	c.fails("GET", acme, "", http.StatusNotFound, "acme")
	c.fails("POST", acme+"/databases", `{"name":"lab"}`, http.StatusNotFound, "acme")
	c.ok("POST", "/tenants", `{"name":"acme"}`, `{}`)
	c.ok("GET", acme, "", `{"name":"acme"}`)
	c.fails("POST", "/tenants", `{"name":"acme"}`, http.StatusConflict, "acme")
	c.fails("POST", "/tenants", `{"name":"default_tenant"}`, http.StatusConflict, "default_tenant")
	c.fails("POST", "/tenants", `{"name":"a/b"}`, http.StatusBadRequest, "a/b")

	c.fails("GET", lab+"/collections", "", http.StatusNotFound, "lab")
	c.ok("POST", acme+"/databases", `{"name":"lab"}`, `{}`)
	c.fails("POST", acme+"/databases", `{"name":"lab"}`, http.StatusConflict, "lab")
	c.fails("POST", "/tenants/default_tenant/databases", `{"name":"default_database"}`, http.StatusConflict, "default_database")
	c.ok("POST", acme+"/databases", `{"name":"other"}`, `{}`)
	for tenant, want := range map[string]string{"default_tenant": "default_database", "acme": "lab other"} {
		_, text := c.ask("GET", "/tenants/"+tenant+"/databases", "")
		var list []struct{ ID, Name, Tenant string }
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(text)
		}
		var names []string
		for _, d := range list {
			names = append(names, d.Name)
			if len(d.ID) != 36 || d.Tenant != tenant {
				t.Errorf("%+v", d)
			}
		}
		if strings.Join(names, " ") != want {
			t.Errorf("%s: %s", tenant, text)
		}
	}

	// The same name is another collection in each database.
	home := c.create(`{"name":"same"}`)
	status, text := c.ask("POST", lab+"/collections", `{"name":"same"}`)
	var there struct{ ID, Tenant, Database, Name string }
	if err := json.Unmarshal([]byte(text), &there); err != nil || status != http.StatusOK || there.Name != "same" || there.Database != "lab" {
		t.Fatal(status, text)
	}
	c.ok("POST", lab+"/collections/"+there.ID+"/add", `{"ids":["x"],"embeddings":[[1]]}`, `{}`)
	c.ok("GET", lab+"/collections/"+there.ID+"/count", "", "1")
	c.ok("GET", home+"/count", "", "0")
	c.fails("GET", strings.Replace(home, "default_tenant/databases/default_database", "acme/databases/lab", 1)+"/count", "", http.StatusNotFound, "")
	c.fails("GET", lab+"/collections/acme%2Flab%2Fsame", "", http.StatusNotFound, "")
	c.fails("GET", "/tenants/default_tenant/databases/default_database/collections/acme%2Flab%2Fsame", "", http.StatusNotFound, "")
	c.fails("GET", "/tenants/default_tenant/databases/default_database/collections/.chroma", "", http.StatusNotFound, "")
	c.ok("GET", lab+"/collections_count", "", "1")
	c.ok("GET", "/tenants/default_tenant/databases/default_database/collections_count", "", "1")
	if _, err := vdb.Collection("acme/lab/same"); err != nil {
		t.Error(err)
	}

	c.fails("DELETE", "/tenants/default_tenant/databases/default_database", "", http.StatusBadRequest, "default database")
	c.ok("DELETE", lab, "", `{}`)
	c.fails("GET", lab, "", http.StatusNotFound, "lab")
	c.ok("GET", acme+"/databases/other", "", "")
	if _, err := vdb.Collection("acme/lab/same"); err == nil {
		t.Error("a collection is left of a database that was deleted")
	}
	c.ok("GET", home+"/count", "", "0")
}

// Collections whose names have slashes are in the default database, unless they are in another one.
func TestNamesWithSlashes(t *testing.T) {
	c, vdb := newClient(t, nil)
	for _, name := range []string{"a/b", "docs/v1/notes/new", "ä/v1/notes", "x/", "a/b/c"} {
		native, err := vdb.CreateCollection(t.Context(), name, db.Schema{Dim: 2}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := native.Upsert(t.Context(), db.Document{ID: name, Vector: []float32{1, 1}}); err != nil {
			t.Fatal(err)
		}
		status, text := c.ask("GET", home+"/"+url.PathEscape(name), "")
		if name == "a/b/c" { // in the database b of the tenant a
			c.fails("GET", home+"/"+url.PathEscape(name), "", http.StatusNotFound, name)
			continue
		}
		var have struct{ ID, Name string }
		if err := json.Unmarshal([]byte(text), &have); err != nil || status != http.StatusOK || have.Name != name {
			t.Fatalf("%q: %d %s", name, status, text)
		}
		if _, text := c.ask("POST", home+"/"+have.ID+"/get", `{}`); !strings.Contains(text, fmt.Sprintf(`"ids":[%q]`, name)) {
			t.Error(text)
		}
		c.ok("GET", home+"/"+url.PathEscape(name)+"/count", "", "1")
		c.ok("PUT", home+"/"+have.ID, fmt.Sprintf(`{"new_name":%q,"new_metadata":{"k":1}}`, name), "{}")
	}
	c.ok("GET", home+"_count", "", "4")
	c.ok("POST", "/tenants", `{"name":"a"}`, "{}")
	c.ok("POST", "/tenants/a/databases", `{"name":"b"}`, "{}")
	c.ok("GET", "/tenants/a/databases/b/collections/c", "", "")
	c.ok("DELETE", home+"/a%2Fb", "", "{}")
	c.fails("GET", home+"/a%2Fb", "", http.StatusNotFound, "a/b")
}

// Collections that were made in another way are there, too.
func TestNativeCollections(t *testing.T) {
	c, vdb := newClient(t, nil)
	native, err := vdb.CreateCollection(t.Context(), "native", db.Schema{Dim: 2, Metric: db.Cosine}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := native.Upsert(t.Context(), db.Document{ID: "a", Vector: []float32{1, 1}, Metadata: db.Metadata{"deep": map[string]any{"k": int64(1)}}}, db.Document{ID: "bare"}); err != nil {
		t.Fatal(err)
	}
	_, text := c.ask("GET", home+"/native", "")
	var have struct{ ID string }
	if err := json.Unmarshal([]byte(text), &have); err != nil {
		t.Fatal(text)
	}
	path := home + "/" + have.ID
	c.ok("POST", path+"/query", `{"query_embeddings":[[2,2]],"include":["metadatas"],"where":{"deep.k":1}}`,
		`{"ids":[["a"]],"metadatas":[[{"deep":{"k":1}}]],"distances":null,"embeddings":null,"uris":null,"documents":null,"include":["metadatas"]}`)
	c.ok("POST", path+"/query", `{"query_embeddings":[[2,2]],"include":[],"ids":["bare"]}`, "")
	// The id stays when the name changes, unless it changes by other means.
	c.ok("PUT", path, `{"new_name":"renamed"}`, `{}`)
	c.ok("GET", path+"/count", "", "2")
	if err := vdb.Rename(t.Context(), "renamed", "again"); err != nil {
		t.Fatal(err)
	}
	c.fails("GET", path+"/count", "", http.StatusNotFound, "not found")
	c.ok("GET", home+"/again/count", "", "2")
}

func TestMistakes(t *testing.T) {
	c, _ := newClient(t, &Options{Body: 1 << 16, Records: 5, Results: 10, Answer: 100})
	path := c.fruits()
	deep := strings.Repeat(`{"$and":[`, 2000) + `{"a":1}` + strings.Repeat("]}", 2000)
	for _, tt := range []struct {
		call, body string
		status     int
		message    string
	}{
		{"add", ``, 400, "body"},
		{"add", `{`, 400, "body"},
		{"add", `[]`, 400, "request body: unexpected array at byte 1"},
		{"add", `{"ids":"a"}`, 400, "request body: ids: unexpected string at byte 10"},
		{"add", `{"ids":[]}`, 400, "0 ids"},
		{"add", `{"ids":["1","2","3","4","5","6"],"embeddings":[]}`, 400, "6 ids"},
		{"add", `{"ids":["x"]}`, 400, "0 embeddings for 1 ids"},
		{"add", `{"ids":["x"],"embeddings":[null]}`, 400, "missing"},
		{"add", `{"ids":["x"],"embeddings":[[1,2]],"metadatas":[{"a":9223372036854775808}]}`, 400, `offset 5: "metadata"`},
		{"add", `{"ids":["x","x"],"embeddings":[[1,2],[1,2]]}`, 400, "comes twice"},
		{"add", `{"ids":[""],"embeddings":[[1,2]]}`, 400, "empty"},
		{"add", `{"ids":["\u0000"],"embeddings":[[1,2]]}`, 400, "id"},
		{"add", `{"ids":["\ud800"],"embeddings":[[1,2]]}`, 400, "half a surrogate pair at byte 9"},
		{"add", "{\"ids\":[\"\xff\"],\"embeddings\":[[1,2]]}", 400, "invalid UTF-8"},
		{"add", `{"ids":["x"],"embeddings":[[1]]}`, 400, "dimension"},
		{"add", `{"ids":["x"],"embeddings":[[]]}`, 400, ""},
		{"add", `{"ids":["x"],"embeddings":[["a","b"]]}`, 400, "embedding"},
		{"add", `{"ids":["x"],"embeddings":[[1e99,0]]}`, 400, "embedding"},
		{"add", `{"ids":["x"],"embeddings":["!"]}`, 400, "base64"},
		{"add", `{"ids":["x"],"embeddings":["AAAA"]}`, 400, "base64"},
		{"add", `{"ids":["x"],"embeddings":["AADAfwAAwH8="]}`, 400, "x"}, // NaN
		{"add", `{"ids":["x"],"embeddings":[[1,2]],"metadatas":[{"$a":1}]}`, 400, "$a"},
		{"add", `{"ids":["x"],"embeddings":[[1,2]],"metadatas":["a"]}`, 400, "x"},
		{"add", `{"ids":["x"],"embeddings":[[1,2]],"metadatas":[]}`, 400, "metadatas"},
		{"add", `{"ids":["x"],"embeddings":[[1,2]],"documents":[1]}`, 400, "body"},
		{"add", `{"ids":["` + strings.Repeat("x", 1<<16) + `"]}`, 413, "larger"},
		{"get", `{"ids":["1","2","3","4","5","6"]}`, 400, "6 ids"},
		{"get", `{"limit":-1}`, 400, "negative"},
		{"get", `{"include":["distances"]}`, 400, "distances"},
		{"get", `{"include":["nothing"]}`, 400, "nothing"},
		{"get", `{"where":[]}`, 400, "where"},
		{"get", `{"where":{"a":{}}}`, 400, "where"},
		{"get", `{"where":{"a":{"$from":1}}}`, 400, "$from"},
		{"get", `{"where":{"a":{"$in":1}}}`, 400, "$in"},
		{"get", `{"where":{"a":[1]}}`, 400, "$eq"},
		{"get", `{"where":{"a":{"$gt":true}}}`, 400, "where"},
		{"get", `{"where":{"a":{"$eq":{"b":1}}}}`, 400, "an object is no value to compare with"},
		{"get", `{"where":{"a":{"$in":[[1]]}}}`, 400, "a list is no value to compare with"},
		{"get", `{"where":{"$not":{"a":1}}}`, 400, "$not"},
		{"get", `{"where":{"$and":[]}}`, 400, "$and"},
		{"get", `{"where":{"$and":{}}}`, 400, "$and"},
		{"get", `{"where":` + deep + `}`, 400, "where"},
		{"get", `{"where":{"#id":{"$in":[1]}}}`, 400, "#id"},
		{"get", `{"where":{"#id":{"$gt":"a"}}}`, 400, "#id"},
		{"get", `{"where_document":{"$contains":1}}`, 400, "$contains"},
		{"get", `{"where_document":{"$contains":""}}`, 400, "$contains"},
		{"get", `{"where_document":{"a":"b"}}`, 400, "unknown operator"},
		{"get", `{"where_document":{"$regex":"("}}`, 400, "$regex"},
		{"get", `{"where_document":{"$regex":"((((a{1000}){1000}){1000}){1000})"}}`, 400, "$regex"},
		{"get", `{"where_document":{"$regex":"` + strings.Repeat("a", maxPattern+1) + `"}}`, 400, "limit"},
		{"get", `{"include":["embeddings","documents","metadatas"]}`, 400, "too large"},
		{"query", `{}`, 400, "0 query embeddings"},
		{"query", `{"query_embeddings":[[1,0]],"n_results":0}`, 400, "results"},
		{"query", `{"query_embeddings":[[1,0]],"n_results":11}`, 400, "results"},
		{"query", `{"query_embeddings":[[1,0,0]]}`, 400, "dimension"},
		{"query", `{"query_embeddings":[null]}`, 400, "dimension"},
		{"query", `{"query_embeddings":["AADAfwAAwH8="]}`, 400, "finite"},
		{"query", `{"query_embeddings":[[1,0]],"where":{"a":{"$x":1}}}`, 400, "$x"},
		{"delete", `{"where":{"a":{"$x":1}}}`, 400, "$x"},
	} {
		c.fails("POST", path+"/"+tt.call, tt.body, tt.status, tt.message)
	}
	c.ok("GET", path+"/count", "", "3")
	c.fails("POST", home, `{"name":"taken","metadata":{"`+own+`":1}}`, http.StatusBadRequest, own)
	c.fails("POST", home, `{"name":"bad","metadata":{"$x":1}}`, http.StatusBadRequest, "$x")
	c.fails("GET", home+"/bad", "", http.StatusNotFound, "bad") // nothing is left of it
	c.fails("GET", home+"?limit=-1", "", http.StatusBadRequest, "limit")
	c.fails("GET", home+"/"+strings.Repeat("x", 5000), "", http.StatusNotFound, "")
	c.fails("GET", home+"/%00", "", http.StatusNotFound, "")
	c.fails("GET", "/tenants/%00", "", http.StatusNotFound, "")
	c.fails("GET", "/tenants/"+strings.Repeat("x", 5000), "", http.StatusNotFound, "")
}

func TestWrites(t *testing.T) {
	for call, want := range map[string]bool{"GET " + home: false, "POST " + home + "/x/get": false, "POST " + home + "/x/query": false, "POST " + home + "/x/add": true,
		"POST " + home: true, "DELETE " + home + "/x": true, "PUT " + home + "/x": true, "POST /tenants": true, "POST " + home + "/get": false} {
		method, path, _ := strings.Cut(call, " ")
		if have := Writes(httptest.NewRequestWithContext(t.Context(), method, "/api/v2"+path, nil)); have != want {
			t.Errorf("%s: %v", call, have)
		}
	}
	// What looks like a read, and is none, does not exist.
	c, _ := newClient(t, nil)
	c.fails("POST", home+"/get", `{"name":"xyz"}`, http.StatusBadRequest, "not supported")
}

// Clients that write the same ids at the same time all succeed.
func TestConcurrentWrites(t *testing.T) {
	c, _ := newClient(t, nil)
	path := c.create(`{"name":"busy"}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 10 {
				for _, call := range []string{"upsert", "add"} {
					if status, text := c.ask("POST", path+"/"+call, fmt.Sprintf(`{"ids":["a%d","b%d"],"embeddings":[[1],[2]]}`, i, i)); status != http.StatusOK {
						t.Error(call, status, text)
					}
				}
				if status, text := c.ask("POST", path+"/delete", fmt.Sprintf(`{"ids":["a%d"]}`, i)); status != http.StatusOK {
					t.Error("delete", status, text)
				}
			}
		})
	}
	wg.Wait()
	c.ok("GET", path+"/count", "", "10")
}

// TestAnswersAreOfOneState asks for many records, page by page, while a write changes two of them
// together again and again: an answer has both as of one moment.
func TestAnswersAreOfOneState(t *testing.T) {
	c, _ := newClient(t, nil)
	path := c.create(`{"name":"busy"}`)
	const n = 3000
	var ids, vectors []string
	for i := range n {
		ids, vectors = append(ids, fmt.Sprintf(`"i%04d"`, i)), append(vectors, "[1,0]")
	}
	status, text := c.ask("POST", path+"/upsert", fmt.Sprintf(`{"ids":[%s],"embeddings":[%s]}`, strings.Join(ids, ","), strings.Join(vectors, ",")))
	if status != http.StatusOK {
		t.Fatal(text)
	}
	asked := make(chan struct{})
	var wg sync.WaitGroup
	write := func(v int) {
		if status, text := c.ask("POST", path+"/update", fmt.Sprintf(`{"ids":[%s,%s],"metadatas":[{"v":%d},{"v":%d}]}`, ids[0], ids[n-1], v, v)); status != http.StatusOK {
			t.Error(status, text)
		}
	}
	write(0)
	wg.Go(func() {
		for v := 1; ; v++ {
			select {
			case <-asked:
				return
			default:
				write(v)
			}
		}
	})
	for range 30 {
		var got struct{ Metadatas []struct{ V int } }
		status, text := c.ask("POST", path+"/get", `{"include":["metadatas"]}`)
		if err := json.Unmarshal([]byte(text), &got); status != http.StatusOK || err != nil {
			t.Fatal(status, err)
		}
		if first, last := got.Metadatas[0].V, got.Metadatas[n-1].V; first != last {
			t.Errorf("versions %d and %d in one answer", first, last)
		}
	}
	close(asked)
	wg.Wait()
}

func FuzzCondition(f *testing.F) {
	f.Add(`{"a":1}`, `{"$contains":"x"}`)
	f.Add(`{"$or":[{"a":{"$in":[1,2]}},{"#document":{"$regex":"x+"}},{"#id":{"$ne":"a"}}]}`, `{"$and":[{"$not_contains":"x"}]}`)
	f.Fuzz(func(t *testing.T, where, document string) {
		c, err := parseCondition(t.Context(), json.RawMessage(where), json.RawMessage(document))
		if err != nil || c.expr == nil {
			return
		}
		d := &db.Document{ID: "a", Text: "xyz", Metadata: db.Metadata{"a": int64(1)}}
		matches, err := c.match(d)
		if err != nil {
			t.Fatal(err)
		}
		if matches && !filter.Match(c.native(), func(path string) (any, bool) { return filter.Lookup(d.Metadata, path) }) {
			t.Error("a document that matches is not in what the database looks at")
		}
	})
}

// processes returns clients of two processes with one database. The first leads.
func processes(t *testing.T) (leader, other *client, leads, follows *db.DB) {
	leads, follows = dbtest.Share(t, db.Open, &db.Options{Sync: db.SyncNever})
	return &client{t, New(leads, nil)}, &client{t, New(follows, nil)}, leads, follows
}

// TestDatabaseOfAnotherProcess: a database is deleted with the collections that other processes
// have just created in it.
func TestDatabaseOfAnotherProcess(t *testing.T) {
	leader, other, leads, _ := processes(t)
	const databases = "/tenants/default_tenant/databases"
	for range 50 {
		leader.ok("POST", databases, `{"name":"lab"}`, `{}`)
		if status, text := leader.ask("POST", databases+"/lab/collections", `{"name":"new"}`); status != http.StatusOK {
			t.Fatal(text)
		}
		other.ok("DELETE", databases+"/lab", "", `{}`)
		infos, err := leads.Collections()
		if err != nil || len(infos) > 1 || len(infos) == 1 && infos[0].Name != Registry {
			t.Fatal(infos, err)
		}
	}
}

// TestCollectionOfADeletedDatabase: a collection that is made while another client deletes its
// database does not stay behind, whichever comes first.
func TestCollectionOfADeletedDatabase(t *testing.T) {
	leader, other, leads, _ := processes(t)
	const databases = "/tenants/default_tenant/databases"
	check := func() {
		t.Helper()
		infos, err := leads.Collections()
		if err != nil || len(infos) > 1 || len(infos) == 1 && infos[0].Name != Registry {
			t.Fatal(infos, err)
		}
	}
	for i := range 200 {
		leader.ok("POST", databases, `{"name":"lab"}`, `{}`)
		var both sync.WaitGroup
		both.Go(func() { other.ask("DELETE", databases+"/lab", "") })
		both.Go(func() {
			for n := range 1 + i%8 {
				leader.ask("POST", databases+"/lab/collections", fmt.Sprintf(`{"name":"new%d"}`, n))
			}
		})
		both.Wait()
		check()
	}
}

// TestCollectionWithoutADatabase: the call that makes a collection drops it if its database is
// gone. So does the call that deletes the database, unless it is there again.
func TestCollectionWithoutADatabase(t *testing.T) {
	c, vdb := newClient(t, nil)
	a, lab := New(vdb, nil), space{defaultTenant, "lab"}
	made := func() *db.Collection {
		t.Helper()
		made, err := vdb.CreateCollection(t.Context(), lab.prefix()+"new", db.Schema{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	there := func(want bool) {
		t.Helper()
		if _, err := vdb.Collection(lab.prefix() + "new"); (err == nil) != want {
			t.Errorf("the collection is there: %t, want %t", !want, want)
		}
	}
	if err := a.keep(t.Context(), lab, made()); rest.Status(err) != http.StatusNotFound {
		t.Error(err)
	}
	there(false)
	gone, cancel := context.WithCancel(t.Context()) // of a client that does not wait
	cancel()
	if err := a.keep(gone, lab, made()); rest.Status(err) != http.StatusNotFound {
		t.Error(err)
	}
	there(false)
	made()
	if err := a.sweep(gone, lab); err != nil {
		t.Error(err)
	}
	there(false)
	c.ok("POST", "/tenants/default_tenant/databases", `{"name":"lab"}`, `{}`)
	if err := errors.Join(a.keep(t.Context(), lab, made()), a.sweep(t.Context(), lab)); err != nil {
		t.Error(err)
	}
	there(true)
}

// Whether a record is added or updated depends on what other processes have just written.
func TestRecordsOfAnotherProcess(t *testing.T) {
	leader, other, _, follower := processes(t)
	path := leader.create(`{"name":"shared"}`)
	if err := follower.Barrier(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		leader.ok("POST", path+"/add", `{"ids":["a"],"embeddings":[[1]],"documents":["added"]}`, `{}`)
		other.ok("POST", path+"/update", `{"ids":["a"],"documents":["updated"]}`, `{}`)
		leader.ok("POST", path+"/get", `{"ids":["a"],"include":["documents"]}`, `{"ids":["a"],"documents":["updated"],
			"embeddings":null,"metadatas":null,"uris":null,"include":["documents"]}`)
		leader.ok("POST", path+"/delete", `{"ids":["a"]}`, `{"deleted":1}`)
		other.ok("POST", path+"/add", `{"ids":["a"],"embeddings":[[1]]}`, `{}`)
		leader.ok("POST", path+"/delete", `{"ids":["a"]}`, `{"deleted":1}`)
		if t.Failed() {
			return
		}
	}
}

// TestSwapOfAnotherProcess: another process has just given the name of a collection to a new one.
// The collection with the id of a request is deleted, or renamed, and no other.
func TestSwapOfAnotherProcess(t *testing.T) {
	leader, other, leads, _ := processes(t)
	names := func() (names []string) {
		infos, err := leads.Collections()
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range infos {
			names = append(names, info.Name)
		}
		return names
	}
	for range 50 {
		path := leader.create(`{"name":"live"}`)
		space := path[:strings.LastIndexByte(path, '/')]
		other.ok("PUT", path, `{"new_metadata":{"a":1}}`, `{}`) // it knows the collection
		leader.ok("PUT", path, `{"new_name":"old"}`, `{}`)
		leader.create(`{"name":"live"}`)
		other.ok("PUT", path, `{"new_name":"older"}`, `{}`)
		if got := names(); !slices.Equal(got, []string{"live", "older"}) {
			t.Fatal(got)
		}
		leader.ok("PUT", path, `{"new_name":"old"}`, `{}`)
		leader.ok("PUT", space+"/live", `{"new_name":"older"}`, `{}`)
		other.ok("DELETE", path, "", `{}`)
		if got := names(); !slices.Equal(got, []string{"older"}) {
			t.Fatal(got)
		}
		leader.ok("DELETE", space+"/older", "", `{}`)
	}
}

// TestCollectionOfAnotherProcess: a database and a collection are found that another process has
// just created.
func TestCollectionOfAnotherProcess(t *testing.T) {
	leader, other, _, _ := processes(t)
	const databases = "/tenants/default_tenant/databases"
	for i := range 50 {
		path := leader.create(fmt.Sprintf(`{"name":"new%d"}`, i))
		other.ok("GET", path+"/count", "", "0")
		name := fmt.Sprint("lab", i)
		leader.ok("POST", databases, fmt.Sprintf(`{"name":%q}`, name), `{}`)
		other.ok("GET", databases+"/"+name+"/collections", "", `[]`)
		if t.Failed() {
			return
		}
	}
	// A request without time left to ask the leader does not say that there is no such collection.
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for i := range 10 {
		path := leader.create(fmt.Sprintf(`{"name":"late%d"}`, i))
		answer := httptest.NewRecorder()
		other.h.ServeHTTP(answer, httptest.NewRequestWithContext(expired, "GET", "/api/v2"+path+"/count", nil))
		if answer.Code == http.StatusNotFound {
			t.Error(answer.Body)
		}
	}
}

// TestModels: documents of a collection that is pinned to a model get embeddings. A document that
// changes takes the old embedding with it, also one without words, as in the other API.
func TestModels(t *testing.T) {
	models := vectorize.New(vectorize.Options{})
	c, vdb := newClient(t, &Options{Models: models})
	path := c.create(`{"name":"pinned"}`)
	coll, err := vdb.Collection("pinned")
	if err == nil {
		err = models.Collection(coll).Pin(t.Context(), embed.Config{Provider: "mock", Model: "trigram-v1", Dimensions: 384})
	}
	if err != nil {
		t.Fatal(err)
	}
	vector := func() []float32 {
		t.Helper()
		d, err := coll.Get(t.Context(), "a", db.WithVector)
		if err != nil {
			t.Fatal(err)
		}
		return d.Vector
	}
	c.ok("POST", path+"/add", `{"ids":["a"],"documents":["tides"]}`, `{}`)
	first := vector()
	c.ok("POST", path+"/update", `{"ids":["a"],"metadatas":[{"k":1}]}`, `{}`)
	if v := vector(); len(v) != 384 || !slices.Equal(v, first) {
		t.Errorf("a change of metadata alone left %d components", len(v))
	}
	c.ok("POST", path+"/update", `{"ids":["a"],"documents":["moons"]}`, `{}`)
	if v := vector(); len(v) != 384 || slices.Equal(v, first) {
		t.Errorf("another document left %d components", len(v))
	}
	c.ok("POST", path+"/update", `{"ids":["a"],"documents":[" "]}`, `{}`)
	if v := vector(); len(v) != 0 {
		t.Errorf("a document without words left %d components", len(v))
	}
	c.fails("POST", path+"/upsert", `{"ids":["a"],"documents":[""]}`, http.StatusBadRequest, `id "a": embedding: missing`)
}
