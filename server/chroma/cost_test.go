package chroma

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"regexp/syntax"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vecbolt/vecbolt/db"
	"github.com/vecbolt/vecbolt/server/internal/rest"
)

// What a pattern is said to cost is at least what it is compiled to.
func TestProgramSize(t *testing.T) {
	patterns := []string{"", "a", "abc", "a|b|c", "[a-z]+", `\pL{3,50}`, "(?i)straße", "(a{0,30}){0,30}", "(x{10}){20}(y{3,})", "a{1000}", "(a|b){2,}", ".*(foo|bar).*$", `\bword\b`,
		"((a?){20}){20}", "(?:(?:a*)*)*", "x{0}", "(((x{7}){11}){3})", "[^a]{5,}", "^$", "(?s).{1,999}"}
	for _, p := range patterns {
		parsed, err := syntax.Parse(p, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		size := programSize(parsed)
		program, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			t.Fatal(err)
		}
		if most := 3*size + 4; len(program.Inst) > most { // loops, and the ends of groups
			t.Errorf("%q has %d instructions, and is said to have %d", p, len(program.Inst), size)
		}
	}
}

// What asks for more than a condition may cost is refused before anything is made of it, by the
// name of the limit.
func TestConditionLimits(t *testing.T) {
	c, _ := newClient(t, nil)
	path := c.create(`{"name":"ccc"}`)
	c.ok("POST", path+"/add", `{"ids":["a"],"embeddings":[[1,0]],"documents":["text"]}`, "")
	patterns := func(n int, p string) string {
		return `{"where_document":{"$or":[` + strings.Repeat(`{"$regex":"`+p+`"},`, n-1) + `{"$regex":"` + p + `"}]}}`
	}
	for _, tt := range []struct{ body, message string }{
		{patterns(maxPatterns+1, "x"), "more than 32 patterns"},
		{patterns(8, "(x{0,30}){0,30}"), "instructions"},
		{patterns(1, strings.Repeat("x{1000}", 100)), "instructions"},
		{patterns(1, strings.Repeat(`\\pL`, 300)), "instructions"},
		{`{"where":` + strings.Repeat(`{"$and":[`, maxDepth) + strings.Repeat(`]}`, maxDepth) + `}`, "nested deeper"},
		{`{"where":{"a":{"$in":[` + strings.Repeat("1,", maxElements) + `1]}}}`, "values, the limit"},
		{`{"where":{"a":"` + strings.Repeat("x", maxWhere) + `"}}`, "bytes, the limit"},
		{`{"where_document":{"$contains":"` + strings.Repeat("x", maxWhere) + `"}}`, "bytes, the limit"},
	} {
		for _, call := range []string{"get", "query", "delete"} {
			body := tt.body
			if call == "query" {
				body = `{"query_embeddings":[[1,0]],` + body[1:]
			}
			c.fails("POST", path+"/"+call, body, http.StatusBadRequest, tt.message)
		}
	}
	c.ok("POST", path+"/get", patterns(maxPatterns, "te.t"), "")
	c.ok("GET", path+"/count", "", "1")
}

// countdown is a context that ends when it was looked at so often.
type countdown struct {
	context.Context
	looks atomic.Int64
}

func (c *countdown) Err() error {
	if c.looks.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// A pattern on one long text ends with the request, in the middle of it; and looked at that way it
// finds what it finds.
func TestPatternsEndWithTheRequest(t *testing.T) {
	text := strings.Repeat("aaaaaaaaab ", 20_000)
	for _, p := range []string{"(a*)*c", "(x|a){0,900}z", "b a+b $", "^aaa"} {
		raw, err := json.Marshal(map[string]string{"$regex": p})
		if err != nil {
			t.Fatal(err)
		}
		ctx := &countdown{Context: t.Context()}
		const enough = 1 << 40
		ctx.looks.Store(enough)
		c, err := parseCondition(ctx, nil, raw)
		if err != nil {
			t.Fatal(err)
		}
		matches, err := c.match(&db.Document{Text: text})
		if want := regexp.MustCompile(p).MatchString(text); err != nil || matches != want {
			t.Errorf("%s: %v, want %v: %v", p, matches, want, err)
		}
		looks := enough - ctx.looks.Load()
		if p != "^aaa" && looks < int64(len(text)/1000) {
			t.Errorf("%s: %d looks at the context in %d bytes", p, looks, len(text))
		}
		for _, n := range []int64{0, 1, looks / 2, looks - 1} {
			ctx.looks.Store(n)
			if _, err := c.match(&db.Document{Text: text}); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: ended at look %d of %d: %v", p, n, looks, err)
			}
		}
	}
}

// What an answer holds counts as memory, before it is sent.
func TestAnswersCountAsMemory(t *testing.T) {
	_, vdb := newClient(t, nil)
	coll, err := vdb.CreateCollection(t.Context(), "c", db.Schema{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var docs []db.Document
	for i := range 200 {
		docs = append(docs, db.Document{ID: fmt.Sprint(i), Text: strings.Repeat("x", 100_000), Vector: []float32{1}})
	}
	if _, err := coll.Upsert(t.Context(), docs...); err != nil {
		t.Fatal(err)
	}
	const most = 10 << 20
	refusal := errors.New("no more")
	var held int64
	a := New(vdb, nil)
	ctx := rest.WithMemory(t.Context(), func(n int64) error {
		if held += n; held > most {
			return refusal
		}
		return nil
	})
	found, err := a.find(ctx, coll, nil, &condition{ctx: ctx, own: map[string]func(*db.Document) bool{}}, [][]float32{{1}}, 200)
	if err != nil || len(found[0]) != 200 {
		t.Fatal(len(found[0]), err)
	}
	if found[0][0].Text != "" {
		t.Error("texts of all hits are in memory at once")
	}
	left, row := a.allowance(ctx), newColumns(partSet{documents: true})
	for i := range docs {
		if err = row.add(&docs[i], partSet{documents: true}, left); err != nil {
			break
		}
	}
	if !errors.Is(err, refusal) {
		t.Errorf("20 MB in an answer: %v, %d bytes counted", err, held)
	}
}

// Documents are read a few at a time, whatever selects them: each may have a text of 16 MiB.
func TestFewDocumentsAtATime(t *testing.T) {
	_, vdb := newClient(t, nil)
	coll, err := vdb.CreateCollection(t.Context(), "c", db.Schema{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const n, size = 160, 100_000
	var docs []db.Document
	var ids []string
	for i := range n {
		ids = append(ids, fmt.Sprintf("%03d", i))
		docs = append(docs, db.Document{ID: ids[i], Text: strings.Repeat("x", size)})
	}
	if _, err := coll.Upsert(t.Context(), docs...); err != nil {
		t.Fatal(err)
	}
	contains, err := parseCondition(t.Context(), nil, []byte(`{"$contains":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	everything := &condition{ctx: t.Context()}
	for _, tt := range []struct {
		what string
		ids  []string
		cond *condition
		want db.Select
	}{
		{"all", nil, everything, db.WithText}, {"ids", ids, everything, db.WithText},
		{"a condition", nil, contains, db.IDsOnly}, {"ids and a condition", ids, contains, db.IDsOnly},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		seen := 0
		for d, err := range documents(t.Context(), coll, tt.ids, tt.cond, window{}, tt.want) {
			if err != nil || d.ID != ids[seen] || len(d.Text) != size {
				t.Fatalf("%s: %v, %v", tt.what, d, err)
			}
			if seen == 0 {
				runtime.ReadMemStats(&after)
			}
			seen++
		}
		if read := (after.TotalAlloc - before.TotalAlloc) / size; seen != n || read > n/2 {
			t.Errorf("%s: %d documents, %d of them read for the first", tt.what, seen, read)
		}
	}
}

// The elements of lists in metadata count towards the limit of an answer.
func TestListsCountInAnswers(t *testing.T) {
	c, _ := newClient(t, &Options{Answer: 100_000})
	path := c.create(`{"name":"ccc"}`)
	list := func(n int) string { return "[1" + strings.Repeat(",1", n-1) + "]" }
	c.ok("POST", path+"/add", `{"ids":["a","b"],"embeddings":[[1,0],[1,0]],"metadatas":[{"list":`+list(10_000)+`},{"list":`+list(100)+`}]}`, "")
	c.ok("POST", path+"/get", `{"ids":["b"]}`, "")
	for _, call := range []string{"get", "query"} {
		c.fails("POST", path+"/"+call, `{"query_embeddings":[[1,0]],"include":["metadatas"]}`, http.StatusBadRequest, "the answer is too large")
	}
}
