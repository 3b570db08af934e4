package weaviate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/filter"
	"github.com/vecbolt/vecbolt/store"
)

// The numbers of traps are those of docs/stores.md. What is played back here was
// recorded from Weaviate 1.35.2.

// A node plays a server: answers are looked up by method and path.
type node struct {
	*httptest.Server
	mu    sync.Mutex
	calls []call
	play  map[string]func(c call) (int, string)
}

type call struct {
	what  string // "GET /v1/meta"
	query string
	body  string
}

func newNode(t *testing.T) *node {
	n := &node{play: map[string]func(call) (int, string){}}
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the client has gone
		}
		c := call{r.Method + " " + r.URL.Path, r.URL.RawQuery, string(body)}
		n.mu.Lock()
		n.calls = append(n.calls, c)
		play := n.play[c.what]
		n.mu.Unlock()
		if play == nil {
			http.Error(w, `{"error":[{"message":"not played: `+c.what+`"}]}`, http.StatusNotImplemented)
			return
		}
		status, answer := play(c)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(n.Close)
	n.on("GET /v1/meta", 200, `{"version":"1.35.2"}`)
	return n
}

func (n *node) on(what string, status int, answer string) {
	n.play[what] = func(call) (int, string) { return status, answer }
}

// sent returns the calls of one kind.
func (n *node) sent(what string) (calls []call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.calls {
		if c.what == what {
			calls = append(calls, c)
		}
	}
	return calls
}

func openNodes(t *testing.T, o *Options, nodes ...*node) *Store {
	t.Helper()
	var endpoints []string
	for _, n := range nodes {
		endpoints = append(endpoints, n.URL)
	}
	o.pause = time.Microsecond
	s, err := Open(t.Context(), endpoints, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

const docsClass = classPrefix + "docs"

// withClass makes a node know the collection "docs".
func (n *node) withClass(t *testing.T, replicas int) {
	schema, err := store.EncodeSchema(store.Schema{Dim: 2, Text: &db.TextIndex{}})
	if err != nil {
		t.Fatal(err)
	}
	about, err := json.Marshal(description{layout, "docs", schema, "n"})
	if err != nil {
		t.Fatal(err)
	}
	class, err := json.Marshal(map[string]any{"class": docsClass, "description": string(about), "replicationConfig": map[string]any{"factor": replicas}})
	if err != nil {
		t.Fatal(err)
	}
	n.on("GET /v1/schema/"+docsClass, 200, string(class))
}

func openDocs(t *testing.T, o *Options, replicas int, nodes ...*node) store.Collection {
	t.Helper()
	for _, n := range nodes {
		n.withClass(t, replicas)
	}
	c, err := openNodes(t, o, nodes...).Collection(t.Context(), "docs")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func succeed(c call) (int, string) {
	var batch struct{ Objects []json.RawMessage }
	if err := json.Unmarshal([]byte(c.body), &batch); err != nil {
		return 422, `{"error":[{"message":"` + err.Error() + `"}]}`
	}
	verdicts := make([]string, len(batch.Objects))
	for i := range verdicts {
		verdicts[i] = `{"result":{"status":"SUCCESS"}}`
	}
	return 200, "[" + strings.Join(verdicts, ",") + "]"
}

func docs(n int) (list []db.Document) {
	for i := range n {
		list = append(list, db.Document{ID: fmt.Sprint(i), Vector: []float32{1, 0}})
	}
	return list
}

// Several endpoints: a dead one and a broken one cost nothing but time, and are
// asked last from then on.
func TestEndpointsTakeTurns(t *testing.T) {
	dead, broken, good := newNode(t), newNode(t), newNode(t)
	c := openDocs(t, &Options{}, 3, dead, broken, good)
	dead.Close()
	broken.on("POST /v1/batch/objects", 503, "")
	good.play["POST /v1/batch/objects"] = succeed
	for range 9 {
		if err := c.Upsert(t.Context(), docs(1)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(good.sent("POST /v1/batch/objects")); n != 9 {
		t.Errorf("the good node got %d calls", n)
	}
	if n := len(broken.sent("POST /v1/batch/objects")); n > 2 {
		t.Errorf("the broken node got %d calls", n)
	}
	good.Close()
	err := c.Upsert(t.Context(), docs(1))
	if err == nil || !strings.Contains(err.Error(), "after 9 attempts") {
		t.Errorf("with no node left: %v", err)
	}
}

func TestOpenFailsWithoutNodes(t *testing.T) {
	n := newNode(t)
	n.Close()
	if _, err := Open(t.Context(), []string{n.URL}, &Options{pause: time.Microsecond}); err == nil {
		t.Error("opened without a node")
	}
	for _, endpoints := range [][]string{nil, {""}, {"http://"}, {"ftp://x"}, {"http://x/path"}} {
		if _, err := Open(t.Context(), endpoints, nil); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%q: %v", endpoints, err)
		}
	}
}

// Trap 3: two replicas fail as soon as one node does.
func TestTwoReplicasAreRefused(t *testing.T) {
	if _, err := Open(t.Context(), []string{"x:1"}, &Options{Replicas: 2}); !errors.Is(err, db.ErrInvalid) {
		t.Error(err)
	}
}

// Traps 4 and 5: a class with one replica does not know consistencyLevel; with
// three, it is QUORUM, and ALL for writes that ask for it.
func TestConsistencyLevels(t *testing.T) {
	for _, test := range []struct {
		replicas    int
		all         bool
		read, write string
	}{{1, false, "", ""}, {1, true, "", ""}, {3, false, "QUORUM", "QUORUM"}, {3, true, "QUORUM", "ALL"}} {
		n := newNode(t)
		c := openDocs(t, &Options{WriteAll: test.all}, test.replicas, n)
		n.on("POST /v1/graphql", 200, `{"data":{"Get":{"`+docsClass+`":[]}}}`)
		n.play["POST /v1/batch/objects"] = succeed
		n.on("GET "+c.(*collection).path("0"), 404, "")
		if _, err := c.Query(t.Context(), []float32{1, 0}, 3, nil); err != nil {
			t.Fatal(err)
		}
		if err := c.Upsert(t.Context(), docs(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Get(t.Context(), []string{"0"}); err != nil {
			t.Fatal(err)
		}
		if body := n.sent("POST /v1/graphql")[0].body; strings.Contains(body, "consistencyLevel:QUORUM") != (test.read != "") || strings.Contains(body, "onsistency") != (test.read != "") {
			t.Errorf("%+v: search %s", test, body)
		}
		if q := n.sent("GET " + c.(*collection).path("0"))[0].query; strings.Contains(q, "consistency_level="+test.read) != (test.read != "") {
			t.Errorf("%+v: read %s", test, q)
		}
		if q := n.sent("POST /v1/batch/objects")[0].query; strings.Contains(q, "consistency_level="+test.write) != (test.write != "") {
			t.Errorf("%+v: write %s", test, q)
		}
	}
}

// Trap 6: a call that hangs is given up and made elsewhere; that it was done all
// the same is noticed. Traps 16 and 18: what is created.
func TestCreateSurvivesAHang(t *testing.T) {
	slow, good := newNode(t), newNode(t)
	var made string
	var mu sync.Mutex
	get := func(call) (int, string) {
		mu.Lock()
		defer mu.Unlock()
		if made == "" {
			return 404, ""
		}
		return 200, made
	}
	hang := make(chan struct{})
	defer close(hang)
	for _, n := range []*node{slow, good} {
		n.play["GET /v1/schema/"+docsClass] = get
		n.on("GET /v1/cluster/statistics", 200, `{"statistics":[{"raft":{"latestConfiguration":[{"id":"a"},{"id":"b"},{"id":"c"}]}}]}`)
		n.play["POST /v1/schema"] = func(c call) (int, string) {
			mu.Lock()
			if made != "" {
				mu.Unlock()
				return 422, `{"error":[{"message":"class name ` + docsClass + ` already exists"}]}`
			}
			made = c.body // it is done, but the answer does not come
			mu.Unlock()
			<-hang
			return 200, "{}"
		}
	}
	s := openNodes(t, &Options{Timeout: 50 * time.Millisecond}, slow, good)
	c, err := s.Create(t.Context(), "docs", store.Schema{Dim: 2, Text: &db.TextIndex{}})
	if err != nil {
		t.Fatal(err)
	}
	if c.(*collection).replicas != 3 {
		t.Errorf("%d replicas", c.(*collection).replicas)
	}
	for _, want := range []string{`"stopwords":{"preset":"none"}`, `"desiredCount":3`, `"factor":3`, `"distance":"cosine"`, `"vectorizer":"none"`, `"asyncEnabled":true`} {
		if !strings.Contains(made, want) {
			t.Errorf("the class has no %s: %s", want, made)
		}
	}
	if _, err := s.Create(t.Context(), "docs", store.Schema{Dim: 2}); !errors.Is(err, db.ErrExists) {
		t.Errorf("again: %v", err)
	}
}

// Trap 8: counts come from Aggregate. Trap 7 is about what only a cluster does;
// see TestCluster.
func TestCountsAreAggregates(t *testing.T) {
	n := newNode(t)
	c := openDocs(t, &Options{}, 3, n)
	n.on("POST /v1/graphql", 200, `{"data":{"Aggregate":{"`+docsClass+`":[{"meta":{"count":42}}]}}}`)
	if got, err := c.Count(t.Context(), nil); err != nil || got != 42 {
		t.Errorf("%d, %v", got, err)
	}
	if calls := n.sent("GET /v1/nodes"); len(calls) > 0 {
		t.Error("the nodes were asked")
	}
}

// Trap 9: status 200 says nothing; each object has a verdict. One that is about
// the cluster is worth another attempt, one about the object is not.
func TestBatchVerdicts(t *testing.T) {
	for reason, again := range map[string]bool{"invalid text property 'docid' on class": false, "broadcast: cannot reach enough replicas": true,
		"127.0.0.1:18181: status code: 404, error: request not found": true, "": true} {
		n := newNode(t)
		c := openDocs(t, &Options{}, 3, n)
		n.play["POST /v1/batch/objects"] = func(c call) (int, string) {
			if again && len(n.sent("POST /v1/batch/objects")) > 1 {
				return succeed(c)
			}
			return 200, `[{"result":{"status":"SUCCESS"}},{"result":{"status":"FAILED","errors":{"error":[{"message":"` + reason + `"}]}}}]`
		}
		err := c.Upsert(t.Context(), docs(2))
		calls := n.sent("POST /v1/batch/objects")
		if again && (err != nil || len(calls) != 2) || !again && (err == nil || !strings.Contains(err.Error(), `document "1"`) || len(calls) != 1) {
			t.Errorf("%s: %d calls, %v", reason, len(calls), err)
		}
		if len(calls) == 2 && calls[0].body != calls[1].body {
			t.Error("the second attempt writes something else")
		}
	}
}

// Traps 10 and 12: ids are UUIDs of the id; no property is named by a key.
func TestObjects(t *testing.T) {
	n := newNode(t)
	c := openDocs(t, &Options{}, 1, n)
	n.play["POST /v1/batch/objects"] = succeed
	err := c.Upsert(t.Context(), []db.Document{{ID: "a/b ä", Text: "<t>", Metadata: db.Metadata{"a-b": int64(1<<53 + 1), "_id": "x", "größe": 1.0}}})
	if err != nil {
		t.Fatal(err)
	}
	var sent struct{ Objects []object }
	if err := json.Unmarshal([]byte(n.sent("POST /v1/batch/objects")[0].body), &sent); err != nil {
		t.Fatal(err)
	}
	o := sent.Objects[0]
	delete(o.Properties, "terms")
	want := map[string]any{"docid": "a/b ä", "text": "<t>", "meta": `{"_id":"x","a-b":9007199254740993,"größe":1.0}`}
	if diff := cmp.Diff(want, o.Properties); diff != "" || o.ID != objectID("a/b ä") || o.Class != docsClass {
		t.Errorf("%s %s %s", o.ID, o.Class, diff)
	}
}

// Trap 15: the cursor and a condition do not go together; deleting is limited
// and goes on.
func TestListingsAndDeletionsGoOn(t *testing.T) {
	n := newNode(t)
	c := openDocs(t, &Options{}, 1, n)
	n.on("POST /v1/graphql", 200, `{"data":{"Get":{"`+docsClass+`":[{"docid":"x","text":"","meta":"{\"k\":1}","_additional":{"id":"11111111-1111-1111-1111-111111111111"}}]}}}`)
	for i, where := range []filter.Expr{nil, filter.Eq("k", 1)} {
		p, err := c.Scan(t.Context(), "00000000-0000-0000-0000-000000000000", 1, where)
		if err != nil || p.Next != "11111111-1111-1111-1111-111111111111" || len(p.Documents) != 1 {
			t.Fatalf("%+v, %v", p, err)
		}
		body := n.sent("POST /v1/graphql")[i].body
		if strings.Contains(body, "after:") == (where != nil) || strings.Contains(body, "GreaterThan") == (where == nil) || strings.Contains(body, "offset") {
			t.Errorf("where %v: %s", where, body)
		}
	}
	left := 25
	n.play["DELETE /v1/batch/objects"] = func(call) (int, string) {
		gone := min(left, 10)
		left -= gone
		return 200, fmt.Sprintf(`{"results":{"matches":%d,"limit":10,"successful":%d,"failed":0}}`, gone, gone)
	}
	if got, err := c.DeleteWhere(t.Context(), filter.Eq("k", 1)); err != nil || got != 25 || left != 0 {
		t.Errorf("deleted %d, %d left, %v", got, left, err)
	}
}

// What an attempt deletes before it fails counts: the next attempt does not find it.
func TestDeletionsOfFailedAttemptsCount(t *testing.T) {
	n := newNode(t)
	c := openDocs(t, &Options{}, 1, n)
	left, failures := 5, 1
	n.play["DELETE /v1/batch/objects"] = func(call) (int, string) {
		matches, failed := left, 2*min(failures, 1)
		left, failures = failed, failures-1
		return 200, fmt.Sprintf(`{"results":{"matches":%d,"limit":10,"successful":%d,"failed":%d}}`, matches, matches-failed, failed)
	}
	if got, err := c.DeleteWhere(t.Context(), filter.Eq("k", 1)); err != nil || got != 5 || left != 0 {
		t.Errorf("deleted %d, %d left, %v", got, left, err)
	}
	left, failures = 5, 1000
	if got, err := c.DeleteWhere(t.Context(), filter.Eq("k", 1)); err == nil || got != 3 {
		t.Errorf("deleted %d, %d left, %v", got, left, err)
	}
}

// Trap 17: what has the wrong dimension never leaves.
func TestDimensionsAreChecked(t *testing.T) {
	n := newNode(t)
	c := openDocs(t, &Options{}, 1, n)
	before := len(n.calls)
	if _, err := c.Query(t.Context(), []float32{1}, 3, nil); !errors.Is(err, db.ErrDimensionMismatch) {
		t.Error(err)
	}
	if err := c.Upsert(t.Context(), []db.Document{{ID: "x", Vector: []float32{1, 2, 3}}}); !errors.Is(err, db.ErrDimensionMismatch) {
		t.Error(err)
	}
	if len(n.calls) != before {
		t.Errorf("%d calls", len(n.calls)-before)
	}
}

// An error of GraphQL comes with status 200. One about the cluster is tried
// again, another one is not.
func TestErrorsOfGraphQL(t *testing.T) {
	for reason, want := range map[string]int{"connect: Get \\\"http://127.0.0.1:1/\\\": connection refused": 3, "Unknown argument": 1} {
		n := newNode(t)
		c := openDocs(t, &Options{}, 1, n)
		n.on("POST /v1/graphql", 200, `{"data":{"Get":{"`+docsClass+`":null}},"errors":[{"message":"`+reason+`"}]}`)
		_, err := c.Query(t.Context(), []float32{1, 0}, 3, nil)
		if got := len(n.sent("POST /v1/graphql")); err == nil || got != want {
			t.Errorf("%s: %d calls, %v", reason, got, err)
		}
	}
}

// Answers of servers are not trusted: none makes the client panic, and none
// is taken for another.
func TestStrangeAnswers(t *testing.T) {
	for _, answer := range []string{"", "null", "[]", "{", `"x"`, `{"data":null}`, `{"data":{"Get":{}}}`, `{"data":{"Get":{"` + docsClass + `":[{"meta":"{","_additional":{}}]}}}`,
		`{"data":{"Get":{"` + docsClass + `":[{"docid":"a","meta":"{}","_additional":{"score":"x"}}]}}}`} {
		n := newNode(t)
		c := openDocs(t, &Options{}, 1, n)
		for _, what := range []string{"POST /v1/graphql", "POST /v1/batch/objects", "DELETE /v1/batch/objects", "GET " + c.(*collection).path("a")} {
			n.on(what, 200, answer)
		}
		ctx := t.Context()
		errs := map[string]error{}
		_, errs["query"] = c.Query(ctx, []float32{1, 0}, 3, nil)
		_, errs["text query"] = c.TextQuery(ctx, "x", 3, nil)
		_, errs["count"] = c.Count(ctx, nil)
		errs["upsert"] = c.Upsert(ctx, docs(1))
		for what, err := range errs {
			if err == nil {
				t.Errorf("%s takes %s", what, answer)
			}
		}
		_, _ = c.Get(ctx, []string{"a"})
		_, _ = c.Scan(ctx, "", 3, nil)
	}
}

func TestCancelledAndClosed(t *testing.T) {
	n := newNode(t)
	s := openNodes(t, &Options{}, n)
	n.withClass(t, 1)
	c, err := s.Collection(t.Context(), "docs")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Count(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := s.Collection(t.Context(), "other"); err == nil {
		t.Error("found")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Count(t.Context(), nil); !errors.Is(err, db.ErrClosed) {
		t.Error(err)
	}
	if err := c.Upsert(t.Context(), docs(1)); !errors.Is(err, db.ErrClosed) {
		t.Error(err)
	}
}

func TestParse(t *testing.T) {
	endpoints, o, err := Parse("weaviate://a:1,b:2?class=Docs&replicas=3&shards=6&scheme=https")
	if err != nil || !cmp.Equal(endpoints, []string{"https://a:1", "https://b:2"}) || o.Class != "Docs" || o.Replicas != 3 || o.Shards != 6 {
		t.Errorf("%q %+v %v", endpoints, o, err)
	}
	for _, bad := range []string{"", "http://a", "weaviate://a?x=1", "weaviate://a?replicas=z", "weaviate://a?%"} {
		if _, _, err := Parse(bad); !errors.Is(err, db.ErrInvalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestNoPasswords: a name, a password or a key in an address would not be sent. It is refused, and
// no error shows it.
func TestNoPasswords(t *testing.T) {
	for _, address := range []string{
		"weaviate://bob:hunter2@a:1", "weaviate://bob@a", "weaviate://bob:hun,ter2@a:1,b", "weaviate://bob:hunter2?x@a",
		"weaviate://bob:hunter2@a?%", "weaviat://bob:hunter2@a", "weaviate://bob:hunter2@a?replicas=z",
		"http://bob:hunter2@a:1", "bob:hunter2@a:1", "http://bob:hunter2@a:b", "http://bob:hunter2%zz@a", "ftp://bob@a",
		"weaviate://a?key=hunter2", "weaviate://a?key=hunter2;x", "weaviate://a?replicas=z&key=hunter2", "ftp://a?key=hunter2",
	} {
		_, _, err := Parse(address)
		_, opened := Open(t.Context(), []string{address}, nil)
		for _, err := range []error{err, opened} {
			if !errors.Is(err, db.ErrInvalid) || strings.Contains(err.Error(), "bob") || strings.Contains(err.Error(), "ter2") {
				t.Errorf("%s: %v", address, err)
			}
		}
	}
}

// A class of somebody else is neither read nor replaced, and a store that is
// bound to one class has one collection.
func TestForeignClasses(t *testing.T) {
	n := newNode(t)
	n.on("GET /v1/schema/Docs", 200, `{"class":"Docs","description":"of another program"}`)
	n.on("GET /v1/schema", 200, `{"classes":[{"class":"Docs","description":"of another program"},{"class":"Other"}]}`)
	n.on("GET /v1/cluster/statistics", 200, `{"statistics":[]}`)
	n.on("POST /v1/schema", 422, `{"error":[{"message":"class name Docs already exists"}]}`)
	s := openNodes(t, &Options{Class: "Docs"}, n)
	if _, err := s.Collection(t.Context(), "docs"); !errors.Is(err, db.ErrNotFound) || !strings.Contains(err.Error(), "class Docs is not") {
		t.Error(err)
	}
	if err := s.Drop(t.Context(), "docs"); !errors.Is(err, db.ErrNotFound) {
		t.Error(err)
	}
	if _, err := s.Create(t.Context(), "docs", store.Schema{Dim: 2}); !errors.Is(err, db.ErrInvalid) || !strings.Contains(err.Error(), "already exists") {
		t.Error(err)
	}
	if names, err := s.Collections(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("%q, %v", names, err)
	}
	about, err := json.Marshal(description{layout + 1, "docs", []byte(`{"dim":2}`), ""})
	if err != nil {
		t.Fatal(err)
	}
	class, err := json.Marshal(map[string]string{"class": "Docs", "description": string(about)})
	if err != nil {
		t.Fatal(err)
	}
	n.on("GET /v1/schema/Docs", 200, string(class))
	if _, err := s.Collection(t.Context(), "docs"); !errors.Is(err, db.ErrVersion) {
		t.Errorf("a later layout: %v", err)
	}
}

// The error for a collection that does not exist lists those that do, and stays as it is if the
// node cannot say.
func TestMissingCollection(t *testing.T) {
	n := newNode(t)
	n.withClass(t, 1)
	_, docs := n.play["GET /v1/schema/"+docsClass](call{})
	n.on("GET /v1/schema/"+classPrefix+"dogs", 404, ``)
	s := openNodes(t, &Options{}, n)
	calls := map[string]func() error{
		"Collection": func() error { _, err := s.Collection(t.Context(), "dogs"); return err },
		"Describe":   func() error { _, err := s.Describe(t.Context(), "dogs"); return err },
		"Drop":       func() error { return s.Drop(t.Context(), "dogs") },
	}
	for answer, want := range map[string]string{
		`{"classes":[` + docs + `,{"class":"Other"}]}`: `collection "dogs" not found; there is "docs"`,
		`{"classes":[]}`: `collection "dogs" not found; there is none`,
		`{`:              `collection "dogs" not found`,
	} {
		n.on("GET /v1/schema", 200, answer)
		for name, missing := range calls {
			if err := missing(); !errors.Is(err, db.ErrNotFound) || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
	}
}
